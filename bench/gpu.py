"""`make bench-gpu`: generated kernels on a GPU against cuSPARSE, through CuPy and torch.

Times are device times: a spinning kernel precedes what is timed, so that all launches are queued
by then. Every result is checked against the library's before it is timed.

`lib` is cuSPARSE through CuPy or torch, the faster of the two (CuPy for `spmv_t` and `spmm_t32`,
products with the transposed matrix). `direct` is cuSPARSE called directly (`cusparse.py`): the
fastest of its algorithms for CSR, with preprocessing not timed.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import cupy as cp
import cusparse
import numpy as np
from cusparse import fastest
from gpu_clock import copy_bandwidth, median
from gpu_matrices import from_lengths, held_out, matrices, real

import openwork as ow
from openwork import recipes as r

try:
    import torch
except ImportError:
    torch = None

HEAD = ["matrix", "kernel", "dtype", "lib_ms", "default_ms", "default_x", "best", "best_ms"]
HEAD += ["best_x", "bw", "direct_ms", "direct_x", "all"]
OUT = Path(os.environ.get("OUT", "bench/out"))

# -- kernels ------------------------------------------------------------------------------------

Recipe = Callable[[Any], Any]

SPMV: dict[str, Recipe] = {
    **{f"group{g}": (lambda s, g=g: r.group_per_row(s, g)) for g in (2, 4, 8, 16, 32)},
    "thread": r.thread_per_row,
    "pos8": lambda s: r.position_split(s, 8),
    "seg1": lambda s: r.position_segments(s, 1),
    **{
        f"staged{n}_{g}": (lambda s, n=n, g=g: r.position_staged(s, n, g))
        for n in (4, 8, 12)
        for g in (2, 4, 8, 32)
    },
}
SPMM: dict[str, Recipe] = {
    "rows": r.spmm_rows,
    "rows_u8": lambda s: r.spmm_rows(s, unroll=8),
    **{f"pos{n}": (lambda s, n=n: r.spmm_positions(s, n)) for n in (8, 16, 32, 64, 128)},
}
SPMM4: dict[str, Recipe] = {
    **SPMM,
    **{
        f"staged{n}_{g}": (lambda s, n=n, g=g: r.spmm_staged(s, n, g))
        for n in (2, 4)
        for g in (2, 4, 8, 32)
    },
}
ACROSS: dict[str, Recipe] = {
    **{f"group{g}": (lambda s, g=g: r.group_per_row(s, g)) for g in (2, 4, 8, 32)},
    **{f"strided{n}": (lambda s, n=n: r.position_strided(s, n)) for n in (1, 2, 4)},
}
SDDMM: dict[str, Recipe] = {f"each{n}": (lambda s, n=n: r.sddmm(s, n)) for n in (1, 2, 4, 8, 16)}
MTTKRP: dict[str, Recipe] = {
    "rows": r.spmm_rows,
    **{f"pos{n}": (lambda s, n=n: r.spmm_positions(s, n)) for n in (8, 16, 32, 64, 128)},
}


class Table:
    """Rows of results, printed and saved."""

    def __init__(self, bandwidth: float, sweep: bool) -> None:
        self.bandwidth = bandwidth
        self.sweep = sweep
        self.rows: list[tuple[Any, ...]] = []

    def measure(
        self,
        matrix: str,
        kernel: str,
        stmt: Any,
        recipes: dict[str, Recipe],
        lib: Callable[[], Any] | float,
        want: Any,
        bytes_: float,
        dtype: str,
        direct: float = math.nan,
    ) -> None:
        """Time the default and every recipe, and compare them.

        `direct`: the time of the library called directly, with its fastest algorithm.
        """
        lib_ms = lib if isinstance(lib, float) else median(lib)
        scale = float(abs(want).max()) or 1.0
        found = []
        for name, recipe in {"default": lambda s: s, **(recipes if self.sweep else {})}.items():
            try:
                run = recipe(stmt).compile(target="cuda")
                got = run()
                values = got.storage.values.reshape(want.shape)
                error = float(abs(values - want).max()) / scale
                if not error < (1e-3 if dtype == "float32" else 1e-9):
                    print(f"WRONG {matrix} {kernel} {dtype} {name}: {error:.2e}", flush=True)
                    continue
                del got, values
                found.append((median(run), name))
            except Exception as error:  # a recipe that does not apply is no reason to stop
                print(f"FAIL {matrix} {kernel} {name}: {type(error).__name__}: {error}"[:600])
        times = {name: ms for ms, name in found}
        best = min(found) if found else (math.inf, "none")
        default = times.get("default", math.inf)
        row = (
            matrix, kernel, dtype, lib_ms, default, lib_ms / default, best[1], best[0],
            lib_ms / best[0], bytes_ / best[0] / 1e6 / self.bandwidth, direct, direct / default,
            " ".join(f"{n}={t:.4f}" for n, t in times.items()),
        )  # fmt: skip
        self.rows.append(row)
        print("\t".join(f"{x:.4f}" if isinstance(x, float) else str(x) for x in row), flush=True)

    def save(self, name: str) -> None:
        OUT.mkdir(parents=True, exist_ok=True)
        lines = ["\t".join(HEAD)]
        lines += [
            "\t".join(f"{x:.5f}" if isinstance(x, float) else str(x) for x in row)
            for row in self.rows
        ]
        (OUT / name).write_text("\n".join(lines) + "\n")

    def summary(self) -> None:
        print(
            "\nkernel dtype | geometric mean of library / default, worst | of library / best, worst"
            " | of cuSPARSE with its fastest algorithm, prepared / default, worst"
        )
        for key in sorted({(row[1], row[2]) for row in self.rows}):
            mine = [row for row in self.rows if (row[1], row[2]) == key]
            for_default = [row[5] for row in mine]
            for_best = [row[8] for row in mine]
            for_direct = [row[11] for row in mine if not math.isnan(row[11])]
            ratios = [each for each in (for_default, for_best, for_direct) if each]
            print(*key, " | ".join(f"{geometric(each):.2f} {min(each):.2f}" for each in ratios))


def geometric(ratios: list[float]) -> float:
    return math.exp(sum(math.log(max(x, 1e-9)) for x in ratios) / max(1, len(ratios)))


def run_matrix(table: Table, name: str, A: Any, kernels: list[str]) -> None:
    from cupyx import cusparse as cupy_cusparse

    (m, n), nnz, dtype = A.shape, A.nnz, A.dtype
    size = dtype.itemsize
    tA = None
    if torch is not None:
        parts = [torch.as_tensor(a, device="cuda") for a in (A.indptr, A.indices, A.data)]
        tA = torch.sparse_csr_tensor(*parts, size=A.shape)
    a = ow.tensor(A, name="A")
    if "spmv" in kernels:
        x = cp.random.standard_normal(n).astype(dtype)
        y = cp.zeros(m, dtype=dtype)
        lib = median(lambda: cupy_cusparse.spmv(A, x, y, 1, 0))
        if tA is not None:
            tx = torch.as_tensor(x, device="cuda")
            lib = min(lib, median(lambda: tA @ tx))
        stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty((m,), dtype=dtype), A=a, x=ow.tensor(x))
        moved = nnz * (4 + size) + (m + 1) * 4 + (m + n) * size
        want = A @ x
        direct = fastest(cusparse.spmv(A, x, y), want, y)
        table.measure(name, "spmv", stmt, SPMV, lib, want, moved, dtype.name, direct)
    for k in (4, 32, 128):
        if f"spmm{k}" not in kernels:
            continue
        B = cp.random.standard_normal((n, k)).astype(dtype)
        if tA is not None:
            tB = torch.as_tensor(B, device="cuda")
            multiply = partial(torch.matmul, tA, tB)
        else:
            multiply = partial(A.__matmul__, B)
        lib, want = median(multiply, reps=7), cp.asarray(multiply())
        out = ow.placeholder("C", order=2, dtype=dtype.name)
        stmt = ow.parse("C(i,k) = A(i,j) * B(j,k)", C=out, A=a, B=ow.tensor(B))
        moved = nnz * (4 + size) + (m + 1) * 4 + (m + n) * k * size
        made = cp.empty_like(want)
        direct = fastest(cusparse.spmm(A, B, made), want, made)
        sweep = SPMM4 if k <= 8 else SPMM
        table.measure(name, f"spmm{k}", stmt, sweep, lib, want, moved, dtype.name, direct)
        del want, stmt, made
    if "across" in kernels:
        run_across(table, name, A, a)
    if "sddmm" in kernels and nnz <= 20_000_000 and tA is not None:
        P = cp.random.standard_normal((m, 32)).astype(dtype)
        Q = cp.random.standard_normal((n, 32)).astype(dtype)
        tP, tQ = (torch.as_tensor(v, device="cuda") for v in (P, Q))
        lib = median(lambda: torch.sparse.sampled_addmm(tA, tP, tQ.T, beta=0.0), reps=7)
        row = cp.searchsorted(A.indptr[1:], cp.arange(nnz, dtype=cp.int32), side="right")
        want = cp.concatenate([
            A.data[s : s + 2**22]
            * (P[row[s : s + 2**22]] * Q[A.indices[s : s + 2**22]]).sum(axis=1)
            for s in range(0, nnz, 2**22)
        ])  # fmt: skip
        D = ow.placeholder("D", order=2, format=ow.CSR, dtype=dtype.name)
        text = "D(i,k) = A(i,k) * P(i,j) * Q(k,j)"
        stmt = ow.parse(text, D=D, A=a, P=ow.tensor(P), Q=ow.tensor(Q))
        moved = nnz * (8 + 2 * size) + (m + n) * 32 * size
        table.measure(name, "sddmm32", stmt, SDDMM, lib, want, moved, dtype.name)
    cp.get_default_memory_pool().free_all_blocks()


def run_across(table: Table, name: str, A: Any, a: Any) -> None:
    """Products of the transposed matrix with a vector and with 32 columns."""
    m, nnz, dtype = A.shape[0], A.nnz, A.dtype
    turned, size = A.T, dtype.itemsize
    for kernel, columns in (("spmv_t", ()), ("spmm_t32", (32,))):
        if columns and nnz > 20_000_000:
            continue
        B = cp.random.standard_normal((m, *columns)).astype(dtype)
        want = cp.ascontiguousarray(turned @ B)
        made = cp.empty_like(want)
        ways = cusparse.spmm(A, B, made, True) if columns else cusparse.spmv(A, B, made, True)
        direct = fastest(ways, want, made)
        text = "C(j,k) = A(i,j) * B(i,k)" if columns else "C(j) = A(i,j) * B(i)"
        C = ow.placeholder("C", order=len(want.shape), dtype=dtype.name)
        stmt = ow.parse(text, C=C, A=a, B=ow.tensor(B))
        moved = nnz * (4 + size) + (m + 1) * 4 + (B.size + want.size) * size
        lib = median(lambda B=B: turned @ B, reps=5)
        recipes = SPMM if columns else ACROSS
        table.measure(name, kernel, stmt, recipes, lib, want, moved, dtype.name, direct)


def run_mttkrp(table: Table, dtype: Any) -> None:
    """Order 3, 32 columns, 20M entries; the library is torch's gather and scatter."""
    if torch is None:
        return
    dims, nnz = (12092, 9184, 28818), 20_000_000
    keys = cp.random.randint(0, dims[0] * dims[1] * dims[2], nnz, dtype=cp.int64)
    keys = cp.unique(keys)
    i, j, k = keys // (dims[1] * dims[2]), keys // dims[2] % dims[1], keys % dims[2]
    v = cp.random.standard_normal(keys.size).astype(dtype)
    F = cp.random.standard_normal((dims[1], 32)).astype(dtype)
    G = cp.random.standard_normal((dims[2], 32)).astype(dtype)
    ti, tj, tk, tv, tF, tG = (torch.as_tensor(a, device="cuda") for a in (i, j, k, v, F, G))

    def gather() -> Any:
        out = torch.zeros(dims[0], 32, device="cuda", dtype=tF.dtype)
        for s in range(0, len(tv), 5_000_000):
            e = s + 5_000_000
            out.index_add_(0, ti[s:e], tv[s:e, None] * tF[tj[s:e]] * tG[tk[s:e]])
        return out

    want = cp.asarray(gather())
    coords = np.stack([cp.asnumpy(a) for a in (i, j, k)])
    X = ow.tensor((coords, cp.asnumpy(v)), shape=dims, format=ow.CSF(3), name="X").to("cuda")
    stmt = ow.parse(
        "M(i,j) = X(i,k,l) * F(k,j) * G(l,j)",
        M=ow.empty((dims[0], 32), dtype=v.dtype), X=X, F=ow.tensor(F), G=ow.tensor(G),
    )  # fmt: skip
    lib = median(gather, reps=3)
    size = v.dtype.itemsize
    table.measure("rand3_20M", "mttkrp32", stmt, MTTKRP, lib, want, nnz * (12 + size), v.dtype.name)


def run_dense(table: Table, dtype: Any) -> None:
    """Statements of a dense matrix; the library is CuPy."""
    n = 8_000
    X, w = (cp.random.standard_normal(shape).astype(dtype) for shape in ((n, n), n))
    x, v = ow.tensor(X, name="X"), ow.tensor(w, name="w")
    for name, text, library, moved in (
        ("scaled", "S(i,j) = 2 * X(i,j)", lambda: 2 * X, 2 * n * n),
        ("times_vector", "y(i) = X(i,j) * w(j)", lambda: X @ w, n * n),
        ("sums_across", "y(i) = X(i,j)", lambda: X.sum(axis=1), n * n),
        ("sums_down", "y(j) = X(i,j)", lambda: X.sum(axis=0), n * n),
        ("sum", "s() = X(i,j)", lambda: X.sum(), n * n),
    ):
        want = cp.asarray(library())
        out = ow.placeholder(text[0], order=want.ndim, dtype=X.dtype.name)
        named = {"X": x, "w": v} if "w(" in text else {"X": x}
        stmt = ow.parse(text, **{text[0]: out}, **named)
        size = X.dtype.itemsize * moved
        table.measure("dense_8000", name, stmt, {}, library, want, size, X.dtype.name)


def latency() -> None:
    """Latency from call to result on resident data: a small SpMV."""
    A = from_lengths(np.full(2_000, 10), 2_000, np.float32)
    x = cp.random.standard_normal(2_000).astype(np.float32)
    a, b = ow.tensor(A, name="A"), ow.tensor(x, name="x")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty((2_000,), dtype="float32"), A=a, x=b)
    run = stmt.compile(target="cuda")
    empty = cp.RawKernel('extern "C" __global__ void empty() {}', "empty").kernel.ptr
    launch = partial(cp.cuda.driver.launchKernel, empty, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)
    for name, f in (("ours", run), ("empty kernel", launch), ("cupy A @ x", lambda: A @ x)):
        times = []
        for _ in range(1000):
            cp.cuda.Stream.null.synchronize()
            start = time.perf_counter()
            f()
            cp.cuda.Stream.null.synchronize()
            times.append(time.perf_counter() - start)
        print(f"latency {name}: {np.median(times) * 1e6:.1f} us, least {min(times) * 1e6:.1f} us")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kernels", nargs="*", default=[])
    parser.add_argument("--dtype", default="float32,float64")
    parser.add_argument("--only", default="")
    parser.add_argument("--default", action="store_true", help="without the sweep of recipes")
    parser.add_argument("--small", action="store_true", help="without the largest matrix")
    parser.add_argument("--held-out", action="store_true", help="matrices nothing is fitted to")
    args = parser.parse_args()
    kernels = args.kernels or [
        "spmv", "spmm4", "spmm32", "spmm128", "across", "sddmm", "mttkrp", "dense", "latency"
    ]  # fmt: skip
    bandwidth = copy_bandwidth()
    print(f"{cp.cuda.runtime.getDeviceProperties(0)['name'].decode()}, copy {bandwidth:.0f} GB/s")
    table = Table(bandwidth, not args.default)
    try:
        if "latency" in kernels:
            latency()
        for dtype in args.dtype.split(","):
            known = chain(matrices(np.dtype(dtype), args.small), real(np.dtype(dtype)))
            for name, A in held_out(np.dtype(dtype)) if args.held_out else known:
                if args.only and name not in args.only.split(","):
                    continue
                run_matrix(table, name, A, kernels)
                del A
            if args.only or args.held_out:
                continue
            if "mttkrp" in kernels:
                run_mttkrp(table, np.dtype(dtype))
            if "dense" in kernels:
                run_dense(table, np.dtype(dtype))
    finally:
        table.save("gpu_held_out.tsv" if args.held_out else "gpu.tsv")
        table.summary()


if __name__ == "__main__":
    sys.exit(main())
