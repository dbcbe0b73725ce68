"""Templates of helpers for workspaces that list their keys: noting a key, and sorting the list."""

from __future__ import annotations

from openwork.render.dialect import Dialect
from openwork.render.precedence import ATOM

NOTE = """\
// List `key`, if it is not listed yet; how many keys are then.
$inline $int note_$type(uint8_t *listed, $ctype *keys, $int count, $int key) {
  const $int more = count + 1 - listed[key];
  keys[count] = ($ctype)key;
  listed[key] = 1;
  return more;
}
"""

# Wide gaps between the keys leave room behind them for as many again.
_ORDER = """\
// Sort distinct keys. `marks` is a bitmap of all keys that are possible, and empty.
$static void order_keys_$type($ctype *keys, $int count, uint64_t *marks) {
  $ctype least = count ? keys[0] : 0, most = least;
  $int falls = 0;
  for ($int n = 1; n < count; n++) {
    least = keys[n] < least ? keys[n] : least;
    most = keys[n] > most ? keys[n] : most;
    falls += keys[n - 1] > keys[n];
  }
  if (!falls) return;
$limit  if ((most >> 6) - (least >> 6) <= $dense) {
    // Dense: by the bits of the words between them, in each of which one or two keys are usual.
    for ($int n = 0; n < count; n++) marks[keys[n] >> 6] |= (uint64_t)1 << (keys[n] & 63);
    $int before = 0;
    for ($ctype word = least >> 6; word <= most >> 6; word++) {
      uint64_t bits = marks[word];
      marks[word] = 0;
      $int at = before;
      before += $number_of_bits;
      for ($int n = 0; n < 2; n++) {
        const uint64_t some = bits | (uint64_t)1 << 63;
        keys[at++] = word << 6 | ($ctype)$lowest_some;
        bits &= bits - 1;
      }
      for (; bits; bits &= bits - 1) keys[at++] = word << 6 | ($ctype)$lowest_bits;
    }
    return;
  }
  if (count <= 8) {
    for ($int n = 1; n < count; n++) {
      const $ctype key = keys[n];
      $int at = n;
      for (; at > 0 && keys[at - 1] > key; at--) keys[at] = keys[at - 1];
      keys[at] = key;
    }
    return;
  }
$few  // Sparse: by a few of their bits at a time, into the memory behind them and back.
  $int width = 1;
  while ((uint64_t)(most - least) >> width) width++;
  const $int widest = $widest;
  const $int passes = (width + widest - 1) / widest, digit = (width + passes - 1) / passes;
  const $int digits = ($int)1 << digit;
  $ctype *from = keys, *to = keys + count;
  for ($int pass = 0; pass < passes; pass++) {
    uint32_t first[$digits];
    for ($int n = 0; n < digits; n++) first[n] = 0;
    for ($int n = 0; n < count; n++) first[(from[n] - least) >> pass * digit & (digits - 1)]++;
    uint32_t sum = 0;
    for ($int n = 0; n < digits; n++) {
      const uint32_t each = first[n];
      first[n] = sum;
      sum += each;
    }
    for ($int n = 0; n < count; n++)
      to[first[(from[n] - least) >> pass * digit & (digits - 1)]++] = from[n];
    $ctype *other = from;
    from = to;
    to = other;
  }
  if (from == keys) return;
  for ($int n = 0; n < count; n++) keys[n] = from[n];
}
"""


def order_text(
    type: str,
    d: Dialect,
    few: str = "",
    limit: str = "",
    dense: str = "count",
    widest: str = "4",
    bits: int = 4,
) -> str:
    """The helper that sorts keys of an element type.

    `few`: how it sorts some tens of keys that are far apart, if there is a better way than by
    digits; `limit` says how many are few. `dense`: the most words of a bitmap that keys may span to
    be sorted in it. `widest`: how many bits of a key make a digit, at most; that is at most `bits`.
    """
    lowest = {f"lowest_{n}": d.lowest_bit.of((n, ATOM))[0] for n in ("some", "bits")}
    number = d.number_of_bits.of(("bits", ATOM))[0]
    sizes = {"widest": widest, "digits": str(1 << bits), "limit": limit, "dense": dense}
    return d.fill(_ORDER, type, **lowest, **sizes, number_of_bits=number, few=d.fill(few, type))
