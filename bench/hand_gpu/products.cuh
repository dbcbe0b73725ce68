// Sparse products by hand: what a GPU gives to a row-wise matrix, whatever a compiler may say.
// Every kernel is a template; the files beside this one instantiate them.
#pragma once

template <class T> struct Wide;                       // 16 bytes of a type
template <> struct Wide<float> { using type = float4; static constexpr int n = 4; };
template <> struct Wide<double> { using type = double2; static constexpr int n = 2; };

template <class T, int V> struct Part { T at[V]; };

template <class T, int V>
__device__ inline Part<T, V> wide_load(const T *from) {
  Part<T, V> r;
  if constexpr (V == Wide<T>::n) {
    *reinterpret_cast<typename Wide<T>::type *>(r.at) =
        __ldg(reinterpret_cast<const typename Wide<T>::type *>(from));
  } else {
    for (int v = 0; v < V; v++) r.at[v] = __ldg(from + v);
  }
  return r;
}

template <class T, int V>
__device__ inline void wide_store(T *to, const Part<T, V> &r) {
  if constexpr (V == Wide<T>::n)
    __stcs(reinterpret_cast<typename Wide<T>::type *>(to),
           *reinterpret_cast<const typename Wide<T>::type *>(r.at));
  else
    for (int v = 0; v < V; v++) to[v] = r.at[v];
}

// One entry of A, read once: not kept in the first-level cache where STREAM.
template <bool STREAM, class T> __device__ inline T entry(const T *p) {
  if constexpr (STREAM) return __ldcs(p);
  return __ldg(p);
}

// -- a sparse matrix times a vector ------------------------------------------------------------

// GROUP threads a row, UNROLL entries of each in flight. With DEFER, rows longer than `most` wait
// until the block has done its others, and are then summed by the whole block.
template <class T, int GROUP, int UNROLL, int BLOCK, bool DEFER, bool STREAM>
__device__ inline void spmv_rows(int rows, int most, const int *__restrict__ pos,
                                 const int *__restrict__ crd, const T *__restrict__ val,
                                 const T *__restrict__ x, T *__restrict__ y) {
  __shared__ int later[DEFER ? BLOCK / GROUP : 1], count;
  __shared__ T sums[BLOCK / 32];
  if constexpr (DEFER) {
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
  }
  const int lane = threadIdx.x % GROUP;
  const int row = blockIdx.x * (BLOCK / GROUP) + threadIdx.x / GROUP;
  int begin = 0, end = 0;
  if (row < rows) begin = pos[row], end = pos[row + 1];
  bool mine = row < rows;
  if constexpr (DEFER)
    if (end - begin > most) {
      if (lane == 0) later[atomicAdd(&count, 1)] = row;
      mine = false, end = begin;
    }
  T sum = 0;
  for (int p = begin + lane; p < end; p += GROUP * UNROLL) {
    T a[UNROLL];
    int c[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      const int q = min(p + u * GROUP, end - 1);
      c[u] = entry<STREAM>(crd + q), a[u] = entry<STREAM>(val + q);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      const T found = x[c[u]];
      if (p + u * GROUP < end) sum += a[u] * found;
    }
  }
#pragma unroll
  for (int half = GROUP / 2; half; half /= 2) sum += __shfl_xor_sync(~0u, sum, half);
  if (mine && lane == 0) y[row] = sum;
  if constexpr (DEFER) {
    __syncthreads();
    for (int n = 0; n < count; n++) {
      const int far = later[n];
      const int first = pos[far], last = pos[far + 1];
      T all = 0;
      for (int p = first + threadIdx.x; p < last; p += BLOCK * 4) {
        T a[4];
        int c[4];
#pragma unroll
        for (int u = 0; u < 4; u++) {
          const int q = min(p + u * BLOCK, last - 1);
          c[u] = entry<STREAM>(crd + q), a[u] = entry<STREAM>(val + q);
        }
#pragma unroll
        for (int u = 0; u < 4; u++) {
          const T found = x[c[u]];
          if (p + u * BLOCK < last) all += a[u] * found;
        }
      }
#pragma unroll
      for (int half = 16; half; half /= 2) all += __shfl_xor_sync(~0u, all, half);
      if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = all;
      __syncthreads();
      if (threadIdx.x == 0) {
        for (int w = 1; w < BLOCK / 32; w++) all += sums[w];
        y[far] = all;
      }
      __syncthreads();
    }
  }
}

// GROUP threads a row, each with four adjacent entries by loads of 16 bytes.
template <class T, int GROUP, int UNROLL, int BLOCK>
__device__ inline void spmv_wide(int rows, const int *__restrict__ pos,
                                 const int *__restrict__ crd, const T *__restrict__ val,
                                 const T *__restrict__ x, T *__restrict__ y) {
  const int lane = threadIdx.x % GROUP;
  const int row = blockIdx.x * (BLOCK / GROUP) + threadIdx.x / GROUP;
  int begin = 0, end = 0;
  if (row < rows) begin = pos[row], end = pos[row + 1];
  T sum = 0;
  for (int p = (begin & ~3) + lane * 4; p < end; p += GROUP * 4 * UNROLL) {
    int4 c[UNROLL];
    T a[UNROLL][4];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      int q = p + u * GROUP * 4;
      if (q >= end) q = p;
      c[u] = __ldcs(reinterpret_cast<const int4 *>(crd + q));
      if constexpr (sizeof(T) == 4) {
        *reinterpret_cast<float4 *>(a[u]) = __ldcs(reinterpret_cast<const float4 *>(val + q));
      } else {
        *reinterpret_cast<double2 *>(a[u]) = __ldcs(reinterpret_cast<const double2 *>(val + q));
        *reinterpret_cast<double2 *>(a[u] + 2) =
            __ldcs(reinterpret_cast<const double2 *>(val + q + 2));
      }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      const int q = p + u * GROUP * 4;
      const int at[4] = {c[u].x, c[u].y, c[u].z, c[u].w};
#pragma unroll
      for (int v = 0; v < 4; v++)
        if (q + v >= begin && q + v < end) sum += a[u][v] * x[at[v]];
    }
  }
#pragma unroll
  for (int half = GROUP / 2; half; half /= 2) sum += __shfl_xor_sync(~0u, sum, half);
  if (row < rows && lane == 0) y[row] = sum;
}

// A block for a run of whole rows with at most BLOCK * EACH entries, whose terms it stages in
// shared memory; or for a part of one row: `first[b]` is its first row, `place[b]` its first entry.
template <class T, int EACH, int BLOCK>
__device__ inline void spmv_runs(const int *__restrict__ first, const int *__restrict__ place,
                                 const int *__restrict__ pos, const int *__restrict__ crd,
                                 const T *__restrict__ val, const T *__restrict__ x,
                                 T *__restrict__ y) {
  __shared__ T terms[BLOCK * EACH];
  __shared__ T sums[BLOCK / 32];
  const int row = first[blockIdx.x], after = first[blockIdx.x + 1];
  const int begin = place[blockIdx.x], end = place[blockIdx.x + 1];
  if (end - begin > BLOCK * EACH || after <= row || (after == row + 1)) {
    T all = 0;
    for (int p = begin + threadIdx.x; p < end; p += BLOCK * EACH) {
      T a[EACH];
      int c[EACH];
#pragma unroll
      for (int u = 0; u < EACH; u++) {
        const int q = min(p + u * BLOCK, end - 1);
        c[u] = __ldcs(crd + q), a[u] = __ldcs(val + q);
      }
#pragma unroll
      for (int u = 0; u < EACH; u++) {
        const T found = x[c[u]];
        if (p + u * BLOCK < end) all += a[u] * found;
      }
    }
#pragma unroll
    for (int half = 16; half; half /= 2) all += __shfl_xor_sync(~0u, all, half);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = all;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int w = 1; w < BLOCK / 32; w++) all += sums[w];
      if (begin == pos[row] && end == pos[row + 1]) y[row] = all;
      else atomicAdd(y + row, all);
    }
    return;
  }
  {
    T a[EACH];
    int c[EACH];
#pragma unroll
    for (int u = 0; u < EACH; u++) {
      const int q = min(begin + (int)threadIdx.x + u * BLOCK, end - 1);
      c[u] = __ldcs(crd + q), a[u] = __ldcs(val + q);
    }
#pragma unroll
    for (int u = 0; u < EACH; u++) terms[threadIdx.x + u * BLOCK] = a[u] * x[c[u]];
  }
  __syncthreads();
  int group = 1;
  while (group < 32 && group * 2 * (after - row) <= BLOCK) group *= 2;
  const int lane = threadIdx.x % group, step = BLOCK / group;
  for (int r = row + threadIdx.x / group; r - (int)(threadIdx.x / group) < after; r += step) {
    T sum = 0;
    if (r < after) {
      const int last = pos[r + 1] - begin;
      for (int p = pos[r] - begin + lane; p < last; p += group) sum += terms[p];
    }
    for (int half = group / 2; half; half /= 2) sum += __shfl_xor_sync(~0u, sum, half);
    if (r < after && lane == 0) y[r] = sum;
  }
}

// x in shared memory, a block for each multiprocessor: rows[b] to rows[b + 1], GROUP threads each.
template <class T, int GROUP, int UNROLL>
__device__ inline void spmv_held(int across, const int *__restrict__ bounds,
                                 const int *__restrict__ pos, const int *__restrict__ crd,
                                 const T *__restrict__ val, const T *__restrict__ x,
                                 T *__restrict__ y) {
  extern __shared__ double room[];
  T *held = reinterpret_cast<T *>(room);
  for (int n = threadIdx.x; n < across; n += 1024) held[n] = x[n];
  __syncthreads();
  const int lane = threadIdx.x % GROUP, last = bounds[blockIdx.x + 1];
  for (int base = bounds[blockIdx.x]; base < last; base += 1024 / GROUP) {
    const int row = base + threadIdx.x / GROUP;
    int begin = 0, end = 0;
    if (row < last) begin = pos[row], end = pos[row + 1];
    T sum = 0;
    for (int p = begin + lane; p < end; p += GROUP * UNROLL) {
      T a[UNROLL];
      int c[UNROLL];
#pragma unroll
      for (int u = 0; u < UNROLL; u++) {
        const int q = min(p + u * GROUP, end - 1);
        c[u] = __ldcs(crd + q), a[u] = __ldcs(val + q);
      }
#pragma unroll
      for (int u = 0; u < UNROLL; u++)
        if (p + u * GROUP < end) sum += a[u] * held[c[u]];
    }
#pragma unroll
    for (int half = GROUP / 2; half; half /= 2) sum += __shfl_xor_sync(~0u, sum, half);
    if (row < last && lane == 0) y[row] = sum;
  }
}

// -- a sparse matrix times a dense one ---------------------------------------------------------

// Tiles of LANES * V columns: the slowest index of the grid where TILES_FIRST, else the fastest.
// SHARE groups of LANES threads share a row, UNROLL entries of each in flight. With ITEMS, work is
// a list of (row, first entry, last entry, whether they are the whole row), the longest first.
template <class T, int V, int LANES, int SHARE, int UNROLL, int BLOCK, bool TILES_FIRST, bool ITEMS>
__device__ inline void spmm_rows(int rows, int columns, const int4 *__restrict__ items,
                                 const int *__restrict__ pos, const int *__restrict__ crd,
                                 const T *__restrict__ val, const T *__restrict__ B,
                                 T *__restrict__ C) {
  constexpr int EACH = LANES * SHARE;
  const int tiles = columns / (LANES * V);
  int block, tile;
  if constexpr (TILES_FIRST) {
    const int blocks = gridDim.x / tiles;
    tile = blockIdx.x / blocks, block = blockIdx.x % blocks;
  } else {
    tile = blockIdx.x % tiles, block = blockIdx.x / tiles;
  }
  const int at = block * (BLOCK / EACH) + threadIdx.x / EACH;
  const int lane = threadIdx.x % LANES, turn = threadIdx.x % EACH / LANES;
  const int column = (tile * LANES + lane) * V;
  int row = at, begin = 0, end = 0;
  bool whole = true;
  if (at < rows) {
    if constexpr (ITEMS) {
      const int4 item = items[at];
      row = item.x, begin = item.y, end = item.z, whole = item.w;
    } else {
      begin = pos[row], end = pos[row + 1];
    }
  }
  Part<T, V> sum;
#pragma unroll
  for (int v = 0; v < V; v++) sum.at[v] = 0;
  for (int p = begin + turn; p < end; p += SHARE * UNROLL) {
    int c[UNROLL];
    T a[UNROLL];
    Part<T, V> b[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      const int q = min(p + u * SHARE, end - 1);
      c[u] = __ldg(crd + q), a[u] = __ldg(val + q);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) b[u] = wide_load<T, V>(B + (size_t)c[u] * columns + column);
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
      if (p + u * SHARE < end)
#pragma unroll
        for (int v = 0; v < V; v++) sum.at[v] += a[u] * b[u].at[v];
  }
#pragma unroll
  for (int half = EACH / 2; half >= LANES; half /= 2)
#pragma unroll
    for (int v = 0; v < V; v++) sum.at[v] += __shfl_xor_sync(~0u, sum.at[v], half);
  if (at < rows && turn == 0) {
    T *to = C + (size_t)row * columns + column;
    if (whole) wide_store<T, V>(to, sum);
    else
      for (int v = 0; v < V; v++) atomicAdd(to + v, sum.at[v]);
  }
}

// -- what no kernel is faster than: the same bytes, read and written once, in order --------------

template <int BLOCK>
__device__ inline void bytes_once(long long reads, long long writes, const int4 *__restrict__ a,
                                  int4 *__restrict__ to) {
  int4 kept = {0, 0, 0, 0};
  const long long step = (long long)gridDim.x * BLOCK, me = blockIdx.x * (long long)BLOCK + threadIdx.x;
  for (long long n = me; n < reads; n += step * 4) {
#pragma unroll
    for (int u = 0; u < 4; u++)
      if (n + u * step < reads) {
        const int4 one = __ldg(a + n + u * step);
        kept.x ^= one.x, kept.y ^= one.y, kept.z ^= one.z, kept.w ^= one.w;
      }
  }
  for (long long n = me; n < writes; n += step) __stcs(to + n, kept);
  if (writes == 0 && kept.x == 0x7fffffff && kept.y == 0x12345) *to = kept;
}
