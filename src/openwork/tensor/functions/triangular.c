// Solves triangular systems: in CSR, on several threads by levels, and in CSC.
//
// `triangular.py` defines the types POS and CRD of positions and coordinates, and VALUE. Row i of a
// lower triangle needs the unknowns of its columns. A level holds the rows that need earlier levels
// only, so its rows are independent. If `stop` is raised, as by Ctrl-C, results are incomplete.

// Levels of fewer entries than this are cheaper on one thread.
enum { WORTH_THREADS = 1 << 13, POLL = 1 << 12 };

// Where the diagonal is in each row: its position, or the first one behind it with ~ if it is absent.
// Returns the first row without a nonzero diagonal, or -1.
int64_t find_diagonal(int64_t rows, const POS *pos, const CRD *crd, const VALUE *values,
                      int64_t *diagonal) {
  int64_t missing = -1;
  for (int64_t i = 0; i < rows; i++) {
    int64_t begin = pos[i], end = pos[i + 1];
    while (begin < end) {
      const int64_t middle = begin + (end - begin) / 2;
      if (crd[middle] < i) begin = middle + 1;
      else end = middle;
    }
    const int present = begin < pos[i + 1] && crd[begin] == i;
    diagonal[i] = present ? begin : ~begin;
    if (missing < 0 && !(present && values[begin] != 0)) missing = i;
  }
  return missing;
}

static int64_t first(int lower, int64_t i, const POS *pos, const int64_t *diagonal) {
  const int64_t d = diagonal[i];
  return lower ? pos[i] : d < 0 ? ~d : d + 1;
}

static int64_t last(int lower, int64_t i, const POS *pos, const int64_t *diagonal) {
  const int64_t d = diagonal[i];
  return !lower ? pos[i + 1] : d < 0 ? ~d : d;
}

// Sorts the rows by level, stably; starts[l] is where level l begins, starts[l + rows + 1] how many
// entries there are before it. Returns the number of levels.
int64_t find_levels(int64_t rows, const POS *pos, const CRD *crd, int64_t lower,
                    const int64_t *diagonal, int32_t *level, int64_t *starts, int64_t *order,
                    const volatile int32_t *stop) {
  int64_t levels = 0;
  for (int64_t n = 0; n < rows; n++) {
    if (n % POLL == 0 && *stop) return 0;
    const int64_t i = lower ? n : rows - 1 - n, end = last((int)lower, i, pos, diagonal);
    int32_t mine = 0;
    for (int64_t p = first((int)lower, i, pos, diagonal); p < end; p++)
      if (level[crd[p]] >= mine) mine = level[crd[p]] + 1;
    level[i] = mine;
    if (mine >= levels) levels = mine + 1;
  }
  int64_t *const work = starts + rows + 1;
  for (int64_t l = 0; l <= levels; l++) starts[l] = work[l] = 0;
  for (int64_t i = 0; i < rows; i++) {
    starts[level[i] + 1]++;
    work[level[i] + 1] += pos[i + 1] - pos[i] + 1;
  }
  for (int64_t l = 0; l < levels; l++) {
    starts[l + 1] += starts[l];
    work[l + 1] += work[l];
  }
  for (int64_t i = 0; i < rows; i++) order[starts[level[i]]++] = i;
  for (int64_t l = levels; l > 0; l--) starts[l] = starts[l - 1];
  starts[0] = 0;
  return levels;
}

// x holds the right-hand sides, row after row of `columns`, and then the unknowns.
static inline void solve_row(int64_t i, const POS *restrict pos, const CRD *restrict crd,
                             const VALUE *restrict values, int lower, int unit,
                             const int64_t *restrict diagonal, int64_t columns, VALUE *x) {
  const int64_t end = last(lower, i, pos, diagonal);
  int64_t p = first(lower, i, pos, diagonal);
  if (columns == 1) {
    VALUE sum = x[i];
    for (; p < end; p++) sum -= values[p] * x[crd[p]];
    x[i] = unit ? sum : sum / values[diagonal[i]];
    return;
  }
  VALUE *restrict mine = x + i * columns;
  for (; p < end; p++) {
    const VALUE factor = values[p];
    const VALUE *restrict theirs = x + (int64_t)crd[p] * columns;
    for (int64_t c = 0; c < columns; c++) mine[c] -= factor * theirs[c];
  }
  if (unit) return;
  const VALUE d = values[diagonal[i]];
  for (int64_t c = 0; c < columns; c++) mine[c] /= d;
}

// One row after the other.
void solve_rows(int64_t rows, const POS *pos, const CRD *crd, const VALUE *values, int64_t lower,
                int64_t unit, const int64_t *diagonal, int64_t columns, VALUE *x,
                const volatile int32_t *stop) {
  for (int64_t n = 0; n < rows; n++) {
    if (n % POLL == 0 && *stop) return;
    const int64_t i = lower ? n : rows - 1 - n;
    solve_row(i, pos, crd, values, (int)lower, (int)unit, diagonal, columns, x);
  }
}

// The same of CSC: pos, crd and diagonal are of columns, and an unknown is taken out of all rows
// below it, or above it, as soon as it is known.
void solve_columns(int64_t rows, const POS *restrict pos, const CRD *restrict crd,
                   const VALUE *restrict values, int64_t lower, int64_t unit,
                   const int64_t *restrict diagonal, int64_t columns, VALUE *x,
                   const volatile int32_t *stop) {
  for (int64_t n = 0; n < rows; n++) {
    if (n % POLL == 0 && *stop) return;
    const int64_t j = lower ? n : rows - 1 - n, end = last(!lower, j, pos, diagonal);
    VALUE *const mine = x + j * columns;
    if (!unit)
      for (int64_t c = 0; c < columns; c++) mine[c] /= values[diagonal[j]];
    for (int64_t p = first(!lower, j, pos, diagonal); p < end; p++) {
      const VALUE factor = values[p];
      VALUE *const theirs = x + (int64_t)crd[p] * columns;
      for (int64_t c = 0; c < columns; c++) theirs[c] -= factor * mine[c];
    }
  }
}

// One level after the other, each on all threads if it has much to do.
void solve_levels(int64_t rows, const POS *pos, const CRD *crd, const VALUE *values, int64_t lower,
                  int64_t unit, const int64_t *diagonal, int64_t columns, VALUE *x, int64_t levels,
                  const int64_t *starts, const int64_t *order, int64_t threads,
                  const volatile int32_t *stop) {
  const int64_t *const work = starts + rows + 1;
  for (int64_t l = 0; l < levels; l++) {
    if (*stop) return;
    const int64_t begin = starts[l], end = starts[l + 1];
    const int64_t busy = (work[l + 1] - work[l]) * columns >= WORTH_THREADS ? threads : 1;
    _Pragma("omp parallel for schedule(static, 1) num_threads((int)busy) if (busy > 1)")
    for (int64_t t = 0; t < busy; t++) {
      const int64_t from = begin + (end - begin) * t / busy;
      const int64_t to = begin + (end - begin) * (t + 1) / busy;
      for (int64_t n = from; n < to; n++)
        solve_row(order[n], pos, crd, values, (int)lower, (int)unit, diagonal, columns, x);
    }
  }
}
