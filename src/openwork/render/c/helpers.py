"""The small C functions that generated code calls, each emitted only where it is used."""

from __future__ import annotations

from openwork.errors import InternalError
from openwork.render.c.searches import MARKS, SEARCHES
from openwork.render.c.store_helpers import STORE_HELPERS, store_text
from openwork.render.operator_helpers import OPERATOR_HELPERS, operator_text

_SEARCH = """\
// The position of `key` in the sorted run [begin, end), or -1.
static int64_t search_{type}(const {ctype} *crd, int64_t begin, int64_t end, int64_t key) {{
  const int64_t stop = end;
  while (begin < end) {{
    const int64_t middle = begin + (end - begin) / 2;
    if (crd[middle] < key) begin = middle + 1;
    else end = middle;
  }}
  return begin < stop && crd[begin] == key ? begin : -1;
}}
"""

_CUT = """\
// Where part `part` of `parts` of [begin, end) begins, if all have equally many rows and entries.
static int64_t cut_{type}(const {ctype} *pos, int64_t begin, int64_t end, int64_t part,
                         int64_t parts) {{
  if (begin >= end) return begin;
  const int64_t first = pos[begin] + begin, work = pos[end] + end - first;
  const int64_t rest = work % parts;
  const int64_t goal = first + work / parts * part + (part < rest ? part : rest);
  while (begin < end) {{
    const int64_t middle = begin + (end - begin) / 2;
    if (pos[middle] + middle < goal) begin = middle + 1;
    else end = middle;
  }}
  return begin;
}}
"""

_SHRINKING = """\
// Each part has four fifths of a thread's share of what is left, so that all threads are done at
// once: how much of the work, of 2^20, comes before part `part`.
static int64_t shrinking(int64_t part, int64_t parts, int64_t threads) {
  int64_t rest = part < parts ? 1 << 20 : 0;
  for (int64_t before = 0; before < part; before++) rest -= 4 * rest / (5 * threads);
  return (1 << 20) - rest;
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
  *status = 1;
  return array;
}
"""

_ROOM_FOR = """\
// Memory for `count` elements.
static void *room_for(int64_t count, size_t size, int32_t *status) {
  const size_t bytes = ((size_t)count + 1) * size;
  void *array = __builtin_malloc(bytes);
  if (!array) *status = 1;
  return huge(array, bytes);
}
"""

_ZEROS = """\
// Memory for `count` elements, all zero.
static void *zeros(int64_t count, size_t size, int32_t *status) {
  void *array = __builtin_calloc((size_t)count + 1, size);
  if (!array) *status = 1;
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

_FIND = """\
// The slot of `key`; a key that is not there yet gets slot `count`. -1 if memory runs out.
static int64_t find_{type}(int64_t **table, int64_t *mask, const {ctype} *keys, int64_t count,
                    {ctype} key) {{
  if (2 * count >= *mask) {{
    const int64_t size = *mask < 0 ? 64 : 4 * (*mask + 1);
    int64_t *larger = __builtin_malloc((size_t)size * sizeof(int64_t));
    if (!larger) return -1;
    for (int64_t n = 0; n < size; n++) larger[n] = -1;
    for (int64_t slot = 0; slot < count; slot++) {{
      int64_t at = (int64_t)({hash_slot} * 0x9E3779B97F4A7C15u >> 20) & (size - 1);
      while (larger[at] >= 0) at = (at + 1) & (size - 1);
      larger[at] = slot;
    }}
    __builtin_free(*table);
    *table = larger;
    *mask = size - 1;
  }}
  int64_t at = (int64_t)({hash_key} * 0x9E3779B97F4A7C15u >> 20) & *mask;
  while ((*table)[at] >= 0) {{
    if (keys[(*table)[at]] == key) return (*table)[at];
    at = (at + 1) & *mask;
  }}
  (*table)[at] = count;
  return count;
}}
"""

_CLEAR = """\
// Forget every slot of a hash table.
static void clear(int64_t *table, int64_t mask) {
  for (int64_t n = 0; n <= mask; n++) table[n] = -1;
}
"""

_SORT = """\
static void sift_{name}({key} *keys, int64_t *slots, int64_t root, int64_t count) {{
  for (;;) {{
    int64_t child = 2 * root + 1;
    if (child >= count) return;
    if (child + 1 < count && keys[child] < keys[child + 1]) child++;
    if (keys[root] >= keys[child]) return;
    {swap_root_child}
    root = child;
  }}
}}

// Sort by key: quicksort, insertion for short runs, heapsort should quicksort degenerate.
static void sort_{name}({key} *keys, int64_t *slots, int64_t count, int64_t depth) {{
  while (count > 24) {{
    if (depth-- == 0) {{
      for (int64_t root = count / 2; root-- > 0;) sift_{name}(keys, slots, root, count);
      for (int64_t last = count; last-- > 1;) {{
        {swap_0_last}
        sift_{name}(keys, slots, 0, last);
      }}
      return;
    }}
    const {key} a = keys[0], b = keys[count / 2], c = keys[count - 1];
    const {key} pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
    int64_t left = -1, right = count;
    for (;;) {{
      do left++; while (keys[left] < pivot);
      do right--; while (keys[right] > pivot);
      if (left >= right) break;
      {swap_left_right}
    }}
    sort_{name}(keys, slots, right + 1, depth);
    keys += right + 1;
    slots += right + 1;
    count -= right + 1;
  }}
  for (int64_t n = 1; n < count; n++) {{
    const {key} key = keys[n];
    const int64_t slot = slots[n];
    int64_t at = n;
    for (; at > 0 && keys[at - 1] > key; at--) {{
      keys[at] = keys[at - 1];
      slots[at] = slots[at - 1];
    }}
    keys[at] = key;
    slots[at] = slot;
  }}
}}
"""

_SORT_PAIRS = """\
// Keys in order, each with its slot.
static void sort_pairs_{type}({ctype} *keys, int64_t *slots, int64_t count) {{
  int64_t depth = 2;
  for (int64_t n = count; n > 0; n /= 2) depth += 2;
  sort_both_{type}(keys, slots, count, depth);
}}
"""


def _folded(key: str, type: str) -> str:
    """64 bits of a key to hash."""
    return f"(uint64_t)({key} ^ {key} >> 64)" if type == "int128" else f"(uint64_t){key}"


def _sort_text(name: str, key: str) -> str:
    def swap(a: str, b: str) -> str:
        return " ".join(
            f"{{ const {type} t = {x}[{a}]; {x}[{a}] = {x}[{b}]; {x}[{b}] = t; }}"
            for x, type in (("keys", key), ("slots", "int64_t"))
        )

    return _SORT.format(
        name=name,
        key=key,
        swap_root_child=swap("root", "child"),
        swap_0_last=swap("0", "last"),
        swap_left_right=swap("left", "right"),
    )


def helper_text(name: str, type: str, ctype: str) -> str:
    """The C text of helper `name` for arrays or values of an element type."""
    if name in SEARCHES:
        return SEARCHES[name].format(type=type, ctype=ctype)
    if name in MARKS:
        return MARKS[name]
    if name in STORE_HELPERS:
        return store_text(name, type)
    if name in OPERATOR_HELPERS:
        return operator_text(name, type, ctype)
    match name:
        case "search":
            return _SEARCH.format(type=type, ctype=ctype)
        case "cut":
            return _CUT.format(type=type, ctype=ctype)
        case "cut_even":
            return _EVEN
        case "shrinking":
            return _SHRINKING
        case "find":
            return _FIND.format(
                type=type,
                ctype=ctype,
                hash_slot=_folded("keys[slot]", type),
                hash_key=_folded("key", type),
            )
        case "huge":
            return _HUGE
        case "resize":
            return _RESIZE
        case "room_for":
            return _ROOM_FOR
        case "zeros":
            return _ZEROS
        case "larger":
            return _LARGER
        case "clear":
            return _CLEAR
        case "in_turn":
            return _IN_TURN
        case "sort_pairs":
            sort = _sort_text(f"both_{type}", ctype)
            return sort + "\n" + _SORT_PAIRS.format(type=type, ctype=ctype)
    raise InternalError(f"no helper {name}")
