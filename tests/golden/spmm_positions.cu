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

// Add to neighbouring elements of the GPU's memory at once, to each of them indivisibly.
template <int N>
static __device__ inline void add_vector(float *place, const Vector<float, N> &given) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#pragma unroll
  for (int n = 0; n < N; n++) atomicAdd(place + n, given.of[n]);
#else
  constexpr int each = N % 4 == 0 ? 4 : 2;
#pragma unroll
  for (int n = 0; n < N; n += each) {
    const float *const of = given.of + n;
    if constexpr (each == 4) atomicAdd((float4 *)(place + n), float4{of[0], of[1], of[2], of[3]});
    else atomicAdd((float2 *)(place + n), float2{of[0], of[1]});
  }
#endif
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
//       forall entry:  [unroll 4]
//         forall part:  [unroll]
//           C(i,k) += A(i,j) * B(j,k)
// such that bound(k, column, 32, MaxExact),
//   split(column, unit, part, 4),
//   fuse(i, j, fused),
//   pos(fused, place, A[i, j], parents=stored),
//   split(place, block, tile, 512),
//   split(tile, warp, entry, 16)
// In the code, C is R, column is k_2, unit is k_20, part is k_21, fused is f, place is p,
// block is p0, tile is p1, warp is p10, entry is p11.
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t A2_size,
    const index_t A1_size,
    int32_t *__restrict__ A_tiles1_of2_16,
    const int32_t *__restrict__ A_pos2
) {
  const index_t lane = threadIdx.x;
  const index_t A_tiles1_of2_16_at_run = blockIdx.x;
  // where tiles begin
  const index_t A_tiles1_of2_16_at = A_tiles1_of2_16_at_run * 256 + lane;
  if (A_tiles1_of2_16_at < (A2_size + 15) / 16 + 1) {
    A_tiles1_of2_16[A_tiles1_of2_16_at] = last_at_most_int32(A_pos2, 0, A1_size, A_tiles1_of2_16_at * 16);
  }
}

extern "C" __global__ void __launch_bounds__(256) kernel_2(
    const index_t pA2_end,
    const index_t A1_size,
    const int32_t *__restrict__ A_tiles1_of2_16,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const float *__restrict__ A_vals,
    const float *__restrict__ B_vals,
    float *__restrict__ R_vals
) {
  const index_t warp = threadIdx.x / 8;
  const index_t lane = threadIdx.x % 8;
  const index_t p0 = blockIdx.x;
  const index_t p_lo = p0 * 512;
  const index_t p_hi = lesser(p_lo + 512, pA2_end);
  const index_t p1_end = p_hi - p_lo;
  const index_t p10_end = (p1_end + 15) / 16;
  const index_t p10 = warp;
  if (p10 < p10_end) {
    const index_t p1_lo = p10 * 16;
    const index_t p1_hi = lesser(p1_lo + 16, p1_end);
    const index_t k_20 = lane;
    const index_t p_lo_2 = p_lo + p1_lo;
    const index_t p_hi_2 = p_lo + p1_hi;
    index_t pA1 = A_tiles1_of2_16[p_lo_2 / 16];
    float R_sum[4];
#pragma unroll
    for (index_t k_21_at = 0; k_21_at < 4; k_21_at++) {
      R_sum[k_21_at] = 0.0f;
    }
    if (p_lo_2 < p_hi_2) {
      index_t pA2_begin = A_pos2[pA1];
      index_t pA2_stop = A_pos2[pA1 + 1];
      for (index_t pA2_at = p_lo_2; pA2_at < p_hi_2; pA2_at += 4) {
        float pA2_terms[16];
        int32_t A_crd2_pA2[4];
        float A_vals_pA2[4];
        if (pA2_at % 4 == 0 && pA2_at + 4 <= p_hi_2) {
          const Vector<int32_t, 4> A_crd2_vector = *(const Vector<int32_t, 4> *)&A_crd2[pA2_at / 4 * 4];
          const Vector<float, 4> A_vector = *(const Vector<float, 4> *)&A_vals[pA2_at / 4 * 4];
#pragma unroll
          for (index_t pA2_turn = 0; pA2_turn < 4; pA2_turn++) {
            A_crd2_pA2[pA2_turn] = A_crd2_vector.of[pA2_turn];
            A_vals_pA2[pA2_turn] = A_vector.of[pA2_turn];
          }
        } else {
#pragma unroll
          for (index_t pA2_turn = 0; pA2_turn < 4; pA2_turn++) {
            const index_t pA2 = lesser(pA2_at + pA2_turn, p_hi_2 - 1);
            A_crd2_pA2[pA2_turn] = A_crd2[pA2];
            A_vals_pA2[pA2_turn] = A_vals[pA2];
          }
        }
        // terms of entries
#pragma unroll
        for (index_t pA2_turn = 0; pA2_turn < 4; pA2_turn++) {
          const index_t j = A_crd2_pA2[pA2_turn];
          const Vector<float, 4> B_vector = *(const Vector<float, 4> *)&B_vals[j * 32 + k_20 * 4];
#pragma unroll
          for (index_t pA2_part = 0; pA2_part < 4; pA2_part++) {
            pA2_terms[pA2_turn * 4 + pA2_part] = A_vals_pA2[pA2_turn] * B_vector.of[pA2_part];
          }
        }
        // added to their rows
#pragma unroll
        for (index_t pA2_turn = 0; pA2_turn < 4; pA2_turn++) {
          const index_t pA2_now = pA2_at + pA2_turn;
          if (pA2_now < p_hi_2) {
            if (pA2_now == pA2_stop) {
              const index_t i = pA1;
              if (p_lo_2 <= pA2_begin) {
                Vector<float, 4> R_vector;
#pragma unroll
                for (index_t k_21_at = 0; k_21_at < 4; k_21_at++) {
                  R_vector.of[k_21_at] = R_sum[k_21_at];
                }
                *(Vector<float, 4> *)&R_vals[i * 32 + k_20 * 4] = R_vector;
              } else {
                Vector<float, 4> R_vector_2;
#pragma unroll
                for (index_t k_21_at = 0; k_21_at < 4; k_21_at++) {
                  R_vector_2.of[k_21_at] = R_sum[k_21_at];
                }
                add_vector(&R_vals[i * 32 + k_20 * 4], R_vector_2);
              }
#pragma unroll
              for (index_t k_21_at = 0; k_21_at < 4; k_21_at++) {
                R_sum[k_21_at] = 0.0f;
              }
              pA1++;
              if (pA2_stop == A_pos2[pA1 + 1]) {
                pA1 = gallop_int32(A_pos2, pA1 + 2, A1_size + 1, pA2_stop + 1) - 1;
              }
              pA2_begin = pA2_stop;
              pA2_stop = A_pos2[pA1 + 1];
            }
#pragma unroll
            for (index_t k_21_at = 0; k_21_at < 4; k_21_at++) {
              R_sum[k_21_at] += pA2_terms[pA2_turn * 4 + k_21_at];
            }
          }
        }
      }
      const index_t i = pA1;
      if (p_lo_2 <= pA2_begin && pA2_stop <= p_hi_2) {
        Vector<float, 4> R_vector_3;
#pragma unroll
        for (index_t k_21_at = 0; k_21_at < 4; k_21_at++) {
          R_vector_3.of[k_21_at] = R_sum[k_21_at];
        }
        *(Vector<float, 4> *)&R_vals[i * 32 + k_20 * 4] = R_vector_3;
      } else {
        Vector<float, 4> R_vector_4;
#pragma unroll
        for (index_t k_21_at = 0; k_21_at < 4; k_21_at++) {
          R_vector_4.of[k_21_at] = R_sum[k_21_at];
        }
        add_vector(&R_vals[i * 32 + k_20 * 4], R_vector_4);
      }
    }
  }
}
