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

// The slot of `key`; a key that is not there yet gets slot `count`. -1 if memory runs out.
static int64_t find_int64(int64_t **table, int64_t *mask, const int64_t *keys, int64_t count,
                    int64_t key) {
  if (2 * count >= *mask) {
    const int64_t size = *mask < 0 ? 64 : 4 * (*mask + 1);
    int64_t *larger = __builtin_malloc((size_t)size * sizeof(int64_t));
    if (!larger) return -1;
    for (int64_t n = 0; n < size; n++) larger[n] = -1;
    for (int64_t slot = 0; slot < count; slot++) {
      int64_t at = (int64_t)((uint64_t)keys[slot] * 0x9E3779B97F4A7C15u >> 20) & (size - 1);
      while (larger[at] >= 0) at = (at + 1) & (size - 1);
      larger[at] = slot;
    }
    __builtin_free(*table);
    *table = larger;
    *mask = size - 1;
  }
  int64_t at = (int64_t)((uint64_t)key * 0x9E3779B97F4A7C15u >> 20) & *mask;
  while ((*table)[at] >= 0) {
    if (keys[(*table)[at]] == key) return (*table)[at];
    at = (at + 1) & *mask;
  }
  (*table)[at] = count;
  return count;
}

static void sift_both_int64(int64_t *keys, int64_t *slots, int64_t root, int64_t count) {
  for (;;) {
    int64_t child = 2 * root + 1;
    if (child >= count) return;
    if (child + 1 < count && keys[child] < keys[child + 1]) child++;
    if (keys[root] >= keys[child]) return;
    { const int64_t t = keys[root]; keys[root] = keys[child]; keys[child] = t; } { const int64_t t = slots[root]; slots[root] = slots[child]; slots[child] = t; }
    root = child;
  }
}

// Sort by key: quicksort, insertion for short runs, heapsort should quicksort degenerate.
static void sort_both_int64(int64_t *keys, int64_t *slots, int64_t count, int64_t depth) {
  while (count > 24) {
    if (depth-- == 0) {
      for (int64_t root = count / 2; root-- > 0;) sift_both_int64(keys, slots, root, count);
      for (int64_t last = count; last-- > 1;) {
        { const int64_t t = keys[0]; keys[0] = keys[last]; keys[last] = t; } { const int64_t t = slots[0]; slots[0] = slots[last]; slots[last] = t; }
        sift_both_int64(keys, slots, 0, last);
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
      { const int64_t t = keys[left]; keys[left] = keys[right]; keys[right] = t; } { const int64_t t = slots[left]; slots[left] = slots[right]; slots[right] = t; }
    }
    sort_both_int64(keys, slots, right + 1, depth);
    keys += right + 1;
    slots += right + 1;
    count -= right + 1;
  }
  for (int64_t n = 1; n < count; n++) {
    const int64_t key = keys[n];
    const int64_t slot = slots[n];
    int64_t at = n;
    for (; at > 0 && keys[at - 1] > key; at--) {
      keys[at] = keys[at - 1];
      slots[at] = slots[at - 1];
    }
    keys[at] = key;
    slots[at] = slot;
  }
}

// Keys in order, each with its slot.
static void sort_pairs_int64(int64_t *keys, int64_t *slots, int64_t count) {
  int64_t depth = 2;
  for (int64_t n = count; n > 0; n /= 2) depth += 2;
  sort_both_int64(keys, slots, count, depth);
}

// Forget every slot of a hash table.
static void clear(int64_t *table, int64_t mask) {
  for (int64_t n = 0; n <= mask; n++) table[n] = -1;
}

// forall j:
//   forall k:
//     forall l:
//       forall m:
//         Z(j,k,l,m) = w(j,k,l,m)
// where
//   forall i:
//     forall j:
//       forall k:
//         forall l:
//           forall m:
//             w(j,k,l,m) += X(i,j,k) * Y(i,l,m)
// In the code, Z is R, X is A, Y is B, w is W, j is i, k is j, l is k, m is l, i is m.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t room = sizes[1];
  const int64_t j_size = sizes[3];
  const int64_t k_size = sizes[4];
  const int64_t l_size = sizes[5];
  const int32_t *restrict A_crd1 = arrays[1];
  const int32_t *restrict A_pos1 = arrays[2];
  const int32_t *restrict A_crd2 = arrays[3];
  const int32_t *restrict A_pos2 = arrays[4];
  const int32_t *restrict A_crd3 = arrays[5];
  const int32_t *restrict A_pos3 = arrays[6];
  const double *restrict A_vals = arrays[7];
  const int32_t *restrict B_crd1 = arrays[8];
  const int32_t *restrict B_pos1 = arrays[9];
  const int32_t *restrict B_crd2 = arrays[10];
  const int32_t *restrict B_pos2 = arrays[11];
  const int32_t *restrict B_crd3 = arrays[12];
  const int32_t *restrict B_pos3 = arrays[13];
  const double *restrict B_vals = arrays[14];
  int64_t *W_keys = 0;
  int64_t *W_slots = 0;
  double *W_vals = 0;
  int64_t *W_table = 0;
  int32_t *R_pos1 = 0;
  int32_t *R_crd1 = 0;
  int32_t *R_pos2 = 0;
  int32_t *R_crd2 = 0;
  int32_t *R_pos3 = 0;
  int32_t *R_crd3 = 0;
  int32_t *R_pos4 = 0;
  int32_t *R_crd4 = 0;
  double *R_vals = 0;
  int32_t status = 0;
  W_keys = room_for(64, sizeof(int64_t), &status);
  W_slots = room_for(64, sizeof(int64_t), &status);
  W_vals = room_for(64, sizeof(double), &status);
  if (status) goto done;
  int64_t W_mask = -1;
  int64_t W_room = 64;
  int64_t W_count = 0;
  R_pos1 = room_for(2, sizeof(int32_t), &status);
  if (status) goto done;
  int64_t nR1 = 0;
  int64_t R1_room = 0;
  int64_t nR2 = 0;
  int64_t R2_room = 0;
  int64_t nR3 = 0;
  int64_t R3_room = 0;
  int64_t nR4 = 0;
  int64_t R4_room = 0;
  if (nR1 + room > R1_room) {
    R1_room = larger(R1_room, nR1 + room);
    R_crd1 = resize(R_crd1, R1_room, sizeof(int32_t), &status);
    R_pos2 = resize(R_pos2, R1_room + 1, sizeof(int32_t), &status);
    if (status) goto done;
  }
  if (nR2 + room > R2_room) {
    R2_room = larger(R2_room, nR2 + room);
    R_crd2 = resize(R_crd2, R2_room, sizeof(int32_t), &status);
    R_pos3 = resize(R_pos3, R2_room + 1, sizeof(int32_t), &status);
    if (status) goto done;
  }
  if (nR3 + room > R3_room) {
    R3_room = larger(R3_room, nR3 + room);
    R_crd3 = resize(R_crd3, R3_room, sizeof(int32_t), &status);
    R_pos4 = resize(R_pos4, R3_room + 1, sizeof(int32_t), &status);
    if (status) goto done;
  }
  if (nR4 + room > R4_room) {
    R4_room = larger(R4_room, nR4 + room);
    R_crd4 = resize(R_crd4, R4_room, sizeof(int32_t), &status);
    R_vals = resize(R_vals, R4_room, sizeof(double), &status);
    if (status) goto done;
  }
  R_pos1[0] = 0;
  R_pos2[0] = 0;
  R_pos3[0] = 0;
  R_pos4[0] = 0;
  int64_t pA1 = 0;
  const int64_t pA1_end = A_pos1[1];
  int64_t pB1 = 0;
  const int64_t pB1_end = B_pos1[1];
  // i of X and Y, in order
  while (pA1 < pA1_end && pB1 < pB1_end) {
    if (*stop) break;
    const int64_t mA = A_crd1[pA1];
    const int64_t mB = B_crd1[pB1];
    if (mA == mB) {
      // stored j of X
      for (int64_t pA2 = A_pos2[pA1]; pA2 < A_pos2[pA1 + 1]; pA2++) {
        const int64_t i = A_crd2[pA2];
        // stored k of X
        for (int64_t pA3 = A_pos3[pA2]; pA3 < A_pos3[pA2 + 1]; pA3++) {
          const int64_t j = A_crd3[pA3];
          const double A_val = A_vals[pA3];
          // stored l of Y
          for (int64_t pB2 = B_pos2[pB1]; pB2 < B_pos2[pB1 + 1]; pB2++) {
            const int64_t k = B_crd2[pB2];
            // stored m of Y
            for (int64_t pB3 = B_pos3[pB2]; pB3 < B_pos3[pB2 + 1]; pB3++) {
              const int64_t l = B_crd3[pB3];
              const int64_t W_key = ((i * j_size + j) * k_size + k) * l_size + l;
              const int64_t W_slot = find_int64(&W_table, &W_mask, W_keys, W_count, W_key);
              if (W_slot < 0) {
                status = 1;
                goto done;
              }
              if (W_slot == W_count) {
                if (W_count + 1 > W_room) {
                  W_room = larger(W_room, W_count + 1);
                  W_keys = resize(W_keys, W_room, sizeof(int64_t), &status);
                  W_slots = resize(W_slots, W_room, sizeof(int64_t), &status);
                  W_vals = resize(W_vals, W_room, sizeof(double), &status);
                  if (status) goto done;
                }
                W_keys[W_count] = W_key;
                W_slots[W_count] = W_count;
                W_vals[W_slot] = A_val * B_vals[pB3];
                W_count++;
              } else {
                W_vals[W_slot] += A_val * B_vals[pB3];
              }
            }
          }
        }
      }
      pA1++;
      pB1++;
    } else {
      const int64_t m = mA < mB ? mA : mB;
      pA1 += mA == m;
      pB1 += mB == m;
    }
  }
  sort_pairs_int64(W_keys, W_slots, W_count);
  int64_t pW1 = 0;
  const int64_t pW1_end = W_count;
  if (nR1 + (pW1_end - pW1) > R1_room) {
    R1_room = larger(R1_room, nR1 + (pW1_end - pW1));
    R_crd1 = resize(R_crd1, R1_room, sizeof(int32_t), &status);
    R_pos2 = resize(R_pos2, R1_room + 1, sizeof(int32_t), &status);
    if (status) goto done;
  }
  // rest of w
  while (pW1 < pW1_end) {
    __asm__("");  // few iterations: neither vectors nor a call
    if (*stop) break;
    const int64_t i = W_keys[pW1] / (j_size * k_size * l_size);
    int64_t pW1_next = pW1;
    while (pW1_next < pW1_end && W_keys[pW1_next] / (j_size * k_size * l_size) == i) {
      pW1_next++;
    }
    const int64_t nR2_start = nR2;
    int64_t pW2 = pW1;
    const int64_t pW2_end = pW1_next;
    if (nR2 + (pW2_end - pW2) > R2_room) {
      R2_room = larger(R2_room, nR2 + (pW2_end - pW2));
      R_crd2 = resize(R_crd2, R2_room, sizeof(int32_t), &status);
      R_pos3 = resize(R_pos3, R2_room + 1, sizeof(int32_t), &status);
      if (status) goto done;
    }
    // rest of w
    while (pW2 < pW2_end) {
      __asm__("");  // few iterations: neither vectors nor a call
      const int64_t j = W_keys[pW2] / (k_size * l_size) % j_size;
      int64_t pW2_next = pW2;
      while (pW2_next < pW2_end && W_keys[pW2_next] / (k_size * l_size) % j_size == j) {
        pW2_next++;
      }
      const int64_t nR3_start = nR3;
      int64_t pW3 = pW2;
      const int64_t pW3_end = pW2_next;
      if (nR3 + (pW3_end - pW3) > R3_room) {
        R3_room = larger(R3_room, nR3 + (pW3_end - pW3));
        R_crd3 = resize(R_crd3, R3_room, sizeof(int32_t), &status);
        R_pos4 = resize(R_pos4, R3_room + 1, sizeof(int32_t), &status);
        if (status) goto done;
      }
      // rest of w
      while (pW3 < pW3_end) {
        __asm__("");  // few iterations: neither vectors nor a call
        const int64_t k = W_keys[pW3] / l_size % k_size;
        int64_t pW3_next = pW3;
        while (pW3_next < pW3_end && W_keys[pW3_next] / l_size % k_size == k) {
          pW3_next++;
        }
        const int64_t nR4_start = nR4;
        if (nR4 + (pW3_next - pW3) > R4_room) {
          R4_room = larger(R4_room, nR4 + (pW3_next - pW3));
          R_crd4 = resize(R_crd4, R4_room, sizeof(int32_t), &status);
          R_vals = resize(R_vals, R4_room, sizeof(double), &status);
          if (status) goto done;
        }
        // stored m of w
        for (int64_t pW4 = pW3; pW4 < pW3_next; pW4++) {
          const int64_t l = W_keys[pW4] % l_size;
          R_vals[nR4] = W_vals[W_slots[pW4]];
          R_crd4[nR4] = l;
          nR4++;
        }
        if (nR4_start < nR4) {
          R_crd3[nR3] = k;
          R_pos4[nR3 + 1] = nR4;
          nR3++;
        }
        pW3 = pW3_next;
      }
      if (nR3_start < nR3) {
        R_crd2[nR2] = j;
        R_pos3[nR2 + 1] = nR3;
        nR2++;
      }
      pW2 = pW2_next;
    }
    if (nR2_start < nR2) {
      R_crd1[nR1] = i;
      R_pos2[nR1 + 1] = nR2;
      nR1++;
    }
    pW1 = pW1_next;
  }
  clear(W_table, W_mask);
  W_count = 0;
  if (nR1 > 2147483647) {
    status = 3;
    goto done;
  }
  if (nR2 > 2147483647) {
    status = 3;
    goto done;
  }
  if (nR3 > 2147483647) {
    status = 3;
    goto done;
  }
  if (nR4 > 2147483647) {
    status = 3;
    goto done;
  }
  R_pos1[1] = nR1;
  if (*stop) status = 2;
done:
  __builtin_free(W_keys);
  __builtin_free(W_slots);
  __builtin_free(W_vals);
  __builtin_free(W_table);
  if (status == 0) {
    arrays[15] = R_pos1;
    sizes[7] = 2;
    arrays[16] = R_crd1;
    sizes[8] = nR1;
    arrays[17] = R_pos2;
    sizes[9] = nR1 + 1;
    arrays[18] = R_crd2;
    sizes[10] = nR2;
    arrays[19] = R_pos3;
    sizes[11] = nR2 + 1;
    arrays[20] = R_crd3;
    sizes[12] = nR3;
    arrays[21] = R_pos4;
    sizes[13] = nR3 + 1;
    arrays[22] = R_crd4;
    sizes[14] = nR4;
    arrays[23] = R_vals;
    sizes[15] = nR4;
  } else {
    __builtin_free(R_pos1);
    __builtin_free(R_crd1);
    __builtin_free(R_pos2);
    __builtin_free(R_crd2);
    __builtin_free(R_pos3);
    __builtin_free(R_crd3);
    __builtin_free(R_pos4);
    __builtin_free(R_crd4);
    __builtin_free(R_vals);
  }
  return status;
}
