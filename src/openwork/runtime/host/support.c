/* Openwork's own C: validation of arrays from outside, and the watch for Ctrl-C.
 *
 * Both checks return -1 if all is well, else the first index at fault. They first test only whether
 * anything is wrong, in branch-free loops that compilers vectorize; the index is searched for
 * afterwards, and only if there is a fault. */

typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;

/* Coordinates are checked in chunks that stay in the cache between the two passes over them. */
enum { PIECE = 1 << 14, TUPLES = 1 << 10, WORTH_THREADS = 1 << 17 };

/* pos[0] == 0, pos never decreases, pos[count] == last; there are count + 1 positions. */
#define CHECK_POSITIONS(NAME, POS)                                                             \
  int64_t NAME(const POS *pos, int64_t count, int64_t last) {                                  \
    POS falls = 0;                                                                             \
    _Pragma("omp simd reduction(| : falls)")                                                   \
    for (int64_t p = 0; p < count; p++) falls |= pos[p + 1] < pos[p];                          \
    if (!falls && pos[0] == 0 && pos[count] == last) return -1;                                \
    if (pos[0] != 0) return 0;                                                                 \
    for (int64_t p = 0; p < count; p++)                                                        \
      if (pos[p + 1] < pos[p]) return p + 1;                                                   \
    return count;                                                                              \
  }

CHECK_POSITIONS(ow_check_positions_32, int32_t)
CHECK_POSITIONS(ow_check_positions_64, int64_t)

/* The largest of `count` coordinates, and for each but the first whether it is below the one
 * before. As unsigned integers, negative ones are the largest. */
#define LARGER(a, b) ((a) < (b) ? (b) : (a))
#define LOOK_AT(BITS, CRD, WORD)                                                               \
  static WORD largest_##BITS(const CRD *crd, int64_t count) {                                  \
    WORD most = 0;                                                                             \
    _Pragma("omp simd reduction(max : most)")                                                  \
    for (int64_t n = 0; n < count; n++) most = LARGER(most, (WORD)crd[n]);                     \
    return most;                                                                               \
  }                                                                                            \
  static WORD mark_##BITS(const CRD *crd, int64_t count, int32_t unique, uint8_t *falls) {     \
    WORD most = (WORD)crd[0];                                                                  \
    falls[0] = 0;                                                                              \
    if (unique) {                                                                              \
      _Pragma("omp simd reduction(max : most)")                                                \
      for (int64_t n = 1; n < count; n++) {                                                    \
        most = LARGER(most, (WORD)crd[n]);                                                     \
        falls[n] = crd[n] <= crd[n - 1];                                                       \
      }                                                                                        \
    } else {                                                                                   \
      _Pragma("omp simd reduction(max : most)")                                                \
      for (int64_t n = 1; n < count; n++) {                                                    \
        most = LARGER(most, (WORD)crd[n]);                                                     \
        falls[n] = crd[n] < crd[n - 1];                                                        \
      }                                                                                        \
    }                                                                                          \
    return most;                                                                               \
  }

LOOK_AT(32, int32_t, uint32_t)
LOOK_AT(64, int64_t, uint64_t)

/* The first segment that begins at q or later. A descent at the beginning of a segment is legal:
 * its mark is cleared among the `count` coordinates from `from` on. */
#define UNMARK_STARTS(BITS, POS)                                                               \
  static int64_t first_from_##BITS(const POS *pos, int64_t segments, int64_t q) {              \
    int64_t low = 0, high = segments;                                                          \
    while (low < high) {                                                                       \
      const int64_t middle = low + (high - low) / 2;                                           \
      if (pos[middle] < q) low = middle + 1;                                                   \
      else high = middle;                                                                      \
    }                                                                                          \
    return low;                                                                                \
  }                                                                                            \
  static void unmark_##BITS(const POS *pos, int64_t segments, int64_t from, int64_t count,     \
                            uint8_t *falls) {                                                  \
    const int64_t high = first_from_##BITS(pos, segments, from + count);                       \
    for (int64_t p = first_from_##BITS(pos, segments, from); p < high; p++) {                  \
      const uint64_t n = (uint64_t)(pos[p] - from);                                            \
      if (n < (uint64_t)count) falls[n] = 0;                                                   \
    }                                                                                          \
  }

UNMARK_STARTS(32, int32_t)
UNMARK_STARTS(64, int64_t)

/* Whether b may not follow a. */
#define FALLS(a, b) ((b) < (a) || (unique && (b) == (a)))

static int64_t at(const void *pos, int32_t wide, int64_t p) {
  return wide ? ((const int64_t *)pos)[p] : ((const int32_t *)pos)[p];
}

/* Whether a segment begins at coordinate q. */
static int32_t begins(const void *pos, int32_t wide, int64_t segments, int64_t q) {
  const int64_t p = wide ? first_from_64(pos, segments, q) : first_from_32(pos, segments, q);
  return p < segments && at(pos, wide, p) == q;
}

/* The first bad coordinate; there must be one. */
#define LOCATE(NAME, CRD, WORD)                                                                \
  static __attribute__((cold)) int64_t NAME(const void *pos, int32_t wide, int64_t segments,   \
                                            const CRD *crd, int64_t count, WORD limit,         \
                                            int32_t ordered, int32_t unique) {                 \
    int64_t p = 0;                                                                             \
    for (int64_t q = 0; q < count; q++) {                                                      \
      if ((WORD)crd[q] >= limit) return q;                                                     \
      while (p < segments && at(pos, wide, p + 1) <= q) p++;                                   \
      const int32_t inner = ordered && q > 0 && at(pos, wide, p) != q;                         \
      if (inner && FALLS(crd[q - 1], crd[q])) return q;                                        \
    }                                                                                          \
    return -1;                                                                                 \
  }

LOCATE(locate_32, int32_t, uint32_t)
LOCATE(locate_64, int64_t, uint64_t)

/* All `count` coordinates are in [0, extent); sorted within each segment if `ordered`, and without
 * repeats if also `unique` (0 or 1); positions are int64 if `wide`, else int32. If a `source` is
 * given, `crd` is first filled from it, chunk by chunk.
 *
 * Descents are marked over all neighbours as if there were one segment, then the marks at the first
 * coordinate of each segment are cleared: descents inside a segment remain. This keeps the long
 * loop free of segments, which are often only a few coordinates long. Pairs across two chunks, of
 * which the first may not be filled yet, are checked at the end. */
#define CHECK_COORDINATES(BITS, CRD, WORD)                                                     \
  int64_t ow_check_coordinates_##BITS(const void *pos, int32_t wide, int64_t segments,         \
                                      CRD *crd, const CRD *source, int64_t count,              \
                                      int64_t extent, int32_t ordered, int32_t unique,         \
                                      int32_t threads) {                                       \
    const WORD most = (WORD)1 << (BITS - 1);                                                   \
    const WORD limit = (uint64_t)extent < most ? (WORD)extent : most;                          \
    int32_t bad = 0;                                                                           \
    (void)threads; /* unused without OpenMP */                                                 \
    _Pragma("omp parallel for reduction(| : bad) num_threads(threads) schedule(static)         \
             if (threads > 1 && count >= WORTH_THREADS)")                                      \
    for (int64_t from = 0; from < count; from += PIECE) {                                      \
      const int64_t size = count - from > PIECE ? PIECE : count - from;                        \
      uint8_t falls[PIECE], any = 0;                                                           \
      if (source) __builtin_memcpy(crd + from, source + from, (uint64_t)size * sizeof(CRD));   \
      if (!ordered) {                                                                          \
        bad |= largest_##BITS(crd + from, size) >= limit;                                      \
        continue;                                                                              \
      }                                                                                        \
      bad |= mark_##BITS(crd + from, size, unique, falls) >= limit;                            \
      if (wide) unmark_64(pos, segments, from, size, falls);                                   \
      else unmark_32(pos, segments, from, size, falls);                                        \
      _Pragma("omp simd reduction(| : any)")                                                   \
      for (int64_t n = 0; n < size; n++) any |= falls[n];                                      \
      bad |= any;                                                                              \
    }                                                                                          \
    if (ordered)                                                                               \
      for (int64_t q = PIECE; q < count; q += PIECE)                                           \
        bad |= FALLS(crd[q - 1], crd[q]) && !begins(pos, wide, segments, q);                   \
    return bad ? locate_##BITS(pos, wide, segments, crd, count, limit, ordered, unique) : -1;  \
  }

CHECK_COORDINATES(32, int32_t, uint32_t)
CHECK_COORDINATES(64, int64_t, uint64_t)

/* Entries are sorted lexicographically by the coordinates in `columns` within each segment, without
 * repeats. Neighbours are compared column by column, vectorized; only where one is out of order is
 * it checked whether a segment begins there. */
#define CHECK_TUPLES(BITS, CRD)                                                                \
  int64_t ow_check_tuples_##BITS(const void *pos, int32_t wide, int64_t segments,              \
                                 const CRD *const *columns, int32_t width, int64_t count,      \
                                 int32_t threads) {                                            \
    int64_t first = count;                                                                     \
    (void)threads; /* unused without OpenMP */                                                 \
    _Pragma("omp parallel for reduction(min : first) num_threads(threads) schedule(static)     \
             if (threads > 1 && count >= WORTH_THREADS)")                                      \
    for (int64_t from = 1; from < count; from += TUPLES) {                                     \
      const int64_t to = count - from > TUPLES ? from + TUPLES : count;                        \
      CRD same[TUPLES], late[TUPLES];                                                          \
      for (int64_t n = 0; n < to - from; n++) same[n] = -1, late[n] = 0;                       \
      for (int32_t c = 0; c < width; c++) {                                                    \
        const CRD *here = columns[c] + from, *before = here - 1;                               \
        _Pragma("omp simd")                                                                    \
        for (int64_t n = 0; n < to - from; n++) {                                              \
          late[n] |= same[n] & -(CRD)(here[n] < before[n]);                                    \
          same[n] &= -(CRD)(here[n] == before[n]);                                             \
        }                                                                                      \
      }                                                                                        \
      for (int64_t n = 0; n < to - from && first >= count; n++)                                \
        if ((late[n] | same[n]) && !begins(pos, wide, segments, from + n)) first = from + n;   \
    }                                                                                          \
    return first < count ? first : -1;                                                         \
  }

CHECK_TUPLES(32, int32_t)
CHECK_TUPLES(64, int64_t)

/* The watch for Ctrl-C. While it is on, SIGINT raises `ow_stop`, which kernels poll, and is then
 * forwarded to the previous handler: Python's, which raises KeyboardInterrupt itself.
 *
 * The struct of sigaction(2) differs between C libraries, and their headers may be missing. All we
 * need is common to them: the handler comes first. The rest (flags, mask) stays as Python set it,
 * so a blocking call is interrupted exactly as it would be without us. */
typedef void (*handler_t)(int, void *, void *);
typedef union {
  handler_t handler;
  unsigned char room[512];
} action_t __attribute__((aligned(16)));

extern int sigaction(int, const void *, void *);

enum { INTERRUPT = 2 };

volatile int32_t ow_stop = 0;
static action_t before;

static void on_interrupt(int number, void *info, void *context) {
  ow_stop = 1;
  before.handler(number, info, context);
}

/* Lower the flag and turn the watch on. 1 if it is on now, 0 if SIGINT has no handler: the default
 * is to end the process, and a process that ignores it does not want kernels to stop. */
int32_t ow_watch_begin(void) {
#if defined(__mips__)
  return 0; /* the one ABI whose struct begins with the flags */
#else
  action_t now;
  ow_stop = 0;
  if (sigaction(INTERRUPT, 0, &now) != 0) return 0;
  if (now.handler == on_interrupt) return 1;
  if ((__INTPTR_TYPE__)now.handler == 0 || (__INTPTR_TYPE__)now.handler == 1) return 0;
  before = now;
  now.handler = on_interrupt;
  return sigaction(INTERRUPT, &now, 0) == 0;
#endif
}

/* Turn the watch off, unless another handler has been installed meanwhile. */
void ow_watch_end(void) {
#if !defined(__mips__)
  action_t now;
  if (sigaction(INTERRUPT, 0, &now) == 0 && now.handler == on_interrupt)
    sigaction(INTERRUPT, &before, 0);
#endif
}
