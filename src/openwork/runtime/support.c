/* What Openwork itself needs in C: checks of arrays from outside, and the watch for Ctrl-C.
 *
 * Both checks answer -1 when all is well and else the first index at fault. They first ask only
 * whether anything is wrong, in loops without a branch that compilers turn into vector code; the
 * place is looked for afterwards, and only if there is one to find. */

typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;

/* Coordinates are checked in pieces that stay in the cache between the two looks at them. */
enum { PIECE = 1 << 14, WORTH_THREADS = 1 << 17 };

/* pos[0] == 0, pos never falls, pos[count] == last; there are count + 1 positions. */
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

/* Of the coordinates [from, to), whether any is not below `limit`, and how many fall against the
 * one before, where OP says what a fall is. A comparison without sign makes negatives too large. */
#define LOOK_AT(NAME, CRD, WORD, OP)                                                           \
  static int32_t NAME(const CRD *crd, int64_t from, int64_t to, WORD limit, int32_t *count) {  \
    WORD outside = 0, falls = 0;                                                               \
    if (from == 0) outside = (WORD)crd[from++] >= limit;                                       \
    _Pragma("omp simd reduction(| : outside) reduction(+ : falls)")                            \
    for (int64_t q = from; q < to; q++) {                                                      \
      outside |= -(WORD)((WORD)crd[q] >= limit);                                               \
      falls += crd[q] OP crd[q - 1];                                                           \
    }                                                                                          \
    *count = (int32_t)falls;                                                                   \
    return outside != 0;                                                                       \
  }

LOOK_AT(look_unique_32, int32_t, uint32_t, <=)
LOOK_AT(look_unique_64, int64_t, uint64_t, <=)
LOOK_AT(look_repeats_32, int32_t, uint32_t, <)
LOOK_AT(look_repeats_64, int64_t, uint64_t, <)

/* Whether b falls against a. The sum wraps only for an `a` that is out of range, and found bad. */
#define FALLS(WORD, a, b) ((WORD)(b) < (WORD)(a) + (WORD)unique)

/* How many falls among the coordinates [from, to) are at the first of a segment, where they may be.
 * Positions are promised to be checked; if they are not, still nothing out of bounds is read. */
#define FALLS_AT_STARTS(NAME, POS, CRD, WORD)                                                  \
  static int64_t NAME(const POS *pos, int64_t segments, const CRD *crd, int64_t from,          \
                      int64_t to, int32_t unique) {                                            \
    int64_t low = 0, high = segments, falls = 0;                                               \
    if (from == 0) from = 1;                                                                   \
    while (low < high) {                                                                       \
      const int64_t middle = low + (high - low) / 2;                                           \
      if (pos[middle] < from) low = middle + 1;                                                \
      else high = middle;                                                                      \
    }                                                                                          \
    for (int64_t p = low; p < segments && pos[p] < to; p++) {                                  \
      const int64_t q = pos[p] < from ? from : pos[p];                                         \
      falls += (pos[p + 1] > pos[p]) & FALLS(WORD, crd[q - 1], crd[q]);                        \
    }                                                                                          \
    return falls;                                                                              \
  }

FALLS_AT_STARTS(starts_32_32, int32_t, int32_t, uint32_t)
FALLS_AT_STARTS(starts_64_32, int64_t, int32_t, uint32_t)
FALLS_AT_STARTS(starts_32_64, int32_t, int64_t, uint64_t)
FALLS_AT_STARTS(starts_64_64, int64_t, int64_t, uint64_t)

static int64_t at(const void *pos, int32_t wide, int64_t p) {
  return wide ? ((const int64_t *)pos)[p] : ((const int32_t *)pos)[p];
}

/* The first bad coordinate, when it is known that there is one. */
#define LOCATE(NAME, CRD, WORD)                                                                \
  static __attribute__((cold)) int64_t NAME(const void *pos, int32_t wide, int64_t segments,   \
                                            const CRD *crd, int64_t count, WORD limit,         \
                                            int32_t ordered, int32_t unique) {                 \
    int64_t p = 0;                                                                             \
    for (int64_t q = 0; q < count; q++) {                                                      \
      if ((WORD)crd[q] >= limit) return q;                                                     \
      while (p < segments && at(pos, wide, p + 1) <= q) p++;                                   \
      const int32_t inner = ordered && q > 0 && at(pos, wide, p) != q;                         \
      if (inner && FALLS(WORD, crd[q - 1], crd[q])) return q;                                  \
    }                                                                                          \
    return -1;                                                                                 \
  }

LOCATE(locate_32, int32_t, uint32_t)
LOCATE(locate_64, int64_t, uint64_t)

/* Every one of the `count` coordinates in [0, extent); rising within each segment if `ordered`,
 * and without repeats if also `unique` (0 or 1); positions are int64 if `wide`, else int32.
 *
 * Falls are counted over all neighbours as if there were one segment, then those at the first
 * coordinate of a segment are counted off again: a fall in the wrong place leaves a difference.
 * This keeps the long loop free of segments, which are often only a few coordinates long. */
#define CHECK_COORDINATES(BITS, CRD, WORD)                                                     \
  int64_t ow_check_coordinates_##BITS(const void *pos, int32_t wide, int64_t segments,         \
                                      const CRD *crd, int64_t count, int64_t extent,           \
                                      int32_t ordered, int32_t unique, int32_t threads) {      \
    const WORD most = (WORD)1 << (BITS - 1);                                                   \
    const WORD limit = (uint64_t)extent < most ? (WORD)extent : most;                          \
    int32_t bad = 0;                                                                           \
    (void)threads; /* unused without OpenMP */                                                 \
    _Pragma("omp parallel for reduction(| : bad) num_threads(threads) schedule(static)         \
             if (threads > 1 && count >= WORTH_THREADS)")                                      \
    for (int64_t from = 0; from < count; from += PIECE) {                                      \
      const int64_t to = count - from > PIECE ? from + PIECE : count;                          \
      int32_t falls;                                                                           \
      bad |= unique ? look_unique_##BITS(crd, from, to, limit, &falls)                         \
                    : look_repeats_##BITS(crd, from, to, limit, &falls);                       \
      if (ordered && falls)                                                                    \
        bad |= falls != (wide ? starts_64_##BITS(pos, segments, crd, from, to, unique)         \
                              : starts_32_##BITS(pos, segments, crd, from, to, unique));       \
    }                                                                                          \
    return bad ? locate_##BITS(pos, wide, segments, crd, count, limit, ordered, unique) : -1;  \
  }

CHECK_COORDINATES(32, int32_t, uint32_t)
CHECK_COORDINATES(64, int64_t, uint64_t)

/* The watch for Ctrl-C. While it is on, SIGINT raises `ow_stop`, which kernels poll, and is then
 * handed to whoever handled it before: Python, which raises KeyboardInterrupt by itself.
 *
 * The record of sigaction(2) differs between C libraries, and their headers are not to be counted
 * on. All we need is common to them: the handler comes first. The rest (flags, mask) is kept as
 * Python set it, so a blocking call is interrupted exactly as it would be without us. */
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

/* Lower the flag and turn the watch on. 1 if it is on now, 0 if nobody would hear the signal: its
 * default is to end the process, and a process that ignores it does not want kernels to stop. */
int32_t ow_watch_begin(void) {
#if defined(__mips__)
  return 0; /* the one ABI whose record begins with the flags */
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

/* Turn the watch off, unless somebody has set another handler meanwhile. */
void ow_watch_end(void) {
#if !defined(__mips__)
  action_t now;
  if (sigaction(INTERRUPT, 0, &now) == 0 && now.handler == on_interrupt)
    sigaction(INTERRUPT, &before, 0);
#endif
}
