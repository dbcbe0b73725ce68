typedef int int32_t;
typedef int index_t;

// The last position in [begin, end) that holds `value` or less, else `begin`.
static __device__ index_t last_at_most_int32(const int32_t *array, index_t begin, index_t end,
                            index_t value) {
  while (end - begin > 1) {
    const index_t middle = begin + (end - begin) / 2;
    if (array[middle] <= value) begin = middle;
    else end = middle;
  }
  return begin;
}

static __device__ index_t lesser(index_t a, index_t b) {
  return a < b ? a : b;
}

// forall block:  [GPUBlock, IgnoreRaces]
//   forall thread:  [GPUThread, Atomics]
//     forall entry:  [unroll 4]
//       y(j) += A(i,j) * x(i)
// such that fuse(i, j, fused),
//   pos(fused, place, A[i, j], parents=stored),
//   split(place, block, tile, 1024),
//   split(tile, entry, thread, 256)
// In the code, y is R, x is B, fused is f, place is p, block is p0, tile is p1, entry is p10,
// thread is p11.
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t A2_size,
    const index_t A1_size,
    int32_t *__restrict__ A_tiles1_of2_1024,
    const int32_t *__restrict__ A_pos2
) {
  const index_t lane = threadIdx.x;
  const index_t A_tiles1_of2_1024_at_run = blockIdx.x;
  // where tiles begin
  const index_t A_tiles1_of2_1024_at = A_tiles1_of2_1024_at_run * 256 + lane;
  if (A_tiles1_of2_1024_at < (A2_size + 1023) / 1024 + 1) {
    A_tiles1_of2_1024[A_tiles1_of2_1024_at] = last_at_most_int32(A_pos2, 0, A1_size, A_tiles1_of2_1024_at * 1024);
  }
}

extern "C" __global__ void __launch_bounds__(256) kernel_2(
    const index_t pA2_end,
    const int32_t *__restrict__ A_tiles1_of2_1024,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    double *__restrict__ R_vals,
    const double *__restrict__ A_vals,
    const double *__restrict__ B_vals
) {
  const index_t lane = threadIdx.x;
  const index_t p0 = blockIdx.x;
  const index_t p_lo = p0 * 1024;
  const index_t p_hi = lesser(p_lo + 1024, pA2_end);
  const index_t pA1_from = A_tiles1_of2_1024[p0];
  const index_t pA1_to = A_tiles1_of2_1024[p0 + 1];
  const index_t p1_end = p_hi - p_lo;
  const index_t p11_at = lane;
  const index_t p10_end = (p1_end + 255) / 256;
#pragma unroll 4
  for (index_t p10 = 0; p10 < p10_end; p10++) {
    const index_t p1 = p10 * 256 + p11_at;
    if (p1 < p1_end) {
      const index_t p = p_lo + p1;
      const index_t i = last_at_most_int32(A_pos2, pA1_from, pA1_to + 1, p);
      const index_t j = A_crd2[p];
      atomicAdd(&R_vals[j], A_vals[p] * B_vals[i]);
    }
  }
}
