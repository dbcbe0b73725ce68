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

// forall i:
//   forall j:
//     R(i,j) = A(i,j) + B(i,j)
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t room = sizes[1];
  const int64_t i_size = sizes[2];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const int32_t *restrict B_crd2 = arrays[4];
  const int32_t *restrict B_pos2 = arrays[5];
  const double *restrict B_vals = arrays[6];
  int32_t *R_pos2 = 0;
  int32_t *R_crd2 = 0;
  double *R_vals = 0;
  int32_t status = 0;
  R_pos2 = room_for(i_size + 1, sizeof(int32_t), &status);
  if (status) goto done;
  int64_t nR2 = 0;
  int64_t R2_room = 0;
  if (nR2 + room > R2_room) {
    R2_room = larger(R2_room, nR2 + room);
    R_crd2 = resize(R_crd2, R2_room, sizeof(int32_t), &status);
    R_vals = resize(R_vals, R2_room, sizeof(double), &status);
    if (status) goto done;
  }
  R_pos2[0] = 0;
  // every i
  for (int64_t i = 0; i < i_size; i++) {
    if (!(i & 63) && *stop) break;
    int64_t pA2 = A_pos2[i];
    const int64_t pA2_end = A_pos2[i + 1];
    int64_t pB2 = B_pos2[i];
    const int64_t pB2_end = B_pos2[i + 1];
    if (nR2 + (pA2_end - pA2) + (pB2_end - pB2) > R2_room) {
      R2_room = larger(R2_room, nR2 + (pA2_end - pA2) + (pB2_end - pB2));
      R_crd2 = resize(R_crd2, R2_room, sizeof(int32_t), &status);
      R_vals = resize(R_vals, R2_room, sizeof(double), &status);
      if (status) goto done;
    }
    // j of A and B, in order
    while (pA2 < pA2_end && pB2 < pB2_end) {
      const int64_t jA = A_crd2[pA2];
      const int64_t jB = B_crd2[pB2];
      if (jA == jB) {
        const int64_t j = jA;
        R_vals[nR2] = A_vals[pA2] + B_vals[pB2];
        R_crd2[nR2] = j;
        nR2++;
        pA2++;
        pB2++;
      } else {
        const int64_t j = jA < jB ? jA : jB;
        const double B_val = B_vals[pB2];
        const double A_val = A_vals[pA2];
        R_vals[nR2] = jB == j ? B_val : A_val;
        R_crd2[nR2] = j;
        nR2++;
        pA2 += jA == j;
        pB2 += jB == j;
      }
    }
    // rest of B
    while (pB2 < pB2_end) {
      const int64_t j = B_crd2[pB2];
      R_vals[nR2] = B_vals[pB2];
      R_crd2[nR2] = j;
      nR2++;
      pB2++;
    }
    // rest of A
    while (pA2 < pA2_end) {
      const int64_t j = A_crd2[pA2];
      R_vals[nR2] = A_vals[pA2];
      R_crd2[nR2] = j;
      nR2++;
      pA2++;
    }
    R_pos2[i + 1] = nR2;
  }
  if (2147483647 < nR2) {
    status = 3;
    goto done;
  }
  if (*stop) status = 2;
done:
  if (status == 0) {
    arrays[7] = R_pos2;
    sizes[4] = i_size + 1;
    arrays[8] = R_crd2;
    sizes[5] = nR2;
    arrays[9] = R_vals;
    sizes[6] = nR2;
  } else {
    __builtin_free(R_pos2);
    __builtin_free(R_crd2);
    __builtin_free(R_vals);
  }
  return status;
}
