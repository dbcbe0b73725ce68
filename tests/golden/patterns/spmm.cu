typedef int int32_t;
typedef int index_t;

// patterns
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t n0_size,
    const index_t n2_size,
    const int32_t *__restrict__ a0,
    const int32_t *__restrict__ a1_f0,
    const float *__restrict__ a1_f1,
    const float *__restrict__ a2,
    float *__restrict__ r
) {
  const index_t lane = threadIdx.x;
  const index_t b = blockIdx.x;
  const index_t t = lane;
  const index_t i = b * 256 + t;
  if (i < n0_size) {
    const int32_t a0_val = a0[i];
    const int32_t a0_val_2 = a0[i + 1];
    for (index_t i_2 = 0; i_2 < n2_size; i_2++) {
      float sum = 0.0f;
      for (index_t i_3 = a0_val; i_3 < a0_val_2; i_3++) {
        const index_t j = a1_f0[i_3 * 2];
        sum += a1_f1[i_3 * 2 + 1] * a2[n2_size * j + i_2];
      }
      r[n2_size * i + i_2] = sum;
    }
  }
}
