"""The emulator's own semantics: collective operations, and every misuse that it reports."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from openwork.runtime.gpu.emulator import HEADER, load_emulated

pytestmark = pytest.mark.needs_cc

TEXT = r"""
static __global__ void good(double *y) {
  __shared__ double s[64];
  const int t = threadIdx.x;
  double v = t;
  for (int o = 16; o; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
  s[t] = v;
  __syncthreads();
  const unsigned odd = __ballot_sync(0xffffffffu, t & 1);
  if (t == 0) {
    atomicAdd(&y[0], s[0] + s[32]);
    y[1] = odd;
    y[2] = __popc(odd) + __ffs(8) + __clz(1);
  }
  y[3] = 5;
  const int up = __shfl_up_sync(0xffffffffu, t, 1, 8);
  if (t == 9) y[4] = up;
  if (t == 8) y[5] = up;
}
static __global__ void diverged(double *y) {
  if (threadIdx.x < 16) y[0] = __shfl_xor_sync(0xffffffffu, 1, 1);
}
static __global__ void stuck(double *y) {
  if (threadIdx.x < 32) __syncthreads();
  else if (threadIdx.x < 40) __syncwarp(0x1ffu);
}
static __global__ void outside(double *y) {
  __shared__ double s[8];
  s[threadIdx.x] = 1;
}
static __global__ void unasked(double *y) { y[0] = __shfl_sync(1u, 1, 0); }
static __global__ void early(double *y) {
  __shared__ double s[64];
  s[threadIdx.x] = threadIdx.x;
  y[threadIdx.x] = s[63 - threadIdx.x];  // no barrier
}
static __global__ void vectors(double *y) {
  float *const place = (float *)y;
  atomicAdd((float4 *)(place + 4), float4{1, 2, 3, 4});
  atomicAdd((float2 *)(place + 2), float2{5, 6});
}
static __global__ void unaligned(double *y) { atomicAdd((float4 *)(y + 1), float4{1, 2, 3, 4}); }
static __global__ void inside(double *y) {
  __shared__ __align__(16) float s[4];
  atomicAdd((float4 *)s, float4{1, 2, 3, 4});
}
static __global__ void unset(double *y) {
  __shared__ double s[64];
  y[threadIdx.x] = s[threadIdx.x];
}
"""
NAMES = ("good", "diverged", "stuck", "outside", "unasked", "early", "unset",
         "vectors", "unaligned", "inside")  # fmt: skip


@pytest.fixture(scope="module")
def kernels() -> ctypes.CDLL:
    entries = [
        f'extern "C" int run_{n}(double *y, int x, int threads, int order) {{ '
        f"return emulated::launch(x, 1, threads, order, [](void *y) {{ {n}((double *)y); }}, y); }}"
        for n in NAMES
    ]
    return load_emulated("\n".join([HEADER.read_text(), TEXT, *entries]))


def run(
    kernels: ctypes.CDLL, name: str, blocks: int = 1, threads: int = 64, order: int = 0
) -> tuple[int, np.ndarray, str]:
    y = np.zeros(64)
    pointer = y.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    status = getattr(kernels, f"run_{name}")(pointer, blocks, threads, order)
    return status, y, kernels.emulated_message().decode()


@pytest.mark.parametrize("order", [0, 1, 2])
def test_collectives(kernels: ctypes.CDLL, order: int) -> None:
    status, y, message = run(kernels, "good", blocks=3, order=order)
    assert (status, message) == (0, "")
    assert y[:6].tolist() == [3 * 64 * 63 / 2, 0xAAAAAAAA, 16 + 4 + 31, 5, 8, 8]


def test_vectors_are_added_element_by_element(kernels: ctypes.CDLL) -> None:
    status, y, message = run(kernels, "vectors")
    assert (status, message) == (0, "")
    assert y.view("float32")[:8].tolist() == [0, 0, 320, 384, 64, 128, 192, 256]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("diverged", "do not come together"),
        ("stuck", "wait at __syncthreads"),
        ("outside", "outside of a shared or local array"),
        ("unasked", "not in the mask"),
        ("unaligned", "a vector that is not aligned"),
        ("inside", "a vector in shared memory"),
    ],
)
def test_misuse_is_reported_and_later_launches_work(
    kernels: ctypes.CDLL, name: str, words: str
) -> None:
    status, _, message = run(kernels, name)
    assert status == 1 and words in message and "thread" in message
    assert run(kernels, "good")[0] == 0


def test_a_missing_barrier_shows_in_some_order(kernels: ctypes.CDLL) -> None:
    results = [run(kernels, "early", order=order)[1] for order in range(3)]
    assert any(not np.array_equal(y, np.arange(63, -1, -1)) for y in results)


def test_shared_memory_is_not_zero(kernels: ctypes.CDLL) -> None:
    assert np.isnan(run(kernels, "unset")[1]).all()


def test_launches_that_cannot_be(kernels: ctypes.CDLL) -> None:
    assert "grid" in run(kernels, "good", blocks=0)[2]
    assert "block" in run(kernels, "good", threads=2000)[2]
