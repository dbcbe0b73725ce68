typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

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
#ifndef SLOW_GATHERS
#pragma GCC unroll 8
#endif
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
