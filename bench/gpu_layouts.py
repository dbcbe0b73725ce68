"""Layouts on a GPU: all triples of format, layout of A, layout of x and y, per matrix and type.

    python bench/gpu_layouts.py DATA --out FOLDER     140 s on an H200; writes layouts.json
    python bench/gpu_layouts.py DATA --check          small matrices, emulated: checked, not timed

As tables 1 to 6 of the paper: {CSR, ELL, SELL(16), SELL(32)} x {AoS, SoA} x {AoS, SoA}, and beyond
it AoSoA(32) and packed. Every triple has a thread per row, and CSR also groups of threads; the
fastest counts. The best triple is also run on grids of a constant size, and both it and the others
times a matrix of 8 columns. Each result is compared with the first before it is timed.

Processes assemble the matrices and compile the kernels while the GPU is still idle. What the time
limit leaves out is named. `gpu_layouts_page.py` makes a page and pictures of layouts.json.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from entry_matrices import CHECKED, MATRICES, SCALARS, Array, Matrix, expanded, kinds, matrix

import openwork as ow
from openwork import recipes as r
from openwork.errors import OpenworkError
from openwork.runtime.gpu.cuda import Cuda
from openwork.runtime.storage import Storage

FORMATS = {"CSR": ow.CSR, "ELL": ow.ELL, "Sl-16": ow.SELL(16), "Sl-32": ow.SELL(32)}
LAYOUTS = ("AoS", "SoA", "AoSoA(32)")  # of vectors
FURTHER = (
    ("CSR", "packed", "AoS"), ("ELL", "packed", "AoS"), ("Sl-32", "packed", "AoS"),
    ("CSR", "AoSoA(32)", "AoS"), ("Sl-32", "AoSoA(32)", "AoS"), ("Sl-32", "AoSoA(32)", "AoSoA(32)"),
)  # fmt: skip
TRIPLES = (
    *((name, own, vector) for name in FORMATS for own in LAYOUTS[:2] for vector in LAYOUTS[:2]),
    *FURTHER,
)
GROUPS = (2, 4, 8)
LIKELY = (
    ("CSR", "AoS", "AoS"), ("ELL", "AoS", "AoS"), ("ELL", "SoA", "AoS"), ("Sl-32", "SoA", "AoS"),
)  # fmt: skip
COLUMNS = 8
WIDE = (("CSR", "AoS"), ("ELL", "AoS"), ("Sl-32", "AoS"), ("Sl-32", "SoA"))
GRIDS = ((256, 4), (128, 8))  # threads of a block, blocks of a multiprocessor
REPS = 7

ROWS = """split(i,tile,row,{threads}), divide(tile,turn,rest,{parts},assign={assign}),
    parallelize(turn,GPUBlock,NoRaces,threads={threads},blocks_per_sm={blocks}),
    parallelize(row,GPUThread,NoRaces)"""
LANES = """split(i,tile,row,{rows}), divide(tile,turn,rest,{parts},assign={assign}),
    pos(j,place,A), split(place,round,lane,{group}), order(turn,rest,row,lane,round),
    unroll(round,2), parallelize(turn,GPUBlock,NoRaces,threads={threads},blocks_per_sm={blocks}),
    parallelize(row,GPUWarp,NoRaces),
    parallelize(lane,GPUGroup,group_size={group},reduction=parallel)"""
ELEMENTS = """order(i,k,j), fuse(i,k,f), split(f,block,thread,256),
    parallelize(block,GPUBlock,NoRaces), parallelize(thread,GPUThread,NoRaces)"""


class Prepared(NamedTuple):
    """A matrix, and the places of its entries in each format."""

    matrix: Matrix
    stored: dict[str, Storage]


Ways = dict[str, Callable[[], ow.Statement]]
Host = dict[str, "Future[Any]"]  # what is made in main memory for a matrix and a type


# -- statements -----------------------------------------------------------------------------------


def product(A: ow.Tensor, x: ow.Tensor, y: ow.Tensor) -> ow.Statement:
    return ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x)


def ways(stmt: ow.Statement, name: str) -> Ways:
    """Schedules of a product, by name: grids of as many blocks as there are rows for."""
    made: Ways = {"thread": lambda: r.thread_per_row(stmt)}
    if name == "CSR":
        made |= {f"g{group}": (lambda g=group: r.group_per_row(stmt, g)) for group in GROUPS}
    return made


def grids(stmt: ow.Statement, way: str, processors: int) -> Ways:
    """The same with a constant number of blocks, which stride over the rows or take the next."""
    made: Ways = {}
    group = int(way[1:]) if way[0] == "g" else 1
    text = ROWS if group == 1 else LANES
    for threads, blocks in GRIDS:
        for short, assign in (("stride", "stride"), ("dynamic", "dynamic,chunk=1")):
            given = {"parts": processors * blocks, "rows": threads // group, "group": group}
            schedule = text.format(assign=assign, threads=threads, blocks=blocks, **given)
            made[f"{short} {threads}x{blocks}"] = lambda s=schedule: stmt.schedule(s)
    return made


def wide_ways(stmt: ow.Statement) -> Ways:
    """Schedules of a product with a dense matrix: a thread per row, or per element."""
    return {
        "thread": lambda: r.thread_per_row(stmt),
        "element": lambda: stmt.schedule(ELEMENTS),
    }


# -- ahead of the GPU -----------------------------------------------------------------------------


def prepare(name: str, folder: Path) -> Prepared:
    """Assemble a matrix, and place its entries in each format."""
    made = matrix(name, folder)
    numbers = np.arange(1, made.nnz + 1, dtype=np.int32)
    numbered = ow.from_arrays(ow.CSR, made.shape, [None, (made.pos, made.crd)], numbers)
    return Prepared(made, {key: numbered.to(f).storage for key, f in FORMATS.items()})


def placed(found: Prepared, name: str, scalar: str) -> Storage:
    """The matrix in a format, record after record; places that hold no entry are zero."""
    kind, _ = kinds(found.matrix.family, scalar)
    numbers = found.matrix.values.astype(scalar).reshape(found.matrix.nnz, -1)
    numbers = np.concatenate([np.zeros((1, numbers.shape[1]), scalar), numbers])
    pattern = found.stored[name]
    records = np.take(numbers, pattern.values, axis=0).view(kind.dtype).reshape(-1)
    return Storage.of_values(found.matrix.shape, FORMATS[name], pattern.levels, records, 0)


def stays(tensor: ow.Tensor) -> ow.Tensor:
    return tensor


def vector_of(
    numbers: Array, kind: Any, layout: str, on: Callable[[ow.Tensor], ow.Tensor] = stays
) -> ow.Tensor:
    made = on(ow.tensor(numbers, dtype=kind, name="x"))
    return made.to(ow.dense(1).with_layout(layout)).rename("x")


def compile_ahead(family: str, scalar: str, place: int, of: int) -> int:
    """Compile every `of`-th kernel into the cache on disk; nothing is loaded on a GPU."""
    cupy = importlib.import_module("cupy")
    cupy.cuda.function.Module = _Unloaded
    device, processors = Cuda(), cupy.cuda.Device().attributes["MultiProcessorCount"]
    small = next(name for name in CHECKED if MATRICES[name][0] == family)
    found, done = prepare(small, Path()), 0
    for number, stmt in enumerate(_statements(found, scalar, processors)):
        if number % of == place:
            device.load(stmt().compile(target="cuda").source, [])
            done += 1
    return done


class _Unloaded:
    """In place of a module of a GPU."""

    def load(self, cubin: bytes) -> None:
        pass


def _statements(
    found: Prepared, scalar: str, processors: int
) -> Iterator[Callable[[], ow.Statement]]:
    """All that will be compiled for a type, with the grids of triples that often win."""
    _, other = kinds(found.matrix.family, scalar)
    rows = found.matrix.shape[0]
    for name, own, layout in TRIPLES:
        A = ow.Tensor.of(placed(found, name, scalar).laid_out(own), "A")
        x = vector_of(np.zeros((rows, *other.shape), scalar), other, layout)
        y = ow.empty(rows, dtype=other, format=x.format, name="y")
        stmt = product(A, x, y)
        made = ways(stmt, name)
        yield from made.values()
        if (name, own, layout) in LIKELY:
            for way in made:
                yield from grids(stmt, way, processors).values()
    for name, own in WIDE:
        A = ow.Tensor.of(placed(found, name, scalar).laid_out(own), "A")
        X = ow.tensor(np.zeros((rows, COLUMNS, *other.shape), scalar), dtype=other, name="X")
        yield from wide_ways(times_matrix(A, X, other)).values()


def times_matrix(A: ow.Tensor, X: ow.Tensor, kind: Any) -> ow.Statement:
    Y = ow.empty((A.shape[0], COLUMNS), dtype=kind, name="Y")
    return ow.parse("Y(i,k) = A(i,j) * X(j,k)", Y=Y, A=A, X=X)


# -- on the GPU -----------------------------------------------------------------------------------


class Machine:
    """A GPU through CuPy, or the emulator, which times nothing."""

    def __init__(self, emulated: bool) -> None:
        self.target = "cuda-emulated" if emulated else "cuda"
        self.name, self.processors, self.bandwidth = "emulated", 2, float("nan")
        self.clock = None
        if not emulated:
            self.cp = importlib.import_module("cupy")
            self.vendor = importlib.import_module("cusparse")
            self.sparse = importlib.import_module("cupyx.scipy.sparse")
            self.clock = importlib.import_module("gpu_clock")
            found = self.cp.cuda.runtime.getDeviceProperties(0)
            self.name, self.processors = found["name"].decode(), found["multiProcessorCount"]
            self.bandwidth = self.clock.copy_bandwidth()

    def on(self, tensor: ow.Tensor) -> ow.Tensor:
        return tensor if self.clock is None else tensor.to("cuda")

    def time(self, call: Callable[[], Any]) -> float:
        """Milliseconds."""
        if self.clock is None:
            call()
            return 1.0
        return self.clock.median(call, REPS)

    def numbers(self, result: Any) -> Any:
        """All numbers of a result, where it is."""
        if isinstance(result, ow.Tensor):
            result = result.storage.laid_out("AoS").values
        return result.reshape(-1)

    def differs(self, found: Any, wanted: Any) -> float:
        """The largest difference, relative to the largest number."""
        return float(abs(found - wanted).max() / abs(wanted).max())

    def clear(self) -> None:
        if self.clock is not None:
            self.cp.get_default_memory_pool().free_all_blocks()

    def library(self, m: Matrix, made: Any, x: Array) -> Callable[[], Any] | None:
        """cuSPARSE's product: blocks by BSR, of the expansion where needed; complex by CSR."""
        flat = _for_library(m, x)
        if self.clock is None:
            return lambda: made @ flat
        if m.family == "complex":
            cp = self.cp
            A = self.sparse.csr_matrix(tuple(map(cp.asarray, made)), shape=m.shape)
            given = cp.asfortranarray(cp.asarray(flat))  # the faster way for cuSPARSE
            return lambda: A @ given
        by_blocks = self.vendor.bsrmv if flat.ndim == 1 else self.vendor.bsrmm
        try:
            return by_blocks(m.shape, *made[1:], made[0], flat)
        except (self.vendor.Missing, AttributeError) as error:
            print(f"  no BSR in cuSPARSE for {m.name}: {error}")
            return None

    def for_library(self, m: Matrix, made: Any) -> Any:
        """The arrays of a library's matrix, where it wants them: values, positions, columns."""
        if self.clock is None:
            return made
        order = (made.data, made.indices, made.indptr)
        values, columns, rows = map(self.cp.asarray, order)
        return (values, columns, rows) if m.family == "complex" else (values, rows, columns)


def _for_library(m: Matrix, x: Array) -> Array:
    """A vector or matrix of records as numbers: (rows,) or (rows, columns)."""
    if m.family == "complex":
        return x.view(np.result_type(x.dtype, "complex64"))[..., 0]
    return x.reshape(-1) if x.ndim == 2 else x.transpose(0, 2, 1).reshape(-1, x.shape[1])


def _reals(m: Matrix, found: Any, scalar: str) -> Any:
    """All real numbers of a library's result, record after record."""
    if m.family != "complex" and found.ndim == 2:
        found = found.reshape(m.shape[0], -1, found.shape[1]).transpose(0, 2, 1)
    flat = found.copy(order="C").reshape(-1)
    return flat.view(np.dtype(scalar)) if flat.dtype.kind == "c" else flat


# Kernels by type and name: those of one matrix are called with others, which takes no compiling.
KERNELS: dict[tuple[str, str, str], Any] = {}


class Measured:
    """All times of a matrix with one type, in milliseconds."""

    def __init__(self, machine: Machine, found: Prepared, scalar: str, until: float) -> None:
        self.machine, self.found, self.scalar, self.until = machine, found, scalar, until
        m = found.matrix
        self.kind, self.other = kinds(m.family, scalar)
        self.times: dict[str, float] = {}
        self.grids: dict[str, float] = {}
        self.wide: dict[str, float] = {}
        self.library: float | None = None
        self.library_wide: float | None = None
        self.left_out: list[str] = []
        rng = np.random.default_rng(1)
        self.x = rng.standard_normal((m.shape[1], *self.other.shape)).astype(scalar)
        self.X = rng.standard_normal((m.shape[1], COLUMNS, *self.other.shape)).astype(scalar)
        self.allowed = 1e-3 if scalar == "float32" else 1e-10

    def run(self, host: Host) -> None:
        """Measure everything."""
        machine, m = self.machine, self.found.matrix
        held = machine.for_library(m, host["cuSPARSE"].result())
        wanted, self.library = self._library(held, self.x)
        vectors = {}
        for layout in LAYOUTS:
            x = vector_of(self.x, self.other, layout, machine.on)
            y = ow.empty(m.shape[0], dtype=self.other, format=x.format, name="y")
            vectors[layout] = x, y
        based: dict[str, ow.Tensor] = {}
        for name, own, layout in TRIPLES:
            if name not in based:
                based[name] = machine.on(ow.Tensor.of(host[name].result(), "A"))
            A, (x, y) = _in_layout(based[name], own), vectors[layout]
            stmt, given = product(A, x, y), {"A": A, "x": x}
            for way, make in ways(stmt, name).items():
                key = f"{name}-{own}-{layout} {way}"
                wanted = self._timed(key, make, given, wanted, self.times)
            if (name, own, layout) == ("CSR", "AoS", "AoS"):
                key = "CSR-AoS-AoS default"
                wanted = self._timed(key, lambda s=stmt: s, given, wanted, self.times)
        for triple in dict.fromkeys((self._fastest()[0], "CSR-AoS-AoS")):
            name, own, layout = _parts(triple)
            way = self._fastest(triple)[1]
            A, (x, y) = _in_layout(based[name], own), vectors[layout]
            made = grids(product(A, x, y), way, machine.processors)
            for grid, make in made.items():
                key = f"{triple} {way} {grid}"
                wanted = self._timed(key, make, {"A": A, "x": x}, wanted, self.grids)
        self._times_matrix(based, held)

    def _fastest(self, triple: str = "") -> list[str]:
        """The fastest triple and way that has grids."""
        mine = [k for k in self.times if k.startswith(triple) and not k.endswith("default")]
        return min(mine, key=self.times.__getitem__).split(" ")

    def _times_matrix(self, based: dict[str, ow.Tensor], held: Any) -> None:
        wanted, self.library_wide = self._library(held, self.X)
        X = self.machine.on(ow.tensor(self.X, dtype=self.other, name="X"))
        for name, own in WIDE:
            A = _in_layout(based[name], own)
            stmt, given = times_matrix(A, X, self.other), {"A": A, "X": X}
            made = wide_ways(stmt)
            if (name, own) == ("CSR", "AoS"):
                made["default"] = lambda s=stmt: s
            for way, make in made.items():
                wanted = self._timed(f"{name}-{own} {way}", make, given, wanted, self.wide)

    def _library(self, held: Any, x: Array) -> tuple[Any, float | None]:
        m = self.found.matrix
        call = self.machine.library(m, held, x)
        if call is None:
            return None, None
        return _reals(m, call(), self.scalar), self.machine.time(call)

    def _timed(
        self,
        key: str,
        make: Callable[[], ow.Statement],
        given: dict[str, ow.Tensor],
        wanted: Any,
        into: dict[str, float],
    ) -> Any:
        """Compile, compare and time a statement; what all are compared with."""
        if time.monotonic() > self.until:
            self.left_out.append(key)
            return wanted
        known = self.found.matrix.family, self.scalar, " ".join([*given, key])
        kernel = KERNELS.get(known)
        if kernel is None:
            try:
                kernel = make().compile(target=self.machine.target)
            except OpenworkError as error:
                self.left_out.append(f"{key}: {error.code} {str(error).splitlines()[0]}")
                return wanted
            if not key.endswith("default"):  # that depends on the matrix
                KERNELS[known] = kernel
        found = self.machine.numbers(kernel(**given))
        if wanted is None:
            wanted = found.copy()
        apart = self.machine.differs(found, wanted)
        if not apart < self.allowed:
            self.left_out.append(f"{key}: WRONG by {apart}")
            return wanted
        into[key] = self.machine.time(lambda: kernel(**given))
        return wanted

    def row(self) -> dict[str, Any]:
        """What the page is made of."""
        m, other = self.found.matrix, self.other
        vectors = 2 * m.shape[0] * other.itemsize
        lengths = np.diff(m.pos)
        filled = lengths > 0
        first, last = m.crd[m.pos[:-1][filled]], m.crd[m.pos[1:][filled] - 1]
        quarters = (0, 25, 50, 75, 100)
        return {
            "matrix": m.name, "family": m.family, "scalar": self.scalar,
            "rows": m.shape[0], "entries": m.nnz,
            "bytes": m.nnz * (self.kind.itemsize + 4) + 4 * m.shape[0] + vectors,
            "bytes_wide": m.nnz * (self.kind.itemsize + 4) + 4 * m.shape[0] + COLUMNS * vectors,
            "lengths": np.percentile(lengths, quarters).tolist(),
            "widths": (np.percentile(last - first, quarters) / m.shape[1]).tolist(),
            "times": self.times, "grids": self.grids, "wide": self.wide,
            "library": self.library, "library_wide": self.library_wide,
            "left_out": self.left_out,
        }  # fmt: skip


def _in_layout(A: ow.Tensor, layout: str) -> ow.Tensor:
    return A.to(A.format.with_layout(layout)).rename("A")


def _parts(triple: str) -> list[str]:
    """The parts of a triple such as Sl-32-AoS-AoS."""
    *name, own, layout = triple.split("-")
    return ["-".join(name), own, layout]


def main() -> None:
    """Measure all matrices, and write layouts.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder of the meshes and matrices")
    parser.add_argument("--out", type=Path, default=Path("bench/out"))
    parser.add_argument("--check", action="store_true", help="small, emulated, not timed")
    parser.add_argument("--seconds", type=float, default=125.0)
    parser.add_argument("--matrices", nargs="*", default=None)
    given = parser.parse_args()
    started = time.monotonic()
    until = started + (given.seconds if not given.check else 3600)
    names = given.matrices or [n for n in MATRICES if (n in CHECKED) == given.check]
    scalars = SCALARS[:1] if given.check else SCALARS
    cores = len(os.sched_getaffinity(0))
    forks = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(min(cores, 16), mp_context=forks)
    prepared = {name: pool.submit(prepare, name, given.data) for name in names}
    ahead: list[Future[int]] = []
    if not given.check:
        families = dict.fromkeys(MATRICES[name][0] for name in names)
        for part in range(4):
            ahead += [pool.submit(compile_ahead, f, s, part, 4) for f in families for s in scalars]
    machine = Machine(given.check)
    say(started, f"{machine.name}: copy {machine.bandwidth:.0f} GB/s")
    found = {name: future.result() for name, future in prepared.items()}
    say(started, "matrices are assembled")
    say(started, f"{sum(future.result() for future in ahead)} kernels are compiled")
    pool.shutdown()
    jobs = [(found[name], scalar) for name in names for scalar in scalars]
    rows = measure(machine, jobs, until, given.out, started)
    gone = [each for row in rows for each in row["left_out"]]
    wrong = [each for each in gone if "WRONG" in each]
    if given.check:
        print("\n".join(gone) or "every kernel was compiled and compared")
    if wrong:
        raise SystemExit("\n".join(wrong))


def measure(
    machine: Machine, jobs: list[tuple[Prepared, str]], until: float, out: Path, started: float
) -> list[dict[str, Any]]:
    """Measure one after another, while threads make what the next one needs in main memory."""
    rows: list[dict[str, Any]] = []
    with ThreadPoolExecutor(5) as threads:
        hosts: list[Host] = []
        for number, (found, scalar) in enumerate(jobs):
            for prepared, type in jobs[len(hosts) : number + 2]:
                host: Host = {n: threads.submit(placed, prepared, n, type) for n in FORMATS}
                host["cuSPARSE"] = threads.submit(expanded, prepared.matrix, type)
                hosts.append(host)
            mine, hosts[number] = hosts[number], {}
            if time.monotonic() > until:
                say(started, f"left out: {found.matrix.name}, {scalar}: the time is up")
                break
            measured = Measured(machine, found, scalar, until)
            try:
                measured.run(mine)
            except Exception:
                traceback.print_exc()
                measured.left_out.append("WRONG: " + traceback.format_exc().splitlines()[-1])
            if measured.times:
                rows.append(measured.row())
                say(started, summary(rows[-1]))
                write(out, machine, rows)
            machine.clear()
        threads.shutdown(cancel_futures=True)
    return rows


def summary(row: dict[str, Any]) -> str:
    """A line of progress."""
    best = min(row["times"], key=row["times"].__getitem__, default="nothing")
    spent = row["times"].get(best, float("nan"))
    ratio = row["library"] / spent if row["library"] else float("nan")
    left = f", {len(row['left_out'])} left out" if row["left_out"] else ""
    name = f"{row['matrix']}, {row['family']}, {row['scalar']}"
    return f"{name}: {best} {spent:.4f} ms, cuSPARSE / best {ratio:.2f}{left}"


def write(folder: Path, machine: Machine, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    about = {"gpu": machine.name, "bandwidth": machine.bandwidth, "day": time.strftime("%Y-%m-%d")}
    (folder / "layouts.json").write_text(json.dumps({**about, "rows": rows}))


def say(started: float, text: str) -> None:
    print(f"{time.monotonic() - started:6.1f} s  {text}", flush=True)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
