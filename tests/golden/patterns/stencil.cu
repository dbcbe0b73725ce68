typedef int int32_t;
typedef long long int64_t;
typedef long long index_t;

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
    float sum = -__int_as_float(0x7f800000);
    const int32_t a0_val = a0[i_2 + 1];
    const int32_t a0_val_2 = a0[i_2];
    const index_t i_3 = lane;
    for (index_t i_4 = i_3; i_4 < ((int64_t)a0_val - (int64_t)a0_val_2 < 3 ? 0 : (int64_t)a0_val - (int64_t)a0_val_2 - 2); i_4 += 32) {
      float sum_2 = 0.0f;
      for (index_t i_5 = i_4 + (int64_t)a0_val_2; i_5 < i_4 + (int64_t)a0_val_2 + 3; i_5++) {
        sum_2 += a1[i_5];
      }
      sum = max_float32(sum, sum_2);
    }
    sum = of_lanes<max_of_float32, 32>(sum, 0xffffffffu);
    if (lane == 0) {
      r[i_2] = sum;
    }
  }
}
