typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

// The last position in [begin, end) that holds `value` or less, else `begin`.
static int64_t last_at_most_int32(const int32_t *array, int64_t begin, int64_t end,
                            int64_t value) {
  while (end - begin > 1) {
    const int64_t middle = begin + (end - begin) / 2;
    if (array[middle] <= value) begin = middle;
    else end = middle;
  }
  return begin;
}

static inline int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// forall p:
//   y(i) += A(i,j) * x(j)
// such that fuse(i, j, f),
//   pos(f, p, A[i, j])
// In the code, y is R, x is B.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t i_size = sizes[2];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const double *restrict B_vals = arrays[4];
  double *restrict R_vals = arrays[5];
  const int64_t pA2_end = A_pos2[i_size];
  int64_t pA1 = last_at_most_int32(A_pos2, 0, i_size, 0);
  int64_t pA2_at = 0;
  // segments of A
  while (pA2_at < pA2_end) {
    if (*stop) break;
    while (pA2_at == A_pos2[pA1 + 1]) {
      pA1++;
    }
    const int64_t pA2_stop = lesser(A_pos2[pA1 + 1], pA2_end);
    const int64_t i = pA1;
    double R_sum = R_vals[i];
    // stored j of A
    for (int64_t pA2_2 = pA2_at; pA2_2 < pA2_stop; pA2_2++) {
      const int64_t j = A_crd2[pA2_2];
      R_sum += A_vals[pA2_2] * B_vals[j];
    }
    R_vals[i] = R_sum;
    pA2_at = pA2_stop;
  }
  return *stop ? 2 : 0;
}
