typedef int int32_t;
typedef int index_t;

// patterns
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t n0_size,
    const int32_t *__restrict__ a0,
    const float *__restrict__ a1,
    float *__restrict__ r
) {
  const index_t lane = threadIdx.x;
  const index_t b = blockIdx.x;
  const index_t t = lane;
  const index_t i = b * 256 + t;
  if (i < n0_size) {
    float sum = -__int_as_float(0x7f800000);
    for (index_t i_2 = a0[i]; i_2 < a0[i + 1]; i_2++) {
      sum = max_float32(sum, a1[i_2]);
    }
    float sum_2 = 0.0f;
    for (index_t i_3 = a0[i]; i_3 < a0[i + 1]; i_3++) {
      sum_2 += expf(a1[i_3] - sum);
    }
    for (index_t i_4 = a0[i]; i_4 < a0[i + 1]; i_4++) {
      r[i_4] = expf(a1[i_4] - sum) / sum_2;
    }
  }
}
