typedef int int32_t;
typedef int index_t;

// forall i:  [GPUBlock, NoRaces]
//   forall j_2:  [GPUThread, NoRaces]
//     R(i,j) = W(j_2)
//   where
//     forall k:
//       forall j_2_2:  [GPUThread, NoRaces]
//         W(j_2_2) += A(i,k) * B(k,j)
// such that bound(j, j_2, 32, MaxExact),
//   precompute(j_2, j_2_2)
extern "C" __global__ void __launch_bounds__(32) kernel_1(
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const float *__restrict__ A_vals,
    const float *__restrict__ B_vals,
    float *__restrict__ R_vals
) {
  __shared__ __align__(16) float W_vals[32];
  const index_t lane = threadIdx.x;
  // every i
  const index_t i = blockIdx.x;
  // clear
  const index_t W_at = lane;
  W_vals[W_at] = 0.0f;
  // stored k of A
  for (index_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
    const index_t k = A_crd2[pA2];
    const float A_val = A_vals[pA2];
    // every j
    const index_t j = lane;
    W_vals[j] += A_val * B_vals[k * 32 + j];
  }
  // every j
  R_vals[i * 32 + lane] = W_vals[lane];
}
