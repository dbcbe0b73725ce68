typedef __INT32_TYPE__ int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__ int64_t;

// patterns
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int64_t shares = threads > 1 ? 8 * threads : 1;
  const int64_t n0_size = sizes[2];
  const int32_t *restrict a0 = arrays[1];
  const float *restrict a1 = arrays[2];
  float *restrict r = arrays[3];
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
          for (int64_t i = i_run; i < i_run_end; i++) {
            float sum = -__builtin_inff();
            int64_t i_2_rest = a0[i];
            if (a0[i + 1] - a0[i] >= 256) {
              const int64_t i_2_each = (a0[i + 1] - a0[i]) / 4;
              float sum1 = -__builtin_inff();
              float sum2 = -__builtin_inff();
              float sum3 = -__builtin_inff();
              // 4 ranges at once
#pragma omp simd reduction(lanes_max_float32 : sum) reduction(lanes_max_float32 : sum1) reduction(lanes_max_float32 : sum2) reduction(lanes_max_float32 : sum3)
              for (int64_t i_2 = a0[i]; i_2 < a0[i] + i_2_each; i_2++) {
                sum = max_float32(sum, a1[i_2]);
                sum1 = max_float32(sum1, a1[i_2 + i_2_each]);
                sum2 = max_float32(sum2, a1[i_2 + i_2_each * 2]);
                sum3 = max_float32(sum3, a1[i_2 + i_2_each * 3]);
              }
              sum = max_float32(sum, sum1);
              sum = max_float32(sum, sum2);
              sum = max_float32(sum, sum3);
              i_2_rest = a0[i] + i_2_each * 4;
            }
#pragma omp simd reduction(lanes_max_float32 : sum)
            for (int64_t i_2 = i_2_rest; i_2 < a0[i + 1]; i_2++) {
              sum = max_float32(sum, a1[i_2]);
            }
            float sum_2 = 0.0f;
#pragma omp simd simdlen(16) reduction(+ : sum_2)
            for (int64_t i_3 = a0[i]; i_3 < a0[i + 1]; i_3++) {
              sum_2 += exp_float32(a1[i_3] - sum);
            }
#pragma omp simd simdlen(16)
            for (int64_t i_4 = a0[i]; i_4 < a0[i + 1]; i_4++) {
              r[i_4] = exp_float32(a1[i_4] - sum) / sum_2;
            }
          }
        }
      }
    }
  }
  return *stop ? 2 : 0;
}
