typedef int int32_t;
typedef int index_t;

static __device__ index_t lesser(index_t a, index_t b) {
  return a < b ? a : b;
}

static __device__ index_t greater(index_t a, index_t b) {
  return a > b ? a : b;
}

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

// The values of G lanes combined; whether this lane is the one to store them.
template <typename Op, int G, typename T>
static __device__ inline bool of_parallel(T &value, index_t &index, unsigned mask) {
  value = of_lanes<Op, G>(value, mask);
  // Lanes past the end of the data know no index.
  const unsigned known = __ballot_sync(mask, index >= 0);
  return index >= 0 && __ffs(known) - 1 == (int)(threadIdx.x & 31);
}

// forall block:  [GPUBlock, NoRaces]
//   forall warp:  [GPUWarp, NoRaces]
//     forall part:
//       forall lane:  [GPUGroup of 8, parallel reduction]
//         forall round:
//           C(i,k) += A(i,j) * B(j,k)
// such that fuse(i, k, entry),
//   split(entry, block, tile, 16),
//   split(tile, warp, part, 2),
//   pos(j, place, A[i, j]),
//   split(place, round, lane, 32)
// In the code, C is R, k is j, j is k, entry is f, block is f0, tile is f1, warp is f10,
// part is f11, place is p, round is p0, lane is p1.
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t f_end,
    const index_t j_size,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const float *__restrict__ A_vals,
    const float *__restrict__ B_vals,
    float *__restrict__ R_vals
) {
  const index_t warp = threadIdx.x / 32;
  const index_t lane = threadIdx.x % 32;
  const index_t f0 = blockIdx.x;
  const index_t f_lo = f0 * 16;
  const index_t f_hi = lesser(f_lo + 16, f_end);
  const index_t f1_end = f_hi - f_lo;
  const index_t f10_end = (f1_end + 1) / 2;
  const index_t f10 = warp;
  if (f10 < f10_end) {
    const index_t f1_lo = f10 * 2;
    const index_t f1_hi = lesser(f1_lo + 2, f1_end);
    const index_t f_lo_2 = f_lo + f1_lo;
    const index_t f_hi_2 = f_lo + f1_hi;
    const index_t i_lo = f_lo_2 / (j_size > 1 ? j_size : 1);
    const index_t i_hi = (f_hi_2 + (j_size > 1 ? j_size : 1) - 1) / (j_size > 1 ? j_size : 1);
    // i of this run
    for (index_t i = i_lo; i < i_hi; i++) {
      const index_t j_lo = greater(f_lo_2 - i * j_size, 0);
      const index_t j_hi = lesser(f_hi_2 - i * j_size, j_size);
      // k of this run
      for (index_t j = j_lo; j < j_hi; j++) {
        const index_t pA2_begin = A_pos2[i];
        const index_t pA2_end = A_pos2[i + 1];
        const index_t p1 = lane;
        float R_sum = 0.0f;
        const index_t p0_end = (pA2_end - pA2_begin + 31) / 32;
        for (index_t p0 = 0; p0 < p0_end; p0++) {
          const index_t p = pA2_begin + p0 * 32 + p1;
          if (p < pA2_end) {
            const index_t k = A_crd2[p];
            R_sum += A_vals[p] * B_vals[k * j_size + j];
          }
        }
        index_t R_vals_place = -1;
        float R_vals_part = 0.0f;
        R_vals_place = i * j_size + j;
        R_vals_part = R_sum;
        const bool R_vals_part_mine = of_parallel<add_of_float32, 8>(R_vals_part, R_vals_place, 0xffu << (threadIdx.x & 24));
        if (R_vals_part_mine) {
          atomicAdd(&R_vals[R_vals_place], R_vals_part);
        }
      }
    }
  }
}
