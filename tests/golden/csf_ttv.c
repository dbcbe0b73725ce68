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

// forall i:  [CPUThread, NoRaces]
//   forall j:
//     forall k:
//       Y(i,j) += X(i,j,k) * v(k)
// In the code, Y is R, X is A, v is B.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int64_t shares = threads > 1 ? 8 * threads : 1;
  const int32_t *restrict A_pos1 = arrays[2];
  const int32_t *restrict A_pos2 = arrays[4];
  const int32_t *restrict A_crd3 = arrays[5];
  const int32_t *restrict A_pos3 = arrays[6];
  const double *restrict A_vals = arrays[7];
  const double *restrict B_vals = arrays[8];
  double *restrict R_vals = arrays[9];
  {
    taken_shares pA1_taken[threads];
    for (int64_t part = 0; part < threads; part++) pA1_taken[part].count = 0;
    // threads take contiguous shares with equal work
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
      int64_t pA1_turn = 0, pA1_share;
      while ((pA1_share = next_share(pA1_taken, threads, shares, part, &pA1_turn)) >= 0) {
        const int64_t pA1_first = cut_int32(A_pos2, 0, A_pos1[1], pA1_share, shares);
        const int64_t pA1_limit = cut_int32(A_pos2, 0, A_pos1[1], pA1_share + 1, shares);
        // stored i of X
        for (int64_t pA1 = pA1_first; pA1 < pA1_limit; pA1++) {
          if (*stop) break;
          // stored j of X
          for (int64_t pA2 = A_pos2[pA1]; pA2 < A_pos2[pA1 + 1]; pA2++) {
            double R_sum = 0.0;
            // stored k of X
            for (int64_t pA3 = A_pos3[pA2]; pA3 < A_pos3[pA2 + 1]; pA3++) {
              const int64_t k = A_crd3[pA3];
              R_sum += A_vals[pA3] * B_vals[k];
            }
            R_vals[pA2] = R_sum;
          }
        }
      }
    }
  }
  return *stop ? 2 : 0;
}
