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
