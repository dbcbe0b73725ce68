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
from openwork.skeletons.run.kernel import Kernel, out_of_range, shaped

FUZZ = int(os.environ.get("OPENWORK_FUZZ_CASES", "0"))
INTERPRETED, PER_SEED = 200, 40  # 50 ms each; `fuzz` runs many more
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


def interpreted(p: sk.Program, sums: str) -> Interpreted:
    lowered = p._lowered(sums, "cpu")
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


def _run(seed: int, count: int, cuts: int = 3) -> None:
    random = Random(seed)
    for k in range(count):
        case, kernel = _drawn(random, lambda p, k=k: interpreted(p, SUMS[k % 3]), cuts)  # type: ignore[misc]
        _check(case, kernel, data(random))


@pytest.mark.parametrize("seed", range(INTERPRETED // PER_SEED))
def test_interpreted(seed: int) -> None:
    _run(seed, PER_SEED)


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


def test_compiled() -> None:
    random = Random(5)
    for k in range(15):
        case, kernel = _drawn(random, lambda p, k=k: p.compile(sums=SUMS[k % 3]))  # type: ignore[misc]
        _check(case, kernel, data(random))


def test_under_the_emulator() -> None:
    random = Random(6)
    for _ in range(10):
        case, kernel = _drawn(random, lambda p: p.compile(target="cuda-emulated"))
        _check(case, kernel, data(random))


def test_printed_programs_are_read_back() -> None:
    random = Random(7)
    for _ in range(60):
        made = program(random).program
        assert sk.parse(made.text) == made


def test_rewrites_keep_types_and_meaning() -> None:
    random, seen = Random(9), set[str]()
    for _ in range(16):
        case, given = program(random), data(random)
        for step in case.program.rewrites(size=2):
            assert step.program.result == case.program.result
            seen.add(step.rule)
            if any(unit in step.after for unit in ("Global", "Work", "Local", "Warp", "Lane")):
                continue
            again = Case(f"{case}\n{step}", step.program)
            try:
                kernel = interpreted(step.program, "closed")
            except PatternError as error:
                assert error.code in ("E708", "E710"), again  # a reduction in order around
                continue
            _check(again, kernel, given)
    assert len(seen) >= 12
