typedef int int32_t;
typedef int index_t;

// The last position in [begin, end) that holds `value` or less, else `begin`.
static __device__ index_t last_at_most_int32(const int32_t *array, index_t begin, index_t end,
                            index_t value) {
  while (end - begin > 1) {
    const index_t middle = begin + (end - begin) / 2;
    if (array[middle] <= value) begin = middle;
    else end = middle;
  }
  return begin;
}

static __device__ index_t lesser(index_t a, index_t b) {
  return a < b ? a : b;
}

// Neighbouring elements that are loaded and stored at once.
constexpr int alignment(int bytes) { return (bytes & -bytes) < 16 ? bytes & -bytes : 16; }
template <typename T, int N> struct alignas(alignment(N * sizeof(T))) Vector {
  T of[N];
};

struct add_of_float64 {
  static __device__ double of(double a, double b) { return (double)(a + b); }
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
//     forall entry:
//       forall lane:  [GPUGroup of 2, parallel reduction]
//         forall round:  [unroll]
//           forall part:  [unroll]
//             D(i,j) += A(i,j) * U(i,k) * V(j,k)
// such that bound(k, term, 8, MaxExact),
//   fuse(i, j, fused),
//   pos(fused, place, A[i, j], parents=stored),
//   split(place, block, tile, 256),
//   split(tile, warp, entry, 4),
//   split(term, unit, part, 2),
//   split(unit, round, lane, 2)
// In the code, D is R, U is B, V is C, term is k_2, fused is f, place is p, block is p0,
// tile is p1, warp is p10, entry is p11, unit is k_20, part is k_21, round is k_200,
// lane is k_201.
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t A2_size,
    const index_t A1_size,
    int32_t *__restrict__ A_tiles1_of2_1,
    const int32_t *__restrict__ A_pos2
) {
  const index_t lane = threadIdx.x;
  const index_t A_tiles1_of2_1_at_run = blockIdx.x;
  // where tiles begin
  const index_t A_tiles1_of2_1_at = A_tiles1_of2_1_at_run * 256 + lane;
  if (A_tiles1_of2_1_at < A2_size + 1) {
    A_tiles1_of2_1[A_tiles1_of2_1_at] = last_at_most_int32(A_pos2, 0, A1_size, A_tiles1_of2_1_at);
  }
}

extern "C" __global__ void __launch_bounds__(128) kernel_2(
    const index_t pA2_end,
    const int32_t *__restrict__ A_tiles1_of2_1,
    const int32_t *__restrict__ A_crd2,
    const double *__restrict__ A_vals,
    const double *__restrict__ B_vals,
    const double *__restrict__ C_vals,
    double *__restrict__ R_vals
) {
  const index_t warp = threadIdx.x / 2;
  const index_t lane = threadIdx.x % 2;
  const index_t p0 = blockIdx.x;
  const index_t p_lo = p0 * 256;
  const index_t p_hi = lesser(p_lo + 256, pA2_end);
  const index_t p1_end = p_hi - p_lo;
  const index_t p10_end = (p1_end + 3) / 4;
  const index_t p10 = warp;
  if (p10 < p10_end) {
    const index_t p1_lo = p10 * 4;
    const index_t p1_hi = lesser(p1_lo + 4, p1_end);
    const index_t p_lo_2 = p_lo + p1_lo;
    const index_t p_hi_2 = p_lo + p1_hi;
    index_t pA1 = 0;
    // positions of A
    for (index_t pA2 = p_lo_2; pA2 < p_hi_2; pA2++) {
      pA1 = A_tiles1_of2_1[pA2];
      const index_t i = pA1;
      const index_t j = A_crd2[pA2];
      double R_sum = 0.0;
      const double A_val = A_vals[pA2];
      const index_t k_201 = lane;
#pragma unroll
      for (index_t k_200 = 0; k_200 < 2; k_200++) {
        const index_t k_20 = k_200 * 2 + k_201;
        const Vector<double, 2> B_vector = *(const Vector<double, 2> *)&B_vals[i * 8 + k_20 * 2];
        const Vector<double, 2> C_vector = *(const Vector<double, 2> *)&C_vals[j * 8 + k_20 * 2];
        // k of this run
#pragma unroll
        for (index_t k_at = 0; k_at < 2; k_at++) {
          R_sum += A_val * B_vector.of[k_at] * C_vector.of[k_at];
        }
      }
      R_sum = of_lanes<add_of_float64, 2>(R_sum, 0x3u << (threadIdx.x & 30));
      if (lane == 0) {
        R_vals[pA2] = R_sum;
      }
    }
  }
}
