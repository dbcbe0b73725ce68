typedef int int32_t;
typedef int index_t;

struct f_of_float64_6d86c61956982fb4 {
  static __device__ double of(double a, double b) { return (double)(a + b + a * b); }
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

// forall block:  [GPUBlock, NoRaces]
//   forall warp:  [GPUWarp, NoRaces]
//     forall lane:  [GPUGroup of 8, parallel reduction]
//       forall round:  [unroll 2]
//         y(i) f= A(i,j)
// such that split(i, block, warp, 32),
//   pos(j, place, A[i, j]),
//   split(place, round, lane, 8)
// In the code, y is R, block is i0, warp is i1, place is p, round is p0, lane is p1.
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t i_size,
    const int32_t *__restrict__ A_pos2,
    const double *__restrict__ A_vals,
    double *__restrict__ R_vals
) {
  const index_t warp = threadIdx.x / 8;
  const index_t lane = threadIdx.x % 8;
  const index_t i0 = blockIdx.x;
  const index_t i_lo = i0 * 32;
  // i of this run
  const index_t i = i_lo + warp;
  if (i < i_size) {
    double R_sum = 0.0;
    const index_t pA2_begin = A_pos2[i];
    const index_t pA2_end = A_pos2[i + 1];
    const index_t p1 = lane;
    const index_t p0_end = (pA2_end - pA2_begin + 7) / 8;
#pragma unroll 2
    for (index_t p0 = 0; p0 < p0_end; p0++) {
      const index_t p = pA2_begin + p0 * 8 + p1;
      if (p < pA2_end) {
        R_sum = R_sum + A_vals[p] + R_sum * A_vals[p];
      }
    }
    R_sum = of_lanes<f_of_float64_6d86c61956982fb4, 8>(R_sum, 0xffu << (threadIdx.x & 24));
    if (lane == 0) {
      R_vals[i] = R_sum;
    }
  }
}
