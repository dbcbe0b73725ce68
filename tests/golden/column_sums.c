typedef __UINT8_TYPE__ uint8_t;
typedef __INT32_TYPE__ int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;

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


// Memory for `count` elements, all zero.
static void *zeros(int64_t count, size_t size, int32_t *status) {
  void *array = __builtin_calloc((size_t)count + 1, size);
  if (!array) *status = 1;
  return huge(array, ((size_t)count + 1) * size);
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

// List `key`, if it is not listed yet; how many keys are then.
static inline int64_t note_int32(uint8_t *listed, int32_t *keys, int64_t count, int64_t key) {
  const int64_t more = count + 1 - listed[key];
  keys[count] = (int32_t)key;
  listed[key] = 1;
  return more;
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

static inline int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// forall j:
//   a(j) = w(j)
// where
//   forall i:
//     forall j:
//       w(j) += B(i,j)
// In the code, a is R, B is A, w is W, j is i, i is j.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t room = sizes[1];
  const int64_t i_size = sizes[2];
  const int64_t j_size = sizes[3];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  double *W_vals = 0;
  uint8_t *W_listed = 0;
  uint64_t *W_marks = 0;
  int32_t *W_keys = 0;
  int32_t *R_pos1 = 0;
  int32_t *R_crd1 = 0;
  double *R_vals = 0;
  int32_t status = 0;
  W_vals = zeros(i_size, sizeof(double), &status);
  W_listed = zeros(i_size, sizeof(uint8_t), &status);
  W_marks = zeros(i_size / 64 + 1, sizeof(uint64_t), &status);
  W_keys = room_for(i_size + 1, sizeof(int32_t), &status);
  if (status) goto done;
  int64_t W_count = 0;
  R_pos1 = room_for(2, sizeof(int32_t), &status);
  if (status) goto done;
  int64_t nR1 = 0;
  int64_t R1_room = 0;
  if (nR1 + room > R1_room) {
    R1_room = larger(R1_room, nR1 + room);
    R_crd1 = resize(R_crd1, R1_room, sizeof(int32_t), &status);
    R_vals = resize(R_vals, R1_room, sizeof(double), &status);
    if (status) goto done;
  }
  R_pos1[0] = 0;
  // every i
  for (int64_t j = 0; j < j_size; j++) {
    if (!(j & 511) && *stop) break;
    // stored j of B
    for (int64_t pA2 = A_pos2[j]; pA2 < A_pos2[j + 1]; pA2++) {
      const int64_t i = A_crd2[pA2];
      W_count = note_int32(W_listed, W_keys, W_count, i);
      W_vals[i] += A_vals[pA2];
    }
  }
  order_keys_int32(W_keys, W_count, W_marks);
  if (nR1 + W_count > R1_room) {
    R1_room = larger(R1_room, nR1 + W_count);
    R_crd1 = resize(R_crd1, R1_room, sizeof(int32_t), &status);
    R_vals = resize(R_vals, R1_room, sizeof(double), &status);
    if (status) goto done;
  }
  // stored j of w
  for (int64_t pW1_run = 0; pW1_run < W_count; pW1_run += 8192) {
    if (*stop) break;
    const int64_t pW1_run_end = lesser(pW1_run + 8192, W_count);
    for (int64_t pW1 = pW1_run; pW1 < pW1_run_end; pW1++) {
      const int64_t i = W_keys[pW1];
      R_vals[nR1] = W_vals[W_keys[pW1]];
      R_crd1[nR1] = i;
      nR1++;
    }
  }
  // an empty workspace
  for (int64_t W_at = 0; W_at < W_count; W_at++) {
    W_vals[W_keys[W_at]] = 0.0;
    W_listed[W_keys[W_at]] = 0;
  }
  W_count = 0;
  if (nR1 > 2147483647) {
    status = 3;
    goto done;
  }
  R_pos1[1] = nR1;
  if (*stop) status = 2;
done:
  __builtin_free(W_vals);
  __builtin_free(W_listed);
  __builtin_free(W_marks);
  __builtin_free(W_keys);
  if (status == 0) {
    arrays[4] = R_pos1;
    sizes[4] = 2;
    arrays[5] = R_crd1;
    sizes[5] = nR1;
    arrays[6] = R_vals;
    sizes[6] = nR1;
  } else {
    __builtin_free(R_pos1);
    __builtin_free(R_crd1);
    __builtin_free(R_vals);
  }
  return status;
}
