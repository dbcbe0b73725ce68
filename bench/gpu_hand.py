"""Kernels written by hand against cuSPARSE and the default: what other kernels could gain.

    python bench/hand_gpu/make.py CUBINS              # needs nvcc, no GPU
    python bench/gpu_hand.py OUT.jsonl.gz --cubins CUBINS [--seconds 150] [--packed FOLDER]
    python bench/gpu_hand.py FILE.jsonl.gz --page

For each matrix, product and type: the time of cuSPARSE's fastest prepared algorithm, of the
default, of some schedules that the default does not choose, of every kernel of `hand_gpu`, and of
a kernel that reads and writes the same bytes once, in order (`bytes`). `--packed`: patterns of real
matrices as .npz files, which load faster than Matrix Market (`--pack FOLDER` writes them).
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product, zip_longest
from pathlib import Path
from typing import IO, Any

import numpy as np
from gpu_space import median, statement, tiny
from hand_gpu.make import matrices as of_columns, vectors as of_vectors

from openwork import recipes as r
from openwork.errors import OpenworkError

COMBINATIONS = (
    ("float32", 0), ("float32", 128), ("float64", 128), ("float64", 0), ("float32", 32),
    ("float32", 4),
)  # fmt: skip
TYPES = {"float32": "float", "float64": "double"}
MULTIPROCESSORS, ROOM = 132, 232_448  # bytes of shared memory that a block can have
_MOST = 1_000_000_000  # entries times columns
_BEHIND = 1.5  # times the best so far, at first sight
_PART = 512  # entries of a work item
_TOGETHER = 16  # parts of a long row have so many times the entries of a run

Call = Callable[[], Any]


# -- schedules beside the default ------------------------------------------------------------------


def points(columns: int) -> Iterator[Any]:
    """Schedules that defaults did not know when this was written."""
    if not columns:
        for group, unroll in product((4, 8, 16, 32), (4, 8)):
            yield partial(r.group_per_row, group=group, unroll=unroll)
        for group, unroll in product((64, 128, 256), (2, 4)):
            yield partial(r.group_per_row, group=group, unroll=unroll)
        return
    if columns == 4:
        for at_once, unroll in product((1, 2, 4, 8, 16, 32), (2, 4)):
            yield partial(r.spmm_rows, at_once=at_once, unroll=unroll)
        return
    for lanes, at_once in product((2, 4, 8, 16), (1, 2, 4)):
        if lanes * at_once <= 32:
            yield partial(r.spmm_rows, lanes=lanes, at_once=at_once, unroll=4)
            few = {"threads": 64, "resident": 1024}
            yield partial(r.spmm_rows, lanes=lanes, at_once=at_once, unroll=8, **few)
    for lanes, each in product((4, 8), (8, 16, 32, 64)):
        yield partial(r.spmm_positions, lanes=lanes, each=each, unroll=4)


def scheduled(stmt: Any, columns: int) -> dict[str, Any]:
    made = {}
    for point in points(columns):
        try:
            one = point(stmt)
        except OpenworkError:
            continue
        made[str(one.commands)] = one
    return made


def compile_points(dtype: str, columns: int, part: int, of: int, known: str) -> None:
    """Every so many-th schedule, and default that is expected, into the cache."""
    stmt = tiny(dtype, columns)
    texts = list(scheduled(stmt, columns))
    if known:
        texts += json.loads(Path(known).read_text())[f"{dtype} {columns}"]
    for text in list(dict.fromkeys(texts))[part::of]:
        try:
            stmt.schedule(text).compile("cuda")
        except OpenworkError as error:
            print(f"NO {text}: {error}"[:300], flush=True)


# -- what an inspector finds ----------------------------------------------------------------------


def items(pos: Any, part: int) -> tuple[Any, bool]:
    """Rows, cut into parts, the longest first; and whether any row was cut."""
    lengths = np.diff(pos)
    parts = np.maximum(1, -(-lengths // part))
    row = np.repeat(np.arange(len(lengths)), parts)
    number = np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts)
    begin = pos[row] + number * part
    end = np.minimum(begin + part, pos[row + 1])
    order = np.argsort(begin - end, kind="stable")
    found = np.stack([row, begin, end, parts[row] == 1], axis=1)[order]
    return found.astype(np.int32), bool((parts > 1).any())


def runs(pos: Any, most: int, rows: int) -> tuple[Any, Any, bool]:
    """Runs of whole rows with at most so many entries and rows, or parts of one longer row."""
    ends = pos.tolist()
    first, place, at, count, cut = [], [], 0, len(ends) - 1, False
    while at < count:
        begin = ends[at]
        last = min(bisect_right(ends, begin + most) - 1, at + rows)
        if last > at:
            first.append(at)
            place.append(begin)
            at = last
            continue
        step = most * _TOGETHER
        parts = range(begin, ends[at + 1], step)
        cut = cut or len(parts) > 1
        first += [at] * len(parts)
        place += parts
        at += 1
    return np.array([*first, count], np.int32), np.array([*place, ends[-1]], np.int32), cut


class Matrix:
    """A pattern on the GPU, and what inspectors find for it, which is kept."""

    def __init__(self, name: str, pattern: Any) -> None:
        import cupy as cp

        self.name, self.shape, self.nnz = name, pattern.shape, pattern.nnz
        self.host = pattern.indptr.get()
        self.pos = pattern.indptr
        room = cp.zeros(pattern.nnz + 8, dtype=cp.int32)  # wide loads read past the end
        room[: pattern.nnz] = pattern.indices
        self.crd, self.kept = room, {}
        self.indices = room[: pattern.nnz]
        self.longest = int(np.diff(self.host).max())

    def valued(self, dtype: str) -> tuple[Any, Any]:
        """The matrix, and its values with room behind them."""
        import cupy as cp
        import cupyx.scipy.sparse as cps

        room = cp.zeros(self.nnz + 8, dtype=dtype)
        room[: self.nnz] = cp.random.standard_normal(self.nnz)
        made = cps.csr_matrix((room[: self.nnz], self.indices, self.pos), shape=self.shape)
        return made, room

    def known(self, what: str, *sizes: int) -> Any:
        """What an inspector finds."""
        import cupy as cp

        key = (what, *sizes)
        if key not in self.kept:
            if what == "items":
                found, cut = items(self.host, *sizes)
                self.kept[key] = cp.asarray(found), len(found), cut
            elif what == "runs":
                first, place, cut = runs(self.host, *sizes)
                self.kept[key] = cp.asarray(first), cp.asarray(place), len(first) - 1, cut
            else:
                shares = np.linspace(0, self.nnz, MULTIPROCESSORS + 1)
                bounds = np.searchsorted(self.host, shares)
                bounds[-1] = self.shape[0]
                self.kept[key] = cp.asarray(np.maximum.accumulate(bounds).astype(np.int32))
        return self.kept[key]


# -- calls of the kernels -------------------------------------------------------------------------


def vector_calls(
    module: Any, matrix: Matrix, val: Any, x: Any, y: Any
) -> Iterator[tuple[str, Call]]:
    """SpMV by each kernel that applies."""
    rows, mean = matrix.shape[0], matrix.nnz / matrix.shape[0]
    arrays = (matrix.pos, matrix.crd, val, x, y)
    for name, block, _ in of_vectors(TYPES[x.dtype.name]):
        how = {w[0]: int(w[1:]) for w in name.split("_")[1:]}
        kernel, number = module.get_function(name), np.int32
        if name.startswith("rows"):
            group = how["g"]
            if group > 4 * mean + 4 or mean > 64 * group:
                continue
            most = max(16, group * how["u"] * 4)
            if how["d"] and matrix.longest <= most:
                continue
            grid = -(-rows // (block // group))
            yield name, partial(kernel, (grid,), (block,), (number(rows), number(most), *arrays))
        elif name.startswith("wide"):
            group = how["g"]
            if mean > 256 * group:
                continue
            grid = -(-rows // (block // group))
            yield name, partial(kernel, (grid,), (block,), (number(rows), *arrays))
        elif name.startswith("runs"):
            first, place, grid, cut = matrix.known("runs", block * how["e"], 4 * block)
            call = partial(kernel, (grid,), (block,), (first, place, *arrays))
            yield name, partial(_cleared, y, call) if cut else call
        elif x.nbytes <= ROOM and rows >= 1000:
            if mean > 64 * how["g"]:
                continue
            kernel.max_dynamic_shared_size_bytes = ROOM
            bounds = matrix.known("bounds")
            given = (number(len(x)), bounds, *arrays)
            yield name, partial(kernel, (MULTIPROCESSORS,), (block,), given, shared_mem=x.nbytes)


def _cleared(result: Any, call: Call) -> None:
    result.data.memset_async(0, result.nbytes)
    call()


def column_calls(
    module: Any, matrix: Matrix, val: Any, B: Any, C: Any
) -> Iterator[tuple[str, Call]]:
    """SpMM by each kernel that applies."""
    rows, mean, columns = matrix.shape[0], matrix.nnz / matrix.shape[0], B.shape[1]
    size = 16 // B.itemsize
    for name, block, _ in of_columns(TYPES[B.dtype.name], columns):
        how = {w[0]: int(w[1:]) for w in name.split("_")[1:]}
        share, lanes = how["s"], how["l"]
        if share > max(1, mean) or mean > 400 * share * how["u"]:
            continue
        if not how["i"] and matrix.longest > 200 * share * how["u"] + 20 * mean:
            continue
        work, count, cut = matrix.known("items", _PART) if how["i"] else (matrix.pos, rows, False)
        tiles = columns // (lanes * size)
        grid = -(-count // (block // (lanes * share))) * tiles
        numbers = (np.int32(count), np.int32(columns))
        given = (*numbers, work, matrix.pos, matrix.crd, val, B, C)
        call = partial(module.get_function(name), (grid,), (block,), given)
        yield name, partial(_cleared, C, call) if cut else call


def bytes_calls(module: Any, reads: int, writes: int) -> Iterator[tuple[str, Call]]:
    """The same bytes, once, in order."""
    import cupy as cp

    a, to = cp.ones(reads // 16 + 1, dtype="c16"), cp.empty(writes // 16 + 1, dtype="c16")
    kernel = module.get_function("bytes")
    for each in (4, 8, 16, 64):
        grid = min(MULTIPROCESSORS * each, -(-max(reads, writes) // 16 // 1024) + 1)
        sizes = np.int64(reads // 16), np.int64(writes // 16)
        yield f"bytes {each}", partial(kernel, (grid,), (256,), (*sizes, a, to))


# -- measuring ------------------------------------------------------------------------------------


class Sweep:
    """Measures, and writes what was found."""

    def __init__(self, file: IO[str], cubins: Path, seconds: float) -> None:
        import cupy as cp

        self.file, self.until = file, time.perf_counter() + seconds
        self.modules = {
            (dtype, columns): cp.RawModule(path=str(cubins / f"{dtype}_{columns}.cubin"))
            for dtype, columns in COMBINATIONS
        }
        self.points: dict[tuple[str, int], dict[str, Any]] = {}

    def compiled(self) -> None:
        for dtype, columns in COMBINATIONS:
            made = scheduled(tiny(dtype, columns), columns)
            self.points[dtype, columns] = {n: s.compile("cuda") for n, s in made.items()}

    def measure(self, matrix: Matrix, dtype: str, columns: int) -> None:
        """One line."""
        import cupy as cp
        import cusparse

        import openwork as ow
        from openwork.tensor.measure import measure

        module = self.modules[dtype, columns]
        A, val = matrix.valued(dtype)
        stmt, a, x = statement(A, columns, cp)
        want = cp.ascontiguousarray(A @ x)
        made = cp.empty_like(want)
        library = cusparse.spmm if columns else cusparse.spmv
        direct = cusparse.fastest(library(A, x, made), want, made)
        touched = int((cp.bincount(matrix.indices, minlength=A.shape[1]) > 0).sum())
        reads = matrix.nnz * (4 + x.itemsize) + 4 * (A.shape[0] + 1)
        reads += touched * x.itemsize * max(1, columns)
        floor = {n: c for n, c in bytes_calls(module, reads, made.nbytes)}
        least = min(self.timed({n: c for n, c in floor.items()}).values())
        ways = (column_calls if columns else vector_calls)(module, matrix, val, x, made)
        hand = self.timed({n: c for n, c in ways}, made, want)
        b = ow.tensor(x, name="x")
        default = str(stmt.default_schedule("cuda")) or "default"
        kernels = dict(self.points[dtype, columns])
        kernels[default] = stmt.compile("cuda")
        calls = {n: partial(k, A=a, x=b) for n, k in kernels.items()}
        ours = self.timed(calls, None, want, default)
        known = measure(a.storage).rows
        rows = {"count": known.count, "longest": known.longest, "reach": known.reach}
        line = {
            "matrix": matrix.name, "dtype": dtype, "columns": columns, "shape": matrix.shape,
            "entries": matrix.nnz, "rows": rows, "cusparse": direct,
            "bytes": [reads, made.nbytes], "once": least, "default": default,
            "ours": ours, "hand": hand,
        }  # fmt: skip
        self.file.write(f"{json.dumps(line)}\n")
        best, point = min(hand, key=hand.__getitem__), min(ours, key=ours.__getitem__)
        print(
            f"{matrix.name}\t{columns}\t{dtype}\t{direct:.4f}\tdefault {direct / ours[default]:.2f}"
            f"\tpoint {direct / ours[point]:.2f}\thand {direct / hand[best]:.2f}"
            f"\tonce {direct / least:.2f}\t{best}",
            flush=True,
        )

    def timed(
        self, calls: dict[str, Call], made: Any = None, want: Any = None, always: str = ""
    ) -> dict[str, float]:
        """Milliseconds of each call that is right; those that are far behind are measured once."""
        times: dict[str, float] = {}
        best = np.inf
        for name, call in calls.items():
            try:
                if want is not None:
                    if made is not None:
                        made.fill(np.nan)
                    got = call()
                    got = made if made is not None else got.storage.values.reshape(want.shape)
                    error = float(abs(got - want).max()) / (float(abs(want).max()) or 1.0)
                    if not error < (1e-4 if want.dtype.itemsize <= 4 else 1e-11):
                        print(f"WRONG {name}: {error:.1e}", flush=True)
                        continue
                call()
                times[name] = median(call, 1)
                if times[name] < _BEHIND * best:
                    times[name] = median(call, 3)
                best = min(best, times[name])
            except Exception as error:  # no reason to lose the others
                print(f"FAIL {name}: {error}"[:300], flush=True)
        for name in {*sorted(times, key=times.__getitem__)[:4], *([always] if always else [])}:
            times[name] = median(calls[name], 7)  # the least of many is too small
        return {n: float(f"{t:.5g}") for n, t in times.items()}

    def all(self, packed: Path) -> None:
        import cupy as cp

        for name, pattern in _patterns(packed):
            matrix = Matrix(name, pattern)
            for dtype, columns in COMBINATIONS:
                if time.perf_counter() > self.until:
                    print(f"no time left at {name} {dtype} {columns}", flush=True)
                    return
                if matrix.nnz * columns > _MOST:
                    continue
                try:
                    self.measure(matrix, dtype, columns)
                except Exception as error:  # no reason to lose the others
                    print(f"FAIL {name} {columns} {dtype}: {error!r}"[:500], flush=True)
            self.file.flush()
            cp.get_default_memory_pool().free_all_blocks()


def _patterns(packed: Path) -> Iterator[tuple[str, Any]]:
    """Generated and real ones in turns."""
    import cupy as cp
    import cupyx.scipy.sparse as cps
    from gpu_matrices import held_out, matrices

    def real() -> Iterator[tuple[str, Any]]:
        for file in sorted(packed.glob("*.npz"), reverse=True):
            found = np.load(file)
            arrays = [cp.asarray(found[n]) for n in ("crd", "pos")]
            values = cp.ones(len(found["crd"]), dtype="float64")
            yield file.stem, cps.csr_matrix((values, *arrays), shape=tuple(found["shape"]))

    def generated() -> Iterator[tuple[str, Any]]:
        yield from held_out(np.dtype("float64"))
        yield from matrices(np.dtype("float64"), small=True)

    for pair in zip_longest(generated(), real()):
        yield from (each for each in pair if each is not None)


def pack(folder: Path) -> None:
    """Patterns of the real matrices, as files that are read quickly."""
    import scipy.sparse as sp
    from matrices import collection, real_matrices

    folder.mkdir(parents=True, exist_ok=True)
    for name, matrix in real_matrices(collection()):
        csr = sp.csr_array(matrix)
        csr.sort_indices()
        arrays = {"pos": csr.indptr.astype(np.int32), "crd": csr.indices.astype(np.int32)}
        np.savez_compressed(folder / f"{name}.npz", shape=np.array(csr.shape), **arrays)


def prepared(known: str) -> None:
    """Compile in other processes."""
    parts = {0: 2, 4: 2, 32: 3, 128: 3}
    running = []
    for dtype, columns in COMBINATIONS:
        for part in range(parts[columns]):
            job = [dtype, columns, part, parts[columns], known]
            command = [sys.executable, __file__, "-", "--job", *map(str, job)]
            running.append(subprocess.Popen(command))
    for process in running:
        if process.wait():
            raise SystemExit(f"{process.args} failed")


# -- the page --------------------------------------------------------------------------------------


def page(path: str) -> None:
    """Means over the matrices, and a line for each. `now`: what defaults choose today."""
    from fit_defaults import read, schedule

    from openwork.recipes.devices.tables import H200

    with gzip.open(path, "rt") as file:
        lines = [json.loads(line) for line in file]
    groups: dict[tuple[str, int], list[tuple[float, ...]]] = {}
    rows = []
    for one, case in zip(lines, read(path), strict=True):
        direct, ours, hand = one["cusparse"], one["ours"], min(one["hand"].values())
        then = ours[one["default"]]
        now = ours.get(schedule(case.pick(H200), case), then)
        times = then, now, min(ours.values()), hand, min(hand, *ours.values()), one["once"]
        ratios = tuple(direct / t for t in times)
        groups.setdefault((one["dtype"], one["columns"]), []).append(ratios)
        kernel = f"SpMM {one['columns']}" if one["columns"] else "SpMV"
        told = " | ".join(f"{each:.2f}" for each in ratios)
        size = 4 if one["dtype"] == "float32" else 8
        gathered = one["entries"] * (4 + size * (1 + max(1, one["columns"]))) / times[4] / 1e9
        read_once = sum(one["bytes"]) / times[4] / 1e9
        name = min(one["hand"], key=one["hand"].__getitem__)
        rows.append(
            f"| {one['matrix']} | {kernel} | {one['dtype']} | {1e3 * direct:.1f} | {told} "
            f"| {read_once:.2f} | {gathered:.1f} | `{name}` |"
        )
    print("| product | type | matrices | then | now | ours | by hand | all | once |")
    print("|---" * 9 + "|")
    for (dtype, columns), found in sorted(groups.items()):
        of_each = zip(*found, strict=True)
        means = [f"{np.exp(np.mean(np.log(e))):.2f}, {min(e):.2f}" for e in of_each]
        kernel = f"SpMM {columns}" if columns else "SpMV"
        print(f"| {kernel} | {dtype} | {len(found)} | {' | '.join(means)} |")
    print(
        "\n| matrix | product | type | cuSPARSE us | then | now | ours | by hand | all | once ",
        end="",
    )
    print("| TB/s once | TB/s read | by hand |\n" + "|---" * 13 + "|")
    print("\n".join(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--cubins", type=Path)
    parser.add_argument("--packed", type=Path)
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--known", default="", help="defaults that are expected, as JSON")
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--job", nargs="*")
    args = parser.parse_args()
    if args.page:
        return page(args.out)
    if args.pack:
        return pack(args.pack)
    if args.job:
        dtype, *numbers = args.job[:4]
        known = args.job[4] if len(args.job) > 4 else ""
        return compile_points(dtype, *map(int, numbers), known)
    began = time.perf_counter()
    with gzip.open(args.out, "wt") as file:
        sweep = Sweep(file, args.cubins, args.seconds)
        prepared(args.known)
        print(f"prepared in {time.perf_counter() - began:.1f} s", flush=True)
        sweep.compiled()
        print(f"loaded in {time.perf_counter() - began:.1f} s", flush=True)
        sweep.all(args.packed)
    print(f"done in {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
