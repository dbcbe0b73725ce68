typedef int int32_t;
typedef long long int64_t;
typedef int index_t;

// forall i:
//   forall j:
//     C(i,j) = A(i,j) + B(i,j)
// In the code, C is R.
extern "C" __global__ void __launch_bounds__(64) kernel_1(
    const index_t pieces,
    const index_t i_size,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ B_pos2,
    const int32_t *__restrict__ A_crd2,
    const int32_t *__restrict__ B_crd2,
    int64_t *__restrict__ R2_first
) {
  const index_t lane = threadIdx.x;
  // count each piece
  const index_t piece_run = blockIdx.x;
  const index_t piece = piece_run * 64 + lane;
  if (piece < pieces) {
    index_t own2 = 0;
    // i of this run
    if (piece < i_size) {
      index_t pA2 = A_pos2[piece];
      const index_t pA2_end = A_pos2[piece + 1];
      index_t pB2 = B_pos2[piece];
      const index_t pB2_end = B_pos2[piece + 1];
      // j of A and B, in order
      while (pA2 < pA2_end && pB2 < pB2_end) {
        const index_t jA = A_crd2[pA2];
        const index_t jB = B_crd2[pB2];
        if (jA == jB) {
          own2++;
          pA2++;
          pB2++;
        } else {
          const index_t j = jA < jB ? jA : jB;
          own2++;
          pA2 += jA == j;
          pB2 += jB == j;
        }
      }
      // rest of B
      while (pB2 < pB2_end) {
        own2++;
        pB2++;
      }
      // rest of A
      while (pA2 < pA2_end) {
        own2++;
        pA2++;
      }
    }
    R2_first[piece + 1] = own2;
  }
}

extern "C" __global__ void __launch_bounds__(1) kernel_2(
    int32_t *__restrict__ R_pos2
) {
  R_pos2[0] = 0;
}

extern "C" __global__ void __launch_bounds__(64) kernel_3(
    const index_t pieces,
    const index_t i_size,
    const int64_t *__restrict__ R2_first,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ B_pos2,
    const int32_t *__restrict__ A_crd2,
    const int32_t *__restrict__ B_crd2,
    double *__restrict__ R_vals,
    const double *__restrict__ A_vals,
    const double *__restrict__ B_vals,
    int32_t *__restrict__ R_crd2,
    int32_t *__restrict__ R_pos2
) {
  const index_t lane = threadIdx.x;
  // compute each piece into its place
  const index_t piece_run = blockIdx.x;
  const index_t piece = piece_run * 64 + lane;
  if (piece < pieces) {
    index_t own2 = R2_first[piece];
    // i of this run
    if (piece < i_size) {
      index_t pA2_2 = A_pos2[piece];
      const index_t pA2_2_end = A_pos2[piece + 1];
      index_t pB2_2 = B_pos2[piece];
      const index_t pB2_2_end = B_pos2[piece + 1];
      // j of A and B, in order
      while (pA2_2 < pA2_2_end && pB2_2 < pB2_2_end) {
        const index_t jA = A_crd2[pA2_2];
        const index_t jB = B_crd2[pB2_2];
        if (jA == jB) {
          R_vals[own2] = A_vals[pA2_2] + B_vals[pB2_2];
          R_crd2[own2] = jA;
          own2++;
          pA2_2++;
          pB2_2++;
        } else {
          const index_t j = jA < jB ? jA : jB;
          const double B_val = B_vals[pB2_2];
          const double A_val = A_vals[pA2_2];
          R_vals[own2] = jB == j ? B_val : A_val;
          R_crd2[own2] = j;
          own2++;
          pA2_2 += jA == j;
          pB2_2 += jB == j;
        }
      }
      // rest of B
      while (pB2_2 < pB2_2_end) {
        const index_t j = B_crd2[pB2_2];
        R_vals[own2] = B_vals[pB2_2];
        R_crd2[own2] = j;
        own2++;
        pB2_2++;
      }
      // rest of A
      while (pA2_2 < pA2_2_end) {
        const index_t j = A_crd2[pA2_2];
        R_vals[own2] = A_vals[pA2_2];
        R_crd2[own2] = j;
        own2++;
        pA2_2++;
      }
      R_pos2[piece + 1] = own2;
    }
  }
}
