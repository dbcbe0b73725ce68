"""Templates of searches in sorted index arrays of any integer type."""

from __future__ import annotations

import re

_SEARCH = """\
// The position of `key` in the sorted run [begin, end), or -1.
$static $int search_$type(const $ctype *crd, $int begin, $int end, $int key) {
  const $int stop = end;
  while (begin < end) {
    const $int middle = begin + (end - begin) / 2;
    if (crd[middle] < key) begin = middle + 1;
    else end = middle;
  }
  return begin < stop && crd[begin] == key ? begin : -1;
}
"""

_LOWER_BOUND = """\
// The first position in [begin, end) that holds `value` or more, else `end`.
$static $int lower_bound_$type(const $ctype *array, $int begin, $int end,
                           $int value) {
  while (begin < end) {
    const $int middle = begin + (end - begin) / 2;
    if (array[middle] < value) begin = middle + 1;
    else end = middle;
  }
  return begin;
}
"""

_LAST_AT_MOST = """\
// The last position in [begin, end) that holds `value` or less, else `begin`.
$static $int last_at_most_$type(const $ctype *array, $int begin, $int end,
                            $int value) {
  while (end - begin > 1) {
    const $int middle = begin + (end - begin) / 2;
    if (array[middle] <= value) begin = middle;
    else end = middle;
  }
  return begin;
}
"""

_GALLOP = """\
// The first position in [begin, end) that holds `value` or more, else `end`; near ones are
// found soonest.
$static $int gallop_$type(const $ctype *array, $int begin, $int end, $int value) {
  if (begin >= end || array[begin] >= value) return begin;
  $int step = 1;
  while (step < end - begin && array[begin + step] < value) {
    begin += step;
    step *= 2;
  }
  if (step < end - begin) end = begin + step;
  for (begin++; begin < end;) {
    const $int middle = begin + (end - begin) / 2;
    if (array[middle] < value) begin = middle + 1;
    else end = middle;
  }
  return begin;
}
"""

_BALANCED_CUT = """\
// Where part `part` of `parts` of the rows [begin, end) begins, if all have equally many entries.
$static $int balanced_cut_$type(const $ctype *pos, $int begin, $int end, $int part,
                            $int parts) {
  if (begin >= end) return begin;
  if (part >= parts) return end;
  const $int work = pos[end] - pos[begin];
  const $int rest = work % parts;
  const $int goal = pos[begin] + work / parts * part + (part < rest ? part : rest);
  while (begin < end) {
    const $int middle = begin + (end - begin) / 2;
    if (pos[middle] < goal) begin = middle + 1;
    else end = middle;
  }
  return begin;
}
"""

_CUT = """\
// Where part `part` of `parts` of [begin, end) begins, if all have equally many rows and entries.
$static $int cut_$type(const $ctype *pos, $int begin, $int end, $int part,
                         $int parts) {
  if (begin >= end) return begin;
  const $int first = pos[begin] + begin, work = pos[end] + end - first;
  const $int rest = work % parts;
  const $int goal = first + work / parts * part + (part < rest ? part : rest);
  while (begin < end) {
    const $int middle = begin + (end - begin) / 2;
    if (pos[middle] + middle < goal) begin = middle + 1;
    else end = middle;
  }
  return begin;
}
"""


def _every(template: str) -> str:
    """A search in an array whose elements lie `every` places apart."""
    named = re.sub(
        r"(\w+)_\$type\(const \$ctype \*(\w+)",
        r"\1_every_$type(const $ctype *\2, $int every",
        template,
    )
    return re.sub(r"\b(crd|array)\[([^\]]+)\]", r"\1[(\2) * every]", named)


def _masked(template: str) -> str:
    """A search in the bits of an array's elements that `mask` has."""
    named = re.sub(
        r"(\w+)_\$type\(const \$ctype \*(\w+)",
        r"\1_masked_$type(const $ctype *\2, $int mask",
        template,
    )
    return re.sub(r"\b((?:crd|array)\[[^\]]+\])", r"(\1 & mask)", named)


SEARCHES = {
    "search": _SEARCH,
    "lower_bound": _LOWER_BOUND,
    "last_at_most": _LAST_AT_MOST,
    "gallop": _GALLOP,
    "balanced_cut": _BALANCED_CUT,
    "cut": _CUT,
    "search_every": _every(_SEARCH),
    "lower_bound_every": _every(_LOWER_BOUND),
    "gallop_every": _every(_GALLOP),
    "search_masked": _masked(_SEARCH),
    "lower_bound_masked": _masked(_LOWER_BOUND),
    "gallop_masked": _masked(_GALLOP),
}
