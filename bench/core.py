"""The core kernels, against hand-written C and against SciPy."""

from __future__ import annotations

import ctypes
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from hand import HAND, address, arrays, count, room_for_two
from matrices import matrices, tensors
from measure import Turns, interleave

import openwork as ow
from openwork.runtime.host import library
from openwork.runtime.host.interrupt import stop_flag

WIDTH = 32
CHUNK = 1 << 14
i, j, k, l = ow.indices("i j k l")  # noqa: E741 - an index variable


@dataclass(frozen=True)
class Case:
    """One kernel on one input, computed in four ways.

    `hand` and `bare` are C functions, hand-written and generated, called directly on the same
    arrays. `fresh` and `peer` return a new result, as users call them.
    """

    kernel: str
    data: str
    hand: Callable[[], Any]
    bare: Callable[[], Any]
    fresh: Callable[[], Any]
    peer: Callable[[], Any]
    check: Callable[[], None]


def bare_function(
    kernel: ow.Kernel, operands: list[ow.Tensor], extents: tuple[int, ...], result: Any
) -> Callable[[], Any]:
    """The generated function on one thread; `extents` in the order of the loops.

    The result is an array to write into, or None if the function allocates three arrays, which
    are freed at once.
    """
    function = library.load(kernel.source).kernel
    pointers = [stop_flag(), *(p for operand in operands for p in operand.storage.pointers)]
    room = sum(operand.nnz for operand in operands) + 8
    made = 3 if result is None else 0
    given = (ctypes.c_void_p * (len(pointers) + (made or 1)))(*pointers)
    sizes = (ctypes.c_int64 * (2 + len(extents) + made))(1, room, *extents)
    if result is not None:
        given[len(pointers)] = result.ctypes.data
        return lambda: function(given, sizes)
    results = (ctypes.c_void_p * made).from_buffer(
        given, len(pointers) * ctypes.sizeof(ctypes.c_void_p)
    )

    def run() -> int:
        function(given, sizes)
        HAND.give_back(results)
        return int(sizes[-1])

    return run


def checks(
    kernel: ow.Kernel,
    peer: Callable[[], Any],
    out: Any,
    *functions: Callable[[], Any],
) -> Callable[[], None]:
    """A check that all ways give the same numbers; the C functions write to `out`."""

    def check() -> None:
        theirs, ours = peer(), kernel()
        expected = theirs.data if sp.issparse(theirs) else theirs
        np.testing.assert_allclose(ours.storage.values.reshape(expected.shape), expected)
        for function in functions:
            out.fill(np.nan)
            function()
            np.testing.assert_allclose(out, expected)

    return check


def spmv(data: str, a: Any, rng: np.random.Generator) -> Case:
    """y = A x"""
    v = rng.random(a.shape[1])
    A, x = ow.tensor(a, name="A"), ow.tensor(v, name="x")
    y = ow.empty((a.shape[0],), name="y")
    kernel = ow.assign(y[i], A[i, j] * x[j]).compile()
    out = np.empty(a.shape[0])
    given = [*count(1, a.shape[0]), *arrays(a), address(v), address(out)]
    hand = lambda: HAND.spmv(*given)  # noqa: E731
    bare = bare_function(kernel, [A, x], a.shape, out)
    peer = lambda: a @ v  # noqa: E731
    return Case("SpMV", data, hand, bare, kernel, peer, checks(kernel, peer, out, hand, bare))


def spmm(data: str, a: Any, rng: np.random.Generator) -> Case:
    """Y = A X"""
    v = rng.random((a.shape[1], WIDTH))
    A, X = ow.tensor(a, name="A"), ow.tensor(v, name="X")
    Y = ow.empty((a.shape[0], WIDTH), name="Y")
    kernel = ow.assign(Y[i, k], A[i, j] * X[j, k]).compile()
    out = np.empty(Y.shape)
    sizes = count(1, a.shape[0], WIDTH)
    given = [*sizes, *arrays(a), address(v), address(out)]
    hand = lambda: HAND.spmm(*given)  # noqa: E731
    bare = bare_function(kernel, [A, X], (*a.shape, WIDTH), out)
    peer = lambda: a @ v  # noqa: E731
    return Case("SpMM", data, hand, bare, kernel, peer, checks(kernel, peer, out, hand, bare))


def sddmm(data: str, a: Any, rng: np.random.Generator) -> Case:
    """C = A .* (U V^T), at the entries of A; the peer is NumPy, one chunk of entries at a time"""
    u, v = rng.random((a.shape[0], WIDTH)), rng.random((a.shape[1], WIDTH))
    A, U, V = ow.tensor(a, name="A"), ow.tensor(u, name="U"), ow.tensor(v, name="V")
    C = ow.empty(a.shape, format=ow.CSR, name="C")
    kernel = ow.assign(C[i, j], A[i, j] * U[i, k] * V[j, k]).compile()
    rows = np.repeat(np.arange(a.shape[0], dtype=np.int32), np.diff(a.indptr))
    sizes = count(1, a.shape[0], WIDTH)
    out = np.empty(a.nnz)
    given = [*sizes, *arrays(a), address(u), address(v), address(out)]
    hand = lambda: HAND.sddmm(*given)  # noqa: E731
    bare = bare_function(kernel, [A, U, V], (*a.shape, WIDTH), out)

    def peer() -> Any:
        dots = np.empty(a.nnz)
        for n in range(0, a.nnz, CHUNK):
            part = slice(n, n + CHUNK)
            np.einsum("pk,pk->p", u[rows[part]], v[a.indices[part]], out=dots[part])
        return sp.csr_array((dots * a.data, a.indices, a.indptr), shape=a.shape)

    return Case("SDDMM", data, hand, bare, kernel, peer, checks(kernel, peer, out, hand, bare))


def mttkrp(data: str, T: ow.Tensor, rng: np.random.Generator) -> Case:
    """M(i,j) = T(i,k,l) D(k,j) F(l,j); the peer is NumPy and SciPy, a sum of scaled rows"""
    d, f = rng.random((T.shape[1], WIDTH)), rng.random((T.shape[2], WIDTH))
    D, F = ow.tensor(d, name="D"), ow.tensor(f, name="F")
    M = ow.empty((T.shape[0], WIDTH), name="M")
    kernel = ow.assign(M[i, j], T.rename("T")[i, k, l] * D[k, j] * F[l, j]).compile()
    out = np.empty(M.shape)
    sizes = count(T.shape[0], WIDTH)
    index = [level[name] for level in T.storage.levels for name in ("pos", "crd")]
    assert all(array.dtype == np.int32 for array in index)
    given = [*sizes, *map(address, (*index, T.storage.values, d, f, out))]
    (rows, ks, ls), values = T.to_coo()
    ends = np.searchsorted(rows, np.arange(T.shape[0] + 1))
    gather = sp.csr_array((values, np.arange(values.size), ends), (T.shape[0], values.size))
    peer = lambda: gather @ (d[ks] * f[ls])  # noqa: E731
    hand = lambda: HAND.mttkrp(*given)  # noqa: E731
    function = bare_function(kernel, [T, D, F], (*T.shape, WIDTH), out)

    def bare() -> None:
        out.fill(0)  # as the caller of the kernel does: empty rows are not visited
        function()

    return Case("MTTKRP", data, hand, bare, kernel, peer, checks(kernel, peer, out, hand, bare))


def add(data: str, a: Any, rng: np.random.Generator) -> Case:
    """C = A + A^T, both CSR"""
    b = a.T.tocsr()
    A, B = ow.tensor(a, name="A"), ow.tensor(b, name="B")
    C = ow.empty(a.shape, format=ow.CSR, name="C")
    kernel = ow.assign(C[i, j], A[i, j] + B[i, j]).compile()
    made = (ctypes.c_void_p * 3)()
    given = [*count(a.shape[0]), *arrays(a), *arrays(b), made]
    HAND.add.restype = ctypes.c_int64

    bare = bare_function(kernel, [A, B], a.shape, None)

    def hand() -> int:
        entries = HAND.add(*given)
        HAND.give_back(made)
        return int(entries)

    def check() -> None:
        mine, theirs = kernel().to_scipy(), a + b
        assert hand() == bare() == mine.nnz
        assert abs(mine - theirs).max() == 0

    return Case("A+B", data, hand, bare, kernel, lambda: a + b, check)


def cases(quick: bool) -> Iterator[Case]:
    """All kernels on all inputs, generated one at a time."""
    rng = np.random.default_rng(4)
    for name, matrix in matrices(quick):
        for make in (spmv, spmm, sddmm, add):
            yield make(name, matrix, rng)
    for name, tensor in tensors(quick):
        yield mttkrp(name, tensor, rng)


def with_threads(threads: int, call: Callable[[], Any]) -> Callable[[], Any]:
    """`call` on `threads` threads."""

    def run() -> Any:
        ow.set_num_threads(threads)
        return call()

    return run


def measure(case: Case, budget: float) -> Turns:
    """Check the case on one and two threads, then time its ways in turns."""
    for threads in (1, 2):
        ow.set_num_threads(threads)
        case.check()
    contestants = {
        "hand": case.hand,
        "bare": case.bare,
        "one": with_threads(1, case.fresh),
        "two": with_threads(2, case.fresh),
        "peer": case.peer,
    }
    turns = interleave(contestants, budget)
    ow.set_num_threads(None)
    return turns


def table(quick: bool) -> tuple[str, str]:
    """Times and ratios of the kernels, and how quiet the machine was."""
    head = (
        "| kernel | input | C by hand, ms | generated, ms | x by hand | SciPy, ms | 1 thread, ms "
    )
    lines = [head + "| x SciPy | 2 threads, ms | x SciPy | room |", "|---" * 11 + "|"]
    rooms = []
    for case in cases(quick):
        before = room_for_two()
        turns = measure(case, 0.3 if quick else 2.0)
        rooms.append((before + room_for_two()) / 2)
        ms = {name: f"{1e3 * turns.median(name):.3g}" for name in turns.seconds}
        cells = [
            *(case.kernel, case.data, ms["hand"], ms["bare"], f"{turns.speed('bare', 'hand'):.2f}"),
            *(ms["peer"], ms["one"], f"{turns.speed('one', 'peer'):.2f}"),
            *(ms["two"], f"{turns.speed('two', 'peer'):.2f}", f"{rooms[-1]:.1f}"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    quiet = f"room for two threads {statistics.median(rooms):.1f} in the median, "
    quiet += f"{min(rooms):.1f} at worst"
    return "\n".join(lines), quiet
