"""The helpers of C: the shared ones, and its own for loop partitions, memory and prefetches."""

from __future__ import annotations

from openwork.program.contract import NO_MEMORY
from openwork.render.c.dialect import C
from openwork.render.c.function_helpers import FUNCTION_HELPERS, FUNCTIONS_NEED, function_text
from openwork.render.c.store_helpers import STORE_HELPERS, store_text
from openwork.render.c.vector_helpers import VECTOR_HELPERS, vector_text
from openwork.render.helpers import Library, helper_text
from openwork.render.key_lists import order_text

_NEXT_SHARE = """\
// How many of a thread's shares are taken; in cache lines of its own.
typedef struct {
  int64_t count;
} __attribute__((aligned(128))) taken_shares;

// The next share for thread `part`: of its own, then of each other thread's; -1: none is left.
static inline int64_t next_share(taken_shares *taken, int64_t threads, int64_t shares, int64_t part,
                                 int64_t *turn) {
  const int64_t each = shares / threads;
  for (; *turn < threads; ++*turn) {
    const int64_t owner = part + *turn < threads ? part + *turn : part + *turn - threads;
    if (__atomic_load_n(&taken[owner].count, __ATOMIC_RELAXED) >= each) continue;
    const int64_t n = __atomic_fetch_add(&taken[owner].count, 1, __ATOMIC_RELAXED);
    if (n < each) return owner * each + n;
  }
  return -1;
}
"""

_EVEN = """\
// Where part `part` of `parts` of a loop over [begin, end) begins.
static int64_t cut_even(int64_t begin, int64_t end, int64_t part, int64_t parts) {
  const int64_t count = end > begin ? end - begin : 0;
  const int64_t rest = count % parts;
  return begin + count / parts * part + (part < rest ? part : rest);
}
"""

_HUGE = """\
#ifdef __linux__
int madvise(void *, size_t, int);
#endif

// Large arrays on huge pages: far fewer page faults, and twice the rate of random access.
static void *huge(void *array, size_t bytes) {
#ifdef __linux__
  if (array && bytes >= 4194304) {
    const size_t start = ((size_t)array + 4095) & ~(size_t)4095;
    madvise((void *)start, (size_t)array + bytes - start, 14);
  }
#endif
  return array;
}

"""

_RESIZE = """\
// `array` with room for `count` elements; if memory runs out it stays, and the status says so.
static void *resize(void *array, int64_t count, size_t size, int32_t *status) {
  const size_t bytes = ((size_t)count + 1) * size;
  void *larger = __builtin_realloc(array, bytes);
  if (larger) return huge(larger, bytes);
  *status = $no_memory;
  return array;
}
"""

_ROOM_FOR = """\
// Memory for `count` elements.
static void *room_for(int64_t count, size_t size, int32_t *status) {
  const size_t bytes = ((size_t)count + 1) * size;
  void *array = __builtin_malloc(bytes);
  if (!array) *status = $no_memory;
  return huge(array, bytes);
}
"""

_ZEROS = """\
// Memory for `count` elements, all zero.
static void *zeros(int64_t count, size_t size, int32_t *status) {
  void *array = __builtin_calloc((size_t)count + 1, size);
  if (!array) *status = $no_memory;
  return huge(array, ((size_t)count + 1) * size);
}
"""

_LARGER = """\
// The next capacity: enough, and at least twice as much as before.
static int64_t larger(int64_t capacity, int64_t needed) {
  return needed > 2 * capacity ? needed : 2 * capacity;
}
"""

_IN_TURN = """\
// Whether all pieces before `piece`, which has just been counted, are; if so, it begins where each
// of `firsts` says, and those that waited for it have their turn. It may be a moment before.
static int64_t in_turn(int64_t *turns, int64_t piece, int64_t levels, int64_t *const *firsts) {
  for (int64_t n = 0; n < 256 && !__atomic_load_n(&turns[piece], __ATOMIC_RELAXED); n++) continue;
  int64_t at = piece, bit = 2;
  while (__atomic_or_fetch(&turns[at], bit, __ATOMIC_ACQ_REL) == 3) {
    for (int64_t n = 0; n < levels; n++) firsts[n][at + 1] += firsts[n][at];
    at++;
    bit = 1;
  }
  return at > piece;
}
"""

_CHECKED_POWER = """\
// Integer power, of which negative ones are none: the flag tells.
static $ctype checked_pow_$type($ctype base, $ctype exponent, int32_t *negative) {
  if (exponent < 0) __atomic_store_n(negative, 1, __ATOMIC_RELAXED);
  return exponent < 0 ? 0 : pow_$type(base, exponent);
}
"""

_ASK_FOR_LINES = """\
// Bring some lines of 64 bytes closer; asking for what is not there does no harm.
static inline void ask_for_lines(const void *at, int32_t lines) {
#ifdef __aarch64__
  // Some cores ignore a prefetch whose address is a sum of two registers.
  __asm__("" : "+r"(at));
#endif
#pragma GCC unroll 16
  for (int32_t n = 0; n < lines; n++)
    __builtin_prefetch((const void *)((__UINTPTR_TYPE__)at + 64 * (__UINTPTR_TYPE__)n));
}
"""

_WRITE_SOON = """\
// Get some lines of 64 bytes that will be written soon.
static inline void write_soon(void *at, int32_t lines) {
#ifdef __aarch64__
  // Some cores ignore a prefetch whose address is a sum of two registers.
  __asm__("" : "+r"(at));
#endif
#pragma GCC unroll 4
  for (int32_t n = 0; n < lines; n++)
    __builtin_prefetch((void *)((__UINTPTR_TYPE__)at + 64 * (__UINTPTR_TYPE__)n), 1);
}
"""

_ASK_FOR = """\
// Bring memory closer that will be needed soon.
static inline void ask_for(const void *at) {
#ifdef __aarch64__
  // Some cores ignore a prefetch whose address is a sum of two registers.
  __asm__("" : "+r"(at));
#endif
  __builtin_prefetch(at);
}
"""

_GATHER_SOON = """\
// Bring memory closer that a gather will need soon, where the processor does not see it coming.
static inline void gather_soon(const void *at) {
#ifndef __AVX512F__
  ask_for(at);
#endif
}
"""

# How many keys are few, and how many words of a bitmap they may span: reading a word with few bits
# costs as much as ranking eight keys.
_LIMIT = """\
#if defined __AVX512F__
  const int64_t few = 384 / sizeof *keys;
#elif defined __AVX2__
  const int64_t few = 256 / sizeof *keys;
#else
  const int64_t few = 96 / sizeof *keys;
#endif
"""
_DENSE = "(count > few ? count : count / 8)"

# Each key's place is the number of smaller ones: vectors compare all pairs, without a branch.
_FEW_KEYS = """\
  if (count <= few) {
    $ctype *ranked = keys + count;
    for (int64_t begin = 0; begin < count; begin += 32) {
      $ctype smaller[32] = {0};
      for (int64_t n = 0; n < count; n++) {
        const $ctype key = keys[n];
        for (int64_t lane = 0; lane < 32; lane++) smaller[lane] += key < keys[begin + lane];
      }
      for (int64_t lane = 0; lane < 32 && begin + lane < count; lane++)
        ranked[smaller[lane]] = keys[begin + lane];
    }
    for (int64_t n = 0; n < count; n++) keys[n] = ranked[n];
    return;
  }
"""

_PLAIN = {
    "cut_even": _EVEN,
    "next_share": _NEXT_SHARE,
    "huge": _HUGE,
    "resize": _RESIZE,
    "room_for": _ROOM_FOR,
    "zeros": _ZEROS,
    "larger": _LARGER,
    "in_turn": _IN_TURN,
    "ask_for": _ASK_FOR,
    "ask_for_lines": _ASK_FOR_LINES,
    "gather_soon": _GATHER_SOON,
    "write_soon": _WRITE_SOON,
}


def _text(name: str, type: str) -> str:
    """The C text of a helper for arrays or values of an element type."""
    if name in _PLAIN:
        return C.fill(_PLAIN[name], no_memory=str(NO_MEMORY))
    if name == "order_keys":
        widest = "count < 512 ? 8 : 11"
        return order_text(type, C, _FEW_KEYS, _LIMIT, _DENSE, widest, bits=11)
    if name == "checked_pow":
        return C.fill(_CHECKED_POWER, type)
    if name in STORE_HELPERS:
        return store_text(name, type)
    if name in VECTOR_HELPERS:
        return vector_text(name, type)
    if name in FUNCTION_HELPERS:
        return function_text(name, type)
    return helper_text(name, type, C)


LIBRARY = Library(
    _text,
    needs={
        **{"resize": "huge", "room_for": "huge", "zeros": "huge", "gather_soon": "ask_for"},
        **FUNCTIONS_NEED,
    },
)
