"""Sparse results, assembled in every way: the same entries, in order, on any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from tests.random.interpreted import Interpreted, interpreting

import openwork as ow
from openwork.runtime.host import launch
from openwork.runtime.host.threads import set_num_threads
from openwork.runtime.reference import to_masked
from openwork.tensor.exchange.validate import validate

STRATEGIES = ("count", "append", "serial")
C1, C2, C3 = ow.CSF(1), ow.CSF(2), ow.CSF(3)
D, K = ow.Dense, ow.Compressed
DCC, DDC = ow.Format([D, K, K]), ow.Format([D, D, K])
KD, DKD, KDK = ow.Format([K, D]), ow.Format([D, K, D]), ow.Format([K, D, K])

# What is computed, and the formats of its tensors: every kind of statement, every kind of result.
CASES: dict[str, tuple[str, dict[str, object]]] = {
    "product": ("C(i,k) = A(i,j) * B(j,k)", {"A": ow.CSR, "B": ow.CSR, "C": ow.CSR}),
    "product with a transpose": (
        "C(i,k) = A(i,j) * B(k,j)", {"A": ow.CSR, "B": ow.CSR, "C": ow.CSR}
    ),
    "hypersparse product": ("C(i,k) = A(i,j) * B(j,k)", {"A": C2, "B": C2, "C": C2}),
    "product by columns": ("C(i,k) = A(i,j) * B(j,k)", {"A": ow.CSC, "B": ow.CSC, "C": ow.CSC}),
    "sum": ("C(i,j) = A(i,j) + B(i,j)", {"A": ow.CSR, "B": ow.CSR, "C": ow.CSR}),
    "sum of hypersparse": ("C(i,j) = A(i,j) + B(i,j)", {"A": C2, "B": C2, "C": C2}),
    "sum of two kinds": ("C(i,j) = A(i,j) + B(i,j)", {"A": C2, "B": ow.CSR, "C": ow.CSR}),
    "rows that are not visited": ("C(i,j) = A(i,j) * B(i,j)", {"A": C2, "B": C2, "C": ow.CSR}),
    "times": ("C(i,j) = A(i,j) * B(i,j)", {"A": ow.CSR, "B": ow.CSR, "C": C2}),
    "sum and product": (
        "C(i,k) = A(i,j) * B(j,k) + E(i,k)",
        {"A": ow.CSR, "B": ow.CSR, "E": ow.CSR, "C": ow.CSR},
    ),
    "three factors": (
        "C(i,l) = A(i,j) * B(j,k) * E(k,l)",
        {"A": ow.CSR, "B": ow.CSR, "E": ow.CSR, "C": ow.CSR},
    ),
    "tensor times vector": ("C(i,j) = T(i,j,k) * x(k)", {"T": C3, "x": C1, "C": C2}),
    "tensor times matrix": ("C(i,j,l) = T(i,j,k) * B(k,l)", {"T": C3, "B": ow.CSR, "C": C3}),
    "matrix times tensor": ("C(i,k,l) = A(i,j) * T(j,k,l)", {"A": ow.CSR, "T": C3, "C": DCC}),
    "dense outermost": ("C(i,j,l) = T(i,j,k) * B(k,l)", {"T": DCC, "B": ow.CSR, "C": DCC}),
    "two dense outermost": ("C(i,j,l) = T(i,j,k) * B(k,l)", {"T": DDC, "B": ow.CSR, "C": DDC}),
    "blocks below": ("C(i,j,l) = T(i,j,k) * B(k,l)", {"T": C3, "B": ow.dense(2), "C": DKD}),
    "runs below blocks": ("C(i,j,k) = T(i,j,k) + S(i,j,k)", {"T": C3, "S": C3, "C": KDK}),
    "rows of blocks": ("C(i,j) = A(i,j) + B(i,j)", {"A": KD, "B": KD, "C": KD}),
    "blocks of runs with nothing in them": (
        "C(i,j,k) = T(i,j,k) * S(i,j,k)", {"T": C3, "S": C3, "C": KDK}
    ),
    "blocks with nothing in them": (
        "C(i,j) = sum(k, sum(l, min(x(j), T(i,j,k,l))))",
        {"T": ow.CSF(4), "x": C1, "C": ow.Format([K, D], order=(0, 1))},
    ),
    "vectors": ("C(i) = x(i) + z(i)", {"x": C1, "z": C1, "C": C1}),
    "row sums": ("C(i) = A(i,j) * x(j)", {"A": C2, "x": C1, "C": C1}),
    "sums that are computed first": (
        "C(i,j) = A(i,j) + sum(k, F(k,j)) * B(i,j)",
        {"A": ow.CSR, "B": ow.CSR, "F": ow.dense(2), "C": ow.CSR},
    ),
    "sums of rows that are computed first": (
        "C(i,k) = A(i,j) * B(j,k) * sum(l, F(l,i))",
        {"A": C2, "B": ow.CSR, "F": ow.dense(2), "C": C2},
    ),
    "smallest": ("C(i,k) = min_plus.sum(j, A(i,j) + B(j,k))", {"A": ow.CSR, "B": ow.CSR, "C": C2}),
}  # fmt: skip
SIZES = {"i": 11, "j": 9, "k": 13, "l": 6}


def data(rng: np.random.Generator, shape: tuple[int, ...], dense: bool = False) -> np.ndarray:
    """Small whole numbers, a third of them present; whole rows are empty."""
    values = rng.integers(1, 5, shape).astype(float)
    if dense:
        return values
    values[rng.random(shape) > 0.34] = 0
    values[rng.random(shape[0]) > 0.7] = 0
    return values


def statement(name: str, seed: int = 0) -> ow.Statement:
    """A case with data."""
    text, formats = CASES[name]
    if "min_plus" in text:
        text, semiring = "C(i,k) = A(i,j) * B(j,k)", "min_plus"
    else:
        semiring = None
    rng = np.random.default_rng(seed)
    tensors = {}
    for tensor, format in formats.items():
        at = text.index(f"{tensor}(") + len(tensor) + 1
        shape = tuple(SIZES[v] for v in text[at : text.index(")", at)].split(","))
        if tensor == "C":
            tensors[tensor] = ow.empty(shape, format=format, name=tensor)
        else:
            array = data(rng, shape, format.is_dense)
            tensors[tensor] = ow.tensor(array, format=format, name=tensor)
    return ow.parse(text, semiring=semiring, **tensors)


@pytest.fixture(params=[1, 2, 5], ids=lambda n: f"{n} threads")
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """So many threads, for small results too."""
    monkeypatch.setattr(launch, "SERIAL_BELOW", -1)
    set_num_threads(request.param)
    yield request.param
    set_num_threads(None)


@cache
def kernel_of(name: str, strategy: str = "") -> ow.Kernel:
    """The kernel of a case, for all counts of threads."""
    stmt = statement(name)
    return (legal(stmt, strategy) if strategy else stmt).compile()


def legal(stmt: ow.Statement, strategy: str) -> ow.Statement:
    """`stmt` assembled so, or a skipped test where its outermost loop cannot be cut."""
    try:
        return stmt.assemble(strategy)
    except ow.ScheduleError as error:
        assert error.code == "E313"
        pytest.skip(error.message)


@pytest.mark.needs_cc
@pytest.mark.parametrize("name", CASES)
def test_every_strategy_gives_the_same_bits(name: str, threads: int) -> None:
    expected = kernel_of(name, "serial")().storage
    for strategy in ("", *STRATEGIES):
        made = kernel_of(name, strategy)().storage
        validate(made, "the result")
        for ours, theirs in zip(made.levels, expected.levels, strict=True):
            for array in theirs:
                np.testing.assert_array_equal(ours[array], theirs[array])
        assert made.values.tobytes() == expected.values.tobytes()


@pytest.mark.needs_cc
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_agrees_with_the_reference(
    name: str, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = kernel_of(name, strategy)
    made = to_masked(kernel().storage)
    monkeypatch.setattr(kernel._launcher, "missing", "a compiler")
    expected = to_masked(kernel().storage)
    np.testing.assert_allclose(made.values, expected.values)
    assert not (expected.present & ~made.present).any()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("strategy", ["count", "append"])
def test_pieces_do_not_race(name: str, strategy: str) -> None:
    stmt = legal(statement(name), strategy)
    with interpreting(Interpreted):
        stmt.compile(loader=lambda compiled: compiled)()


@pytest.mark.needs_cc
@pytest.mark.parametrize("name", CASES)
def test_a_symbolic_plan_computes_the_values(name: str, threads: int) -> None:
    kernel = kernel_of(name)
    plan = kernel.symbolic()
    expected, made = kernel().storage, plan().storage
    assert (plan.result_nnz, plan.shape) == (expected.nnz, expected.shape)
    np.testing.assert_allclose(made.values, expected.values)
    for ours, theirs in zip(made.levels, plan._pattern.levels, strict=True):
        for array in theirs:
            np.testing.assert_array_equal(ours[array], theirs[array])


@pytest.mark.needs_cc
def test_a_split_loop_is_cut_where_its_runs_begin(threads: int) -> None:
    stmt = statement("sum").split("i", "i0", "i1", 3)
    expected = stmt.compile()().to_numpy()
    for strategy in ("count", "append"):
        np.testing.assert_array_equal(stmt.assemble(strategy).compile()().to_numpy(), expected)


def test_what_was_chosen_is_explained() -> None:
    assert "schedule: assemble(" in statement("product").compile().explain()
    sums = ow.parse(
        "y(j) = A(i,j)",
        A=ow.tensor(np.eye(3), format=ow.CSR),
        y=ow.empty(3, format=C1, name="y"),
    )
    words = "assembled by appending in one serial pass: one thread computes w first"
    assert words in sums.compile().explain()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_commands_read_back(strategy: str) -> None:
    stmt = statement("sum")
    made = stmt.assemble(strategy)
    assert made.commands == f"assemble({strategy})"
    assert stmt.schedule(made.commands) == made
    assert f"assemble({strategy})" in map(str, stmt.legal())


@pytest.mark.parametrize(
    "schedule",
    [
        "assemble(twice)",
        "assemble(append), parallelize(j,CPUThread,NoRaces)",
        "reorder(j,i), assemble(count)",
    ],
)
def test_what_is_refused(schedule: str) -> None:
    with pytest.raises(ow.ScheduleError) as caught:
        statement("sum").schedule(schedule)
    assert caught.value.hint is not None


# --- Symbolic plans ----------------------------------------------------------------------------


@pytest.mark.needs_cc
def test_plans_share_index_arrays_and_take_out() -> None:
    stmt = statement("product")
    plan = stmt.compile().symbolic()
    one, other = plan(), plan()
    out = ow.empty(plan.shape, format=ow.CSR, name="C")
    assert plan(out=out) is out
    for level in (0, 1):
        for name, array in one.storage.levels[level].items():
            assert array is other.storage.levels[level][name]
            assert array is out.storage.levels[level][name]
    np.testing.assert_array_equal(out.to_numpy(), one.to_numpy())


@pytest.mark.needs_cc
def test_equal_index_arrays_are_the_same_pattern() -> None:
    i, j, k = ow.indices("i j k")
    rng = np.random.default_rng(1)
    a, b = data(rng, (6, 7)), data(rng, (7, 5))
    A, B = ow.tensor(a, format=ow.CSR, name="A"), ow.tensor(b, format=ow.CSR, name="B")
    C = ow.empty((6, 5), format=ow.CSR, name="C")
    plan = ow.assign(C[i, k], A[i, j] * B[j, k]).compile().symbolic(A=A, B=B)
    again = ow.tensor(3 * a, format=ow.CSR, name="A")
    np.testing.assert_allclose(plan(A=again).to_numpy(), 3 * a @ b)
    a[0, 0] = 0 if a[0, 0] else 1
    with pytest.raises(ow.DataError) as caught:
        plan(A=ow.tensor(a, format=ow.CSR, name="A"))
    assert caught.value.code == "E509"
    with pytest.raises(ow.DataError):
        plan(B=ow.tensor(np.ones((7, 4)), format=ow.CSR, name="B"))


@pytest.mark.parametrize("strategy", ["count", "append"])
def test_the_last_run_of_a_split_loop_closes_no_row_beyond_the_last(strategy: str) -> None:
    size = 2 * SIZES["i"] // 3
    assert SIZES["i"] % size
    stmt = statement("sum").split("i", "i0", "i1", size).assemble(strategy)
    with interpreting(Interpreted):
        stmt.compile(loader=lambda compiled: compiled)()
