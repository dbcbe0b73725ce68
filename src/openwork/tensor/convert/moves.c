// Moves entries from one storage to another, in parallel and in time linear in their number.
//
// `moves.py` defines the types: POS_IN, CRD_IN for the positions and coordinates that are read, POS,
// CRD for those that are written, VALUE, an element of the right size, and KEY, which holds a row
// and a column within a group. If `stop` is raised, as by Ctrl-C, the results are incomplete and are
// never read.

#define PARALLEL _Pragma("omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)")
#define DYNAMIC _Pragma("omp parallel for schedule(dynamic, 256) num_threads((int)threads) if (threads > 1)")

// Iterates from `begin` to below `end`, polling `stop` between chunks.
enum { RUN = 1 << 14 };
#define RUNS(n, begin, end)                                                                        \
  for (int64_t n##_next = (begin), n##_end = (end), n = n##_next; n##_next < n##_end && !*stop;)   \
    for (n##_next = n##_end - n > RUN ? n + RUN : n##_end; n < n##_next; n++)

// The first row of part `part` of `parts` with about equally many entries.
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

// CSR to CSC. `counts` has threads * columns zeros.
void transpose(int64_t rows, int64_t columns, const POS_IN *restrict pos,
               const CRD_IN *restrict crd, const VALUE *restrict values, POS *restrict out_pos,
               CRD *restrict out_crd, VALUE *restrict out_values, POS *restrict counts,
               int64_t threads, const volatile int32_t *stop) {
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    POS *mine = counts + t * columns;
    const int64_t end = pos[cut(pos, rows, t + 1, threads)];
    RUNS(p, pos[cut(pos, rows, t, threads)], end) mine[crd[p]]++;
  }
  starts(counts, out_pos, columns, threads);
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    POS *mine = counts + t * columns;
    const int64_t last = cut(pos, rows, t + 1, threads);
    RUNS(i, cut(pos, rows, t, threads), last) {
      for (int64_t p = pos[i]; p < (int64_t)pos[i + 1]; p++) {
        const POS to = mine[crd[p]]++;
        out_crd[to] = (CRD)i;
        out_values[to] = values[p];
      }
    }
  }
}

// Whether most rows span more than `near` columns, by a sample of them.
int64_t is_scattered(int64_t rows, const POS_IN *restrict pos, const CRD_IN *restrict crd,
                     int64_t near) {
  int64_t far = 0, seen = 0;
  for (int64_t n = 0; n < 256; n++) {
    const int64_t i = rows / 256 * n + rows % 256 * n / 256;
    const int64_t begin = pos[i], end = pos[i + 1];
    if (end - begin < 2) continue;
    far += (int64_t)crd[end - 1] - (int64_t)crd[begin] > near;
    seen++;
  }
  return 2 * far > seen;
}

// An entry in transit: `key` is its row, and in the low bits its column within a group. A 32-bit
// key makes an entry with a 64-bit value a quarter smaller, and bandwidth is the limit.
typedef struct __attribute__((packed, aligned(4))) {
  KEY key;
  VALUE value;
} Entry;

int64_t entry_size(void) { return sizeof(Entry); }

// Scatters entries, grouped by `1 << shift` columns as `ends` says, into their columns.
static void settle(int64_t columns, POS *restrict out_pos, CRD *restrict out_crd,
                   VALUE *restrict out_values, const POS *restrict ends,
                   const Entry *restrict spare, int64_t shift, int64_t threads, const volatile int32_t *stop) {
  const int64_t groups = ((columns - 1) >> shift) + 1;
  const KEY mask = ((KEY)1 << shift) - 1;
  _Pragma("omp parallel for schedule(dynamic, 1) num_threads((int)threads) if (threads > 1)")
  for (int64_t group = 0; group < groups; group++) {
    if (*stop) continue;
    const int64_t first = group << shift;
    const int64_t last = (group + 1) << shift < columns ? (group + 1) << shift : columns;
    const int64_t begin = ends[group], end = ends[group + 1];
    // The start of a column is stored one place early, so that it is right once the column is full.
    POS *at = out_pos + 1 + first;
    for (int64_t c = 0; c < last - first; c++) at[c] = 0;
    for (int64_t p = begin; p < end; p++) {
      // The whole group will be written: touch its memory in order.
      if (!(p & 7)) {
        __builtin_prefetch(&out_values[p], 1);
        __builtin_prefetch(&out_crd[p], 1);
      }
      at[spare[p].key & mask]++;
    }
    POS sum = (POS)begin;
    for (int64_t c = 0; c < last - first; c++) {
      const POS count = at[c];
      at[c] = sum;
      sum += count;
    }
    for (int64_t p = begin; p < end; p++) {
      const KEY key = spare[p].key;
      const POS to = at[key & mask]++;
      out_crd[to] = (CRD)(key >> shift);
      out_values[to] = spare[p].value;
    }
  }
  out_pos[0] = 0;
}

// The same for scattered entries: they are first partitioned into groups of `1 << shift` columns.
// `counts` has threads * groups zeros, `spare` a place for each entry.
void transpose_scattered(int64_t rows, int64_t columns, const POS_IN *restrict pos,
                         const CRD_IN *restrict crd, const VALUE *restrict values,
                         POS *restrict out_pos, CRD *restrict out_crd, VALUE *restrict out_values,
                         POS *restrict counts, POS *restrict ends, Entry *restrict spare,
                         int64_t shift, int64_t threads, const volatile int32_t *stop) {
  const int64_t groups = ((columns - 1) >> shift) + 1;
  const KEY mask = ((KEY)1 << shift) - 1;
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    POS *mine = counts + t * groups;
    const int64_t end = pos[cut(pos, rows, t + 1, threads)];
    RUNS(p, pos[cut(pos, rows, t, threads)], end) mine[crd[p] >> shift]++;
  }
  starts(counts, ends, groups, threads);
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    POS *mine = counts + t * groups;
    const int64_t last = cut(pos, rows, t + 1, threads);
    RUNS(i, cut(pos, rows, t, threads), last) {
      for (int64_t p = pos[i]; p < (int64_t)pos[i + 1]; p++) {
        const POS to = mine[crd[p] >> shift]++;
        __builtin_prefetch(&spare[to + 8], 1);
        spare[to] = (Entry){(KEY)i << shift | ((KEY)crd[p] & mask), values[p]};
      }
    }
  }
  settle(columns, out_pos, out_crd, out_values, ends, spare, shift, threads, stop);
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

// Sort each row. Returns 1 if a row has a duplicate, -1 if memory runs out, else 0.
static int64_t sort_rows(int64_t rows, const POS *restrict pos, CRD *restrict crd,
                         VALUE *restrict values, int64_t threads, const volatile int32_t *stop) {
  int64_t repeated = 0, failed = 0;
  DYNAMIC
  for (int64_t i = 0; i < rows; i++) {
    if (*stop) continue;
    const int64_t begin = pos[i], n = (int64_t)pos[i + 1] - begin;
    int64_t sorted = 1, same = 0;
    for (int64_t p = begin + 1; p < begin + n; p++) sorted &= crd[p - 1] <= crd[p];
    if (!sorted) {
      CRD *spare = n > 24 ? __builtin_malloc((size_t)(n / 2 + 1) * sizeof(CRD)) : 0;
      VALUE *other = n > 24 ? __builtin_malloc((size_t)(n / 2 + 1) * sizeof(VALUE)) : 0;
      if (n <= 24 || (spare && other)) {
        sort_row(crd + begin, values + begin, n, spare, other);
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

// The first entry of part `part` of `parts`.
static int64_t share(int64_t entries, int64_t part, int64_t parts) {
  return part == parts ? entries : entries / parts * part;
}

// Entries in any order to CSR with sorted rows. `counts` has threads * rows zeros.
int64_t gather_rows(int64_t rows, int64_t entries, const CRD_IN *restrict row,
                    const CRD_IN *restrict column, const VALUE *restrict values,
                    POS *restrict pos, CRD *restrict crd, VALUE *restrict out_values,
                    POS *restrict counts, int64_t threads, const volatile int32_t *stop) {
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    POS *mine = counts + t * rows;
    const int64_t end = share(entries, t + 1, threads);
    RUNS(p, share(entries, t, threads), end) mine[row[p]]++;
  }
  starts(counts, pos, rows, threads);
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    POS *mine = counts + t * rows;
    const int64_t end = share(entries, t + 1, threads);
    RUNS(p, share(entries, t, threads), end) {
      const POS to = mine[row[p]]++;
      crd[to] = (CRD)column[p];
      out_values[to] = values[p];
    }
  }
  return sort_rows(rows, pos, crd, out_values, threads, stop);
}

// Whether most entries are more than `near` rows from the one before, by a sample of them.
int64_t jumps_about(int64_t entries, const CRD_IN *restrict row, int64_t near) {
  int64_t far = 0, seen = 0;
  for (int64_t p = entries / 257 + 1; p < entries; p += entries / 257 + 1, seen++) {
    const int64_t step = (int64_t)row[p] - (int64_t)row[p - 1];
    far += step > near || -step > near;
  }
  return 2 * far > seen;
}

// The same for entries whose rows are scattered: see `transpose_scattered`.
int64_t gather_scattered(int64_t rows, int64_t entries, const CRD_IN *restrict row,
                         const CRD_IN *restrict column, const VALUE *restrict values,
                         POS *restrict pos, CRD *restrict crd, VALUE *restrict out_values,
                         POS *restrict counts, POS *restrict ends, Entry *restrict spare,
                         int64_t shift, int64_t threads, const volatile int32_t *stop) {
  const int64_t groups = ((rows - 1) >> shift) + 1;
  const KEY mask = ((KEY)1 << shift) - 1;
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    POS *mine = counts + t * groups;
    const int64_t end = share(entries, t + 1, threads);
    RUNS(p, share(entries, t, threads), end) mine[row[p] >> shift]++;
  }
  starts(counts, ends, groups, threads);
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    POS *mine = counts + t * groups;
    const int64_t end = share(entries, t + 1, threads);
    RUNS(p, share(entries, t, threads), end) {
      const POS to = mine[row[p] >> shift]++;
      __builtin_prefetch(&spare[to + 8], 1);
      spare[to] = (Entry){(KEY)column[p] << shift | ((KEY)row[p] & mask), values[p]};
    }
  }
  settle(rows, pos, crd, out_values, ends, spare, shift, threads, stop);
  return sort_rows(rows, pos, crd, out_values, threads, stop);
}

// Where each row begins in a list of entries sorted by rows; also copies the values.
void runs_of_list(int64_t rows, int64_t entries, const CRD_IN *restrict row,
                  const VALUE *restrict values, POS *restrict pos, VALUE *restrict out_values,
                  int64_t threads, const volatile int32_t *stop) {
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    const int64_t begin = share(entries, t, threads), end = share(entries, t + 1, threads);
    int64_t before = begin ? row[begin - 1] : -1;
    RUNS(p, begin, end) {
      for (; before < (int64_t)row[p]; before++) pos[before + 1] = (POS)p;
      out_values[p] = values[p];
    }
    if (t + 1 == threads) {
      for (; before < rows; before++) pos[before + 1] = (POS)entries;
    }
  }
}

// CSR to COO: the row of each entry, and a copy of its value.
void list_of_runs(int64_t rows, const POS_IN *restrict pos, const VALUE *restrict values,
                  CRD *restrict row, VALUE *restrict out_values, int64_t threads, const volatile int32_t *stop) {
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    const int64_t last = cut(pos, rows, t + 1, threads);
    RUNS(i, cut(pos, rows, t, threads), last) {
      for (int64_t p = pos[i]; p < (int64_t)pos[i + 1]; p++) {
        row[p] = (CRD)i;
        out_values[p] = values[p];
      }
    }
  }
}

// CSR to interleaved runs (ELL, SELL): slices of `height` rows, padded to the longest one. `place`
// is where each row goes if they are sorted, else 0. Padding is filled.
void spread(int64_t rows, const POS_IN *restrict pos, const CRD_IN *restrict crd,
            const VALUE *restrict values, const int64_t *restrict place,
            const POS *restrict slice, int64_t height, CRD *restrict out_crd,
            VALUE *restrict out_values, const VALUE *restrict fill, int64_t threads, const volatile int32_t *stop) {
  const VALUE nothing = *fill;
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    const int64_t last = cut(pos, rows, t + 1, threads);
    RUNS(i, cut(pos, rows, t, threads), last) {
      const int64_t run = place ? place[i] : i, number = run / height;
      int64_t to = slice[number] + run % height;
      for (int64_t p = pos[i]; p < (int64_t)pos[i + 1]; p++, to += height) {
        out_crd[to] = (CRD)crd[p];
        out_values[to] = values[p];
      }
      for (; to < (int64_t)slice[number + 1]; to += height) {
        out_crd[to] = 0;
        out_values[to] = nothing;
      }
    }
  }
}
