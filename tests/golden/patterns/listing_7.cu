typedef int int32_t;
typedef long long int64_t;
typedef int index_t;

struct add_of_float32 {
  static __device__ float of(float a, float b) { return (float)(a + b); }
};

// Values of any size from other lanes, word by word.
template <typename T, typename Move> static __device__ inline T words(T value, Move move) {
  union { T all; int word[(sizeof(T) + 3) / 4]; } u;
  u.word[(sizeof(T) + 3) / 4 - 1] = 0;
  u.all = value;
#pragma unroll
  for (int n = 0; n < (int)((sizeof(T) + 3) / 4); n++) u.word[n] = move(u.word[n]);
  return u.all;
}
struct MoveXor {
  unsigned mask;
  int bits, width;
  __device__ int operator()(int word) const { return __shfl_xor_sync(mask, word, bits, width); }
};
struct MoveUp {
  unsigned mask;
  int by, width;
  __device__ int operator()(int word) const { return __shfl_up_sync(mask, word, by, width); }
};

// The values of N neighbouring lanes combined, for all of them.
template <typename Op, int N, typename T>
static __device__ inline T of_lanes(T value, unsigned mask) {
#pragma unroll
  for (int bits = N / 2; bits > 0; bits /= 2)
    value = Op::of(value, words(value, MoveXor{mask, bits, N}));
  return value;
}

// patterns
extern "C" __global__ void __launch_bounds__(128) kernel_1(
    const index_t n0_size,
    const int32_t *__restrict__ a0,
    const int32_t *__restrict__ a1,
    const float *__restrict__ a2,
    const float *__restrict__ a3,
    float *__restrict__ r
) {
  const index_t warp = threadIdx.x / 32;
  const index_t lane = threadIdx.x % 32;
  const index_t i = blockIdx.x;
  const index_t i_2 = i * 4 + warp;
  if (i_2 < n0_size) {
    float sum = 0.0f;
    const int32_t a0_val = a0[i_2];
    const int32_t a0_val_2 = a0[i_2 + 1];
    const index_t i_3 = lane;
#pragma unroll 2
    for (index_t i_4 = i_3 + (int64_t)a0_val; i_4 < a0_val_2; i_4 += 32) {
      const index_t j = a1[i_4];
      sum += a2[i_4] * a3[j];
    }
    sum = of_lanes<add_of_float32, 32>(sum, 0xffffffffu);
    if (lane == 0) {
      r[i_2] = sum;
    }
  }
}
