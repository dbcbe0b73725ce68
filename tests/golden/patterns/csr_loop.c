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

// Where part `part` of `parts` of a loop over [begin, end) begins.
static int64_t cut_even(int64_t begin, int64_t end, int64_t part, int64_t parts) {
  const int64_t count = end > begin ? end - begin : 0;
  const int64_t rest = count % parts;
  return begin + count / parts * part + (part < rest ? part : rest);
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
    // threads take contiguous shares
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
      int64_t i_turn = 0, i_share;
      while ((i_share = next_share(i_taken, threads, shares, part, &i_turn)) >= 0) {
        const int64_t i_first = cut_even(0, n0_size, i_share, shares);
        const int64_t i_limit = cut_even(0, n0_size, i_share + 1, shares);
        for (int64_t i_run = i_first; i_run < i_limit; i_run += 512) {
          if (*stop) break;
          const int64_t i_run_end = lesser(i_run + 512, i_limit);
          for (int64_t i = i_run; i < i_run_end; i++) {
            int64_t before = 0;
            for (int64_t k = 0; k < i; k++) {
              before += (int64_t)a0[k + 1] - (int64_t)a0[k];
            }
            float sum = 0.0f;
            {
              masked_float32 sum_lanes = {0};
              const int64_t i_2_whole = before + (int64_t)a0[i + 1] - (int64_t)a0[i] - ((before + (int64_t)a0[i + 1] - (int64_t)a0[i] - before) & (LANES_masked_float32 - 1));
              SUM_MASKED_float32(sum_lanes)
              for (int64_t i_2 = before; i_2 < i_2_whole; i_2 += LANES_masked_float32) {
                sum_lanes += all_float32(&a2[i_2]) * gather_all_float32(a3, &a1[i_2]);
              }
              if (i_2_whole < before + (int64_t)a0[i + 1] - (int64_t)a0[i]) {
                const int64_t i_2 = i_2_whole, i_2_left = before + (int64_t)a0[i + 1] - (int64_t)a0[i] - i_2;
                sum_lanes += take_float32(&a2[i_2], i_2_left) * gather_float32(a3, &a1[i_2], i_2_left);
              }
              sum += sum_masked_float32(sum_lanes);
            }
            r[i] = sum;
          }
        }
      }
    }
  }
  return *stop ? 2 : 0;
}
