typedef int int32_t;
typedef int index_t;

// Neighbouring elements that are loaded and stored at once.
constexpr int alignment(int bytes) { return (bytes & -bytes) < 16 ? bytes & -bytes : 16; }
template <typename T, int N> struct alignas(alignment(N * sizeof(T))) Vector {
  T of[N];
};

static __device__ index_t lesser(index_t a, index_t b) {
  return a < b ? a : b;
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

// The values of N lanes combined, each S after the last, for all of them.
template <typename Op, int N, int S, typename T>
static __device__ inline T of_lanes_apart(T value, unsigned mask) {
#pragma unroll
  for (int bits = N / 2; bits > 0; bits /= 2)
    value = Op::of(value, words(value, MoveXor{mask, bits * S, N * S}));
  return value;
}

// forall block:  [GPUBlock, NoRaces]
//   forall warp:  [GPUWarp, NoRaces]
//     forall unit:  [GPUThread, NoRaces]
//       forall part:  [unroll]
//         C(i,k) = w(part)
//       where
//         forall turn:  [GPUGroup of 4, parallel reduction]
//           forall round:  [unroll 8]
//             forall part_sum:  [unroll]
//               w(part_sum) += A(i,j) * B(j,k)
// such that bound(k, column, 32, MaxExact),
//   split(column, unit, part, 4),
//   pos(j, place, A[i, j]),
//   split(place, round, turn, 4),
//   split(i, block, warp, 2),
//   precompute(part, part_sum)
// In the code, C is R, w is W, k is j, j is k, column is j_2, unit is j_20, part is j_21,
// place is p, round is p0, turn is p1, block is i0, warp is i1, part_sum is j_21_2.
extern "C" __global__ void __launch_bounds__(64) kernel_1(
    const index_t i_size,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const float *__restrict__ A_vals,
    const float *__restrict__ B_vals,
    float *__restrict__ R_vals
) {
  const index_t warp = threadIdx.x / 32;
  const index_t lane = threadIdx.x % 32;
  const index_t i0 = blockIdx.x;
  const index_t i_lo = i0 * 2;
  // i of this run
  const index_t i = i_lo + warp;
  if (i < i_size) {
    const index_t j_20 = lane % 8;
    const index_t j_2_lo = j_20 * 4;
    float W_vals[4];
    // clear
#pragma unroll
    for (index_t W_at = 0; W_at < 4; W_at++) {
      W_vals[W_at] = 0.0f;
    }
    const index_t pA2_begin = A_pos2[i];
    const index_t pA2_end = A_pos2[i + 1];
    const index_t p1 = lane / 8;
    index_t p_first = pA2_begin + p1;
    while (p_first + 28 < pA2_end) {
#pragma unroll
      for (index_t p_turn = 0; p_turn < 8; p_turn++) {
        const index_t p = p_first + p_turn * 4;
        const index_t k = A_crd2[p];
        const float A_val = A_vals[p];
        const Vector<float, 4> B_vector = *(const Vector<float, 4> *)&B_vals[k * 32 + j_2_lo];
        // k of this run
#pragma unroll
        for (index_t j_at = 0; j_at < 4; j_at++) {
          W_vals[j_at] += A_val * B_vector.of[j_at];
        }
      }
      p_first += 32;
    }
    if (p_first < pA2_end) {
#pragma unroll
      for (index_t p_turn = 0; p_turn < 8; p_turn++) {
        const index_t p_now = p_first + p_turn * 4;
        const index_t p = lesser(p_now, pA2_end - 1);
        const index_t k = A_crd2[p];
        const float A_val = A_vals[p];
        const Vector<float, 4> B_vector = *(const Vector<float, 4> *)&B_vals[k * 32 + j_2_lo];
        if (p_now < pA2_end) {
          // k of this run
#pragma unroll
          for (index_t j_at = 0; j_at < 4; j_at++) {
            W_vals[j_at] += A_val * B_vector.of[j_at];
          }
        }
      }
    }
#pragma unroll
    for (index_t W_vals_at = 0; W_vals_at < 4; W_vals_at++) {
      float W_vals_own = W_vals[W_vals_at];
      W_vals_own = of_lanes_apart<add_of_float32, 4, 8>(W_vals_own, 0xffffffffu);
      W_vals[W_vals_at] = W_vals_own;
    }
    if (lane < 8) {
      Vector<float, 4> R_vector;
      // k of this run
#pragma unroll
      for (index_t j_at = 0; j_at < 4; j_at++) {
        R_vector.of[j_at] = W_vals[j_at];
      }
      *(Vector<float, 4> *)&R_vals[i * 32 + j_2_lo] = R_vector;
    }
  }
}
