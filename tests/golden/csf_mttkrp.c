typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

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

// As many elements as the processor has lanes for: 32 or 16 bytes.
#if defined __AVX__
#define LANES_narrow_float64 (32 / (int64_t)sizeof(double))
#else
#define LANES_narrow_float64 (16 / (int64_t)sizeof(double))
#endif
typedef double vector_narrow_float64 __attribute__((vector_size(LANES_narrow_float64 * sizeof(double))));
// The same anywhere in an array.
typedef vector_narrow_float64 near_narrow_float64 __attribute__((aligned(sizeof(double)), may_alias));

static inline int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
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

// forall i:  [CPUThread, NoRaces]
//   forall k:
//     forall l:
//       forall jb:
//         Y(i,j) += X(i,k,l) * B(k,j) * C(l,j)
// such that bound(j, jb, 4, MaxExact)
// In the code, Y is R, X is A, k is j, l is k, j is l, jb is l_2.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int64_t shares = threads > 1 ? 8 * threads : 1;
  const int64_t j_size = sizes[3];
  const int64_t k_size = sizes[4];
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
  const int64_t A3_size = A_pos3[A_pos2[A_pos1[1]]];
  const _Bool C_far = k_size * 4 * 8 > 4194304;
  const int64_t A2_size = A_pos2[A_pos1[1]];
  const _Bool B_far = j_size * 4 * 8 > 4194304;
  {
    taken_shares pA1_taken[threads];
    for (int64_t part = 0; part < threads; part++) pA1_taken[part].count = 0;
    // threads take contiguous shares with equal work
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
      int64_t pA1_turn = 0, pA1_share;
      while ((pA1_share = next_share(pA1_taken, threads, shares, part, &pA1_turn)) >= 0) {
        const int64_t pA1_first = cut_int32(A_pos2, 0, A_pos1[1], pA1_share, shares);
        const int64_t pA1_limit = cut_int32(A_pos2, 0, A_pos1[1], pA1_share + 1, shares);
        // stored i of X
        for (int64_t pA1 = pA1_first; pA1 < pA1_limit; pA1++) {
          if (*stop) break;
          const int64_t i = A_crd1[pA1];
          vector_narrow_float64 R_sums4[16 / LANES_narrow_float64];
#pragma GCC unroll 4
          for (int64_t l_tile_at = 0; l_tile_at < 4; l_tile_at += LANES_narrow_float64) {
            R_sums4[l_tile_at / LANES_narrow_float64] = (vector_narrow_float64){0};
          }
          // stored k of X
          for (int64_t pA2 = A_pos2[pA1]; pA2 < A_pos2[pA1 + 1]; pA2++) {
            const int64_t j = A_crd2[pA2];
            int64_t pA3_rest = A_pos3[pA2];
            if (A_pos3[pA2 + 1] - A_pos3[pA2] >= 16) {
#pragma GCC unroll 4
              for (int64_t l_tile_at = 0; l_tile_at < 4; l_tile_at += LANES_narrow_float64) {
                R_sums4[(l_tile_at + 4) / LANES_narrow_float64] = -(vector_narrow_float64){0};
              }
#pragma GCC unroll 4
              for (int64_t l_tile_at = 0; l_tile_at < 4; l_tile_at += LANES_narrow_float64) {
                R_sums4[(l_tile_at + 8) / LANES_narrow_float64] = -(vector_narrow_float64){0};
              }
#pragma GCC unroll 4
              for (int64_t l_tile_at = 0; l_tile_at < 4; l_tile_at += LANES_narrow_float64) {
                R_sums4[(l_tile_at + 12) / LANES_narrow_float64] = -(vector_narrow_float64){0};
              }
              pA3_rest = A_pos3[pA2 + 1] - (A_pos3[pA2 + 1] - A_pos3[pA2]) % 4;
              // in 4 chains of additions
              for (int64_t pA3_batch = 0; pA3_batch < (A_pos3[pA2 + 1] - A_pos3[pA2]) / 4; pA3_batch++) {
#pragma GCC unroll 4
                for (int64_t pA3_chain = 0; pA3_chain < 4; pA3_chain++) {
                  const int64_t pA3 = A_pos3[pA2] + pA3_batch * 4 + pA3_chain;
                  const int64_t k = A_crd3[pA3];
                  const double A_val = A_vals[pA3];
#pragma GCC unroll 4
                  for (int64_t l_tile_at = 0; l_tile_at < 4; l_tile_at += LANES_narrow_float64) {
                    R_sums4[(pA3_chain * 4 + l_tile_at) / LANES_narrow_float64] += A_val * *(const near_narrow_float64 *)&B_vals[j * 4 + l_tile_at] * *(const near_narrow_float64 *)&C_vals[k * 4 + l_tile_at];
                  }
                  if (C_far) {
                    const int64_t k_ahead = A_crd3[lesser(pA3 + 8, A3_size - 1)];
                    if (k_ahead != k) {
                      gather_soon(&C_vals[k_ahead * 4]);
                    }
                  }
                }
              }
#pragma GCC unroll 4
              for (int64_t l_tile_at = 0; l_tile_at < 4; l_tile_at += LANES_narrow_float64) {
                R_sums4[l_tile_at / LANES_narrow_float64] += R_sums4[(l_tile_at + 8) / LANES_narrow_float64];
              }
#pragma GCC unroll 4
              for (int64_t l_tile_at = 0; l_tile_at < 4; l_tile_at += LANES_narrow_float64) {
                R_sums4[(l_tile_at + 4) / LANES_narrow_float64] += R_sums4[(l_tile_at + 12) / LANES_narrow_float64];
              }
#pragma GCC unroll 4
              for (int64_t l_tile_at = 0; l_tile_at < 4; l_tile_at += LANES_narrow_float64) {
                R_sums4[l_tile_at / LANES_narrow_float64] += R_sums4[(l_tile_at + 4) / LANES_narrow_float64];
              }
            }
            // stored l of X
            for (int64_t pA3 = pA3_rest; pA3 < A_pos3[pA2 + 1]; pA3++) {
              const int64_t k = A_crd3[pA3];
              const double A_val = A_vals[pA3];
#pragma GCC unroll 4
              for (int64_t l_tile_at = 0; l_tile_at < 4; l_tile_at += LANES_narrow_float64) {
                R_sums4[l_tile_at / LANES_narrow_float64] += A_val * *(const near_narrow_float64 *)&B_vals[j * 4 + l_tile_at] * *(const near_narrow_float64 *)&C_vals[k * 4 + l_tile_at];
              }
              if (C_far) {
                const int64_t k_ahead = A_crd3[lesser(pA3 + 8, A3_size - 1)];
                if (k_ahead != k) {
                  gather_soon(&C_vals[k_ahead * 4]);
                }
              }
            }
            if (B_far) {
              const int64_t j_ahead = A_crd2[lesser(pA2 + 8, A2_size - 1)];
              if (j_ahead != j) {
                gather_soon(&B_vals[j_ahead * 4]);
              }
            }
          }
#pragma GCC unroll 4
          for (int64_t l_tile_at = 0; l_tile_at < 4; l_tile_at += LANES_narrow_float64) {
            *(near_narrow_float64 *)&R_vals[i * 4 + l_tile_at] = R_sums4[l_tile_at / LANES_narrow_float64];
          }
        }
      }
    }
  }
  return *stop ? 2 : 0;
}
