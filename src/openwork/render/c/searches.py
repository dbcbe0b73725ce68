"""Searches in sorted index arrays, as C functions; arrays may have any integer type."""

from __future__ import annotations

_LOWER_BOUND = """\
// The first position in [begin, end) that holds `value` or more, else `end`.
static int64_t lower_bound_{type}(const {ctype} *array, int64_t begin, int64_t end,
                           int64_t value) {{
  while (begin < end) {{
    const int64_t middle = begin + (end - begin) / 2;
    if (array[middle] < value) begin = middle + 1;
    else end = middle;
  }}
  return begin;
}}
"""

_LAST_AT_MOST = """\
// The last position in [begin, end) that holds `value` or less, else `begin`.
static int64_t last_at_most_{type}(const {ctype} *array, int64_t begin, int64_t end,
                            int64_t value) {{
  while (end - begin > 1) {{
    const int64_t middle = begin + (end - begin) / 2;
    if (array[middle] <= value) begin = middle;
    else end = middle;
  }}
  return begin;
}}
"""

_GALLOP = """\
// The first position in [begin, end) that holds `value` or more, else `end`; near ones are
// found soonest.
static int64_t gallop_{type}(const {ctype} *array, int64_t begin, int64_t end, int64_t value) {{
  if (begin >= end || array[begin] >= value) return begin;
  int64_t step = 1;
  while (step < end - begin && array[begin + step] < value) {{
    begin += step;
    step *= 2;
  }}
  if (step < end - begin) end = begin + step;
  for (begin++; begin < end;) {{
    const int64_t middle = begin + (end - begin) / 2;
    if (array[middle] < value) begin = middle + 1;
    else end = middle;
  }}
  return begin;
}}
"""

_BALANCED_CUT = """\
// Where part `part` of `parts` of the rows [begin, end) begins, if all have equally many entries.
static int64_t balanced_cut_{type}(const {ctype} *pos, int64_t begin, int64_t end, int64_t part,
                            int64_t parts) {{
  if (begin >= end) return begin;
  if (part >= parts) return end;
  const int64_t work = pos[end] - pos[begin];
  const int64_t rest = work % parts;
  const int64_t goal = pos[begin] + work / parts * part + (part < rest ? part : rest);
  while (begin < end) {{
    const int64_t middle = begin + (end - begin) / 2;
    if (pos[middle] < goal) begin = middle + 1;
    else end = middle;
  }}
  return begin;
}}
"""

SEARCHES = {
    "lower_bound": _LOWER_BOUND,
    "last_at_most": _LAST_AT_MOST,
    "gallop": _GALLOP,
    "balanced_cut": _BALANCED_CUT,
}


_WORDS = """\
// How many words a map of `size` keys takes, with its summaries.
static int64_t mark_words(int64_t size) {
  const int64_t words = (size + 63) >> 6, first = (words + 63) >> 6;
  return words + first + ((first + 63) >> 6);
}
"""

_MARK = """\
// Note that `key` is there.
static inline void mark(uint64_t *marks, int64_t size, int64_t key) {
  const int64_t words = (size + 63) >> 6, first = (words + 63) >> 6, second = (first + 63) >> 6;
  uint64_t *word = &marks[second + first + (key >> 6)];
  const uint64_t known = *word;
  *word = known | (uint64_t)1 << (key & 63);
  if (known) return;
  marks[second + (key >> 12)] |= (uint64_t)1 << (key >> 6 & 63);
  marks[key >> 18] |= (uint64_t)1 << (key >> 12 & 63);
}
"""

_LIST = """\
// The keys that are there in order, and how many; then none is.
static int64_t list_keys(uint64_t *marks, int64_t size, int64_t *keys) {
  const int64_t words = (size + 63) >> 6, first = (words + 63) >> 6, second = (first + 63) >> 6;
  uint64_t *lower = marks + second, *map = lower + first;
  int64_t count = 0;
  for (int64_t n = 0; n < second; n++) {
    for (uint64_t a = marks[n]; a; a &= a - 1) {
      const int64_t at = n << 6 | __builtin_ctzll(a);
      for (uint64_t b = lower[at]; b; b &= b - 1) {
        const int64_t word = at << 6 | __builtin_ctzll(b);
        for (uint64_t c = map[word]; c; c &= c - 1) keys[count++] = word << 6 | __builtin_ctzll(c);
        map[word] = 0;
      }
      lower[at] = 0;
    }
    marks[n] = 0;
  }
  return count;
}
"""

MARKS = {"mark_words": _WORDS, "mark": _MARK, "list_keys": _LIST}
