"""Shared by the examples: operands, a correctness check, and a timer."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import openwork as ow

ROWS, PER_ROW = 20_000, 16
TURNS = 9

Statement = ow.Statement[ow.Tensor]


def matrix(
    name: str = "A",
    *,
    rows: int = ROWS,
    columns: int = ROWS,
    per_row: int = PER_ROW,
    skewed: bool = False,
    seed: int = 0,
) -> ow.Tensor:
    """The matrix in the file named on the command line, or a random one, as CSR.

    Rows of a random matrix have similar lengths or, if skewed, lengths as in a web graph.
    """
    if len(sys.argv) > 1:
        read = ow.read(sys.argv[1], name=name)
        return read.to(ow.CSR) if read.dtype.kind == "f" else read.astype("float64").to(ow.CSR)
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, rows + 1) if skewed else np.ones(rows)
    where = rng.choice(rows, rows * per_row, p=weights / weights.sum()).astype("int32")
    place = (where, rng.integers(0, columns, where.size, dtype="int32"))
    random = sp.coo_array((rng.random(where.size), place), shape=(rows, columns))
    return ow.tensor(random.tocsr(), name=name)


def tensor(order: int, name: str = "B") -> ow.Tensor:
    """The tensor in the file named on the command line, or a random one, as CSF.

    A tensor with more than `order` modes is summed over the last ones.
    """
    rng = np.random.default_rng(0)
    if len(sys.argv) > 1:
        (*coordinates,), values = ow.read(sys.argv[1]).to_coo()
        extents = [int(c.max()) + 1 for c in coordinates]
    else:
        extents = {3: [240, 100, 50], 4: [100, 30, 20, 20], 5: [60, 20, 10, 10, 10]}[order]
        coordinates, values = [rng.integers(0, n, 400_000) for n in extents], rng.random(400_000)
    if len(extents) < order:
        raise SystemExit(f"{sys.argv[1]} has {len(extents)} modes, but this needs {order}")
    kept = np.array(coordinates[:order])
    data = (kept, np.asarray(values, dtype="float64"))
    return ow.tensor(data, shape=tuple(extents[:order]), format=ow.CSF(order), name=name)


def factor(rows: int, columns: int, name: str, seed: int = 1) -> ow.Tensor:
    """A dense matrix of random numbers."""
    return ow.tensor(np.random.default_rng(seed).random((rows, columns)), name=name)


def mttkrp(x: ow.Tensor, *factors: ow.Tensor) -> Any:
    """MTTKRP with SciPy: a product of rows per entry, and a sparse matrix that sums them."""
    (rows, *others), values = x.to_coo()
    products = values[:, None] * np.ones(factors[0].shape[1])
    for each, coordinates in zip(factors, others, strict=True):
        products = products * each.to_numpy()[coordinates]
    ones = np.ones(values.size)
    sums = sp.coo_array((ones, (rows, np.arange(values.size))), shape=(x.shape[0], values.size))
    return sums.tocsr() @ products


def compare(
    statement: Statement,
    scheduled: Statement,
    expected: Any,
    *,
    threads: int | None = None,
    **others: Statement,
) -> None:
    """Show a schedule, check its result, and time it against the default schedule.

    Args:
        statement: what to compute; it is compiled with the default schedule.
        scheduled: the statement with a schedule.
        expected: what SciPy or NumPy computed.
        threads: how many threads the clock lets run; None for all.
        **others: further schedules of the statement, by the names that the table gives them.
    """
    print(f"{statement}\n\n{scheduled.commands}\n\n{scheduled.loops}\n")
    kernels = {"default": statement, "scheduled": scheduled, **others}
    compiled = {name: each.compile() for name, each in kernels.items()}
    for kernel in compiled.values():
        for count in (1, 2):
            ow.set_num_threads(count)
            check(kernel(), expected)
    ow.set_num_threads(threads)
    times = clock({name: call(kernel) for name, kernel in compiled.items()})
    width = max(map(len, times))
    for name, seconds in times.items():
        ratio = times["default"] / seconds
        print(f"{name:{width}}  {seconds * 1e3:9.3f} ms  {ratio:5.2f} times the default's speed")


def check(result: ow.Tensor, expected: Any) -> None:
    """Raise unless `result` is close to what SciPy or NumPy computed."""
    scale = max(float(abs(expected).max()), 1.0)
    found = result.to_numpy() if isinstance(expected, np.ndarray) else result.to_scipy()
    error = float(abs(found - expected).max())
    if not error <= 1e-11 * scale:
        raise SystemExit(f"the answer is wrong by {error}")


def call(kernel: ow.Kernel[ow.Tensor]) -> Callable[[], object]:
    """The kernel as a function that reuses one result, where it can."""
    result = kernel()
    return (lambda: kernel(out=result)) if result.format.is_dense else kernel


def clock(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median time of each call, interleaved, so that noise affects all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(TURNS):
        for name, function in calls.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in times.items()}
