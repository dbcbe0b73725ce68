"""CUDA helpers for cooperating threads: shuffles, reductions, segments, compare and exchange."""

from __future__ import annotations

_SHUFFLE = """\
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
"""

_LANES = """\
// The values of N neighbouring lanes combined, for all of them.
template <typename Op, int N, typename T>
static __device__ inline T of_lanes(T value, unsigned mask) {
#pragma unroll
  for (int bits = N / 2; bits > 0; bits /= 2)
    value = Op::of(value, words(value, MoveXor{mask, bits, N}));
  return value;
}
"""

_LANES_APART = """\
// The values of N lanes combined, each S after the last, for all of them.
template <typename Op, int N, int S, typename T>
static __device__ inline T of_lanes_apart(T value, unsigned mask) {
#pragma unroll
  for (int bits = N / 2; bits > 0; bits /= 2)
    value = Op::of(value, words(value, MoveXor{mask, bits * S, N * S}));
  return value;
}
"""

_SYNC_UNIT = """\
// A barrier for the unit of N adjacent threads, whole warps, that this thread is in.
template <int N> static __device__ inline void sync_unit() {
#ifdef __CUDA_ARCH__
  asm volatile("bar.sync %0, %1;" : : "r"(threadIdx.x / N + 1), "n"(N) : "memory");
#else
  emulated_sync_unit(N);
#endif
}
"""

_UNIT = """\
// The values of the N threads of a unit combined, for all of them.
template <typename Op, int N, typename T>
static __device__ inline T of_unit(T value, T identity, T *all) {
  T *const sums = all + threadIdx.x / N * (N / 32);
  value = of_lanes<Op, 32>(value, 0xffffffffu);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x % N / 32] = value;
  sync_unit<N>();
  value = identity;
#pragma unroll
  for (int n = 0; n < N / 32; n++) value = Op::of(value, sums[n]);
  sync_unit<N>();
  return value;
}
"""

_BLOCK = """\
// The values of the N threads of a block combined, for all of them.
template <typename Op, int N, typename T>
static __device__ inline T of_block(T value, T identity, T *sums) {
  value = of_lanes<Op, 32>(value, 0xffffffffu);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  value = identity;
#pragma unroll
  for (int n = 0; n < N / 32; n++) value = Op::of(value, sums[n]);
  __syncthreads();
  return value;
}
"""

_UNITS = """\
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
"""

_CHUNKS = """\
// Where the next chunk of iterations begins, for all threads of the block; `end`: there is none.
static __device__ inline index_t next_chunk(unsigned long long *counter, index_t chunk,
                                            index_t end) {
  __shared__ unsigned long long next;
  // All have read what was taken before. A thread that failed has left: then so do all.
  if (__syncthreads_count(1) < (int)blockDim.x) return end;
  if (threadIdx.x == 0) next = atomicAdd(counter, (unsigned long long)chunk);
  __syncthreads();
  return next < (unsigned long long)end ? (index_t)next : end;
}
"""

_END_CHUNKS = """\
// The last block to leave sets the counter back, for the next launch.
static __device__ inline void end_chunks(unsigned long long *counter) {
  if (threadIdx.x == 0) {
    __threadfence();
    if (atomicAdd(counter + 1, 1ull) + 1 == (unsigned long long)gridDim.x * gridDim.y) {
      atomicExch(counter, 0ull);
      atomicExch(counter + 1, 0ull);
    }
  }
}
"""

_PARALLEL = """\
// The values of G lanes combined; whether this lane is the one to store them.
template <typename Op, int G, typename T>
static __device__ inline bool of_parallel(T &value, index_t &index, unsigned mask) {
  value = of_lanes<Op, G>(value, mask);
  // Lanes past the end of the data know no index.
  const unsigned known = __ballot_sync(mask, index >= 0);
  return index >= 0 && __ffs(known) - 1 == (int)(threadIdx.x & 31);
}
"""

_SEGMENT = """\
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
"""

_EXCHANGE = """\
// Elements of two words: one thread at a time, by locks that are taken and given back in one turn.
static __device__ int locks[256];
template <typename T> static __device__ inline bool exchange_wide(T *place, T &old, T next) {
  typedef unsigned long long Long;
  int *const lock = &locks[((size_t)place / sizeof(T)) % 256];
  if (atomicCAS(lock, 0, 1) != 0) return false;
  __threadfence();
  union { T all; Long word[2]; } seen, new_, found;
  seen.all = old, new_.all = next;
  volatile Long *const words = (volatile Long *)place;
  found.word[0] = words[0], found.word[1] = words[1];
  const bool done = found.word[0] == seen.word[0] && found.word[1] == seen.word[1];
  if (done) words[0] = new_.word[0], words[1] = new_.word[1];
  __threadfence();
  atomicExch(lock, 0);
  old = found.all;
  return done;
}

// Put `next` in place of `old`; if that is no longer there, learn what is.
template <typename T> static __device__ inline bool exchange(T *place, T &old, T next) {
  if constexpr (sizeof(T) == 16) return exchange_wide(place, old, next);
  if (sizeof(T) == 8 || sizeof(T) == 4) {
    typedef unsigned long long Long;
    union { T all; Long wide; unsigned word; } seen, new_;
    seen.wide = new_.wide = 0;
    seen.all = old, new_.all = next;
    if (sizeof(T) == 8) {
      const Long found = atomicCAS((Long *)place, seen.wide, new_.wide);
      const bool done = found == seen.wide;
      seen.wide = found, old = seen.all;
      return done;
    }
    const unsigned found = atomicCAS((unsigned *)place, seen.word, new_.word);
    const bool done = found == seen.word;
    seen.word = found, old = seen.all;
    return done;
  }
  // One of the elements of a word: the others stay as they are.
  unsigned *const word = (unsigned *)((size_t)place & ~(size_t)3);
  const int shift = 8 * (int)((size_t)place & 3);
  const unsigned mask = (sizeof(T) == 2 ? 0xffffu : 0xffu) << shift;
  union { T all; unsigned bits; } seen, new_;
  seen.bits = new_.bits = 0;
  seen.all = old, new_.all = next;
  const unsigned around = *(volatile unsigned *)word & ~mask;
  const unsigned expected = around | seen.bits << shift;
  const unsigned found = atomicCAS(word, expected, around | new_.bits << shift);
  seen.bits = (found & mask) >> shift, old = seen.all;
  return found == expected;
}
"""

_VECTOR = """\
// Neighbouring elements that are loaded and stored at once.
constexpr int alignment(int bytes) { return (bytes & -bytes) < 16 ? bytes & -bytes : 16; }
template <typename T, int N> struct alignas(alignment(N * sizeof(T))) Vector {
  T of[N];
};
"""

_ADD_VECTOR = """\
// Add to neighbouring elements of the GPU's memory at once, to each of them indivisibly.
template <int N>
static __device__ inline void add_vector(float *place, const Vector<float, N> &given) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#pragma unroll
  for (int n = 0; n < N; n++) atomicAdd(place + n, given.of[n]);
#else
  constexpr int each = N % 4 == 0 ? 4 : 2;
#pragma unroll
  for (int n = 0; n < N; n += each) {
    const float *const of = given.of + n;
    if constexpr (each == 4) atomicAdd((float4 *)(place + n), float4{of[0], of[1], of[2], of[3]});
    else atomicAdd((float2 *)(place + n), float2{of[0], of[1]});
  }
#endif
}
"""

GROUP_HELPERS = {
    "vector": _VECTOR,
    "add_vector": _ADD_VECTOR,
    "shuffle": _SHUFFLE,
    "of_lanes": _LANES,
    "of_lanes_apart": _LANES_APART,
    "sync_unit": _SYNC_UNIT,
    "of_unit": _UNIT,
    "of_block": _BLOCK,
    "across_units": _UNITS,
    "next_chunk": _CHUNKS,
    "end_chunks": _END_CHUNKS,
    "of_parallel": _PARALLEL,
    "of_segment": _SEGMENT,
    "exchange": _EXCHANGE,
}
# Helpers that call others.
GROUP_NEEDS = {
    "add_vector": "vector",
    "of_lanes": "shuffle",
    "of_lanes_apart": "shuffle",
    "of_unit": "of_lanes",
    "of_block": "of_lanes",
    "of_parallel": "of_lanes",
    "of_segment": "shuffle",
}
