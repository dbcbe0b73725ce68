"""Loops by hand that a default schedule could become, against the one that it does.

    python bench/cpu_variants.py [--data FOLDER] [--threads 1,2,16] [--seconds 0.5]

SpMV where the vector is larger than a cache (prefetches of its elements, entries that pass the
second cache), and SpMM with four columns (how many chains of additions a row has). All take
turns; the first of each kind is the base, and ratios are its median time over the others'.
Openwork's default and torch, where it is installed, take their turns, too.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.io import mmread

import openwork as ow
from openwork.runtime.host.library import load

SOURCE = Path(__file__).with_name("cpu_variants.c")
RNG = np.random.default_rng(0)
REAL = ("bcsstk13", "bcsstk16", "net25", "delaunay_n15", "ca-CondMat", "cage10")
Call = Callable[[], Any]


def uniform(rows: int, row: int) -> sp.csr_array:
    """`row` entries in each row, anywhere."""
    i, j = np.repeat(np.arange(rows), row), RNG.integers(0, rows, rows * row)
    made = sp.csr_array(sp.coo_array((RNG.standard_normal(len(i)), (i, j)), shape=(rows, rows)))
    made.sort_indices()
    return made


def matrices(folder: Path | None) -> Iterator[tuple[str, str, sp.csr_array]]:
    """Kind of product, name, matrix."""
    for rows in (200_000, 1_000_000):
        yield "spmv", f"uniform, {rows:,} x 16", uniform(rows, 16)
    for row in (8, 40):
        yield "spmm", f"uniform, 60,000 x {row}", uniform(60_000, row)
    for path in sorted(folder.glob("*.mtx.gz")) if folder is not None else ():
        if path.name[: -len(".mtx.gz")] in REAL:
            matrix = sp.csr_array(mmread(path)).astype(float)
            matrix.sort_indices()
            yield "spmm", path.name[: -len(".mtx.gz")], sp.csr_array(matrix)


def variants(
    library: ctypes.CDLL, kind: str, matrix: sp.csr_array, threads: int
) -> dict[str, Call]:
    """Calls by name; each returns its result."""
    m, n = matrix.shape
    columns = {"spmv": (), "spmm": (4,)}[kind]
    x, y = RNG.standard_normal((n, *columns)), np.empty((m, *columns))
    arrays = [matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data, x, y]
    places = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    calls: dict[str, Call] = {}
    macros = tuple(f"{macro}({kind}" for macro in ("MASKED", "BY_SHARES", "CHAINED"))
    lines = SOURCE.read_text().splitlines()
    names = [re.split("[(,)]", line)[1] for line in lines if line.startswith(macros)]
    for name in names:
        function = getattr(library, name, None)
        if function is None:
            continue  # this processor has no such instructions

        def call(function: Any = function) -> Any:
            function(ctypes.c_int64(threads), ctypes.c_int64(m), *places)
            return y

        calls[name[len(kind) + 1 :]] = call
    text = {"spmv": "y(i) = A(i,j) * x(j)", "spmm": "y(i,k) = A(i,j) * x(j,k)"}[kind]
    A, given = ow.tensor(matrix, name="A"), ow.tensor(x, name="x")
    kernel = ow.parse(text, y=ow.empty(y.shape, name="y"), A=A, x=given).compile()
    calls["Openwork"] = lambda: kernel().to_numpy()
    if find_spec("torch") is not None:
        import torch

        torch.set_num_threads(threads)
        theirs = torch.sparse_csr_tensor(
            *(torch.from_numpy(array) for array in arrays[:3]), size=matrix.shape
        )
        beside = torch.from_numpy(x)
        calls["torch"] = lambda: (theirs @ beside).numpy()
    expected = matrix @ x
    for name, each in calls.items():
        if not np.allclose(each(), expected):
            raise SystemExit(f"{name} is wrong")
    return calls


def ratios(calls: dict[str, Call], seconds: float) -> dict[str, float]:
    """The median time of the first over that of each."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end or len(times[next(iter(calls))]) < 5:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    median = {name: statistics.median(found) for name, found in times.items()}
    return {name: median[next(iter(calls))] / each for name, each in median.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="a folder of .mtx.gz")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each variant")
    options = parser.parse_args()
    library = load(SOURCE.read_text())
    for kind, name, matrix in matrices(options.data):
        for threads in map(int, options.threads.split(",")):
            ow.set_num_threads(threads)
            found = ratios(variants(library, kind, matrix, threads), options.seconds)
            words = ", ".join(f"{variant} {ratio:.2f}" for variant, ratio in found.items())
            print(f"{kind} {name}, {threads} threads: {words}", flush=True)


if __name__ == "__main__":
    main()
