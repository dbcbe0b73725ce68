"""The kernels: what each computes, which bytes it must move, and who computes it, on every input.

The bytes are those of a machine with perfect caches: every array that a kernel reads is read once
and every array that it writes is written once, rows of dense operands that no entry names excepted.
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
    """One kernel on one input: `make` asks a peer for its call, `expected` is the right answer."""

    kernel: str
    data: str
    nnz: int
    bytes: int
    dense: bool
    expected: Any
    make: Callable[[Peer], Call | None]

    def contestants(self, peers: list[Peer]) -> dict[str, Call]:
        """The calls of the peers that have this kernel, each checked against the right answer.

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
            np.testing.assert_allclose(found, self.expected, 1e-9, 1e-12, err_msg=where)
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


def spmm(width: int, data: str, a: Any, rng: np.random.Generator) -> Case:
    """Y(i,k) = A(i,j) X(j,k)"""
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


MATRIX_KERNELS: dict[str, Callable[..., Case]] = {
    "SpMV": spmv,
    **{f"SpMM {width}": partial(spmm, width) for width in WIDTHS},
    "SDDMM": sddmm,
}


def cases(quick: bool, only: str = "") -> Iterator[Case]:
    """All kernels on all inputs, made one at a time.

    `only`: a piece of "kernel on input", for those that have it in their name and no others.
    """
    rng = np.random.default_rng(4)
    for name, matrix in all_matrices(quick):
        for kernel, make in MATRIX_KERNELS.items():
            if only in f"{kernel} on {name}":
                yield make(name, matrix, rng)
    for name, tensor in all_tensors(quick):
        if only in f"MTTKRP {tensor.order} on {name}":
            yield mttkrp(name, tensor, rng)
