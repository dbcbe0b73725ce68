"""Maps of the keys that a workspace holds, in C: a bit for each, and two summaries above them.

A bit of the first summary says that a word of the map has any, one of the second that a word of the
first has; so that keys are listed in order in the time that their number takes, not that of the
extent. All lie in one array, the second summary first.
"""

from __future__ import annotations

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
