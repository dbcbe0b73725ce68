"""Programs of patterns as users hold them: checked, shown, compiled and called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, cast

from openwork.errors import PatternError
from openwork.format.formats import Format
from openwork.frozen import frozen
from openwork.pipeline import to_c
from openwork.program import nodes as p
from openwork.program.show import show_program
from openwork.program.verify import verify
from openwork.skeletons.by_data import ByData
from openwork.skeletons.formulas import Formula, statement_of
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.check import HOLE, Checker
from openwork.skeletons.language.names import tidied
from openwork.skeletons.language.nodes import Signature, Type
from openwork.skeletons.lower.lower import Lowering
from openwork.skeletons.lower.lowered import Lowered
from openwork.skeletons.lower.units import nests
from openwork.skeletons.rules import RULES, Rule, for_gpu, has_units, rewritten
from openwork.skeletons.run.cpu import CpuKernel
from openwork.skeletons.run.gpu import GpuKernel
from openwork.skeletons.run.kernel import Kernel
from openwork.skeletons.run.tensors import Origin
from openwork.tensor.statement import Statement
from openwork.trace import Trace

SUMS = ("closed", "prefix", "loop")
_SPELLED = (("loops", "nested"), ("flat", "sums"), ("closed", "closed"), ("refined", "refined"))
TARGETS = ("cpu", "cuda", "cuda-emulated")


@contextmanager
def not_too_deep() -> Iterator[None]:
    """Programs that are nested deeper than Python's stack are refused.

    Raises:
        PatternError: E701 for such a program.
    """
    try:
        yield
    except RecursionError:
        raise PatternError(
            "the program is nested too deeply", code="E701",
            hint="cut it into several programs, or raise sys.setrecursionlimit",
        ) from None  # fmt: skip


@frozen
class Rewrite:
    """One step: the rule and its size, what it replaces and by what, and the program after it."""

    rule: str
    size: int
    before: str
    after: str
    program: Program

    def __str__(self) -> str:
        return f"{self.rule}: {self.before} => {self.after}"


class Program:
    """A program of patterns, whose types have been checked.

    Make one with `sk.program` or `sk.parse`.

    Args:
        signature: the program.
        origin: what a program that was a statement knows of its tensors.
        steps: the rewrites that led here.
    """

    def __init__(
        self, signature: Signature, origin: Origin | None = None, steps: tuple[Rewrite, ...] = ()
    ) -> None:
        self._origin = origin or Origin()
        self.steps = steps
        checker = Checker(signature)
        with not_too_deep():
            result = checker.program()
            self.signature, self.result = _without_holes(signature, result, checker)

    @property
    def text(self) -> str:
        """The program in the paper's text, which `sk.parse` reads."""
        return str(self.signature)

    @property
    def type(self) -> str:
        """The type: naturals, then parameters, then the result."""
        s = self.signature
        arrows = [f"nFun {name}." for name in s.nats]
        params = [f"({k}: {t}) ->" for k, t in zip(s.params, s.types, strict=True)]
        return " ".join([*arrows, *params, str(self.result)])

    def __repr__(self) -> str:
        return f"<program of patterns: {self.type}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.signature == other.signature

    def __hash__(self) -> int:
        return hash(self.signature)

    def compile(self, target: str = "cpu", sums: str = "closed") -> Kernel:
        """A kernel.

        Args:
            target: "cpu", "cuda", or "cuda-emulated".
                On a GPU a program without units that is a statement gets the schedule that index
                notation chooses by the data of each `bind`, and others get `with_units()`.
            sums: how sums of lengths are removed: "closed" forms where there are any, "prefix" sums
                that the host computes, or a "loop" wherever one is needed. What has no closed form
                gets prefix sums, and what these cannot express a loop.

        Raises:
            PatternError: E708 if parallel maps do not suit the target, E710 if a pattern has no
                loop.
        """
        _known(target, TARGETS, "target")
        _known(sums, SUMS, "sums")
        with not_too_deep():
            return self._compiled(target, sums)

    def _compiled(self, target: str, sums: str) -> Kernel:
        trace = Trace()
        for name, text in self._texts(sums, target):
            trace.run(name, lambda text=text: text, lambda text: text())  # type: ignore[misc]
        lowered = self._lowered(sums, target)
        program = self._program(lowered)
        verify(program)
        trace.run("lowered.c", lambda: program, show_program)
        for note in lowered.notes:
            trace.decide(note)
        if target != "cpu":
            usual = GpuKernel(self.signature, self.result, lowered, program, target, trace)
            usual.origin = self._origin
            formula = self._formula if sums == "closed" else None
            return usual if formula is None else ByData(usual, formula, target)
        made = CpuKernel(self.signature, self.result, lowered, *to_c(program, trace), trace)
        made.origin = self._origin
        return made

    @cached_property
    def _formula(self) -> Formula | None:
        """The program as a statement, if it is one, and has no units of its own."""
        if has_units(self.signature.body):
            return None
        made = Formula(self.signature, self.result)
        try:
            made.statement({})
        except PatternError:
            return None
        known = made.columns.keys() == made.matrices.keys()  # else nothing tells the columns
        return made if known else None

    def __call__(self, /, **data: Any) -> Any:
        """The result for this data, on the CPU."""
        return self._own(**data)

    @cached_property
    def _own(self) -> Kernel:
        return self.compile()

    def stages(self, target: str = "cpu", sums: str = "closed") -> dict[str, str]:
        """The text of every stage from patterns to the program that is rendered.

        In order: the patterns, loops over nested arrays, flat accesses with sums, the sums closed,
        offsets refined, and `toNat` inlined, which is the program.
        """
        _known(target, TARGETS, "target")
        _known(sums, SUMS, "sums")
        lowered = self._lowered(sums, target)
        program = self._program(lowered)
        texts = {name: text() for name, text in self._texts(sums, target)}
        return texts | {"program": show_program(program)}

    def _texts(self, sums: str, target: str) -> list[tuple[str, Callable[[], str]]]:
        """The stages before the program, each lowered when somebody wants to read it."""

        def shown(spelled: str) -> str:
            return show_program(self._program(self._lowered(sums, target, spelled)))

        spelled = _SPELLED if sums == "closed" else _SPELLED[:2]
        return [("patterns", lambda: self.text), *((k, partial(shown, how)) for k, how in spelled)]

    def to_statement(self, /, result: Format | None = None, **formats: Format) -> Statement:
        """The statement that a dense program is, over placeholders named like its parameters.

        Args:
            result: how the result is stored; dense, if it is left out.
            formats: how parameters are stored; dense, if left out.

        Raises:
            PatternError: E709 if it is none.
        """
        return statement_of(self.signature, self.result, formats, result)

    def rewrites(self, size: int = 4, rule: str | None = None) -> list[Rewrite]:
        """Every single step of the rules that applies: what it replaces, and the program after it.

        Args:
            size: of the pieces that rules make.
            rule: the only one to apply; all of them, if it is left out.

        Raises:
            PatternError: E706 if there is no such rule, E707 for an impossible size.
        """
        return list(self.steps_by(size, rule))

    def steps_by(self, size: int = 4, rule: str | None = None) -> Iterator[Rewrite]:
        """The same, one after the other: whoever needs the first does not wait for all."""
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise PatternError(f"pieces of {size!r} elements are none", code="E707")
        if rule is not None:
            _known(rule, tuple(r.name for r in RULES), "rule")
        with not_too_deep():
            for each in RULES:
                if rule in (None, each.name):
                    yield from self._steps_of(each, size)

    def _steps_of(self, rule: Rule, size: int) -> Iterator[Rewrite]:
        for old, new, body in rewritten(self.signature.body, rule, n.nat(size)):
            signature = tidied(replace(self.signature, body=cast(n.Expr, body)))
            before = " :>> ".join(str(f) for f in old)
            after = " :>> ".join(str(f) for f in new).replace("#0", "")
            try:
                made = Program(signature, self._origin)
            except PatternError:
                continue
            if made.result == self.result and nests(made.signature.body):
                step = Rewrite(rule.name, size if rule.sized else 0, before, after, made)
                made.steps = (*self.steps, step)
                yield step

    def rewrite(self, rule: str, size: int = 4, at: int = 0) -> Program:
        """The program after one step, which `steps` has from then on.

        Args:
            rule: its name.
            size: of the pieces that it makes.
            at: which of the places where it applies; they are counted from the outside in.

        Raises:
            PatternError: E706 if there is no such rule, or it does not apply there.

        >>> from openwork.skeletons.parse import parse
        >>> sums = parse("nFun n. fun A: [[float]_n]_n. A :>> map(reduce(+, 0))")
        >>> print(sums.rewrite("split-join", size=8).rewrite("mapWorkgroup").steps[-1])
        mapWorkgroup: map(map(reduce(+, 0))) => mapWorkgroup(map(reduce(+, 0)))
        """
        found = 0
        for step in self.steps_by(size, rule):
            if found == at:
                return step.program
            found += 1
        raise PatternError(
            f"{rule} applies in {found} places of {self.signature.body}, and {at} is none of them",
            code="E706", hint="rewrites() lists the steps that apply; places count from 0",
        )  # fmt: skip

    def _lowered(self, sums: str, target: str, spelled: str = "") -> Lowered:
        gpu, chosen = target != "cpu", self
        if gpu:
            chosen = self.with_units()
        try:
            return Lowering(chosen.signature, self.result, sums, gpu, spelled).lowered()
        except PatternError as error:
            if error.code not in ("E708", "E710") or chosen is self:
                raise
        # Units do not suit what follows the maps, or need an index that joined rows do not have:
        # one thread goes through them.
        return Lowering(self.signature, self.result, sums, gpu, spelled).lowered()

    def with_units(self) -> Program:
        """The program with units of a GPU, if it has none: a warp for each row with a sum."""
        body = for_gpu(self.signature.body)
        if body == self.signature.body:
            return self
        try:
            made = Program(tidied(replace(self.signature, body=body)), self._origin)
        except PatternError:
            return self
        return made if made.result == self.result else self

    def _program(self, lowered: Lowered) -> p.Program:
        arguments = [
            p.Argument(f.array, b.owner, -1, "values", role)
            for role, buffers in (("operand", lowered.inputs), ("result", lowered.outputs))
            for b in buffers
            for f in b.fields.values()
        ]
        prefixes = [
            p.Argument(x.array, x.array.name, -1, "values", "operand") for x in lowered.prefixes
        ]
        return p.Program((*prefixes, *arguments), lowered.sizes, lowered.body, "patterns")


def _known(value: str, known: tuple[str, ...], what: str) -> None:
    if value not in known:
        raise PatternError(
            f"there is no {what} {value!r}", code="E706", hint=f"there are {', '.join(known)}"
        )


def _without_holes(signature: Signature, result: Type, checker: Checker) -> tuple[Signature, Type]:
    """The lengths that were left out: what they must be, or naturals of their own."""
    types = [checker.filled(t) for t in signature.types]
    holes = {
        a.name
        for t in (*types, result)
        for a in n.walk_all(t)
        if isinstance(a, n.Named) and a.name.startswith(HOLE)
    }
    names = list(signature.nats)
    table: dict[str, n.Nat] = dict(checker.solved)
    for hole in sorted(holes):
        name = next(f"L{k}" for k in range(1, 99) if f"L{k}" not in (*names, *signature.params))
        names.append(name)
        table[hole] = n.named(name)

    def fill(node: n.Node) -> Any:
        for _ in range(len(table) + 1):
            node = n.substituted(node, table)
        return node

    if not table:
        return replace(signature, types=tuple(types)), result
    body = fill(signature.body)
    done = Signature(tuple(names), signature.params, tuple(map(fill, types)), body)
    return done, cast(Type, fill(result))
