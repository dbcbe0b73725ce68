typedef __INT32_TYPE__ int32_t;
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

// How many words a map of `size` keys takes, with its summaries.
static int64_t mark_words(int64_t size) {
  const int64_t words = (size + 63) >> 6, first = (words + 63) >> 6;
  return words + first + ((first + 63) >> 6);
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

// Note that `key` is there.
static inline void mark(uint64_t *marks, int64_t size, int64_t key) {
  const int64_t words = (size + 63) >> 6, first = (words + 63) >> 6, second = (first + 63) >> 6;
  uint64_t *word = &marks[second + first + (key >> 6)];
  const uint64_t known = *word;
  *word = known | (uint64_t)1 << (key & 63);
  if (known) return;
  marks[second + (key >> 12)] |= (uint64_t)1 << (key >> 6 & 63);
  marks[key >> 18] |= (uint64_t)1 << (key >> 12 & 63);
}

// The keys that are there in order, and how many; then none is.
static int64_t list_keys(uint64_t *marks, int64_t size, int64_t *keys) {
  const int64_t words = (size + 63) >> 6, first = (words + 63) >> 6, second = (first + 63) >> 6;
  uint64_t *lower = marks + second, *map = lower + first;
  int64_t count = 0;
  for (int64_t n = 0; n < second; n++) {
    for (uint64_t a = marks[n]; a; a &= a - 1) {
      const int64_t at = n << 6 | __builtin_ctzll(a);
      for (uint64_t b = lower[at]; b; b &= b - 1) {
        const int64_t word = at << 6 | __builtin_ctzll(b);
        for (uint64_t c = map[word]; c; c &= c - 1) keys[count++] = word << 6 | __builtin_ctzll(c);
        map[word] = 0;
      }
      lower[at] = 0;
    }
    marks[n] = 0;
  }
  return count;
}

static inline int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// forall i:
//   R(i) = W(i)
// where
//   forall j:
//     forall i:
//       W(i) += A(j,i)
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t room = sizes[1];
  const int64_t i_size = sizes[2];
  const int64_t j_size = sizes[3];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  double *W_vals = 0;
  uint64_t *W_marks = 0;
  int64_t *W_keys = 0;
  int32_t *R_pos1 = 0;
  int32_t *R_crd1 = 0;
  double *R_vals = 0;
  int32_t status = 0;
  W_vals = zeros(i_size, sizeof(double), &status);
  W_marks = zeros(mark_words(i_size), sizeof(uint64_t), &status);
  W_keys = room_for(i_size, sizeof(int64_t), &status);
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
  // every j
  for (int64_t j = 0; j < j_size; j++) {
    if (!(j & 511) && *stop) break;
    // stored i of A
    for (int64_t pA2 = A_pos2[j]; pA2 < A_pos2[j + 1]; pA2++) {
      const int64_t i = A_crd2[pA2];
      mark(W_marks, i_size, i);
      W_vals[i] += A_vals[pA2];
    }
  }
  W_count = list_keys(W_marks, i_size, W_keys);
  if (nR1 + W_count > R1_room) {
    R1_room = larger(R1_room, nR1 + W_count);
    R_crd1 = resize(R_crd1, R1_room, sizeof(int32_t), &status);
    R_vals = resize(R_vals, R1_room, sizeof(double), &status);
    if (status) goto done;
  }
  // stored i of W
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
  // forget the values
  for (int64_t W_at = 0; W_at < W_count; W_at++) {
    W_vals[W_keys[W_at]] = 0.0;
  }
  if (nR1 > 2147483647) {
    status = 3;
    goto done;
  }
  R_pos1[1] = nR1;
  if (*stop) status = 2;
done:
  __builtin_free(W_vals);
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
