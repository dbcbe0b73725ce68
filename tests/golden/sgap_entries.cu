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

// The first position in [begin, end) that holds `value` or more, else `end`; near ones are
// found soonest.
static __device__ index_t gallop_int32(const int32_t *array, index_t begin, index_t end, index_t value) {
  if (begin >= end || array[begin] >= value) return begin;
  index_t step = 1;
  while (step < end - begin && array[begin + step] < value) {
    begin += step;
    step *= 2;
  }
  if (step < end - begin) end = begin + step;
  for (begin++; begin < end;) {
    const index_t middle = begin + (end - begin) / 2;
    if (array[middle] < value) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

// forall block:  [GPUBlock, IgnoreRaces]
//   forall warp:  [GPUWarp, IgnoreRaces]
//     forall unit:  [GPUThread, Atomics]
//       forall part:
//         forall entry:
//           C(i,k) += A(i,j) * B(j,k)
// such that split(k, parts, unit, 16),
//   bound(parts, part, 2, MaxExact),
//   fuse(i, j, fused),
//   pos(fused, place, A[i, j], parents=stored),
//   split(place, block, tile, 64),
//   split(tile, warp, entry, 4)
// In the code, C is R, parts is k0, unit is k1, part is k0_2, fused is f, place is p, block is p0,
// tile is p1, warp is p10, entry is p11.
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t A2_size,
    const index_t A1_size,
    int32_t *__restrict__ A_tiles1_of2_4,
    const int32_t *__restrict__ A_pos2
) {
  const index_t lane = threadIdx.x;
  const index_t A_tiles1_of2_4_at_run = blockIdx.x;
  // where tiles begin
  const index_t A_tiles1_of2_4_at = A_tiles1_of2_4_at_run * 256 + lane;
  if (A_tiles1_of2_4_at < (A2_size + 3) / 4 + 1) {
    A_tiles1_of2_4[A_tiles1_of2_4_at] = last_at_most_int32(A_pos2, 0, A1_size, A_tiles1_of2_4_at * 4);
  }
}

extern "C" __global__ void __launch_bounds__(256) kernel_2(
    const index_t pA2_end,
    const index_t k_size,
    const index_t A1_size,
    const int32_t *__restrict__ A_tiles1_of2_4,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const float *__restrict__ A_vals,
    const float *__restrict__ B_vals,
    float *__restrict__ R_vals
) {
  const index_t warp = threadIdx.x / 16;
  const index_t lane = threadIdx.x % 16;
  const index_t p0 = blockIdx.x;
  const index_t p_lo = p0 * 64;
  const index_t p_hi = lesser(p_lo + 64, pA2_end);
  const index_t p1_end = p_hi - p_lo;
  const index_t p10_end = (p1_end + 3) / 4;
  const index_t p10 = warp;
  if (p10 < p10_end) {
    const index_t p1_lo = p10 * 4;
    const index_t p1_hi = lesser(p1_lo + 4, p1_end);
    const index_t k1 = lane;
    for (index_t k0 = 0; k0 < 2; k0++) {
      const index_t k = k0 * 16 + k1;
      if (k < k_size) {
        const index_t p_lo_2 = p_lo + p1_lo;
        const index_t p_hi_2 = p_lo + p1_hi;
        index_t pA1 = A_tiles1_of2_4[p_lo_2 / 4];
        float R_sum = 0.0f;
        index_t pA2_at = p_lo_2;
        while (pA2_at < p_hi_2) {
          const index_t pA2_stop = lesser(A_pos2[pA1 + 1], p_hi_2);
          // positions of A that add to one entry
          for (index_t pA2 = pA2_at; pA2 < pA2_stop; pA2++) {
            const index_t j = A_crd2[pA2];
            R_sum += A_vals[pA2] * B_vals[j * k_size + k];
          }
          const index_t i = pA1;
          if (p_lo_2 <= A_pos2[pA1] && A_pos2[pA1 + 1] <= p_hi_2) {
            R_vals[i * k_size + k] = R_sum;
          } else {
            atomicAdd(&R_vals[i * k_size + k], R_sum);
          }
          R_sum = 0.0f;
          pA2_at = pA2_stop;
          if (pA2_at < p_hi_2 && pA2_at == A_pos2[pA1 + 1]) {
            pA1 = gallop_int32(A_pos2, pA1 + 2, A1_size + 1, pA2_at + 1) - 1;
          }
        }
      }
    }
  }
}
