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

// The values of each run of lanes with the same index combined, in its last lane; if it is one.
template <typename Op, int G, typename T>
static __device__ inline bool of_segment(T &value, index_t index, unsigned mask) {
  const int lane = threadIdx.x & (G - 1), at = threadIdx.x & 31;
  const index_t before = words(index, MoveUp{mask, 1, G});
  const unsigned heads = __ballot_sync(mask, lane == 0 || before != index);
  // How many lanes this one's run reaches back.
  const int back = at - (31 - __clz((int)(heads & (0xffffffffu >> (31 - at)))));
#pragma unroll
  for (int by = 1; by < G; by *= 2) {
    const T other = words(value, MoveUp{mask, by, G});
    if (by <= back) value = Op::of(other, value);
  }
  return index >= 0 && (lane == G - 1 || heads >> (at + 1) & 1);
}

// forall block:  [GPUBlock, IgnoreRaces]
//   forall unit:  [GPUWarp, NoRaces]
//     forall part:
//       forall tile:  [GPUGroup of 32, segment reduction]
//         C(i,k) += A(i,j) * B(j,k)
// such that split(k, units, part, 16),
//   bound(units, unit, 2, MaxExact),
//   fuse(i, j, fused),
//   pos(fused, place, A[i, j], parents=stored),
//   split(place, block, tile, 128)
// In the code, C is R, units is k0, part is k1, unit is k0_2, fused is f, place is p, block is p0,
// tile is p1.
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t A2_size,
    const index_t A1_size,
    int32_t *__restrict__ A_tiles1_of2_128,
    const int32_t *__restrict__ A_pos2
) {
  const index_t lane = threadIdx.x;
  const index_t A_tiles1_of2_128_at_run = blockIdx.x;
  // where tiles begin
  const index_t A_tiles1_of2_128_at = A_tiles1_of2_128_at_run * 256 + lane;
  if (A_tiles1_of2_128_at < (A2_size + 127) / 128 + 1) {
    A_tiles1_of2_128[A_tiles1_of2_128_at] = last_at_most_int32(A_pos2, 0, A1_size, A_tiles1_of2_128_at * 128);
  }
}

extern "C" __global__ void __launch_bounds__(256) kernel_2(
    const index_t pA2_end,
    const index_t k_size,
    const int32_t *__restrict__ A_tiles1_of2_128,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const float *__restrict__ A_vals,
    const float *__restrict__ B_vals,
    float *__restrict__ R_vals
) {
  const index_t warp = threadIdx.x / 128;
  const index_t lane = threadIdx.x % 128;
  const index_t p0 = blockIdx.x;
  const index_t p_lo = p0 * 128;
  const index_t p_hi = lesser(p_lo + 128, pA2_end);
  const index_t pA1_from = A_tiles1_of2_128[p0];
  const index_t pA1_to = A_tiles1_of2_128[p0 + 1];
  const index_t k0 = warp;
  const index_t k_lo = k0 * 16;
  const index_t k_hi = lesser(k_lo + 16, k_size);
  // k of this run
  for (index_t k = k_lo; k < k_hi; k++) {
    const index_t p1_end = p_hi - p_lo;
    if (p1_end > 0) {
      const bool in_range = lane < p1_end;
      const index_t p1 = lesser(lane, p1_end - 1);
      index_t R_vals_place = -1;
      float R_vals_part = 0.0f;
      const index_t p = p_lo + p1;
      if (in_range) {
        const index_t i = last_at_most_int32(A_pos2, pA1_from, pA1_to + 1, p);
        const index_t j = A_crd2[p];
        R_vals_place = i * k_size + k;
        R_vals_part = A_vals[p] * B_vals[j * k_size + k];
      }
      const bool R_vals_part_mine = of_segment<add_of_float32, 32>(R_vals_part, R_vals_place, 0xffffffffu);
      if (R_vals_part_mine) {
        atomicAdd(&R_vals[R_vals_place], R_vals_part);
      }
    }
  }
}
