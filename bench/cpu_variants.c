// Loops that a default schedule could become, by hand: SpMV where the vector is larger than a cache,
// and SpMM with four columns. `cpu_variants.py` compiles and compares them; the first of each kind
// is what the default does.

typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef double four __attribute__((vector_size(32)));
typedef double eight __attribute__((vector_size(64)));
typedef double near __attribute__((vector_size(32), aligned(8), may_alias));
typedef int32_t eight_places __attribute__((vector_size(32)));

#define ARGUMENTS                                                                      \
  int64_t threads, int64_t rows, const int32_t *restrict pos, const int32_t *restrict crd, \
      const double *restrict vals, const double *restrict x, double *restrict y

// Every variant is a loop over rows, which threads take in shares; rows are about equally long.
#define BY_SHARES(NAME, ROWS)                                                          \
  void NAME(ARGUMENTS) {                                                               \
    const int64_t shares = threads > 1 ? 8 * threads : 1;                              \
    int64_t next = 0;                                                                  \
    _Pragma("omp parallel for schedule(static, 1) num_threads(threads) if (threads > 1)") \
    for (int64_t part = 0; part < threads; part++)                                     \
      for (int64_t share; (share = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < shares;) \
        ROWS(rows * share / shares, rows * (share + 1) / shares, pos, crd, vals, x, y); \
  }

#define ROWS_ARGUMENTS                                                                 \
  int64_t first, int64_t limit, const int32_t *restrict pos, const int32_t *restrict crd, \
      const double *restrict vals, const double *restrict x, double *restrict y

// -- SpMV ------------------------------------------------------------------------------------

#if defined __AVX512F__ && defined __AVX512VL__
static inline eight product(const double *vals, const int32_t *crd, const double *x, int64_t left) {
  const uint8_t mask = left < 8 ? (uint8_t)((1u << left) - 1) : 255;
  const eight_places none = {0};
  const eight_places places = __builtin_ia32_loaddqusi256_mask((const void *)crd, none, mask);
  const eight taken = __builtin_ia32_gathersiv8df((eight){0}, x, places, mask, 8);
  return __builtin_ia32_loadupd512_mask(vals, (eight){0}, mask) * taken;
}

static inline double total(eight lanes) {
  double sum = 0;
  for (int n = 0; n < 4; n++) sum += lanes[n] + lanes[n + 4];
  return sum;
}

// `AHEAD`: entries between asking for an element of x and using it; `ASK` says for which cache.
// `STREAM`: entries by which those of the matrix are asked for, so that they pass the second cache.
#define MASKED(NAME, AHEAD, LEVEL, STREAM)                                             \
  static void NAME##_rows(ROWS_ARGUMENTS) {                                            \
    const int64_t last = pos[limit] - 8;                                               \
    for (int64_t i = first; i < limit; i++) {                                          \
      eight lanes = {0};                                                               \
      for (int64_t p = pos[i]; p < pos[i + 1]; p += 8) {                               \
        lanes += product(&vals[p], &crd[p], x, pos[i + 1] - p);                        \
        if (AHEAD && p + AHEAD < last) {                                               \
          _Pragma("GCC unroll 8") for (int n = 0; n < 8; n++)                          \
            __builtin_prefetch(&x[crd[p + AHEAD + n]], 0, LEVEL);                      \
        }                                                                              \
        if (STREAM) {                                                                  \
          __builtin_prefetch(&vals[p + STREAM], 0, 0);                                 \
          __builtin_prefetch(&crd[p + STREAM], 0, 0);                                  \
        }                                                                              \
      }                                                                                \
      y[i] = total(lanes);                                                             \
    }                                                                                  \
  }                                                                                    \
  BY_SHARES(NAME, NAME##_rows)

MASKED(spmv_masked, 0, 0, 0)
MASKED(spmv_ahead_16, 16, 3, 0)
MASKED(spmv_ahead_32, 32, 3, 0)
MASKED(spmv_ahead_64, 64, 3, 0)
MASKED(spmv_ahead_128_second_cache, 128, 2, 0)
MASKED(spmv_streams_past_second_cache, 0, 0, 128)
MASKED(spmv_ahead_32_streams_past, 32, 3, 128)
#endif

static void spmv_scalar_rows(ROWS_ARGUMENTS) {
  for (int64_t i = first; i < limit; i++) {
    double sum = 0;
    for (int64_t p = pos[i]; p < pos[i + 1]; p++) sum += vals[p] * x[crd[p]];
    y[i] = sum;
  }
}
BY_SHARES(spmv_scalar, spmv_scalar_rows)

// -- SpMM with four columns --------------------------------------------------------------------

#define TERM(p) (vals[p] * (four) * (const near *)&x[(int64_t)crd[p] * 4])

// One chain of additions per row.
static void spmm_one_rows(ROWS_ARGUMENTS) {
  for (int64_t i = first; i < limit; i++) {
    four sum = {0};
    for (int64_t p = pos[i]; p < pos[i + 1]; p++) sum += TERM(p);
    *(near *)&y[i * 4] = sum;
  }
}
BY_SHARES(spmm_one, spmm_one_rows)

// Two chains that take turns, without a remainder.
static void spmm_turns_rows(ROWS_ARGUMENTS) {
  for (int64_t i = first; i < limit; i++) {
    four sum = {0}, other = {0};
    for (int64_t p = pos[i]; p < pos[i + 1]; p++) {
      const four next = sum + TERM(p);
      sum = other;
      other = next;
    }
    *(near *)&y[i * 4] = sum + other;
  }
}
BY_SHARES(spmm_turns, spmm_turns_rows)

// `CHAINS` chains, then the rest of the row in the first.
#define CHAINED(NAME, CHAINS)                                                          \
  static void NAME##_rows(ROWS_ARGUMENTS) {                                            \
    for (int64_t i = first; i < limit; i++) {                                          \
      four sums[CHAINS] = {0}, sum = {0};                                              \
      int64_t p = pos[i];                                                              \
      for (; p + CHAINS <= pos[i + 1]; p += CHAINS) {                                  \
        _Pragma("GCC unroll 8") for (int n = 0; n < CHAINS; n++) sums[n] += TERM(p + n); \
      }                                                                                \
      for (; p < pos[i + 1]; p++) sum += TERM(p);                                      \
      for (int n = 0; n < CHAINS; n++) sum += sums[n];                                 \
      *(near *)&y[i * 4] = sum;                                                        \
    }                                                                                  \
  }                                                                                    \
  BY_SHARES(NAME, NAME##_rows)

CHAINED(spmm_two, 2)
CHAINED(spmm_four, 4)
