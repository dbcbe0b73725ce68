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

// As many elements as the processor has lanes for: 64, 32 or 16 bytes.
#if defined __AVX512F__
#define LANES_float64 (64 / (int64_t)sizeof(double))
#elif defined __AVX__
#define LANES_float64 (32 / (int64_t)sizeof(double))
#else
#define LANES_float64 (16 / (int64_t)sizeof(double))
#endif
typedef double vector_float64 __attribute__((vector_size(LANES_float64 * sizeof(double))));
// The same anywhere in an array.
typedef vector_float64 near_float64 __attribute__((aligned(sizeof(double)), may_alias));

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

// As many elements as the processor has lanes for: 32 or 16 bytes.
#if defined __AVX__
#define LANES_narrow_float64 (32 / (int64_t)sizeof(double))
#else
#define LANES_narrow_float64 (16 / (int64_t)sizeof(double))
#endif
typedef double vector_narrow_float64 __attribute__((vector_size(LANES_narrow_float64 * sizeof(double))));
// The same anywhere in an array.
typedef vector_narrow_float64 near_narrow_float64 __attribute__((aligned(sizeof(double)), may_alias));

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

// forall ib:  [CPUThread, NoRaces]
//   forall jb:
//     forall jj:
//       forall ii:
//         forall k:
//           Y(ib,ii,k) += A(ib,ii,jb,jj) * X(jb,jj,k)
// In the code, Y is R, X is B, ib is i, jb is j, jj is k, ii is l, k is m.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int64_t shares = threads > 1 ? 8 * threads : 1;
  const int64_t i_size = sizes[2];
  const int64_t m_size = sizes[4];
  const int64_t n_size = sizes[5];
  const int64_t o_size = sizes[6];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const double *restrict B_vals = arrays[4];
  double *restrict R_vals = arrays[5];
  const int64_t A2_size = A_pos2[i_size];
  {
    taken_shares i_taken[threads];
    for (int64_t part = 0; part < threads; part++) i_taken[part].count = 0;
    // threads take contiguous shares with equal work
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
      int64_t i_turn = 0, i_share;
      while ((i_share = next_share(i_taken, threads, shares, part, &i_turn)) >= 0) {
        const int64_t i_first = cut_int32(A_pos2, 0, i_size, i_share, shares);
        const int64_t i_limit = cut_int32(A_pos2, 0, i_size, i_share + 1, shares);
        // every ib
        for (int64_t i = i_first; i < i_limit; i++) {
          if (*stop) break;
          int64_t m_tile = 0;
          // 8 columns in registers
          while (m_tile + 8 <= m_size) {
            vector_float64 R_sums24[24 / LANES_float64];
#pragma GCC unroll 3
            for (int64_t l = 0; l < 3; l++) {
              if (l < n_size - i * 3) {
#pragma GCC unroll 8
                for (int64_t m_tile_at = 0; m_tile_at < 8; m_tile_at += LANES_float64) {
                  R_sums24[(l * 8 + m_tile_at) / LANES_float64] = (vector_float64){0};
                }
              }
            }
            // stored jb of A
            for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
              const int64_t j = A_crd2[pA2];
              // every jj
#pragma GCC unroll 2
              for (int64_t k = 0; k < 2; k++) {
                if (k < o_size - j * 2) {
#pragma GCC unroll 3
                  for (int64_t l = 0; l < 3; l++) {
                    if (l < n_size - i * 3) {
                      const double A_val = A_vals[(pA2 * 3 + l) * 2 + k];
#pragma GCC unroll 8
                      for (int64_t m_tile_at = 0; m_tile_at < 8; m_tile_at += LANES_float64) {
                        R_sums24[(l * 8 + m_tile_at) / LANES_float64] += A_val * *(const near_float64 *)&B_vals[(j * 2 + k) * m_size + m_tile + m_tile_at];
                      }
                    }
                  }
                }
              }
              ask_for(&A_vals[lesser(pA2 + 42, A2_size - 1) * 3 * 2]);
            }
#pragma GCC unroll 3
            for (int64_t l = 0; l < 3; l++) {
              if (l < n_size - i * 3) {
#pragma GCC unroll 8
                for (int64_t m_tile_at = 0; m_tile_at < 8; m_tile_at += LANES_float64) {
                  *(near_float64 *)&R_vals[(i * 3 + l) * m_size + m_tile + m_tile_at] = R_sums24[(l * 8 + m_tile_at) / LANES_float64];
                }
              }
            }
            m_tile += 8;
          }
          // 4 columns in registers
          while (m_tile + 4 <= m_size) {
            vector_narrow_float64 R_sums12[12 / LANES_narrow_float64];
#pragma GCC unroll 3
            for (int64_t l = 0; l < 3; l++) {
              if (l < n_size - i * 3) {
#pragma GCC unroll 4
                for (int64_t m_tile_at = 0; m_tile_at < 4; m_tile_at += LANES_narrow_float64) {
                  R_sums12[(l * 4 + m_tile_at) / LANES_narrow_float64] = (vector_narrow_float64){0};
                }
              }
            }
            // stored jb of A
            for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
              const int64_t j = A_crd2[pA2];
              // every jj
#pragma GCC unroll 2
              for (int64_t k = 0; k < 2; k++) {
                if (k < o_size - j * 2) {
#pragma GCC unroll 3
                  for (int64_t l = 0; l < 3; l++) {
                    if (l < n_size - i * 3) {
                      const double A_val_2 = A_vals[(pA2 * 3 + l) * 2 + k];
#pragma GCC unroll 4
                      for (int64_t m_tile_at = 0; m_tile_at < 4; m_tile_at += LANES_narrow_float64) {
                        R_sums12[(l * 4 + m_tile_at) / LANES_narrow_float64] += A_val_2 * *(const near_narrow_float64 *)&B_vals[(j * 2 + k) * m_size + m_tile + m_tile_at];
                      }
                    }
                  }
                }
              }
              ask_for(&A_vals[lesser(pA2 + 42, A2_size - 1) * 3 * 2]);
            }
#pragma GCC unroll 3
            for (int64_t l = 0; l < 3; l++) {
              if (l < n_size - i * 3) {
#pragma GCC unroll 4
                for (int64_t m_tile_at = 0; m_tile_at < 4; m_tile_at += LANES_narrow_float64) {
                  *(near_narrow_float64 *)&R_vals[(i * 3 + l) * m_size + m_tile + m_tile_at] = R_sums12[(l * 4 + m_tile_at) / LANES_narrow_float64];
                }
              }
            }
            m_tile += 4;
          }
          // columns that are left
          while (m_tile < m_size) {
            double R_sums3[3];
#pragma GCC unroll 3
            for (int64_t l = 0; l < 3; l++) {
              if (l < n_size - i * 3) {
                R_sums3[l] = 0.0;
              }
            }
            // stored jb of A
            for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
              const int64_t j = A_crd2[pA2];
              // every jj
#pragma GCC unroll 2
              for (int64_t k = 0; k < 2; k++) {
                if (k < o_size - j * 2) {
                  const double B_val = B_vals[(j * 2 + k) * m_size + m_tile];
#pragma GCC unroll 3
                  for (int64_t l = 0; l < 3; l++) {
                    if (l < n_size - i * 3) {
                      R_sums3[l] += A_vals[(pA2 * 3 + l) * 2 + k] * B_val;
                    }
                  }
                }
              }
              ask_for(&A_vals[lesser(pA2 + 42, A2_size - 1) * 3 * 2]);
            }
#pragma GCC unroll 3
            for (int64_t l = 0; l < 3; l++) {
              if (l < n_size - i * 3) {
                R_vals[(i * 3 + l) * m_size + m_tile] = R_sums3[l];
              }
            }
            m_tile++;
          }
        }
      }
    }
  }
  return *stop ? 2 : 0;
}
