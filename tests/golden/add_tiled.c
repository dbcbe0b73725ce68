typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

static inline int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// The first position in [begin, end) that holds `value` or more, else `end`.
static int64_t lower_bound_int32(const int32_t *array, int64_t begin, int64_t end,
                           int64_t value) {
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (array[middle] < value) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

// forall i:
//   forall j0:
//     forall j1:
//       C(i,j) = A(i,j) + B(i,j)
// such that split(j, j0, j1, 4)
// In the code, C is R.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t i_size = sizes[2];
  const int64_t j_size = sizes[3];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const int32_t *restrict B_crd2 = arrays[4];
  const int32_t *restrict B_pos2 = arrays[5];
  const double *restrict B_vals = arrays[6];
  double *restrict R_vals = arrays[7];
  // every i
  for (int64_t i = 0; i < i_size; i++) {
    if (!(i & 511) && *stop) break;
    const int64_t j0_end = (j_size + 3) / 4;
    for (int64_t j0 = 0; j0 < j0_end; j0++) {
      const int64_t j_lo = j0 * 4;
      const int64_t j_hi = lesser(j_lo + 4, j_size);
      int64_t pA2 = lower_bound_int32(A_crd2, A_pos2[i], A_pos2[i + 1], j_lo);
      const int64_t pA2_end = lower_bound_int32(A_crd2, pA2, A_pos2[i + 1], j_hi);
      int64_t pB2 = lower_bound_int32(B_crd2, B_pos2[i], B_pos2[i + 1], j_lo);
      const int64_t pB2_end = lower_bound_int32(B_crd2, pB2, B_pos2[i + 1], j_hi);
      // j of A and B, in order
      while (pA2 < pA2_end && pB2 < pB2_end) {
        const int32_t jA = A_crd2[pA2];
        const int32_t jB = B_crd2[pB2];
        if (jA == jB) {
          const int64_t j = jA;
          R_vals[i * j_size + j] = A_vals[pA2] + B_vals[pB2];
          pA2++;
          pB2++;
        } else if (jA < jB) {
          const int64_t j = jA;
          R_vals[i * j_size + j] = A_vals[pA2];
          pA2++;
        } else {
          const int64_t j = jB;
          R_vals[i * j_size + j] = B_vals[pB2];
          pB2++;
        }
      }
      // rest of B
      while (pB2 < pB2_end) {
        __asm__("");  // few iterations: neither vectors nor a call
        const int64_t j = B_crd2[pB2];
        R_vals[i * j_size + j] = B_vals[pB2];
        pB2++;
      }
      // rest of A
      while (pA2 < pA2_end) {
        __asm__("");  // few iterations: neither vectors nor a call
        const int64_t j = A_crd2[pA2];
        R_vals[i * j_size + j] = A_vals[pA2];
        pA2++;
      }
    }
  }
  return *stop ? 2 : 0;
}
