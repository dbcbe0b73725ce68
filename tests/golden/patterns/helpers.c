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

// Where part `part` of `parts` of a loop over [begin, end) begins.
static int64_t cut_even(int64_t begin, int64_t end, int64_t part, int64_t parts) {
  const int64_t count = end > begin ? end - begin : 0;
  const int64_t rest = count % parts;
  return begin + count / parts * part + (part < rest ? part : rest);
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
#ifdef SLOW_GATHERS
  __builtin_prefetch(from + 16 * 16);
#endif
  __builtin_memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
static inline masked_float32 gather_all_float32(const float *from, const int32_t *at) {
#ifdef SLOW_GATHERS
  __builtin_prefetch(at + 16 * 16);
  return (masked_float32){from[at[0]], from[at[1]], from[at[2]], from[at[3]], from[at[4]], from[at[5]], from[at[6]], from[at[7]], from[at[8]], from[at[9]], from[at[10]], from[at[11]], from[at[12]], from[at[13]], from[at[14]], from[at[15]]};
#else
  const masked_float32 none = {0};
  places_float32 places;
  __builtin_memcpy(&places, at, sizeof places);
  return __builtin_ia32_gathersiv16sf(none, from, places, (mask_float32)-1, sizeof(float));
#endif
}
static inline masked_float32 take_float32(const float *from, int64_t on) {
  const masked_float32 none = {0};
  return __builtin_ia32_loadups512_mask(from, none, (mask_float32)((1u << on) - 1));
}
static inline masked_float32 gather_float32(const float *from, const int32_t *at, int64_t on) {
  const mask_float32 mask = (mask_float32)((1u << on) - 1);
  const places_float32 nowhere = {0};
  const places_float32 places =
      __builtin_ia32_loaddqusi512_mask((const void *)at, nowhere, mask);
#ifdef SLOW_GATHERS
  typedef int32_t lanes_float32 __attribute__((vector_size(64)));
  const lanes_float32 used = (lanes_float32){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} < (int32_t)on;
  int32_t known[16];
  __builtin_memcpy(known, &places, sizeof known);
  return (masked_float32)((lanes_float32)gather_all_float32(from, known) & used);
#else
  const masked_float32 none = {0};
  return __builtin_ia32_gathersiv16sf(none, from, places, mask, sizeof(float));
#endif
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
static int64_t cut_int64(const int64_t *pos, int64_t begin, int64_t end, int64_t part,
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

// NaN wins, as in NumPy.
static inline float max_float32(float a, float b) {
  return a > b || a != a ? a : b;
}

// The lanes of a vector are combined as elements are: NaN wins.
#pragma omp declare reduction(lanes_max_float32 : float : \
  omp_out = max_float32(omp_out, omp_in)) initializer(omp_priv = -__builtin_inff())

#if defined __FMA__ || defined __aarch64__
// exp(x) = 2^n (1 + rest + rest^2 series + lost); n are the last bits of `shifted`.
static inline void exp_parts_float32(float x, float *shifted, float *rest, float *series,
                                   float *lost) {
  *shifted = __builtin_fmaf(x, 0x1.715476p0f, 0x1.8p23f);
  const float whole = *shifted - 0x1.8p23f;
  const float high = __builtin_fmaf(-whole, 0x1.62ep-1f, x);
  const float r = __builtin_fmaf(-whole, 0x1.0bfbe8p-15f, high);
  float sum = 0.000198910781286f;
  sum = __builtin_fmaf(sum, r, 0.00139337286128f);
  sum = __builtin_fmaf(sum, r, 0.00833331084676f);
  sum = __builtin_fmaf(sum, r, 0.0416664642164f);
  sum = __builtin_fmaf(sum, r, 0.166666666817f);
  sum = __builtin_fmaf(sum, r, 0.5f);
  *rest = r;
  *series = sum;
  const float less = __builtin_fmaf(-whole, 0x1.0bfbe8p-15f, high - r);
  *lost = __builtin_fmaf(less, r, less);  // times exp(r), about
}
#endif

// exp, where processors fuse; within 0.8 units in the last place, 0.6 but for subnormals.
static inline float exp_float32(float x) {
#if defined __FMA__ || defined __aarch64__
  x = x > 89.0f ? 89.0f : x;
  x = x < -105.0f ? -105.0f : x;
  float shifted, rest, series, lost;
  exp_parts_float32(x, &shifted, &rest, &series, &lost);
  const float tail = __builtin_fmaf(rest * rest, series, lost);
  const float one = 1 + rest;
  const float result = one + (rest - (one - 1) + tail);
  // The power in two halves: each is a normal number where the whole is not.
  union { float number; uint32_t bits; } a, b;
  a.number = shifted;
  a.bits += 2 * 127;
  b.bits = (a.bits - (a.bits >> 1)) << 23;
  a.bits = (a.bits >> 1) << 23;
  return result * a.number * b.number;
#else
  return __builtin_expf(x);
#endif
}
