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


def vector_of(numbers: Array, kind: Any, layout: str) -> ow.Tensor:
    order = numbers.ndim - len(kind.shape)
    made = ow.tensor(numbers, dtype=kind, name="x")
    return made.to(ow.dense(order).with_layout(layout))


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

    def library(self, m: Matrix, scalar: str, x: Array) -> Callable[[], Any] | None:
        """cuSPARSE's product: blocks by BSR, of the expansion where needed; complex by CSR."""
        if self.clock is None:
            made = expanded(m, scalar)
            flat = _for_library(m, x)
            return lambda: _numbers(m, made @ flat, x.ndim == 3)
        if m.family == "complex":
            return self._complex(m, scalar, _for_library(m, x))
        made, flat = expanded(m, scalar), _for_library(m, x)
        try:
            if flat.ndim == 1:
                return self.vendor.bsrmv(m.shape, m.pos, m.crd, made.data, flat)
            call = self.vendor.bsrmm(m.shape, m.pos, m.crd, made.data, flat)
            return lambda: _numbers(m, call(), True)
        except (self.vendor.Missing, AttributeError) as error:
            print(f"  no BSR in cuSPARSE for {m.name}: {error}")
            return None

    def _complex(self, m: Matrix, scalar: str, flat: Array) -> Callable[[], Any]:
        cp, wide = self.cp, np.result_type(scalar, "complex64")
        values = cp.asarray(m.values.astype(scalar).view(wide).reshape(-1))
        held = (values, cp.asarray(m.crd), cp.asarray(m.pos))
        A = self.sparse.csr_matrix(held, shape=m.shape)
        given = cp.asarray(flat)
        if flat.ndim == 2:
            given = cp.asfortranarray(given)  # the faster way for cuSPARSE
        return lambda: A @ given


def _for_library(m: Matrix, x: Array) -> Array:
    """A vector or matrix of records as numbers: (rows,) or (rows, columns)."""
    if m.family == "complex":
        return x.view(np.result_type(x.dtype, "complex64"))[..., 0]
    return x.reshape(-1) if x.ndim == 2 else x.transpose(0, 2, 1).reshape(-1, x.shape[1])


def _numbers(m: Matrix, found: Any, wide: bool) -> Any:
    """A library's result with record after record."""
    if m.family == "complex" or not wide:
        return found
    return found.reshape(m.shape[0], -1, found.shape[1]).transpose(0, 2, 1)


def _reals(found: Any, scalar: str) -> Any:
    """All real numbers of a library's result."""
    flat = found.copy(order="C").reshape(-1)
    return flat.view(scalar) if flat.dtype.kind == "c" else flat


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

    def run(self, tensors: Callable[[str], Storage]) -> None:
        """Measure everything. `tensors`: the matrix in a format."""
        machine, m = self.machine, self.found.matrix
        wanted, self.library = self._library(self.x)
        vectors = {}
        for layout in LAYOUTS:
            x = machine.on(vector_of(self.x, self.other, layout))
            y = ow.empty(m.shape[0], dtype=self.other, format=x.format, name="y")
            vectors[layout] = x, y
        based: dict[str, ow.Tensor] = {}
        for name, own, layout in TRIPLES:
            if name not in based:
                based[name] = machine.on(ow.Tensor.of(tensors(name), "A"))
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
        self._times_matrix(based)

    def _fastest(self, triple: str = "") -> list[str]:
        """The fastest triple and way that has grids."""
        mine = [k for k in self.times if k.startswith(triple) and not k.endswith("default")]
        return min(mine, key=self.times.__getitem__).split(" ")

    def _times_matrix(self, based: dict[str, ow.Tensor]) -> None:
        wanted, self.library_wide = self._library(self.X)
        X = self.machine.on(ow.tensor(self.X, dtype=self.other, name="X"))
        for name, own in WIDE:
            A = _in_layout(based[name], own)
            stmt, given = times_matrix(A, X, self.other), {"A": A, "X": X}
            made = wide_ways(stmt)
            if (name, own) == ("CSR", "AoS"):
                made["default"] = lambda s=stmt: s
            for way, make in made.items():
                wanted = self._timed(f"{name}-{own} {way}", make, given, wanted, self.wide)

    def _library(self, x: Array) -> tuple[Any, float | None]:
        call = self.machine.library(self.found.matrix, self.scalar, x)
        if call is None:
            return None, None
        return _reals(call(), self.scalar), self.machine.time(call)

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
            raise SystemExit(f"{self.found.matrix.name}, {self.kind}, {key}: wrong by {apart}")
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
    parser.add_argument("--seconds", type=float, default=130.0)
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
    rows: list[dict[str, Any]] = []
    found = {name: future.result() for name, future in prepared.items()}
    say(started, "matrices are assembled")
    say(started, f"{sum(future.result() for future in ahead)} kernels are compiled")
    pool.shutdown()
    with ThreadPoolExecutor(4) as threads:
        jobs = [(found[name], scalar) for name in names for scalar in scalars]
        hosts: dict[int, dict[str, Future[Storage]]] = {}
        for number, (each, scalar) in enumerate(jobs):
            for later in range(number, min(number + 2, len(jobs))):
                if later not in hosts:
                    at, as_ = jobs[later]
                    hosts[later] = {n: threads.submit(placed, at, n, as_) for n in FORMATS}
            if time.monotonic() > until:
                say(started, f"left out: {each.matrix.name}, {scalar}: the time is up")
                continue
            mine = hosts.pop(number)
            measured = Measured(machine, each, scalar, until)
            measured.run(lambda name, mine=mine: mine[name].result())
            rows.append(measured.row())
            say(started, summary(rows[-1]))
            machine.clear()
            write(given.out, machine, rows)
        for job in hosts.values():
            for future in job.values():
                future.cancel()
    if given.check:
        missing = [gone for row in rows for gone in row["left_out"]]
        print("\n".join(missing) or "every kernel was compiled and compared")


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
