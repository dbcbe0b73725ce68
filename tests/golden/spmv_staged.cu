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

static __device__ index_t greater(index_t a, index_t b) {
  return a > b ? a : b;
}

static __device__ index_t lesser(index_t a, index_t b) {
  return a < b ? a : b;
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

// The values of N neighbouring lanes combined, for all of them.
template <typename Op, int N, typename T>
static __device__ inline T of_lanes(T value, unsigned mask) {
#pragma unroll
  for (int bits = N / 2; bits > 0; bits /= 2)
    value = Op::of(value, words(value, MoveXor{mask, bits, N}));
  return value;
}

// forall block:  [GPUBlock, IgnoreRaces]
//   forall tile:  [GPUGroup of 8, segment reduction]
//     y(i) += w(tile)
//   where
//     forall stage:  [GPUThread, NoRaces; unroll 2]
//       w(stage) = A(i,j) * x(j)
// such that fuse(i, j, fused),
//   pos(fused, place, A[i, j], parents=stored),
//   split(place, block, tile, 512),
//   precompute(tile, stage)
// In the code, y is R, x is B, w is W, fused is f, place is p, block is p0, tile is p1,
// stage is p1_2.
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t A2_size,
    const index_t A1_size,
    int32_t *__restrict__ A_tiles1_of2_512,
    const int32_t *__restrict__ A_pos2
) {
  const index_t lane = threadIdx.x;
  const index_t A_tiles1_of2_512_at_run = blockIdx.x;
  // where tiles begin
  const index_t A_tiles1_of2_512_at = A_tiles1_of2_512_at_run * 256 + lane;
  if (A_tiles1_of2_512_at < (A2_size + 511) / 512 + 1) {
    A_tiles1_of2_512[A_tiles1_of2_512_at] = last_at_most_int32(A_pos2, 0, A1_size, A_tiles1_of2_512_at * 512);
  }
}

extern "C" __global__ void __launch_bounds__(256) kernel_2(
    const index_t pA2_end,
    const int32_t *__restrict__ A_tiles1_of2_512,
    const int32_t *__restrict__ A_crd2,
    const double *__restrict__ A_vals,
    const double *__restrict__ B_vals,
    const int32_t *__restrict__ A_pos2,
    double *__restrict__ R_vals
) {
  __shared__ __align__(16) double W_vals[512];
  const index_t warp = threadIdx.x / 8;
  const index_t lane = threadIdx.x % 8;
  const index_t p0 = blockIdx.x;
  if ((p0 + 1) * 512 <= pA2_end) {
    const index_t p_lo_2 = p0 * 512;
    const index_t p_hi_2 = p_lo_2 + 512;
    const index_t pA1_from_2 = A_tiles1_of2_512[p0];
    const index_t pA1_to_2 = A_tiles1_of2_512[p0 + 1];
#pragma unroll 2
    for (index_t p1_2_at = threadIdx.x; p1_2_at < 512; p1_2_at += 256) {
      const index_t p = p_lo_2 + p1_2_at;
      const index_t j = __ldcs(&A_crd2[p]);
      W_vals[p1_2_at] = __ldcs(&A_vals[p]) * B_vals[j];
    }
    __syncthreads();
    // segments of A
    for (index_t pA1_2 = pA1_from_2 + warp; pA1_2 < pA1_to_2 + 1; pA1_2 += 32) {
      const index_t pA2_2_first = greater(A_pos2[pA1_2], p_lo_2);
      const index_t pA2_2_stop = lesser(A_pos2[pA1_2 + 1], p_hi_2);
      if (pA2_2_first < pA2_2_stop) {
        double R_sum_2 = 0.0;
        for (index_t pA2_2 = pA2_2_first + lane; pA2_2 < pA2_2_stop; pA2_2 += 8) {
          R_sum_2 += W_vals[pA2_2 - p_lo_2];
        }
        R_sum_2 = of_lanes<add_of_float64, 8>(R_sum_2, 0xffu << (threadIdx.x & 24));
        if (lane == 0) {
          if (p_lo_2 <= A_pos2[pA1_2] && A_pos2[pA1_2 + 1] <= p_hi_2) {
            R_vals[pA1_2] = R_sum_2;
          } else {
            atomicAdd(&R_vals[pA1_2], R_sum_2);
          }
        }
      }
    }
  } else {
    const index_t p_lo = p0 * 512;
    const index_t p_hi = lesser(p_lo + 512, pA2_end);
    const index_t pA1_from = A_tiles1_of2_512[p0];
    const index_t pA1_to = A_tiles1_of2_512[p0 + 1];
    const index_t p1_end = p_hi - p_lo;
#pragma unroll 2
    for (index_t p1_2_at = threadIdx.x; p1_2_at < p1_end; p1_2_at += 256) {
      const index_t p = p_lo + p1_2_at;
      const index_t j = __ldcs(&A_crd2[p]);
      W_vals[p1_2_at] = __ldcs(&A_vals[p]) * B_vals[j];
    }
    __syncthreads();
    // segments of A
    for (index_t pA1 = pA1_from + warp; pA1 < pA1_to + 1; pA1 += 32) {
      const index_t pA2_first = greater(A_pos2[pA1], p_lo);
      const index_t pA2_stop = lesser(A_pos2[pA1 + 1], p_hi);
      if (pA2_first < pA2_stop) {
        double R_sum = 0.0;
        for (index_t pA2 = pA2_first + lane; pA2 < pA2_stop; pA2 += 8) {
          R_sum += W_vals[pA2 - p_lo];
        }
        R_sum = of_lanes<add_of_float64, 8>(R_sum, 0xffu << (threadIdx.x & 24));
        if (lane == 0) {
          if (p_lo <= A_pos2[pA1] && A_pos2[pA1 + 1] <= p_hi) {
            R_vals[pA1] = R_sum;
          } else {
            atomicAdd(&R_vals[pA1], R_sum);
          }
        }
      }
    }
  }
}
