"""The space of GPU schedules over many matrices: what the defaults of a device are fitted to.

    python bench/gpu_space.py OUT.jsonl.gz [--seconds 200] [--done FILE] [--sgap]
    python bench/gpu_space.py FILE.jsonl.gz --page

All points are compiled once, by several processes, and called for each matrix: the real ones of
`$OPENWORK_DATA`, and generated ones of other kinds. A point that is far behind after its first
measurement is measured no more. One line for each matrix, product and type: statistics, shape, the
time of cuSPARSE's fastest prepared algorithm, and those of all points by their schedule.

`--page`: tables of what a file has, in Markdown. `--sgap`: instead the space of Sgap's tables 4 and
5 for 4, 16, 64 and 128 columns.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import IO, Any

import numpy as np

from openwork import recipes as r
from openwork.errors import OpenworkError

Point = Callable[[Any], Any]
COMBINATIONS = tuple(product(("float32", "float64"), (0, 4, 32, 128)))
SGAP = tuple(product(("float32",), (4, 16, 64, 128)))
SGAP_MATRICES = (
    "p2p-Gnutella31", "ca-CondMat", "email-Enron", "pubmed", "rgg_n_2_15_s0", "delaunay_n15",
    "bcsstk16", "net25", "copter2", "mdual", "lognormal_3M", "grid7_1M", "few_rows_1M", "cage10",
)  # fmt: skip
_BEHIND = 2.5  # times the best so far, at first sight
_FEW_ROWS = 10_000
_SHORT, _LONG = 5, 7  # measurements
_MOST = 1_000_000_000  # entries times columns


# -- points -------------------------------------------------------------------------------------


def points(columns: int, dtype: str) -> Iterator[Point]:
    """What the default may choose, and points beside it."""
    yield from _of_columns(columns, dtype) if columns else _of_a_vector()


def _of_a_vector() -> Iterator[Point]:
    yield r.thread_per_row
    for group in (4, 8, 16, 32):
        yield partial(r.group_per_row, group=group)
    yield partial(r.position_split, each=4, unroll=4)
    yield partial(r.position_split, each=8, unroll=8)
    yield partial(r.position_segments, each=1)
    for each, group in product((1, 2, 4, 8), (2, 4, 8)):
        yield partial(r.position_staged, each=each, group=group)
    for each in (1, 4):
        yield partial(r.position_staged, each=each, group=32)
    for (blocks, threads), group in product(((2, 512), (8, 256)), (4, 32)):
        yield partial(r.grid_rows, blocks=blocks, threads=threads, group=group)


def _of_columns(columns: int, dtype: str) -> Iterator[Point]:
    few, wide = columns <= 8, dtype == "float64"
    for vector, unroll, resident in product((None, 2, 1), (4, 8, 16), (None, 1024, 512)):
        if unroll < 16 or not few:
            yield partial(r.spmm_rows, vector=vector, unroll=unroll, resident=resident)
    for at_once, threads in product((2, 4), (64, 256)):
        more = {"threads": threads, "resident": 1024, "at_once": at_once}
        yield partial(r.spmm_rows, unroll=8, **more)
    for each, unroll in product((4, 8, 16, 32, 64, 128), (1, 4, 8)):
        for vector in (None, 1) if wide and unroll < 8 else (None,):
            if each >= unroll and each <= (16 if few else 128):
                yield partial(r.spmm_positions, each=each, vector=vector, unroll=unroll)
    yield partial(r.spmm_positions, each=16, unroll=16, resident=1024)
    for across in (128, 256, 512) if not few else ():
        yield partial(r.spmm_tiles, across=across)
    for each, group, resident in product((2, 4), (2, 4, 8, 32), (None, 1024)):
        if few:
            yield partial(r.spmm_staged, each=each, group=group, resident=resident)
    for group in (4, 8, 16, 32) if few else ():
        yield partial(r.atomic_parallel, row=1 / group, group=group)


def sgap_points(columns: int) -> Iterator[tuple[str, Point]]:
    """<groupSz, blockSz, tileSz, workerDimR>, with coarsening by the paper's rule."""
    col = 4 if columns % 4 == 0 else 2 if columns % 2 == 0 else 1
    groups = (2, 4, 8, 16, 32)
    for group, tile, threads, turns in product(groups, groups, (128, 256, 512), (1, 2)):
        if tile >= group:
            more = {"group": group, "threads": threads, "turns": turns}
            text = f"<{group}, {threads}, {tile}, 1/{turns}>"
            yield text, partial(r.atomic_parallel, row=1 / tile, col=col, **more)


def scheduled(stmt: Any, columns: int, sgap: bool) -> dict[str, Any]:
    """The statement under all points that apply, by what they are called."""
    made: dict[str, Any] = {}
    dtype = str(stmt.assignment.lhs.dtype)
    found = sgap_points(columns) if sgap else (("", point) for point in points(columns, dtype))
    for name, point in found:
        try:
            one = point(stmt)
        except OpenworkError:
            continue
        made[name or one.commands] = one
    return made


def tiny(dtype: str, columns: int) -> Any:
    """A statement on the device that all matrices' kernels are compiled from."""
    import cupy as cp
    import cupyx.scipy.sparse as cps
    import scipy.sparse as sp

    matrix = sp.random_array((300, 300), density=0.03, format="csr", rng=np.random.default_rng(0))
    return statement(cps.csr_matrix(sp.csr_matrix(matrix).astype(dtype)), columns, cp)[0]


def statement(A: Any, columns: int, cp: Any) -> tuple[Any, Any, Any]:
    """A product with A, and its operands."""
    import openwork as ow

    dtype = A.dtype.name
    shape = (A.shape[1], columns) if columns else (A.shape[1],)
    x = cp.random.standard_normal(shape).astype(dtype)
    y = ow.placeholder("y", order=len(shape), dtype=dtype)
    text = "y(i,k) = A(i,j) * x(j,k)" if columns else "y(i) = A(i,j) * x(j)"
    a = ow.tensor(A, name="A")
    return ow.parse(text, y=y, A=a, x=ow.tensor(x, name="x")), a, x


# -- measuring ----------------------------------------------------------------------------------


class Sweep:
    """Measures points, and writes what was found."""

    def __init__(self, file: IO[str], sgap: bool, seconds: float) -> None:
        self.sgap, self.until = sgap, time.perf_counter() + seconds
        self.combinations = SGAP if sgap else COMBINATIONS
        self.file = file
        self.kernels: dict[tuple[str, int], dict[str, Any]] = {}

    def compiled(self) -> None:
        """Load the kernels, which other processes compiled."""
        for dtype, columns in self.combinations:
            made = scheduled(tiny(dtype, columns), columns, self.sgap)
            self.kernels[dtype, columns] = {n: s.compile("cuda") for n, s in made.items()}

    def measure(self, name: str, A: Any, columns: int) -> None:
        """One line."""
        import cupy as cp
        import cusparse

        import openwork as ow
        from openwork.tensor.measure import measure as statistics

        stmt, a, x = statement(A, columns, cp)
        want = cp.ascontiguousarray(A @ x)
        made = cp.empty_like(want)
        library = cusparse.spmm if columns else cusparse.spmv
        direct = cusparse.fastest(library(A, x, made), want, made)
        b, known = ow.tensor(x, name="x"), statistics(a.storage)
        kernels = dict(self.kernels[A.dtype.name, columns])
        default = "default" if self.sgap else stmt.default_schedule("cuda") or "default"
        if default not in kernels:
            kernels[default] = stmt.compile("cuda")
        scale, times, best = float(abs(want).max()) or 1.0, {}, np.inf
        for label, kernel in kernels.items():
            if "share" in label and known.rows.count > _FEW_ROWS:
                continue  # tiles of the dense operand, for all rows of the sparse one: hopeless
            call = partial(kernel, A=a, x=b)
            got = call().storage.values.reshape(want.shape)
            error = float(abs(got - want).max()) / scale
            if not error < (1e-3 if A.dtype.itemsize <= 4 else 1e-9):
                print(f"WRONG {name} {columns} {A.dtype} {label}: {error:.1e}", flush=True)
                continue
            call()  # the second call prepares what repeated ones use
            times[label] = median(call, 1)
            if times[label] < _BEHIND * best:
                times[label] = median(call, _SHORT)
            best = min(best, times[label])
        for label in sorted(times, key=times.__getitem__)[:3]:  # the least of many is too small
            times[label] = median(partial(kernels[label], A=a, x=b), _LONG)
        times[default] = median(partial(kernels[default], A=a, x=b), _LONG)
        rows = {"count": known.rows.count, "longest": known.rows.longest, "reach": known.rows.reach}
        line = {
            "matrix": name, "dtype": A.dtype.name, "columns": columns, "shape": A.shape,
            "entries": known.entries, "rows": rows, "cusparse": direct, "default": default,
            "times": {n: float(f"{t:.5g}") for n, t in times.items()},
        }  # fmt: skip
        self.file.write(f"{json.dumps(line)}\n")
        best = min(times, key=times.__getitem__)
        print(
            f"{name}\t{columns}\t{A.dtype}\t{direct:.4f}\t{direct / times[default]:.2f}"
            f"\t{direct / times[best]:.2f}",
            flush=True,
        )

    def all(self, done: set[tuple[str, str, int]]) -> None:
        """Every matrix that is not done, while there is time."""
        import cupy as cp

        for name, matrix in _matrices(np.dtype("float64"), real_only=self.sgap):
            if self.sgap and name not in SGAP_MATRICES:
                continue
            for dtype, columns in self.combinations:
                if time.perf_counter() > self.until:
                    print(f"no time left at {name} {dtype} {columns}", flush=True)
                    return
                if (name, dtype, columns) in done or matrix.nnz * columns > _MOST:
                    continue
                try:
                    self.measure(name, matrix.astype(dtype), columns)
                except Exception as error:  # no reason to lose the others
                    print(f"FAIL {name} {columns} {dtype}: {error}"[:500], flush=True)
            self.file.flush()
            cp.get_default_memory_pool().free_all_blocks()


def median(call: Callable[[], Any], count: int) -> float:
    """Milliseconds, of a call that was made before."""
    import cupy as cp
    from gpu_clock import WAIT

    times = []
    for _ in range(count):
        start, end = cp.cuda.Event(), cp.cuda.Event()
        WAIT((1,), (1,), (np.int64(120 * 1800),))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(cp.cuda.get_elapsed_time(start, end))
    return float(np.median(times))


def _matrices(kind: Any, real_only: bool) -> Iterator[tuple[str, Any]]:
    """Generated and real matrices in turns, so that a run that ends early has both."""
    from itertools import chain, zip_longest

    import cupyx.scipy.sparse as cps
    import scipy.sparse as sp
    from gpu_matrices import held_out, matrices

    stored = sorted(_stored().glob("*.npz"))
    real = ((f.stem, cps.csr_matrix(sp.load_npz(f).astype(kind))) for f in stored)
    made = () if real_only else chain(held_out(kind), matrices(kind, small=True))
    for pair in zip_longest(made, real):
        yield from (each for each in pair if each is not None)


def _stored() -> Path:
    return Path(os.environ.get("TMPDIR", "/tmp")) / "openwork-matrices"  # noqa: S108


# -- in other processes -------------------------------------------------------------------------


def read_matrices(part: int, of: int) -> None:
    """Every so many-th real matrix as a file that is read quickly."""
    import scipy.sparse as sp
    from matrices import collection, real_matrices

    _stored().mkdir(exist_ok=True)
    for name, matrix in real_matrices(collection()[part::of]):
        sp.save_npz(_stored() / f"{name}.npz", sp.csr_matrix(matrix), compressed=False)


def compile_points(dtype: str, columns: int, part: int, of: int, sgap: bool) -> None:
    """Every so many-th point into the cache."""
    made = scheduled(tiny(dtype, columns), columns, sgap)
    for stmt in list(made.values())[part::of]:
        stmt.compile("cuda")


def lines_of(path: str) -> set[tuple[str, str, int]]:
    """What a file has."""
    with gzip.open(path, "rt") as file:
        known = [json.loads(line) for line in file]
    return {(one["matrix"], one["dtype"], one["columns"]) for one in known}


def prepared(sgap: bool) -> None:
    """Compile and read in other processes."""
    combinations, of = SGAP if sgap else COMBINATIONS, 4 if sgap else 2
    jobs = [("compile", d, c, part, of) for d, c in combinations for part in range(of)]
    jobs += [("read", part, 3) for part in range(0 if _stored().is_dir() else 3)]
    more = ["--sgap"] if sgap else []
    running = [
        subprocess.Popen([sys.executable, __file__, "-", "--job", *map(str, job), *more])
        for job in jobs
    ]
    for process in running:
        if process.wait():
            raise SystemExit(f"{process.args} failed")


def page(path: str) -> None:
    """Means over the matrices, and a line for each."""
    with gzip.open(path, "rt") as file:
        lines = [json.loads(line) for line in file]
    groups: dict[tuple[str, int], list[tuple[float, float]]] = {}
    rows = []
    for one in lines:
        times, direct = one["times"], one["cusparse"]
        default, best = times[one["default"]], min(times.values())
        kernel = f"SpMM {one['columns']}" if one["columns"] else "SpMV"
        key = one["dtype"], one["columns"]
        groups.setdefault(key, []).append((direct / default, direct / best))
        rows.append(
            f"| {one['matrix']} | {kernel} | {one['dtype']} | {direct:.4f} | {default:.4f} "
            f"| {best:.4f} | {direct / default:.2f} | {direct / best:.2f} |"
        )
    print("| product | type | matrices | cuSPARSE / default | worst | cuSPARSE / best | worst |")
    print("|---|---|---|---|---|---|---|")
    for (dtype, columns), found in sorted(groups.items()):
        ratios = [
            f"{np.exp(np.mean(np.log(each))):.2f} | {min(each):.2f}"
            for each in zip(*found, strict=True)
        ]
        kernel = f"SpMM {columns}" if columns else "SpMV"
        print(f"| {kernel} | {dtype} | {len(found)} | {' | '.join(ratios)} |")
    head = "matrix | product | type | cuSPARSE ms | default ms | best ms | / default | / best"
    print("", f"| {head} |", "|---" * 8 + "|", *rows, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--sgap", action="store_true")
    parser.add_argument("--done", help="a file of an earlier run, whose lines are not repeated")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--job", nargs="*")
    args = parser.parse_args()
    if args.page:
        return page(args.out)
    if args.job and args.job[0] == "read":
        return read_matrices(*map(int, args.job[1:]))
    if args.job:
        dtype, *numbers = args.job[1:]
        return compile_points(dtype, *map(int, numbers), args.sgap)
    began = time.perf_counter()
    with gzip.open(args.out, "wt") as file:
        sweep = Sweep(file, args.sgap, args.seconds)
        prepared(args.sgap)
        print(f"prepared in {time.perf_counter() - began:.1f} s", flush=True)
        sweep.compiled()
        print(f"loaded in {time.perf_counter() - began:.1f} s", flush=True)
        sweep.all(lines_of(args.done) if args.done else set())
    print(f"done in {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
