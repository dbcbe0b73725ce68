"""The kernels: what each computes, its memory traffic, and its contestants, on every input.

The traffic assumes perfect caches: every array is read or written once, except rows of dense
operands that no entry refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp
from matrices import all_matrices, all_tensors
from peers import Call, Peer

import openwork as ow

REAL, INDEX = 8, 4
WIDTHS = (4, 32, 128)
WIDTH = 32


@dataclass(frozen=True)
class Case:
    """One kernel on one input: `make` asks a peer for its call, `expected` is the answer."""

    kernel: str
    data: str
    nnz: int
    bytes: int
    dense: bool
    expected: Any
    make: Callable[[Peer], Call | None]

    def contestants(self, peers: list[Peer]) -> dict[str, Call]:
        """The calls of all peers that have this kernel, each checked against the answer.

        Raises:
            AssertionError: a peer's answer is wrong.
        """
        calls = {}
        for peer in peers:
            call = self.make(peer)
            if call is None:
                continue
            where = f"{peer.name}, {self.kernel} on {self.data}"
            found = peer.values(call(), self.dense)
            # Large terms may cancel, and contestants add them in different orders.
            slack = 1e-12 * max(1.0, float(np.max(np.abs(self.expected), initial=0.0)))
            np.testing.assert_allclose(found, self.expected, 1e-9, slack, err_msg=where)
            calls[peer.name] = call
        return calls


def csr_bytes(a: Any) -> int:
    """The three arrays of a CSR matrix."""
    return int(a.nnz * (REAL + INDEX) + (a.shape[0] + 1) * INDEX)


def spmv(data: str, a: Any, rng: np.random.Generator) -> Case:
    """y(i) = A(i,j) x(j)"""
    x = rng.random(a.shape[1])
    moved = csr_bytes(a) + REAL * (np.unique(a.indices).size + a.shape[0])
    return Case("SpMV", data, a.nnz, moved, True, a @ x, lambda peer: peer.spmv(a, x))


# Larger dense operands and results, once per peer, exhaust small machines.
MOST_DENSE = 400_000_000


def spmm(width: int, data: str, a: Any, rng: np.random.Generator) -> Case | None:
    """Y(i,k) = A(i,j) X(j,k), if X and Y are not too large"""
    if REAL * width * sum(a.shape) > MOST_DENSE:
        return None
    x = rng.random((a.shape[1], width))
    moved = csr_bytes(a) + REAL * width * (np.unique(a.indices).size + a.shape[0])
    return Case(f"SpMM {width}", data, a.nnz, moved, True, a @ x, lambda peer: peer.spmm(a, x))


def sddmm(data: str, a: Any, rng: np.random.Generator) -> Case:
    """C(i,j) = A(i,j) U(i,k) V(j,k)"""
    u, v = rng.random((a.shape[0], WIDTH)), rng.random((a.shape[1], WIDTH))
    rows = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
    named = np.unique(rows).size + np.unique(a.indices).size
    moved = csr_bytes(a) + REAL * (a.nnz + WIDTH * named)
    expected = a.data * sum(u[rows, k] * v[a.indices, k] for k in range(WIDTH))
    make: Callable[[Peer], Call | None] = lambda peer: peer.sddmm(a, u, v)  # noqa: E731
    return Case("SDDMM", data, a.nnz, moved, False, expected, make)


def mttkrp(data: str, t: ow.Tensor, rng: np.random.Generator) -> Case:
    """M(i,j) = T(i,k,l,...) C(k,j) D(l,j) ..."""
    factors = [rng.random((extent, WIDTH)) for extent in t.shape[1:]]
    coords, values = t.to_coo()
    stored = sum(array.nbytes for level in t.storage.levels for array in level.values())
    named = sum(np.unique(mode).size for mode in coords[1:]) + t.shape[0]
    moved = stored + REAL * (t.nnz + WIDTH * named)
    where = coords[0], np.arange(t.nnz)
    scatter = sp.csr_array((values, where), shape=(t.shape[0], t.nnz))
    pairs = zip(factors, coords[1:], strict=True)
    rows = reduce(np.multiply, (factor[mode] for factor, mode in pairs))
    make: Callable[[Peer], Call | None] = lambda peer: peer.mttkrp(t, factors)  # noqa: E731
    return Case(f"MTTKRP {t.order}", data, t.nnz, moved, True, scatter @ rows, make)


# Products with more terms take too much time or memory for a turn.
MOST_TERMS = 60_000_000


def _assembled(
    kernel: str, data: str, a: Any, b: Any, expected: Any, make: Callable[[Peer], Call | None]
) -> Case:
    """A case with a sparse result in sorted rows."""
    expected = sp.csr_array(expected)
    expected.sort_indices()
    moved = csr_bytes(a) + csr_bytes(b) + csr_bytes(expected)
    return Case(kernel, data, a.nnz, moved, False, expected.data, make)


def _product(kernel: str, again: bool, data: str, a: Any, b: Any) -> Case | None:
    terms = int(np.diff(b.indptr)[a.indices].sum(dtype=np.int64))
    if terms > MOST_TERMS:
        return None
    make: Callable[[Peer], Call | None] = lambda peer: (  # noqa: E731
        peer.product_again(a, b) if again else peer.product(a, b)
    )
    return _assembled(kernel, data, a, b, a @ b, make)


def square(data: str, a: Any, rng: np.random.Generator) -> Case | None:
    """C(i,k) = A(i,j) A(j,k), of a square matrix"""
    fits = a.shape[0] == a.shape[1]
    return _product("A*A", False, data, a, a.copy()) if fits else None


def gram(data: str, a: Any, rng: np.random.Generator) -> Case | None:
    """C(i,k) = A(i,j) B(j,k), where B is the transpose of A, in CSR too"""
    return _product("A*A^T", False, data, a, _transposed(a))


def square_again(data: str, a: Any, rng: np.random.Generator) -> Case | None:
    """C(i,k) = A(i,j) A(j,k), with a known pattern of C"""
    fits = a.shape[0] == a.shape[1]
    return _product("A*A again", True, data, a, a.copy()) if fits else None


def plus(data: str, a: Any, rng: np.random.Generator) -> Case | None:
    """C(i,j) = A(i,j) + B(i,j), where B is the transpose of a square A"""
    if a.shape[0] != a.shape[1]:
        return None
    b = _transposed(a)
    return _assembled("A+B", data, a, b, a + b, lambda peer: peer.plus(a, b))


def times(data: str, a: Any, rng: np.random.Generator) -> Case | None:
    """C(i,j) = A(i,j) B(i,j), where B is the transpose of a square A"""
    if a.shape[0] != a.shape[1]:
        return None
    b = _transposed(a)
    return _assembled("A.*B", data, a, b, a.multiply(b), lambda peer: peer.times(a, b))


def _transposed(a: Any) -> Any:
    b = sp.csr_array(a.T.tocsr())
    b.sort_indices()
    return b


KNOWN_PATTERN: dict[str, Callable[..., Case | None]] = {
    "SpMV": spmv,
    **{f"SpMM {width}": partial(spmm, width) for width in WIDTHS},
    "SDDMM": sddmm,
}
NEW_PATTERN: dict[str, Callable[..., Case | None]] = {
    "A*A": square,
    "A*A^T": gram,
    "A*A again": square_again,
    "A+B": plus,
    "A.*B": times,
}


def cases(quick: bool, only: str = "", new_pattern: bool = False) -> Iterator[Case]:
    """Kernels on all inputs, generated one at a time.

    `only`: a part of "kernel on input"; selects the cases whose name contains it.
    `new_pattern`: select the kernels whose result has a new pattern, or the others.
    """
    kernels = NEW_PATTERN if new_pattern else KNOWN_PATTERN
    rng = np.random.default_rng(4)
    for name, matrix in all_matrices(quick):
        for kernel, make in kernels.items():
            if only in f"{kernel} on {name}":
                case = make(name, matrix, rng)
                if case is not None:
                    yield case
    for name, tensor in () if new_pattern else all_tensors(quick):
        if only in f"MTTKRP {tensor.order} on {name}":
            yield mttkrp(name, tensor, rng)
