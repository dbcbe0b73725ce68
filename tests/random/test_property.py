"""Random statements, formats, types and shapes: compiled kernels against the reference.

`OPENWORK_FUZZ_CASES` says how many, `OPENWORK_FUZZ_SEED` which (0 unless given). A failure prints
the seed of its case and a program that repeats it; `mixed_case_of(seed)` is the case.
"""

from __future__ import annotations

import ctypes
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests import tinycc
from tests.found.cases import text_of
from tests.random.generate import Case, assert_agrees, long_sum, random_case
from tests.random.records import record_case
from tests.random.schedules import random_schedules
from tests.random.unguarded import unguarded_updates

from openwork.errors import ScheduleError
from openwork.index.checks import check
from openwork.index.einstein import explicit
from openwork.index.nodes import Access, Assignment, TensorVar
from openwork.index.parse import parse_assignment
from openwork.pipeline import Compiled
from openwork.program.lower.walk import lattice
from openwork.render.c.c import render_all
from openwork.runtime.host import launch, toolchain
from openwork.runtime.host.library import load
from openwork.runtime.host.threads import set_num_threads
from openwork.runtime.reference import Masked, to_masked
from openwork.tensor.exchange.validate import validate
from openwork.tensor.statement import Statement
from openwork.tensor.tensor import Tensor
from openwork.tree import Node, bottom_up, walk

CASES = int(os.environ.get("OPENWORK_FUZZ_CASES", "200"))
SCHEDULED = int(os.environ.get("OPENWORK_FUZZ_CASES", "450"))
SEED = int(os.environ.get("OPENWORK_FUZZ_SEED", "0"))
CHUNKS = 20
SANITIZE = ("address", "undefined") if os.environ.get("OPENWORK_SANITIZE") == "1" else ()
NONFINITE = 9  # one case in so many has NaN and infinities in its data


class Batch:
    """A loader that compiles the kernels of a whole chunk in one go, as quickly as that goes."""

    def __init__(self) -> None:
        self.waiting: dict[str, Compiled] = {}
        self.functions: dict[str, Any] = {}

    def __call__(self, compiled: Compiled) -> Any:
        self.waiting.setdefault(compiled.source, compiled)
        return Later(self, compiled.source)

    def find(self, source: str) -> Any:
        """The function of `source`, compiled with all that wait: those TinyCC leaves, together."""
        if source not in self.functions:
            quick = {} if SANITIZE else {s: tinycc.kernel(s) for s in self.waiting}
            left = [s for s in self.waiting if quick.get(s) is None]
            self.functions |= quick | (self.together(left) if left else {})
            self.waiting.clear()
        return self.functions[source]

    def together(self, sources: Sequence[str]) -> dict[str, Any]:
        """The functions of `sources`, which are compiled as one library."""
        names = {source: f"kernel_{n}" for n, source in enumerate(sources)}
        text = render_all({name: self.waiting[s].program for s, name in names.items()})
        library = load(text, optimize="-O0", sanitize=SANITIZE)
        found = {source: getattr(library, name) for source, name in names.items()}
        for function in found.values():
            function.restype = ctypes.c_int32
        return found


class Later:
    """A function that is compiled when it is first called."""

    def __init__(self, batch: Batch, source: str) -> None:
        self.batch, self.source = batch, source

    def __call__(self, *args: Any) -> Any:
        return self.batch.find(self.source)(*args)


Prepare = Callable[[int, Statement], Statement]


def run_chunk(
    cases: Sequence[Case], prepare: Prepare = lambda n, stmt: stmt
) -> list[Masked | Exception]:
    """Compile all `cases` together, run them, and return their results."""
    batch, kernels = Batch(), []
    for n, case in enumerate(cases):
        try:
            kernels.append(prepare(n, statement_of(case)).compile(loader=batch))
            assert not unguarded_updates(kernels[-1]._launcher.compiled.program)
        except Exception as error:
            kernels.append(error)
    return [kernel if isinstance(kernel, Exception) else answer(kernel) for kernel in kernels]


def answer(kernel: Any) -> Masked | Exception:
    """What the kernel computes, or the exception it ends with."""
    try:
        storage = kernel().storage
        validate(storage, "the result")
        return to_masked(storage)
    except Exception as error:
        return error


def statement_of(case: Case) -> Statement:
    """The statement of a case, over tensors that hold its data."""
    operands = {**case.tensors, case.assignment.lhs.tensor.name: case.result}
    tensors = {name: Tensor.of(operand.storage(), name) for name, operand in operands.items()}

    def bind(node: Node) -> Node | None:
        if isinstance(node, TensorVar):
            return replace(node, source=tensors[node.name])
        return None

    bound = bottom_up(bind)(case.assignment)
    assert isinstance(bound, Assignment)
    return Statement(bound)


def seeds_of(chunk: int) -> range:
    """The seeds of a chunk; all chunks together have `CASES` different ones."""
    return range(SEED + chunk, SEED + CASES, CHUNKS)


def case_of(seed: int, unusual: bool = True, whole: bool = False) -> Case:
    """The case with this seed; with `unusual` formats, or only dense and compressed levels.

    `whole`: with the operators of integers.
    """
    formats = random.Random(f"formats of {seed}") if unusual else None
    integers = random.Random(f"integers of {seed}") if whole else None
    nonfinite = seed % NONFINITE == 0
    return random_case(random.Random(seed), nonfinite=nonfinite, formats=formats, integers=integers)


def mixed_case_of(seed: int) -> Case:
    """The case with this seed; every third has the operators of integers."""
    return case_of(seed, whole=seed % 3 == 1)


def compare(case: Case, result: Masked) -> None:
    """Fail unless `result` is what the reference makes of `case`."""
    present = None if case.result.format.is_dense else result.present
    expected, values = case.expected(), result.values
    # Factors may leave a sum (docs/numbers.md): inf * (0 + 1) instead of inf * 0 + inf * 1, a NaN.
    if not case.has_records:
        factored = np.isinf(values) & np.isnan(expected.values)
        values = np.where(factored, expected.values.astype(values.dtype), values)
    assert_agrees(values, present, expected, case.assignment.lhs.dtype, atol=case.atol)


def report(seed: int, case: Case, schedule: str = "") -> str:
    """How to repeat a case: as a program, and as text to store in tests/found."""
    stored = text_of(f"seed {seed}", statement_of(case), schedule, atol=case.atol)
    return f"seed {seed}: {case.text} | {schedule}\n\n{case.reproducer(schedule)}\n\n{stored}"


@pytest.fixture
def several_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small kernels run on several threads too."""
    monkeypatch.setattr(launch, "SERIAL_BELOW", -1)
    set_num_threads(3)
    yield
    set_num_threads(None)


@pytest.mark.fuzz
@pytest.mark.needs_cc
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.usefixtures("several_threads")
def test_kernels_agree_with_the_reference(chunk: int) -> None:
    """On several threads, which assemble sparse results in pieces, and half of them on one."""
    if chunk % 2:
        set_num_threads(1)
    seeds = seeds_of(chunk)
    cases = [mixed_case_of(seed) for seed in seeds]
    failures = []
    for seed, case, result in zip(seeds, cases, run_chunk(cases), strict=True):
        try:
            if isinstance(result, Exception):
                raise AssertionError(f"{type(result).__name__}: {result}") from result
            compare(case, result)
        except AssertionError as error:
            failures.append(f"{error}\n\n{report(seed, case)}")
    if failures:
        count = f"{len(failures)} of {len(cases)} cases differ from the reference"
        pytest.fail("\n".join([count, *failures[:3]]), pytrace=False)


@pytest.mark.fuzz
@pytest.mark.needs_cc
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.usefixtures("several_threads")
def test_scheduled_kernels_agree_with_the_reference(chunk: int) -> None:
    """Random schedules, drawn from what is legal, change no answer."""
    seeds = range(SEED + chunk, SEED + SCHEDULED, CHUNKS)
    cases = [mixed_case_of(seed) for seed in seeds]
    commands = {n: "" for n in range(len(cases))}

    def prepare(n: int, stmt: Statement) -> Statement:
        scheduled = stmt
        rng, finite = random.Random(7 * seeds[n] + 1), seeds[n] % NONFINITE != 0
        for scheduled in random_schedules(rng, stmt, finite):
            commands[n] = scheduled.commands
        return scheduled

    failures = []
    for n, result in enumerate(run_chunk(cases, prepare)):
        try:
            if isinstance(result, Exception):
                raise AssertionError(f"{type(result).__name__}: {result}") from result
            compare(cases[n], result)
        except AssertionError as error:
            failures.append(f"{error}\n\n{report(seeds[n], cases[n], commands[n])}")
    if failures:
        count = f"{len(failures)} of {len(cases)} scheduled cases differ from the reference"
        pytest.fail("\n".join([count, *failures[:3]]), pytrace=False)


@pytest.mark.fuzz
@pytest.mark.needs_cc
@pytest.mark.parametrize("chunk", range(4))
@pytest.mark.usefixtures("several_threads")
def test_long_sums_agree_with_the_reference(chunk: int) -> None:
    """Sums of 5 to 12 operands; every other under a random schedule, every other on one thread."""
    if chunk % 2:
        set_num_threads(1)
    seeds = range(SEED + chunk, SEED + CASES // 8, 4)
    cases = [long_sum_of(seed) for seed in seeds]
    run_and_compare(seeds, cases, scheduled=chunk > 1)


def record_case_of(seed: int) -> Case:
    """The statement over records with this seed; every other has unusual formats."""
    formats = random.Random(f"formats of {seed}") if seed % 2 else None
    return record_case(random.Random(f"records {seed}"), formats)


def any_case_of(seed: int) -> Case:
    """The case with this seed; every fifth is over records."""
    return record_case_of(seed) if seed % 5 == 4 else case_of(seed)


@pytest.mark.fuzz
@pytest.mark.needs_cc
@pytest.mark.parametrize("chunk", range(8))
@pytest.mark.usefixtures("several_threads")
def test_records_agree_with_the_reference(chunk: int) -> None:
    """Elements that are records; most under a random schedule, every other on one thread."""
    if chunk % 2:
        set_num_threads(1)
    seeds = range(SEED + chunk, SEED + CASES // 2, 8)
    cases = [record_case_of(seed) for seed in seeds]
    run_and_compare(seeds, cases, scheduled=chunk > 1, refused="mixes the numbers")


@pytest.mark.needs_cc
def test_a_workspace_for_some_terms_of_a_long_sum() -> None:
    """Few of many operands are merged by cases, some of which may be absent further out."""
    case = long_sum_of(98)
    part = "L(i,j,k) + K(i,j,k) * J(i,j,k) + I(i,j,k)"
    result = answer(statement_of(case).schedule(f"precompute({part},k,kw)").compile())
    assert not isinstance(result, Exception), result
    compare(case, result)


@pytest.mark.fuzz
@pytest.mark.needs_cc
@pytest.mark.parametrize("chunk", range(4))
@pytest.mark.usefixtures("several_threads")
def test_presence_at_run_time_agrees_with_the_reference(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What long sums are compiled to serves every statement, under every schedule."""
    monkeypatch.setattr(lattice, "_MOST_POINTS", 2)
    monkeypatch.setattr(lattice, "_MOST_OPTIONAL", 0)
    seeds = range(SEED + chunk, SEED + CASES // 4, 4)
    cases = [mixed_case_of(seed) for seed in seeds]
    run_and_compare(seeds, cases, scheduled=chunk > 1)


def long_sum_of(seed: int) -> Case:
    """The long sum with this seed; every other has unusual formats."""
    formats = random.Random(f"formats of {seed}") if seed % 2 else None
    return long_sum(random.Random(f"long sum {seed}"), formats)


def run_and_compare(
    seeds: range, cases: Sequence[Case], scheduled: bool, refused: str | None = None
) -> None:
    """Fail unless all `cases` agree with the reference, perhaps under random schedules.

    `refused`: part of the message of what compilation may end in.
    """
    commands = {n: "" for n in range(len(cases))}

    def prepare(n: int, stmt: Statement) -> Statement:
        rng = random.Random(7 * seeds[n] + 1)
        finite = seeds[n] % NONFINITE != 0
        for made in random_schedules(rng, stmt, finite) if scheduled else ():
            stmt, commands[n] = made, made.commands
        return stmt

    failures = []
    for n, result in enumerate(run_chunk(cases, prepare)):
        try:
            if isinstance(result, ScheduleError) and refused is not None and refused in str(result):
                continue
            if isinstance(result, Exception):
                raise AssertionError(f"{type(result).__name__}: {result}") from result
            compare(cases[n], result)
        except AssertionError as error:
            failures.append(f"{error}\n\n{report(seeds[n], cases[n], commands[n])}")
    if failures:
        count = f"{len(failures)} of {len(cases)} cases differ from the reference"
        pytest.fail("\n".join([count, *failures[:3]]), pytrace=False)


@pytest.mark.parametrize("chunk", range(4))
def test_answers_without_a_compiler(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("OPENWORK_CC", raising=False)
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    for seed in range(chunk, 120, 4):
        case = case_of(seed)
        with pytest.warns(UserWarning, match="no C compiler was found"):
            kernel = statement_of(case).compile()
        result = answer(kernel)
        assert not isinstance(result, Exception), f"seed {seed}: {case.text}: {result!r}"
        compare(case, result)


# --- The cases themselves ----------------------------------------------------------------------

SAMPLE = range(0, 300)


def test_a_seed_gives_the_same_case_again() -> None:
    for seed in SAMPLE[::10]:
        one, other = case_of(seed), case_of(seed)
        assert one.assignment == other.assignment
        assert one.reproducer() == other.reproducer()


def test_cases_are_legal_statements_whose_text_reads_back() -> None:
    for seed in SAMPLE:
        case = case_of(seed)
        accesses = [n for n in walk(case.assignment) if isinstance(n, Access)]
        tensors = {access.tensor.name: access.tensor for access in accesses}
        read: Assignment = parse_assignment(case.text, tensors)
        assert read == case.assignment, f"seed {seed}: {case.text}"
        assert explicit(check(read)) == case.explicit, f"seed {seed}: {case.text}"


def test_the_data_is_what_its_format_stores() -> None:
    for seed in SAMPLE:
        case = case_of(seed)
        for tensor in (*case.tensors.values(), case.result):
            stored = to_masked(tensor.storage())
            np.testing.assert_array_equal(stored.present, tensor.present)
            expected = np.where(tensor.present, tensor.values, stored.values)
            np.testing.assert_array_equal(stored.values, expected, strict=True)


def test_the_reference_answers_every_case() -> None:
    seen = {"dense": 0, "sparse": 0, "empty": 0, "rounded": 0}
    for seed in SAMPLE:
        case = case_of(seed)
        answer = case.expected()
        assert answer.values.dtype == case.assignment.lhs.dtype
        assert answer.values.shape == case.result.shape
        compare(case, answer)
        seen["dense" if case.result.format.is_dense else "sparse"] += 1
        seen["empty"] += answer.values.size == 0
        seen["rounded"] += case.atol > 0
    assert min(seen.values()) > 3, f"the draw has become lopsided: {seen}"


def test_a_reproducer_is_a_program() -> None:
    for seed in SAMPLE[::10]:
        compile(case_of(seed).reproducer("split(i,i0,i1,4)"), f"<seed {seed}>", "exec")


def test_a_wrong_answer_is_noticed() -> None:
    case = next(c for c in map(case_of, SAMPLE) if c.expected().values.size > 1 and c.atol == 0)
    right = case.expected()
    with pytest.raises(AssertionError):
        compare(case, Masked(right.values + 1, right.present))
    with pytest.raises(AssertionError, match="entries are missing"):
        assert_agrees(right.values, right.present & False, full_like(right), right.values.dtype)
    with pytest.raises(AssertionError, match="element type"):
        assert_agrees(right.values, None, right, np.dtype("int8"))
    none = Masked(right.values, right.present & False)
    assert_agrees(right.values, right.present | True, none, right.values.dtype)
    with pytest.raises(AssertionError, match="entries too many"):
        assert_agrees(
            right.values, right.present | True, none, right.values.dtype, same_pattern=True
        )


def full_like(tensor: Masked) -> Masked:
    """`tensor` with every entry present."""
    return Masked(tensor.values, tensor.present | True)
