// Moving entries from one storage to another, in parallel and in time linear in their number.
//
// The types are given by whoever compiles this: POS_IN, CRD_IN for the positions and coordinates
// that are read, POS, CRD for those that are written, and VALUE, an element of the right size.

#define PARALLEL _Pragma("omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)")
#define DYNAMIC _Pragma("omp parallel for schedule(dynamic, 256) num_threads((int)threads) if (threads > 1)")

// Where part `part` of `parts` begins, if all parts are to have equally many entries.
static int64_t cut(const POS_IN *pos, int64_t rows, int64_t part, int64_t parts) {
  const int64_t goal = (int64_t)pos[rows] / parts * part;
  int64_t begin = 0, end = rows;
  if (part >= parts) return rows;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (pos[middle] < goal) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

// counts[t * n + c], how many entries part t has for c  =>  where the first of them goes
static void starts(POS *counts, POS *pos, int64_t n, int64_t threads) {
  POS sum = 0;
  for (int64_t c = 0; c < n; c++) {
    pos[c] = sum;
    for (int64_t t = 0; t < threads; t++) {
      const POS count = counts[t * n + c];
      counts[t * n + c] = sum;
      sum += count;
    }
  }
  pos[n] = sum;
}

// Rows of runs as columns of runs. `counts` has threads * columns zeros.
void transpose(int64_t rows, int64_t columns, const POS_IN *restrict pos,
               const CRD_IN *restrict crd, const VALUE *restrict values, POS *restrict out_pos,
               CRD *restrict out_crd, VALUE *restrict out_values, POS *restrict counts,
               int64_t threads) {
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    POS *mine = counts + t * columns;
    const int64_t end = pos[cut(pos, rows, t + 1, threads)];
    for (int64_t p = pos[cut(pos, rows, t, threads)]; p < end; p++) mine[crd[p]]++;
  }
  starts(counts, out_pos, columns, threads);
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    POS *mine = counts + t * columns;
    const int64_t last = cut(pos, rows, t + 1, threads);
    for (int64_t i = cut(pos, rows, t, threads); i < last; i++) {
      for (int64_t p = pos[i]; p < (int64_t)pos[i + 1]; p++) {
        const POS to = mine[crd[p]]++;
        out_crd[to] = (CRD)i;
        out_values[to] = values[p];
      }
    }
  }
}

static void sort_row(CRD *crd, VALUE *values, int64_t n, CRD *spare, VALUE *spare_values) {
  if (n <= 24) {
    for (int64_t a = 1; a < n; a++) {
      const CRD key = crd[a];
      const VALUE value = values[a];
      int64_t b = a;
      for (; b > 0 && crd[b - 1] > key; b--) {
        crd[b] = crd[b - 1];
        values[b] = values[b - 1];
      }
      crd[b] = key;
      values[b] = value;
    }
    return;
  }
  const int64_t half = n / 2;
  sort_row(crd, values, half, spare, spare_values);
  sort_row(crd + half, values + half, n - half, spare, spare_values);
  if (crd[half - 1] <= crd[half]) return;
  for (int64_t a = 0; a < half; a++) {
    spare[a] = crd[a];
    spare_values[a] = values[a];
  }
  int64_t a = 0, b = half, to = 0;
  while (a < half) {
    if (b < n && crd[b] < spare[a]) {
      crd[to] = crd[b];
      values[to++] = values[b++];
    } else {
      crd[to] = spare[a];
      values[to++] = spare_values[a++];
    }
  }
}

// Entries in any order as rows of runs, each sorted. `counts` has threads * rows zeros. Returns 1
// if a coordinate is twice in a row, -1 if there is no memory, else 0.
int64_t gather_rows(int64_t rows, int64_t entries, const CRD_IN *restrict row,
                    const CRD_IN *restrict column, const VALUE *restrict values,
                    POS *restrict pos, CRD *restrict crd, VALUE *restrict out_values,
                    POS *restrict counts, int64_t threads) {
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    POS *mine = counts + t * rows;
    const int64_t end = entries / threads * (t + 1) + (t + 1 == threads ? entries % threads : 0);
    for (int64_t p = entries / threads * t; p < end; p++) mine[row[p]]++;
  }
  starts(counts, pos, rows, threads);
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    POS *mine = counts + t * rows;
    const int64_t end = entries / threads * (t + 1) + (t + 1 == threads ? entries % threads : 0);
    for (int64_t p = entries / threads * t; p < end; p++) {
      const POS to = mine[row[p]]++;
      crd[to] = (CRD)column[p];
      out_values[to] = values[p];
    }
  }
  int64_t repeated = 0, failed = 0;
  DYNAMIC
  for (int64_t i = 0; i < rows; i++) {
    const int64_t begin = pos[i], n = (int64_t)pos[i + 1] - begin;
    int64_t sorted = 1, same = 0;
    for (int64_t p = begin + 1; p < begin + n; p++) sorted &= crd[p - 1] <= crd[p];
    if (!sorted) {
      CRD *spare = n > 24 ? __builtin_malloc((size_t)(n / 2 + 1) * sizeof(CRD)) : 0;
      VALUE *other = n > 24 ? __builtin_malloc((size_t)(n / 2 + 1) * sizeof(VALUE)) : 0;
      if (n <= 24 || (spare && other)) {
        sort_row(crd + begin, out_values + begin, n, spare, other);
      } else {
        __atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
      }
      __builtin_free(spare);
      __builtin_free(other);
    }
    for (int64_t p = begin + 1; p < begin + n; p++) same |= crd[p - 1] == crd[p];
    if (same) __atomic_store_n(&repeated, 1, __ATOMIC_RELAXED);
  }
  return failed ? -1 : repeated;
}

// Runs side by side: entry q of row i goes to begin[i] + q * stride.
void spread(int64_t rows, const POS_IN *restrict pos, const CRD_IN *restrict crd,
            const VALUE *restrict values, const int64_t *restrict begin, int64_t stride,
            CRD *restrict out_crd, VALUE *restrict out_values, int64_t threads) {
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    const int64_t last = cut(pos, rows, t + 1, threads);
    for (int64_t i = cut(pos, rows, t, threads); i < last; i++) {
      int64_t to = begin[i];
      for (int64_t p = pos[i]; p < (int64_t)pos[i + 1]; p++, to += stride) {
        out_crd[to] = (CRD)crd[p];
        out_values[to] = values[p];
      }
    }
  }
}

// How many blocks of `high` x `wide` each row of blocks has. `seen` has threads * columns zeros.
void count_blocks(int64_t rows, int64_t high, int64_t wide, const POS_IN *restrict pos,
                  const CRD_IN *restrict crd, int64_t *restrict counts, int64_t *restrict seen,
                  int64_t columns, int64_t threads) {
  const int64_t bands = (rows + high - 1) / high;
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    int64_t *mine = seen + t * columns;
    for (int64_t band = bands / threads * t;
         band < (t + 1 == threads ? bands : bands / threads * (t + 1)); band++) {
      const int64_t last = (band + 1) * high < rows ? (band + 1) * high : rows;
      int64_t count = 0;
      for (int64_t p = pos[band * high]; p < (int64_t)pos[last]; p++) {
        const int64_t b = crd[p] / wide;
        count += mine[b] != band + 1;
        mine[b] = band + 1;
      }
      counts[band] = count;
    }
  }
}

// The blocks themselves, in order; `slot` has threads * columns places for anything.
void fill_blocks(int64_t rows, int64_t high, int64_t wide, const POS_IN *restrict pos,
                 const CRD_IN *restrict crd, const VALUE *restrict values,
                 const POS *restrict out_pos, CRD *restrict out_crd, VALUE *restrict out_values,
                 int64_t *restrict slot, int64_t columns, int64_t threads) {
  const int64_t bands = (rows + high - 1) / high;
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    int64_t *mine = slot + t * columns;
    for (int64_t band = bands / threads * t;
         band < (t + 1 == threads ? bands : bands / threads * (t + 1)); band++) {
      const int64_t first = band * high, last = first + high < rows ? first + high : rows;
      const int64_t base = out_pos[band];
      int64_t count = 0;
      for (int64_t p = pos[first]; p < (int64_t)pos[last]; p++) {
        const int64_t b = crd[p] / wide;
        if (mine[b] >= base && mine[b] < base + count && out_crd[mine[b]] == b) continue;
        mine[b] = base + count;
        out_crd[base + count++] = (CRD)b;
      }
      for (int64_t a = 1; a < count; a++) {  // rows are sorted, so this is nearly in order
        const CRD key = out_crd[base + a];
        int64_t b = a;
        for (; b > 0 && out_crd[base + b - 1] > key; b--) out_crd[base + b] = out_crd[base + b - 1];
        out_crd[base + b] = key;
      }
      for (int64_t a = 0; a < count; a++) mine[out_crd[base + a]] = base + a;
      for (int64_t i = first; i < last; i++) {
        for (int64_t p = pos[i]; p < (int64_t)pos[i + 1]; p++) {
          const int64_t b = crd[p] / wide;
          out_values[(mine[b] * high + i - first) * wide + crd[p] - b * wide] = values[p];
        }
      }
    }
  }
}
