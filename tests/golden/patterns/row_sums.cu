typedef int int32_t;
typedef long long int64_t;
typedef int index_t;

// patterns
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t n0_size,
    const int32_t *__restrict__ a0,
    const float *__restrict__ a1,
    float *__restrict__ r
) {
  const index_t warp = threadIdx.x / 32;
  const index_t lane = threadIdx.x % 32;
  const index_t i = blockIdx.x;
  const index_t i_2 = i * 8 + warp;
  if (i_2 < n0_size) {
    float sum = 0.0f;
    const int32_t a0_val = a0[i_2];
    const int32_t a0_val_2 = a0[i_2 + 1];
    const index_t i_3 = lane;
#pragma unroll 2
    for (index_t i_4 = i_3 + (int64_t)a0_val; i_4 < a0_val_2; i_4 += 32) {
      sum += a1[i_4];
    }
    sum = of_lanes<add_of_float32, 32>(sum, 0xffffffffu);
    if (lane == 0) {
      r[i_2] = sum;
    }
  }
}
