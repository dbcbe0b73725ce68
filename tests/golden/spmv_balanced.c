typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

// Where part `part` of `parts` of a loop over [begin, end) begins.
static int64_t cut_even(int64_t begin, int64_t end, int64_t part, int64_t parts) {
  const int64_t count = end > begin ? end - begin : 0;
  const int64_t rest = count % parts;
  return begin + count / parts * part + (part < rest ? part : rest);
}

// Each part has four fifths of a thread's share of what is left, so that all threads are done at
// once: how much of the work, of 2^20, comes before part `part`.
static int64_t shrinking(int64_t part, int64_t parts, int64_t threads) {
  int64_t rest = part < parts ? 1 << 20 : 0;
  for (int64_t before = 0; before < part; before++) rest -= 4 * rest / (5 * threads);
  return (1 << 20) - rest;
}

// Where part `part` of `parts` of the rows [begin, end) begins, if all have equally many entries.
static int64_t balanced_cut_int32(const int32_t *pos, int64_t begin, int64_t end, int64_t part,
                            int64_t parts) {
  if (begin >= end) return begin;
  if (part >= parts) return end;
  const int64_t work = pos[end] - pos[begin];
  const int64_t rest = work % parts;
  const int64_t goal = pos[begin] + work / parts * part + (part < rest ? part : rest);
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (pos[middle] < goal) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

// forall p0:  [CPUThread, NoRaces]
//   forall p1:
//     forall j:
//       R(i) += A(i,j) * B(j)
// such that pos(i, p, A[i, j]),
//   divide(p, p0, p1, 8, balanced by A)
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int64_t shares = threads > 1 ? 8 * threads : 1;
  const int64_t i_size = sizes[2];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const double *restrict B_vals = arrays[4];
  double *restrict R_vals = arrays[5];
  // threads take contiguous parts
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)threads) if (threads > 1)
  for (int64_t part = 0; part < shares; part++) {
    const int64_t p0_first = cut_even(0, 8, shrinking(part, shares, threads), 1 << 20);
    const int64_t p0_limit = cut_even(0, 8, shrinking(part + 1, shares, threads), 1 << 20);
    for (int64_t p0 = p0_first; p0 < p0_limit; p0++) {
      if (*stop) break;
      const int64_t p_lo = balanced_cut_int32(A_pos2, 0, i_size, p0, 8);
      const int64_t p_hi = balanced_cut_int32(A_pos2, 0, i_size, p0 + 1, 8);
      // i of this run
      for (int64_t i = p_lo; i < p_hi; i++) {
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
