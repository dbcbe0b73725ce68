typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

static inline int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// forall i1:
//   forall i2:
//     forall j:
//       y(i) += A(i,j) * x(j)
// such that split(i, i1, i2, 4)
// In the code, y is R, x is B, i1 is i0, i2 is i1.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t i_size = sizes[2];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const double *restrict B_vals = arrays[4];
  double *restrict R_vals = arrays[5];
  const int64_t i0_end = (i_size + 3) / 4;
  for (int64_t i0 = 0; i0 < i0_end; i0++) {
    if (!(i0 & 511) && *stop) break;
    const int64_t i_lo = i0 * 4;
    const int64_t i_hi = lesser(i_lo + 4, i_size);
    // i of this run
    for (int64_t i = i_lo; i < i_hi; i++) {
      double R_sum = 0.0;
      // stored j of A
      for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
        const int64_t j = A_crd2[pA2];
        R_sum += A_vals[pA2] * B_vals[j];
      }
      R_vals[i] = R_sum;
    }
  }
  return *stop ? 2 : 0;
}
