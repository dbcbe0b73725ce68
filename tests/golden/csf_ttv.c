typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

// Where part `part` of `parts` of a loop over [begin, end) begins.
static int64_t cut_even(int64_t begin, int64_t end, int64_t part, int64_t parts) {
  const int64_t count = end > begin ? end - begin : 0;
  return begin + count / parts * part + count % parts * part / parts;
}

// forall i:  [CPUThread, NoRaces]
//   forall j:
//     forall k:
//       R(i,j) += A(i,j,k) * B(k)
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int32_t *restrict A_crd1 = arrays[1];
  const int32_t *restrict A_pos1 = arrays[2];
  const int32_t *restrict A_crd2 = arrays[3];
  const int32_t *restrict A_pos2 = arrays[4];
  const int32_t *restrict A_crd3 = arrays[5];
  const int32_t *restrict A_pos3 = arrays[6];
  const double *restrict A_vals = arrays[7];
  const double *restrict B_vals = arrays[8];
  double *restrict R_vals = arrays[9];
  // threads take contiguous parts with equal work
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
  for (int64_t part = 0; part < threads; part++) {
    const int64_t pA1_first = cut_even(A_pos1[0], A_pos1[1], part, threads);
    const int64_t pA1_limit = cut_even(A_pos1[0], A_pos1[1], part + 1, threads);
    // stored i of A
    for (int64_t pA1 = pA1_first; pA1 < pA1_limit; pA1++) {
      if (*stop) break;
      const int64_t i = A_crd1[pA1];
      // stored j of A
      for (int64_t pA2 = A_pos2[pA1]; pA2 < A_pos2[pA1 + 1]; pA2++) {
        const int64_t j = A_crd2[pA2];
        double R_sum = 0.0;
        // stored k of A
        for (int64_t pA3 = A_pos3[pA2]; pA3 < A_pos3[pA2 + 1]; pA3++) {
          const int64_t k = A_crd3[pA3];
          R_sum += A_vals[pA3] * B_vals[k];
        }
        R_vals[pA2] = R_sum;
      }
    }
  }
  return *stop ? 2 : 0;
}
