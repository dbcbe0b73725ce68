typedef int index_t;

// patterns
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t n0_size,
    const float *__restrict__ a0,
    const float *__restrict__ a1,
    float *__restrict__ r
) {
  const index_t lane = threadIdx.x;
  const index_t b = blockIdx.x;
  const index_t t = lane;
  const index_t i = b * 256 + t;
  if (i < n0_size) {
    float sum = 0.0f;
    for (index_t i_2 = 0; i_2 < i + 1; i_2++) {
      sum += a0[(i * i + i) / 2 + i_2] * a1[i_2];
    }
    r[i] = sum;
  }
}
