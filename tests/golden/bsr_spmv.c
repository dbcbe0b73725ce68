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

// Bring some lines of 64 bytes closer; asking for what is not there does no harm.
static inline void ask_for_lines(const void *at, int32_t lines) {
#ifdef __aarch64__
  // Some cores ignore a prefetch whose address is a sum of two registers.
  __asm__("" : "+r"(at));
#endif
#pragma GCC unroll 16
  for (int32_t n = 0; n < lines; n++)
    __builtin_prefetch((const void *)((__UINTPTR_TYPE__)at + 64 * (__UINTPTR_TYPE__)n));
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

// forall ib:  [CPUThread, NoRaces]
//   forall jb:
//     forall ii:
//       forall jj:
//         y(ib,ii) += A(ib,ii,jb,jj) * x(jb,jj)
// In the code, y is R, x is B, ib is i, jb is j, ii is k, jj is l.
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
  const int64_t A2_size = A_pos2[i_size];
  {
    taken_shares i_taken[threads];
    for (int64_t part = 0; part < threads; part++) i_taken[part].count = 0;
    // threads take contiguous shares with equal work
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
      int64_t i_turn = 0, i_share;
      while ((i_share = next_share(i_taken, threads, shares, part, &i_turn)) >= 0) {
        const int64_t i_first = cut_int32(A_pos2, 0, i_size, i_share, shares);
        const int64_t i_limit = cut_int32(A_pos2, 0, i_size, i_share + 1, shares);
        // every ib
        for (int64_t i_run = i_first; i_run < i_limit; i_run += 512) {
          if (*stop) break;
          const int64_t i_run_end = lesser(i_run + 512, i_limit);
          for (int64_t i = i_run; i < i_run_end; i++) {
            double R_sums3[3];
#pragma GCC unroll 3
            for (int64_t k = 0; k < 3; k++) {
              R_sums3[k] = 0.0;
            }
            // stored jb of A
            for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
              const int64_t j = A_crd2[pA2];
#pragma GCC unroll 3
              for (int64_t k = 0; k < 3; k++) {
                // every jj
#pragma GCC unroll 3
                for (int64_t l = 0; l < 3; l++) {
                  R_sums3[k] += A_vals[(pA2 * 3 + k) * 3 + l] * B_vals[j * 3 + l];
                }
              }
              ask_for_lines(&A_vals[lesser(pA2 + 28, A2_size - 1) * 3 * 3], 2);
            }
#pragma GCC unroll 3
            for (int64_t k = 0; k < 3; k++) {
              R_vals[i * 3 + k] = R_sums3[k];
            }
          }
        }
      }
    }
  }
  return *stop ? 2 : 0;
}
