typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

static inline int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

#if defined __AVX512F__ && defined __AVX512VL__
// Vectors whose lanes from `on` on are zero, and whose memory is not touched.
typedef double masked_float64 __attribute__((vector_size(64)));
typedef int32_t places_float64 __attribute__((vector_size(8 * sizeof(int32_t))));
typedef unsigned char mask_float64;
#define LANES_masked_float64 8
#define SUM_MASKED_float64(name)
// Whole vectors, and the first `on` lanes of one.
static inline masked_float64 all_float64(const double *from) {
  masked_float64 lanes;
#ifdef SLOW_GATHERS
  __builtin_prefetch(from + 16 * 8);
#endif
  __builtin_memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
static inline masked_float64 gather_all_float64(const double *from, const int32_t *at) {
#ifdef SLOW_GATHERS
  __builtin_prefetch(at + 16 * 8);
  return (masked_float64){from[at[0]], from[at[1]], from[at[2]], from[at[3]], from[at[4]], from[at[5]], from[at[6]], from[at[7]]};
#else
  const masked_float64 none = {0};
  places_float64 places;
  __builtin_memcpy(&places, at, sizeof places);
  return __builtin_ia32_gathersiv8df(none, from, places, (mask_float64)-1, sizeof(double));
#endif
}
static inline masked_float64 take_float64(const double *from, int64_t on) {
  const masked_float64 none = {0};
  return __builtin_ia32_loadupd512_mask(from, none, (mask_float64)((1u << on) - 1));
}
static inline masked_float64 gather_float64(const double *from, const int32_t *at, int64_t on) {
  const mask_float64 mask = (mask_float64)((1u << on) - 1);
  const places_float64 nowhere = {0};
  const places_float64 places =
      __builtin_ia32_loaddqusi256_mask((const void *)at, nowhere, mask);
#ifdef SLOW_GATHERS
  typedef int64_t lanes_float64 __attribute__((vector_size(64)));
  const lanes_float64 used = (lanes_float64){0, 1, 2, 3, 4, 5, 6, 7} < (int64_t)on;
  int32_t known[8];
  __builtin_memcpy(known, &places, sizeof known);
  return (masked_float64)((lanes_float64)gather_all_float64(from, known) & used);
#else
  const masked_float64 none = {0};
  return __builtin_ia32_gathersiv8df(none, from, places, mask, sizeof(double));
#endif
}
static inline double sum_masked_float64(masked_float64 lanes) {
  typedef double half __attribute__((vector_size(32)));
  typedef double quarter __attribute__((vector_size(16)));
  half halves[2];
  __builtin_memcpy(halves, &lanes, sizeof lanes);
  halves[0] += halves[1];
  quarter quarters[2];
  __builtin_memcpy(quarters, halves, sizeof *halves);
  quarters[0] += quarters[1];
  return quarters[0][0] + quarters[0][1];
}
#else
// Without masks: one lane, which compilers may turn into several.
typedef double masked_float64;
#define LANES_masked_float64 1
#define PRAGMA_MASKED_float64(text) _Pragma(#text)
#define SUM_MASKED_float64(name) PRAGMA_MASKED_float64(omp simd reduction(+ : name))
static inline double all_float64(const double *from) { return *from; }
static inline double gather_all_float64(const double *from, const int32_t *at) { return from[*at]; }
static inline double take_float64(const double *from, int64_t on) {
  (void)on;
  return *from;
}
static inline double gather_float64(const double *from, const int32_t *at, int64_t on) {
  (void)on;
  return from[*at];
}
static inline double sum_masked_float64(double lanes) { return lanes; }
#endif

#if defined __AVX512F__ && defined __AVX512VL__
#if defined __clang__ || __GNUC__ >= 12
#define PICK_float64(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK_float64(a, b, ...) __builtin_shuffle(a, b, (picks_float64){__VA_ARGS__})
#endif
typedef double eight_float64 __attribute__((vector_size(8 * sizeof(double))));
typedef int64_t picks_float64 __attribute__((vector_size(8 * sizeof(double))));
// The sum of the lanes of each of eight vectors: neighbours, then pairs, then halves.
static inline void sum_rows_float64(const masked_float64 *rows, double *sums) {
  eight_float64 pairs[4], fours[2];
#pragma GCC unroll 4
  for (int64_t n = 0; n < 4; n++) {
    const eight_float64 a = rows[2 * n], b = rows[2 * n + 1];
    pairs[n] = PICK_float64(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
               PICK_float64(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
  }
#pragma GCC unroll 2
  for (int64_t n = 0; n < 2; n++)
    fours[n] = PICK_float64(pairs[2 * n], pairs[2 * n + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
               PICK_float64(pairs[2 * n], pairs[2 * n + 1], 2, 3, 10, 11, 6, 7, 14, 15);
  const eight_float64 all = PICK_float64(fours[0], fours[1], 0, 1, 2, 3, 8, 9, 10, 11) +
                          PICK_float64(fours[0], fours[1], 4, 5, 6, 7, 12, 13, 14, 15);
  __builtin_memcpy(sums, &all, sizeof all);
}
#else
static inline void sum_rows_float64(const masked_float64 *rows, double *sums) {
  for (int64_t n = 0; n < 8; n++) sums[n] = rows[n];
}
#endif

// forall i:
//   forall j:  [CPUVector, ParallelReduction]
//     y(i) += A(i,j) * x(j)
// In the code, y is R, x is B.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t i_size = sizes[2];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const double *restrict B_vals = arrays[4];
  double *restrict R_vals = arrays[5];
  // every i
  for (int64_t i_run = 0; i_run < i_size; i_run += 512) {
    if (*stop) break;
    const int64_t i_run_end = lesser(i_run + 512, i_size);
    for (int64_t i_group = i_run; i_group < i_run_end; i_group += 8) {
      masked_float64 i_rows[8];
#ifndef SLOW_GATHERS
#pragma GCC unroll 8
#endif
      for (int64_t i_row = 0; i_row < 8; i_row++) {
        masked_float64 R_sum_lanes = {0};
        if (i_group + i_row < i_run_end) {
          const int64_t i = i_group + i_row;
          const int64_t pA2_whole = A_pos2[i + 1] - ((A_pos2[i + 1] - A_pos2[i]) & (LANES_masked_float64 - 1));
          SUM_MASKED_float64(R_sum_lanes)
          for (int64_t pA2 = A_pos2[i]; pA2 < pA2_whole; pA2 += LANES_masked_float64) {
            R_sum_lanes += all_float64(&A_vals[pA2]) * gather_all_float64(B_vals, &A_crd2[pA2]);
          }
          if (pA2_whole < A_pos2[i + 1]) {
            const int64_t pA2 = pA2_whole, pA2_left = A_pos2[i + 1] - pA2;
            R_sum_lanes += take_float64(&A_vals[pA2], pA2_left) * gather_float64(B_vals, &A_crd2[pA2], pA2_left);
          }
        }
        i_rows[i_row] = R_sum_lanes;
      }
      double i_sums[8];
      sum_rows_float64(i_rows, i_sums);
      for (int64_t i_row = 0; i_row < 8 && i_group + i_row < i_run_end; i_row++) {
        const int64_t i = i_group + i_row;
        const double R_sum = i_sums[i_row];
        R_vals[i] = R_sum;
      }
    }
  }
  return *stop ? 2 : 0;
}
