"""Random commands, legal or not: what is refused is refused by an error with a code.

`OPENWORK_REFUSAL_CASES` says how many sequences of commands per target, `OPENWORK_FUZZ_SEED` which.
"""

from __future__ import annotations

import os
import random
import traceback
from typing import Any

import pytest
from tests.random.schedules import random_command
from tests.random.test_property import mixed_case_of, statement_of

from openwork.errors import CODES, ParseError, ScheduleError
from openwork.index.nodes import Access, Expr, IndexVar, Literal
from openwork.index.show import show
from openwork.loops.nodes import OutputRaceStrategy, ParallelUnit
from openwork.loops.plan.nest import loop_variables
from openwork.loops.relations import BoundType
from openwork.loops.schedule.command import COMMANDS
from openwork.tensor.statement import Statement
from openwork.tree import walk

CASES = int(os.environ.get("OPENWORK_REFUSAL_CASES", "160"))
SEED = int(os.environ.get("OPENWORK_FUZZ_SEED", "0"))
CHUNKS = 8
SEQUENCES = 5  # of commands for a statement
COMPILED = 0.4  # of the sequences
LEGAL = 0.4  # of the commands, so that illegal ones meet deep nests


class Draw:
    """Arguments for commands on a statement: mostly of the right kind, often of no meaning."""

    def __init__(self, rng: random.Random, stmt: Statement) -> None:
        self.rng, self.stmt = rng, stmt
        nodes = [*walk(stmt._base.loops), *walk(stmt.assignment)]
        self.names = sorted({n.name for n in nodes if isinstance(n, IndexVar)} | {"z"})
        self.loops = [str(v) for v in loop_variables(stmt._base)] or ["z"]
        self.accesses = list(dict.fromkeys(n for n in nodes if isinstance(n, Access)))
        self.exprs = list(dict.fromkeys(n for n in nodes if isinstance(n, Expr))) or [Literal(1)]

    def command(self) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """A name, with arguments and options."""
        name = self.rng.choice(list(COMMANDS))
        signature = COMMANDS[name]
        if signature.many:
            return name, tuple(self._loop() for _ in range(self.rng.randint(0, 4))), {}
        args: list[Any] = []
        options: dict[str, Any] = {}
        for at, (key, kind) in enumerate(signature.parameters):
            if kind.endswith("?"):
                if self.rng.random() < 0.3:
                    options[key] = self._value(kind[:-1], key, at)
            elif self.rng.random() < 0.98:
                args.append(self._value(kind, key, at))
        return name, tuple(args), options

    def _loop(self) -> str:
        return self.rng.choice(self.loops if self.rng.random() < 0.85 else self.names)

    def _new(self, key: str) -> str:
        if self.rng.random() < 0.1:
            return self.rng.choice(self.names)
        return f"{key}_{len(self.names)}"

    def _value(self, kind: str, key: str, at: int) -> Any:
        rng = self.rng
        match kind:
            case "var":
                return self._new(key) if at and key != "j" and key != "i" else self._loop()
            case "vars":
                some = [self._loop() for _ in range(rng.choice((0, 1, 1, 1, 2)))]
                return some if key == "i" else [self._new(key) + str(n) for n in range(len(some))]
            case "int":
                return rng.choice((0, 1, 2, 3, 4, 7, 8, 16, 32, 64, -1, 2**40, 2**62))
            case "word":
                words = ("nnz", "gallop", "two_finger", "count", "append", "serial", "parallel")
                return rng.choice((*words, "segment", "of"))
            case "unit":
                return rng.choice(list(ParallelUnit))
            case "race":
                return rng.choice(list(OutputRaceStrategy))
            case "bound":
                return rng.choice(list(BoundType))
            case "access":
                access = rng.choice(self.accesses)
                return rng.choice((access, access.tensor.name, show(access)))
            case "expr":
                expr = rng.choice(self.exprs)
                return expr if rng.random() < 0.7 else show(expr)
            case "tensor" | "name":
                return rng.choice(("w", "A", "ws"))
            case "function":
                return rng.choice((lambda tensors, parts: [0] * (parts + 1), None, "cuts"))
            case "result":
                return rng.choice((self.stmt.assignment.lhs.tensor.name, "A"))
        raise AssertionError(f"no arguments of kind {kind}")


def refusal(error: Exception) -> bool:
    """Whether an error is one that the user is meant to see."""
    if isinstance(error, ScheduleError):
        return error.code in CODES
    return isinstance(error, ParseError) and error.code == "E108"  # a power that no GPU computes


def random_sequence(rng: random.Random, stmt: Statement) -> tuple[Statement, list[str]]:
    """`stmt` after what is legal of some random commands, and what was tried.

    Raises:
        AssertionError: a command was refused by an error without a code.
    """
    tried: list[str] = []
    for _ in range(rng.randint(1, 7)):
        if len(loop_variables(stmt._base)) > 8:
            break
        try:
            if rng.random() < LEGAL:
                tried.append("a legal command")
                stmt = random_command(rng, stmt)
                tried[-1] = f"legal: {stmt.commands}"
            else:
                name, args, options = Draw(rng, stmt).command()
                tried.append(f"{name}{args} {options}")
                stmt = getattr(stmt, name)(*args, **options)
                assert stmt == type(stmt)(stmt.assignment, stmt._given)
        except TypeError as error:
            if "positional argument" not in str(error) and "keyword" not in str(error):
                raise AssertionError(_told(error, stmt, tried)) from error
        except Exception as error:
            if not refusal(error):
                raise AssertionError(_told(error, stmt, tried)) from error
    return stmt, tried


def _told(error: Exception, stmt: Statement, tried: list[str]) -> str:
    lines = "".join(traceback.format_tb(error.__traceback__)[-3:])
    commands = "\n  ".join([stmt.commands, *tried[-1:]])
    return f"{type(error).__name__}: {error}\n{stmt}\n  {commands}\n{lines}"


def _unloaded(compiled: Any) -> Any:
    """Instead of a compiled function: only the text of kernels is of interest here."""
    return None


def bare_exceptions(seed: int, target: str) -> list[str]:
    """What sequences of commands for the statement of a seed raised, and compiling some of them."""
    failures: list[str] = []
    start = statement_of(mixed_case_of(seed))
    for n in range(SEQUENCES):
        rng = random.Random(SEQUENCES * seed + n)
        try:
            stmt, tried = random_sequence(rng, start)
            try:
                if rng.random() < COMPILED:
                    stmt.compile(target, loader=_unloaded)
            except Exception as error:
                if not refusal(error):
                    raise AssertionError(_told(error, stmt, tried)) from error
        except AssertionError as error:
            failures.append(f"seed {seed}: {error}")
    return failures


@pytest.mark.fuzz
@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_bare_exception_leaves_the_compiler(chunk: int, target: str) -> None:
    seeds = range(SEED + chunk, SEED + CASES // SEQUENCES, CHUNKS)
    failures = [failure for seed in seeds for failure in bare_exceptions(seed, target)]
    if failures:
        count = f"{len(failures)} of {SEQUENCES * len(seeds)} sequences raised a bare exception"
        pytest.fail("\n\n".join([count, *failures[:5]]), pytrace=False)
