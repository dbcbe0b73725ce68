"""The GPU kernels that the thesis prints: SpMV over entries, with and without unrolling.

Figure 2-2 has the unrolled one, with 7 entries per thread as in appendix A.2; without the temporary
and the unrolling (A.11), loads stand in the loop that tracks rows. A block's first row is known
beforehand, as the thesis' `block_row_starts`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy as cp
import numpy as np

ENTRIES, WARPS = 7, 16
_PER_BLOCK = ENTRIES * WARPS * 32

_TEXT = r"""
__device__ int row_of(const int *pos, const int *starts, int p) {
  int first = starts[blockIdx.x], last = starts[blockIdx.x + 1] + 1;
  while (last - first > 1) {
    const int middle = (first + last) / 2;
    if (pos[middle] <= p) first = middle;
    else last = middle;
  }
  return first;
}
// One atomic if all lanes add to the same element, or else one each.
__device__ void atomicAddWarp(float *y, int i, float value) {
  const int leader = __shfl_sync(0xffffffffu, i, 0);
  if (__ballot_sync(0xffffffffu, leader == i) == 0xffffffffu) {
    for (int by = 16; by > 0; by /= 2) value += __shfl_down_sync(0xffffffffu, value, by);
    if (threadIdx.x % 32 == 0) atomicAdd(&y[i], value);
  } else {
    atomicAdd(&y[i], value);
  }
}
#define TRACK(p) while (p == pos[i + 1]) i++;
#define FLUSH(p) if (p + 1 == pos[i + 1]) { atomicAdd(&y[i], sum); sum = 0.0f; }

extern "C" __global__ void __launch_bounds__(512) unrolled(
    int nnz, const int *__restrict__ pos, const int *__restrict__ crd,
    const float *__restrict__ A, const float *__restrict__ x, const int *__restrict__ starts,
    float *__restrict__ y) {
  const int first = blockIdx.x * 3584 + threadIdx.x * 7;
  int i = row_of(pos, starts, first < nnz ? first : nnz - 1);
  float sum = 0.0f, terms[7];
  if (first + 7 <= nnz) {
#pragma unroll
    for (int n = 0; n < 7; n++) terms[n] = A[first + n] * x[crd[first + n]];
#pragma unroll
    for (int n = 0; n < 7; n++) {
      const int p = first + n;
      TRACK(p)
      sum += terms[n];
      FLUSH(p)
    }
  } else {
    for (int p = first; p < nnz; p++) {
      TRACK(p)
      sum += A[p] * x[crd[p]];
      FLUSH(p)
    }
  }
  atomicAddWarp(y, i, sum);
}

extern "C" __global__ void __launch_bounds__(512) rolled(
    int nnz, const int *__restrict__ pos, const int *__restrict__ crd,
    const float *__restrict__ A, const float *__restrict__ x, const int *__restrict__ starts,
    float *__restrict__ y) {
  const int first = blockIdx.x * 3584 + threadIdx.x * 7;
  int i = row_of(pos, starts, first < nnz ? first : nnz - 1);
  float sum = 0.0f;
#pragma unroll 1
  for (int n = 0; n < 7; n++) {
    const int p = first + n;
    if (p >= nnz) break;
    TRACK(p)
    sum += A[p] * x[crd[p]];
    FLUSH(p)
  }
  atomicAddWarp(y, i, sum);
}
"""


def kernels(A: Any, x: Any) -> dict[str, Callable[[], Any]]:
    """Calls of both kernels for `y = A @ x`, in float32."""
    module = cp.RawModule(code=_TEXT, options=("--std=c++17",))
    blocks = -(-A.nnz // _PER_BLOCK)
    at = cp.minimum(cp.arange(blocks + 1, dtype=cp.int64) * _PER_BLOCK, A.nnz - 1)
    starts = (cp.searchsorted(A.indptr, at, side="right") - 1).astype(cp.int32)

    def call(name: str) -> Callable[[], Any]:
        kernel = module.get_function(name)

        def run() -> Any:
            y = cp.zeros(A.shape[0], dtype=np.float32)
            given = (np.int32(A.nnz), A.indptr, A.indices, A.data, x, starts, y)
            kernel((blocks,), (WARPS * 32,), given)
            return y

        return run

    return {"thesis' text, unrolled": call("unrolled"), "thesis' text, rolled": call("rolled")}
