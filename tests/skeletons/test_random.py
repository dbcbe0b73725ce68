"""Random programs: interpreted with every access checked, compiled, and under the emulator."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import numpy as np
import pytest
from tests.skeletons.generate import Case, Data, data, flattened, parsed, program

from openwork import skeletons as sk
from openwork.errors import DataError, InternalError, PatternError
from openwork.program.contract import BROKEN_BOUND
from openwork.program.interpret.interpret import interpret
from openwork.program.simplify.simplify import simplify
from openwork.program.verify import verify
from openwork.skeletons.evaluate import evaluate
from openwork.skeletons.program import Rewrite
from openwork.skeletons.run.kernel import Kernel, out_of_range, shaped

FUZZ = int(os.environ.get("OPENWORK_FUZZ_CASES", "0"))
INTERPRETED, PER_SEED = 1000, 125  # about 6 ms each; `fuzz` runs many more
K = TypeVar("K", bound=Kernel)
SUMS = ("closed", "prefix", "loop")


def _expected(case: Case, given: Data) -> list[float]:
    p = case.program
    return flattened(evaluate(p.signature, p.result, given.nested, given.nats))


class Interpreted(Kernel):
    """A kernel that the interpreter of programs runs."""

    def prepared(self, bound: Any) -> None:
        return None

    def run(self, bound: Any) -> Any:
        low = self.lowered
        arrays = [*bound.extra]
        for b, a in zip(low.inputs, bound.inputs, strict=True):
            arrays += [np.ascontiguousarray(a.view(f.array.type)) for f in b.fields.values()]
        made = [np.zeros(n, b.dtype) for b, n in zip(low.outputs, bound.counts, strict=True)]
        status, _ = interpret(self.program, [*arrays, *made], [2, 0, *bound.sizes], seed=1)
        if status == BROKEN_BOUND:
            raise out_of_range()
        assert status == 0
        return shaped(made, bound.shapes)


def interpreted(p: sk.Program, sums: str = "closed", target: str = "cpu") -> Interpreted:
    """A kernel without a compiler: loops for units of a GPU run one iteration after the other."""
    lowered = p._lowered(sums, target)
    loops = p._program(lowered)
    verify(loops)
    kernel = Interpreted(p.signature, p.result, lowered, "", None)  # type: ignore[arg-type]
    kernel.program = simplify(loops)  # type: ignore[attr-defined]
    return kernel


def _of(program: sk.Program, given: Data) -> dict[str, Any]:
    """The arguments that a program has."""
    s = program.signature
    return {name: given.call[name] for name in (*s.params, *s.nats)}


def _check(case: Case, kernel: Kernel, given: Data) -> None:
    try:
        expected = _expected(case, given)
    except InternalError:  # lists do not know how wide an empty array is
        return
    except IndexError:  # an index that the program computes
        with pytest.raises(DataError, match="lies outside its array"):
            kernel(**_of(case.program, given))
        return
    got = np.ravel(kernel(**_of(case.program, given))).tolist()
    np.testing.assert_array_equal(got, expected, str(case))


def _drawn(random: Random, make: Callable[[sk.Program], K], cuts: int = 3) -> tuple[Case, K]:
    """A program that has loops, and what is made of it."""
    while True:
        case = program(random, cuts)
        try:
            return case, make(case.program)
        except PatternError as error:
            assert error.code == "E710", case  # joined rows have no index


def _run(seed: int, count: int, cuts: int = 3) -> set[str]:
    """So many programs, one in eight of them for a GPU."""
    random, seen = Random(seed), set[str]()
    while len(seen) < count:
        k = len(seen)
        ways = (SUMS[k % 3], "cuda-emulated" if k % 8 == 5 else "cpu")
        # Each cut makes lengths longer, and a program with three takes four times as long.
        most = cuts if k % 5 == 0 else min(cuts, 1)
        case, kernel = _drawn(random, lambda p, ways=ways: interpreted(p, *ways), most)  # type: ignore[misc]
        if case.text not in seen:
            _check(case, kernel, data(random))
            seen.add(case.text)
    return seen


@pytest.mark.parametrize("seed", range(INTERPRETED // PER_SEED))
def test_interpreted(seed: int) -> None:
    assert len(_run(seed, PER_SEED)) == PER_SEED


CENTERED = "fun(r => r :>> reduce(+, 0) :>> fun(s => r :>> map(fun(e => e - s))))"


@pytest.mark.parametrize("sums", SUMS)
@pytest.mark.parametrize(
    "text",
    [
        # The sum of a row belongs to the row: joined rows are no single array in memory.
        f"D :>> map({CENTERED}) :>> join :>> reduce(+, 0)",
        # Where the row begins is computed while the lengths of the rows before it are added up.
        f"R :>> map({CENTERED}) :>> join",
        f"t :>> map(map({CENTERED})) :>> map(join)",
    ],
)
def test_joined_rows_that_are_computed_from_a_sum(text: str, sums: str) -> None:
    case = Case(text, parsed(text))
    _check(case, interpreted(case.program, sums), data(Random(3)))


@pytest.mark.fuzz
@pytest.mark.skipif(not FUZZ, reason="OPENWORK_FUZZ_CASES says how many")
def test_many_interpreted() -> None:
    _run(1000, FUZZ, cuts=8)


@pytest.mark.parametrize(("target", "count"), [("cpu", 10), ("cuda-emulated", 6)])
def test_compiled(target: str, count: int) -> None:
    """A part of them as C and as CUDA."""
    random = Random(5)
    for k in range(count):
        case, kernel = _drawn(random, lambda p, k=k: p.compile(target, SUMS[k % 3]))  # type: ignore[misc]
        _check(case, kernel, data(random))


def test_printed_programs_are_read_back() -> None:
    random = Random(7)
    for _ in range(60):
        made = program(random).program
        assert sk.parse(made.text) == made


UNITS = ("Global", "Workgroup", "Local", "Warp", "Lane")
STEPS = 12  # of each program


def _target(step: Rewrite) -> str:
    return "cuda-emulated" if any(f"map{unit}(" in step.after for unit in UNITS) else "cpu"


def _parallel(step: Rewrite) -> bool:
    return step.rule in ("mapGlobal", "mapWorkgroup", "mapLocal")


def test_rewrites_keep_types_and_meaning() -> None:
    """Each step is interpreted, and of those for a GPU one in 25 runs under the emulator."""
    random, seen, on_gpu = Random(9), set[str](), 0
    for _ in range(24):
        case, given = program(random, cuts=2), data(random)
        steps = case.program.rewrites(size=2)
        for step in random.sample(steps, min(STEPS, len(steps))):
            assert step.program.result == case.program.result
            seen.add(step.rule)
            again = Case(f"{case}\n{step}", step.program)
            try:
                kernel: Kernel = interpreted(step.program, "closed", _target(step))
            except PatternError as error:
                assert error.code in ("E708", "E710"), again  # a reduction in order around
                continue
            _check(again, kernel, given)
            on_gpu += _parallel(step)
            if _parallel(step) and on_gpu % 25 == 1:
                _check(again, step.program.compile("cuda-emulated"), given)
    assert len(seen) >= 12
    assert on_gpu > 50
