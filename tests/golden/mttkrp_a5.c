typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __SIZE_TYPE__ size_t;

// How many of a thread's shares are taken; in cache lines of its own.
typedef struct {
  int64_t count;
} __attribute__((aligned(128))) taken_shares;

// The next share for thread `part`: of its own, then of each other thread's; -1: none is left.
static inline int64_t next_share(taken_shares *taken, int64_t threads, int64_t shares, int64_t part,
                                 int64_t *turn) {
  const int64_t each = shares / threads;
  for (; *turn < threads; ++*turn) {
    const int64_t owner = part + *turn < threads ? part + *turn : part + *turn - threads;
    if (__atomic_load_n(&taken[owner].count, __ATOMIC_RELAXED) >= each) continue;
    const int64_t n = __atomic_fetch_add(&taken[owner].count, 1, __ATOMIC_RELAXED);
    if (n < each) return owner * each + n;
  }
  return -1;
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

static inline int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// The first position in [begin, end) that holds `value` or more, else `end`.
static int64_t lower_bound_int32(const int32_t *array, int64_t begin, int64_t end,
                           int64_t value) {
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (array[middle] < value) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

// Bring memory closer that will be needed soon.
static inline void ask_for(const void *at) {
#ifdef __aarch64__
  // Some cores ignore a prefetch whose address is a sum of two registers.
  __asm__("" : "+r"(at));
#endif
  __builtin_prefetch(at);
}

// Bring memory closer that a gather will need soon, where the processor does not see it coming.
static inline void gather_soon(const void *at) {
#ifndef __AVX512F__
  ask_for(at);
#endif
}

// Where part `part` of `parts` of a loop over [begin, end) begins.
static int64_t cut_even(int64_t begin, int64_t end, int64_t part, int64_t parts) {
  const int64_t count = end > begin ? end - begin : 0;
  const int64_t rest = count % parts;
  return begin + count / parts * part + (part < rest ? part : rest);
}

// forall i1:  [CPUThread, NoRaces]
//   forall i2:
//     forall k:
//       forall j:
//         Y(i,j) += precomputed(j) * B(k,j)
//       where
//         forall l:
//           forall j:
//             precomputed(j) += X(i,k,l) * C(l,j)
// such that split(i, i1, i2, 32)
// In the code, Y is R, X is A, precomputed is W, k is j, j is k, i1 is i0, i2 is i1.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int64_t shares = threads > 1 ? 8 * threads : 1;
  const int64_t i_size = sizes[2];
  const int64_t k_size = sizes[4];
  const int64_t l_size = sizes[5];
  const int32_t *restrict A_crd1 = arrays[1];
  const int32_t *restrict A_pos1 = arrays[2];
  const int32_t *restrict A_crd2 = arrays[3];
  const int32_t *restrict A_pos2 = arrays[4];
  const int32_t *restrict A_crd3 = arrays[5];
  const int32_t *restrict A_pos3 = arrays[6];
  const double *restrict A_vals = arrays[7];
  const double *restrict B_vals = arrays[8];
  const double *restrict C_vals = arrays[9];
  double *restrict R_vals = arrays[10];
  int32_t status = 0;
  int32_t failed = 0;
  const int64_t A3_size = A_pos3[A_pos2[A_pos1[1]]];
  const _Bool C_far = l_size * k_size * 8 > 4194304;
  const int64_t i0_end = (i_size + 31) / 32;
  {
    taken_shares i0_taken[threads];
    for (int64_t part = 0; part < threads; part++) i0_taken[part].count = 0;
    // threads take contiguous shares
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
      int32_t status = 0;
      double *W_vals = room_for(k_size, sizeof(double), &status);
      if (status == 0) {
        int64_t i0_turn = 0, i0_share;
        while ((i0_share = next_share(i0_taken, threads, shares, part, &i0_turn)) >= 0) {
          const int64_t i0_first = cut_even(0, i0_end, i0_share, shares);
          const int64_t i0_limit = cut_even(0, i0_end, i0_share + 1, shares);
          for (int64_t i0 = i0_first; i0 < i0_limit; i0++) {
            if (*stop) break;
            const int64_t i_lo = i0 * 32;
            const int64_t i_hi = lesser(i_lo + 32, i_size);
            int64_t pA1_lo = lower_bound_int32(A_crd1, 0, A_pos1[1], i_lo);
            const int64_t pA1_hi = lower_bound_int32(A_crd1, pA1_lo, A_pos1[1], i_hi);
            // stored i of X
            for (int64_t pA1 = pA1_lo; pA1 < pA1_hi; pA1++) {
              const int64_t i = A_crd1[pA1];
              // stored k of X
              for (int64_t pA2 = A_pos2[pA1]; pA2 < A_pos2[pA1 + 1]; pA2++) {
                const int64_t j = A_crd2[pA2];
                _Bool W_any = 0;
                int64_t k_tile = 0;
                // 32 columns in registers
                while (k_tile + 32 <= k_size) {
                  double W_sums32[32];
#pragma GCC unroll 32
                  for (int64_t k_tile_at = 0; k_tile_at < 32; k_tile_at++) {
                    W_sums32[k_tile_at] = 0.0;
                  }
                  // stored l of X
                  for (int64_t pA3 = A_pos3[pA2]; pA3 < A_pos3[pA2 + 1]; pA3++) {
                    const int64_t l = A_crd3[pA3];
                    const double A_val = A_vals[pA3];
#pragma GCC unroll 32
                    for (int64_t k_tile_at = 0; k_tile_at < 32; k_tile_at++) {
                      W_sums32[k_tile_at] += A_val * C_vals[l * k_size + k_tile + k_tile_at];
                      W_any = 1;
                    }
                    if (C_far) {
                      const int64_t l_ahead = A_crd3[lesser(pA3 + 8, A3_size - 1)];
                      if (l_ahead != l) {
                        gather_soon(&C_vals[l_ahead * k_size + k_tile]);
                        gather_soon(&C_vals[l_ahead * k_size + k_tile + 8]);
                        gather_soon(&C_vals[l_ahead * k_size + k_tile + 16]);
                        gather_soon(&C_vals[l_ahead * k_size + k_tile + 24]);
                      }
                    }
                  }
#pragma GCC unroll 32
                  for (int64_t k_tile_at = 0; k_tile_at < 32; k_tile_at++) {
                    W_vals[k_tile + k_tile_at] = W_sums32[k_tile_at];
                  }
                  k_tile += 32;
                }
                // 16 columns in registers
                while (k_tile + 16 <= k_size) {
                  double W_sums16[16];
#pragma GCC unroll 16
                  for (int64_t k_tile_at = 0; k_tile_at < 16; k_tile_at++) {
                    W_sums16[k_tile_at] = 0.0;
                  }
                  // stored l of X
                  for (int64_t pA3 = A_pos3[pA2]; pA3 < A_pos3[pA2 + 1]; pA3++) {
                    const int64_t l = A_crd3[pA3];
                    const double A_val_2 = A_vals[pA3];
#pragma GCC unroll 16
                    for (int64_t k_tile_at = 0; k_tile_at < 16; k_tile_at++) {
                      W_sums16[k_tile_at] += A_val_2 * C_vals[l * k_size + k_tile + k_tile_at];
                      W_any = 1;
                    }
                    if (C_far) {
                      const int64_t l_ahead = A_crd3[lesser(pA3 + 8, A3_size - 1)];
                      if (l_ahead != l) {
                        gather_soon(&C_vals[l_ahead * k_size + k_tile]);
                        gather_soon(&C_vals[l_ahead * k_size + k_tile + 8]);
                      }
                    }
                  }
#pragma GCC unroll 16
                  for (int64_t k_tile_at = 0; k_tile_at < 16; k_tile_at++) {
                    W_vals[k_tile + k_tile_at] = W_sums16[k_tile_at];
                  }
                  k_tile += 16;
                }
                // 4 columns in registers
                while (k_tile + 4 <= k_size) {
                  double W_sums4[4];
#pragma GCC unroll 4
                  for (int64_t k_tile_at = 0; k_tile_at < 4; k_tile_at++) {
                    W_sums4[k_tile_at] = 0.0;
                  }
                  // stored l of X
                  for (int64_t pA3 = A_pos3[pA2]; pA3 < A_pos3[pA2 + 1]; pA3++) {
                    const int64_t l = A_crd3[pA3];
                    const double A_val_3 = A_vals[pA3];
#pragma GCC unroll 4
                    for (int64_t k_tile_at = 0; k_tile_at < 4; k_tile_at++) {
                      W_sums4[k_tile_at] += A_val_3 * C_vals[l * k_size + k_tile + k_tile_at];
                      W_any = 1;
                    }
                    if (C_far) {
                      const int64_t l_ahead = A_crd3[lesser(pA3 + 8, A3_size - 1)];
                      if (l_ahead != l) {
                        gather_soon(&C_vals[l_ahead * k_size + k_tile]);
                      }
                    }
                  }
#pragma GCC unroll 4
                  for (int64_t k_tile_at = 0; k_tile_at < 4; k_tile_at++) {
                    W_vals[k_tile + k_tile_at] = W_sums4[k_tile_at];
                  }
                  k_tile += 4;
                }
                // columns that are left
                while (k_tile < k_size) {
                  double W_sum = 0.0;
                  // stored l of X
                  for (int64_t pA3 = A_pos3[pA2]; pA3 < A_pos3[pA2 + 1]; pA3++) {
                    const int64_t l = A_crd3[pA3];
                    W_sum += A_vals[pA3] * C_vals[l * k_size + k_tile];
                    W_any = 1;
                  }
                  W_vals[k_tile] = W_sum;
                  k_tile++;
                }
                if (W_any) {
                  // every j
#pragma omp simd
                  for (int64_t k = 0; k < k_size; k++) {
                    R_vals[i * k_size + k] += W_vals[k] * B_vals[j * k_size + k];
                  }
                }
              }
            }
          }
        }
      } else {
#pragma omp atomic write
        failed = 1;
      }
      __builtin_free(W_vals);
    }
  }
  if (failed) status = 1;
  if (*stop) status = 2;
  return status;
}
