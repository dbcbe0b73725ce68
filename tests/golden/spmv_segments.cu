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

// The first position in [begin, end) that holds `value` or more, else `end`; near ones are
// found soonest.
static __device__ index_t gallop_int32(const int32_t *array, index_t begin, index_t end, index_t value) {
  if (begin >= end || array[begin] >= value) return begin;
  index_t step = 1;
  while (step < end - begin && array[begin + step] < value) {
    begin += step;
    step *= 2;
  }
  if (step < end - begin) end = begin + step;
  for (begin++; begin < end;) {
    const index_t middle = begin + (end - begin) / 2;
    if (array[middle] < value) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

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
//   forall thread:  [GPUGroup of 16, segment reduction]
//     forall entry:
//       y(i) += A(i,j) * x(j)
// such that fuse(i, j, fused),
//   pos(fused, place, A[i, j], parents=stored),
//   split(place, block, tile, 512),
//   split(tile, thread, entry, 2)
// In the code, y is R, x is B, fused is f, place is p, block is p0, tile is p1, thread is p10,
// entry is p11.
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t A2_size,
    const index_t A1_size,
    int32_t *__restrict__ A_tiles1_of2_2,
    const int32_t *__restrict__ A_pos2
) {
  const index_t lane = threadIdx.x;
  const index_t A_tiles1_of2_2_at_run = blockIdx.x;
  // where tiles begin
  const index_t A_tiles1_of2_2_at = A_tiles1_of2_2_at_run * 256 + lane;
  if (A_tiles1_of2_2_at < (A2_size + 1) / 2 + 1) {
    A_tiles1_of2_2[A_tiles1_of2_2_at] = last_at_most_int32(A_pos2, 0, A1_size, A_tiles1_of2_2_at * 2);
  }
}

extern "C" __global__ void __launch_bounds__(256) kernel_2(
    const index_t pA2_end,
    const index_t A1_size,
    const int32_t *__restrict__ A_tiles1_of2_2,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const double *__restrict__ A_vals,
    const double *__restrict__ B_vals,
    double *__restrict__ R_vals
) {
  const index_t lane = threadIdx.x;
  const index_t p0 = blockIdx.x;
  const index_t p_lo = p0 * 512;
  const index_t p_hi = lesser(p_lo + 512, pA2_end);
  const index_t p1_end = p_hi - p_lo;
  const index_t p10_end = (p1_end + 1) / 2;
  index_t R_vals_place = -1;
  double R_vals_part = 0.0;
  const index_t p10 = lane;
  if (p10 < p10_end) {
    const index_t p1_lo = p10 * 2;
    const index_t p1_hi = lesser(p1_lo + 2, p1_end);
    const index_t p_lo_2 = p_lo + p1_lo;
    const index_t p_hi_2 = p_lo + p1_hi;
    index_t pA1 = A_tiles1_of2_2[p_lo_2 / 2];
    double R_sum = 0.0;
    index_t pA2_at = p_lo_2;
    while (pA2_at < p_hi_2) {
      const index_t pA2_stop = lesser(A_pos2[pA1 + 1], p_hi_2);
      // positions of A that add to one entry
      for (index_t pA2 = pA2_at; pA2 < pA2_stop; pA2++) {
        const index_t j = A_crd2[pA2];
        R_sum += A_vals[pA2] * B_vals[j];
      }
      pA2_at = pA2_stop;
      if (pA2_at < p_hi_2) {
        const index_t i = pA1;
        if (p_lo_2 <= A_pos2[pA1] && A_pos2[pA1 + 1] <= p_hi_2) {
          R_vals[i] = R_sum;
        } else {
          atomicAdd(&R_vals[i], R_sum);
        }
        R_sum = 0.0;
        if (pA2_at == A_pos2[pA1 + 1]) {
          pA1 = gallop_int32(A_pos2, pA1 + 2, A1_size + 1, pA2_at + 1) - 1;
        }
      }
    }
    if (p_lo_2 < p_hi_2) {
      const index_t i = pA1;
      if (p_lo_2 <= A_pos2[pA1] && A_pos2[pA1 + 1] <= p_hi_2) {
        R_vals[i] = R_sum;
      } else {
        R_vals_place = i;
        R_vals_part = R_sum;
      }
    }
  }
  const bool R_vals_part_mine = of_segment<add_of_float64, 16>(R_vals_part, R_vals_place, 0xffffu << (threadIdx.x & 16));
  if (R_vals_part_mine) {
    atomicAdd(&R_vals[R_vals_place], R_vals_part);
  }
}
