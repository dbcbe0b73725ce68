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

// As many elements as the processor has lanes for: 64, 32 or 16 bytes.
#if defined __AVX512F__
#define LANES_float64 (64 / (int64_t)sizeof(double))
#elif defined __AVX__
#define LANES_float64 (32 / (int64_t)sizeof(double))
#else
#define LANES_float64 (16 / (int64_t)sizeof(double))
#endif
typedef double vector_float64 __attribute__((vector_size(LANES_float64 * sizeof(double))));
// The same anywhere in an array.
typedef vector_float64 near_float64 __attribute__((aligned(sizeof(double)), may_alias));

// The sum of all lanes of some vectors.
static inline double sum_float64(const vector_float64 *vectors, int64_t count) {
  vector_float64 lanes = vectors[0];
#pragma GCC unroll 16
  for (int64_t n = 1; n < count; n++) lanes += vectors[n];
  typedef double part __attribute__((vector_size(16)));
  part parts[sizeof lanes / 16];
  __builtin_memcpy(parts, &lanes, sizeof lanes);
#pragma GCC unroll 2
  for (int64_t half = sizeof lanes / 32; half; half /= 2)
#pragma GCC unroll 2
    for (int64_t n = 0; n < half; n++) parts[n] += parts[n + half];
#if defined __aarch64__ && !defined __clang__
  return __builtin_aarch64_reduc_plus_scal_v2df(parts[0]);  // which gcc does not find by itself
#else
  double sum = parts[0][0];
#pragma GCC unroll 4
  for (int64_t n = 1; n < 16 / (int64_t)sizeof(double); n++) sum += parts[0][n];
  return sum;
#endif
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

// forall i:  [CPUThread, NoRaces]
//   forall j:  [prefetch C[j, k] 6 ahead]
//     Y(i,j) = w * A(i,j)
//     where
//       forall k1:  [CPUVector, ParallelReduction; unroll]
//         w += w1(k1)
//       where
//         forall k0:
//           forall k1w:  [unroll]
//             w1(k1w) += B(i,k) * C(j,k)
// such that split(k, k0, k1, 8),
//   precompute(k1, k1w)
// In the code, Y is R, w is W, w1 is X, k1w is k1_2.
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
  const double *restrict C_vals = arrays[5];
  double *restrict R_vals = arrays[6];
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
        // every i
        for (int64_t i = i_first; i < i_limit; i++) {
          if (*stop) break;
          // stored j of A
          for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
            const int64_t j = A_crd2[pA2];
            double W_sum = 0.0;
            vector_float64 X_vals[8 / LANES_float64];
            // clear
#pragma GCC unroll 8
            for (int64_t X_at = 0; X_at < 8; X_at += LANES_float64) {
              X_vals[X_at / LANES_float64] = -(vector_float64){0};
            }
            const int64_t k0_end = (k_size + 7) / 8;
            const int64_t k0_full = k_size / 8;
            // complete runs
            for (int64_t k0 = 0; k0 < k0_full; k0++) {
              const int64_t k_lo_2 = k0 * 8;
              // k of this run
#pragma GCC unroll 8
              for (int64_t k_at = 0; k_at < 8; k_at += LANES_float64) {
                const int64_t k = k_lo_2 + k_at;
                X_vals[k_at / LANES_float64] += *(const near_float64 *)&B_vals[i * k_size + k] * *(const near_float64 *)&C_vals[j * k_size + k];
              }
            }
            // the rest
            for (int64_t k0 = k0_full; k0 < k0_end; k0++) {
              const int64_t k_lo = k0 * 8;
              // k of this run
#pragma GCC unroll 8
              for (int64_t k_at = 0; k_at < 8; k_at++) {
                const int64_t k = k_lo + k_at;
                if (k < k_size) {
                  X_vals[k_at / LANES_float64][k_at % LANES_float64] += B_vals[i * k_size + k] * C_vals[j * k_size + k];
                }
              }
            }
            W_sum += sum_float64(X_vals, 8 / LANES_float64);
            R_vals[pA2] = W_sum * A_vals[pA2];
            const int64_t j_ahead = A_crd2[lesser(pA2 + 6, A2_size - 1)];
            ask_for_lines(&C_vals[j_ahead * k_size], 4);
          }
        }
      }
    }
  }
  return *stop ? 2 : 0;
}
