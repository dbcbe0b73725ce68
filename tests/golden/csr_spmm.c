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

// Bring memory closer that a gather will need soon, where the processor does not see it coming.
static inline void gather_soon(const void *at) {
#ifndef __AVX512F__
  ask_for(at);
#endif
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

// forall i:  [CPUThread, NoRaces]
//   forall j:
//     forall k:
//       Y(i,k) += A(i,j) * X(j,k)
// In the code, Y is R, X is B.
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int64_t shares = threads > 1 ? 8 * threads : 1;
  const int64_t i_size = sizes[2];
  const int64_t j_size = sizes[3];
  const int64_t k_size = sizes[4];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const double *restrict B_vals = arrays[4];
  double *restrict R_vals = arrays[5];
  const int64_t A2_size = A_pos2[i_size];
  const _Bool B_far = j_size * k_size * 8 > 4194304;
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
        // every i
        for (int64_t i = i_first; i < i_limit; i++) {
          if (*stop) break;
          int64_t k_tile = 0;
          // 32 columns in registers
          while (k_tile + 32 <= k_size) {
            vector_float64 R_sums32[32 / LANES_float64];
#pragma GCC unroll 32
            for (int64_t k_tile_at = 0; k_tile_at < 32; k_tile_at += LANES_float64) {
              R_sums32[k_tile_at / LANES_float64] = (vector_float64){0};
            }
            // stored j of A
            for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
              const int64_t j = A_crd2[pA2];
              const double A_val = A_vals[pA2];
#pragma GCC unroll 32
              for (int64_t k_tile_at = 0; k_tile_at < 32; k_tile_at += LANES_float64) {
                R_sums32[k_tile_at / LANES_float64] += A_val * *(const near_float64 *)&B_vals[j * k_size + k_tile + k_tile_at];
              }
              if (B_far) {
                const int64_t j_ahead = A_crd2[lesser(pA2 + 8, A2_size - 1)];
                if (j_ahead != j) {
                  gather_soon(&B_vals[j_ahead * k_size + k_tile]);
                  gather_soon(&B_vals[j_ahead * k_size + k_tile + 8]);
                  gather_soon(&B_vals[j_ahead * k_size + k_tile + 16]);
                  gather_soon(&B_vals[j_ahead * k_size + k_tile + 24]);
                }
              }
            }
#pragma GCC unroll 32
            for (int64_t k_tile_at = 0; k_tile_at < 32; k_tile_at += LANES_float64) {
              *(near_float64 *)&R_vals[i * k_size + k_tile + k_tile_at] = R_sums32[k_tile_at / LANES_float64];
            }
            k_tile += 32;
          }
          // 16 columns in registers
          while (k_tile + 16 <= k_size) {
            vector_float64 R_sums16[16 / LANES_float64];
#pragma GCC unroll 16
            for (int64_t k_tile_at = 0; k_tile_at < 16; k_tile_at += LANES_float64) {
              R_sums16[k_tile_at / LANES_float64] = (vector_float64){0};
            }
            // stored j of A
            for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
              const int64_t j = A_crd2[pA2];
              const double A_val_2 = A_vals[pA2];
#pragma GCC unroll 16
              for (int64_t k_tile_at = 0; k_tile_at < 16; k_tile_at += LANES_float64) {
                R_sums16[k_tile_at / LANES_float64] += A_val_2 * *(const near_float64 *)&B_vals[j * k_size + k_tile + k_tile_at];
              }
              if (B_far) {
                const int64_t j_ahead = A_crd2[lesser(pA2 + 8, A2_size - 1)];
                if (j_ahead != j) {
                  gather_soon(&B_vals[j_ahead * k_size + k_tile]);
                  gather_soon(&B_vals[j_ahead * k_size + k_tile + 8]);
                }
              }
            }
#pragma GCC unroll 16
            for (int64_t k_tile_at = 0; k_tile_at < 16; k_tile_at += LANES_float64) {
              *(near_float64 *)&R_vals[i * k_size + k_tile + k_tile_at] = R_sums16[k_tile_at / LANES_float64];
            }
            k_tile += 16;
          }
          // 4 columns in registers
          while (k_tile + 4 <= k_size) {
            vector_narrow_float64 R_sums4[4 / LANES_narrow_float64];
#pragma GCC unroll 4
            for (int64_t k_tile_at = 0; k_tile_at < 4; k_tile_at += LANES_narrow_float64) {
              R_sums4[k_tile_at / LANES_narrow_float64] = (vector_narrow_float64){0};
            }
            // stored j of A
            for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
              const int64_t j = A_crd2[pA2];
              const double A_val_3 = A_vals[pA2];
#pragma GCC unroll 4
              for (int64_t k_tile_at = 0; k_tile_at < 4; k_tile_at += LANES_narrow_float64) {
                R_sums4[k_tile_at / LANES_narrow_float64] += A_val_3 * *(const near_narrow_float64 *)&B_vals[j * k_size + k_tile + k_tile_at];
              }
              if (B_far) {
                const int64_t j_ahead = A_crd2[lesser(pA2 + 8, A2_size - 1)];
                if (j_ahead != j) {
                  gather_soon(&B_vals[j_ahead * k_size + k_tile]);
                }
              }
            }
#pragma GCC unroll 4
            for (int64_t k_tile_at = 0; k_tile_at < 4; k_tile_at += LANES_narrow_float64) {
              *(near_narrow_float64 *)&R_vals[i * k_size + k_tile + k_tile_at] = R_sums4[k_tile_at / LANES_narrow_float64];
            }
            k_tile += 4;
          }
          // columns that are left
          while (k_tile < k_size) {
            double R_sum = 0.0;
            // stored j of A
            for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
              const int64_t j = A_crd2[pA2];
              R_sum += A_vals[pA2] * B_vals[j * k_size + k_tile];
            }
            R_vals[i * k_size + k_tile] = R_sum;
            k_tile++;
          }
        }
      }
    }
  }
  return *stop ? 2 : 0;
}
