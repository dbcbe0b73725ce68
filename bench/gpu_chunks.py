"""Dynamic balance on a GPU: blocks that take chunks of rows from a counter, or not.

`bench/gpu_studies.py` calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# y(i) = A(i,j) * x(j): a warp per row.
_WARPS = """pos(j,jp,A), split(jp,n,t,32), order(b,{order},t,n),
    parallelize(b,GPUBlock,NoRaces{chunk}), parallelize(w,GPUWarp,NoRaces),
    parallelize(t,GPUGroup,group_size=32,reduction=parallel)"""
SPMV = {
    "a block per 8 rows": "split(i,b,w,8), " + _WARPS.format(order="w", chunk=""),
    "1,056 equal parts": "divide(i,b,r,1056), split(r,r0,w,8), "
    + _WARPS.format(order="w,r0", chunk=""),
    "chunks of 8 rows": "split(i,b,w,8), " + _WARPS.format(order="w", chunk=", chunk=1"),
    "chunks of 64 rows": "split(i,b,w,8), " + _WARPS.format(order="w", chunk=", chunk=8"),
}
# C(i,k) = A(i,j) * B(j,k), A and B sparse: a block per row, with a dense workspace in global
# memory. There is one for each resident block, so that a block takes several rows.
_WORKSPACE = """precompute(A(i,j)*B(j,k),k,kw), parallelize({0},GPUBlock,NoRaces{1}),
    parallelize(k,GPUThread,NoRaces), parallelize(kw,GPUThread,NoRaces)"""
PRODUCT = {
    "every n-th row": _WORKSPACE.format("i", ""),
    "chunks of 1 row": _WORKSPACE.format("i", ", chunk=1"),
    "chunks of 8 rows": _WORKSPACE.format("i", ", chunk=8"),
}


def by_power(rows: int, longest: int, order: str) -> Any:
    """Row lengths by a power law."""
    made = np.maximum(1, longest / (1 + np.arange(rows)) ** 0.9).astype(np.int64)
    if order == "anywhere":
        np.random.default_rng(0).shuffle(made)
    return made[::-1].copy() if order == "longest last" else made


def lognormal(rows: int, spread: float, longest: int) -> Any:
    """Row lengths of a log-normal distribution, 16 in the mean, at most `longest`."""
    made = np.random.default_rng(0).lognormal(np.log(16) - spread**2 / 2, spread, rows)
    return np.clip(made, 1, longest).astype(np.int64)


Time = Callable[[Any, Any, Any], float]


def measured(time: Time, gpu: Any) -> dict[str, dict[str, dict[str, float]]]:
    """Milliseconds of both statements, by rows and schedule."""
    import cupy as cp
    from gpu_matrices import from_lengths

    import openwork as ow

    def times(text: str, A: Any, B: Any, schedules: dict[str, str]) -> dict[str, float]:
        want = A @ B
        want = want if isinstance(want, cp.ndarray) else want.toarray()
        result = ow.empty(want.shape, dtype="float32", name="C")
        operands = {"A": ow.tensor(A, name="A"), "B": ow.tensor(B, name="B")}
        stmt = ow.parse(text, C=result, **operands)
        return {name: time(gpu, stmt.schedule(s), want) for name, s in schedules.items()}

    vector, product = {}, {}
    for order in ("longest first", "longest last", "anywhere"):
        A = from_lengths(by_power(200_000, 20_000, order), 100_000, np.float32)
        x = cp.random.standard_normal(A.shape[1]).astype(np.float32)
        vector[f"power law, {order}"] = times("C(i) = A(i,j) * B(j)", A, x, SPMV)
    B = from_lengths(np.full(50_000, 64), 1024, np.float32)
    for spread in (0.0, 1.0, 2.0):
        A = from_lengths(lognormal(100_000, spread, 1_000), 50_000, np.float32)
        rows = f"log-normal, sigma = {spread:.0f}"
        product[rows] = times("C(i,k) = A(i,j) * B(j,k)", A, B, PRODUCT)
    return {
        "SpMV, a warp per row, 200,000 rows:": vector,
        "A sparse matrix times a sparse one into a dense result, a block per row with a dense "
        "workspace, 100,000 rows with 16 entries in the mean:": product,
    }
