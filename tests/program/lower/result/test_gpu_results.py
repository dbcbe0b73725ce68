"""Sparse results on a GPU, counted and filled by its units: the entries of the CPU's, in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.choices import in_pairs
from tests.gpu import tiers
from tests.gpu.batch import Batch
from tests.gpu.nvrtc import compile_text, library, registers
from tests.program.lower.result.test_strategies import CASES, statement

import openwork as ow
from openwork.loops.plan.assembly import Append
from openwork.recipes.devices.tables import H200
from openwork.runtime.gpu.emulator import ORDERS
from openwork.tensor.exchange.validate import validate

pytestmark = pytest.mark.needs_cc


@pytest.fixture(scope="module")
def kernels() -> dict[str, Any]:
    """All cases, compiled in one go."""
    batch, found = Batch(), {}
    for name in CASES:
        kernel = statement(name).compile("cuda-emulated", loader=batch)
        batch.expect(kernel._launcher.compiled)
        found[name] = kernel
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_that_of_a_cpu(kernels: dict[str, Any], name: str) -> None:
    stmt, kernel = statement(name), kernels[name]
    expected = stmt.compile()().storage
    for order in range(ORDERS):
        kernel._launcher.device.order = order
        made = kernel().storage
        validate(made, "the result")
        for ours, theirs in zip(made.levels, expected.levels, strict=True):
            for array in theirs:
                np.testing.assert_array_equal(ours[array], theirs[array])
        np.testing.assert_allclose(made.values, expected.values, rtol=1e-14)


@pytest.mark.parametrize("name", CASES)
def test_no_result_is_left_to_one_thread(kernels: dict[str, Any], name: str) -> None:
    assembly = kernels[name]._plan.assembly
    assert not isinstance(assembly, Append) or assembly.lanes > 0, kernels[name].explain()


MERGED = {
    "sum": "A(i,j) + B(i,j)",
    "product": "A(i,j) * B(i,j)",
    "one alone": "A(i,j) + A(i,j) * abs(A(i,j))",
    "difference where one is": "A(i,j) - A(i,j) * B(i,j)",
    "three": "A(i,j) + B(i,j) - E(i,j)",
    "three factors": "A(i,j) * B(i,j) * E(i,j)",
    "with a dense one": "(A(i,j) + B(i,j)) * D(i,j)",
}


def rows_that_differ(seed: int, shape: tuple[int, int] = (23, 50)) -> np.ndarray:
    """A matrix with full rows and empty ones, and others."""
    rng = np.random.default_rng(seed)
    dense = rng.integers(1, 9, shape) * (rng.random(shape) < rng.random((shape[0], 1)) ** 3)
    dense[rng.integers(0, shape[0], 3)] = 0
    dense[rng.integers(0, shape[0], 2)] = 3
    dense[-1], dense[:, -1] = rng.integers(0, 2) * dense[-1], rng.integers(0, 2) * dense[:, -1]
    return dense.astype(float)


def merged(text: str, seed: int) -> ow.Statement:
    """A statement over matrices whose rows differ."""
    given: dict[str, Any] = {
        n: ow.tensor(rows_that_differ(at), format=ow.CSR, name=n)
        for at, n in enumerate("ABE", seed)
        if f"{n}(" in text
    }
    if "D(" in text:
        given["D"] = ow.tensor(rows_that_differ(5) + 1, name="D")
    C = ow.empty((23, 50), format=ow.CSR, name="C")
    return ow.parse(f"C(i,j) = {text}", C=C, **given)


@pytest.mark.parametrize("share", [1, 2, 7, 64])
def test_rows_are_cut_where_they_differ(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces have equally many entries, and begin and end within rows."""
    tiers.set_numbers(monkeypatch, share=share)
    batch, kernels = Batch(), {}
    for seed, name in enumerate(MERGED, 10 * share):
        kernel = merged(MERGED[name], seed).compile("cuda-emulated", loader=batch)
        batch.expect(kernel._launcher.compiled)
        kernels[name] = seed, kernel
    for name, (seed, kernel) in kernels.items():
        if isinstance(kernel._plan.assembly, Append):
            assert kernel._plan.assembly.share == (share if share < 64 else 0), name
            assert share == 64 or "cut by merge path" in kernel.explain()
        expected = merged(MERGED[name], seed).compile()().storage
        for order in range(ORDERS):
            kernel._launcher.device.order = order
            made = kernel().storage
            validate(made, "the result")
            np.testing.assert_array_equal(made.levels[1]["pos"], expected.levels[1]["pos"])
            np.testing.assert_array_equal(made.levels[1]["crd"], expected.levels[1]["crd"])
            np.testing.assert_array_equal(made.values, expected.values, err_msg=name)


def test_rows_are_cut_unless_they_are_known_to_be_short() -> None:
    A, B = (ow.placeholder(n, order=2, format=ow.CSR) for n in "AB")
    C = ow.placeholder("C", order=2, format=ow.CSR)
    stmt = ow.parse("C(i,j) = A(i,j) + B(i,j)", A=A, B=B, C=C)
    kernel = stmt.compile("cuda-emulated")
    assert kernel._plan.assembly == Append("count", 1, share=H200.result.share)
    one, other = rows_that_differ(1, (9, 200)), rows_that_differ(2, (9, 200))
    made = kernel(A=ow.tensor(one, format=ow.CSR), B=ow.tensor(other, format=ow.CSR))
    np.testing.assert_array_equal(made.to_numpy(), one + other)
    nothing = ow.tensor(np.zeros((3, 4)), format=ow.CSR)
    assert kernel(A=nothing, B=nothing).nnz == 0


@pytest.mark.parametrize("bits", ["int32", "int64"])
def test_cut_rows_with_indices_of_either_width(bits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tiers.set_numbers(monkeypatch, share=3)
    given = {}
    for seed, name in enumerate("AB"):
        matrix = sp.csr_array(rows_that_differ(seed))
        levels = [(), (matrix.indptr.astype(bits), matrix.indices.astype(bits))]
        given[name] = ow.from_arrays(ow.CSR, matrix.shape, levels, matrix.data, name=name)
    stmt = ow.parse("C(i,j) = A(i,j) + B(i,j)", C=ow.empty((23, 50), format=ow.CSR), **given)
    made = stmt.compile("cuda-emulated")()
    np.testing.assert_array_equal(made.to_numpy(), rows_that_differ(0) + rows_that_differ(1))


def test_one_thread_appends_where_the_schedule_has_it_so() -> None:
    kernel = statement("sum").assemble("serial").compile("cuda-emulated")
    assert "one thread appends to it, slowly: the schedule says so" in kernel.explain()
    np.testing.assert_array_equal(kernel().to_numpy(), statement("sum").compile()().to_numpy())


TABLES = [name for name, (text, _) in CASES.items() if "k" in text and "product" in name]


@pytest.mark.parametrize(
    ("name", "tier", "exact", "order"),
    in_pairs(TABLES, tiers.TIERS, [False, True], range(ORDERS)),
)
def test_rows_that_no_near_table_holds(
    name: str, tier: str, exact: bool, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are noted, and whole blocks do them afterwards."""
    tiers.make_all(tier, monkeypatch)
    kernel = statement(name).compile("cuda-emulated", deterministic=exact)
    assert ("mark_bit" in kernel.source) == (tier == "mapped" and "claim" in kernel.source)
    expected = statement(name).compile()()
    kernel._launcher.device.order = order
    np.testing.assert_allclose(kernel().to_numpy(), expected.to_numpy(), rtol=1e-14)


@pytest.mark.parametrize("tier", tiers.TIERS)
def test_large_records_whose_rows_no_near_table_holds(
    tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of one slot listed no keys."""
    tiers.make_all(tier, monkeypatch)
    rng, block3 = np.random.default_rng(6), ow.entry.block(3, 3, "float64")
    A = ow.tensor(
        (rng.integers(0, 9, (2, 20)), rng.random((20, 3, 3))), shape=(9, 9), dtype=block3,
        format=ow.CSR, name="A",
    )  # fmt: skip
    C = ow.empty((9, 9), format=ow.CSR, dtype=block3, name="C")
    stmt = ow.parse("C(i,k) = A(i,j) * A(j,k)", A=A, C=C)
    made = stmt.compile("cuda-emulated")().to_numpy()
    np.testing.assert_allclose(made, stmt.compile()().to_numpy(), rtol=1e-14)


@pytest.mark.parametrize(
    ("dtype", "semiring"),
    [("float32", None), ("complex64", None), ("complex128", None), ("int8", None), ("uint16", None),
     ("float32", "max_plus"), ("bool", "or_and"), ("float64", "min_plus")],
)  # fmt: skip
def test_products_of_every_type(dtype: str, semiring: str | None) -> None:
    rng = np.random.default_rng(5)
    dense = (rng.integers(1, 4, (40, 40)) * (rng.random((40, 40)) < 0.1)).astype(dtype)
    A = ow.tensor(sp.csr_array(dense), name="A")
    C = ow.empty((40, 40), format=ow.CSR, dtype=dtype, name="C")
    stmt = ow.parse("C(i,k) = A(i,j) * A(j,k)", A=A, C=C, semiring=semiring)
    kernel, expected = stmt.compile("cuda-emulated"), stmt.compile()().storage
    for order in range(ORDERS):
        kernel._launcher.device.order = order
        made = kernel().storage
        np.testing.assert_array_equal(made.levels[1]["crd"], expected.levels[1]["crd"])
        np.testing.assert_array_equal(made.values, expected.values)


def test_symbolic_plans_and_other_operands() -> None:
    rng = np.random.default_rng(2)
    one, two = (sp.random(50, 50, 0.1, format="csr", random_state=rng) for _ in range(2))
    A, B = ow.tensor(one, name="A"), ow.tensor(two, name="B")
    C = ow.empty((50, 50), format=ow.CSR, name="C")
    kernel = ow.parse("C(i,k) = A(i,j) * B(j,k)", A=A, B=B, C=C).compile("cuda-emulated")
    plan = kernel.symbolic(A=A, B=B)
    np.testing.assert_allclose(plan(A=2 * A).to_numpy(), 2 * (one @ two).toarray())
    with pytest.raises(ow.DataError) as caught:
        plan(A=B)
    assert caught.value.code == "E509"
    np.testing.assert_allclose(kernel(A=B).to_numpy(), (two @ two).toarray())
    big = sp.random(80, 80, 0.2, format="csr", random_state=rng)
    X, out = ow.tensor(big, name="A"), ow.empty((80, 80), format=ow.CSR, name="C")
    kernel(A=X, B=X, out=out)
    np.testing.assert_allclose(out.to_numpy(), (big @ big).toarray())


def test_keys_of_more_than_64_bits_are_refused() -> None:
    n = 2**32
    coords = np.array([[0, 0, 1], [5, n - 1, 7], [n - 1, 3, n - 2]])
    T = ow.tensor((coords, np.ones(3)), shape=(2, n, n), format=ow.CSF(3), name="T")
    A = ow.tensor(np.array([[1.0, 2.0], [0.0, 3.0]]), format=ow.CSR, name="A")
    C = ow.empty((2, n, n), format=ow.CSF(3), name="C")
    kernel = ow.parse("C(i,k,l) = A(i,j) * T(j,k,l)", A=A, T=T, C=C).compile("cuda-emulated")
    with pytest.raises(ow.ScheduleError, match="64 bits") as caught:
        kernel()
    assert caught.value.code == "E308"


def test_some_rows_are_long() -> None:
    rng = np.random.default_rng(1)
    dense = rng.random((60, 60)) * (rng.random((60, 60)) < 0.05)
    dense[7], dense[:, 9] = rng.random(60), rng.random(60)
    wide = np.zeros((60, 400))
    wide[:, :60], wide[9, :] = dense, rng.random(400)
    A, B = (ow.tensor(d, format=ow.CSR, name=n) for d, n in ((dense, "A"), (wide, "B")))
    C = ow.empty((60, 400), format=ow.CSR, name="C")
    kernel = ow.parse("C(i,k) = A(i,j) * B(j,k)", A=A, B=B, C=C).compile("cuda-emulated")
    np.testing.assert_allclose(kernel().to_numpy(), dense @ wide, rtol=1e-13)


@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_rows_of_every_length_are_in_order(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row n has n entries: sorted in registers, in shared memory, or by a block."""
    tiers.set_numbers(monkeypatch, lanes=(lanes,))
    rng, n = np.random.default_rng(lanes), 202
    rows = [rng.permutation(300)[:length] for length in range(n)]
    pos = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    crd = np.concatenate([np.sort(row) for row in rows])
    matrix = sp.csr_array((rng.random(crd.size), crd, pos), shape=(n, 300))
    order = sp.csr_array((np.ones(300), (np.arange(300), rng.permutation(300))), shape=(300, 300))
    A, B = ow.tensor(matrix, name="A"), ow.tensor(order, name="B")
    C = ow.empty((n, 300), format=ow.CSR, name="C")
    stmt = ow.parse("C(i,k) = A(i,j) * B(j,k)", A=A, B=B, C=C)
    kernel = stmt.compile("cuda-emulated")
    made, expected = kernel().to_scipy(), (matrix @ order).tocsr()
    expected.sort_indices()
    np.testing.assert_array_equal(made.indices, expected.indices)
    np.testing.assert_array_equal(made.data, expected.data)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (1, 1)])
def test_no_rows_and_no_entries(shape: tuple[int, int]) -> None:
    A = ow.tensor(np.zeros(shape), format=ow.CSR, name="A")
    C = ow.empty(shape, format=ow.CSR, name="C")
    kernel = ow.parse("C(i,j) = A(i,j) + B(i,j)", A=A, B=A, C=C).compile("cuda-emulated")
    assert kernel().nnz == 0


@pytest.mark.skipif(library() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc")
@pytest.mark.parametrize("name", ["product", "three factors", "tensor times matrix", "sum"])
def test_compiles_for_a_gpu(kernels: dict[str, Any], name: str) -> None:
    used = registers(compile_text(kernels[name].source))
    assert used and all(count <= 128 and stack <= 64 for count, stack in used.values()), used


@pytest.mark.skipif(library() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc")
@pytest.mark.parametrize("name", MERGED)
def test_cut_rows_compile_for_a_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tiers.set_numbers(monkeypatch, share=4)
    used = registers(compile_text(merged(MERGED[name], 1).compile("cuda").source))
    assert used and all(count <= 64 and stack == 0 for count, stack in used.values()), used
