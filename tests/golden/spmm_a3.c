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

// forall i0:  [CPUThread, NoRaces]
//   forall i1:
//     forall jpos0:
//       forall k:  [CPUVector, IgnoreRaces]
//         forall jpos1:
//           Y(i,k) += A(i,j) * X(j,k)
// such that split(i, i0, i1, 8),
//   pos(j, jpos, A[i, j]),
//   split(jpos, jpos0, jpos1, 8)
// In the code, Y is R, X is B, jpos is p, jpos0 is p0, jpos1 is p1.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int64_t shares = threads > 1 ? 8 * threads : 1;
  const int64_t i_size = sizes[2];
  const int64_t k_size = sizes[4];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const double *restrict B_vals = arrays[4];
  double *restrict R_vals = arrays[5];
  {
    taken_shares i0_taken[threads];
    for (int64_t part = 0; part < threads; part++) i0_taken[part].count = 0;
    // threads take contiguous shares with equal work
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
      int64_t i0_turn = 0, i0_share;
      while ((i0_share = next_share(i0_taken, threads, shares, part, &i0_turn)) >= 0) {
        const int64_t i0_first = (cut_int32(A_pos2, 0, i_size, i0_share, shares) + 7) / 8;
        const int64_t i0_limit = (cut_int32(A_pos2, 0, i_size, i0_share + 1, shares) + 7) / 8;
        for (int64_t i0 = i0_first; i0 < i0_limit; i0++) {
          if (*stop) break;
          const int64_t i_lo = i0 * 8;
          const int64_t i_hi = lesser(i_lo + 8, i_size);
          // i of this run
          for (int64_t i = i_lo; i < i_hi; i++) {
            const int64_t pA2_begin = A_pos2[i];
            const int64_t pA2_end = A_pos2[i + 1];
            const int64_t p0_end = (pA2_end - pA2_begin + 7) / 8;
            const int64_t p0_full = (pA2_end - pA2_begin) / 8;
            // complete runs
            for (int64_t p0 = 0; p0 < p0_full; p0++) {
              const int64_t p_lo_2 = pA2_begin + p0 * 8;
              // every k
#pragma omp simd
              for (int64_t k = 0; k < k_size; k++) {
                double R_sum_2 = R_vals[i * k_size + k];
                // stored j of A
                for (int64_t pA2_at = 0; pA2_at < 8; pA2_at++) {
                  const int64_t pA2 = p_lo_2 + pA2_at;
                  const int64_t j = A_crd2[pA2];
                  R_sum_2 += A_vals[pA2] * B_vals[j * k_size + k];
                }
                R_vals[i * k_size + k] = R_sum_2;
              }
            }
            // the rest
            for (int64_t p0 = p0_full; p0 < p0_end; p0++) {
              const int64_t p_lo = pA2_begin + p0 * 8;
              // every k
#pragma omp simd
              for (int64_t k = 0; k < k_size; k++) {
                double R_sum = R_vals[i * k_size + k];
                // stored j of A
                for (int64_t pA2 = p_lo; pA2 < pA2_end; pA2++) {
                  const int64_t j = A_crd2[pA2];
                  R_sum += A_vals[pA2] * B_vals[j * k_size + k];
                }
                R_vals[i * k_size + k] = R_sum;
              }
            }
          }
        }
      }
    }
  }
  return *stop ? 2 : 0;
}
