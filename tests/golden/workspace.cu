typedef int int32_t;
typedef int index_t;

static __device__ index_t lesser(index_t a, index_t b) {
  return a < b ? a : b;
}

// forall b:  [GPUBlock, NoRaces]
//   forall t:  [GPUThread, NoRaces]
//     forall jp1:
//       y(i) += w(jp1)
//     where
//       forall jp0:
//         forall w:
//           w(w) += A(i,j) * x(j)
// such that split(i, b, t, 16),
//   pos(j, jp, A[i, j]),
//   split(jp, jp0, jp1, 4),
//   precompute(jp1, w)
// In the code, y is R, x is B, w is W, b is i0, t is i1, jp is p, jp0 is p0, jp1 is p1, w is p1_2.
extern "C" __global__ void __launch_bounds__(16) kernel_1(
    const index_t i_size,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const double *__restrict__ A_vals,
    const double *__restrict__ B_vals,
    double *__restrict__ R_vals
) {
  const index_t lane = threadIdx.x;
  const index_t i0 = blockIdx.x;
  const index_t i_lo = i0 * 16;
  // i of this run
  const index_t i = i_lo + lane;
  if (i < i_size) {
    double W_vals[4];
    // clear
#pragma unroll
    for (index_t W_at = 0; W_at < 4; W_at++) {
      W_vals[W_at] = 0.0;
    }
    const index_t pA2_begin = A_pos2[i];
    const index_t pA2_end = A_pos2[i + 1];
    const index_t p0_end = (pA2_end - pA2_begin + 3) / 4;
    for (index_t p0 = 0; p0 < p0_end; p0++) {
      const index_t p_lo = pA2_begin + p0 * 4;
      const index_t p_hi = lesser(p_lo + 4, pA2_end);
      // stored j of A
      for (index_t pA2 = p_lo; pA2 < p_hi; pA2++) {
        const index_t j = A_crd2[pA2];
        W_vals[pA2 - p_lo] += A_vals[pA2] * B_vals[j];
      }
    }
    double R_sum = 0.0;
    for (index_t p1 = 0; p1 < 4; p1++) {
      R_sum += W_vals[p1];
    }
    R_vals[i] = R_sum;
  }
}
