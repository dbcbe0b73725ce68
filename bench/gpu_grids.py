"""Grids of a constant size on a GPU: blocks that stride over rows, or take the next from a counter.

    python bench/gpu_grids.py              under 100 s on an H200; prints a table
    python bench/gpu_grids.py --emulated   the same kernels on small matrices, checked but not timed

SpMV of quaternions and numbers, eight lanes a row. `nb` blocks of `nt` threads on each
multiprocessor: `divide(tile,turn,rest,multiprocessors*nb,assign=...)`, launch bounds of (nt, nb).
Every kernel is checked against the default before it is timed; times are ratios to the default's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

import openwork as ow

ROWS, EACH, LANES = 200_000, 16, 8
BLOCKS, THREADS = (1, 2, 4), (64, 128, 256, 512)
ASSIGNED = {"stride": "stride", "dynamic": "dynamic,chunk=1", "dynamic 4": "dynamic,chunk=4"}
BUDGET = 95.0  # seconds
GRID = """split(i,tile,row,{rows}), divide(tile,turn,rest,{parts},assign={assigned}),
    pos(j,place,A), split(place,round,lane,8), order(turn,rest,row,lane,round), unroll(round,2),
    parallelize(turn,GPUBlock,NoRaces,threads={threads},blocks_per_sm={blocks}),
    parallelize(row,GPUWarp,NoRaces),
    parallelize(lane,GPUGroup,group_size=8,reduction=parallel)"""


def patterns(rows: int) -> dict[str, sp.csr_array]:
    """Rows of equal length, of lengths by a power law, and near the diagonal."""
    rng = np.random.default_rng(0)
    lengths = np.maximum(1, rows / 10 / (1 + np.arange(rows)) ** 0.8).astype(int)
    rng.shuffle(lengths)
    equal = np.full(rows, EACH)
    row = np.repeat(np.arange(rows), EACH)
    near = np.clip(row + rng.integers(-40, 41, row.size), 0, rows - 1)
    return {
        "uniform": _pattern(equal, rng.integers(0, rows, row.size)),
        "skewed": _pattern(lengths, rng.integers(0, rows, lengths.sum())),
        "banded": _pattern(equal, near),
    }


def _pattern(lengths: np.ndarray[Any, Any], columns: np.ndarray[Any, Any]) -> sp.csr_array:
    rows = lengths.size
    where = np.repeat(np.arange(rows), lengths), columns
    made = sp.csr_array((np.ones(columns.size), where), shape=(rows, rows))
    made.sum_duplicates()
    return made


def operands(pattern: sp.csr_array, dtype: Any, on: Callable[[Any], Any]) -> dict[str, Any]:
    """A matrix with this pattern, and a vector, of random numbers or records."""
    rng = np.random.default_rng(1)
    shape = getattr(dtype, "shape", ())
    made = [rng.standard_normal((n, *shape)) for n in (pattern.nnz, pattern.shape[1])]
    values, vector = (each.astype(dtype) if shape == () else dtype.records(each) for each in made)
    arrays = [None, (pattern.indptr, pattern.indices)]
    A = ow.from_arrays(ow.CSR, pattern.shape, arrays, values)
    return {"A": on(A), "x": on(ow.tensor(vector, dtype=dtype))}


def kernels(
    stmt: ow.Statement, target: str, processors: int
) -> Iterator[tuple[tuple[str, int, int], Any]]:
    """Every grid, compiled: how rows are assigned, nb, and nt."""
    for blocks in BLOCKS:
        for threads in THREADS:
            for name, assigned in ASSIGNED.items():
                if blocks * threads <= 2048:
                    schedule = GRID.format(
                        rows=threads // LANES, parts=processors * blocks, assigned=assigned,
                        threads=threads, blocks=blocks,
                    )  # fmt: skip
                    compiled = stmt.schedule(schedule).compile(target=target)
                    yield (name, blocks, threads), compiled


def check(found: ow.Tensor, wanted: np.ndarray[Any, Any], what: object) -> None:
    """Raise unless a result agrees with the default's."""
    scale = float(abs(wanted).max())
    error = float(abs(found.to_numpy() - wanted).max()) / scale
    if not error < 1e-4:
        raise SystemExit(f"{what}: the answer is wrong by {error}")


def machine(emulated: bool) -> tuple[str, int, Callable[[Any], Any], Callable[..., float]]:
    """The target, its multiprocessors, how tensors get there, and a timer in milliseconds."""
    if emulated:
        return "cuda-emulated", 2, lambda tensor: tensor, lambda call: float("nan")
    import cupy as cp
    from gpu_clock import copy_bandwidth, median

    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    processors = cp.cuda.Device().attributes["MultiProcessorCount"]
    print(f"{name}, {processors} multiprocessors, copy {copy_bandwidth():.0f} GB/s")
    return "cuda", processors, lambda tensor: tensor.to("cuda"), lambda call: median(call, 7)


def main() -> None:
    """Print the table, a row for each type, matrix and way to assign rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--emulated", action="store_true", help="without a GPU; checks only")
    emulated = parser.parse_args().emulated
    start = time.perf_counter()
    target, processors, on, timed = machine(emulated)
    quaternion = ow.entry.quaternion
    rows = 300 if emulated else ROWS
    found = patterns(rows)
    head = [f"{blocks}x{threads}" for blocks in BLOCKS for threads in THREADS]
    print("times of grids over the default's, nb x nt; less is better")
    print("| " + " | ".join(["entries", "matrix", "default ms", "rows", *head]) + " |")
    print("|---" * (len(head) + 4) + "|")
    for dtype in (
        quaternion("float32"), quaternion("float64"), np.dtype("float32"), np.dtype("float64"),
    ):  # fmt: skip
        data = {name: operands(pattern, dtype, on) for name, pattern in found.items()}
        y = ow.empty(rows, dtype=dtype, name="y")
        stmt = ow.parse(
            "y(i) = A(i,j) * x(j)",
            y=y, A=data["uniform"]["A"].rename("A"), x=data["uniform"]["x"].rename("x"),
        )  # fmt: skip
        usual, wanted = {}, {}
        for name, given in data.items():  # each has the default for its own statistics
            renamed = {key: tensor.rename(key) for key, tensor in given.items()}
            kernel = ow.parse("y(i) = A(i,j) * x(j)", y=y, **renamed).compile(target=target)
            wanted[name] = kernel().to_numpy()
            usual[name] = timed(kernel)
        ratios: dict[tuple[str, str], dict[str, float]] = {}
        for (assigned, blocks, threads), kernel in kernels(stmt, target, processors):
            if time.perf_counter() - start > BUDGET and not emulated:
                print(f"(out of time before {dtype}, {blocks}x{threads})")
                break
            for name, given in data.items():
                check(kernel(**given), wanted[name], (dtype, name, assigned, blocks, threads))
                spent = timed(lambda kernel=kernel, given=given: kernel(**given))
                at = ratios.setdefault((name, assigned), {})
                at[f"{blocks}x{threads}"] = spent / usual[name]
        for (name, assigned), row in ratios.items():
            cells = [f"{row[place]:.2f}" if place in row else "" for place in head]
            said = [str(dtype), name, f"{usual[name]:.4f}", assigned, *cells]
            print("| " + " | ".join(said) + " |", flush=True)
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
