typedef int int32_t;
typedef int index_t;

// Neighbouring elements that are loaded and stored at once.
constexpr int alignment(int bytes) { return (bytes & -bytes) < 16 ? bytes & -bytes : 16; }
template <typename T, int N> struct alignas(alignment(N * sizeof(T))) Vector {
  T of[N];
};

// forall block:  [GPUBlock, NoRaces]
//   forall warp:  [GPUWarp, NoRaces]
//     forall unit:  [GPUThread, NoRaces]
//       forall part:  [unroll]
//         C(i,k) = w(part)
//       where
//         forall j:  [unroll 4]
//           forall part_sum:  [unroll]
//             w(part_sum) += A(i,j) * B(j,k)
// such that bound(k, column, 32, MaxExact),
//   split(column, unit, part, 4),
//   split(i, block, warp, 32),
//   precompute(part, part_sum)
// In the code, C is R, w is W, k is j, j is k, column is j_2, unit is j_20, part is j_21,
// block is i0, warp is i1, part_sum is j_21_2.
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t i_size,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const float *__restrict__ A_vals,
    const float *__restrict__ B_vals,
    float *__restrict__ R_vals
) {
  const index_t warp = threadIdx.x / 8;
  const index_t lane = threadIdx.x % 8;
  const index_t i0 = blockIdx.x;
  const index_t i_lo = i0 * 32;
  // i of this run
  const index_t i = i_lo + warp;
  if (i < i_size) {
    const index_t j_20 = lane;
    const index_t j_2_lo = j_20 * 4;
    float W_vals[4];
    // clear
#pragma unroll
    for (index_t W_at = 0; W_at < 4; W_at++) {
      W_vals[W_at] = 0.0f;
    }
    // stored j of A
#pragma unroll 4
    for (index_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
      const index_t k = A_crd2[pA2];
      const float A_val = A_vals[pA2];
      const Vector<float, 4> B_vector = *(const Vector<float, 4> *)&B_vals[k * 32 + j_2_lo];
      // k of this run
#pragma unroll
      for (index_t j_at = 0; j_at < 4; j_at++) {
        W_vals[j_at] += A_val * B_vector.of[j_at];
      }
    }
    Vector<float, 4> R_vector;
    // k of this run
#pragma unroll
    for (index_t j_at = 0; j_at < 4; j_at++) {
      R_vector.of[j_at] = W_vals[j_at];
    }
    *(Vector<float, 4> *)&R_vals[i * 32 + j_2_lo] = R_vector;
  }
}
