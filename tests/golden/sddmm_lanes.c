typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

// forall i:
//   forall j:
//     forall k:  [CPUVector, ParallelReduction]
//       Y(i,j) += A(i,j) * B(i,k) * C(j,k)
// In the code, Y is R.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t i_size = sizes[2];
  const int64_t k_size = sizes[4];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const double *restrict B_vals = arrays[4];
  const double *restrict C_vals = arrays[5];
  double *restrict R_vals = arrays[6];
  // every i
  for (int64_t i = 0; i < i_size; i++) {
    if (*stop) break;
    // stored j of A
    for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
      const int64_t j = A_crd2[pA2];
      double R_sum = 0.0;
      const double A_val = A_vals[pA2];
      // every k
#pragma omp simd reduction(+ : R_sum)
      for (int64_t k = 0; k < k_size; k++) {
        R_sum += A_val * B_vals[i * k_size + k] * C_vals[j * k_size + k];
      }
      R_vals[pA2] = R_sum;
    }
  }
  return *stop ? 2 : 0;
}
