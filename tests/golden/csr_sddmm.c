typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

// Where part `part` of `parts` of [begin, end) begins, if all have equally many rows and entries.
static int64_t cut_int32(const int32_t *pos, int64_t begin, int64_t end, int64_t part,
                         int64_t parts) {
  if (begin >= end) return begin;
  const int64_t first = pos[begin] + begin, work = pos[end] + end - first;
  const int64_t goal = first + work / parts * part + work % parts * part / parts;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (pos[middle] + middle < goal) begin = middle + 1;
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

// forall i:  [CPUThread, NoRaces]
//   forall j:  [prefetch C[j, k] 4 ahead]
//     R(i,j) = W * A(i,j)
//     where
//       forall k1:  [CPUVector, ParallelReduction; unroll]
//         W += X(k1)
//       where
//         forall k0:
//           forall k1_2:  [unroll]
//             X(k1_2) += B(i,k) * C(j,k)
// such that split(k, k0, k1, 8),
//   precompute(k1, k1_2)
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int64_t shares = threads > 1 ? 4 * threads : 1;
  const int64_t i_size = sizes[2];
  const int64_t j_size = sizes[3];
  const int64_t k_size = sizes[4];
  const int32_t *restrict A_crd2 = arrays[1];
  const int32_t *restrict A_pos2 = arrays[2];
  const double *restrict A_vals = arrays[3];
  const double *restrict B_vals = arrays[4];
  const double *restrict C_vals = arrays[5];
  double *restrict R_vals = arrays[6];
  const int64_t A2_size = A_pos2[i_size];
  // threads take contiguous parts with equal work
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)threads) if (threads > 1)
  for (int64_t part = 0; part < shares; part++) {
    const int64_t i_first = cut_int32(A_pos2, 0, i_size, part, shares);
    const int64_t i_limit = cut_int32(A_pos2, 0, i_size, part + 1, shares);
    // every i
    for (int64_t i = i_first; i < i_limit; i++) {
      if (*stop) break;
      // stored j of A
      for (int64_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
        const int64_t j = A_crd2[pA2];
        double W_sum = 0.0;
        double X_vals[8];
        // clear
#pragma GCC unroll 8
        for (int64_t X_at = 0; X_at < 8; X_at++) {
          X_vals[X_at] = 0.0;
        }
        const int64_t k0_end = (k_size + 7) / 8;
        const int64_t k0_full = 0 > (k0_end < k_size / 8 ? k0_end : k_size / 8) ? 0 : (k0_end < k_size / 8 ? k0_end : k_size / 8);
        // complete runs
        for (int64_t k0 = 0; k0 < k0_full; k0++) {
          const int64_t k_lo_2 = k0 * 8;
          // k of this run
#pragma GCC unroll 8
          for (int64_t k_at = 0; k_at < 8; k_at++) {
            const int64_t k = k_lo_2 + k_at;
            X_vals[k_at] += B_vals[i * k_size + k] * C_vals[j * k_size + k];
          }
        }
        // the rest
        for (int64_t k0 = k0_full; k0 < k0_end; k0++) {
          const int64_t k_lo = k0 * 8;
          const int64_t k_hi = k0 * 8 + 8 < k_size ? k0 * 8 + 8 : k_size;
          // k of this run
#pragma GCC unroll 8
          for (int64_t k_at = 0; k_at < 8; k_at++) {
            const int64_t k = k_lo + k_at;
            if (k < k_hi) {
              X_vals[k_at] += B_vals[i * k_size + k] * C_vals[j * k_size + k];
            }
          }
        }
#pragma GCC unroll 8
        for (int64_t k1 = 0; k1 < 8; k1++) {
          W_sum += X_vals[k1];
        }
        R_vals[pA2] = W_sum * A_vals[pA2];
        const int64_t j_ahead = A_crd2[pA2 + 4 < A2_size - 1 ? pA2 + 4 : A2_size - 1];
        ask_for(&C_vals[j_ahead * k_size]);
        ask_for(&C_vals[j_ahead * k_size + 8 < j_size * k_size - 1 ? j_ahead * k_size + 8 : j_size * k_size - 1]);
        ask_for(&C_vals[j_ahead * k_size + 16 < j_size * k_size - 1 ? j_ahead * k_size + 16 : j_size * k_size - 1]);
        ask_for(&C_vals[j_ahead * k_size + 24 < j_size * k_size - 1 ? j_ahead * k_size + 24 : j_size * k_size - 1]);
      }
    }
  }
  return *stop ? 2 : 0;
}
