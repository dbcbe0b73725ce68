"""CUDA helpers for tables of keys that threads fill together, and for lists of them."""

from __future__ import annotations

_TABLE = """\
// How many slots a table of so many keys has: a power of two, a quarter of which stay free.
static __device__ inline index_t table_slots(index_t keys) {
  index_t slots = 32;
  while (slots * 3 < (long long)keys * 4) slots *= 2;
  return slots;
}
"""

_CLAIM = """\
static __device__ inline int put_key(int *place, int key) { return atomicCAS(place, -1, key); }
static __device__ inline long long put_key(long long *place, long long key) {
  typedef unsigned long long Long;
  return (long long)atomicCAS((Long *)place, (Long)-1, (Long)key);
}
static __device__ inline unsigned first_slot(long long key) {
  const unsigned mixed = ((unsigned)key ^ (unsigned)(key >> 32)) * 2654435769u;
  return mixed ^ mixed >> 15;
}

// The slot of `key`, which is put on the list of keys if it is new: then -1 - slot.
template <typename K>
static __device__ inline index_t claim(K *set, index_t slots, K *keys, int *tally, index_t new_) {
  const K key = (K)new_;
  const unsigned mask = (unsigned)slots - 1;
  for (unsigned at = first_slot(key) & mask;; at = (at + 1) & mask) {
    K seen = set[at];
    if (seen == -1) {
      seen = put_key(&set[at], key);
      if (seen == -1) {
        keys[atomicAdd(tally, 1)] = key;
        return -1 - (index_t)at;
      }
    }
    if (seen == key) return (index_t)at;
  }
}

// The slot of a key that is there.
template <typename K>
static __device__ inline index_t slot_of(const K *set, index_t slots, index_t key) {
  const unsigned mask = (unsigned)slots - 1;
  unsigned at = first_slot(key) & mask;
  while (set[at] != key) at = (at + 1) & mask;
  return (index_t)at;
}
"""

_SORT = """\
// Keys in order, by L threads side by side, or by the whole block if L is 0: bitonic merges of
// runs twice as long each time, all of whose exchanges put the smaller key first.
template <int L, typename K>
static __device__ inline void sort_keys(K *keys, index_t count, unsigned mask) {
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
"""

_APPEND = """\
template <typename K> static __device__ inline void append(K *list, int *count, index_t value) {
  list[atomicAdd(count, 1)] = (K)value;
}
"""

TABLE_HELPERS = {
    "table_slots": _TABLE,
    "claim": _CLAIM,
    "slot_of": "",  # comes with `claim`
    "sort_keys": _SORT,
    "append": _APPEND,
}
