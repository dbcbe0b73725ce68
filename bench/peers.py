"""The contestants: Openwork and its peers, one class each.

Each kernel is a method. It takes the operands (a SciPy CSR matrix, an Openwork CSF tensor, NumPy
arrays), converts them if necessary, and returns a call that computes a new result. Only that call
is timed. A peer without the kernel returns None.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import mkl
import numpy as np
import scipy
import scipy.sparse as sp
from hand import HAND, address, addresses, arrays, count

import openwork as ow

Call = Callable[[], Any]
CHUNK = 1 << 14


class Absent(Exception):
    """The peer is not installed; the message says why and how to get it."""


class Peer:
    """Another way to compute the kernels, on `threads` threads."""

    name: ClassVar[str]
    note: ClassVar[str] = ""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.version = ""

    def spmv(self, a: Any, x: Any) -> Call | None:
        """y(i) = A(i,j) x(j)"""
        return None

    def spmm(self, a: Any, x: Any) -> Call | None:
        """Y(i,k) = A(i,j) X(j,k)"""
        return None

    def sddmm(self, a: Any, u: Any, v: Any) -> Call | None:
        """C(i,j) = A(i,j) U(i,k) V(j,k), with the pattern of A"""
        return None

    def mttkrp(self, t: ow.Tensor, factors: list[Any]) -> Call | None:
        """M(i,j) = T(i,k,l,...) D(k,j) F(l,j) ..."""
        return None

    def product(self, a: Any, b: Any) -> Call | None:
        """C(i,k) = A(i,j) B(j,k), sparse"""
        return None

    def product_again(self, a: Any, b: Any) -> Call | None:
        """The same with a known pattern of C; from scratch if the peer cannot reuse it"""
        return self.product(a, b)

    def plus(self, a: Any, b: Any) -> Call | None:
        """C(i,j) = A(i,j) + B(i,j), sparse"""
        return None

    def times(self, a: Any, b: Any) -> Call | None:
        """C(i,j) = A(i,j) B(i,j), sparse"""
        return None

    def values(self, result: Any, dense: bool) -> Any:
        """The result of a call as a NumPy array: all elements if dense, else the stored values."""
        return result


def _import(module: str, package: str, more: str = "") -> Any:
    """An optional package, or Absent."""
    how = f"`pip install {package}`{more}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise Absent(f"{error.name} is not installed; {how}") from None
    except (ImportError, OSError) as error:
        reason = str(error).split(". ")[0].rstrip(".")
        raise Absent(f"{reason}; {how}") from None


class Openwork(Peer):
    """This project, with default schedules."""

    name = "Openwork"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        ow.set_num_threads(threads)
        self.version = ow.__version__

    def spmv(self, a: Any, x: Any) -> Call:
        return ow.parse("y(i) = A(i,j) * x(j)", **_named(A=a, x=x), y=_dense(a.shape[0])).compile()

    def spmm(self, a: Any, x: Any) -> Call:
        Y = _dense(a.shape[0], x.shape[1])
        return ow.parse("Y(i,k) = A(i,j) * X(j,k)", **_named(A=a, X=x), Y=Y).compile()

    def sddmm(self, a: Any, u: Any, v: Any) -> Call:
        C = ow.empty(a.shape, format=ow.CSR)
        text = "C(i,j) = A(i,j) * U(i,k) * V(j,k)"
        return ow.parse(text, **_named(A=a, U=u, V=v), C=C).compile()

    def mttkrp(self, t: ow.Tensor, factors: list[Any]) -> Call:
        names, inner = "CDEF"[: len(factors)], "klmn"[: len(factors)]
        product = " * ".join(f"{name}({var},j)" for name, var in zip(names, inner, strict=True))
        text = f"M(i,j) = T(i,{','.join(inner)}) * {product}"
        tensors = _named(T=t, **dict(zip(names, factors, strict=True)))
        return ow.parse(text, **tensors, M=_dense(t.shape[0], factors[0].shape[1])).compile()

    def product(self, a: Any, b: Any) -> Call:
        return self._product(a, b)

    def product_again(self, a: Any, b: Any) -> Call:
        return self._product(a, b).symbolic()

    def _product(self, a: Any, b: Any) -> Any:
        C = ow.empty((a.shape[0], b.shape[1]), format=ow.CSR)
        return ow.parse("C(i,k) = A(i,j) * B(j,k)", **_named(A=a, B=b), C=C).compile()

    def plus(self, a: Any, b: Any) -> Call:
        C = ow.empty(a.shape, format=ow.CSR)
        return ow.parse("C(i,j) = A(i,j) + B(i,j)", **_named(A=a, B=b), C=C).compile()

    def times(self, a: Any, b: Any) -> Call:
        C = ow.empty(a.shape, format=ow.CSR)
        return ow.parse("C(i,j) = A(i,j) * B(i,j)", **_named(A=a, B=b), C=C).compile()

    def values(self, result: Any, dense: bool) -> Any:
        return result.storage.values.reshape(result.shape if dense else -1)


def _named(**operands: Any) -> dict[str, Any]:
    return {name: ow.tensor(operand, name=name) for name, operand in operands.items()}


def _dense(*shape: int) -> ow.Tensor:
    return ow.empty(shape)


class Hand(Peer):
    """hand.c: plain loops, compiled with the flags of generated kernels."""

    name = "C by hand"
    note = "`bench/hand.c`, rows in parallel"

    def spmv(self, a: Any, x: Any) -> Call:
        given = [*count(self.threads, a.shape[0]), *arrays(a), address(x)]
        return lambda: _filled(np.empty(a.shape[0]), HAND.spmv, given)

    def spmm(self, a: Any, x: Any) -> Call:
        width = x.shape[1]
        given = [*count(self.threads, a.shape[0], width), *arrays(a), address(x)]
        return lambda: _filled(np.empty((a.shape[0], width)), HAND.spmm, given)

    def sddmm(self, a: Any, u: Any, v: Any) -> Call:
        sizes = count(self.threads, a.shape[0], u.shape[1])
        given = [*sizes, *arrays(a), address(u), address(v)]
        return lambda: _filled(np.empty(a.nnz), HAND.sddmm, given)

    def mttkrp(self, t: ow.Tensor, factors: list[Any]) -> Call:
        function, width = getattr(HAND, f"mttkrp{t.order}"), factors[0].shape[1]
        index = addresses(csf_arrays(t))
        given = [*count(self.threads, width), index, address(t.storage.values), addresses(factors)]
        return lambda: _filled(np.zeros((t.shape[0], width)), function, given)


def csf_arrays(t: ow.Tensor) -> list[Any]:
    """pos and crd of every level of a CSF tensor."""
    index = [level[name] for level in t.storage.levels for name in ("pos", "crd")]
    assert all(array.dtype == np.int32 for array in index)
    return index


def _filled(result: Any, function: Any, given: list[Any]) -> Any:
    """The array `result`, after a function of hand.c has written to it."""
    function(*given, address(result))
    return result


class SciPy(Peer):
    """SciPy; for kernels that it lacks, what one would write with NumPy and SciPy."""

    name = "SciPy"
    note = "one thread"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.version = scipy.__version__

    def spmv(self, a: Any, x: Any) -> Call:
        return lambda: a @ x

    def spmm(self, a: Any, x: Any) -> Call:
        return lambda: a @ x

    def product(self, a: Any, b: Any) -> Call:
        """Rows are not sorted."""
        return lambda: a @ b

    def plus(self, a: Any, b: Any) -> Call:
        return lambda: a + b

    def times(self, a: Any, b: Any) -> Call:
        return lambda: a.multiply(b)

    def values(self, result: Any, dense: bool) -> Any:
        if dense:
            return result
        found = sp.csr_array(result)
        found.sort_indices()
        return found.data

    def mttkrp(self, t: ow.Tensor, factors: list[Any]) -> Call:
        """A product of factor rows per entry, then a sparse matrix that sums them."""
        (rows, *others), values = t.to_coo()
        ends = np.searchsorted(rows, np.arange(t.shape[0] + 1))
        gather = sp.csr_array((values, np.arange(values.size), ends), (t.shape[0], values.size))

        def call() -> Any:
            product = factors[0][others[0]]
            for factor, other in zip(factors[1:], others[1:], strict=True):
                product *= factor[other]
            return gather @ product

        return call


class NumPyGather(Peer):
    """SDDMM as it is usually written: gather the rows of both factors, multiply, sum."""

    name = "NumPy gather"
    note = "one thread"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.version = np.__version__

    def sddmm(self, a: Any, u: Any, v: Any) -> Call:
        rows = _rows(a)
        return lambda: a.data * (u[rows] * v[a.indices]).sum(axis=1)


class NumPyChunks(NumPyGather):
    """The same in chunks that stay in cache, multiplied and summed by einsum."""

    name = "NumPy chunks"

    def sddmm(self, a: Any, u: Any, v: Any) -> Call:
        rows = _rows(a)

        def call() -> Any:
            dots = np.empty(a.nnz)
            for n in range(0, a.nnz, CHUNK):
                part = slice(n, n + CHUNK)
                np.einsum("pk,pk->p", u[rows[part]], v[a.indices[part]], out=dots[part])
            return dots * a.data

        return call


def _rows(a: Any) -> Any:
    """The row of every entry."""
    return np.repeat(np.arange(a.shape[0], dtype=np.int32), np.diff(a.indptr))


class MKL(Peer):
    """MKL, with handles created beforehand and without the inspector; see mkl.py."""

    name = "MKL"
    note = "`bench/mkl.py`, handles made beforehand, rows of products ordered"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        try:
            self._library = mkl.load(threads)
        except OSError as error:
            how = "`pip install mkl`, which has wheels for x86-64 only"
            raise Absent(f"{error}; {how}") from None
        self.version = mkl.version(self._library)

    def _matrix(self, a: Any) -> mkl.Matrix:
        return mkl.Matrix(self._library, a)

    def spmv(self, a: Any, x: Any) -> Call:
        return self._matrix(a).times_dense(x)

    def spmm(self, a: Any, x: Any) -> Call:
        return self._matrix(a).times_dense(x)

    def product(self, a: Any, b: Any) -> Call:
        A, B = self._matrix(a), self._matrix(b)
        return lambda: A.times(B)

    def plus(self, a: Any, b: Any) -> Call:
        A, B = self._matrix(a), self._matrix(b)
        return lambda: A.plus(B)

    def values(self, result: Any, dense: bool) -> Any:
        return result if dense else result.to_scipy().data


class MKLInspector(MKL):
    """The same after `mkl_sparse_optimize`, which converts the matrix internally."""

    name = "MKL inspector"
    note = "after `mkl_sparse_optimize`, which is not measured"

    def spmv(self, a: Any, x: Any) -> None:
        """None: `formats.py` compares formats, and MKL after its inspector."""

    def spmm(self, a: Any, x: Any) -> Call:
        return self._matrix(a).inspect(x.shape[1]).times_dense(x)

    def product(self, a: Any, b: Any) -> None:
        """None: the inspector does not help sparse results."""

    def plus(self, a: Any, b: Any) -> None:
        """None, as for products."""


class Torch(Peer):
    """torch on the CPU, on its CSR tensors."""

    name = "torch"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        index = " --index-url https://download.pytorch.org/whl/cpu"
        self._torch = torch = _import("torch", f"torch{index}")
        torch.set_num_threads(threads)
        self.version = torch.__version__

    def _csr(self, a: Any) -> Any:
        parts = (self._torch.from_numpy(array) for array in (a.indptr, a.indices, a.data))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._torch.sparse_csr_tensor(*parts, size=a.shape, check_invariants=False)

    def spmv(self, a: Any, x: Any) -> Call:
        A, X = self._csr(a), self._torch.from_numpy(x)
        return lambda: A @ X

    def spmm(self, a: Any, x: Any) -> Call:
        return self.spmv(a, x)

    def sddmm(self, a: Any, u: Any, v: Any) -> Call:
        """sampled_addmm adds A; the multiplication with A's values is timed, too."""
        A, U, Vt = self._csr(a), self._torch.from_numpy(u), self._torch.from_numpy(v).T
        values, sample = A.values(), self._torch.sparse.sampled_addmm
        return lambda: sample(A, U, Vt, beta=0.0).values().mul_(values)

    def product(self, a: Any, b: Any) -> Call | None:
        """torch needs MKL for sparse products; None without it."""
        A, B = self._csr(a), self._csr(b)
        return (lambda: A @ B) if self._torch.backends.mkl.is_available() else None

    def plus(self, a: Any, b: Any) -> Call | None:
        A, B = self._csr(a), self._csr(b)
        return (lambda: A + B) if self._torch.backends.mkl.is_available() else None

    def values(self, result: Any, dense: bool) -> Any:
        if result.layout == self._torch.sparse_csr:
            parts = (result.values(), result.col_indices(), result.crow_indices())
            found = sp.csr_array(tuple(part.numpy() for part in parts), tuple(result.shape))
            found.sort_indices()
            return found.data
        return result.numpy()


class GraphBLAS(Peer):
    """SuiteSparse:GraphBLAS through python-graphblas."""

    name = "GraphBLAS"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self._gb = gb = _import("graphblas", "python-graphblas[default]")
        gb.init("suitesparse", blocking=True)
        gb.ss.config["nthreads"] = threads
        version = ".".join(map(str, gb.ss.about["library_version"]))
        self.version = f"{version} (python-graphblas {gb.__version__})"

    def spmv(self, a: Any, x: Any) -> Call:
        A, X = self._gb.io.from_scipy_sparse(a), self._gb.Vector.from_dense(x)
        return lambda: A.mxv(X, self._gb.semiring.plus_times).new()

    def spmm(self, a: Any, x: Any) -> Call:
        A, X = self._gb.io.from_scipy_sparse(a), self._gb.Matrix.from_dense(x)
        return lambda: A.mxm(X, self._gb.semiring.plus_times).new()

    def sddmm(self, a: Any, u: Any, v: Any) -> Call:
        """U V^T under the mask of A's pattern, then times A."""
        gb = self._gb
        A, U, V = gb.io.from_scipy_sparse(a), gb.Matrix.from_dense(u), gb.Matrix.from_dense(v)

        def call() -> Any:
            dots = U.mxm(V.T, gb.semiring.plus_times).new(mask=A.S)
            return A.ewise_mult(dots, gb.binary.times).new()

        return call

    def product(self, a: Any, b: Any) -> Call:
        A, B = (self._gb.io.from_scipy_sparse(m) for m in (a, b))
        return lambda: A.mxm(B, self._gb.semiring.plus_times).new()

    def plus(self, a: Any, b: Any) -> Call:
        A, B = (self._gb.io.from_scipy_sparse(m) for m in (a, b))
        return lambda: A.ewise_add(B, self._gb.binary.plus).new()

    def times(self, a: Any, b: Any) -> Call:
        A, B = (self._gb.io.from_scipy_sparse(m) for m in (a, b))
        return lambda: A.ewise_mult(B, self._gb.binary.times).new()

    def values(self, result: Any, dense: bool) -> Any:
        return result.to_dense(fill_value=0.0) if dense else result.to_coo()[2]


class Numba(Peer):
    """The loops of hand.c in Python, compiled by Numba; see numba_loops.py."""

    name = "Numba"
    note = "`bench/numba_loops.py`, rows in parallel"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        os.environ.setdefault("NUMBA_NUM_THREADS", str(max(threads, os.cpu_count() or 1)))
        numba = _import("numba", "numba")
        numba.set_num_threads(threads)
        self._loops = importlib.import_module("numba_loops")
        self.version = numba.__version__

    def spmv(self, a: Any, x: Any) -> Call:
        return lambda: self._loops.spmv(a.indptr, a.indices, a.data, x)

    def spmm(self, a: Any, x: Any) -> Call:
        return lambda: self._loops.spmm(a.indptr, a.indices, a.data, x)

    def sddmm(self, a: Any, u: Any, v: Any) -> Call:
        return lambda: self._loops.sddmm(a.indptr, a.indices, a.data, u, v)

    def mttkrp(self, t: ow.Tensor, factors: list[Any]) -> Call | None:
        function = getattr(self._loops, f"mttkrp{t.order}")
        given = [*csf_arrays(t), t.storage.values, *factors]
        return lambda: function(t.shape[0], *given)


PEERS: tuple[type[Peer], ...] = (
    *(Openwork, Hand, SciPy, NumPyGather, NumPyChunks),
    *(MKL, MKLInspector, Torch, GraphBLAS, Numba),
)


def find_peers(threads: int) -> tuple[list[Peer], dict[str, str]]:
    """The installed peers, Openwork first, and the reason for each missing one."""
    here: list[Peer] = []
    absent: dict[str, str] = {}
    for peer in PEERS:
        try:
            here.append(peer(threads))
        except Absent as reason:
            absent[peer.name] = str(reason)
    return here, absent
