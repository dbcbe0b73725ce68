"""Helpers that C and CUDA both call, as templates; each is emitted only where it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.render.dialect import Dialect
from openwork.render.key_lists import NOTE, order_text
from openwork.render.operator_helpers import OPERATOR_HELPERS, operator_text
from openwork.render.searches import SEARCHES

_FIND = """\
// The slot of `key`; a key that is not there yet gets slot `count`. -1 if memory runs out.
$static $int find_$type($int **table, $int *mask, const $ctype *keys, $int count,
                    $ctype key) {
  if (2 * count >= *mask) {
    const $int size = *mask < 0 ? 64 : 4 * (*mask + 1);
    $int *larger = $malloc((size_t)size * sizeof($int));
    if (!larger) return -1;
    for ($int n = 0; n < size; n++) larger[n] = -1;
    for ($int slot = 0; slot < count; slot++) {
      $int at = ($int)($hash_slot * 0x9E3779B97F4A7C15u >> 20) & (size - 1);
      while (larger[at] >= 0) at = (at + 1) & (size - 1);
      larger[at] = slot;
    }
    $free(*table);
    *table = larger;
    *mask = size - 1;
  }
  $int at = ($int)($hash_key * 0x9E3779B97F4A7C15u >> 20) & *mask;
  while ((*table)[at] >= 0) {
    if (keys[(*table)[at]] == key) return (*table)[at];
    at = (at + 1) & *mask;
  }
  (*table)[at] = count;
  return count;
}
"""

_CLEAR = """\
// Forget every slot of a hash table.
$static void clear($int *table, $int mask) {
  for ($int n = 0; n <= mask; n++) table[n] = -1;
}
"""

_SORT = """\
$static void sift_both_$type($ctype *keys, $int *slots, $int root, $int count) {
  for (;;) {
    $int child = 2 * root + 1;
    if (child >= count) return;
    if (child + 1 < count && keys[child] < keys[child + 1]) child++;
    if (keys[root] >= keys[child]) return;
    $swap_root_child
    root = child;
  }
}

// Sort by key: quicksort, insertion for short runs, heapsort should quicksort degenerate.
$static void sort_both_$type($ctype *keys, $int *slots, $int count, $int depth) {
  while (count > 24) {
    if (depth-- == 0) {
      for ($int root = count / 2; root-- > 0;) sift_both_$type(keys, slots, root, count);
      for ($int last = count; last-- > 1;) {
        $swap_0_last
        sift_both_$type(keys, slots, 0, last);
      }
      return;
    }
    const $ctype a = keys[0], b = keys[count / 2], c = keys[count - 1];
    const $ctype pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
    $int left = -1, right = count;
    for (;;) {
      do left++; while (keys[left] < pivot);
      do right--; while (keys[right] > pivot);
      if (left >= right) break;
      $swap_left_right
    }
    sort_both_$type(keys, slots, right + 1, depth);
    keys += right + 1;
    slots += right + 1;
    count -= right + 1;
  }
  for ($int n = 1; n < count; n++) {
    const $ctype key = keys[n];
    const $int slot = slots[n];
    $int at = n;
    for (; at > 0 && keys[at - 1] > key; at--) {
      keys[at] = keys[at - 1];
      slots[at] = slots[at - 1];
    }
    keys[at] = key;
    slots[at] = slot;
  }
}
"""

_SORT_PAIRS = """\
// Keys in order, each with its slot.
$static void sort_pairs_$type($ctype *keys, $int *slots, $int count) {
  $int depth = 2;
  for ($int n = count; n > 0; n /= 2) depth += 2;
  sort_both_$type(keys, slots, count, depth);
}
"""

_CHOICE = """\
$inline $int $name($int a, $int b) {
  return a $sign b ? a : b;
}
"""


@frozen
class Library:
    """The helpers of a back end.

    `text` returns a helper by name and element type. `needs`: the helpers that a helper calls
    itself.
    """

    text: Callable[[str, str], str]
    needs: Mapping[str, str]


def helper_text(name: str, type: str, d: Dialect) -> str:
    """A helper that all dialects have, for arrays or values of an element type."""
    if name in SEARCHES:
        return d.fill(SEARCHES[name], type)
    if name in OPERATOR_HELPERS:
        return operator_text(name, type, d)
    match name:
        case "note":
            return d.fill(NOTE, type)
        case "order_keys":
            return order_text(type, d)
        case "find":
            slot, key = _folded("keys[slot]", type), _folded("key", type)
            return d.fill(_FIND, type, hash_slot=slot, hash_key=key)
        case "clear":
            return d.fill(_CLEAR)
        case "lesser" | "greater":
            return d.fill(_CHOICE, name=name, sign="<" if name == "lesser" else ">")
        case "sort_pairs":
            return _sort_text(type, d)
    raise InternalError(f"no helper {name}")


def _folded(key: str, type: str) -> str:
    """A key folded to 64 bits, to hash."""
    return f"(uint64_t)({key} ^ {key} >> 64)" if type == "int128" else f"(uint64_t){key}"


def _sort_text(type: str, d: Dialect) -> str:
    def swap(a: str, b: str) -> str:
        return " ".join(
            f"{{ const {ctype} t = {x}[{a}]; {x}[{a}] = {x}[{b}]; {x}[{b}] = t; }}"
            for x, ctype in (("keys", d.types[type]), ("slots", d.index))
        )

    return d.fill(
        f"{_SORT}\n{_SORT_PAIRS}",
        type,
        swap_root_child=swap("root", "child"),
        swap_0_last=swap("0", "last"),
        swap_left_right=swap("left", "right"),
    )
