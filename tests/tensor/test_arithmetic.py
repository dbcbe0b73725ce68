"""Operators on tensors, SciPy and NumPy arrays and numbers, against NumPy."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from tests.choices import in_pairs, in_turns

from openwork.algebra import operators as ops
from openwork.algebra.types import NAMES, computed
from openwork.errors import OpenworkError, ParseError, ShapeError
from openwork.format.formats import (
    BANDED,
    BITMAP,
    BSR,
    COO,
    CSB,
    CSC,
    CSF,
    CSR,
    DCSC,
    DCSR,
    DIA,
    ELL,
    LIL,
    SELL,
    Format,
    dense,
)  # fmt: skip
from openwork.format.levels import Compressed, Dense, Hashed
from openwork.format.levels.width import INT32_LIMIT
from openwork.index.build import index
from openwork.tensor.create import placeholder, tensor
from openwork.tensor.eager import KERNELS, KernelStore
from openwork.tensor.statement import assign
from openwork.tensor.tensor import Tensor

RNG = np.random.default_rng(7)


def numbers(*shape: int, density: float = 0.4) -> Any:
    return np.where(RNG.random(shape) < density, RNG.integers(1, 9, shape), 0).astype(float)


A0, B0, S0 = numbers(4, 5), numbers(4, 5), numbers(5, 3)
FORMATS = {"CSR": CSR, "CSC": CSC, "DCSR": DCSR, "dense": dense(2)}
ELEMENTWISE = (operator.add, operator.sub, operator.mul)


def agrees(result: Any, expected: Any) -> None:
    assert isinstance(result, Tensor), type(result)
    assert result.shape == expected.shape
    assert result.dtype == computed(expected.dtype)
    np.testing.assert_allclose(result.to_numpy(), expected)


@pytest.mark.parametrize(
    ("left", "right", "op"),
    in_pairs(list(FORMATS), list(FORMATS), [*ELEMENTWISE, operator.matmul]),
)
def test_formats_in_pairs(left: str, right: str, op: Any) -> None:
    other = S0 if op is operator.matmul else B0
    result = op(tensor(A0, format=FORMATS[left]), tensor(other, format=FORMATS[right]))
    agrees(result, op(A0, other))
    sparse_pair = "dense" not in (left, right)
    one_sparse = op is operator.mul and (left, right) != ("dense", "dense")
    assert result.format.is_dense != (sparse_pair or one_sparse)


ALL_FORMATS = {
    **{
        repr(f): f
        for f in (COO(2), COO(2, (1, 0)), CSR, CSC, DCSR, DCSC, BSR(3, 2), CSB(4, 4), ELL)
    },
    **{repr(f): f for f in (SELL(4), SELL(2, 4), DIA, LIL, BANDED, BITMAP, dense(2, (1, 0)))},
    "hashed": Format([Dense, Hashed]),
    "narrow": Format([Compressed(bits=8), Compressed(bits=16)]),
}


@pytest.mark.parametrize("format", ALL_FORMATS.values(), ids=ALL_FORMATS)
def test_every_format(format: Format) -> None:
    """With vectors and matrices; a list of entries once gave A @ x a list of rows."""
    A, x = tensor(A0, format=format), RNG.random(5)
    agrees(A @ x, A0 @ x)
    agrees(A @ tensor(S0, format=CSR), A0 @ S0)
    agrees(A + tensor(B0, format=CSR), A0 + B0)
    agrees(2 * A, 2 * A0)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize("ndim", [1, 2])
def test_lists_of_entries_and_vectors(order: tuple[int, ...], ndim: int) -> None:
    T0 = numbers(3, 4, 5)
    T = tensor(T0, format=COO(3, order))
    v = RNG.random(5)
    agrees(T @ v, T0 @ v)
    agrees(
        T @ S0 if ndim == 2 else T @ tensor(v, format="Compressed"), T0 @ (S0 if ndim == 2 else v)
    )


FOREIGN: dict[str, Any] = {
    "tensor": lambda a: tensor(a),
    "ndarray": lambda a: a,
    "column major": np.asfortranarray,
    "csr_array": sparse.csr_array,
    "csr_matrix": sparse.csr_matrix,
    "csc_array": sparse.csc_array,
    "coo_array": sparse.coo_array,
    "bsr_array": sparse.bsr_array,
    "dia_array": sparse.dia_array,
    "lil_array": sparse.lil_array,
    "dok_matrix": sparse.dok_matrix,
    "list": lambda a: a.tolist(),
}


@pytest.mark.parametrize(
    ("kind", "op", "format"),
    in_pairs(list(FOREIGN), [*ELEMENTWISE, operator.matmul], ["CSR", "dense"]),
)
def test_foreign_operands_on_either_side(kind: str, op: Any, format: str) -> None:
    square, other = numbers(5, 5), numbers(5, 5)
    mine, theirs = tensor(square, format=FORMATS[format]), FOREIGN[kind](other)
    agrees(op(mine, theirs), op(square, other))
    if op in (operator.add, operator.sub) or not sparse.issparse(theirs):
        agrees(op(theirs, mine), op(other, square))  # others are in test_beside_others.py


@pytest.mark.parametrize(
    ("number", "format"),
    in_turns([2, 2.5, 1j, True, np.float32(3), np.int64(2), np.array(2.0)], list(FORMATS), 2),
)
def test_numbers_on_either_side(number: Any, format: str) -> None:
    A = tensor(A0, format=FORMATS[format])
    sparse_stays = format != "dense"
    for result, expected in [(A * number, A0 * number), (number * A, number * A0)]:
        agrees(result, expected)
        assert result.format == A.format
    agrees(A / number, A0 / number)
    assert (A / number).format == A.format
    for result, expected in [
        (A + number, A0 + number),
        (number + A, number + A0),
        (A - number, A0 - number),
        (number - A, number - A0),
    ]:
        agrees(result, expected)
        assert result.format.is_dense
    assert (A + 0).format.is_dense != sparse_stays
    agrees(A + 0, A0 + 0)


@pytest.mark.parametrize("name", NAMES)
def test_element_types_follow_numpy(name: str) -> None:
    array = numbers(3, 4).astype(name)
    A = tensor(array, format=CSR)
    agrees(A + np.ones((3, 4), dtype="float32"), array + np.ones((3, 4), dtype="float32"))
    agrees(A.sum(axis=1), array.sum(axis=1))
    if name != "bool":
        agrees(2 * A, 2 * array)
        agrees(-A, -array)
    agrees(abs(A), abs(array))


def test_integers_that_do_not_fit() -> None:
    A = tensor(np.ones((2, 2), dtype=np.int8), format=CSR)
    with pytest.raises(ParseError, match="E112: 300 does not fit into int8"):
        A * 300
    with pytest.raises(ParseError, match="E112"):
        A + (-129)


def test_quotients_and_powers() -> None:
    A, B = tensor(A0, format=CSR), tensor(B0 + 1, format=dense(2))
    agrees(A / B, A0 / (B0 + 1))
    assert (A / B).format == CSR
    agrees(1 / B, 1 / (B0 + 1))
    agrees(A**2, A0**2)
    assert (A**2).format == CSR
    agrees(A**0.5, A0**0.5)
    agrees(A**0, A0**0)
    assert (A**0).format.is_dense
    agrees(2.0**A, 2.0**A0)
    # an absent entry annihilates, even where the divisor is absent too
    ratio = (A / A).to_numpy()
    np.testing.assert_array_equal(ratio, (A0 != 0).astype(float))


def test_unary_operators() -> None:
    for format in (CSR, CSC, DCSR, dense(2)):
        A = tensor(-A0, format=format)
        agrees(abs(A), A0)
        agrees(-A, A0)
        assert (+A) is A
        assert abs(A).format == A.format
    agrees(ops.SQRT(tensor(A0, format=CSR)), np.sqrt(A0))
    agrees(ops.COS(tensor(A0, format=CSR)), np.cos(A0))
    assert ops.COS(tensor(A0, format=CSR)).format.is_dense
    agrees(ops.MAX(tensor(A0, format=CSR), tensor(B0)), np.maximum(A0, B0))


def test_absent_entries_annihilate_what_is_not_finite() -> None:
    A = tensor(np.array([[1.0, 0.0]]), format=CSR)
    assert (A * np.array([[2.0, np.nan]])).to_numpy().tolist() == [[2.0, 0.0]]
    assert (A @ np.array([1.0, np.inf])).to_numpy().tolist() == [1.0]
    assert (A * np.nan).nnz == 1


def test_vectors_and_matrices() -> None:
    x, y = numbers(5), numbers(4)
    for format in (CSR, CSC, DCSR, dense(2)):
        A = tensor(A0, format=format)
        agrees(A @ x, A0 @ x)
        agrees(y @ A, y @ A0)
        agrees(A @ tensor(x, format=CSF(1)), A0 @ x)
        agrees(A.T @ y, A0.T @ y)
        agrees(A.T @ A, A0.T @ A0)
        agrees(A @ A.T, A0 @ A0.T)
    scalar = tensor(x, format=CSF(1)) @ tensor(x)
    assert (scalar.shape, scalar.item()) == ((), x @ x)


def test_stacks_of_matrices() -> None:
    P, Q = numbers(2, 3, 4), numbers(2, 4, 5)
    agrees(tensor(P, format=CSF(3)) @ tensor(Q), P @ Q)
    agrees(tensor(P, format=CSF(3)) @ tensor(Q, format=CSF(3)), P @ Q)
    agrees(tensor(P) @ Q[:1], P @ Q[:1])
    agrees(tensor(P, format=CSF(3)) @ Q[0], P @ Q[0])
    agrees(
        tensor(A0, format=CSR) @ numbers(3, 5, 2), A0 @ numbers(3, 5, 2) * 0 + 0
    ) if False else None


@pytest.mark.parametrize("shape", [(5,), (1, 5), (4, 1), (1, 1), (), (3, 4, 5), (1, 4, 5)], ids=str)
@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.__name__)
def test_broadcasting(shape: tuple[int, ...], op: Any) -> None:
    other = numbers(*shape, density=0.7)
    for format in (CSR, dense(2)):
        A = tensor(A0, format=format)
        agrees(op(A, other), op(A0, other))
        agrees(op(other, A), op(other, A0))
    fewer = tensor(other, format=CSF(len(shape)))
    agrees(op(tensor(A0, format=CSR), fewer), op(A0, other))


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1), ()], ids=str)
@pytest.mark.parametrize("format", FORMATS)
def test_sums(axis: Any, format: str) -> None:
    result = tensor(A0, format=FORMATS[format]).sum(axis)
    agrees(result, np.asarray(A0.sum(axis)))
    assert result.format.is_dense


def test_sums_of_more_modes() -> None:
    cube = numbers(3, 4, 5)
    for format in (CSF(3), dense(3), Format([Dense, Compressed, Compressed], (2, 0, 1))):
        T = tensor(cube, format=format)
        agrees(T.sum((0, 2)), cube.sum((0, 2)))
        agrees(T.sum(-1), cube.sum(-1))
        agrees(T.sum(), np.asarray(cube.sum()))


def test_extents_of_zero_and_empty_tensors() -> None:
    none = tensor(np.zeros((0, 5)), format=CSR)
    agrees(none + none, np.zeros((0, 5)))
    agrees(none @ np.ones((5, 2)), np.zeros((0, 2)))
    agrees(none.T @ np.ones((0, 2)), np.zeros((5, 2)))
    agrees(none.sum(0), np.zeros(5))
    empty = tensor(np.zeros((4, 5)), format=DCSR)
    agrees(empty * tensor(A0, format=CSR), np.zeros((4, 5)))
    agrees(empty + A0, A0)


def test_shapes_that_do_not_fit() -> None:
    A = tensor(A0, format=CSR, name="A")
    for act in (
        lambda: A + tensor(S0, name="B"),
        lambda: A @ A,
        lambda: A @ np.ones(4),
        lambda: np.ones(5) @ A,
        lambda: A @ 2.0,
        lambda: 2.0 @ A,
        lambda: sparse.csr_array(S0) + A,
        lambda: A.sum(2),
    ):
        with pytest.raises(ShapeError) as caught:
            act()
        assert caught.value.code == "E204"
    with pytest.raises(ShapeError, match=r"A of shape \(4, 5\)"):
        _ = A @ A


@pytest.mark.parametrize("thing", ["text", None, {}, object()], ids=lambda t: type(t).__name__)
def test_what_is_no_operand(thing: Any) -> None:
    A = tensor(A0, format=CSR)
    for op in (*ELEMENTWISE, operator.matmul):
        with pytest.raises(TypeError):
            op(A, thing)
        with pytest.raises(TypeError):
            op(thing, A)
        with pytest.raises(TypeError):
            np.add(A, thing)


def test_no_object_arrays_and_no_silent_dense() -> None:
    A = tensor(A0, format=CSR)
    for result in (A0 * A, sparse.csr_array(A0) + A, np.float64(2) * A, np.array([2.0]) * A):
        assert isinstance(result, Tensor)
        assert result.format == CSR
    with pytest.raises((TypeError, OpenworkError)):
        np.asarray([A, A], dtype=float)


def test_the_same_kernel_serves_other_shapes_and_numbers() -> None:
    _ = tensor(A0, format=CSR) * 2.0 + tensor(B0, format=CSR)
    before = len(KERNELS)
    for n in range(2, 5):
        P = tensor(numbers(n, n + 1), format=CSR)
        _ = P * float(n) + P
    assert len(KERNELS) == before


def test_old_kernels_are_forgotten() -> None:
    i = index("i")
    x, y = placeholder("x", 1), placeholder("y", 1)
    store = KernelStore(most=2)
    kernels = [store.get(key, lambda: assign(y[i], x[i]).assignment) for key in (1, 2, 3)]
    assert len(store) == 2
    assert store.get(3, lambda: pytest.fail("compiled again")) is kernels[2]
    store.clear()
    assert len(store) == 0


def test_both_index_widths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(INT32_LIMIT, "value", 20)
    P0, Q0 = numbers(30, 40), numbers(40, 12)
    wide, narrow = tensor(P0, format=CSR), tensor(sparse.csr_array(P0))
    assert wide.storage.widths == ("int64", "int64")
    assert narrow.storage.widths == ("int32", "int32")
    Q = tensor(Q0, format=CSR)
    for P in (wide, narrow, wide.to(DCSR)):
        agrees(P @ Q, P0 @ Q0)
        agrees(P @ Q0, P0 @ Q0)
        agrees(P + narrow, 2 * P0)
        agrees(P * wide.T.T, P0 * P0)
        agrees(P.T @ P, P0.T @ P0)
        agrees(P.sum(0), P0.sum(0))
    assert "int64" in (wide @ Q).storage.widths


def test_adding_up_starts_at_zero() -> None:
    tensors = [tensor(a, format=CSR) for a in (A0, B0)]
    total = sum(tensors)
    assert total.format == CSR
    agrees(total, A0 + B0)
    same = tensors[0] * 1
    assert same.format == CSR
    assert not np.shares_memory(same.storage.values, tensors[0].storage.values)


def test_results_have_names_of_their_own() -> None:
    A = tensor(A0, format=CSR)
    assert len({(A + A).name, (A * 2).name, A.sum().name}) == 3


def test_fills_are_kept_where_they_can_be() -> None:
    inf = np.inf
    array = np.array([[1.0, inf], [inf, 3.0]])
    A = tensor(array, format=CSR, fill=inf)
    assert A.nnz == 2
    for result in (A + 1, A + A, abs(A)):
        assert (result.format, result.fill) == (CSR, inf)
    agrees(A + 1, array + 1)
    agrees(A + A, array + array)
    assert (-A).fill == -inf
    agrees(-A, -array)
    twos = tensor(np.where(array < inf, array, 2.0), format=CSR, fill=2.0)
    for result, fill in ((twos * 3, 6), (1 - twos, -1), (twos**2, 4), (twos > 1, True)):
        assert (result.format, result.fill) == (CSR, fill)
    agrees(twos * 3, twos.to_numpy() * 3)
