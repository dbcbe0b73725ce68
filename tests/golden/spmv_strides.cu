typedef int int32_t;
typedef int index_t;

// forall tile:  [GPUBlock, NoRaces by 264, 64 threads, 2 per multiprocessor]
//   forall row:  [GPUThread, NoRaces]
//     forall j:
//       y(i) += A(i,j) * x(j)
// such that split(i, tile, row, 64)
// In the code, y is R, x is B, tile is i0, row is i1.
extern "C" __global__ void __launch_bounds__(64, 2) kernel_1(
    const index_t i0_end,
    const index_t i_size,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const double *__restrict__ A_vals,
    const double *__restrict__ B_vals,
    double *__restrict__ R_vals
) {
  const index_t lane = threadIdx.x;
  for (index_t i0 = blockIdx.x; i0 < i0_end; i0 += gridDim.x) {
    const index_t i_lo = i0 * 64;
    // i of this run
    const index_t i = i_lo + lane;
    if (i < i_size) {
      double R_sum = 0.0;
      // stored j of A
      for (index_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
        const index_t j = A_crd2[pA2];
        R_sum += A_vals[pA2] * B_vals[j];
      }
      R_vals[i] = R_sum;
    }
  }
}
