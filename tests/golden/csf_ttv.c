typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

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

// Each part has four fifths of a thread's share of what is left, so that all threads are done at
// once: how much of the work, of 2^20, comes before part `part`.
static int64_t shrinking(int64_t part, int64_t parts, int64_t threads) {
  int64_t rest = part < parts ? 1 << 20 : 0;
  for (int64_t before = 0; before < part; before++) rest -= 4 * rest / (5 * threads);
  return (1 << 20) - rest;
}

// forall i:  [CPUThread, NoRaces]
//   forall j:
//     forall k:
//       R(i,j) += A(i,j,k) * B(k)
int32_t kernel(void **arrays, int64_t *sizes) {
  const volatile int32_t *stop = arrays[0];
  const int64_t threads = sizes[0];
  const int64_t shares = threads > 1 ? 8 * threads : 1;
  const int32_t *restrict A_pos1 = arrays[2];
  const int32_t *restrict A_pos2 = arrays[4];
  const int32_t *restrict A_crd3 = arrays[5];
  const int32_t *restrict A_pos3 = arrays[6];
  const double *restrict A_vals = arrays[7];
  const double *restrict B_vals = arrays[8];
  double *restrict R_vals = arrays[9];
  // threads take contiguous parts with equal work
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)threads) if (threads > 1)
  for (int64_t part = 0; part < shares; part++) {
    const int64_t pA1_first = cut_int32(A_pos2, 0, A_pos1[1], shrinking(part, shares, threads), 1 << 20);
    const int64_t pA1_limit = cut_int32(A_pos2, 0, A_pos1[1], shrinking(part + 1, shares, threads), 1 << 20);
    // stored i of A
    for (int64_t pA1 = pA1_first; pA1 < pA1_limit; pA1++) {
      if (*stop) break;
      // stored j of A
      for (int64_t pA2 = A_pos2[pA1]; pA2 < A_pos2[pA1 + 1]; pA2++) {
        double R_sum = 0.0;
        // stored k of A
        for (int64_t pA3 = A_pos3[pA2]; pA3 < A_pos3[pA2 + 1]; pA3++) {
          const int64_t k = A_crd3[pA3];
          R_sum += A_vals[pA3] * B_vals[k];
        }
        R_vals[pA2] = R_sum;
      }
    }
  }
  return *stop ? 2 : 0;
}
