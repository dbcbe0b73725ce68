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

static inline int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

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

// Where part `part` of `parts` of a loop over [begin, end) begins.
static int64_t cut_even(int64_t begin, int64_t end, int64_t part, int64_t parts) {
  const int64_t count = end > begin ? end - begin : 0;
  const int64_t rest = count % parts;
  return begin + count / parts * part + (part < rest ? part : rest);
}

// forall p0:  [CPUThread, Atomics]
//   forall p1:
//     y(i) += A(i,j) * x(j)
// such that fuse(i, j, f),
//   pos(f, p, A[i, j]),
//   split(p, p0, p1, 16)
// In the code, y is R, x is B.
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
  const int64_t pA2_end = A_pos2[i_size];
  const int64_t p0_end = (pA2_end + 15) / 16;
  {
    taken_shares p0_first_taken[threads];
    for (int64_t part = 0; part < threads; part++) p0_first_taken[part].count = 0;
    // threads take contiguous shares
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
      int64_t p0_first_turn = 0, p0_first_share;
      while ((p0_first_share = next_share(p0_first_taken, threads, shares, part, &p0_first_turn)) >= 0) {
        const int64_t p0_first = cut_even(0, p0_end, p0_first_share, shares);
        const int64_t p0_limit = cut_even(0, p0_end, p0_first_share + 1, shares);
        const int64_t p_part_lo = p0_first * 16;
        const int64_t p_part_hi = lesser((p0_limit - 1) * 16 + 16, pA2_end);
        int64_t pA1 = last_at_most_int32(A_pos2, 0, i_size, p_part_lo);
        for (int64_t p0_run = p0_first; p0_run < p0_limit; p0_run += 8192) {
          if (*stop) break;
          const int64_t p0_run_end = lesser(p0_run + 8192, p0_limit);
          for (int64_t p0 = p0_run; p0 < p0_run_end; p0++) {
            const int64_t p_lo = p0 * 16;
            const int64_t p_hi = lesser(p_lo + 16, pA2_end);
            int64_t pA2_at = p_lo;
            // segments of A
            while (pA2_at < p_hi) {
              while (pA2_at == A_pos2[pA1 + 1]) {
                pA1++;
              }
              const int64_t pA2_stop = lesser(A_pos2[pA1 + 1], p_hi);
              const int64_t i = pA1;
              double R_sum = 0.0;
              // stored j of A
              for (int64_t pA2_2 = pA2_at; pA2_2 < pA2_stop; pA2_2++) {
                const int64_t j = A_crd2[pA2_2];
                R_sum += A_vals[pA2_2] * B_vals[j];
              }
              if (p_part_lo <= A_pos2[pA1] && A_pos2[pA1 + 1] <= p_part_hi) {
                R_vals[i] += R_sum;
              } else {
#pragma omp atomic
                R_vals[i] += R_sum;
              }
              pA2_at = pA2_stop;
            }
          }
        }
      }
    }
  }
  return *stop ? 2 : 0;
}
