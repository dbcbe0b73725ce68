"""The kernels of the compiler core, against C by hand and against SciPy."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from matrices import matrices, tensors
from measure import Turns, interleave

import openwork as ow
from openwork.runtime import library

WIDTH = 32
CHUNK = 1 << 14
HAND = library.load(Path(__file__).with_name("hand.c").read_text(encoding="utf-8"))
i, j, k, l = ow.indices("i j k l")  # noqa: E741 - an index variable


@dataclass(frozen=True)
class Case:
    """One kernel on one input, computed in three ways.

    `hand` and `into` write to arrays that exist already; where the result is made by the call
    (`add`), both make it. `fresh` and `peer` return a new result, as a user would have it.
    """

    kernel: str
    data: str
    hand: Callable[[], Any]
    into: Callable[[], Any]
    fresh: Callable[[], Any]
    peer: Callable[[], Any]
    check: Callable[[], None]


def address(array: Any) -> ctypes.c_void_p:
    """Where the array's elements are."""
    return ctypes.c_void_p(array.ctypes.data)


def arrays(matrix: Any) -> list[ctypes.c_void_p]:
    """The arrays of a CSR matrix for a function of hand.c."""
    assert matrix.indptr.dtype == matrix.indices.dtype == np.int32
    return [address(a) for a in (matrix.indptr, matrix.indices, matrix.data)]


def spmv(data: str, a: Any, rng: np.random.Generator) -> Case:
    """y = A x"""
    v = rng.random(a.shape[1])
    A, x = ow.tensor(a, name="A"), ow.tensor(v, name="x")
    y = ow.empty((a.shape[0],), name="y")
    kernel = ow.assign(y[i], A[i, j] * x[j]).compile()
    out = np.empty(a.shape[0])
    given = [ctypes.c_int64(a.shape[0]), *arrays(a), address(v), address(out)]

    def check() -> None:
        HAND.spmv(*given)
        np.testing.assert_allclose(kernel().to_numpy(), a @ v)
        np.testing.assert_allclose(kernel(out=y).to_numpy(), out)

    peer = lambda: a @ v  # noqa: E731
    return Case("SpMV", data, lambda: HAND.spmv(*given), lambda: kernel(out=y), kernel, peer, check)


def spmm(data: str, a: Any, rng: np.random.Generator) -> Case:
    """Y = A X"""
    v = rng.random((a.shape[1], WIDTH))
    A, X = ow.tensor(a, name="A"), ow.tensor(v, name="X")
    Y = ow.empty((a.shape[0], WIDTH), name="Y")
    kernel = ow.assign(Y[i, k], A[i, j] * X[j, k]).compile()
    out = np.empty(Y.shape)
    sizes = [ctypes.c_int64(a.shape[0]), ctypes.c_int64(WIDTH)]
    given = [*sizes, *arrays(a), address(v), address(out)]

    def check() -> None:
        HAND.spmm(*given)
        np.testing.assert_allclose(kernel().to_numpy(), a @ v)
        np.testing.assert_allclose(kernel(out=Y).to_numpy(), out)

    peer = lambda: a @ v  # noqa: E731
    return Case("SpMM", data, lambda: HAND.spmm(*given), lambda: kernel(out=Y), kernel, peer, check)


def sddmm(data: str, a: Any, rng: np.random.Generator) -> Case:
    """C = A .* (U V^T), at the entries of A; the peer is NumPy, a chunk of entries at a time"""
    u, v = rng.random((a.shape[0], WIDTH)), rng.random((a.shape[1], WIDTH))
    A, U, V = ow.tensor(a, name="A"), ow.tensor(u, name="U"), ow.tensor(v, name="V")
    C = ow.empty(a.shape, format=ow.CSR, name="C")
    kernel = ow.assign(C[i, j], A[i, j] * U[i, k] * V[j, k]).compile()
    rows = np.repeat(np.arange(a.shape[0], dtype=np.int32), np.diff(a.indptr))
    sizes = [ctypes.c_int64(a.shape[0]), ctypes.c_int64(WIDTH)]
    given = [*sizes, *arrays(a), address(u), address(v)]

    def hand() -> Any:
        out = np.empty(a.nnz)
        HAND.sddmm(*given, address(out))
        return out

    def peer() -> Any:
        out = np.empty(a.nnz)
        for n in range(0, a.nnz, CHUNK):
            part = slice(n, n + CHUNK)
            np.einsum("pk,pk->p", u[rows[part]], v[a.indices[part]], out=out[part])
        return sp.csr_array((out * a.data, a.indices, a.indptr), shape=a.shape)

    def check() -> None:
        np.testing.assert_allclose(kernel().to_scipy().data, peer().data)
        np.testing.assert_allclose(kernel().to_scipy().data, hand())

    return Case("SDDMM", data, hand, kernel, kernel, peer, check)


def mttkrp(data: str, T: ow.Tensor, rng: np.random.Generator) -> Case:
    """M(i,j) = T(i,k,l) D(k,j) F(l,j); the peer is NumPy and SciPy, a sum of scaled rows"""
    d, f = rng.random((T.shape[1], WIDTH)), rng.random((T.shape[2], WIDTH))
    D, F = ow.tensor(d, name="D"), ow.tensor(f, name="F")
    M = ow.empty((T.shape[0], WIDTH), name="M")
    kernel = ow.assign(M[i, j], T.rename("T")[i, k, l] * D[k, j] * F[l, j]).compile()
    out = np.empty(M.shape)
    sizes = [ctypes.c_int64(T.shape[0]), ctypes.c_int64(WIDTH)]
    index = [level[name] for level in T.storage.levels for name in ("pos", "crd")]
    assert all(array.dtype == np.int32 for array in index)
    given = [*sizes, *map(address, (*index, T.storage.values, d, f, out))]
    (rows, ks, ls), values = T.to_coo()
    ends = np.searchsorted(rows, np.arange(T.shape[0] + 1))
    gather = sp.csr_array((values, np.arange(values.size), ends), (T.shape[0], values.size))
    peer = lambda: gather @ (d[ks] * f[ls])  # noqa: E731
    hand = lambda: HAND.mttkrp(*given)  # noqa: E731

    def check() -> None:
        hand()
        np.testing.assert_allclose(kernel().to_numpy(), peer())
        np.testing.assert_allclose(kernel(out=M).to_numpy(), out)

    return Case("MTTKRP", data, hand, lambda: kernel(out=M), kernel, peer, check)


def add(data: str, a: Any, rng: np.random.Generator) -> Case:
    """C = A + A^T, both CSR"""
    b = a.T.tocsr()
    A, B = ow.tensor(a, name="A"), ow.tensor(b, name="B")
    C = ow.empty(a.shape, format=ow.CSR, name="C")
    kernel = ow.assign(C[i, j], A[i, j] + B[i, j]).compile()
    made = (ctypes.c_void_p * 3)()
    given = [ctypes.c_int64(a.shape[0]), *arrays(a), *arrays(b), made]
    HAND.add.restype = ctypes.c_int64

    def hand() -> int:
        count = HAND.add(*given)
        HAND.give_back(made)
        return int(count)

    def check() -> None:
        mine, theirs = kernel().to_scipy(), a + b
        assert hand() == mine.nnz
        assert abs(mine - theirs).max() == 0

    return Case("A+B", data, hand, kernel, kernel, lambda: a + b, check)


def cases(quick: bool) -> Iterator[Case]:
    """All kernels on all inputs, made one at a time."""
    rng = np.random.default_rng(4)
    for name, matrix in matrices(quick):
        for make in (spmv, spmm, sddmm, add):
            yield make(name, matrix, rng)
    for name, tensor in tensors(quick):
        yield mttkrp(name, tensor, rng)


def with_threads(count: int, call: Callable[[], Any]) -> Callable[[], Any]:
    """`call`, on `count` threads."""

    def run() -> Any:
        ow.set_num_threads(count)
        return call()

    return run


def measure(case: Case, budget: float) -> Turns:
    """Check the case on one and two threads, then let its ways run in turns."""
    for count in (1, 2):
        ow.set_num_threads(count)
        case.check()
    contestants = {
        "hand": case.hand,
        "into": with_threads(1, case.into),
        "one": with_threads(1, case.fresh),
        "two": with_threads(2, case.fresh),
        "peer": case.peer,
    }
    turns = interleave(contestants, budget)
    ow.set_num_threads(None)
    return turns


def table(quick: bool) -> str:
    """Times and ratios of the kernels."""
    head = "| kernel | input | by hand, ms | Openwork, ms | x by hand | SciPy, ms | 1 thread, ms "
    lines = [head + "| x SciPy | 2 threads, ms | x SciPy |", "|---" * 10 + "|"]
    for case in cases(quick):
        turns = measure(case, 0.3 if quick else 2.0)
        ms = {name: f"{1e3 * turns.median(name):.3g}" for name in turns.seconds}
        cells = [
            *(case.kernel, case.data, ms["hand"], ms["into"], f"{turns.speed('into', 'hand'):.2f}"),
            *(ms["peer"], ms["one"], f"{turns.speed('one', 'peer'):.2f}"),
            *(ms["two"], f"{turns.speed('two', 'peer'):.2f}"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)
