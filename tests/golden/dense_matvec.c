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

// Where part `part` of `parts` of a loop over [begin, end) begins.
static int64_t cut_even(int64_t begin, int64_t end, int64_t part, int64_t parts) {
  const int64_t count = end > begin ? end - begin : 0;
  const int64_t rest = count % parts;
  return begin + count / parts * part + (part < rest ? part : rest);
}

// forall i:  [CPUThread, NoRaces]
//   forall j1:  [CPUVector, ParallelReduction; unroll]
//     y(i) += w(j1)
//   where
//     forall j0:
//       forall j1w:  [unroll]
//         w(j1w) += A(i,j) * x(j)
// such that split(j, j0, j1, 8),
//   precompute(j1, j1w)
// In the code, y is R, x is B, w is W, j1w is j1_2.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int64_t shares = threads > 1 ? 8 * threads : 1;
  const int64_t i_size = sizes[2];
  const int64_t j_size = sizes[3];
  const double *restrict A_vals = arrays[1];
  const double *restrict B_vals = arrays[2];
  double *restrict R_vals = arrays[3];
  {
    taken_shares i_taken[threads];
    for (int64_t part = 0; part < threads; part++) i_taken[part].count = 0;
    // threads take contiguous shares
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
      int64_t i_turn = 0, i_share;
      while ((i_share = next_share(i_taken, threads, shares, part, &i_turn)) >= 0) {
        const int64_t i_first = cut_even(0, i_size, i_share, shares);
        const int64_t i_limit = cut_even(0, i_size, i_share + 1, shares);
        // every i
        for (int64_t i_run = i_first; i_run < i_limit; i_run += 512) {
          if (*stop) break;
          const int64_t i_run_end = lesser(i_run + 512, i_limit);
          for (int64_t i = i_run; i < i_run_end; i++) {
            vector_float64 W_vals[8 / LANES_float64];
            // clear
#pragma GCC unroll 8
            for (int64_t W_at = 0; W_at < 8; W_at += LANES_float64) {
              W_vals[W_at / LANES_float64] = -(vector_float64){0};
            }
            const int64_t j0_end = (j_size + 7) / 8;
            const int64_t j0_full = j_size / 8;
            // complete runs
            for (int64_t j0 = 0; j0 < j0_full; j0++) {
              const int64_t j_lo_2 = j0 * 8;
              // j of this run
#pragma GCC unroll 8
              for (int64_t j_at = 0; j_at < 8; j_at += LANES_float64) {
                const int64_t j = j_lo_2 + j_at;
                W_vals[j_at / LANES_float64] += *(const near_float64 *)&A_vals[i * j_size + j] * *(const near_float64 *)&B_vals[j];
              }
            }
            // the rest
            for (int64_t j0 = j0_full; j0 < j0_end; j0++) {
              const int64_t j_lo = j0 * 8;
              // j of this run
#pragma GCC unroll 8
              for (int64_t j_at = 0; j_at < 8; j_at++) {
                const int64_t j = j_lo + j_at;
                if (j < j_size) {
                  W_vals[j_at / LANES_float64][j_at % LANES_float64] += A_vals[i * j_size + j] * B_vals[j];
                }
              }
            }
            double R_sum = 0.0;
            R_sum += sum_float64(W_vals, 8 / LANES_float64);
            R_vals[i] = R_sum;
          }
        }
      }
    }
  }
  return *stop ? 2 : 0;
}
