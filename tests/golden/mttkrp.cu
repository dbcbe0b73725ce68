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

// Neighbouring elements that are loaded and stored at once.
constexpr int alignment(int bytes) { return (bytes & -bytes) < 16 ? bytes & -bytes : 16; }
template <typename T, int N> struct alignas(alignment(N * sizeof(T))) Vector {
  T of[N];
};

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
//       forall entry:  [unroll 4]
//         forall part:  [unroll]
//           M(i,j) += X(i,k,l) * F(k,j) * G(l,j)
// such that bound(j, column, 8, MaxExact),
//   split(column, unit, part, 2),
//   fuse(i, k, fused0),
//   fuse(fused0, l, fused),
//   pos(fused, place, X[i, k, l], parents=stored),
//   split(place, block, tile, 2048),
//   split(tile, warp, entry, 32)
// In the code, M is R, X is A, F is B, G is C, k is j, l is k, j is l, column is l_2,
// unit is l_20, part is l_21, fused0 is f, fused is f_2, place is p, block is p0, tile is p1,
// warp is p10, entry is p11.
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t A3_size,
    const index_t A2_size,
    int32_t *__restrict__ A_tiles2_of3_2048,
    const int32_t *__restrict__ A_pos3
) {
  const index_t lane = threadIdx.x;
  const index_t A_tiles2_of3_2048_at_run = blockIdx.x;
  // where tiles begin
  const index_t A_tiles2_of3_2048_at = A_tiles2_of3_2048_at_run * 256 + lane;
  if (A_tiles2_of3_2048_at < (A3_size + 2047) / 2048 + 1) {
    A_tiles2_of3_2048[A_tiles2_of3_2048_at] = last_at_most_int32(A_pos3, 0, A2_size, A_tiles2_of3_2048_at * 2048);
  }
}

extern "C" __global__ void __launch_bounds__(256) kernel_2(
    const index_t A3_size,
    const index_t A1_size,
    int32_t *__restrict__ A_tiles1_of3_2048,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_tiles2_of3_2048
) {
  const index_t lane = threadIdx.x;
  const index_t A_tiles1_of3_2048_at_run = blockIdx.x;
  // where tiles begin
  const index_t A_tiles1_of3_2048_at = A_tiles1_of3_2048_at_run * 256 + lane;
  if (A_tiles1_of3_2048_at < (A3_size + 2047) / 2048 + 1) {
    A_tiles1_of3_2048[A_tiles1_of3_2048_at] = last_at_most_int32(A_pos2, 0, A1_size, A_tiles2_of3_2048[A_tiles1_of3_2048_at]);
  }
}

extern "C" __global__ void __launch_bounds__(256) kernel_3(
    const index_t A3_size,
    const index_t A2_size,
    int32_t *__restrict__ A_tiles2_of3_1,
    const int32_t *__restrict__ A_pos3
) {
  const index_t lane = threadIdx.x;
  const index_t A_tiles2_of3_1_at_run = blockIdx.x;
  // where tiles begin
  const index_t A_tiles2_of3_1_at = A_tiles2_of3_1_at_run * 256 + lane;
  if (A_tiles2_of3_1_at < A3_size + 1) {
    A_tiles2_of3_1[A_tiles2_of3_1_at] = last_at_most_int32(A_pos3, 0, A2_size, A_tiles2_of3_1_at);
  }
}

extern "C" __global__ void __launch_bounds__(256) kernel_4(
    const index_t pA3_end,
    const index_t A1_size,
    const int32_t *__restrict__ A_tiles2_of3_2048,
    const int32_t *__restrict__ A_tiles1_of3_2048,
    const int32_t *__restrict__ A_pos3,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_tiles2_of3_1,
    const int32_t *__restrict__ A_crd2,
    const int32_t *__restrict__ A_crd3,
    const double *__restrict__ A_vals,
    const double *__restrict__ B_vals,
    const double *__restrict__ C_vals,
    const int32_t *__restrict__ A_crd1,
    double *__restrict__ R_vals
) {
  const index_t warp = threadIdx.x / 4;
  const index_t lane = threadIdx.x % 4;
  const index_t p0 = blockIdx.x;
  const index_t p_lo = p0 * 2048;
  const index_t p_hi = lesser(p_lo + 2048, pA3_end);
  const index_t pA2_from = A_tiles2_of3_2048[p0];
  const index_t pA2_to = A_tiles2_of3_2048[p0 + 1];
  const index_t pA1_from = A_tiles1_of3_2048[p0];
  const index_t pA1_to = A_tiles1_of3_2048[p0 + 1];
  const index_t p1_end = p_hi - p_lo;
  const index_t p10_end = (p1_end + 31) / 32;
  const index_t p10 = warp;
  if (p10 < p10_end) {
    const index_t p1_lo = p10 * 32;
    const index_t p1_hi = lesser(p1_lo + 32, p1_end);
    const index_t l_20 = lane;
    const index_t p_lo_2 = p_lo + p1_lo;
    const index_t p_hi_2 = p_lo + p1_hi;
    index_t pA2 = last_at_most_int32(A_pos3, pA2_from, pA2_to + 1, p_lo_2);
    index_t pA1 = last_at_most_int32(A_pos2, pA1_from, pA1_to + 1, pA2);
    double R_sum[2];
#pragma unroll
    for (index_t l_21_at = 0; l_21_at < 2; l_21_at++) {
      R_sum[l_21_at] = 0.0;
    }
    index_t pA3_at = p_lo_2;
    while (pA3_at < p_hi_2) {
      const index_t pA3_stop = lesser(A_pos3[A_pos2[pA1 + 1]], p_hi_2);
      // positions of X that add to one entry
#pragma unroll 4
      for (index_t pA3 = pA3_at; pA3 < pA3_stop; pA3++) {
        pA2 = A_tiles2_of3_1[pA3];
        const index_t j = A_crd2[pA2];
        const index_t k = A_crd3[pA3];
        const double A_val = A_vals[pA3];
        const Vector<double, 2> B_vector = *(const Vector<double, 2> *)&B_vals[j * 8 + l_20 * 2];
        const Vector<double, 2> C_vector = *(const Vector<double, 2> *)&C_vals[k * 8 + l_20 * 2];
#pragma unroll
        for (index_t l_21_at = 0; l_21_at < 2; l_21_at++) {
          R_sum[l_21_at] += A_val * B_vector.of[l_21_at] * C_vector.of[l_21_at];
        }
      }
      const index_t i = A_crd1[pA1];
      if (p_lo_2 <= A_pos3[A_pos2[pA1]] && A_pos3[A_pos2[pA1 + 1]] <= p_hi_2) {
        Vector<double, 2> R_vector;
#pragma unroll
        for (index_t l_21_at = 0; l_21_at < 2; l_21_at++) {
          R_vector.of[l_21_at] = R_sum[l_21_at];
        }
        *(Vector<double, 2> *)&R_vals[i * 8 + l_20 * 2] = R_vector;
      } else {
#pragma unroll
        for (index_t l_21_at = 0; l_21_at < 2; l_21_at++) {
          const index_t l = l_20 * 2 + l_21_at;
          atomicAdd(&R_vals[i * 8 + l], R_sum[l_21_at]);
        }
      }
#pragma unroll
      for (index_t l_21_at = 0; l_21_at < 2; l_21_at++) {
        R_sum[l_21_at] = 0.0;
      }
      pA3_at = pA3_stop;
      if (pA3_at < p_hi_2) {
        pA2 = A_tiles2_of3_1[pA3_at];
        if (pA2 == A_pos2[pA1 + 1]) {
          pA1 = gallop_int32(A_pos2, pA1 + 2, A1_size + 1, pA2 + 1) - 1;
        }
      }
    }
  }
}
