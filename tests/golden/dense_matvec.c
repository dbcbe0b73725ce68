typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

// Where part `part` of `parts` of a loop over [begin, end) begins.
static int64_t cut_even(int64_t begin, int64_t end, int64_t part, int64_t parts) {
  const int64_t count = end > begin ? end - begin : 0;
  return begin + count / parts * part + count % parts * part / parts;
}

// forall i:  [CPUThread, NoRaces]
//   forall j:
//     R(i) += A(i,j) * B(j)
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int64_t i_size = sizes[2];
  const int64_t j_size = sizes[3];
  const double *restrict A_vals = arrays[1];
  const double *restrict B_vals = arrays[2];
  double *restrict R_vals = arrays[3];
  // threads take contiguous parts
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
  for (int64_t part = 0; part < threads; part++) {
    const int64_t i_first = cut_even(0, i_size, part, threads);
    const int64_t i_limit = cut_even(0, i_size, part + 1, threads);
    // every i
    for (int64_t i = i_first; i < i_limit; i++) {
      if (*stop) break;
      double R_sum = 0.0;
      // every j
      for (int64_t j = 0; j < j_size; j++) {
        R_sum += A_vals[i * j_size + j] * B_vals[j];
      }
      R_vals[i] = R_sum;
    }
  }
  return *stop ? 2 : 0;
}
