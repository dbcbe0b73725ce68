"""Programs of patterns: the figures 5 to 8 of their paper, on a GPU or on a CPU.

    python bench/skeletons.py DATA --out FOLDER [--cpu [--one]] [--matrices NAME ...]

About 60 s on an H200 and 30 s on its CPU; writes skeletons-gpu.json or skeletons-cpu.json, of which
`skeletons_page.py` makes a page and pictures. float32, medians of 100. Figure 5: sums of lengths by
loops, closed forms and prefix sums; 6: pairs against two arrays; 7: CSR against lists of lists;
8: entries per second over rows and lanes, with cuSPARSE through CuPy (`library`) and called
directly, the fastest of its algorithms (`direct`). On a GPU the kernels of figures 5 to 7 have the
same units, a warp for each row; `default` is what a program without units gets. All operands and
results lie on the GPU, and device time is measured. On a CPU all kernels of a matrix are called in
turns.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import openwork as ow
from openwork import skeletons as sk
from openwork.runtime.host.threads import thread_count

MATRICES = (
    "bayer10", "bcsstk16", "ca-CondMat", "cage10", "copter2", "email-Enron", "ex15",
    "fem_wheelset_elastic", "mdual", "web-NotreDame",
)  # fmt: skip
REPS, SLOW, FEW = 100, 0.02, 2  # seconds; slower calls are repeated less often
_LENGTH = "{toNat(o@(i+1)-o@i)}"
CSR = f"""nFun n. nFun m. fun o: [int]_{{n+1}}. fun c: [i -> [int]_{_LENGTH}]_n.
fun v: [i -> [float]_{_LENGTH}]_n. fun x: [float]_m. zip(c, v) :>> map(fun(r => zip(r.1, r.2) :>>
map(fun(e => e.2 * x@e.1)) :>> reduce(+, 0)))"""
PACKED = f"""nFun n. nFun m. fun o: [int]_{{n+1}}. fun v: [i -> [(int, float)]_{_LENGTH}]_n.
fun x: [float]_m. v :>> map(fun(r => r :>> map(fun(e => e.2 * x@e.1)) :>> reduce(+, 0)))"""
LIL = """nFun n. nFun m. fun l: [int]_n. fun c: [i -> [int]_{toNat(l@i)}]_n.
fun v: [i -> [float]_{toNat(l@i)}]_n. fun x: [float]_m. zip(c, v) :>> map(fun(r => zip(r.1, r.2) :>>
map(fun(e => e.2 * x@e.1)) :>> reduce(+, 0)))"""
SPLIT = f"""nFun n. nFun m. fun o: [int]_{{n+1}}. fun c: [i -> [int]_{_LENGTH}]_n.
fun v: [i -> [float]_{_LENGTH}]_n. fun x: [float]_m.
zip(c, v) :>> split(ROWS) :>> mapWorkgroup(mapWarp(fun(r => zip(r.1, r.2) :>> split(LANES) :>>
transpose :>> mapLane(map(fun(e => e.2 * x@e.1)) :>> reduce(+, 0)) :>> reduce(+, 0)))) :>> join"""
SHAPES = [(size // lanes, lanes) for size in (8, 32, 128, 256) for lanes in (2, 4, 8, 16, 32)]
SHAPES = [(rows, lanes) for rows, lanes in SHAPES if rows]
SAME = (8, 32)  # rows of a block and lanes of a row, as the default has them


def cpu_seconds(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The median time of each call; fast ones are made in turns, so that all see the same."""
    times: dict[str, list[float]] = {name: [] for name in calls}

    now = time.thread_time if thread_count() == 1 else time.perf_counter

    def timed(name: str) -> float:
        begin = now()
        calls[name]()
        return now() - begin

    slow = {name for name in calls if timed(name) > SLOW}
    for name in slow:
        times[name] = [timed(name) for _ in range(FEW)]
    order, rng = sorted(calls.keys() - slow), np.random.default_rng(1)
    for _ in range(REPS):
        rng.shuffle(order)  # what runs before leaves its data in the caches
        for name in order:
            times[name].append(timed(name))
    return {name: float(np.median(found)) for name, found in times.items()}


def gpu_seconds(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The median time of each call on the device."""
    clock = importlib.import_module("gpu_clock")
    found = {}
    for name, call in calls.items():
        slow = clock.median(call, 1) > 1e3 * SLOW
        found[name] = float(clock.median(call, FEW if slow else REPS)) / 1e3
    return found


def cusparse_seconds(matrix: Any, x: Any) -> float:
    """cuSPARSE called directly: its fastest algorithm, preprocessed."""
    names = "cupy", "cupyx.scipy.sparse", "cusparse"
    cp, sparse, cusparse = map(importlib.import_module, names)
    there, vector = sparse.csr_matrix(matrix), cp.asarray(x)
    made, expected, times = cp.zeros(matrix.shape[0], x.dtype), there @ vector, list[float]()
    for name, call in cusparse.spmv(there, vector, made):
        made.fill(0)
        call()
        assert float(abs(made - expected).max()) <= 1e-3 * float(abs(expected).max()), name
        times.append(gpu_seconds({name: call})[name])
    return min(times)


class Study:
    """The kernels, and what each took on each matrix."""

    def __init__(self, gpu: bool) -> None:
        self.gpu, target = gpu, "cuda" if gpu else "cpu"
        csr, packed, lil = (sk.parse(text) for text in (CSR, PACKED, LIL))
        self.kernels = {}
        if gpu:
            self.kernels["default"] = csr.compile(target)
            csr, packed, lil = (each.with_units() for each in (csr, packed, lil))
        for sums in ("closed", "prefix", "loop"):
            self.kernels[sums] = csr.compile(target, sums)
        self.kernels |= {"packed": packed.compile(target), "lil": lil.compile(target)}
        self.shapes = {}
        for rows, lanes in SHAPES if gpu else ():
            text = SPLIT.replace("ROWS", str(rows)).replace("LANES", str(lanes))
            self.shapes[f"{rows}x{lanes}"] = sk.parse(text).compile(target)

    def measured(self, matrix: Any) -> dict[str, float]:
        """Seconds, by kernel; every result is compared first."""
        x = np.random.default_rng(0).random(matrix.shape[1], dtype=np.float32)
        flat = {"o": matrix.indptr, "c": matrix.indices, "v": matrix.data, "x": x}
        lists = {**flat, "l": np.diff(matrix.indptr).astype("int32")}
        lists.pop("o")
        pairs = {"o": matrix.indptr, "v": sk.pairs(matrix.indices, matrix.data), "x": x}
        data = {"packed": pairs, "lil": lists}
        calls: dict[str, Callable[[], Any]] = {}
        expected = matrix.astype("float64") @ x
        for name, kernel in {**self.kernels, **self.shapes}.items():
            bound = kernel.bind(**data.get(name, flat))
            np.testing.assert_allclose(bound(), expected, rtol=1e-3, atol=1e-3 * np.ptp(expected))
            calls[name] = bound.launch if self.gpu else bound
        calls |= self.others(matrix, x)
        if self.gpu:
            return gpu_seconds(calls) | {"direct": cusparse_seconds(matrix, x)}
        return cpu_seconds(calls)

    def others(self, matrix: Any, x: Any) -> dict[str, Callable[[], Any]]:
        """Index notation, and cuSPARSE or SciPy."""
        theirs: Callable[[], Any] = lambda: matrix @ x  # noqa: E731
        tensors = {"A": ow.tensor(matrix, name="A"), "x": ow.tensor(x, name="x")}
        if self.gpu:
            tensors = {name: tensor.to("cuda") for name, tensor in tensors.items()}
            cp, sparse = map(importlib.import_module, ("cupy", "cupyx.scipy.sparse"))
            there, vector = sparse.csr_matrix(matrix), cp.asarray(x)
            theirs = lambda: there @ vector  # noqa: E731
        y = ow.empty((matrix.shape[0],), dtype="float32", name="y")
        statement = ow.parse("y(i) = A(i,j) * x(j)", **tensors, y=y)
        kernel = statement.compile(target="cuda" if self.gpu else "cpu")
        found: dict[str, Callable[[], Any]] = {"index notation": kernel, "library": theirs}
        if self.gpu:
            same = statement.schedule(
                f"split(i,b,w,{SAME[0]}), pos(j,p,A), split(p,r,l,{SAME[1]}), order(b,w,l,r), "
                "unroll(r,2), parallelize(b,GPUBlock,NoRaces), parallelize(w,GPUWarp,NoRaces), "
                f"parallelize(l,GPUGroup,NoRaces,group_size={SAME[1]},reduction=parallel)"
            )
            found["same schedule"] = same.compile(target="cuda")
        return found


def compile_seconds(target: str) -> dict[str, float]:
    """From text to a loaded kernel, each in a process and with a cache of its own.

    `first` is the first kernel of an installation, for which the compiler is looked for and the
    pool of threads compiled; the others come after it.
    """
    dense = "nFun n. nFun m. fun A: [[float]_m]_n. fun x: [float]_m. A :>> map(fun(r => zip(r, x) "
    sums = "nFun n. fun o: [int]_{n+1}. fun v: [i -> [float]_LENGTH]_n. v :>> map(reduce(+, 0))"
    split = SPLIT.replace("ROWS", "4").replace("LANES", "32")
    texts = {
        "dense": f"{dense}:>> map(*) :>> reduce(+, 0)))", "LIL": LIL, "CSR": CSR, "packed": PACKED,
        "row sums": sums.replace("LENGTH", _LENGTH),
    }  # fmt: skip
    if target != "cpu":
        texts["parallel"] = split
    found: dict[str, float] = {}
    for name, text in texts.items():
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", _COLD, text, target]
            environment = {**os.environ, "OPENWORK_CACHE_DIR": folder}
            answer = subprocess.run(command, env=environment, capture_output=True, check=True)
        first, found[name] = map(float, answer.stdout.split())
        found.setdefault("first", first)
    return found


_COLD = """
import sys, time
from openwork import skeletons as sk
from openwork.runtime.host.threads import thread_count
text, target = sys.argv[1:]
for each in ("nFun n. fun x: [float]_n. x :>> map(fun(e => e + 1))", text):
    begin = time.perf_counter()
    kernel = sk.parse(each).compile(target)
    if target != "cpu":
        getattr(kernel, "usual", kernel).load()
    print(time.perf_counter() - begin)
"""


def main() -> None:
    """Measure all matrices in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument(
        "--one",
        action="store_true",
        help="one thread, by its own time: other processes matter less",
    )
    parser.add_argument("--matrices", nargs="*", default=MATRICES)
    parser.add_argument("--cold", type=Path, help="an earlier result, for times of compiling")
    parser.add_argument("--limit", type=float, default=100.0, help="seconds to begin matrices in")
    given = parser.parse_args()
    rows, begin = {}, time.time()
    if given.one:
        ow.set_num_threads(1)
    cold = (
        json.loads(given.cold.read_text())["compile"]
        if given.cold
        else compile_seconds("cpu" if given.cpu else "cuda")
    )
    study = Study(not given.cpu)
    print(f"compiled after {time.time() - begin:.1f} s", flush=True)
    for name in given.matrices:
        if time.time() - begin > given.limit:
            print("time is up before", name)
            break
        matrix = ow.read(given.data / f"{name}.mtx.gz").to_scipy().tocsr().astype("float32")
        matrix.sort_indices()
        seconds = study.measured(matrix)
        rows[name] = {"rows": matrix.shape[0], "entries": int(matrix.nnz), "seconds": seconds}
        best = min((v, k) for k, v in seconds.items())
        print(f"{time.time() - begin:.1f} s", name, matrix.shape, matrix.nnz,
              f"best {best[1]} {best[0] * 1e6:.1f} us", flush=True)  # fmt: skip
    file = given.out / f"skeletons-{'cpu' if given.cpu else 'gpu'}.json"
    file.write_text(json.dumps({"compile": cold, "matrices": rows}, indent=1))


if __name__ == "__main__":
    main()
