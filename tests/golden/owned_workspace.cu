typedef int int32_t;
typedef int index_t;

// forall i:  [GPUBlock, NoRaces]
//   forall kb:  [GPUThread, NoRaces]
//     C(i,k) = w(kb)
//   where
//     forall j:
//       forall kw:  [GPUThread, NoRaces]
//         w(kw) += A(i,j) * B(j,k)
// such that bound(k, kb, 32, MaxExact),
//   precompute(kb, kw)
// In the code, C is R, w is W, k is j, j is k, kb is j_2, kw is j_2_2.
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
  // stored j of A
  for (index_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
    const index_t k = A_crd2[pA2];
    const float A_val = A_vals[pA2];
    // every k
    const index_t j = lane;
    W_vals[j] += A_val * B_vals[k * 32 + j];
  }
  // every k
  R_vals[i * 32 + lane] = W_vals[lane];
}
