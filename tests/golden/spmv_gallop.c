typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

// The first position in [begin, end) that holds `value` or more, else `end`; near ones are
// found soonest.
static int64_t gallop_int32(const int32_t *array, int64_t begin, int64_t end, int64_t value) {
  if (begin >= end || array[begin] >= value) return begin;
  int64_t step = 1;
  while (step < end - begin && array[begin + step] < value) {
    begin += step;
    step *= 2;
  }
  if (step < end - begin) end = begin + step;
  for (begin++; begin < end;) {
    const int64_t middle = begin + (end - begin) / 2;
    if (array[middle] < value) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

// forall i:
//   forall j:  [gallop]
//     y(i) += A(i,j) * x(j)
// In the code, y is R, x is B.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t i_size = sizes[2];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const int32_t *restrict B_crd1 = arrays[4];
  const int32_t *restrict B_pos1 = arrays[5];
  const double *restrict B_vals = arrays[6];
  double *restrict R_vals = arrays[7];
  // every i
  for (int64_t i = 0; i < i_size; i++) {
    if (!(i & 511) && *stop) break;
    double R_sum = 0.0;
    int64_t pA2 = A_pos2[i];
    const int64_t pA2_end = A_pos2[i + 1];
    int64_t pB1 = 0;
    const int64_t pB1_end = B_pos1[1];
    // j of A and x, in order
    while (pA2 < pA2_end && pB1 < pB1_end) {
      const int64_t jA = A_crd2[pA2];
      const int64_t jB = B_crd1[pB1];
      if (jA == jB) {
        R_sum += A_vals[pA2] * B_vals[pB1];
        pA2++;
        pB1++;
      } else {
        const int64_t j_next = jA > jB ? jA : jB;
        pA2 = gallop_int32(A_crd2, pA2, pA2_end, j_next);
        pB1 = gallop_int32(B_crd1, pB1, pB1_end, j_next);
      }
    }
    R_vals[i] = R_sum;
  }
  return *stop ? 2 : 0;
}
