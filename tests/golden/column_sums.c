typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
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


// Memory for `count` elements.
static void *room_for(int64_t count, size_t size, int32_t *status) {
  const size_t bytes = ((size_t)count + 1) * size;
  void *array = __builtin_malloc(bytes);
  if (!array) *status = 1;
  return huge(array, bytes);
}

// Memory for `count` elements, all zero.
static void *zeros(int64_t count, size_t size, int32_t *status) {
  void *array = __builtin_calloc((size_t)count + 1, size);
  if (!array) *status = 1;
  return huge(array, ((size_t)count + 1) * size);
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

static void sift_list(int64_t *keys, int64_t root, int64_t count) {
  for (;;) {
    int64_t child = 2 * root + 1;
    if (child >= count) return;
    if (child + 1 < count && keys[child] < keys[child + 1]) child++;
    if (keys[root] >= keys[child]) return;
    { const int64_t t = keys[root]; keys[root] = keys[child]; keys[child] = t; }
    root = child;
  }
}

// Sort by key: quicksort, insertion for short runs, heapsort should quicksort degenerate.
static void sort_list(int64_t *keys, int64_t count, int64_t depth) {
  while (count > 24) {
    if (depth-- == 0) {
      for (int64_t root = count / 2; root-- > 0;) sift_list(keys, root, count);
      for (int64_t last = count; last-- > 1;) {
        { const int64_t t = keys[0]; keys[0] = keys[last]; keys[last] = t; }
        sift_list(keys, 0, last);
      }
      return;
    }
    const int64_t a = keys[0], b = keys[count / 2], c = keys[count - 1];
    const int64_t pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
    int64_t left = -1, right = count;
    for (;;) {
      do left++; while (keys[left] < pivot);
      do right--; while (keys[right] > pivot);
      if (left >= right) break;
      { const int64_t t = keys[left]; keys[left] = keys[right]; keys[right] = t; }
    }
    sort_list(keys, right + 1, depth);
    keys += right + 1;
    count -= right + 1;
  }
  for (int64_t n = 1; n < count; n++) {
    const int64_t key = keys[n];
    int64_t at = n;
    for (; at > 0 && keys[at - 1] > key; at--) { keys[at] = keys[at - 1]; }
    keys[at] = key;
  }
}

// The keys that were seen, in order: sorted, or read off the marks where those are few.
static void sort_keys(int64_t *keys, int64_t count, const _Bool *seen, int64_t size) {
  int64_t depth = 2;
  for (int64_t n = count; n > 0; n /= 2) depth += 2;
  if (size / 4 > count * depth) {
    sort_list(keys, count, depth);
    return;
  }
  int64_t at = 0;
  for (int64_t key = 0; key < size && at < count; key++)
    if (seen[key]) keys[at++] = key;
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
  _Bool *W_seen = 0;
  int64_t *W_keys = 0;
  int32_t *R_pos1 = 0;
  int32_t *R_crd1 = 0;
  double *R_vals = 0;
  int32_t status = 0;
  W_vals = room_for(i_size, sizeof(double), &status);
  W_seen = zeros(i_size, sizeof(_Bool), &status);
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
    if (!(j & 63) && *stop) break;
    // stored i of A
    for (int64_t pA2 = A_pos2[j]; pA2 < A_pos2[j + 1]; pA2++) {
      const int64_t i = A_crd2[pA2];
      if (W_seen[i]) {
        W_vals[i] += A_vals[pA2];
      } else {
        W_seen[i] = 1;
        W_keys[W_count] = i;
        W_count++;
        W_vals[i] = A_vals[pA2];
      }
    }
  }
  sort_keys(W_keys, W_count, W_seen, i_size);
  if (nR1 + W_count > R1_room) {
    R1_room = larger(R1_room, nR1 + W_count);
    R_crd1 = resize(R_crd1, R1_room, sizeof(int32_t), &status);
    R_vals = resize(R_vals, R1_room, sizeof(double), &status);
    if (status) goto done;
  }
  // stored i of W
  for (int64_t pW1 = 0; pW1 < W_count; pW1++) {
    const int64_t i = W_keys[pW1];
    R_vals[nR1] = W_vals[W_keys[pW1]];
    R_crd1[nR1] = i;
    nR1++;
  }
  // forget the keys
  for (int64_t W_at = 0; W_at < W_count; W_at++) {
    W_seen[W_keys[W_at]] = 0;
  }
  W_count = 0;
  if (2147483647 < nR1) {
    status = 3;
    goto done;
  }
  R_pos1[1] = nR1;
  if (*stop) status = 2;
done:
  __builtin_free(W_vals);
  __builtin_free(W_seen);
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
