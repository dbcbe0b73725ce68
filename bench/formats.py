"""Sparse results, conversions, and SpMV in the format that suits a matrix."""

from __future__ import annotations

import argparse
import datetime
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import matrices
import mkl
import numpy as np
import scipy.sparse as sp
from hand import room_for_two
from measure import environment, geometric_mean, interleave

import openwork as ow

RESULTS = Path(__file__).resolve().parent / "results"
REAL = (
    "cage10", "wave", "email-Enron", "delaunay_n15", "ca-CondMat", "usroads", "bcsstk16",
    "p2p-Gnutella31",
)  # fmt: skip
COPY, SCIPY, CSR, MKL = "copy", "SciPy", "CSR", "MKL"
TIMES = (0, 1, 2, 5)  # columns of a conversion row that are not ratios

PAGE = """\
# Sparse results, conversions and formats, {date}

{environment}
- quiet: room for two threads {before:.1f} before, {after:.1f} after

Repeat with `make bench-formats`, or `.venv/bin/python bench/formats.py`.

Whole calls that return a new result, medians over turns in which every contestant runs once. A
ratio is the median of the ratios within a turn, and above 1 Openwork is the faster. Everything is
float64 with 32-bit indices. Where the room for two threads is far below 2, others used the machine,
and the columns for 2 threads say little about Openwork.

## Sparse results

Results in CSR with rows in order; those of SciPy's products are not, those of MKL's are ordered by
`mkl_sparse_order`, both on 2 threads. {mkl} "again" is how many times as
fast a symbolic plan computes the values once more, compared with the whole call.

{results}

## Conversions

"x copy": the time beside that of copying the arrays of the source or those of the result, whichever
are larger (blocks of a scattered matrix are mostly padding), always on one thread; at most 4 is
wanted on 2 threads where nothing has to be sorted. SciPy's BSR has blocks in no order.

{conversions}

## y(i) = A(i,j) * x(j) by format

How many times as fast as in CSR, on 1 and on 2 threads; the best in bold. "x MKL": the best format
beside MKL after its inspector, which converts the matrix as it likes, on 2 threads.

{products}
"""


# -- sparse results -----------------------------------------------------------------------------


def square_matrices(quick: bool) -> Iterator[tuple[str, Any]]:
    """Square matrices for products and sums."""
    yield "uniform 100k x 8", matrices.uniform(5_000 if quick else 100_000, 8)
    if not quick:
        yield "banded 50k x 13", matrices.banded(50_000, 13)
        yield "R-MAT 2^14 x 8", matrices.rmat(14, 8)
        yield from matrices.real_matrices(REAL)


Calls = dict[str, tuple[ow.Statement, Callable[[], Any], Callable[[], Any] | None]]


def operations(matrix: Any, library: Any) -> Calls:
    """The statements with CSR results, and the same in SciPy and, where possible, in MKL."""
    i, j, k = ow.indices("i j k")
    other = matrices.uniform(matrix.shape[0], max(1, matrix.nnz // matrix.shape[0]), seed=9)
    turned = matrix.T.tocsr()
    A, B = ow.tensor(matrix, name="A"), ow.tensor(other, name="B")
    T = ow.tensor(turned, name="T")
    C = ow.empty(matrix.shape, format=ow.CSR, name="C")
    by_mkl: list[Callable[[], Any] | None] = [None] * 3
    if library is not None:
        a, t, b = (mkl.Matrix(library, each) for each in (matrix, turned, other))
        by_mkl = [lambda: a.times(a), lambda: a.times(t), lambda: a.plus(b)]
    return {
        "A*A": (ow.assign(C[i, k], A[i, j] * A[j, k]), lambda: matrix @ matrix, by_mkl[0]),
        "A*A^T": (ow.assign(C[i, k], A[i, j] * T[j, k]), lambda: matrix @ turned, by_mkl[1]),
        "A+B": (ow.assign(C[i, j], A[i, j] + B[i, j]), lambda: matrix + other, by_mkl[2]),
        "A.*B": (ow.assign(C[i, j], A[i, j] * B[i, j]), lambda: matrix.multiply(other), None),
    }


def tensor_operations(tensor: ow.Tensor) -> Calls:
    """TTV and TTM along the last mode; in SciPy the tensor is a tall matrix."""
    i, j, k, n = ow.indices("i j k n")
    rng = np.random.default_rng(4)
    vector, columns = rng.random(tensor.shape[2]), rng.random((tensor.shape[2], 16))
    coords, values = tensor.to_coo()
    rows, inverse = np.unique(coords[0] * tensor.shape[1] + coords[1], return_inverse=True)
    tall = sp.csr_array((values, (inverse, coords[2])), shape=(len(rows), tensor.shape[2]))
    B, v, W = tensor.rename("B"), ow.tensor(vector, name="v"), ow.tensor(columns, name="W")
    C = ow.empty(tensor.shape[:2], format=ow.CSF(2), name="C")
    D = ow.empty((*tensor.shape[:2], 16), format=ow.Format([*C.format.levels, ow.Dense]), name="D")
    return {
        "TTV": (ow.assign(C[i, j], B[i, j, k] * v[k]), lambda: tall @ vector, None),
        "TTM 16": (ow.assign(D[i, j, n], B[i, j, k] * W[k, n]), lambda: tall @ columns, None),
    }


def sparse_results(quick: bool, budget: float, library: Any) -> str:
    """The table, with geometric means below it."""
    lines = [
        "| operation | input | SciPy, ms | 1 thread, ms | x SciPy | 2 threads, ms | x SciPy "
        "| again | x MKL |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    ratios: dict[str, list[tuple[float, ...]]] = {}
    cases = [(name, operations(matrix, library)) for name, matrix in square_matrices(quick)]
    cases += [(name, tensor_operations(tensor)) for name, tensor in matrices.tensors(quick)]
    for name, found in cases:
        for operation, (stmt, theirs, by_mkl) in found.items():
            cells, speeds = _result_row(stmt, theirs, by_mkl, budget)
            lines.append(f"| {operation} | {name} | {' | '.join(cells)} |")
            ratios.setdefault(operation, []).append(speeds)
    for operation, speeds in ratios.items():
        means = [geometric_mean(column) for column in zip(*speeds, strict=True)]
        told = f"{means[0]:.2f} | | {' | '.join(f'{mean:.2f}' for mean in means[1:])}"
        told += " | -" * (4 - len(means))
        lines.append(f"| **{operation}** | geometric mean of {len(speeds)} | | | {told} |")
    return "\n".join(lines)


def _result_row(
    stmt: ow.Statement,
    theirs: Callable[[], Any],
    by_mkl: Callable[[], Any] | None,
    budget: float,
) -> tuple[list[str], tuple[float, ...]]:
    kernel = stmt.compile()
    cells, speeds = [], []
    for threads in (1, 2):
        ow.set_num_threads(threads)
        calls: dict[str, Callable[[], object]] = {"ours": kernel, SCIPY: theirs}
        if threads == 2:
            calls["again"] = kernel.symbolic()
            if by_mkl is not None:
                calls[MKL] = by_mkl
        turns = interleave(calls, budget)
        cells += [f"{turns.median(SCIPY) * 1e3:.2f}"] if threads == 1 else []
        speeds.append(turns.speed("ours", SCIPY))
        cells += [f"{turns.median('ours') * 1e3:.2f}", f"{speeds[-1]:.2f}"]
    speeds.append(turns.speed("again", "ours"))
    if by_mkl is not None:
        speeds.append(turns.speed("ours", MKL))
    more = [f"{speed:.2f}" for speed in speeds[2:]]
    return [*cells, *more, *["-"] * (2 - len(more))], tuple(speeds)


# -- conversions --------------------------------------------------------------------------------


def converted_matrices(quick: bool) -> Iterator[tuple[str, Any]]:
    """Matrices with scattered, banded and blocked entries."""
    size = 3_000 if quick else 300_000
    yield f"uniform {size} x 10", matrices.uniform(size, 10)
    yield f"banded {size} x 27", matrices.banded(size, 27)
    yield f"blocks 3x3, {size // 3} x 45", matrices.blocks(size // 3, 3, 15)
    if not quick:
        yield from matrices.real_matrices(REAL)


def conversions(quick: bool, budget: float) -> str:
    """The table."""
    lines = [
        "| conversion | input | copy, ms | SciPy, ms | 1 thread, ms | x copy | x SciPy "
        "| 2 threads, ms | x copy | x SciPy |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    found: dict[str, list[list[str]]] = {}
    for name, matrix in converted_matrices(quick):
        A = ow.tensor(matrix, name="A")
        listed, coo = A.to(ow.COO(2)), matrix.tocoo()
        pairs: dict[str, tuple[Callable[[], ow.Tensor], Callable[[], object] | None]] = {
            "COO -> CSR": (lambda t=listed: t.to(ow.CSR), lambda m=coo: m.tocsr()),
            "CSR -> CSC": (lambda t=A: t.to(ow.CSC), lambda m=matrix: m.tocsc()),
            "CSR -> BSR(3, 3)": (
                lambda t=A: t.to(ow.BSR(3, 3)),
                None if matrix.shape[0] % 3 else lambda m=matrix: m.tobsr((3, 3)),
            ),
            "CSR -> SELL(32)": (lambda t=A: t.to(ow.SELL(32)), None),
            "CSR -> COO": (lambda t=A: t.to(ow.COO(2)), lambda m=matrix: m.tocoo(copy=True)),
        }
        for conversion, (ours, theirs) in pairs.items():
            cells = _conversion_row(A, ours, theirs, budget)
            lines.append(f"| {conversion} | {name} | {' | '.join(cells)} |")
            found.setdefault(conversion, []).append(cells)
    for conversion, rows in found.items():
        means = [
            "" if n in TIMES else _mean(column) for n, column in enumerate(zip(*rows, strict=True))
        ]
        lines.append(f"| **{conversion}** | geometric means of {len(rows)} | {' | '.join(means)} |")
    return "\n".join(lines)


def _mean(column: tuple[str, ...]) -> str:
    """The geometric mean of the ratios that exist."""
    ratios = [float(cell) for cell in column if cell != "-"]
    return f"{geometric_mean(ratios):.2f}" if ratios else "-"


def _arrays(tensor: ow.Tensor) -> list[Any]:
    """All arrays of a tensor."""
    storage = tensor.storage
    return [array for level in storage.levels for array in level.values()] + [storage.values]


def _conversion_row(
    source: ow.Tensor,
    ours: Callable[[], ow.Tensor],
    theirs: Callable[[], object] | None,
    budget: float,
) -> list[str]:
    both = _arrays(source), _arrays(ours())
    arrays = max(both, key=lambda each: sum(array.nbytes for array in each))
    calls: dict[str, Callable[[], object]] = {
        "ours": ours,
        COPY: lambda: [array.copy() for array in arrays],
    }
    if theirs is not None:
        calls[SCIPY] = theirs
    cells: list[str] = []
    for threads in (1, 2):
        ow.set_num_threads(threads)
        turns = interleave(calls, budget)
        ratio = f"{turns.speed('ours', SCIPY):.2f}" if theirs else "-"
        mine = f"{turns.median('ours') * 1e3:.2f}"
        if threads == 1:
            scipy_ms = f"{turns.median(SCIPY) * 1e3:.2f}" if theirs else "-"
            cells += [f"{turns.median(COPY) * 1e3:.2f}", scipy_ms]
        cells += [mine, f"{turns.speed(COPY, 'ours'):.2f}", ratio]
    return cells


# -- formats ------------------------------------------------------------------------------------


def suited(quick: bool) -> Iterator[tuple[str, Any, Mapping[str, ow.Format]]]:
    """Matrices, with the formats that might suit them."""
    small = 50 if quick else 1
    sliced = {"SELL(8)": ow.SELL(8), "SELL(8, 4096)": ow.SELL(8, 4096)}
    tall = {
        "CSB(2^18, 2^15)": ow.CSB(1 << 18, 1 << 15),
        "CSB(2^17, 2^15)": ow.CSB(1 << 17, 1 << 15),
    }
    yield "uniform 1M x 10", matrices.uniform(1_000_000 // small, 10), sliced | tall
    yield (
        "banded 300k x 27",
        matrices.banded(300_000 // small, 27),
        sliced | {"DIA": ow.DIA, "banded": ow.banded},
    )
    yield "R-MAT 2^18 x 16", matrices.rmat(12 if quick else 18, 16), sliced | tall
    yield "FEM 3x3, 100k x 15", near_blocks(100_000 // small), sliced | {"BSR(3, 3)": ow.BSR(3, 3)}


def near_blocks(rows: int) -> Any:
    """Full 3 by 3 blocks near the diagonal, as in a finite element mesh with three unknowns."""
    rng = np.random.default_rng(7)
    near = np.arange(rows)[:, None] + rng.integers(-200, 200, (rows, 15))
    where = np.repeat(np.arange(rows), 15), np.clip(near, 0, rows - 1).ravel()
    pattern = sp.csr_array((np.ones(rows * 15), where), shape=(rows, rows))
    matrix = sp.kron(pattern, rng.random((3, 3)), format="csr")
    matrix.indices, matrix.indptr = (a.astype(np.int32) for a in (matrix.indices, matrix.indptr))
    return matrix


def products(quick: bool, budget: float, library: Any) -> str:
    """The table."""
    lines = ["| matrix | CSR, ms, 1 and 2 threads | formats | x MKL |", "|---|---|---|---|"]
    i, j = ow.indices("i j")
    best: list[float] = []
    beside: list[float] = []
    for name, matrix, formats in suited(quick):
        x = np.random.default_rng(8).random(matrix.shape[1])
        A, y = ow.tensor(matrix, name="A"), ow.empty((matrix.shape[0],), name="y")
        vector, wanted = ow.tensor(x, name="x"), matrix @ x
        kernels: dict[str, Callable[[], Any]] = {}
        for told, format in {CSR: ow.CSR, **formats}.items():
            kernels[told] = ow.assign(y[i], A.to(format)[i, j] * vector[j]).compile()
            np.testing.assert_allclose(kernels[told]().to_numpy(), wanted)
        seconds, speeds = [], []
        for threads in (1, 2):
            ow.set_num_threads(threads)
            # Time each format against CSR alone: with all formats in turn, each would find the
            # caches full of the others' arrays.
            pairs = {
                told: interleave({CSR: kernels[CSR], told: kernels[told]}, budget)
                for told in formats
            }
            speeds.append({told: turns.speed(told, CSR) for told, turns in pairs.items()})
            seconds.append(statistics.median(turns.median(CSR) for turns in pairs.values()))
        winner = max(formats, key=lambda told: speeds[1][told])
        best.append(speeds[1][winner])
        cells = [f"{told} {speeds[0][told]:.2f} / {speeds[1][told]:.2f}" for told in formats]
        cells = [
            f"**{c}**" if told == winner else c for told, c in zip(formats, cells, strict=True)
        ]
        times = " / ".join(f"{each * 1e3:.2f}" for each in seconds)
        told = "-"
        if library is not None:
            inspected = mkl.Matrix(library, matrix).inspect().times_dense(x)
            turns = interleave({winner: kernels[winner], MKL: inspected}, budget)
            beside.append(turns.speed(winner, MKL))
            told = f"{beside[-1]:.2f}"
        lines.append(f"| {name} | {times} | {'; '.join(cells)} | {told} |")
    told = f"{geometric_mean(beside):.2f}" if beside else "-"
    mean = f"{geometric_mean(best):.2f}"
    lines.append(f"| **best, 2 threads** | geometric mean | {mean} | {told} |")
    return "\n".join(lines)


def measure(quick: bool) -> str:
    """The page."""
    before, budget = room_for_two(), 0.05 if quick else 0.5
    start = time.perf_counter()
    try:
        library = mkl.load(2)
        said = f"{mkl.version(library)}."
    except OSError as error:
        library, said = None, f"MKL is absent: {error}."
    parts = {
        "results": sparse_results(quick, budget, library),
        "conversions": conversions(quick, budget),
        "products": products(quick, budget, library),
    }
    ow.set_num_threads(None)
    print(f"{time.perf_counter() - start:.0f} s")
    return PAGE.format(
        date=datetime.date.today().isoformat(),
        environment=environment(),
        before=before,
        after=room_for_two(),
        mkl=said,
        **parts,
    )


def main() -> None:
    """Measure, print the page, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small inputs; nothing is kept")
    parser.add_argument("--into", type=Path, default=RESULTS, help="the folder of the page")
    given = parser.parse_args()
    page = measure(given.quick)
    print(page)
    if not given.quick:
        date = datetime.date.today().isoformat()
        given.into.mkdir(parents=True, exist_ok=True)
        (given.into / f"formats-{date}.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
