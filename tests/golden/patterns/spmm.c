typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

// patterns
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int64_t shares = threads > 1 ? 8 * threads : 1;
  const int64_t n0_size = sizes[2];
  const int64_t n2_size = sizes[4];
  const int32_t *restrict a0 = arrays[1];
  const int32_t *restrict a1_f0 = arrays[2];
  const float *restrict a1_f1 = arrays[3];
  const float *restrict a2 = arrays[4];
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
            const int32_t a0_val = a0[i];
            const int32_t a0_val_2 = a0[i + 1];
            for (int64_t i_2 = 0; i_2 < n2_size; i_2++) {
              float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
              for (int64_t i_3 = a0_val; i_3 < a0_val_2; i_3++) {
                const int64_t j = a1_f0[i_3 * 2];
                sum += a1_f1[i_3 * 2 + 1] * a2[n2_size * j + i_2];
              }
              r[n2_size * i + i_2] = sum;
            }
          }
        }
      }
    }
  }
  return *stop ? 2 : 0;
}
