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

#if defined __AVX512F__ && defined __AVX512VL__
// Vectors whose lanes from `on` on are zero, and whose memory is not touched.
typedef float masked_float32 __attribute__((vector_size(64)));
typedef int32_t places_float32 __attribute__((vector_size(16 * sizeof(int32_t))));
typedef unsigned short mask_float32;
#define LANES_masked_float32 16
#define SUM_MASKED_float32(name)
// Whole vectors, and the first `on` lanes of one.
static inline masked_float32 all_float32(const float *from) {
  masked_float32 lanes;
  __builtin_memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
static inline masked_float32 gather_all_float32(const float *from, const int32_t *at) {
  const masked_float32 none = {0};
  places_float32 places;
  __builtin_memcpy(&places, at, sizeof places);
  return __builtin_ia32_gathersiv16sf(none, from, places, (mask_float32)-1, sizeof(float));
}
static inline masked_float32 take_float32(const float *from, int64_t on) {
  const masked_float32 none = {0};
  return __builtin_ia32_loadups512_mask(from, none, (mask_float32)((1u << on) - 1));
}
static inline masked_float32 gather_float32(const float *from, const int32_t *at, int64_t on) {
  const mask_float32 mask = (mask_float32)((1u << on) - 1);
  const masked_float32 none = {0};
  const places_float32 nowhere = {0};
  const places_float32 places =
      __builtin_ia32_loaddqusi512_mask((const void *)at, nowhere, mask);
  return __builtin_ia32_gathersiv16sf(none, from, places, mask, sizeof(float));
}
static inline float sum_masked_float32(masked_float32 lanes) {
  typedef float half __attribute__((vector_size(32)));
  typedef float quarter __attribute__((vector_size(16)));
  half halves[2];
  __builtin_memcpy(halves, &lanes, sizeof lanes);
  halves[0] += halves[1];
  quarter quarters[2];
  __builtin_memcpy(quarters, halves, sizeof *halves);
  quarters[0] += quarters[1];
  return (quarters[0][0] + quarters[0][1]) + (quarters[0][2] + quarters[0][3]);
}
#else
// Without masks: one lane, which compilers may turn into several.
typedef float masked_float32;
#define LANES_masked_float32 1
#define PRAGMA_MASKED_float32(text) _Pragma(#text)
#define SUM_MASKED_float32(name) PRAGMA_MASKED_float32(omp simd reduction(+ : name))
static inline float all_float32(const float *from) { return *from; }
static inline float gather_all_float32(const float *from, const int32_t *at) { return from[*at]; }
static inline float take_float32(const float *from, int64_t on) {
  (void)on;
  return *from;
}
static inline float gather_float32(const float *from, const int32_t *at, int64_t on) {
  (void)on;
  return from[*at];
}
static inline float sum_masked_float32(float lanes) { return lanes; }
#endif

#if defined __AVX512F__ && defined __AVX512VL__
#if defined __clang__ || __GNUC__ >= 12
#define PICK_float32(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK_float32(a, b, ...) __builtin_shuffle(a, b, (picks_float32){__VA_ARGS__})
#endif
typedef float eight_float32 __attribute__((vector_size(8 * sizeof(float))));
typedef int32_t picks_float32 __attribute__((vector_size(8 * sizeof(float))));
// The sum of the lanes of each of eight vectors: neighbours, then pairs, then halves.
static inline void sum_rows_float32(const masked_float32 *rows, float *sums) {
  eight_float32 pairs[4], fours[2];
#pragma GCC unroll 4
  for (int64_t n = 0; n < 4; n++) {
    eight_float32 halves[4];
    __builtin_memcpy(halves, rows + 2 * n, sizeof halves);
    const eight_float32 a = halves[0] + halves[1], b = halves[2] + halves[3];
    pairs[n] = PICK_float32(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
               PICK_float32(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
  }
#pragma GCC unroll 2
  for (int64_t n = 0; n < 2; n++)
    fours[n] = PICK_float32(pairs[2 * n], pairs[2 * n + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
               PICK_float32(pairs[2 * n], pairs[2 * n + 1], 2, 3, 10, 11, 6, 7, 14, 15);
  const eight_float32 all = PICK_float32(fours[0], fours[1], 0, 1, 2, 3, 8, 9, 10, 11) +
                          PICK_float32(fours[0], fours[1], 4, 5, 6, 7, 12, 13, 14, 15);
  __builtin_memcpy(sums, &all, sizeof all);
}
#else
static inline void sum_rows_float32(const masked_float32 *rows, float *sums) {
  for (int64_t n = 0; n < 8; n++) sums[n] = rows[n];
}
#endif

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

// patterns
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int64_t shares = threads > 1 ? 8 * threads : 1;
  const int64_t n0_size = sizes[2];
  const int32_t *restrict a0 = arrays[1];
  const int32_t *restrict a1 = arrays[2];
  const float *restrict a2 = arrays[3];
  const float *restrict a3 = arrays[4];
  float *restrict r = arrays[5];
  {
    taken_shares i_taken[threads];
    for (int64_t part = 0; part < threads; part++) i_taken[part].count = 0;
    // threads take contiguous shares with equal work
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
      int64_t i_turn = 0, i_share;
      while ((i_share = next_share(i_taken, threads, shares, part, &i_turn)) >= 0) {
        const int64_t i_first = cut_int32(a0, 0, n0_size, i_share, shares);
        const int64_t i_limit = cut_int32(a0, 0, n0_size, i_share + 1, shares);
        for (int64_t i_run = i_first; i_run < i_limit; i_run += 512) {
          if (*stop) break;
          const int64_t i_run_end = lesser(i_run + 512, i_limit);
          for (int64_t i_group = i_run; i_group < i_run_end; i_group += 8) {
            masked_float32 i_rows[8];
#pragma GCC unroll 8
            for (int64_t i_row = 0; i_row < 8; i_row++) {
              masked_float32 sum_lanes = {0};
              if (i_group + i_row < i_run_end) {
                const int64_t i = i_group + i_row;
                const int64_t i_2_whole = a0[i + 1] - ((a0[i + 1] - a0[i]) & (LANES_masked_float32 - 1));
                SUM_MASKED_float32(sum_lanes)
                for (int64_t i_2 = a0[i]; i_2 < i_2_whole; i_2 += LANES_masked_float32) {
                  sum_lanes += all_float32(&a2[i_2]) * gather_all_float32(a3, &a1[i_2]);
                }
                if (i_2_whole < a0[i + 1]) {
                  const int64_t i_2 = i_2_whole, i_2_left = a0[i + 1] - i_2;
                  sum_lanes += take_float32(&a2[i_2], i_2_left) * gather_float32(a3, &a1[i_2], i_2_left);
                }
              }
              i_rows[i_row] = sum_lanes;
            }
            float i_sums[8];
            sum_rows_float32(i_rows, i_sums);
            for (int64_t i_row = 0; i_row < 8 && i_group + i_row < i_run_end; i_row++) {
              const int64_t i = i_group + i_row;
              const float sum = i_sums[i_row];
              r[i] = sum;
            }
          }
        }
      }
    }
  }
  return *stop ? 2 : 0;
}
