"""CUDA helpers for hash tables and bitmaps of keys that threads fill together, and their key lists.

L is the number of cooperating threads, adjacent within a warp; 0: the whole block.
"""

from __future__ import annotations

_SLOTS = """\
// How many slots a table of so many keys has: a power of two, a quarter of which stay free.
static __device__ inline index_t table_slots(index_t keys) {
  index_t slots = 32;
  while (slots * 3 < (long long)keys * 4) slots *= 2;
  return slots;
}
"""

_FIND = """\
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
"""

_CLAIM = """\
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
"""

_COLLECT = """\
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
"""

_SORT = """\
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
"""

_BITS = """\
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
"""

_APPEND = """\
template <typename K> static __device__ inline void append(K *list, int *count, index_t value) {
  list[atomicAdd(count, 1)] = (K)value;
}
"""

_UNSIGNED = """\
template <int Bytes> struct Unsigned { typedef unsigned type; };
template <> struct Unsigned<8> { typedef unsigned long long type; };
"""

TABLE_HELPERS = {
    "table_slots": _SLOTS,
    "slot_of": _FIND,
    "claim": _CLAIM,
    "collect": _COLLECT,
    "tally": "",
    "sort_keys": _UNSIGNED + _SORT,
    "append": _APPEND,
    "list_bits": _BITS,
    "mark_bit": "",
    "tally_bits": "",
}
# Helpers that call others.
TABLE_NEEDS = {
    "claim": "slot_of",
    "tally": "collect",
    "list_bits": "collect",
    "mark_bit": "list_bits",
    "tally_bits": "list_bits",
}
