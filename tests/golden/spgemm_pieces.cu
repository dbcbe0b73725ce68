typedef int int32_t;
typedef long long int64_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int index_t;

struct add_of_uint64 {
  static __device__ uint64_t of(uint64_t a, uint64_t b) { return (uint64_t)(a + b); }
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

// NaN wins, as in NumPy.
static __device__ uint64_t min_uint64(uint64_t a, uint64_t b) {
  return a < b || a != a ? a : b;
}

static __device__ index_t lesser(index_t a, index_t b) {
  return a < b ? a : b;
}

// How many slots a table of so many keys has: a power of two, a quarter of which stay free.
static __device__ inline index_t table_slots(index_t keys) {
  index_t slots = 32;
  while (slots * 3 < (long long)keys * 4) slots *= 2;
  return slots;
}

template <typename K> static __device__ inline unsigned first_slot(K key) {
  unsigned mixed = (unsigned)key;
  if constexpr (sizeof(K) == 8) mixed ^= (unsigned)(key >> 32);
  mixed *= 2654435769u;
  return mixed ^ mixed >> 15;
}

// The slot of a key that is there.
template <typename K>
static __device__ inline index_t slot_of(const K *set, index_t slots, index_t key) {
  const unsigned mask = (unsigned)slots - 1;
  unsigned at = first_slot((K)key) & mask;
  while (set[at] != key) at = (at + 1) & mask;
  return (index_t)at;
}

template <typename K> static __device__ inline K put_key(K *place, K key) {
  typedef unsigned long long Long;
  if (__isLocal(place)) {  // a table of one thread, which needs no atomics, and has none
    const K old = *place;
    if (old == -1) *place = key;
    return old;
  }
  if constexpr (sizeof(K) == 8) return (K)atomicCAS((Long *)place, (Long)-1, (Long)key);
  else return (K)atomicCAS((int *)place, -1, (int)key);
}

// The slot of `key`, or -1 - slot if it is new.
template <typename K>
static __device__ inline index_t claim(K *set, index_t slots, index_t key) {
  const unsigned mask = (unsigned)slots - 1;
  for (unsigned at = first_slot((K)key) & mask;; at = (at + 1) & mask) {
    const K seen = put_key(&set[at], (K)key);
    if (seen == -1) return -1 - (index_t)at;
    if (seen == key) return (index_t)at;
  }
}

// How many keys a table has, and where each goes; slots are as many as lanes, or a multiple.
template <int L, typename K, typename Use>
static __device__ inline index_t each_key(const K *set, index_t slots, int *tally, unsigned mask,
                                          Use use) {
  if (L == 1) {
    index_t count = 0;
    for (index_t at = 0; at < slots; at++)
      if (set[at] != -1) use(count++, set[at]);
    return count;
  }
  const unsigned here = threadIdx.x & 31, before = (1u << here) - 1;
  if (L > 1) {
    index_t count = 0;
    for (index_t at = threadIdx.x % (L ? L : 1); at < slots; at += L) {
      const K key = set[at];
      const unsigned found = __ballot_sync(mask, key != -1);
      if (key != -1) use(count + __popc(found & before), key);
      count += __popc(found);
    }
    return count;
  }
  if (threadIdx.x == 0) *tally = 0;
  __syncthreads();
  for (index_t at = threadIdx.x; at < slots; at += blockDim.x) {
    const K key = set[at];
    const unsigned found = __ballot_sync(0xffffffffu, key != -1);
    int first = here == 0 ? atomicAdd(tally, __popc(found)) : 0;
    first = __shfl_sync(0xffffffffu, first, 0);
    if (key != -1) use(first + __popc(found & before), key);
  }
  __syncthreads();
  const index_t count = *tally;
  __syncthreads();
  return count;
}
template <typename K> struct PutInList {
  K *keys;
  __device__ void operator()(index_t at, K key) const { keys[at] = key; }
};
template <typename K> struct PutNowhere {
  __device__ void operator()(index_t at, K key) const {}
};

// The keys of a table, in any order, and how many.
template <int L, typename K>
static __device__ inline index_t collect(const K *set, index_t slots, int *tally, K *keys,
                                         unsigned mask) {
  return each_key<L>(set, slots, tally, mask, PutInList<K>{keys});
}
template <int L, typename K>
static __device__ inline index_t tally(const K *set, index_t slots, int *sum, unsigned mask) {
  return each_key<L>(set, slots, sum, mask, PutNowhere<K>{});
}


template <typename K> static __device__ inline void append(K *list, int *count, index_t value) {
  list[atomicAdd(count, 1)] = (K)value;
}

// What N units of a block have, each the same in all of its L threads, combined for all of them.
template <typename Op, int N, int L, typename T>
static __device__ inline T across_units(T value, T *sums) {
  if (threadIdx.x % L == 0) sums[threadIdx.x / L] = value;
  __syncthreads();
  value = sums[0];
#pragma unroll
  for (int n = 1; n < N; n++) value = Op::of(value, sums[n]);
  __syncthreads();
  return value;
}

static __device__ inline void mark_bit(unsigned *bits, index_t key) {
  const unsigned bit = 1u << (key & 31);
  if (!(*(volatile unsigned *)&bits[key >> 5] & bit)) atomicOr(&bits[key >> 5], bit);
}

// How many bits of a map are set, and where each goes; then none is.
template <int L, typename Use>
static __device__ inline index_t each_bit(unsigned *bits, index_t words, int *sums, Use use) {
  const int here = threadIdx.x & 31, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const index_t lanes = L == 1 ? 1 : (index_t)blockDim.x;
  index_t count = 0;
  for (index_t first = 0; first < words; first += lanes) {
    const index_t at = L == 1 ? first : first + (index_t)threadIdx.x;
    unsigned word = at < words ? bits[at] : 0;
    if (word) bits[at] = 0;
    const int mine = __popc(word);
    int before = 0, all = mine;
    if (L != 1) {
      int upto = mine;
#pragma unroll
      for (int by = 1; by < 32; by *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, upto, by);
        if (here >= by) upto += other;
      }
      if (here == 31) sums[warp] = upto;
      __syncthreads();
      all = 0;
      for (int n = 0; n < warps; n++) {
        if (n == warp) before = all;
        all += sums[n];
      }
      before += upto - mine;
      __syncthreads();
    }
    for (index_t to = count + before; word; word &= word - 1)
      use(to++, at * 32 + (__ffs((int)word) - 1));
    count += all;
  }
  return count;
}

// The keys of a map in order, and how many.
template <int L, typename K>
static __device__ inline index_t list_bits(unsigned *bits, index_t words, int *sums, K *keys,
                                           unsigned) {
  return each_bit<L>(bits, words, sums, PutInList<K>{keys});
}
template <int L>
static __device__ inline index_t tally_bits(unsigned *bits, index_t words, int *sums, unsigned) {
  return each_bit<L>(bits, words, sums, PutNowhere<index_t>{});
}



template <int Bytes> struct Unsigned { typedef unsigned type; };
template <> struct Unsigned<8> { typedef unsigned long long type; };
// Bitonic merges of runs twice as long each time; every exchange puts the smaller key first.
template <int L, typename K>
static __device__ inline void sort_in_place(K *keys, index_t count, unsigned mask) {
  const index_t lanes = L ? L : (index_t)blockDim.x;
  const index_t lane = L ? (index_t)(threadIdx.x % (L ? L : 1)) : (index_t)threadIdx.x;
  for (index_t half = 1; half < count; half *= 2) {
    for (index_t apart = half; apart > 0; apart /= 2) {
      for (index_t n = lane; 2 * n - (n & (apart - 1)) + 1 < count; n += lanes) {
        const index_t low = n & (apart - 1), first = 2 * n - low;
        const index_t second = apart == half ? first - low + 2 * half - 1 - low : first + apart;
        if (second < count) {
          const K a = keys[first], b = keys[second];
          if (b < a) keys[first] = b, keys[second] = a;
        }
      }
      if (L == 0) __syncthreads();
      else if (L > 1) __syncwarp(mask);
    }
  }
}

// The same with N keys of each of L lanes in registers, key n of a lane being number lane * N + n.
template <int L, int N, typename K>
static __device__ inline void sort_in_lanes(K *keys, index_t count, unsigned mask) {
  const int lane = threadIdx.x % L;
  K own[N];
#pragma unroll
  for (int n = 0; n < N; n++) {
    const int at = n * L + lane;  // any order will do
    own[n] = at < count ? keys[at] : (K)(((typename Unsigned<sizeof(K)>::type)-1) >> 1);
  }
#pragma unroll
  for (int half = 1; half < L * N; half *= 2) {
#pragma unroll
    for (int apart = half; apart > 0; apart /= 2) {
      // The first exchange of a merge is with the mirrored half.
      const int flip = apart == half ? 2 * half - 1 : apart;
      if (apart < N) {
#pragma unroll
        for (int n = 0; n < N; n++) {
          const int m = n ^ flip;
          if (n < m) {
            const K a = own[n], b = own[m];
            own[n] = b < a ? b : a, own[m] = b < a ? a : b;
          }
        }
      } else {
        const int lanes = flip / N;
        const bool lower = !(lane & (apart / N));
        K other[N];
#pragma unroll
        for (int n = 0; n < N; n++)
          other[n] = __shfl_xor_sync(mask, own[apart == half ? N - 1 - n : n], lanes, L);
#pragma unroll
        for (int n = 0; n < N; n++) own[n] = (other[n] < own[n]) == lower ? other[n] : own[n];
      }
    }
  }
  __syncwarp(mask);
#pragma unroll
  for (int n = 0; n < N; n++)
    if (lane * N + n < count) keys[lane * N + n] = own[n];
  __syncwarp(mask);
}
template <int L, typename K>
static __device__ inline void sort_keys(K *keys, index_t count, unsigned mask) {
  if constexpr (L > 1) {
    if (count <= L) return sort_in_lanes<L, 1>(keys, count, mask);
    if (count <= 2 * L) return sort_in_lanes<L, 2>(keys, count, mask);
    if (count <= 4 * L) return sort_in_lanes<L, 4>(keys, count, mask);
    if (count <= 8 * L) return sort_in_lanes<L, 8>(keys, count, mask);
  }
  sort_in_place<L>(keys, count, mask);
}

static __device__ index_t greater(index_t a, index_t b) {
  return a > b ? a : b;
}

// forall i:
//   forall k:
//     C(i,k) = w(k)
//   where
//     forall j:
//       forall k:  [GPUThread, NoRaces]
//         w(k) += A(i,j) * B(j,k)
// In the code, C is R, w is W, k is j, j is k.
extern "C" __global__ void __launch_bounds__(64) kernel_1(
    const index_t pieces,
    const index_t i_size,
    const index_t j_size,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const int32_t *__restrict__ B_pos2,
    const int32_t *__restrict__ B_crd2,
    int32_t *__restrict__ pieces_noted,
    int64_t *__restrict__ R2_first,
    int64_t *__restrict__ pieces_long,
    int64_t *__restrict__ pieces_far
) {
  __shared__ __align__(16) int32_t W_set[512];
  __shared__ __align__(16) int32_t W_tally[4];
  const index_t warp = threadIdx.x / 16;
  const index_t lane = threadIdx.x % 16;
  const index_t W_set_begin = warp * 128;
  const index_t W_tally_begin = warp;
  // count each piece
  const index_t piece_run = blockIdx.x;
  uint64_t W_bound = 0u;
  index_t W_used = 0;
  index_t W_count = 0;
  const index_t piece = piece_run * 4 + warp;
  if (piece < pieces) {
    index_t piece_tier = 0;
    index_t own2 = 0;
    // i of this run
    if (piece < i_size) {
      W_bound = 0u;
      for (index_t pA2_of_bound = A_pos2[piece] + lane; pA2_of_bound < A_pos2[piece + 1]; pA2_of_bound += 16) {
        const index_t k_of_bound = A_crd2[pA2_of_bound];
        W_bound = W_bound + (uint64_t)(B_pos2[k_of_bound + 1] - B_pos2[k_of_bound]);
      }
      W_bound = of_lanes<add_of_uint64, 16>(W_bound, 0xffffu << (threadIdx.x & 16));
      W_used = table_slots(lesser((int64_t)min_uint64(W_bound, 536870912u), j_size));
      if (W_bound <= 1024u && W_used <= 128) {
        // an empty table
        for (index_t W_at = lane; W_at < W_used; W_at += 16) {
          W_set[W_set_begin + W_at] = -1;
        }
        __syncwarp(0xffffu << (threadIdx.x & 16));
        // stored j of A
        for (index_t pA2 = A_pos2[piece]; pA2 < A_pos2[piece + 1]; pA2++) {
          const index_t k = A_crd2[pA2];
          // stored k of B
          for (index_t pB2 = B_pos2[k] + lane; pB2 < B_pos2[k + 1]; pB2 += 16) {
            const index_t W_key = B_crd2[pB2];
            claim(&W_set[W_set_begin], W_used, W_key);
          }
          __syncwarp(0xffffu << (threadIdx.x & 16));
        }
        __syncwarp(0xffffu << (threadIdx.x & 16));
        W_count = tally<16>(&W_set[W_set_begin], W_used, &W_tally[W_tally_begin], 0xffffu << (threadIdx.x & 16));
        own2 += W_count > 0 ? W_count : 0;
      } else {
        if (W_used <= 2048) {
          piece_tier = piece_tier > 1 ? piece_tier : 1;
        } else {
          piece_tier = 2;
          if (lane == 0) {
            atomicMax(&pieces_noted[0], (int32_t)lesser((int64_t)min_uint64(W_bound, 536870912u), j_size));
          }
        }
      }
      __syncwarp(0xffffu << (threadIdx.x & 16));
    }
    if (lane == 0) {
      R2_first[piece + 1] = own2;
    }
    if (piece_tier == 1 && lane == 0) {
      append(pieces_long, &pieces_noted[1], piece);
    }
    if (piece_tier == 2 && lane == 0) {
      append(pieces_far, &pieces_noted[2], piece);
    }
  }
}

extern "C" __global__ void __launch_bounds__(1024) kernel_2(
    const index_t i_size,
    const index_t j_size,
    const int64_t *__restrict__ pieces_long,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const int32_t *__restrict__ B_pos2,
    const int32_t *__restrict__ B_crd2,
    int64_t *__restrict__ R2_first
) {
  __shared__ __align__(16) uint64_t W_bound_sums[64];
  __shared__ __align__(16) int32_t W_set[2048];
  __shared__ __align__(16) int32_t W_tally[1];
  const index_t warp = threadIdx.x / 16;
  const index_t lane = threadIdx.x % 16;
  uint64_t W_bound = 0u;
  index_t W_used = 0;
  index_t W_count = 0;
  // count each piece that is long
  const index_t piece_at = blockIdx.x;
  const index_t piece = pieces_long[piece_at];
  index_t own2 = 0;
  // i of this run
  if (piece < i_size) {
    W_bound = 0u;
    for (index_t pA2_of_bound = A_pos2[piece] + threadIdx.x; pA2_of_bound < A_pos2[piece + 1]; pA2_of_bound += 1024) {
      const index_t k_of_bound = A_crd2[pA2_of_bound];
      W_bound = W_bound + (uint64_t)(B_pos2[k_of_bound + 1] - B_pos2[k_of_bound]);
    }
    W_bound = of_lanes<add_of_uint64, 16>(W_bound, 0xffffu << (threadIdx.x & 16));
    W_bound = across_units<add_of_uint64, 64, 16>(W_bound, W_bound_sums);
    W_used = table_slots(lesser((int64_t)min_uint64(W_bound, 536870912u), j_size));
    // an empty table
    for (index_t W_at = threadIdx.x; W_at < W_used; W_at += 1024) {
      W_set[W_at] = -1;
    }
    __syncthreads();
    // stored j of A
    for (index_t pA2 = A_pos2[piece] + warp; pA2 < A_pos2[piece + 1]; pA2 += 64) {
      const index_t k = A_crd2[pA2];
      // stored k of B
      for (index_t pB2 = B_pos2[k] + lane; pB2 < B_pos2[k + 1]; pB2 += 16) {
        const index_t W_key = B_crd2[pB2];
        claim(W_set, W_used, W_key);
      }
      __syncwarp(0xffffu << (threadIdx.x & 16));
    }
    __syncthreads();
    W_count = tally<0>(W_set, W_used, W_tally, 1u);
    own2 += W_count > 0 ? W_count : 0;
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    R2_first[piece + 1] = own2;
  }
}

extern "C" __global__ void __launch_bounds__(1024) kernel_3(
    const index_t j_size,
    const index_t far_pieces,
    const index_t i_size,
    const int64_t *__restrict__ pieces_far,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const int32_t *__restrict__ B_pos2,
    const int32_t *__restrict__ B_crd2,
    uint32_t *__restrict__ W_bits,
    int64_t *__restrict__ R2_first
) {
  __shared__ __align__(16) int32_t W_tally[32];
  const index_t warp = threadIdx.x / 16;
  const index_t lane = threadIdx.x % 16;
  const index_t W_bits_begin = blockIdx.x * ((j_size + 31) / 32);
  index_t W_count = 0;
  // count each piece that is far
  for (index_t piece_at = blockIdx.x; piece_at < far_pieces; piece_at += gridDim.x) {
    const index_t piece = pieces_far[piece_at];
    index_t own2 = 0;
    // i of this run
    if (piece < i_size) {
      // stored j of A
      for (index_t pA2 = A_pos2[piece] + warp; pA2 < A_pos2[piece + 1]; pA2 += 64) {
        const index_t k = A_crd2[pA2];
        // stored k of B
        for (index_t pB2 = B_pos2[k] + lane; pB2 < B_pos2[k + 1]; pB2 += 16) {
          const index_t W_key = B_crd2[pB2];
          mark_bit(&W_bits[W_bits_begin], W_key);
        }
        __syncwarp(0xffffu << (threadIdx.x & 16));
      }
      __syncthreads();
      W_count = tally_bits<0>(&W_bits[W_bits_begin], (j_size + 31) / 32, W_tally, 1u);
      own2 += W_count > 0 ? W_count : 0;
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      R2_first[piece + 1] = own2;
    }
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(1) kernel_4(
    int32_t *__restrict__ R_pos2
) {
  R_pos2[0] = 0;
}

extern "C" __global__ void __launch_bounds__(64) kernel_5(
    const index_t pieces,
    const index_t i_size,
    const index_t j_size,
    const int64_t *__restrict__ R2_first,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const int32_t *__restrict__ B_pos2,
    const double *__restrict__ A_vals,
    const int32_t *__restrict__ B_crd2,
    const double *__restrict__ B_vals,
    double *__restrict__ R_vals,
    int32_t *__restrict__ R_crd2,
    int32_t *__restrict__ R_pos2
) {
  __shared__ __align__(16) int32_t W_set[512];
  __shared__ __align__(16) double W_vals[512];
  __shared__ __align__(16) int32_t W_keys[384];
  __shared__ __align__(16) int32_t W_tally[4];
  const index_t warp = threadIdx.x / 16;
  const index_t lane = threadIdx.x % 16;
  const index_t W_set_begin = warp * 128;
  const index_t W_keys_begin = warp * 96;
  const index_t W_tally_begin = warp;
  // compute each piece into its place
  const index_t piece_run = blockIdx.x;
  uint64_t W_bound = 0u;
  index_t W_used = 0;
  index_t W_count = 0;
  const index_t piece = piece_run * 4 + warp;
  if (piece < pieces) {
    index_t own2 = R2_first[piece];
    // i of this run
    if (piece < i_size) {
      W_bound = 0u;
      for (index_t pA2_of_bound = A_pos2[piece] + lane; pA2_of_bound < A_pos2[piece + 1]; pA2_of_bound += 16) {
        const index_t k_of_bound = A_crd2[pA2_of_bound];
        W_bound = W_bound + (uint64_t)(B_pos2[k_of_bound + 1] - B_pos2[k_of_bound]);
      }
      W_bound = of_lanes<add_of_uint64, 16>(W_bound, 0xffffu << (threadIdx.x & 16));
      W_used = table_slots(lesser((int64_t)min_uint64(W_bound, 536870912u), j_size));
      if (W_bound <= 1024u && W_used <= 128) {
        // an empty table
        for (index_t W_at = lane; W_at < W_used; W_at += 16) {
          W_set[W_set_begin + W_at] = -1;
        }
        __syncwarp(0xffffu << (threadIdx.x & 16));
        // stored j of A
        for (index_t pA2 = A_pos2[piece]; pA2 < A_pos2[piece + 1]; pA2++) {
          const index_t k = A_crd2[pA2];
          const double A_val = A_vals[pA2];
          // stored k of B
          for (index_t pB2 = B_pos2[k] + lane; pB2 < B_pos2[k + 1]; pB2 += 16) {
            const index_t j = B_crd2[pB2];
            const index_t W_slot = claim(&W_set[W_set_begin], W_used, j);
            if (W_slot < 0) {
              W_vals[W_set_begin + (-1 - W_slot)] = A_val * B_vals[pB2];
            } else {
              W_vals[W_set_begin + W_slot] += A_val * B_vals[pB2];
            }
          }
          __syncwarp(0xffffu << (threadIdx.x & 16));
        }
        __syncwarp(0xffffu << (threadIdx.x & 16));
        W_count = collect<16>(&W_set[W_set_begin], W_used, &W_tally[W_tally_begin], &W_keys[W_keys_begin], 0xffffu << (threadIdx.x & 16));
        __syncwarp(0xffffu << (threadIdx.x & 16));
        sort_keys<16>(&W_keys[W_keys_begin], W_count, 0xffffu << (threadIdx.x & 16));
        __syncwarp(0xffffu << (threadIdx.x & 16));
        // stored k of w
        for (index_t pW1 = lane; pW1 < W_count; pW1 += 16) {
          const index_t j = W_keys[W_keys_begin + pW1];
          R_vals[own2 + pW1] = W_vals[W_set_begin + slot_of(&W_set[W_set_begin], W_used, W_keys[W_keys_begin + pW1])];
          R_crd2[own2 + pW1] = j;
        }
        own2 += W_count > 0 ? W_count : 0;
      }
      if (lane == 0) {
        R_pos2[piece + 1] = own2;
      }
      __syncwarp(0xffffu << (threadIdx.x & 16));
    }
  }
}

extern "C" __global__ void __launch_bounds__(1024) kernel_6(
    const index_t i_size,
    const index_t j_size,
    const int64_t *__restrict__ pieces_long,
    const int64_t *__restrict__ R2_first,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const int32_t *__restrict__ B_pos2,
    const double *__restrict__ A_vals,
    const int32_t *__restrict__ B_crd2,
    const double *__restrict__ B_vals,
    double *__restrict__ R_vals,
    int32_t *__restrict__ R_crd2,
    int32_t *__restrict__ R_pos2
) {
  __shared__ __align__(16) uint64_t W_bound_sums[64];
  __shared__ __align__(16) int32_t W_set[2048];
  __shared__ __align__(16) double W_vals[2048];
  __shared__ __align__(16) int32_t W_keys[1536];
  __shared__ __align__(16) int32_t W_tally[1];
  const index_t warp = threadIdx.x / 16;
  const index_t lane = threadIdx.x % 16;
  uint64_t W_bound = 0u;
  index_t W_used = 0;
  index_t W_count = 0;
  // compute each piece into its place that is long
  const index_t piece_at = blockIdx.x;
  const index_t piece = pieces_long[piece_at];
  index_t own2 = R2_first[piece];
  // i of this run
  if (piece < i_size) {
    W_bound = 0u;
    for (index_t pA2_of_bound = A_pos2[piece] + threadIdx.x; pA2_of_bound < A_pos2[piece + 1]; pA2_of_bound += 1024) {
      const index_t k_of_bound = A_crd2[pA2_of_bound];
      W_bound = W_bound + (uint64_t)(B_pos2[k_of_bound + 1] - B_pos2[k_of_bound]);
    }
    W_bound = of_lanes<add_of_uint64, 16>(W_bound, 0xffffu << (threadIdx.x & 16));
    W_bound = across_units<add_of_uint64, 64, 16>(W_bound, W_bound_sums);
    W_used = table_slots(lesser((int64_t)min_uint64(W_bound, 536870912u), j_size));
    // an empty table
    for (index_t W_at = threadIdx.x; W_at < W_used; W_at += 1024) {
      W_set[W_at] = -1;
      W_vals[W_at] = 0.0;
    }
    __syncthreads();
    // stored j of A
    for (index_t pA2 = A_pos2[piece] + warp; pA2 < A_pos2[piece + 1]; pA2 += 64) {
      const index_t k = A_crd2[pA2];
      const double A_val_2 = A_vals[pA2];
      // stored k of B
      for (index_t pB2 = B_pos2[k] + lane; pB2 < B_pos2[k + 1]; pB2 += 16) {
        const index_t j = B_crd2[pB2];
        const index_t W_slot = claim(W_set, W_used, j);
        atomicAdd(&W_vals[greater(W_slot, -1 - W_slot)], A_val_2 * B_vals[pB2]);
      }
      __syncwarp(0xffffu << (threadIdx.x & 16));
    }
    __syncthreads();
    W_count = collect<0>(W_set, W_used, W_tally, W_keys, 1u);
    __syncthreads();
    sort_keys<0>(W_keys, W_count, 1u);
    __syncthreads();
    // stored k of w
    for (index_t pW1 = threadIdx.x; pW1 < W_count; pW1 += 1024) {
      const index_t j = W_keys[pW1];
      R_vals[own2 + pW1] = W_vals[slot_of(W_set, W_used, W_keys[pW1])];
      R_crd2[own2 + pW1] = j;
    }
    own2 += W_count > 0 ? W_count : 0;
    if (threadIdx.x == 0) {
      R_pos2[piece + 1] = own2;
    }
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(1024) kernel_7(
    const index_t j_size,
    const index_t far_keys,
    const index_t far_pieces,
    const index_t i_size,
    const int64_t *__restrict__ pieces_far,
    const int64_t *__restrict__ R2_first,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const double *__restrict__ A_vals,
    const int32_t *__restrict__ B_pos2,
    const int32_t *__restrict__ B_crd2,
    uint32_t *__restrict__ W_bits,
    double *__restrict__ W_vals,
    const double *__restrict__ B_vals,
    int32_t *__restrict__ W_keys,
    double *__restrict__ R_vals,
    int32_t *__restrict__ R_crd2,
    int32_t *__restrict__ R_pos2
) {
  __shared__ __align__(16) int32_t W_tally[32];
  const index_t warp = threadIdx.x / 16;
  const index_t lane = threadIdx.x % 16;
  const index_t W_vals_begin = blockIdx.x * j_size;
  const index_t W_bits_begin = blockIdx.x * ((j_size + 31) / 32);
  const index_t W_keys_begin = blockIdx.x * (far_keys > 2048 ? far_keys : 2048);
  index_t W_count = 0;
  // compute each piece into its place that is far
  for (index_t piece_at = blockIdx.x; piece_at < far_pieces; piece_at += gridDim.x) {
    const index_t piece = pieces_far[piece_at];
    index_t own2 = R2_first[piece];
    // i of this run
    if (piece < i_size) {
      // stored j of A
      for (index_t pA2 = A_pos2[piece] + warp; pA2 < A_pos2[piece + 1]; pA2 += 64) {
        const index_t k = A_crd2[pA2];
        const double A_val_3 = A_vals[pA2];
        // stored k of B
        for (index_t pB2 = B_pos2[k] + lane; pB2 < B_pos2[k + 1]; pB2 += 16) {
          const index_t j = B_crd2[pB2];
          mark_bit(&W_bits[W_bits_begin], j);
          atomicAdd(&W_vals[W_vals_begin + j], A_val_3 * B_vals[pB2]);
        }
        __syncwarp(0xffffu << (threadIdx.x & 16));
      }
      __syncthreads();
      W_count = list_bits<0>(&W_bits[W_bits_begin], (j_size + 31) / 32, W_tally, &W_keys[W_keys_begin], 1u);
      __syncthreads();
      // stored k of w
      for (index_t pW1 = threadIdx.x; pW1 < W_count; pW1 += 1024) {
        const index_t j = W_keys[W_keys_begin + pW1];
        R_vals[own2 + pW1] = W_vals[W_vals_begin + W_keys[W_keys_begin + pW1]];
        R_crd2[own2 + pW1] = j;
      }
      own2 += W_count > 0 ? W_count : 0;
      __syncthreads();
      // forget the values
      for (index_t W_at = threadIdx.x; W_at < W_count; W_at += 1024) {
        W_vals[W_vals_begin + W_keys[W_keys_begin + W_at]] = 0.0;
      }
      if (threadIdx.x == 0) {
        R_pos2[piece + 1] = own2;
      }
      __syncthreads();
    }
    __syncthreads();
  }
}
