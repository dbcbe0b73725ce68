"""`python -m openwork demo`: five kernels, compiled, checked, and timed against SciPy and NumPy."""

from __future__ import annotations

import os
import re
import statistics
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from openwork._version import __version__
from openwork.errors import InternalError
from openwork.format.formats import CSF, CSR
from openwork.frozen import frozen
from openwork.index.build import indices
from openwork.index.checks import check
from openwork.index.einstein import explicit
from openwork.index.nodes import Access
from openwork.runtime.host.threads import thread_count
from openwork.runtime.host.toolchain import HOW_TO_GET_ONE, find_toolchain
from openwork.runtime.reference import evaluate, to_masked
from openwork.tensor.create import empty, tensor
from openwork.tensor.kernel.kernel import Kernel
from openwork.tensor.statement import Statement, assign
from openwork.tensor.tensor import Tensor
from openwork.tree import walk

WIDTH = 32  # columns of dense operands
SHOWN = 24  # lines of C
MARGIN = 11
COLUMNS = 100 - MARGIN
TURNS = 11
CHUNK = 1 << 14
TOLERANCE = 1e-12


@frozen
class Example:
    """A statement over large tensors, small ones to check it, and the same in another library."""

    title: str
    statement: Statement
    small: Mapping[str, Tensor]
    peer: str
    formulation: Callable[[], Any]


# The examples


def random_matrix(rows: int, per_row: int, rng: np.random.Generator) -> Any:
    """A square CSR matrix with about `per_row` entries in each row, at random."""
    where = np.repeat(np.arange(rows, dtype=np.int32), per_row)
    columns = rng.integers(0, rows, rows * per_row, dtype=np.int32)
    matrix = sp.coo_array((rng.random(where.size), (where, columns)), shape=(rows, rows)).tocsr()
    matrix.sum_duplicates()
    return matrix


def spmv(rows: int, rng: np.random.Generator) -> Example:
    """y = A x"""
    i, j = indices("i j")
    a, v = random_matrix(rows, 10, rng), rng.random(rows)
    A, x = tensor(a, name="A"), tensor(v, name="x")
    y = empty((rows,), name="y")
    small = {"A": tensor(random_matrix(40, 5, rng)), "x": tensor(rng.random(40))}
    statement = assign(y[i], A[i, j] * x[j])
    return Example("SpMV: a matrix times a vector", statement, small, "SciPy", lambda: a @ v)


def spmm(rows: int, rng: np.random.Generator) -> Example:
    """Y = A X"""
    i, j, k = indices("i j k")
    a, v = random_matrix(rows, 10, rng), rng.random((rows, WIDTH))
    A, X = tensor(a, name="A"), tensor(v, name="X")
    Y = empty((rows, WIDTH), name="Y")
    small = {"A": tensor(random_matrix(40, 5, rng)), "X": tensor(rng.random((40, 7)))}
    statement = assign(Y[i, k], A[i, j] * X[j, k])
    title = f"SpMM: a matrix times {WIDTH} dense columns"
    return Example(title, statement, small, "SciPy", lambda: a @ v)


def sddmm(rows: int, rng: np.random.Generator) -> Example:
    """C = A .* (U V^T), computed only where A has entries"""
    i, j, k = indices("i j k")
    a, u, v = random_matrix(rows, 10, rng), rng.random((rows, WIDTH)), rng.random((rows, WIDTH))
    A, U, V = tensor(a, name="A"), tensor(u, name="U"), tensor(v, name="V")
    C = empty((rows, rows), format=CSR, name="C")
    where = np.repeat(np.arange(rows), np.diff(a.indptr))

    def formulation() -> Any:
        out = np.empty(a.nnz)
        for begin in range(0, a.nnz, CHUNK):
            part = slice(begin, begin + CHUNK)
            np.einsum("pk,pk->p", u[where[part]], v[a.indices[part]], out=out[part])
        return sp.csr_array((out * a.data, a.indices, a.indptr), shape=a.shape)

    thin = {"U": tensor(rng.random((40, 7))), "V": tensor(rng.random((40, 7)))}
    small = {"A": tensor(random_matrix(40, 5, rng)), **thin}
    statement = assign(C[i, j], A[i, j] * U[i, k] * V[j, k])
    title = "SDDMM: a dense product, only where a sparse matrix has entries"
    return Example(title, statement, small, "NumPy", formulation)


def mttkrp(rows: int, rng: np.random.Generator) -> Example:
    """M(i,j) = T(i,k,l) D(k,j) F(l,j), with a sparse tensor of order 3"""
    i, j, k, m = indices("i j k l")
    shape = (rows, rows // 2, rows // 3)
    T = _random_tensor(shape, 200 * rows, rng, "T")
    d, f = rng.random((shape[1], WIDTH)), rng.random((shape[2], WIDTH))
    D, F = tensor(d, name="D"), tensor(f, name="F")
    M = empty((rows, WIDTH), name="M")
    (first, second, third), values = T.to_coo()
    ends = np.searchsorted(first, np.arange(rows + 1))
    gather = sp.csr_array((values, np.arange(values.size), ends), shape=(rows, values.size))
    small = {"T": _random_tensor((9, 8, 7), 60, rng, "T")}
    small |= {"D": tensor(rng.random((8, 5))), "F": tensor(rng.random((7, 5)))}
    statement = assign(M[i, j], T[i, k, m] * D[k, j] * F[m, j])
    title = "MTTKRP: the heart of a tensor decomposition"
    peer = lambda: gather @ (d[second] * f[third])  # noqa: E731
    return Example(title, statement, small, "NumPy and SciPy", peer)


def _random_tensor(
    shape: tuple[int, ...], count: int, rng: np.random.Generator, name: str
) -> Tensor:
    coords = np.array([rng.integers(0, extent, count) for extent in shape])
    return tensor((coords, rng.random(count)), shape=shape, format=CSF(len(shape)), name=name)


def add(rows: int, rng: np.random.Generator) -> Example:
    """C = A + B, all sparse"""
    i, j = indices("i j")
    a, b = random_matrix(rows, 10, rng), random_matrix(rows, 10, rng)
    A, B = tensor(a, name="A"), tensor(b, name="B")
    C = empty((rows, rows), format=CSR, name="C")
    small = {"A": tensor(random_matrix(40, 5, rng)), "B": tensor(random_matrix(40, 5, rng))}
    statement = assign(C[i, j], A[i, j] + B[i, j])
    title = "A+B: two sparse matrices, into a third"
    return Example(title, statement, small, "SciPy", lambda: a + b)


def examples(quick: bool) -> Iterator[Example]:
    """The five, made one at a time from the same seed."""
    rng = np.random.default_rng(0)
    scale = 10 if quick else 1
    yield spmv(200_000 // scale, rng)
    yield spmm(50_000 // scale, rng)
    yield sddmm(50_000 // scale, rng)
    yield mttkrp(1_000 // scale, rng)
    yield add(200_000 // scale, rng)


# What is shown of each


def excerpt(source: str, most: int = SHOWN) -> list[str]:
    """The loops of a kernel's C, from the first comment on a loop; long ones are cut short."""
    lines = source.splitlines()
    body = next(n for n, line in enumerate(lines) if line.startswith("int32_t kernel("))
    loop = re.compile(r"\s*// (every|stored|\w+ of this run)")
    begin = next(n for n in range(body, len(lines)) if loop.match(lines[n]))
    indent = len(lines[begin]) - len(lines[begin].lstrip())
    end = next(n for n in range(begin + 1, len(lines)) if lines[n] == " " * indent + "}")
    # Pragmas start at the margin, so that `textwrap.dedent` would remove nothing.
    found = [line.removeprefix(" " * indent) for line in lines[begin : end + 1]]
    left = [f"... {len(found) - most + 1} more lines"] if len(found) > most else []
    return [piece for line in found[: most - len(left)] for piece in folded(line)] + left


def folded(line: str) -> list[str]:
    """A line of C, wrapped to fit the screen."""
    start = len(line) - len(line.lstrip())
    return textwrap.wrap(line, COLUMNS, subsequent_indent=" " * (start + 4)) or [""]


def agreement(statement: Statement, kernel: Kernel, given: Mapping[str, Tensor]) -> float:
    """The difference of the kernel from the reference evaluator on the given tensors."""
    assignment = explicit(check(statement.assignment))
    accesses = [node for node in walk(assignment.rhs) if isinstance(node, Access)]
    extents = {
        var: given[access.tensor.name].shape[mode]
        for access in accesses
        for mode, var in enumerate(access.vars)
    }
    masked = {name: to_masked(operand.storage) for name, operand in given.items()}
    expected = evaluate(assignment, masked, extents).values
    return difference(kernel(**given).to_numpy(), expected)


def difference(ours: Any, theirs: Any) -> float:
    """The largest difference of two results, relative to the largest entry."""
    if isinstance(ours, Tensor):
        ours = ours.to_numpy() if ours.format.is_dense else ours.to_scipy()
    apart, size = abs(ours - theirs), abs(theirs)
    worst = float(apart.max()) / float(size.max())
    if not worst < TOLERANCE:
        raise InternalError(f"the demo's results differ by {worst:.1e}")
    return worst


def in_words(apart: float) -> str:
    """A difference as text."""
    return f"to {apart:.0e}" if apart else "exact"


def race(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float, float]:
    """Seconds of both, and our speedup: medians over alternating runs."""
    seconds: list[tuple[float, float]] = []
    for _ in range(TURNS):
        start = time.perf_counter()
        ours()
        middle = time.perf_counter()
        theirs()
        seconds.append((middle - start, time.perf_counter() - middle))
    mine, other = zip(*seconds, strict=True)
    ratio = statistics.median(b / a for a, b in seconds)
    return statistics.median(mine), statistics.median(other), ratio


def section(label: str, lines: list[str]) -> str:
    """Lines under a label in the margin."""
    labels = [label, *[""] * (len(lines) - 1)]
    return "\n".join(f"{a:<{MARGIN}}{line}" for a, line in zip(labels, lines, strict=True))


def operands(statement: Statement) -> list[Tensor]:
    """The tensors on the right of a statement."""
    accesses = [node for node in walk(statement.assignment.rhs) if isinstance(node, Access)]
    found = {access.tensor.name: access.tensor.source for access in accesses}
    return [source for source in found.values() if isinstance(source, Tensor)]


def described(operand: Tensor) -> str:
    """A tensor in a line."""
    shape = " x ".join(f"{extent:,}" for extent in operand.shape)
    stored = "" if operand.format.is_dense else f", {operand.nnz:,} entries"
    return f"{operand.name} is {shape}, {operand.format!r}{stored}"


def show(example: Example) -> Iterator[str]:
    """The report on one example, section by section, as results come in."""
    statement = example.statement
    yield section("statement", [str(statement)])
    yield section("tensors", [described(operand) for operand in operands(statement)])
    yield section("loops", str(statement.loops).splitlines())
    start = time.perf_counter()
    kernel = statement.compile()
    compiled = time.perf_counter() - start
    yield section("C", excerpt(kernel.source))
    length = len(kernel.source.splitlines())
    yield section("compiled", [f"{length} lines of C in {compiled:.2f} s, or found in the cache"])
    reference = agreement(statement, kernel, example.small)
    peer = difference(kernel(), example.formulation())
    yield section(
        "agreement",
        [f"with the reference: {in_words(reference)}; with {example.peer}: {in_words(peer)}"],
    )
    ours, theirs, ratio = race(kernel, example.formulation)
    threads = "1 thread" if thread_count() == 1 else f"up to {thread_count()} threads"
    yield section(
        "time",
        [
            f"Openwork {1e3 * ours:.2f} ms on {threads}, {example.peer} {1e3 * theirs:.2f} ms: "
            f"{ratio:.2f}x its speed"
        ],
    )


def run(quick: bool = False) -> int:
    """Show all examples; 1 when there is no compiler to show them with."""
    toolchain = find_toolchain()
    if toolchain is None:
        print(f"The demo compiles C, and no compiler was found: {HOW_TO_GET_ONE}.")
        return 1
    watched = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    bold, plain = ("\033[1m", "\033[0m") if watched else ("", "")
    print(f"Openwork {__version__}, {toolchain.version.splitlines()[0]}")
    for number, example in enumerate(examples(quick), 1):
        print(f"\n{bold}{number}. {example.title}{plain}\n")
        for piece in show(example):
            print(piece, flush=True)
    print("\nAll results agree. Times are medians over alternating runs, and vary with load.")
    return 0
