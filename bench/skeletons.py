"""Programs of patterns: the figures 5 to 8 of their paper, on a GPU or on a CPU.

    python bench/skeletons.py DATA --out FOLDER [--cpu]     70 s on an H200; writes skeletons.json

float32, medians of 100. Figure 5: sums of lengths by loops, closed forms and prefix sums; 6: pairs
against two arrays; 7: CSR against lists of lists; 8: entries per second over rows and lanes, with
cuSPARSE through CuPy. `skeletons_page.py` makes a page and pictures of skeletons.json.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import openwork as ow
from openwork import skeletons as sk

REPS, SLOW = 100, 0.05  # seconds; slower calls are repeated less often
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


def cpu_seconds(call: Callable[[], Any]) -> float:
    """The median time of a call."""
    call()
    begin = time.perf_counter()
    call()
    reps = REPS if time.perf_counter() - begin < SLOW else 5
    times = []
    for _ in range(reps):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def gpu_seconds(call: Callable[[], Any]) -> float:
    """The median time on the device."""
    clock = importlib.import_module("gpu_clock")
    slow = clock.median(call, 3) > 1e3 * SLOW
    return float(clock.median(call, 5 if slow else REPS)) / 1e3


class Study:
    """The kernels, and what each took on each matrix."""

    def __init__(self, gpu: bool) -> None:
        self.gpu, target = gpu, "cuda" if gpu else "cpu"
        self.seconds = gpu_seconds if gpu else cpu_seconds
        csr = sk.parse(CSR)
        self.kernels = {
            "closed": csr.compile(target),
            "prefix": csr.compile(target, "prefix"),
            "loop": csr.compile(target, "loop"),
            "packed": sk.parse(PACKED).compile(target),
            "lil": sk.parse(LIL).compile(target),
        }
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
        found, expected = {}, matrix.astype("float64") @ x
        for name, kernel in {**self.kernels, **self.shapes}.items():
            bound = kernel.bind(**data.get(name, flat))
            np.testing.assert_allclose(bound(), expected, rtol=1e-3, atol=1e-3 * np.ptp(expected))
            call = (lambda k=kernel, b=bound: k.launch(b)) if self.gpu else bound
            found[name] = self.seconds(call)
        return found | self.others(matrix, x)

    def others(self, matrix: Any, x: Any) -> dict[str, float]:
        """Index notation, and cuSPARSE or SciPy."""
        theirs: Callable[[], Any] = lambda: matrix @ x  # noqa: E731
        if self.gpu:
            cp, sparse = map(importlib.import_module, ("cupy", "cupyx.scipy.sparse"))
            matrix, x = sparse.csr_matrix(matrix), cp.asarray(x)
            theirs = lambda a=matrix, b=x: a @ b  # noqa: E731
        tensors = {"A": ow.tensor(matrix, name="A"), "x": ow.tensor(x, name="x")}
        y = ow.empty((matrix.shape[0],), dtype="float32", name="y")
        statement = ow.parse("y(i) = A(i,j) * x(j)", **tensors, y=y)
        kernel = statement.compile(target="cuda" if self.gpu else "cpu")
        found = {"index notation": self.seconds(kernel), "library": self.seconds(theirs)}
        if self.gpu:
            same = statement.schedule(
                f"split(i,b,w,{SAME[0]}), pos(j,p,A), split(p,r,l,{SAME[1]}), order(b,w,l,r), "
                "unroll(r,2), parallelize(b,GPUBlock,NoRaces), parallelize(w,GPUWarp,NoRaces), "
                f"parallelize(l,GPUGroup,NoRaces,group_size={SAME[1]},reduction=parallel)"
            )
            found["same schedule"] = self.seconds(same.compile(target="cuda"))
        return found


def compile_seconds() -> dict[str, float]:
    """From text to a loaded kernel, without any cache of this program."""
    found = {}
    for name, text in {"csr": CSR, "packed": PACKED, "lil": LIL}.items():
        fresh = text.replace("e.2 * x@e.1", f"e.2 * x@e.1 * {time.time_ns() % 1000 + 2}")
        begin = time.perf_counter()
        sk.parse(fresh).compile()
        found[name] = time.perf_counter() - begin
    return found


def main() -> None:
    """Measure all matrices in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args()
    study, rows, begin = Study(not given.cpu), {}, time.time()
    for path in sorted(given.data.glob("*.mtx.gz")):
        if time.time() - begin > 100:
            print("time is up before", path.name)
            break
        matrix = ow.read(path).to_scipy().tocsr().astype("float32")
        matrix.sort_indices()
        seconds = study.measured(matrix)
        name = path.name.removesuffix(".mtx.gz")
        rows[name] = {"rows": matrix.shape[0], "entries": int(matrix.nnz), "seconds": seconds}
        best = min((v, k) for k, v in seconds.items())
        print(name, matrix.shape, matrix.nnz, f"best {best[1]} {best[0] * 1e6:.1f} us", flush=True)
    file = given.out / f"skeletons-{'cpu' if given.cpu else 'gpu'}.json"
    file.write_text(json.dumps({"compile": compile_seconds(), "matrices": rows}, indent=1))


if __name__ == "__main__":
    main()
