"""Random programs as C, as CUDA under the emulator, and interpreted with every access checked."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from random import Random
from typing import Any

import numpy as np
import pytest
from tests import tinycc
from tests.skeletons.generate import Case, Data, data, flattened, parsed, program

from openwork import skeletons as sk
from openwork.errors import DataError, InternalError, PatternError
from openwork.program.contract import BROKEN_BOUND
from openwork.program.gpu_nodes import Kernel as DeviceKernel
from openwork.program.interpret.interpret import interpret
from openwork.program.simplify.simplify import simplify
from openwork.program.verify import verify
from openwork.runtime.gpu.emulator import Emulator, emulated_source, load_emulated
from openwork.skeletons.evaluate import evaluate
from openwork.skeletons.lower.lowered import Lowered
from openwork.skeletons.program import Rewrite
from openwork.skeletons.run.cpu import CpuKernel
from openwork.skeletons.run.kernel import Bound, Kernel, out_of_range, shaped

FUZZ = int(os.environ.get("OPENWORK_FUZZ_CASES", "0"))
PROGRAMS, PER_SEED = 1000, 125  # as C, and under the emulator; `fuzz` runs many
INTERPRETED = 8  # one program in so many, as C and as CUDA
DATA = tuple(data(Random(seed)) for seed in range(24))
SUMS = ("closed", "prefix", "loop")


class Interpreted(Kernel):
    """A kernel that the interpreter of programs runs."""

    def prepared(self, bound: Any) -> None:
        return None

    def run(self, bound: Any) -> Any:
        low = self.lowered
        arrays = [*bound.extra]
        made = [np.zeros(n, b.dtype) for b, n in zip(low.outputs, bound.counts, strict=True)]
        buffers = [*low.inputs, *low.outputs]
        for b, a in zip(buffers, [*bound.inputs, *made], strict=True):
            arrays += [a.view(f.array.type) for f in b.fields.values()]
        status, _ = interpret(self.program, arrays, [2, 0, *bound.sizes], seed=1)
        if status == BROKEN_BOUND:
            raise out_of_range()
        assert status == 0
        return shaped(made, bound.shapes)


def interpreted(p: sk.Program, sums: str = "closed", target: str = "cpu") -> Interpreted:
    """A kernel without a compiler: loops for units of a GPU run one iteration after the other."""
    return _without_compiler(p, p._lowered(sums, target))


def _without_compiler(p: sk.Program, lowered: Lowered) -> Interpreted:
    loops = p._program(lowered)
    verify(loops)
    kernel = Interpreted(p.signature, p.result, lowered, "", None)  # type: ignore[arg-type]
    kernel.program = simplify(loops)  # type: ignore[attr-defined]
    return kernel


def _arguments(program: sk.Program, given: Data) -> dict[str, Any]:
    """The arguments that a program has."""
    s = program.signature
    return {name: given.call[name] for name in (*s.params, *s.nats)}


class Checked:
    """A program with data, and what the evaluator makes of them."""

    def __init__(self, case: Case, given: Data) -> None:
        p = case.program
        self.case, self.arguments = case, _arguments(p, given)
        self.expected: list[float] | None = None
        self.outside = self.unknown = False
        try:
            self.expected = flattened(evaluate(p.signature, p.result, given.nested, given.nats))
        except InternalError:  # lists do not know how wide an empty array is
            self.unknown = True
        except IndexError:  # an index that the program computes
            self.outside = True

    def agrees(self, call: Callable[[], Any]) -> None:
        """A call has this result, or refuses the same."""
        if self.unknown:
            return
        if self.outside:
            with pytest.raises(DataError, match="lies outside its array"):
                call()
            return
        got = np.ravel(call()).tolist()
        if got != self.expected:  # which is quick; here they are compared as arrays, with NaN
            np.testing.assert_array_equal(got, self.expected, str(self.case))


def _check(case: Case, kernel: Kernel, given: Data) -> None:
    checked = Checked(case, given)
    checked.agrees(partial(kernel, **checked.arguments))


def _kernel(p: sk.Program, target: str, sums: str) -> Kernel | None:
    """A kernel, or none where joined rows have no index."""
    try:
        if target == "interpreted":
            return interpreted(p, sums)
        return p.compile(target, sums)
    except PatternError as error:
        assert error.code == "E710", p.text
        return None


def _programs(random: Random, count: int, cuts: int) -> Iterator[tuple[int, Checked, Kernel]]:
    """So many different programs that have loops, each with its number, data and kernel."""
    seen, compiled = set[str](), 1 if tinycc.installed() else 10  # gcc takes 50 ms each
    while len(seen) < count:
        k = len(seen)
        # Each cut makes lengths longer, and a program with three takes four times as long.
        case = program(random, cuts if k % 10 == 0 else min(cuts, 1))
        if case.text in seen:
            continue
        kernel = _kernel(case.program, "interpreted" if k % compiled else "cpu", SUMS[k % 3])
        if kernel is not None:
            seen.add(case.text)
            yield k, Checked(case, random.choice(DATA)), kernel


class Batch(Emulator):
    """An emulator that compiles the texts of all programs together when the first of them runs.

    Functions that several texts have are compiled once: they are two thirds of each.
    """

    def __init__(self) -> None:
        super().__init__()
        self._texts = list[tuple[str, Sequence[DeviceKernel]]]()

    def load(self, source: str, kernels: Sequence[DeviceKernel]) -> Mapping[str, Any]:
        self._texts.append((source, kernels))
        return Functions(self, len(self._texts))

    @cached_property
    def library(self) -> Any:
        shared = dict.fromkeys(p for text, _ in self._texts for p in _functions(text))
        texts = [("\n\n".join(shared), ())]
        for text, kernels in self._texts:
            own = [p for p in text.split("\n\n") if p not in shared]
            texts.append(("\n\n".join(["using namespace text_0;", *own]), kernels))
        return load_emulated(emulated_source(texts))


def _functions(text: str) -> list[str]:
    """The paragraphs of a CUDA text whose meaning does not depend on types that it defines."""
    return [p for p in text.split("\n\n") if "__device__" in p and not _OWN_TYPES.search(p)]


_OWN_TYPES = re.compile("index_t|u?int64_t|uint32_t")


class Functions(dict[str, Any]):
    """The kernels of one text of a batch, by name."""

    def __init__(self, batch: Batch, number: int) -> None:
        self._batch, self._number = batch, number

    def __missing__(self, name: str) -> Any:
        library = self._batch.library
        return library, getattr(library, f"enter_{self._number}_{name}")


@pytest.fixture(autouse=True)
def _no_collections() -> Iterator[None]:
    """The garbage collector, which finds nothing here, takes a fourteenth of the time."""
    gc.disable()
    yield
    gc.enable()


def _run(seed: int, count: int, cuts: int = 3) -> int:
    """So many programs as C and under the emulator, some of them interpreted, too."""
    batch, on_gpu = Batch(), list[tuple[Checked, Bound]]()
    for k, checked, kernel in _programs(Random(seed), count, cuts):
        p, given = checked.case.program, checked.arguments
        checked.agrees(partial(kernel, **given))
        if k % INTERPRETED == 0 and isinstance(kernel, CpuKernel):
            checked.agrees(partial(_without_compiler(p, kernel.lowered), **given))
        other = _kernel(p, "cuda-emulated", SUMS[k % 3])
        if other is not None:
            usual = getattr(other, "usual", other)  # its patterns, where it is a statement, too
            usual._device = batch
            on_gpu.append((checked, usual.bind(**given)))
            if k % INTERPRETED == 1:
                checked.agrees(partial(_without_compiler(p, usual.lowered), **given))
    for checked, bound in on_gpu:
        checked.agrees(bound)
    return len(on_gpu)


@pytest.mark.parametrize("seed", range(PROGRAMS // PER_SEED))
def test_random_programs(seed: int) -> None:
    assert _run(seed, PER_SEED) == PER_SEED


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


@pytest.mark.parametrize(
    "text",
    [
        # The first loop has the name of the variable inside.
        "generate(m, nFun(j => generate(n, nFun(i => D@i@j))))",
        "generate(m, nFun(i_2 => generate(n, nFun(i => D@i@i_2 * y@i)) :>> reduce(+, 0)))",
        "generate(6, nFun(k => generate(n, nFun(i => generate(4, nFun(j => z@j@k * y@i))))))",
    ],
)
def test_variables_that_are_called_like_loops(text: str) -> None:
    case = Case(text, parsed(text))
    for sums in SUMS:
        _check(case, interpreted(case.program, sums), data(Random(4)))


@pytest.mark.fuzz
@pytest.mark.skipif(not FUZZ, reason="OPENWORK_FUZZ_CASES says how many")
def test_many() -> None:
    _run(1000, FUZZ, cuts=8)


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
