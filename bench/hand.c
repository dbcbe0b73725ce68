// The kernels as one would write them by hand: the yardstick for generated code.
// Plain loops over CSR and CSF, rows in parallel. Compiled with the flags that kernels are compiled
// with. GUIDED hands out rows in pieces that shrink towards the end, so that long rows and few rows
// do no great harm; on one thread it is the plain loop.

typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

#define GUIDED _Pragma("omp parallel for schedule(guided) num_threads((int)threads) if (threads > 1)")

// y = A x
void spmv(int64_t threads, int64_t rows, const int32_t *restrict pos,
          const int32_t *restrict crd, const double *restrict vals, const double *restrict x,
          double *restrict y) {
  GUIDED
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0.0;
    for (int32_t p = pos[i]; p < pos[i + 1]; p++) sum += vals[p] * x[crd[p]];
    y[i] = sum;
  }
}

// Y = A X, with dense X and Y of `width` columns
void spmm(int64_t threads, int64_t rows, int64_t width, const int32_t *restrict pos,
          const int32_t *restrict crd, const double *restrict vals, const double *restrict x,
          double *restrict y) {
  GUIDED
  for (int64_t i = 0; i < rows; i++) {
    double *restrict out = y + i * width;
    for (int64_t k = 0; k < width; k++) out[k] = 0.0;
    for (int32_t p = pos[i]; p < pos[i + 1]; p++) {
      const double a = vals[p];
      const double *restrict in = x + crd[p] * width;
      for (int64_t k = 0; k < width; k++) out[k] += a * in[k];
    }
  }
}

// out = A .* (U V^T), at the entries of A
void sddmm(int64_t threads, int64_t rows, int64_t width, const int32_t *restrict pos,
           const int32_t *restrict crd, const double *restrict vals, const double *restrict u,
           const double *restrict v, double *restrict out) {
  GUIDED
  for (int64_t i = 0; i < rows; i++) {
    for (int32_t p = pos[i]; p < pos[i + 1]; p++) {
      const double *restrict left = u + i * width;
      const double *restrict right = v + crd[p] * width;
      double sum = 0.0;
      for (int64_t k = 0; k < width; k++) sum += left[k] * right[k];
      out[p] = vals[p] * sum;
    }
  }
}

// M(i,:) = sum over the entries T(i,k,l) of T(i,k,l) * D(k,:) * F(l,:), with T in CSF, entry by
// entry and on one thread
void mttkrp(int64_t rows, int64_t width, const int32_t *restrict pos1, const int32_t *restrict crd1,
            const int32_t *restrict pos2, const int32_t *restrict crd2,
            const int32_t *restrict pos3, const int32_t *restrict crd3,
            const double *restrict vals, const double *restrict d, const double *restrict f,
            double *restrict m) {
  for (int64_t n = 0; n < rows * width; n++) m[n] = 0.0;
  for (int32_t p1 = pos1[0]; p1 < pos1[1]; p1++) {
    double *restrict out = m + crd1[p1] * width;
    for (int32_t p2 = pos2[p1]; p2 < pos2[p1 + 1]; p2++) {
      const double *restrict left = d + crd2[p2] * width;
      for (int32_t p3 = pos3[p2]; p3 < pos3[p2 + 1]; p3++) {
        const double t = vals[p3];
        const double *restrict right = f + crd3[p3] * width;
        for (int64_t j = 0; j < width; j++) out[j] += t * left[j] * right[j];
      }
    }
  }
}

// The same with a partial sum per level, orders 3 to 5: what the entries below one coordinate add up
// to is multiplied by that coordinate's row of its factor once, not once an entry. The caller gives
// an M of zeros. `index` holds pos and crd of each level in turn, `factors` those of all modes but
// the first.

#define POS(level) index[2 * (level)]
#define CRD(level) index[2 * (level) + 1]

// into[:] = sum over the stored l below p of vals[l] * factor(l,:)
static inline void sum_leaves(int32_t begin, int32_t end, int64_t width, const int32_t *restrict crd,
                              const double *restrict vals, const double *restrict factor,
                              double *restrict into) {
  for (int64_t j = 0; j < width; j++) into[j] = 0.0;
  for (int32_t p = begin; p < end; p++) {
    const double t = vals[p];
    const double *restrict row = factor + (int64_t)crd[p] * width;
    for (int64_t j = 0; j < width; j++) into[j] += t * row[j];
  }
}

// into[:] += below[:] * row[:]
static inline void add_product(int64_t width, const double *restrict below,
                               const double *restrict row, double *restrict into) {
  for (int64_t j = 0; j < width; j++) into[j] += below[j] * row[j];
}

void mttkrp3(int64_t threads, int64_t width, const int32_t *const *index, const double *vals,
             const double *const *factors, double *m) {
  GUIDED
  for (int32_t p1 = POS(0)[0]; p1 < POS(0)[1]; p1++) {
    double *out = m + (int64_t)CRD(0)[p1] * width;
    double sum[width];
    for (int32_t p2 = POS(1)[p1]; p2 < POS(1)[p1 + 1]; p2++) {
      sum_leaves(POS(2)[p2], POS(2)[p2 + 1], width, CRD(2), vals, factors[1], sum);
      add_product(width, sum, factors[0] + (int64_t)CRD(1)[p2] * width, out);
    }
  }
}

void mttkrp4(int64_t threads, int64_t width, const int32_t *const *index, const double *vals,
             const double *const *factors, double *m) {
  GUIDED
  for (int32_t p1 = POS(0)[0]; p1 < POS(0)[1]; p1++) {
    double *out = m + (int64_t)CRD(0)[p1] * width;
    double sum2[width], sum3[width];
    for (int32_t p2 = POS(1)[p1]; p2 < POS(1)[p1 + 1]; p2++) {
      for (int64_t j = 0; j < width; j++) sum2[j] = 0.0;
      for (int32_t p3 = POS(2)[p2]; p3 < POS(2)[p2 + 1]; p3++) {
        sum_leaves(POS(3)[p3], POS(3)[p3 + 1], width, CRD(3), vals, factors[2], sum3);
        add_product(width, sum3, factors[1] + (int64_t)CRD(2)[p3] * width, sum2);
      }
      add_product(width, sum2, factors[0] + (int64_t)CRD(1)[p2] * width, out);
    }
  }
}

void mttkrp5(int64_t threads, int64_t width, const int32_t *const *index, const double *vals,
             const double *const *factors, double *m) {
  GUIDED
  for (int32_t p1 = POS(0)[0]; p1 < POS(0)[1]; p1++) {
    double *out = m + (int64_t)CRD(0)[p1] * width;
    double sum2[width], sum3[width], sum4[width];
    for (int32_t p2 = POS(1)[p1]; p2 < POS(1)[p1 + 1]; p2++) {
      for (int64_t j = 0; j < width; j++) sum2[j] = 0.0;
      for (int32_t p3 = POS(2)[p2]; p3 < POS(2)[p2 + 1]; p3++) {
        for (int64_t j = 0; j < width; j++) sum3[j] = 0.0;
        for (int32_t p4 = POS(3)[p3]; p4 < POS(3)[p3 + 1]; p4++) {
          sum_leaves(POS(4)[p4], POS(4)[p4 + 1], width, CRD(4), vals, factors[3], sum4);
          add_product(width, sum4, factors[2] + (int64_t)CRD(3)[p4] * width, sum3);
        }
        add_product(width, sum3, factors[1] + (int64_t)CRD(2)[p3] * width, sum2);
      }
      add_product(width, sum2, factors[0] + (int64_t)CRD(1)[p2] * width, out);
    }
  }
}

// C = A + B: makes the three arrays of C and returns their addresses and the number of entries;
// -1 without memory. As SciPy and the generated kernel do, it makes room for all entries of both.
int64_t add(int64_t rows, const int32_t *restrict a_pos, const int32_t *restrict a_crd,
            const double *restrict a_vals, const int32_t *restrict b_pos,
            const int32_t *restrict b_crd, const double *restrict b_vals, void **made) {
  const int64_t most = (int64_t)a_pos[rows] + b_pos[rows];
  int32_t *restrict pos = __builtin_malloc((rows + 1) * sizeof(int32_t));
  int32_t *restrict crd = __builtin_malloc((most + 1) * sizeof(int32_t));
  double *restrict vals = __builtin_malloc((most + 1) * sizeof(double));
  made[0] = pos, made[1] = crd, made[2] = vals;
  if (!pos || !crd || !vals) return -1;
  int32_t n = 0;
  pos[0] = 0;
  for (int64_t i = 0; i < rows; i++) {
    int32_t a = a_pos[i], b = b_pos[i];
    const int32_t a_end = a_pos[i + 1], b_end = b_pos[i + 1];
    while (a < a_end && b < b_end) {
      if (a_crd[a] == b_crd[b]) {
        crd[n] = a_crd[a];
        vals[n++] = a_vals[a++] + b_vals[b++];
      } else if (a_crd[a] < b_crd[b]) {
        crd[n] = a_crd[a];
        vals[n++] = a_vals[a++];
      } else {
        crd[n] = b_crd[b];
        vals[n++] = b_vals[b++];
      }
    }
    for (; a < a_end; a++) {
      crd[n] = a_crd[a];
      vals[n++] = a_vals[a];
    }
    for (; b < b_end; b++) {
      crd[n] = b_crd[b];
      vals[n++] = b_vals[b];
    }
    pos[i + 1] = n;
  }
  return n;
}

void give_back(void **made) {
  for (int n = 0; n < 3; n++) __builtin_free(made[n]);
}

// Memory and nothing else: one pass over `count` doubles. Sixteen sums run side by side, or adding
// would be slower than reading.
double read_all(int64_t threads, int64_t count, const double *restrict a) {
  double sums[16] = {0.0}, total = 0.0;
#pragma omp parallel for schedule(static) num_threads((int)threads) reduction(+ : sums)
  for (int64_t n = 0; n < count / 16; n++)
    for (int64_t at = 0; at < 16; at++) sums[at] += a[16 * n + at];
  for (int64_t at = 0; at < 16; at++) total += sums[at];
  return total;
}

// a = b + 3 c
void triad(int64_t threads, int64_t count, double *restrict a, const double *restrict b,
           const double *restrict c) {
#pragma omp parallel for schedule(static) num_threads((int)threads)
  for (int64_t n = 0; n < count; n++) a[n] = b[n] + 3.0 * c[n];
}

// Work that needs nothing but a core.
__UINT64_TYPE__ spin(int64_t count) {
  __UINT64_TYPE__ x = 1;
  for (int64_t n = 0; n < count; n++) x = x * 6364136223846793005u + 1442695040888963407u;
  return x;
}
