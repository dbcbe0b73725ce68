// Compressed rows to dense blocks of HIGH x WIDE: the rows of a band are merged, block by block.
//
// Types and `stop` are as in `moves.c`; the size of the blocks is a compile-time constant.

#define PARALLEL _Pragma("omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)")

#define NONE ((CRD_IN)(((uint64_t)1 << (8 * sizeof(CRD_IN) - 1)) - 1))

// The state of each row of a band: its position, its end, and its column, NONE at the end.
typedef struct {
  int64_t at[HIGH], end[HIGH];
  CRD_IN column[HIGH];
} Band;

static inline void begin_band(Band *band, int64_t first, int64_t rows, const POS_IN *pos,
                              const CRD_IN *crd) {
  for (int64_t r = 0; r < HIGH; r++) {
    const int64_t i = first + r < rows ? first + r : rows;
    band->at[r] = pos[i];
    band->end[r] = i < rows ? pos[i + 1] : pos[i];
    band->column[r] = band->at[r] < band->end[r] ? crd[band->at[r]] : NONE;
  }
}

// The first column of the next nonempty block of the band, or -1.
static inline int64_t next_block(const Band *band) {
  CRD_IN least = NONE;
  for (int64_t r = 0; r < HIGH; r++) least = band->column[r] < least ? band->column[r] : least;
  return least == NONE ? -1 : (int64_t)((uint64_t)least / WIDE * WIDE);
}

static inline void step(Band *band, int64_t r, const CRD_IN *crd) {
  const int64_t at = ++band->at[r];
  band->column[r] = at < band->end[r] ? crd[at] : NONE;
}

static inline int64_t within(const Band *band, int64_t r, int64_t column) {
  return band->column[r] < column + WIDE && band->column[r] != NONE;
}

// Count the blocks of each block row.
void count_blocks(int64_t rows, const POS_IN *restrict pos, const CRD_IN *restrict crd,
                  int64_t *restrict counts, int64_t threads, const volatile int32_t *stop) {
  const int64_t bands = (rows + HIGH - 1) / HIGH;
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    const int64_t last = t + 1 == threads ? bands : bands / threads * (t + 1);
    for (int64_t b = bands / threads * t; b < last && !*stop; b++) {
      Band band;
      int64_t count = 0, column;
      begin_band(&band, b * HIGH, rows, pos, crd);
      while ((column = next_block(&band)) >= 0) {
        count++;
        for (int64_t r = 0; r < HIGH; r++) {
          while (within(&band, r, column)) step(&band, r, crd);
        }
      }
      counts[b] = count;
    }
  }
}

// Store the blocks, in order.
void fill_blocks(int64_t rows, const POS_IN *restrict pos, const CRD_IN *restrict crd,
                 const VALUE *restrict values, const POS *restrict out_pos,
                 CRD *restrict out_crd, VALUE *restrict out_values, const VALUE *restrict fill,
                 int64_t threads, const volatile int32_t *stop) {
  const int64_t bands = (rows + HIGH - 1) / HIGH;
  const VALUE nothing = *fill;
  PARALLEL
  for (int64_t t = 0; t < threads; t++) {
    const int64_t last = t + 1 == threads ? bands : bands / threads * (t + 1);
    for (int64_t b = bands / threads * t; b < last && !*stop; b++) {
      Band band;
      int64_t to = out_pos[b], column;
      begin_band(&band, b * HIGH, rows, pos, crd);
      while ((column = next_block(&band)) >= 0) {
        VALUE *block = out_values + to * (HIGH * WIDE);
        for (int64_t v = 0; v < HIGH * WIDE; v++) block[v] = nothing;
        for (int64_t r = 0; r < HIGH; r++) {
          for (; within(&band, r, column); step(&band, r, crd)) {
            block[r * WIDE + (band.column[r] - column)] = values[band.at[r]];
          }
        }
        out_crd[to++] = (CRD)(column / WIDE);
      }
    }
  }
}
