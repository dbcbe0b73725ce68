typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

static inline int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// forall i:
//   forall jpos0:
//     forall k:
//       forall jpos1:
//         Y(i,k) += A(i,j) * X(j,k)
// such that pos(j, jpos, A[i, j]),
//   split(jpos, jpos0, jpos1, 2)
// In the code, Y is R, X is B, jpos is p, jpos0 is p0, jpos1 is p1.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t i_size = sizes[2];
  const int64_t k_size = sizes[4];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const double *restrict B_vals = arrays[4];
  double *restrict R_vals = arrays[5];
  // every i
  for (int64_t i = 0; i < i_size; i++) {
    if (*stop) break;
    const int64_t pA2_begin = A_pos2[i];
    const int64_t pA2_end = A_pos2[i + 1];
    const int64_t p0_end = (pA2_end - pA2_begin + 1) / 2;
    for (int64_t p0 = 0; p0 < p0_end; p0++) {
      const int64_t p_lo = pA2_begin + p0 * 2;
      const int64_t p_hi = lesser(p_lo + 2, pA2_end);
      // every k
      for (int64_t k = 0; k < k_size; k++) {
        double R_sum = R_vals[i * k_size + k];
        // stored j of A
        for (int64_t pA2 = p_lo; pA2 < p_hi; pA2++) {
          const int64_t j = A_crd2[pA2];
          R_sum += A_vals[pA2] * B_vals[j * k_size + k];
        }
        R_vals[i * k_size + k] = R_sum;
      }
    }
  }
  return *stop ? 2 : 0;
}
