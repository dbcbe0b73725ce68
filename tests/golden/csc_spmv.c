typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

// forall j:
//   forall i:
//     y(i) += A(i,j) * x(j)
// In the code, y is R, x is B, j is i, i is j.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t i_size = sizes[2];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const double *restrict B_vals = arrays[4];
  double *restrict R_vals = arrays[5];
  // every j
  for (int64_t i = 0; i < i_size; i++) {
    if (!(i & 511) && *stop) break;
    const double B_val = B_vals[i];
    // stored i of A
    for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
      const int64_t j = A_crd2[pA2];
      R_vals[j] += A_vals[pA2] * B_val;
    }
  }
  return *stop ? 2 : 0;
}
