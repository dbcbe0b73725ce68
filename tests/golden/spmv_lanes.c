typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

#if defined __AVX512F__ && defined __AVX512VL__
// Vectors whose lanes from `on` on are zero, and whose memory is not touched.
typedef double masked_float64 __attribute__((vector_size(64)));
typedef int32_t places_float64 __attribute__((vector_size(8 * sizeof(int32_t))));
typedef unsigned char mask_float64;
#define LANES_masked_float64 8
#define SUM_MASKED_float64(name)
static inline mask_float64 first_lanes_float64(int64_t on) {
  return on < 8 ? (mask_float64)((1u << on) - 1) : (mask_float64)-1;
}
static inline masked_float64 take_float64(const double *from, int64_t on) {
  return __builtin_ia32_loadupd512_mask(from, (masked_float64){0}, first_lanes_float64(on));
}
static inline masked_float64 gather_float64(const double *from, const int32_t *at, int64_t on) {
  const mask_float64 mask = first_lanes_float64(on);
  const places_float64 none = {0};
  const places_float64 places =
      __builtin_ia32_loaddqusi256_mask((const void *)at, none, mask);
  return __builtin_ia32_gathersiv8df((masked_float64){0}, from, places, mask, sizeof(double));
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

// forall i:
//   forall j:  [CPUVector, ParallelReduction]
//     R(i) += A(i,j) * B(j)
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t i_size = sizes[2];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const double *restrict B_vals = arrays[4];
  double *restrict R_vals = arrays[5];
  // every i
  for (int64_t i = 0; i < i_size; i++) {
    if (!(i & 511) && *stop) break;
    double R_sum = 0.0;
    // stored j of A
    {
      masked_float64 R_sum_lanes = {0};
      SUM_MASKED_float64(R_sum_lanes)
      for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2 += LANES_masked_float64) {
        const int64_t pA2_left = A_pos2[i + 1] - pA2;
        R_sum_lanes += take_float64(&A_vals[pA2], pA2_left) * gather_float64(B_vals, &A_crd2[pA2], pA2_left);
      }
      R_sum += sum_masked_float64(R_sum_lanes);
    }
    R_vals[i] = R_sum;
  }
  return *stop ? 2 : 0;
}
