"""Statements that users write, by name, against NumPy and SciPy.

There are many, so they are compiled quickly; the golden kernels are those that users get.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import csgraph

import openwork as ow
from openwork.algebra.types import NAMES
from openwork.pipeline import Compiled
from openwork.runtime.host.library import load
from openwork.tensor.exchange.validate import validate

pytestmark = pytest.mark.needs_cc

MATRICES = {"column-major": ow.dense(2, (1, 0)), "CSR": ow.CSR, "CSC": ow.CSC, "DCSR": ow.DCSR}
every_format = pytest.mark.parametrize("format", MATRICES.values(), ids=MATRICES)
Array = np.ndarray[Any, Any]


def numbers(*shape: int, density: float = 0.4, seed: int = 0, dtype: Any = "float64") -> Array:
    """Small whole numbers with many zeros, so that sums are exact in any order."""
    rng = np.random.default_rng([seed, *shape])
    drawn = rng.integers(1, 9, shape) * (rng.random(shape) < density)
    if np.dtype(dtype).kind in "ifc":
        drawn = drawn * rng.choice([-1, 1], shape)
    return np.asarray(drawn).astype(dtype)


def compiled(text: str, *, semiring: Any = None, **operands: Any) -> ow.Kernel:
    """The kernel of a statement, compiled without optimization."""

    def quickly(made: Compiled) -> Any:
        return load(made.source, optimize="-O0").kernel

    return ow.parse(text, semiring=semiring, **operands).compile(loader=quickly)


def run(text: str, *, semiring: Any = None, **operands: Any) -> ow.Tensor:
    """The result of a statement; its index arrays must be in order."""
    result = compiled(text, semiring=semiring, **operands)()
    validate(result.storage, "the result")
    return result


def check(text: str, expected: Any, *, semiring: Any = None, **operands: Any) -> ow.Tensor:
    result = run(text, semiring=semiring, **operands)
    np.testing.assert_array_equal(result.to_numpy(), expected)
    return result


# --- Sums, diagonals, repeated operands, broadcasts --------------------------------------------


@every_format
def test_adding_zero_at_the_end_does_not_move_the_sum(format: ow.Format) -> None:
    A, x, z = numbers(6, 5), numbers(5, density=1), numbers(6, density=1)
    given = {"A": ow.tensor(A, format=format), "x": ow.tensor(x), "z": ow.tensor(z)}
    for text in ("y(i) = A(i,j)*x(j) + z(i)", "y(i) = A(i,j)*x(j) + z(i) + 0"):
        check(text, A @ x + z, y=ow.empty(6), **given)


def test_sums_of_nothing_are_absent_together() -> None:
    B = ow.tensor(np.diag([2.0, 0, 0]), format=ow.CSR, name="B")
    C = ow.tensor(np.diag([0, 3.0, 0]), format=ow.CSR, name="C")
    zero, y = ow.tensor(np.zeros(3), name="zero"), ow.empty((3,), name="y")
    text = "y(i) = (sum(j, B(i,j)) + sum(k, C(i,k))) / zero(i)"
    check(text, [np.inf, np.inf, 0], y=y, B=B, C=C, zero=zero)


@every_format
def test_the_diagonal(format: ow.Format) -> None:
    A = numbers(6, 6)
    given = {"A": ow.tensor(A, format=format)}
    check("a(i) = A(i,i)", np.diag(A), a=ow.empty(6), **given)
    stored = check("a(i) = A(i,i)", np.diag(A), a=ow.empty(6, format=ow.CSF(1)), **given)
    if not format.is_dense:
        assert stored.nnz == np.count_nonzero(np.diag(A))
    check("t = A(i,i)", np.trace(A), t=ow.empty(()), **given)


def test_diagonals_of_more_modes() -> None:
    A = numbers(4, 4, 4)
    given = {"A": ow.tensor(A, format=ow.CSF(3))}
    check("a(i) = A(i,i,i)", np.einsum("iii->i", A), a=ow.empty(4), **given)
    check("B(i,j) = A(i,j,i)", np.einsum("iji->ij", A), B=ow.empty((4, 4), format=ow.CSR), **given)
    check("B(j,i) = A(i,i,j)", np.einsum("iij->ji", A), B=ow.empty((4, 4), format=ow.CSR), **given)


@every_format
def test_operands_that_come_twice(format: ow.Format) -> None:
    A = numbers(5, 5)
    given = {"A": ow.tensor(A, format=format)}
    out = {"C": ow.empty((5, 5), format=format)}
    check("C(i,j) = A(i,j) + A(i,j)", 2 * A, **given, **out)
    check("C(i,j) = A(i,j) * A(i,j)", A * A, **given, **out)
    check("C(i,k) = A(i,j) * A(j,k)", A @ A, **given, **out)
    check("C(i,j) = A(i,j) - A(j,i)", A - A.T, **given, **out)


def test_a_sparse_vector_that_comes_twice() -> None:
    b = numbers(9)
    B = ow.tensor(b, format=ow.CSF(1))
    check("c(i) = B(i) + B(i)", 2 * b, B=B, c=ow.empty(9, format=ow.CSF(1)))
    check("s = B(i) * B(i)", b @ b, B=B, s=ow.empty(()))


@pytest.mark.parametrize("vector", [ow.dense(1), ow.CSF(1)], ids=["dense", "sparse"])
def test_broadcasts(vector: ow.Format) -> None:
    b, c = numbers(4), numbers(6)
    given = {"b": ow.tensor(b, format=vector), "c": ow.tensor(c, format=vector)}
    check("A(i,j) = b(i) + c(j)", np.add.outer(b, c), A=ow.empty((4, 6)), **given)
    check("A(i,j) = b(i) * c(j)", np.outer(b, c), A=ow.empty((4, 6), format=ow.CSR), **given)
    check("A(j,i) = b(i) * c(j)", np.outer(c, b), A=ow.empty((6, 4), format=ow.DCSR), **given)
    rows = np.broadcast_to(b, (3, 4))
    check("A(i,j) = b(j)", rows, A=ow.empty((3, 4), format=ow.CSR), b=given["b"])


def test_order_0() -> None:
    a, b = ow.tensor(3.0), ow.tensor(4.0)
    check("s = a * b + 2", 14.0, a=a, b=b, s=ow.empty(()))
    check("s = 7", 7.0, s=ow.empty(()))
    x = numbers(5)
    check("y(i) = a * x(i)", 3 * x, a=a, x=ow.tensor(x, format=ow.CSF(1)), y=ow.empty(5))


def test_order_6() -> None:
    X, Y = numbers(2, 3, 2, 3, 2, 3, density=0.2), numbers(2, 3, 2, 3, 2, 3, density=0.2, seed=1)
    given = {"X": ow.tensor(X, format=ow.CSF(6)), "Y": ow.tensor(Y, format=ow.CSF(6))}
    Z = ow.empty(X.shape, format=ow.CSF(6))
    check("Z(i,j,k,l,m,n) = X(i,j,k,l,m,n) + Y(i,j,k,l,m,n)", X + Y, Z=Z, **given)


@pytest.mark.parametrize(
    "format", [ow.CSF(6, (3, 0, 5, 1, 4, 2)), ow.Format([ow.Dense, ow.Compressed] * 3)], ids=repr
)
def test_a_contraction_of_order_6(format: ow.Format) -> None:
    X, Y = numbers(2, 3, 2, 3, 2, 3, density=0.2), numbers(2, 3, 2, 3, 2, 3, density=0.2, seed=1)
    given = {"X": ow.tensor(X, format=format), "Y": ow.tensor(Y, format=ow.CSF(6))}
    inner = np.einsum("ijklmn,ijklmn->in", X, Y)
    out = ow.empty((2, 3), format=ow.CSR)
    check("S(i,n) = X(i,j,k,l,m,n) * Y(i,j,k,l,m,n)", inner, S=out, **given)


# --- Nothing at all ----------------------------------------------------------------------------


@every_format
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)], ids=str)
def test_modes_of_extent_zero(format: ow.Format, shape: tuple[int, int]) -> None:
    m, n = shape
    A, x = ow.tensor(np.zeros(shape), format=format), ow.tensor(np.ones(n))
    check("y(i) = A(i,j) * x(j)", np.zeros(m), A=A, x=x, y=ow.empty(m))
    least = check("y(i) = min(j, A(i,j))", np.full(m, np.inf if n == 0 else 0), A=A, y=ow.empty(m))
    assert least.shape == (m,)
    C = ow.empty(shape, format=format)
    assert check("C(i,j) = A(i,j) + A(i,j)", np.zeros(shape), A=A, C=C).shape == shape


def test_products_over_a_mode_of_extent_zero() -> None:
    A, B = ow.tensor(np.zeros((3, 0)), format=ow.CSR), ow.tensor(np.zeros((0, 4)), format=ow.CSR)
    C = ow.empty((3, 4), format=ow.CSR)
    assert check("C(i,j) = A(i,k) * B(k,j)", np.zeros((3, 4)), A=A, B=B, C=C).nnz == 0


@every_format
def test_tensors_without_entries(format: ow.Format) -> None:
    A, B = ow.empty((3, 4), format=format), ow.tensor(numbers(3, 4), format=format)
    given = {"A": A, "B": B, "C": ow.empty((3, 4), format=format)}
    check("C(i,j) = A(i,j) + B(i,j)", B.to_numpy(), **given)
    nothing = check("C(i,j) = A(i,j) * B(i,j)", np.zeros((3, 4)), **given)
    assert format.is_dense or nothing.nnz == 0


# --- Results that are sparse -------------------------------------------------------------------


def test_storage_orders_that_conflict_are_reconciled() -> None:
    B, C = numbers(5, 5), numbers(5, 5, seed=1)
    A = ow.empty((5, 5), format=ow.CSR, name="A")
    given = {"B": ow.tensor(B, format=ow.CSR), "C": ow.tensor(C, format=ow.CSR)}
    kernel = compiled("A(i,j) = B(i,j) + C(j,i)", A=A, **given)
    result = kernel()
    validate(result.storage, "A")
    np.testing.assert_array_equal(result.to_numpy(), B + C.T)
    told = kernel.explain()
    assert "converted from ow.CSR to ow.CSC" in told
    assert "so that all operands can be traversed in the order i, j" in told


def test_the_smaller_operand_is_converted() -> None:
    small, large = numbers(30, 30, density=0.02), numbers(30, 30, density=0.9)
    given = {"L": ow.tensor(large, format=ow.CSR), "S": ow.tensor(small, format=ow.CSR)}
    kernel = compiled("y(i) = L(i,j) * S(j,i)", y=ow.empty(30), **given)
    np.testing.assert_array_equal(kernel().to_numpy(), (large * small.T).sum(1))
    assert "S: converted" in kernel.explain()


@pytest.mark.parametrize("result", [ow.CSR, ow.DCSR, ow.CSC], ids=repr)
@pytest.mark.parametrize(
    ("left", "right"), [(ow.CSR, ow.CSR), (ow.CSC, ow.CSR), (ow.DCSR, ow.DCSR)], ids=repr
)
def test_spgemm(left: ow.Format, right: ow.Format, result: ow.Format) -> None:
    B, C = numbers(20, 30, density=0.1), numbers(30, 25, density=0.1, seed=1)
    product = run(
        "A(i,j) = B(i,k) * C(k,j)",
        A=ow.empty((20, 25), format=result),
        B=ow.tensor(B, format=left),
        C=ow.tensor(C, format=right),
    )
    expected = sparse.csr_array(B) @ sparse.csr_array(C)
    np.testing.assert_array_equal(product.to_numpy(), expected.toarray())
    assert product.nnz == np.count_nonzero((B != 0) @ (C != 0))


def test_rows_times_columns_stores_no_more_than_meets() -> None:
    A = numbers(20, 30, density=0.05)
    rows, columns = ow.tensor(A, format=ow.CSR), ow.tensor(A.T, format=ow.CSC)
    C = ow.empty((20, 20), format=ow.CSR)
    product = check("C(i,j) = A(i,k) * B(k,j)", A @ A.T, A=rows, B=columns, C=C)
    assert product.nnz == np.count_nonzero((A != 0) @ (A.T != 0))


@pytest.mark.parametrize("format", [ow.CSR, ow.CSC, ow.DCSR], ids=repr)
def test_column_sums_into_a_sparse_vector(format: ow.Format) -> None:
    B = numbers(12, 40, density=0.03)
    sums = run("a(j) = B(i,j)", a=ow.empty(40, format=ow.CSF(1)), B=ow.tensor(B, format=format))
    np.testing.assert_array_equal(sums.to_numpy(), B.sum(0))
    if format != ow.CSC:  # there the outermost loop visits every column, and keeps it
        assert sums.nnz == np.count_nonzero(np.abs(B).sum(0))


@pytest.mark.parametrize("result", [ow.CSF(4), ow.CSF(4, (2, 0, 3, 1))], ids=repr)
def test_a_contraction_into_four_sparse_modes(result: ow.Format) -> None:
    X, Y = numbers(6, 4, 5, density=0.1), numbers(6, 3, 4, density=0.1, seed=1)
    given = {"X": ow.tensor(X, format=ow.CSF(3)), "Y": ow.tensor(Y, format=ow.CSF(3))}
    Z = ow.empty((4, 5, 3, 4), format=result)
    expected = np.einsum("ijk,ilm->jklm", X, Y)
    product = check("Z(j,k,l,m) = X(i,j,k) * Y(i,l,m)", expected, Z=Z, **given)
    touched = np.einsum("ijk,ilm->jklm", X != 0, Y != 0)
    assert product.nnz == np.count_nonzero(touched)


@pytest.mark.parametrize("factor", [ow.dense(1), ow.CSF(1)], ids=["dense", "sparse"])
def test_a_sparse_factor_leaves_dense_modes_of_the_result_out(factor: ow.Format) -> None:
    c, D = numbers(9, density=0.2), numbers(2, 3)
    Y = ow.empty((9, 2, 3), format=ow.Format([ow.Dense, ow.Dense, ow.Compressed]))
    given = {"c": ow.tensor(c, format=factor), "D": ow.tensor(D, format=ow.CSR)}
    check("Y(k,l,i) = c(k) * D(l,i)", np.multiply.outer(c, D), Y=Y, **given)


def test_a_diagonal_merged_with_another_operand() -> None:
    A, B = numbers(3, 5, 5), numbers(3, 5)
    given = {"A": ow.tensor(A, format=ow.CSF(3)), "B": ow.tensor(B, format=ow.CSR)}
    expected = np.einsum("kjj->kj", A) + B
    check("Y(k,j) = A(k,j,j) + B(k,j)", expected, Y=ow.empty((3, 5), format=ow.DCSR), **given)


def test_a_result_with_more_coordinates_than_64_bits_count() -> None:
    n = 10**6
    X = ow.tensor(([[0], [n - 1], [n - 2]], [2.0]), shape=(1, n, n), format=ow.CSF(3))
    Y = ow.tensor(([[0], [n - 3], [n - 4]], [3.0]), shape=(1, n, n), format=ow.CSF(3))
    Z = run("Z(j,k,l,m) = X(i,j,k) * Y(i,l,m)", X=X, Y=Y, Z=ow.empty((n,) * 4, format=ow.CSF(4)))
    coords, values = Z.to_coo()
    assert (coords[:, 0].tolist(), values.tolist()) == ([n - 1, n - 2, n - 3, n - 4], [6.0])


# --- Semirings on graphs -----------------------------------------------------------------------


def graph(n: int = 12, density: float = 0.25, seed: int = 3) -> Array:
    """Edge weights from row to column, 0 where there is no edge."""
    weights = np.abs(numbers(n, n, density=density, seed=seed))
    np.fill_diagonal(weights, 0)
    return weights


@pytest.mark.parametrize("format", [ow.CSR, ow.CSC, ow.DCSR], ids=repr)
def test_shortest_paths(format: ow.Format) -> None:
    weights = graph()
    expected = csgraph.shortest_path(sparse.csr_array(weights), indices=0)
    distance = np.full(len(weights), np.inf)
    distance[0] = 0
    kernel = compiled(
        "next(j) = distance(i) * W(i,j) + distance(j)",
        semiring="min_plus",
        W=ow.tensor(weights, format=format),
        distance=ow.tensor(distance),
        next=ow.empty(len(weights)),
    )
    for _ in weights:
        distance = kernel(distance=distance).to_numpy()
    np.testing.assert_array_equal(distance, expected)
    assert np.isinf(expected).any() or np.isfinite(expected).all()


def test_all_pairs_of_shortest_paths_stay_sparse() -> None:
    weights = graph(density=0.12)
    D = ow.tensor(sparse.csr_array(weights), fill=np.inf)
    text = "C(i,j) = A(i,k) * B(k,j) + A(i,j)"
    for _ in range(4):
        out = ow.empty(D.shape, format=ow.CSR, fill=np.inf)
        D = run(text, semiring="min_plus", A=D, B=D.copy().rename("B"), C=out).rename("A")
    expected = csgraph.shortest_path(sparse.csr_array(weights))
    got = D.to_numpy()
    np.fill_diagonal(got, 0)
    np.testing.assert_array_equal(got, expected)


def test_longest_paths_in_an_acyclic_graph() -> None:
    weights = np.triu(graph(density=0.4), 1)
    n = len(weights)
    longest = np.full(n, -np.inf)
    longest[0] = 0
    for j in range(n):
        for i in np.flatnonzero(weights[:, j]):
            longest[j] = max(longest[j], longest[i] + weights[i, j])
    kernel = compiled(
        "y(j) = x(i) * W(i,j) + x(j)",
        semiring="max_plus",
        W=ow.tensor(weights, format=ow.CSR),
        x=ow.placeholder("x", 1),
        y=ow.empty(n),
    )
    x = np.where(np.arange(n) == 0, 0, -np.inf)
    for _ in range(n):
        x = kernel(x=x).to_numpy()
    np.testing.assert_array_equal(x, longest)


@pytest.mark.parametrize("format", [ow.CSR, ow.DCSC], ids=repr)
def test_reachability(format: ow.Format) -> None:
    edges = graph(20, 0.07) != 0
    reached = np.zeros(20, dtype=bool)
    reached[0] = True
    kernel = compiled(
        "y(j) = x(i) * E(i,j) + x(j)",
        semiring="or_and",
        E=ow.tensor(edges, format=format),
        x=ow.tensor(reached),
        y=ow.empty(20, dtype="bool"),
    )
    for _ in edges:
        reached = kernel(x=reached).to_numpy()
    order = csgraph.breadth_first_order(sparse.csr_array(edges), 0, return_predecessors=False)
    assert sorted(order.tolist()) == np.flatnonzero(reached).tolist()


def test_most_reliable_paths() -> None:
    weights = graph()
    chances = np.where(weights > 0, weights / 16, 0)
    best = chances.copy()
    np.fill_diagonal(best, 1)
    for k in range(len(best)):
        best = np.maximum(best, np.multiply.outer(best[:, k], best[k]))
    kernel = compiled(
        "y(j) = x(i) * W(i,j) + x(j)",
        semiring="max_times",
        W=ow.tensor(chances, format=ow.CSR),
        x=ow.placeholder("x", 1),
        y=ow.empty(len(best)),
    )
    x = np.eye(len(best))[0]
    for _ in best:
        x = kernel(x=x).to_numpy()
    np.testing.assert_allclose(x, best[0], rtol=1e-12)


# --- Operators of the user ---------------------------------------------------------------------


def test_an_operator_that_unites() -> None:
    either = ow.operator(
        "either", lambda a, b: a + b - a * b, identity=0, commutative=True, associative=True
    )
    a, b = numbers(9) / 16, numbers(9, seed=1) / 16
    given = {"a": ow.tensor(a, format=ow.CSF(1)), "b": ow.tensor(b, format=ow.CSF(1))}
    result = check("c(i) = either(a(i), b(i))", a + b - a * b, either=either,
                   c=ow.empty(9, format=ow.CSF(1)), **given)  # fmt: skip
    assert result.nnz == np.count_nonzero((a != 0) | (b != 0))
    A = np.abs(numbers(5, 6)) / 16
    expected = 1 - np.prod(1 - A, axis=1)
    total = run("y(i) = reduce(either, j, A(i,j))", either=either, y=ow.empty(5),
                A=ow.tensor(A, format=ow.CSR))  # fmt: skip
    np.testing.assert_allclose(total.to_numpy(), expected, rtol=1e-12)


def test_an_operator_that_intersects() -> None:
    damp = ow.operator("damp", lambda a, b: a * b / 2, annihilator=0, commutative=True)
    a, b = numbers(9), numbers(9, seed=1)
    given = {"a": ow.tensor(a, format=ow.CSF(1)), "b": ow.tensor(b, format=ow.CSF(1))}
    c = ow.empty(9, format=ow.CSF(1))
    result = check("c(i) = damp(a(i), b(i))", a * b / 2, damp=damp, c=c, **given)
    assert result.nnz == np.count_nonzero(a * b)


def test_an_operator_without_laws_is_computed_everywhere() -> None:
    odd = ow.operator("odd", lambda a, b: a * b + 1)
    a, b = numbers(9), numbers(9, seed=1)
    given = {"a": ow.tensor(a, format=ow.CSF(1)), "b": ow.tensor(b, format=ow.CSF(1))}
    check("c(i) = odd(a(i), b(i))", a * b + 1, odd=odd, c=ow.empty(9), **given)


def test_a_semiring_of_the_user() -> None:
    widest = ow.semiring("widest", ow.max, ow.min, 0)
    weights = graph()
    best = weights.copy()
    for k in range(len(best)):
        best = np.maximum(best, np.minimum.outer(best[:, k], best[k]))
    W = ow.tensor(weights, format=ow.CSR)
    B = W
    for _ in range(4):
        out = ow.empty(weights.shape, format=ow.CSR)
        B = run("C(i,j) = A(i,k) * B(k,j) + A(i,j)", semiring=widest, A=B.copy().rename("A"),
                B=B.copy().rename("B"), C=out)  # fmt: skip
    np.testing.assert_array_equal(B.to_numpy(), best)


# --- Element types -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NAMES)
def test_every_element_type(dtype: str) -> None:
    A, B, x = (
        numbers(*s, density=0.6, seed=n, dtype=dtype) for n, s in enumerate([(5, 4)] * 2 + [(4,)])
    )
    given = {"A": ow.tensor(A, format=ow.CSR), "B": ow.tensor(B, format=ow.CSR)}
    y = check("y(i) = A(i,j) * x(j)", A @ x, A=given["A"], x=ow.tensor(x), y=ow.empty(5, dtype))
    assert y.dtype == dtype
    C = ow.empty((5, 4), dtype, ow.CSR)
    check("C(i,j) = A(i,j) + B(i,j)", A + B, C=C, **given)
    check("C(i,j) = A(i,j) * B(i,j)", A * B, C=C, **given)
    check("y(i) = max(j, A(i,j))", A.max(1), A=given["A"], y=ow.empty(5, dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64"])
def test_integers_wrap_as_in_numpy(dtype: str) -> None:
    limits = np.iinfo(dtype)
    a = np.array([limits.max, limits.min, limits.max, 3], dtype)
    b = np.array([limits.max, limits.max, 2, 5], dtype)
    given = {"a": ow.tensor(a), "b": ow.tensor(b), "c": ow.empty(4, dtype)}
    check("c(i) = a(i) * b(i) + a(i)", a * b + a, **given)
    check("c(i) = -a(i) - b(i)", -a - b, **given)


@pytest.mark.parametrize(
    ("left", "right"),
    [("int8", "float32"), ("uint8", "int8"), ("int64", "float32"), ("float32", "complex64"),
     ("bool", "int16"), ("uint64", "int64")],
)  # fmt: skip
def test_mixed_types_promote_as_in_numpy(left: str, right: str) -> None:
    a, b = numbers(8, dtype=left), numbers(8, seed=1, dtype=right)
    given = {"a": ow.tensor(a, format=ow.CSF(1)), "b": ow.tensor(b)}
    expected = a * b + a
    check("c(i) = a(i) * b(i) + a(i)", expected, c=ow.empty(8, expected.dtype), **given)


# --- Index variables as values -----------------------------------------------------------------


@every_format
def test_index_variables_as_values(format: ow.Format) -> None:
    B = numbers(4, 6)
    i, j = np.indices(B.shape)
    given = {"B": ow.tensor(B, format=format), "A": ow.empty((4, 6), format=format)}
    check("A(i,j) = B(i,j) * (i*6 + j)", B * (i * 6 + j), **given)
    lower = check("A(i,j) = select(i > j, B(i,j), 0)", np.tril(B, -1), **given)
    assert lower.shape == (4, 6)


def test_an_index_variable_alone() -> None:
    check("y(i) = i", np.arange(5), y=ow.empty(5, dtype="int64"))
    check("Y(i,j) = i - j", np.subtract.outer(np.arange(3), np.arange(4)),
          Y=ow.empty((3, 4), dtype="int64"))  # fmt: skip


@pytest.mark.parametrize("format", [ow.dense(2), ow.CSR, ow.CSC])
def test_operators_of_one_and_three_arguments(format: ow.Format) -> None:
    D, E = numbers(4, 5), numbers(4, 5, seed=1)
    A, B = ow.tensor(D, format=ow.CSR, name="A"), ow.tensor(E, format=ow.DCSR, name="B")
    i, j = ow.indices("i j")
    square = ow.operator("square", lambda a: a * a + 1)
    clip = ow.operator("clip", lambda a, lo, hi: ow.minimum(ow.maximum(a, lo), hi))
    R = ow.empty((4, 5), format=format, name="R")
    got = ow.assign(R[i, j], square(A[i, j])).compile()().to_numpy()
    np.testing.assert_array_equal(got, D * D + 1)
    got = ow.assign(R[i, j], clip(A[i, j], -1, B[i, j])).compile()().to_numpy()
    np.testing.assert_array_equal(got, np.minimum(np.maximum(D, -1), E))
