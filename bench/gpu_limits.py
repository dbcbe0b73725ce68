"""How fast products of quaternion matrices with 8 columns can be: the gathers alone, by hand.

    python bench/gpu_limits.py DATA

Eight threads a row each load a quaternion of every row of X that the row names, `UNROLL` rows
together, and store a quaternion of Y. With `PRODUCT 1` they multiply by the matrix's entries, which
is the whole product; without, they read no entry, so that no product takes less by this way. The
roofline counts each byte of A, X and Y once.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import cupy as cp
import cusparse
import numpy as np
from entry_matrices import kinds, matrix
from gpu_clock import copy_bandwidth, median

KERNEL = r"""
struct alignas(16) Quaternion { F w, x, y, z; };
extern "C" __global__ void __launch_bounds__(256, 1)
product(int rows, const int *__restrict__ pos, const int *__restrict__ crd,
        const Quaternion *__restrict__ A, const Quaternion *__restrict__ X,
        Quaternion *__restrict__ Y) {
  const int at = blockIdx.x * 256 + threadIdx.x, row = at / 8, column = at % 8;
  if (row >= rows) return;
  const int end = pos[row + 1];
  Quaternion s = {0, 0, 0, 0};
  for (int p = pos[row]; p < end; p += UNROLL) {
    Quaternion a[UNROLL], x[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      a[u] = x[u] = Quaternion{0, 0, 0, 0};
      if (p + u < end) {
        if (PRODUCT) a[u] = A[p + u];
        else a[u].w = 1;
        x[u] = X[crd[p + u] * 8 + column];
      }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      s.w += a[u].w * x[u].w - a[u].x * x[u].x - a[u].y * x[u].y - a[u].z * x[u].z;
      s.x += a[u].w * x[u].x + a[u].x * x[u].w + a[u].y * x[u].z - a[u].z * x[u].y;
      s.y += a[u].w * x[u].y - a[u].x * x[u].z + a[u].y * x[u].w + a[u].z * x[u].x;
      s.z += a[u].w * x[u].z + a[u].x * x[u].y - a[u].y * x[u].x + a[u].z * x[u].w;
    }
  }
  Y[at] = s;
}
"""
MATRICES = ("lucy ~16", "lucy ~4", "near, quaternions")
UNROLLS = (1, 2, 4, 8)


def kernel(scalar: str, product: bool, unroll: int) -> Any:
    number = "float" if scalar == "float32" else "double"
    head = f"#define F {number}\n#define PRODUCT {int(product)}\n#define UNROLL {unroll}\n"
    return cp.RawKernel(head + KERNEL, "product")


def row(name: str, scalar: str, folder: Path, bandwidth: float) -> str:
    """cuSPARSE's BSR of the expansion, and its time over each way's."""
    found = matrix(name, folder)
    kind, _ = kinds("quaternion", scalar)
    rows, size = found.shape[0], np.dtype(scalar).itemsize
    pos, crd, values = (cp.asarray(a) for a in (found.pos, found.crd, found.values.astype(scalar)))
    X = cp.random.standard_normal((rows, 8, 4)).astype(scalar)
    Y = cp.empty_like(X)
    blocks = np.ascontiguousarray(kind.matrices(kind.records(found.values.astype(scalar))))
    dense = cp.asfortranarray(X.transpose(0, 2, 1).reshape(rows * 4, 8))
    library = cusparse.bsrmm((rows, rows), pos, crd, blocks, dense)
    want = library().reshape(rows, 4, 8).transpose(0, 2, 1)
    theirs = median(library, reps=5)
    once = (found.nnz * (4 * size + 4) + rows * (4 + 64 * size)) / bandwidth / 1e6
    best = {}
    for product in (True, False):
        times = []
        for unroll in UNROLLS:
            made = kernel(scalar, product, unroll)
            arrays = (np.int32(rows), pos, crd, values, X, Y)

            def call(made: Any = made, arrays: Any = arrays) -> None:
                made((-(-rows * 8 // 256),), (256,), arrays)

            call()
            near = float(abs(Y - want).max() / abs(want).max()) < 1e-4
            times.append(median(call) if near or not product else np.inf)
        best[product] = min(times)
    cells = (once, best[False], best[True])
    told = " | ".join(f"{ms:.4f} ({theirs / ms:.1f})" for ms in cells)
    return f"| {name} | {scalar} | {theirs:.4f} | {told} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    folder = parser.parse_args().data
    bandwidth = copy_bandwidth()
    print(f"copy bandwidth {bandwidth:.0f} GB/s; milliseconds, and cuSPARSE's time over it")
    print("| matrix | numbers | cuSPARSE BSR(4) | each byte once | gathers alone | product |")
    print("|---|---|---|---|---|---|")
    for name in MATRICES:
        for scalar in ("float32", "float64"):
            print(row(name, scalar, folder, bandwidth), flush=True)


if __name__ == "__main__":
    main()
