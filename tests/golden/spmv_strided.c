typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

// forall i1:
//   forall i0:
//     forall j:
//       y(i) += A(i,j) * x(j)
// such that split(i, i0, i1, 4)
// In the code, y is R, x is B.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t i_size = sizes[2];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const double *restrict B_vals = arrays[4];
  double *restrict R_vals = arrays[5];
  for (int64_t i1 = 0; i1 < 4; i1++) {
    if (*stop) break;
    const int64_t i0_end = (i_size + 3) / 4;
    for (int64_t i0 = 0; i0 < i0_end; i0++) {
      const int64_t i = i0 * 4 + i1;
      if (i < i_size) {
        double R_sum = 0.0;
        // stored j of A
        for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
          const int64_t j = A_crd2[pA2];
          R_sum += A_vals[pA2] * B_vals[j];
        }
        R_vals[i] = R_sum;
      }
    }
  }
  return *stop ? 2 : 0;
}
