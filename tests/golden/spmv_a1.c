typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

// Where part `part` of `parts` of a loop over [begin, end) begins.
static int64_t cut_even(int64_t begin, int64_t end, int64_t part, int64_t parts) {
  const int64_t count = end > begin ? end - begin : 0;
  return begin + count / parts * part + count % parts * part / parts;
}

// forall i0:  [CPUThread, NoRaces]
//   forall i1:
//     forall j:
//       R(i) += A(i,j) * B(j)
// such that split(i, i0, i1, 32)
int32_t kernel(void **arrays, int64_t *sizes) {
  const int64_t threads = sizes[0];
  const int64_t i_size = sizes[2];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const double *restrict B_vals = arrays[4];
  double *restrict R_vals = arrays[5];
  const int64_t i0_end = (i_size + 31) / 32;
  // threads take contiguous parts
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
  for (int64_t part = 0; part < threads; part++) {
    const int64_t i0_first = cut_even(0, i0_end, part, threads);
    const int64_t i0_limit = cut_even(0, i0_end, part + 1, threads);
    for (int64_t i0 = i0_first; i0 < i0_limit; i0++) {
      const int64_t i_lo = i0 * 32;
      const int64_t i_hi = i0 * 32 + 32 < i_size ? i0 * 32 + 32 : i_size;
      // i of this run
      for (int64_t i_at = 0; i_at < i_hi - i_lo; i_at++) {
        const int64_t i = i_lo + i_at;
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
  return 0;
}
