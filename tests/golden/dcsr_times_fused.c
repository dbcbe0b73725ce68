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

// forall f:
//   C(i,j) = A(i,j) * B(i,j)
// such that fuse(i, j, f)
// In the code, C is R.
int32_t kernel(void **arrays, int64_t *sizes) {
  const int64_t room = sizes[1];
  const int32_t *restrict A_crd1 = arrays[1];
  const int32_t *restrict A_pos1 = arrays[2];
  const int32_t *restrict A_crd2 = arrays[3];
  const int32_t *restrict A_pos2 = arrays[4];
  const double *restrict A_vals = arrays[5];
  const int32_t *restrict B_crd1 = arrays[6];
  const int32_t *restrict B_pos1 = arrays[7];
  const int32_t *restrict B_crd2 = arrays[8];
  const int32_t *restrict B_pos2 = arrays[9];
  const double *restrict B_vals = arrays[10];
  int32_t *R_pos1 = 0;
  int32_t *R_crd1 = 0;
  int32_t *R_pos2 = 0;
  int32_t *R_crd2 = 0;
  double *R_vals = 0;
  int32_t status = 0;
  const int64_t A2_size = A_pos2[A_pos1[1]];
  const int64_t B2_size = B_pos2[B_pos1[1]];
  R_pos1 = room_for(2, sizeof(int32_t), &status);
  if (status) goto done;
  int64_t nR1 = 0;
  int64_t R1_room = 0;
  int64_t nR2 = 0;
  int64_t R2_room = 0;
  if (nR1 + room > R1_room) {
    R1_room = larger(R1_room, nR1 + room);
    R_crd1 = resize(R_crd1, R1_room, sizeof(int32_t), &status);
    R_pos2 = resize(R_pos2, R1_room + 1, sizeof(int32_t), &status);
    if (status) goto done;
  }
  if (nR2 + room > R2_room) {
    R2_room = larger(R2_room, nR2 + room);
    R_crd2 = resize(R_crd2, R2_room, sizeof(int32_t), &status);
    R_vals = resize(R_vals, R2_room, sizeof(double), &status);
    if (status) goto done;
  }
  R_pos1[0] = 0;
  R_pos2[0] = 0;
  int64_t pA1 = 0;
  const int64_t pA1_end = A_pos1[1];
  int64_t pB1 = 0;
  const int64_t pB1_end = B_pos1[1];
  if (nR1 + (pA1_end - pA1) + (pB1_end - pB1) > R1_room) {
    R1_room = larger(R1_room, nR1 + (pA1_end - pA1) + (pB1_end - pB1));
    R_crd1 = resize(R_crd1, R1_room, sizeof(int32_t), &status);
    R_pos2 = resize(R_pos2, R1_room + 1, sizeof(int32_t), &status);
    if (status) goto done;
  }
  // i of A and B, in order
  while (pA1 < pA1_end && pB1 < pB1_end) {
    const int64_t iA = A_crd1[pA1];
    const int64_t iB = B_crd1[pB1];
    if (iA == iB) {
      const int64_t nR2_start = nR2;
      int64_t pA2 = A_pos2[pA1];
      const int64_t pA2_end = A_pos2[pA1 + 1];
      int64_t pB2 = B_pos2[pB1];
      const int64_t pB2_end = B_pos2[pB1 + 1];
      if (nR2 + (pA2_end - pA2) + (pB2_end - pB2) > R2_room) {
        R2_room = larger(R2_room, nR2 + (pA2_end - pA2) + (pB2_end - pB2));
        R_crd2 = resize(R_crd2, R2_room, sizeof(int32_t), &status);
        R_vals = resize(R_vals, R2_room, sizeof(double), &status);
        if (status) goto done;
      }
      if (pA2_end < A2_size && pB2_end < B2_size) {
        // coordinates are read one ahead, as something lies beyond both runs
        int32_t jA = A_crd2[pA2];
        int32_t jB = B_crd2[pB2];
        // j of A and B, in order
        while (pA2 < pA2_end && pB2 < pB2_end) {
          if (jA == jB) {
            const int64_t j = jA;
            R_vals[nR2] = A_vals[pA2] * B_vals[pB2];
            R_crd2[nR2] = j;
            nR2++;
            jA = A_crd2[pA2 + 1];
            jB = B_crd2[pB2 + 1];
            pA2++;
            pB2++;
          } else {
            const int32_t jA_next = A_crd2[pA2 + 1];
            const int32_t jB_next = B_crd2[pB2 + 1];
            pA2 += jA < jB;
            pB2 += jB < jA;
            const int32_t jA_then = jA < jB ? jA_next : jA;
            jB = jA < jB ? jB : jB_next;
            jA = jA_then;
          }
        }
      } else {
        // j of A and B, in order
        while (pA2 < pA2_end && pB2 < pB2_end) {
          const int64_t jA = A_crd2[pA2];
          const int64_t jB = B_crd2[pB2];
          if (jA == jB) {
            R_vals[nR2] = A_vals[pA2] * B_vals[pB2];
            R_crd2[nR2] = jA;
            nR2++;
            pA2++;
            pB2++;
          } else {
            const int64_t j = jA < jB ? jA : jB;
            pA2 += jA == j;
            pB2 += jB == j;
          }
        }
      }
      if (nR2_start < nR2) {
        R_crd1[nR1] = iA;
        R_pos2[nR1 + 1] = nR2;
        nR1++;
      }
      pA1++;
      pB1++;
    } else {
      const int64_t i = iA < iB ? iA : iB;
      pA1 += iA == i;
      pB1 += iB == i;
    }
  }
  if (nR1 > 2147483647) {
    status = 3;
    goto done;
  }
  if (nR2 > 2147483647) {
    status = 3;
    goto done;
  }
  R_pos1[1] = nR1;
done:
  if (status == 0) {
    arrays[11] = R_pos1;
    sizes[4] = 2;
    arrays[12] = R_crd1;
    sizes[5] = nR1;
    arrays[13] = R_pos2;
    sizes[6] = nR1 + 1;
    arrays[14] = R_crd2;
    sizes[7] = nR2;
    arrays[15] = R_vals;
    sizes[8] = nR2;
  } else {
    __builtin_free(R_pos1);
    __builtin_free(R_crd1);
    __builtin_free(R_pos2);
    __builtin_free(R_crd2);
    __builtin_free(R_vals);
  }
  return status;
}
