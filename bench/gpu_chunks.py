"""Dynamic balance on a GPU: blocks that take chunks of rows, against a block for each tile of rows.

`bench/gpu_studies.py` calls it. Rows follow a power law; the longest come first, last, or anywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ROWS, LONGEST = 200_000, 60_000

# y(i) = A(i,j) * x(j): a warp per row.
_WARPS = """pos(j,jp,A), split(jp,n,t,32), order(b,{order},t,n),
    parallelize(b,GPUBlock,NoRaces{chunk}), parallelize(w,GPUWarp,NoRaces),
    parallelize(t,GPUGroup,group_size=32,reduction=parallel)"""
SPMV = {
    "a block per 8 rows": "split(i,b,w,8), " + _WARPS.format(order="w", chunk=""),
    "chunks of 8 rows": "split(i,b,w,8), " + _WARPS.format(order="w", chunk=", chunk=1"),
    "chunks of 64 rows": "split(i,b,w,8), " + _WARPS.format(order="w", chunk=", chunk=8"),
    "1,056 equal parts": "divide(i,b,r,1056), split(r,r0,w,8), "
    + _WARPS.format(order="w,r0", chunk=""),
}
# C(i,k) = A(i,j) * B(j,k), A and B sparse: a block per row, which sums in a dense workspace.
_WORKSPACE = """precompute(A(i,j)*B(j,k),k,kw), parallelize({0},GPUBlock,NoRaces{1}),
    parallelize(k,GPUThread,NoRaces), parallelize(kw,GPUThread,NoRaces)"""
PRODUCT = {
    "blocks take every n-th row": _WORKSPACE.format("i", ""),
    "chunks of 1 row": _WORKSPACE.format("i", ", chunk=1"),
    "chunks of 8 rows": _WORKSPACE.format("i", ", chunk=8"),
}


def lengths(rows: int, longest: int, order: str) -> Any:
    """Row lengths by a power law."""
    made = np.maximum(1, longest / (1 + np.arange(rows)) ** 0.9).astype(np.int64)
    if order == "anywhere":
        np.random.default_rng(0).shuffle(made)
    return made[::-1] if order == "longest last" else made
