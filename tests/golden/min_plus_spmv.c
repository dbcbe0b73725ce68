typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

// Where part `part` of `parts` of [begin, end) begins, if all have equally many rows and entries.
static int64_t cut_int32(const int32_t *pos, int64_t begin, int64_t end, int64_t part,
                         int64_t parts) {
  if (begin >= end) return begin;
  const int64_t first = pos[begin] + begin, work = pos[end] + end - first;
  const int64_t rest = work % parts;
  const int64_t goal = first + work / parts * part + (part < rest ? part : rest);
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (pos[middle] + middle < goal) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

// Each part has four fifths of a thread's share of what is left, so that all threads are done at
// once: how much of the work, of 2^20, comes before part `part`.
static int64_t shrinking(int64_t part, int64_t parts, int64_t threads) {
  int64_t rest = part < parts ? 1 << 20 : 0;
  for (int64_t before = 0; before < part; before++) rest -= 4 * rest / (5 * threads);
  return (1 << 20) - rest;
}

static inline int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// NaN wins, as in NumPy.
static inline double min_float64(double a, double b) {
  return a < b || a != a ? a : b;
}

// forall i:  [CPUThread, NoRaces]
//   forall j:
//     R(i) min= f(A(i,j), B(j))
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
  // threads take contiguous parts with equal work
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)threads) if (threads > 1)
  for (int64_t part = 0; part < shares; part++) {
    const int64_t i_first = cut_int32(A_pos2, 0, i_size, shrinking(part, shares, threads), 1 << 20);
    const int64_t i_limit = cut_int32(A_pos2, 0, i_size, shrinking(part + 1, shares, threads), 1 << 20);
    // every i
    for (int64_t i_run = i_first; i_run < i_limit; i_run += 512) {
      if (*stop) break;
      const int64_t i_run_end = lesser(i_run + 512, i_limit);
      for (int64_t i = i_run; i < i_run_end; i++) {
        double R_sum = __builtin_inf();
        // stored j of A
        for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
          const int64_t j = A_crd2[pA2];
          R_sum = min_float64(R_sum, A_vals[pA2] + B_vals[j]);
        }
        R_vals[i] = R_sum;
      }
    }
  }
  return *stop ? 2 : 0;
}
