"""Joining, products and rearrangements against NumPy, by its functions and by ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openwork as ow

RNG = np.random.default_rng(21)
FORMATS = {
    "dense": ow.dense(2), "CSR": ow.CSR, "CSC": ow.CSC, "COO": ow.COO(2), "BSR": ow.BSR(2, 2),
}  # fmt: skip


def numbers(*shape: int) -> Any:
    return np.where(RNG.random(shape) < 0.5, RNG.integers(1, 9, shape), 0).astype(float)


X, Y, V = numbers(4, 5), numbers(4, 5), numbers(5)

# Each takes NumPy's module or ours, two matrices and a vector.
CALLS: dict[str, Any] = {
    "concatenate 0": lambda m, a, b, v: m.concatenate([a, b]),
    "concatenate -1": lambda m, a, b, v: m.concatenate([a, b, a], -1),
    "concatenate None": lambda m, a, b, v: m.concatenate([a, v], axis=None),
    "stack": lambda m, a, b, v: m.stack([a, b]),
    "stack -1": lambda m, a, b, v: m.stack([a, b], -1),
    "vstack": lambda m, a, b, v: m.vstack([a, v, b]),
    "hstack": lambda m, a, b, v: m.hstack([a, b]),
    "hstack vectors": lambda m, a, b, v: m.hstack([v, v]),
    "block": lambda m, a, b, v: m.block([[a, b], [b, a]]),
    "kron": lambda m, a, b, v: m.kron(a, b),
    "kron vector": lambda m, a, b, v: m.kron(a, v),
    "outer": lambda m, a, b, v: m.outer(v, a[0]),
    "tensordot 0": lambda m, a, b, v: m.tensordot(a, v, 0),
    "tensordot 1": lambda m, a, b, v: m.tensordot(a, v, 1),
    "tensordot pair": lambda m, a, b, v: m.tensordot(a, b, ([0], [0])),
    "tensordot all": lambda m, a, b, v: m.tensordot(a, b, ((0, 1), (0, 1))),
    "where": lambda m, a, b, v: m.where(a > b, a, b),
    "where number": lambda m, a, b, v: m.where(a > 3, a, 0),
    "tril": lambda m, a, b, v: m.tril(a, 1),
    "triu": lambda m, a, b, v: m.triu(a, -1),
    "roll": lambda m, a, b, v: m.roll(a, 3),
    "roll modes": lambda m, a, b, v: m.roll(a, (1, -2), (0, 1)),
    "roll both": lambda m, a, b, v: m.roll(a, 2, axis=(0, 1)),
    "flip": lambda m, a, b, v: m.flip(a),
    "flip 1": lambda m, a, b, v: m.flip(a, 1),
    "tile": lambda m, a, b, v: m.tile(a, (2, 3)),
    "tile more": lambda m, a, b, v: m.tile(v, (2, 1, 2)),
    "tile none": lambda m, a, b, v: m.tile(a, (0, 1)),
    "take": lambda m, a, b, v: m.take(a, [3, 0, 3], 0),
    "take flat": lambda m, a, b, v: m.take(a, [[3, 0], [7, -1]]),
    "expand": lambda m, a, b, v: m.expand_dims(a, (0, 2)),
    "moveaxis": lambda m, a, b, v: m.moveaxis(m.stack([a, b]), 0, -1),
}
# These are NumPy's names, and methods of ours.
METHODS: dict[str, Any] = {
    "transpose": lambda m, a, b, v: m.transpose(a),
    "reshape": lambda m, a, b, v: m.reshape(a, (2, -1)),
    "ravel": lambda m, a, b, v: m.ravel(a),
    "clip": lambda m, a, b, v: m.clip(a, 1, 4),
    "trace": lambda m, a, b, v: m.trace(a),
    "diagonal": lambda m, a, b, v: m.diagonal(a, 1),
    "dot": lambda m, a, b, v: m.dot(a, v),
    "einsum": lambda m, a, b, v: m.einsum("ij,ij,j->i", a, b, v),
    "swapaxes": lambda m, a, b, v: m.swapaxes(a, 0, 1),
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", [*CALLS, *METHODS])
def test_functions(name: str, format: str) -> None:
    call = (CALLS | METHODS)[name]
    A, B = (ow.tensor(each, format=FORMATS[format]) for each in (X, Y))
    v = ow.tensor(V) if format == "dense" else ow.tensor(V, format=ow.CSF(1))
    expected = call(np, X, Y, V)
    for module in (np, ow) if name in CALLS else (np,):
        found = call(module, A, B, v)
        assert isinstance(found, ow.Tensor)
        assert found.shape == np.shape(expected)
        assert found.dtype == np.asarray(expected).dtype
        np.testing.assert_array_equal(found.to_numpy(), expected)
        dense = format == "dense" or name in ("clip", "trace", "tensordot all", "einsum", "dot")
        assert dense or name.startswith("tensordot") or not found.format.is_dense


def test_what_is_joined_to_a_sparse_tensor_is_sparse() -> None:
    A = ow.tensor(X, format=ow.CSR)
    for made, expected in (
        (np.vstack([Y, A]), np.vstack([Y, X])),
        (np.hstack([A, Y]), np.hstack([X, Y])),
        (np.insert(A, 1, 5, 0), np.insert(X, 1, 5, 0)),
        (np.pad(A, 1, constant_values=2), np.pad(X, 1, constant_values=2)),
    ):
        assert made.format == ow.CSR and made.nnz == np.count_nonzero(expected)
        np.testing.assert_array_equal(made.to_numpy(), expected)
    nans = ow.full((4, 5), np.nan, format="CSR")
    assert ow.vstack([nans, nans]).nnz == 0
    Q = ow.entry.quaternion("float32")
    q = ow.tensor(np.arange(24.0).reshape(2, 3, 4), dtype=Q)
    both = ow.concatenate([q.to("CSR"), q])
    assert both.format == ow.CSR and both.equals(ow.concatenate([q, q]))
    inf = ow.full((4, 5), np.inf, format="CSR")
    np.testing.assert_array_equal(ow.vstack([A, inf]).to_numpy(), np.vstack([X, inf.to_numpy()]))
    assert ow.vstack([inf, inf]).fill == np.inf
    halves = ow.concatenate([A, ow.tensor(X.astype("int8"), format=ow.CSR)])
    assert halves.dtype == np.float64


def test_large_and_empty_ones_stay_sparse() -> None:
    n = 1_000_000
    A = ow.tensor(([[3], [n - 1]], [5.0]), shape=(n, n))
    moved = (ow.tril(A), ow.triu(A), ow.roll(A, 1, 0))
    for made in (*moved, ow.vstack([A, A]), ow.kron(A, [[0.0, 1]])):
        assert not made.format.is_dense
        assert made.sum() in (0, 5, 10)
    assert ow.where(A > 1, A, 0).nnz == 1
    assert ow.where(A > 7, A, 0).nnz == 0


def test_what_does_not_fit() -> None:
    A = ow.tensor(X, format=ow.CSR)
    for wrong in (
        lambda: ow.concatenate([]), lambda: ow.concatenate([A, A.T]), lambda: ow.stack([A, A.T]),
        lambda: ow.concatenate([A, A[0]]), lambda: ow.tensordot(A, A, ([0, 1], [0])),
        lambda: ow.concatenate([A], 2), lambda: ow.moveaxis(A, 0, (0, 1)),
        lambda: ow.tril(A[0]), lambda: ow.roll(A, (1, 2, 3), (0, 1)), lambda: ow.take(A, [9], 0),
        lambda: ow.diag(A.reshape(1, 4, 5)), lambda: np.delete(A, 9, 0), lambda: np.repeat(A, -1),
        lambda: np.repeat(A, [1, 2], 0), lambda: ow.pad(A, (1, 2, 3)), lambda: A.argmax((0, 1)),
        lambda: A.transpose(0),
    ):  # fmt: skip
        with pytest.raises(ow.ShapeError, match="E204"):
            wrong()
    with pytest.raises(ow.ShapeError, match="E205"):
        ow.tile(A, -1)


# Known contents


def test_known_contents() -> None:
    for k in (-5, -1, 0, 2, 7):
        np.testing.assert_array_equal(ow.eye(4, 6, k).to_numpy(), np.eye(4, 6, k))
        np.testing.assert_array_equal(ow.diag(V, k).to_numpy(), np.diag(V, k))
        np.testing.assert_array_equal(np.diag(ow.tensor(X, format=ow.CSR), k).to_numpy(),
                                      np.diag(X, k))  # fmt: skip
    assert ow.eye(3, dtype="int8", format="CSC").format == ow.CSC
    assert ow.zeros((2, 3), dtype="int32").dtype == np.int32
    assert ow.full((2, 2), 7).to_numpy().tolist() == [[7, 7], [7, 7]]
    assert ow.full((2, 2), 7, format="CSR").to_numpy().tolist() == [[7, 7], [7, 7]]
    A = ow.random((30, 40), 0.25, rng=3)
    assert (A.nnz, A.format) == (300, ow.CSR)
    assert A.equals(ow.random((30, 40), 0.25, rng=3))
    assert not A.equals(ow.random((30, 40), 0.25, rng=4))
    assert 0 < A.mean() < 0.25
    assert ow.random((10**6, 10**6), 1e-11, rng=1).nnz == 10
    with pytest.raises(ow.ShapeError, match="E205"):
        ow.random((3, 3), 2)
