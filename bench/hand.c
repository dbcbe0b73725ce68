// The kernels as one would write them by hand: the yardstick for generated code.
// Plain loops over CSR and CSF, one thread. Compiled with the flags that kernels are compiled with.

typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

// y = A x
void spmv(int64_t rows, const int32_t *restrict pos, const int32_t *restrict crd,
          const double *restrict vals, const double *restrict x, double *restrict y) {
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0.0;
    for (int32_t p = pos[i]; p < pos[i + 1]; p++) sum += vals[p] * x[crd[p]];
    y[i] = sum;
  }
}

// Y = A X, with dense X and Y of `width` columns
void spmm(int64_t rows, int64_t width, const int32_t *restrict pos, const int32_t *restrict crd,
          const double *restrict vals, const double *restrict x, double *restrict y) {
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
void sddmm(int64_t rows, int64_t width, const int32_t *restrict pos, const int32_t *restrict crd,
           const double *restrict vals, const double *restrict u, const double *restrict v,
           double *restrict out) {
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

// M(i,:) = sum over the entries T(i,k,l) of T(i,k,l) * D(k,:) * F(l,:), with T in CSF
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

// Work that needs nothing but a core.
__UINT64_TYPE__ spin(int64_t count) {
  __UINT64_TYPE__ x = 1;
  for (int64_t n = 0; n < count; n++) x = x * 6364136223846793005u + 1442695040888963407u;
  return x;
}
