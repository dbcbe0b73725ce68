typedef int int32_t;
typedef int index_t;

// forall ibb:  [GPUBlock, NoRaces]
//   forall ibt:  [GPUThread, NoRaces]
//     forall jb:
//       forall ii:
//         forall jj:
//           y(ib,ii) += A(ib,ii,jb,jj) * x(jb,jj)
// such that split(ib, ibb, ibt, 256)
// In the code, y is R, x is B, ib is i, jb is j, ii is k, jj is l, ibb is i0, ibt is i1.
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t i_size,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const double *__restrict__ A_vals,
    const double *__restrict__ B_vals,
    double *__restrict__ R_vals
) {
  const index_t lane = threadIdx.x;
  const index_t i0 = blockIdx.x;
  const index_t i_lo = i0 * 256;
  // ib of this run
  const index_t i = i_lo + lane;
  if (i < i_size) {
    double R_sums3[3];
#pragma unroll
    for (index_t k = 0; k < 3; k++) {
      R_sums3[k] = 0.0;
    }
    // stored jb of A
    for (index_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
      const index_t j = A_crd2[pA2];
#pragma unroll
      for (index_t k = 0; k < 3; k++) {
        // every jj
#pragma unroll
        for (index_t l = 0; l < 3; l++) {
          R_sums3[k] += A_vals[(pA2 * 3 + k) * 3 + l] * B_vals[j * 3 + l];
        }
      }
    }
#pragma unroll
    for (index_t k = 0; k < 3; k++) {
      R_vals[i * 3 + k] = R_sums3[k];
    }
  }
}
