typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

// How many of a thread's shares are taken; in cache lines of its own.
typedef struct {
  int64_t count;
} __attribute__((aligned(128))) taken_shares;

// The next share for thread `part`: of its own, then of each other thread's; -1: none is left.
static inline int64_t next_share(taken_shares *taken, int64_t threads, int64_t shares, int64_t part,
                                 int64_t *turn) {
  const int64_t each = shares / threads;
  for (; *turn < threads; ++*turn) {
    const int64_t owner = part + *turn < threads ? part + *turn : part + *turn - threads;
    if (__atomic_load_n(&taken[owner].count, __ATOMIC_RELAXED) >= each) continue;
    const int64_t n = __atomic_fetch_add(&taken[owner].count, 1, __ATOMIC_RELAXED);
    if (n < each) return owner * each + n;
  }
  return -1;
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

// Where part `part` of `parts` of a loop over [begin, end) begins.
static int64_t cut_even(int64_t begin, int64_t end, int64_t part, int64_t parts) {
  const int64_t count = end > begin ? end - begin : 0;
  const int64_t rest = count % parts;
  return begin + count / parts * part + (part < rest ? part : rest);
}

// forall i0:  [CPUThread, NoRaces]
//   forall i1:
//     forall j:
//       y(i) += A(i,j) * x(j)
// such that pos(i, i_pos, A[i, j]),
//   divide(i_pos, i0, i1, 8, balanced by A)
// In the code, y is R, x is B, i_pos is p, i0 is p0, i1 is p1.
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
  {
    taken_shares p0_taken[threads];
    for (int64_t part = 0; part < threads; part++) p0_taken[part].count = 0;
    // threads take contiguous shares
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
      int64_t p0_turn = 0, p0_share;
      while ((p0_share = next_share(p0_taken, threads, shares, part, &p0_turn)) >= 0) {
        const int64_t p0_first = cut_even(0, 8, p0_share, shares);
        const int64_t p0_limit = cut_even(0, 8, p0_share + 1, shares);
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
    }
  }
  return *stop ? 2 : 0;
}
