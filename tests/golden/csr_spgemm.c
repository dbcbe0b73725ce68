typedef __UINT8_TYPE__ uint8_t;
typedef __INT32_TYPE__ int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;

static inline int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t greater(int64_t a, int64_t b) {
  return a > b ? a : b;
}

#ifdef __linux__
int madvise(void *, size_t, int);
#endif

// Large arrays on huge pages: far fewer page faults, and twice the rate of random access.
static void *huge(void *array, size_t bytes) {
#ifdef __linux__
  if (array && bytes >= 4194304) {
    const size_t start = ((size_t)array + 4095) & ~(size_t)4095;
    madvise((void *)start, (size_t)array + bytes - start, 14);
  }
#endif
  return array;
}


// Memory for `count` elements.
static void *room_for(int64_t count, size_t size, int32_t *status) {
  const size_t bytes = ((size_t)count + 1) * size;
  void *array = __builtin_malloc(bytes);
  if (!array) *status = 1;
  return huge(array, bytes);
}

// The next capacity: enough, and at least twice as much as before.
static int64_t larger(int64_t capacity, int64_t needed) {
  return needed > 2 * capacity ? needed : 2 * capacity;
}

// `array` with room for `count` elements; if memory runs out it stays, and the status says so.
static void *resize(void *array, int64_t count, size_t size, int32_t *status) {
  const size_t bytes = ((size_t)count + 1) * size;
  void *larger = __builtin_realloc(array, bytes);
  if (larger) return huge(larger, bytes);
  *status = 1;
  return array;
}

// Memory for `count` elements, all zero.
static void *zeros(int64_t count, size_t size, int32_t *status) {
  void *array = __builtin_calloc((size_t)count + 1, size);
  if (!array) *status = 1;
  return huge(array, ((size_t)count + 1) * size);
}

// Where part `part` of `parts` of [begin, end) begins, if all have equally many rows and entries.
static int64_t cut_int32(const int32_t *pos, int64_t begin, int64_t end, int64_t part,
                         int64_t parts) {
  if (begin >= end) return begin;
  const int64_t first = pos[begin] + begin, work = pos[end] + end - first;
  const int64_t rest = work % parts;
  const int64_t goal = first + work / parts * part + (part < rest ? part : rest);
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (pos[middle] + middle < goal) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

// List `key`, if it is not listed yet; how many keys are then.
static inline int64_t note_int32(uint8_t *listed, int32_t *keys, int64_t count, int64_t key) {
  const int64_t more = count + 1 - listed[key];
  keys[count] = (int32_t)key;
  listed[key] = 1;
  return more;
}

// Bring memory closer that will be needed soon.
static inline void ask_for(const void *at) {
#ifdef __aarch64__
  // Some cores ignore a prefetch whose address is a sum of two registers.
  __asm__("" : "+r"(at));
#endif
  __builtin_prefetch(at);
}

// Sort distinct keys. `marks` is a bitmap of all keys that are possible, and empty.
static void order_keys_int32(int32_t *keys, int64_t count, uint64_t *marks) {
  int32_t least = count ? keys[0] : 0, most = least;
  int64_t falls = 0;
  for (int64_t n = 1; n < count; n++) {
    least = keys[n] < least ? keys[n] : least;
    most = keys[n] > most ? keys[n] : most;
    falls += keys[n - 1] > keys[n];
  }
  if (!falls) return;
#if defined __AVX512F__
  const int64_t few = 384 / sizeof *keys;
#elif defined __AVX2__
  const int64_t few = 256 / sizeof *keys;
#else
  const int64_t few = 96 / sizeof *keys;
#endif
  if ((most >> 6) - (least >> 6) <= (count > few ? count : count / 8)) {
    // Dense: by the bits of the words between them, in each of which one or two keys are usual.
    for (int64_t n = 0; n < count; n++) marks[keys[n] >> 6] |= (uint64_t)1 << (keys[n] & 63);
    int64_t before = 0;
    for (int32_t word = least >> 6; word <= most >> 6; word++) {
      uint64_t bits = marks[word];
      marks[word] = 0;
      int64_t at = before;
      before += __builtin_popcountll(bits);
      for (int64_t n = 0; n < 2; n++) {
        const uint64_t some = bits | (uint64_t)1 << 63;
        keys[at++] = word << 6 | (int32_t)__builtin_ctzll(some);
        bits &= bits - 1;
      }
      for (; bits; bits &= bits - 1) keys[at++] = word << 6 | (int32_t)__builtin_ctzll(bits);
    }
    return;
  }
  if (count <= 8) {
    for (int64_t n = 1; n < count; n++) {
      const int32_t key = keys[n];
      int64_t at = n;
      for (; at > 0 && keys[at - 1] > key; at--) keys[at] = keys[at - 1];
      keys[at] = key;
    }
    return;
  }
  if (count <= few) {
    int32_t *ranked = keys + count;
    for (int64_t begin = 0; begin < count; begin += 32) {
      int32_t smaller[32] = {0};
      for (int64_t n = 0; n < count; n++) {
        const int32_t key = keys[n];
        for (int64_t lane = 0; lane < 32; lane++) smaller[lane] += key < keys[begin + lane];
      }
      for (int64_t lane = 0; lane < 32 && begin + lane < count; lane++)
        ranked[smaller[lane]] = keys[begin + lane];
    }
    for (int64_t n = 0; n < count; n++) keys[n] = ranked[n];
    return;
  }
  // Sparse: by a few of their bits at a time, into the memory behind them and back.
  int64_t width = 1;
  while ((uint64_t)(most - least) >> width) width++;
  const int64_t widest = count < 512 ? 8 : 11;
  const int64_t passes = (width + widest - 1) / widest, digit = (width + passes - 1) / passes;
  const int64_t digits = (int64_t)1 << digit;
  int32_t *from = keys, *to = keys + count;
  for (int64_t pass = 0; pass < passes; pass++) {
    uint32_t first[2048];
    for (int64_t n = 0; n < digits; n++) first[n] = 0;
    for (int64_t n = 0; n < count; n++) first[(from[n] - least) >> pass * digit & (digits - 1)]++;
    uint32_t sum = 0;
    for (int64_t n = 0; n < digits; n++) {
      const uint32_t each = first[n];
      first[n] = sum;
      sum += each;
    }
    for (int64_t n = 0; n < count; n++)
      to[first[(from[n] - least) >> pass * digit & (digits - 1)]++] = from[n];
    int32_t *other = from;
    from = to;
    to = other;
  }
  if (from == keys) return;
  for (int64_t n = 0; n < count; n++) keys[n] = from[n];
}

// Get some lines of 64 bytes that will be written soon.
static inline void write_soon(void *at, int32_t lines) {
#ifdef __aarch64__
  // Some cores ignore a prefetch whose address is a sum of two registers.
  __asm__("" : "+r"(at));
#endif
#pragma GCC unroll 4
  for (int32_t n = 0; n < lines; n++)
    __builtin_prefetch((void *)((__UINTPTR_TYPE__)at + 64 * (__UINTPTR_TYPE__)n), 1);
}

// Whether all pieces before `piece`, which has just been counted, are; if so, it begins where each
// of `firsts` says, and those that waited for it have their turn. It may be a moment before.
static int64_t in_turn(int64_t *turns, int64_t piece, int64_t levels, int64_t *const *firsts) {
  for (int64_t n = 0; n < 256 && !__atomic_load_n(&turns[piece], __ATOMIC_RELAXED); n++) continue;
  int64_t at = piece, bit = 2;
  while (__atomic_or_fetch(&turns[at], bit, __ATOMIC_ACQ_REL) == 3) {
    for (int64_t n = 0; n < levels; n++) firsts[n][at + 1] += firsts[n][at];
    at++;
    bit = 1;
  }
  return at > piece;
}

// Copy the first `count` elements to where `to` has its element `begin`.
static inline void put_at_int32(int32_t *to, int64_t begin, const int32_t *from, int64_t count) {
  __builtin_memcpy(to + begin, from, (size_t)count * sizeof *to);
}

// Copy the first `count` elements to where `to` has its element `begin`.
static inline void put_at_float64(double *to, int64_t begin, const double *from, int64_t count) {
  __builtin_memcpy(to + begin, from, (size_t)count * sizeof *to);
}

// forall i:
//   forall j:
//     C(i,j) = w(j)
//   where
//     forall k:
//       forall j:
//         w(j) += A(i,k) * B(k,j)
// In the code, C is R, w is W.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int64_t room = sizes[1];
  const int64_t i_size = sizes[2];
  const int64_t j_size = sizes[3];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const int32_t *restrict B_crd2 = arrays[4];
  const int32_t *restrict B_pos2 = arrays[5];
  const double *restrict B_vals = arrays[6];
  int64_t *R2_first = 0;
  int32_t *R_pos2 = 0;
  int32_t *R_crd2 = 0;
  double *R_vals = 0;
  int64_t *R_turns = 0;
  int32_t **own_crd2_shelf = 0;
  int64_t own_crd2_shelf_count = 0;
  double **own_vals_shelf = 0;
  int64_t own_vals_shelf_count = 0;
  int32_t status = 0;
  int32_t failed = 0;
  const int64_t A2_size = A_pos2[i_size];
  const int64_t pieces_near = lesser(room * 12 / 262144, threads * 1024 - 1024);
  const int64_t pieces_most = greater(pieces_near, threads * 32 - 32);
  const int64_t pieces = greater(i_size < pieces_most ? i_size : pieces_most, 1);
  R2_first = room_for(pieces + 1, sizeof(int64_t), &status);
  R_pos2 = room_for(i_size + 1, sizeof(int32_t), &status);
  if (status) goto done;
  own_crd2_shelf_count = pieces;
  own_crd2_shelf = __builtin_calloc((size_t)own_crd2_shelf_count, sizeof *own_crd2_shelf);
  if (!own_crd2_shelf) {
    status = 1;
    goto done;
  }
  own_vals_shelf_count = pieces;
  own_vals_shelf = __builtin_calloc((size_t)own_vals_shelf_count, sizeof *own_vals_shelf);
  if (!own_vals_shelf) {
    status = 1;
    goto done;
  }
  int64_t R2_room = 0;
  if (pieces > 1) {
    if (room + 1 > R2_room) {
      R2_room = larger(R2_room, room + 1);
      R_crd2 = resize(R_crd2, R2_room, sizeof(int32_t), &status);
      R_vals = resize(R_vals, R2_room, sizeof(double), &status);
      if (status) goto done;
    }
  }
  R_turns = zeros(pieces + 1, sizeof(int64_t), &status);
  if (status) goto done;
  R_turns[0] = 1;
  R2_first[0] = 0;
  {
    int64_t piece_next_chunk = 0;
    const int64_t piece_chunks_end = pieces;
    // threads take 1 iterations at a time
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
      int32_t status = 0;
      double *W_vals = 0;
      uint8_t *W_listed = 0;
      uint64_t *W_marks = 0;
      int32_t *W_keys = 0;
      int32_t *own_crd2 = 0;
      double *own_vals = 0;
      W_vals = zeros(j_size, sizeof(double), &status);
      W_listed = zeros(j_size, sizeof(uint8_t), &status);
      W_marks = zeros(j_size / 64 + 1, sizeof(uint64_t), &status);
      W_keys = room_for(j_size + 1, sizeof(int32_t), &status);
      if (status) goto leave_1;
      int64_t W_count = 0;
      int64_t own2_room = 0;
      int64_t own_placed = 0;
      int64_t own_end = 0;
      int64_t own_each = room / pieces;
      for (;;) {
        const int64_t piece_first = __atomic_fetch_add(&piece_next_chunk, 1, __ATOMIC_RELAXED);
        if (piece_first >= piece_chunks_end || *stop) break;
        const int64_t piece_limit = lesser(piece_first + 1, piece_chunks_end);
        // compute each piece into arrays of its own
        for (int64_t piece = piece_first; piece < piece_limit; piece++) {
          const int64_t piece_lo = cut_int32(A_pos2, 0, i_size, piece, pieces);
          const int64_t piece_hi = cut_int32(A_pos2, 0, i_size, piece + 1, pieces);
          int64_t own2 = 0;
          if (own2 + room / pieces + 1 > own2_room) {
            own2_room = larger(own2_room, own2 + room / pieces + 1);
            own_crd2 = resize(own_crd2, own2_room, sizeof(int32_t), &status);
            own_vals = resize(own_vals, own2_room, sizeof(double), &status);
            if (status) goto leave_1;
          }
          const int64_t own_soon = own_end + (piece - own_placed) * own_each;
          // i of this run
          for (int64_t i = piece_lo; i < piece_hi; i++) {
            if (*stop) break;
            // stored k of A
            for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
              const int64_t k = A_crd2[pA2];
              const double A_val = A_vals[pA2];
              // stored j of B
              for (int64_t pB2 = B_pos2[k]; pB2 < B_pos2[k + 1]; pB2++) {
                const int64_t j = B_crd2[pB2];
                W_count = note_int32(W_listed, W_keys, W_count, j);
                W_vals[j] += A_val * B_vals[pB2];
              }
              const int64_t k_later = A_crd2[lesser(pA2 + 16, A2_size - 1)];
              const int64_t k_ahead = A_crd2[lesser(pA2 + 8, A2_size - 1)];
              ask_for(&B_pos2[k_later]);
              if (B_pos2[k_ahead] < B_pos2[k_ahead + 1]) {
                ask_for(&B_crd2[B_pos2[k_ahead]]);
                ask_for(&B_vals[B_pos2[k_ahead]]);
              }
            }
            order_keys_int32(W_keys, W_count, W_marks);
            if (own2 + W_count > own2_room) {
              own2_room = larger(own2_room, own2 + W_count);
              own_crd2 = resize(own_crd2, own2_room, sizeof(int32_t), &status);
              own_vals = resize(own_vals, own2_room, sizeof(double), &status);
              if (status) goto leave_1;
            }
            // stored j of w
            for (int64_t pW1 = 0; pW1 < W_count; pW1++) {
              const int64_t j = W_keys[pW1];
              own_vals[own2] = W_vals[W_keys[pW1]];
              own_crd2[own2] = j;
              own2++;
            }
            // an empty workspace
            for (int64_t W_at = 0; W_at < W_count; W_at++) {
              W_vals[W_keys[W_at]] = 0.0;
              W_listed[W_keys[W_at]] = 0;
            }
            W_count = 0;
            R_pos2[i + 1] = own2;
            if (own_soon + own2 < R2_room) {
              write_soon(&R_crd2[own_soon + own2], 1);
              write_soon(&R_vals[own_soon + own2], 2);
            }
          }
          R2_first[piece + 1] = own2;
          const int64_t R_known = in_turn(R_turns, piece, 1, (int64_t *[]){R2_first});
          if (R_known > 0 && R2_first[piece + 1] < R2_room) {
#pragma omp simd
            for (int64_t R_at = piece_lo; R_at < piece_hi; R_at++) {
              R_pos2[R_at + 1] += R2_first[piece];
            }
            put_at_int32(R_crd2, R2_first[piece], own_crd2, R2_first[piece + 1] - R2_first[piece]);
            put_at_float64(R_vals, R2_first[piece], own_vals, R2_first[piece + 1] - R2_first[piece]);
            R_turns[piece] = 0;
            own_placed = piece + 1;
            own_end = R2_first[piece + 1];
            own_each = own2;
          } else {
            own_crd2_shelf[piece] = own_crd2;
            own_crd2 = 0;
            own_vals_shelf[piece] = own_vals;
            own_vals = 0;
            own2_room = 0;
          }
        }
      }
leave_1:;
      __builtin_free(W_vals);
      __builtin_free(W_listed);
      __builtin_free(W_marks);
      __builtin_free(W_keys);
      __builtin_free(own_crd2);
      __builtin_free(own_vals);
      if (status) {
#pragma omp atomic write
        failed = status;
      }
    }
    if (failed) {
      status = failed;
      goto done;
    }
    if (*stop) {
      status = 2;
      goto done;
    }
  }
  const int64_t nR2 = R2_first[pieces];
  if (nR2 > 2147483647) {
    status = 3;
    goto done;
  }
  if (pieces == 1) {
    R_crd2 = own_crd2_shelf[0];
    own_crd2_shelf[0] = 0;
    R_vals = own_vals_shelf[0];
    own_vals_shelf[0] = 0;
  } else {
    if (nR2 + 1 > R2_room) {
      R2_room = larger(R2_room, nR2 + 1);
      R_crd2 = resize(R_crd2, R2_room, sizeof(int32_t), &status);
      R_vals = resize(R_vals, R2_room, sizeof(double), &status);
      if (status) goto done;
    }
    {
      int64_t piece_next_chunk = 0;
      const int64_t piece_chunks_end = pieces;
      // threads take 1 iterations at a time
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
      for (int64_t part = 0; part < threads; part++) {
        for (;;) {
          const int64_t piece_first = __atomic_fetch_add(&piece_next_chunk, 1, __ATOMIC_RELAXED);
          if (piece_first >= piece_chunks_end || *stop) break;
          const int64_t piece_limit = lesser(piece_first + 1, piece_chunks_end);
          // put the others into place
          for (int64_t piece = piece_first; piece < piece_limit; piece++) {
            if (R_turns[piece] > 0) {
              const int64_t piece_lo = cut_int32(A_pos2, 0, i_size, piece, pieces);
              const int64_t piece_hi = cut_int32(A_pos2, 0, i_size, piece + 1, pieces);
              int32_t *own_crd2 = own_crd2_shelf[piece];
              own_crd2_shelf[piece] = 0;
              double *own_vals = own_vals_shelf[piece];
              own_vals_shelf[piece] = 0;
#pragma omp simd
              for (int64_t R_at = piece_lo; R_at < piece_hi; R_at++) {
                R_pos2[R_at + 1] += R2_first[piece];
              }
              put_at_int32(R_crd2, R2_first[piece], own_crd2, R2_first[piece + 1] - R2_first[piece]);
              put_at_float64(R_vals, R2_first[piece], own_vals, R2_first[piece + 1] - R2_first[piece]);
              __builtin_free(own_crd2);
              __builtin_free(own_vals);
            }
          }
        }
      }
    }
  }
  __builtin_free(R_turns);
  R_turns = 0;
  R_pos2[0] = 0;
  __builtin_free(R2_first);
  R2_first = 0;
  if (*stop) status = 2;
done:
  __builtin_free(R2_first);
  __builtin_free(R_turns);
  for (int64_t n = 0; own_crd2_shelf && n < own_crd2_shelf_count; n++)
    __builtin_free(own_crd2_shelf[n]);
  __builtin_free(own_crd2_shelf);
  for (int64_t n = 0; own_vals_shelf && n < own_vals_shelf_count; n++)
    __builtin_free(own_vals_shelf[n]);
  __builtin_free(own_vals_shelf);
  if (status == 0) {
    arrays[7] = R_pos2;
    sizes[5] = i_size + 1;
    arrays[8] = R_crd2;
    sizes[6] = nR2;
    arrays[9] = R_vals;
    sizes[7] = nR2;
  } else {
    __builtin_free(R_pos2);
    __builtin_free(R_crd2);
    __builtin_free(R_vals);
  }
  return status;
}
