/* Moves the numbers of records from where one layout has them to where another does.

Number c of the record at place q lies at
  q / lanes * group + q % lanes * lane + c * number + first. */

struct where {
  int64_t lanes, group, lane, number, first;
};

/* A run is short enough for its records to stay in the cache from one number to the next. */
enum { RUN = 256 };

static int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

void relayout(const WORD *restrict from, const struct where *a, WORD *restrict to, const struct where *b,
              int64_t count, int64_t size) {
  for (int64_t q = 0; q < count;) {
    const int64_t at = q % a->lanes, there = q % b->lanes;
    const int64_t run = lesser(lesser(RUN, count - q), lesser(a->lanes - at, b->lanes - there));
    const WORD *in = from + q / a->lanes * a->group + at * a->lane + a->first;
    WORD *out = to + q / b->lanes * b->group + there * b->lane + b->first;
    for (int64_t c = 0; c < size; c++)
      for (int64_t i = 0; i < run; i++)
        out[c * b->number + i * b->lane] = in[c * a->number + i * a->lane];
    q += run;
  }
}
