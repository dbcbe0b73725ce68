"""Overheads: import, compilation, calls, validation."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from measure import interleave

import openwork as ow
from openwork.runtime.host import library
from openwork.runtime.host.interrupt import stop_flag
from openwork.runtime.host.threads import thread_count

CALLS = 1000

IMPORT = """
    import time
    import numpy, scipy.sparse
    start = time.perf_counter()
    import openwork
    print(time.perf_counter() - start)
"""

# Prints two times: since the import, and of the kernel alone. With an empty cache the first
# includes what is done once per machine: probing the compiler, compiling the validator.
COMPILE = """
    import time
    import numpy as np, scipy.sparse as sp, openwork as ow
    begin = time.perf_counter()
    A = ow.tensor(sp.eye_array(8, format="csr"), name="A")
    x, y = ow.tensor(np.ones(8), name="x"), ow.empty((8,), name="y")
    i, j = ow.indices("i j")
    start = time.perf_counter()
    kernel = ow.assign(y[i], A[i, j] * x[j]).compile()
    kernel()
    end = time.perf_counter()
    print(end - begin, end - start)
"""


def call_overhead(repeats: int) -> tuple[float, float]:
    """Microseconds per call of a tiny SpMV: the kernel, and its bare C function."""
    A, x = ow.tensor(sp.eye_array(8, format="csr"), name="A"), ow.tensor(np.ones(8), name="x")
    y = ow.empty((8,), name="y")
    i, j = ow.indices("i j")
    kernel = ow.assign(y[i], A[i, j] * x[j]).compile()
    kernel()
    function = library.load(kernel.source).kernel
    pointers = (stop_flag(), *A.storage.pointers, *x.storage.pointers, *y.storage.pointers)
    arrays = (ctypes.c_void_p * len(pointers))(*pointers)
    sizes = (ctypes.c_int64 * 4)(1, 0, 8, 8)
    assert function(arrays, sizes) == 0 and y.to_numpy().sum() == 8
    microseconds: dict[str, list[float]] = {"kernel": [], "bare": []}
    for _ in range(repeats):
        for name, call in (("kernel", kernel), ("bare", lambda: function(arrays, sizes))):
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            microseconds[name].append(1e6 / CALLS * (time.perf_counter() - start))
    return statistics.median(microseconds["kernel"]), statistics.median(microseconds["bare"])


_BYTECODE = tempfile.TemporaryDirectory(prefix="openwork-bytecode-")


def run_python(program: str, **variables: str) -> list[float]:
    """Run a program in a new Python process; return the seconds that it prints."""
    command = [sys.executable, "-c", textwrap.dedent(program)]
    # Installed packages have compiled bytecode; from the second run on, so does everything here.
    known = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    variables = {**known, "PYTHONPYCACHEPREFIX": _BYTECODE.name, **variables}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


@dataclass(frozen=True)
class Compiling:
    """Seconds to the first SpMV, and how often a second process ran a compiler."""

    first: float  # with an empty cache, in total
    kernel: float  # the kernel's share of it
    second: float  # in another process, in total
    runs: int


def compilations(repeats: int) -> Compiling:
    """Compile SpMV in new processes, through a compiler wrapper that counts its runs."""
    first, second, runs = [], [], []
    real = shlex.quote(shutil.which(os.environ.get("OPENWORK_CC", "cc")) or "cc")
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            log, compiler = Path(folder, "log"), Path(folder, "compiler")
            log.touch()
            compiler.write_text(
                f'#!/bin/sh\necho run >> {shlex.quote(str(log))}\nexec {real} "$@"\n'
            )
            compiler.chmod(0o700)
            setting = {"OPENWORK_CACHE_DIR": f"{folder}/cache", "OPENWORK_CC": str(compiler)}
            first.append(run_python(COMPILE, **setting))
            before = len(log.read_text().splitlines())
            assert before > 0, "the counting compiler was not used"
            second.append(run_python(COMPILE, **setting))
            runs.append(len(log.read_text().splitlines()) - before)
    median = statistics.median
    return Compiling(
        median(whole for whole, _ in first),
        median(kernel for _, kernel in first),
        median(whole for whole, _ in second),
        max(runs),
    )


# Rows, entries per row: two in memory, one in the last-level cache, one in the level before.
ENTERING = ((1_000_000, 10), (300_000, 30), (100_000, 8), (10_000, 8))


def entering(quick: bool) -> str:
    """The cost of turning a SciPy matrix into a tensor, in SpMVs of that matrix."""
    lines = [
        "| rows x entries | threads | SpMV | SciPy's SpMV | check | check / SpMV | check / SciPy's "
        "| with copies / SpMV | copy alone / SpMV |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rng = np.random.default_rng(0)
    for rows, length in ENTERING[2:] if quick else ENTERING:
        near = np.arange(rows)[:, None] + rng.integers(-5000, 5000, (rows, length))
        columns = np.sort(near % rows, axis=1).ravel()
        entries = (np.ones(columns.size), (np.repeat(np.arange(rows), length), columns))
        matrix = sp.csr_array(entries, shape=(rows, rows))
        matrix.sum_duplicates()
        for name in ("indices", "indptr"):  # as SciPy uses them for all but the largest matrices
            setattr(matrix, name, getattr(matrix, name).astype(np.int32))
        for threads in dict.fromkeys((1, thread_count())):
            lines.append(_entering(matrix, threads, 0.5 if quick else 4.0))
    return "\n".join(lines)


def _entering(matrix: sp.csr_array, threads: int, budget: float) -> str:
    dense = np.ones(matrix.shape[1])
    ow.set_num_threads(threads)
    A, x, y = (
        ow.tensor(matrix, name="A"),
        ow.tensor(dense, name="x"),
        ow.empty(len(dense), name="y"),
    )
    kernel = ow.parse("y(i) = A(i,j) * x(j)", A=A, x=x, y=y).compile()
    contestants = {
        "spmv": kernel,
        "scipy": lambda: matrix @ dense,
        "check": lambda: ow.tensor(matrix, share=True),
        "own": lambda: ow.tensor(matrix),
        "copy": lambda: (matrix.indptr.copy(), matrix.indices.copy()),
    }
    turns = interleave(contestants, budget)
    ow.set_num_threads(None)
    times = [f"{1e3 * turns.median(name):.3f} ms" for name in ("spmv", "scipy", "check")]
    pairs = (("check", "spmv"), ("check", "scipy"), ("own", "spmv"), ("copy", "spmv"))
    ratios = [f"{turns.speed(over, name):.2f}" for name, over in pairs]
    cells = [f"{matrix.shape[0]} x {matrix.nnz // matrix.shape[0]}", str(threads), *times, *ratios]
    return f"| {' | '.join(cells)} |"


def table(quick: bool) -> str:
    """The costs as a Markdown table, each with its limit."""
    kernel, bare = call_overhead(5 if quick else 25)
    compiling = compilations(1 if quick else 7)
    run_python(IMPORT)
    importing = statistics.median(run_python(IMPORT)[0] for _ in range(3 if quick else 11))
    rows = [
        ("warm call of a tiny SpMV", f"{kernel:.1f} us", ""),
        ("its bare C function through ctypes", f"{bare:.1f} us", ""),
        ("overhead of a call", f"{kernel - bare:.1f} us", "15 us"),
        ("cold compile of SpMV", f"{compiling.kernel:.2f} s", "0.5 s"),
        ("from import to the first SpMV, cache empty", f"{compiling.first:.2f} s", ""),
        ("the same in a second process", f"{1e3 * compiling.second:.1f} ms", ""),
        ("runs of a compiler in that process", f"{compiling.runs}", "0"),
        ("import beyond NumPy and scipy.sparse", f"{importing:.3f} s", "0.25 s"),
    ]
    lines = ["| what | measured | at most |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


if __name__ == "__main__":
    print(entering("--quick" in sys.argv))
