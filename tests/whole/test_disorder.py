"""Coordinates in no order, and coordinates that come several times: right, and said."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow
from openwork.tensor.convert.pack import unpack
from openwork.tensor.exchange.validate import validate

LOOSE = ow.Format([ow.Dense, ow.Compressed(ordered=False)])
A = np.array([[2.0, 0, 3, 1], [0, 4, 0, 0]])
B = np.array([[5.0, 0, 6, 7], [0, 8, 0, 9]])
X = np.arange(4.0) + 1


def loose() -> ow.Tensor:
    """`A`, its first row as columns 3, 0, 2."""
    levels = [(), ([0, 3, 4], [3, 0, 2, 1])]
    return ow.from_arrays(LOOSE, (2, 4), levels, np.array([1.0, 2, 3, 4]), name="A")


def given(text: str) -> dict[str, ow.Tensor]:
    known = {
        "A": loose(),
        "B": ow.tensor(B, format=ow.CSR, name="B"),
        "C": ow.empty((2, 4), format=ow.CSR, name="C"),
        "L": ow.empty((2, 4), format=LOOSE, name="L"),
        "D": ow.empty((2, 4), name="D"),
        "x": ow.tensor(X, name="x"),
        "y": ow.empty((2,), name="y"),
    }
    return {name: tensor for name, tensor in known.items() if f"{name}(" in text}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("C(i,j) = A(i,j) + B(i,j)", A + B),
        ("C(i,j) = A(i,j) * B(i,j)", A * B),
        ("C(i,j) = 2 * A(i,j)", 2 * A),
        ("L(i,j) = 2 * A(i,j)", 2 * A),
        ("L(i,j) += A(i,j)", A),
        ("L(i,j) = A(i,j) + B(i,j)", A + B),
        ("D(i,j) = A(i,j)", A),
        ("D(i,j) = A(i,j) + 1", A + 1),
        ("D(i,j) max= A(i,j)", np.maximum(0, A)),
        ("y(i) = A(i,j) * x(j)", A @ X),
        ("y(i) = A(i,j) * B(i,j)", (A * B).sum(axis=1)),
        ("y(i) = A(i,j) * A(i,j)", (A * A).sum(axis=1)),
    ],
)
def test_statements(text: str, expected: np.ndarray) -> None:
    result = ow.parse(text, **given(text)).compile()()
    assert np.array_equal(result.to_numpy(), expected)
    validate(result.storage, "result")


def test_what_is_absent_matters_in_the_type_of_the_result() -> None:
    """0 is the least of C's type, but not of y's: y is compared with it everywhere."""
    levels, values = [([0, 2], [3, 1])], np.array([2, 5], "uint16")
    C = ow.from_arrays(ow.Format([ow.Compressed(ordered=False)]), (4,), levels, values, name="C")
    y = ow.tensor(np.array([-1, -1, 7, -3], "int32"), name="y")
    stmt = ow.parse("y(k) max= C(k)", y=y, C=C).schedule("pos(k,p,C(k)), divide(p,p0,p1,5)")
    assert stmt.compile()(out=y).to_numpy().tolist() == [0, 5, 7, 2]


def test_sorted_only_where_order_matters() -> None:
    alone, merged = "y(i) = A(i,j) * x(j)", "y(i) = A(i,j) * B(i,j)"
    assert "sorted before" not in str(ow.parse(alone, **given(alone)).compile().explain())
    assert "sorted before" in str(ow.parse(merged, **given(merged)).compile().explain())


def test_no_part_can_be_searched_for() -> None:
    stmt = ow.parse("y(i) = A(i,j) * x(j)", **given("y( A( x("))
    with pytest.raises(ow.ScheduleError, match="unsorted") as caught:
        stmt.schedule("split(j,j0,j1,2)")
    assert "E304" in str(caught.value)
    positions = stmt.schedule("pos(j,p,A), split(p,p0,p1,2)").compile()()
    assert np.array_equal(positions.to_numpy(), A @ X)


def listed() -> ow.Statement:
    P = ow.tensor(B, format=ow.COO(2), name="P")
    x, y = ow.tensor(X, name="x"), ow.empty((2,), name="y")
    return ow.parse("y(i) = P(i,j) * x(j)", y=y, P=P, x=x)


def test_a_list_is_shared_by_threads_in_runs() -> None:
    kernel = listed().compile()
    assert "omp parallel" in kernel.source
    assert "divide(i,i0,i1,32)" in str(kernel.explain())
    assert np.array_equal(kernel().to_numpy(), B @ X)


def test_a_list_is_not_walked_by_threads_at_once() -> None:
    with pytest.raises(ow.ScheduleError, match="depend on each other") as caught:
        listed().parallelize("i", "CPUThread", "NoRaces")
    assert "E308" in str(caught.value)


def test_merged_rows_are_shared_by_threads() -> None:
    a = ow.tensor(np.array([0.0, 1, 0, 2]), format=ow.Format([ow.Compressed]), name="a")
    b = ow.tensor(np.array([3.0, 0, 0, 4]), format=ow.Format([ow.Compressed]), name="b")
    stmt = ow.parse("y(i) = a(i) + b(i)", y=ow.empty((4,), name="y"), a=a, b=b)
    kernel = stmt.compile()
    assert ("omp parallel" in kernel.source) == ("parallel over threads" in str(kernel.explain()))
    assert np.array_equal(kernel().to_numpy(), [3, 1, 0, 6])


# --- Results in no order -----------------------------------------------------------------------


def square(seed: int, density: float = 0.2) -> sp.csr_array:
    return sp.random_array((40, 40), density=density, format="csr", rng=seed)


def product(schedule: str = "") -> ow.Statement:
    """An unsorted result of a matrix product."""
    L = ow.empty((40, 40), format=LOOSE, name="L")
    given = {n: ow.tensor(square(seed), name=n) for seed, n in enumerate("AB")}
    return ow.parse("L(i,k) = A(i,j) * B(j,k)", L=L, **given).schedule(schedule)


PRODUCT = (square(0) @ square(1)).toarray()


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "schedule",
    ["", "assemble(count)", "assemble(append)", "assemble(serial)", "split(i,i0,i1,7)",
     "split(j,j0,j1,5)", "split(k,k0,k1,7)", "parallelize(i,CPUThread,NoRaces)"],
)  # fmt: skip
def test_products_in_no_order(schedule: str, threads: int, target: str) -> None:
    if target != "cpu" and "CPUThread" in schedule:
        return
    ow.set_num_threads(threads)
    try:
        result = product(schedule).compile(target=target)()
    finally:
        ow.set_num_threads(None)
    validate(result.storage, "result")
    assert np.allclose(result.to_numpy(), PRODUCT)


def test_keys_that_nobody_reads_in_order_are_not_sorted() -> None:
    assert "order_keys" not in product().compile().source
    assert "order_keys" in product("split(k,k0,k1,7)").compile().source  # it searches for the cuts


def test_only_the_innermost_level_is_appended_in_no_order() -> None:
    """Entries of one slice have to follow one another, so slices come in order."""
    dense = np.arange(24.0).reshape(2, 3, 4) % 5
    A = ow.tensor(dense, format=ow.CSF(3), name="A")
    M = ow.tensor(np.tri(4), format=ow.CSR, name="M")
    loose = ow.Compressed(ordered=False)
    format = ow.Format([ow.Dense, loose, loose])
    L = ow.empty((2, 3, 4), format=format, name="L")
    for text, axes in (("L(i,j,k) = A(i,j,l) * M(l,k)", "ijl,lk->ijk"),
                       ("L(i,j,k) = A(i,l,k) * M(l,j)", "ilk,lj->ijk")):  # fmt: skip
        if "M(l,j)" in text:
            M = ow.tensor(np.tri(3), format=ow.CSR, name="M")
        result = ow.parse(text, L=L, A=A, M=M).compile()()
        validate(result.storage, "result")
        assert np.allclose(result.to_numpy(), np.einsum(axes, dense, M.to_numpy()))


def test_later_uses_sort_what_they_merge() -> None:
    L, B = product().compile()(), square(1)
    rows = zip(L.storage.levels[1]["pos"], L.storage.levels[1]["pos"][1:], strict=False)
    crd = L.storage.levels[1]["crd"]
    assert any((np.diff(crd[a:b]) < 0).any() for a, b in rows)
    total = L + ow.tensor(B, name="B")
    assert np.allclose(total.to_numpy(), PRODUCT + B.toarray())
    for format in (ow.CSR, ow.CSC, ow.COO(2), ow.DCSR, ow.ELL, ow.dense(2), LOOSE):
        made = L.to(format)
        validate(made.storage, "made")
        assert np.allclose(made.to_numpy(), PRODUCT)


def test_scipy_takes_unsorted_rows() -> None:
    L = product().compile()()
    matrix = L.to_scipy()
    assert matrix.format == "csr"
    assert not matrix.has_sorted_indices
    assert np.allclose(matrix.toarray(), PRODUCT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("L(i,k) = A(i,j) * B(j,k)", PRODUCT),
        ("L(i,k) = A(i,k) * B(i,k)", square(0).toarray() * square(1).toarray()),
        ("L(i,k) = A(i,k) + B(i,k)", square(0).toarray() + square(1).toarray()),
        ("L(i,k) = B(i,k) + A(i,j) * B(j,k)", PRODUCT + square(1).toarray()),
        ("L(i,k) = A(i,k) * A(i,j) * B(j,k)", PRODUCT * square(0).toarray()),
    ],
)
def test_plans_of_unsorted_results(text: str, expected: np.ndarray) -> None:
    A, B = (ow.tensor(square(seed), name=n) for seed, n in enumerate("AB"))
    L = ow.empty((40, 40), format=LOOSE, name="L")
    plan = ow.parse(text, L=L, A=A, B=B).compile().symbolic()
    for _ in range(2):
        result = plan()
        validate(result.storage, "result")
        assert np.allclose(result.to_numpy(), expected)


def test_a_sorted_pattern_is_shared_where_any_order_does() -> None:
    A = ow.tensor(square(0), name="A")
    L = ow.empty((40, 40), format=LOOSE, name="L")
    kernel = ow.parse("L(i,k) = 2 * A(i,k)", L=L, A=A).compile()
    assert "whose index arrays it shares" in str(kernel.explain())
    assert np.allclose(kernel().to_numpy(), 2 * square(0).toarray())


@pytest.mark.parametrize("format", [ow.CSR, ow.CSC, LOOSE])
def test_coordinates_come_in_storage_order(format: ow.Format) -> None:
    A = ow.tensor(square(3), format=format, name="A")
    coords, values = A.to_coo()
    expected, stored = unpack(A.storage)
    assert coords.dtype == expected.dtype
    assert np.array_equal(coords, expected)
    assert np.array_equal(values, stored)
    values[:] = 0  # a copy
    assert A.to_numpy().any()
