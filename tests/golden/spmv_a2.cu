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
//   forall warp:  [GPUWarp, IgnoreRaces]
//     forall thread:  [GPUThread, Atomics]
//       forall thread_nz:
//         y(i) += w(thread_nz)
//       where
//         forall thread_nz_pre:  [unroll 7]
//           w(thread_nz_pre) = A(i,j) * x(j)
// such that fuse(i, j, f),
//   pos(f, fpos, A[i, j]),
//   split(fpos, block, fpos1, 3584),
//   split(fpos1, warp, fpos2, 224),
//   split(fpos2, thread, thread_nz, 7),
//   precompute(thread_nz, thread_nz_pre)
// In the code, y is R, x is B, w is W, fpos is p, block is p0, fpos1 is p1, warp is p10,
// fpos2 is p11, thread is p110, thread_nz is p111, thread_nz_pre is p111_2.
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t A2_size,
    const index_t A1_size,
    int32_t *__restrict__ A_tiles1_of2_3584,
    const int32_t *__restrict__ A_pos2
) {
  const index_t lane = threadIdx.x;
  const index_t A_tiles1_of2_3584_at_run = blockIdx.x;
  // where tiles begin
  const index_t A_tiles1_of2_3584_at = A_tiles1_of2_3584_at_run * 256 + lane;
  if (A_tiles1_of2_3584_at < (A2_size + 3583) / 3584 + 1) {
    A_tiles1_of2_3584[A_tiles1_of2_3584_at] = last_at_most_int32(A_pos2, 0, A1_size, A_tiles1_of2_3584_at * 3584);
  }
}

extern "C" __global__ void __launch_bounds__(512) kernel_2(
    const index_t pA2_end,
    const index_t A1_size,
    const int32_t *__restrict__ A_tiles1_of2_3584,
    const int32_t *__restrict__ A_crd2,
    const double *__restrict__ A_vals,
    const double *__restrict__ B_vals,
    const int32_t *__restrict__ A_pos2,
    double *__restrict__ R_vals
) {
  const index_t warp = threadIdx.x / 32;
  const index_t lane = threadIdx.x % 32;
  const index_t p0 = blockIdx.x;
  const index_t p_lo = p0 * 3584;
  const index_t p_hi = lesser(p_lo + 3584, pA2_end);
  const index_t pA1_from = A_tiles1_of2_3584[p0];
  const index_t pA1_to = A_tiles1_of2_3584[p0 + 1];
  const index_t p1_end = p_hi - p_lo;
  const index_t p10_end = (p1_end + 223) / 224;
  const index_t p10 = warp;
  if (p10 < p10_end) {
    const index_t p1_lo = p10 * 224;
    const index_t p1_hi = lesser(p1_lo + 224, p1_end);
    const index_t p11_end = p1_hi - p1_lo;
    const index_t p110_end = (p11_end + 6) / 7;
    index_t R_vals_place = -1;
    double R_vals_part = 0.0;
    const index_t p110 = lane;
    if (p110 < p110_end) {
      if ((p110 + 1) * 7 <= p11_end) {
        const index_t p11_lo_2 = p110 * 7;
        double W_vals[7];
        const index_t p1_lo_4 = p1_lo + p11_lo_2;
        const index_t p_lo_4 = p_lo + p1_lo_4;
        // positions of A
#pragma unroll
        for (index_t p111_2 = 0; p111_2 < 7; p111_2++) {
          const index_t pA2_3 = p_lo_4 + p111_2;
          const index_t j = A_crd2[pA2_3];
          W_vals[p111_2] = A_vals[pA2_3] * B_vals[j];
        }
        const index_t p_hi_5 = p_lo_4 + 7;
        index_t pA1_2 = last_at_most_int32(A_pos2, pA1_from, pA1_to + 1, p_lo_4);
        double R_sum_2 = 0.0;
        // positions of A
        for (index_t p111 = 0; p111 < 7; p111++) {
          const index_t pA2_4 = p_lo_4 + p111;
          if (pA2_4 == A_pos2[pA1_2 + 1]) {
            pA1_2 = gallop_int32(A_pos2, pA1_2 + 2, A1_size + 1, pA2_4 + 1) - 1;
          }
          const index_t i = pA1_2;
          R_sum_2 += W_vals[p111];
          if (pA2_4 + 1 == A_pos2[pA1_2 + 1]) {
            if (p_lo_4 <= A_pos2[pA1_2] && A_pos2[pA1_2 + 1] <= p_hi_5) {
              R_vals[i] = R_sum_2;
            } else {
              atomicAdd(&R_vals[i], R_sum_2);
            }
            R_sum_2 = 0.0;
          }
        }
        if (p_hi_5 != A_pos2[pA1_2 + 1]) {
          const index_t i = pA1_2;
          R_vals_place = i;
          R_vals_part = R_sum_2;
        }
      } else {
        const index_t p11_lo = p110 * 7;
        const index_t p11_hi = lesser(p11_lo + 7, p11_end);
        double W_vals[7];
        const index_t p1_lo_2 = p1_lo + p11_lo;
        const index_t p1_hi_2 = p1_lo + p11_hi;
        const index_t p_lo_2 = p_lo + p1_lo_2;
        const index_t p_hi_2 = p_lo + p1_hi_2;
        // positions of A
#pragma unroll 7
        for (index_t pA2 = p_lo_2; pA2 < p_hi_2; pA2++) {
          const index_t j = A_crd2[pA2];
          W_vals[pA2 - p_lo - p1_lo - p11_lo] = A_vals[pA2] * B_vals[j];
        }
        index_t pA1 = last_at_most_int32(A_pos2, pA1_from, pA1_to + 1, p_lo_2);
        double R_sum = 0.0;
        index_t pA2_2_at = p_lo_2;
        while (pA2_2_at < p_hi_2) {
          const index_t pA2_2_stop = lesser(A_pos2[pA1 + 1], p_hi_2);
          // positions of A that add to one entry
          for (index_t pA2_2 = pA2_2_at; pA2_2 < pA2_2_stop; pA2_2++) {
            R_sum += W_vals[pA2_2 - p_lo - p1_lo - p11_lo];
          }
          pA2_2_at = pA2_2_stop;
          if (pA2_2_at < p_hi_2) {
            const index_t i = pA1;
            if (p_lo_2 <= A_pos2[pA1] && A_pos2[pA1 + 1] <= p_hi_2) {
              R_vals[i] = R_sum;
            } else {
              atomicAdd(&R_vals[i], R_sum);
            }
            R_sum = 0.0;
            if (pA2_2_at == A_pos2[pA1 + 1]) {
              pA1 = gallop_int32(A_pos2, pA1 + 2, A1_size + 1, pA2_2_at + 1) - 1;
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
    }
    const bool R_vals_part_mine = of_segment<add_of_float64, 32>(R_vals_part, R_vals_place, 0xffffffffu);
    if (R_vals_part_mine) {
      atomicAdd(&R_vals[R_vals_place], R_vals_part);
    }
  }
}
