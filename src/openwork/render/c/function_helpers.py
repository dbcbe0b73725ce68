"""Elementary functions that compilers vectorize: formulas without a branch, a table or a call.

C's mathematical library works on one number at a time, and its vectors (libmvec) err by up to 3.4
units in the last place. These err by less than one: a sum that decides the result keeps its
rounding error and adds it at the end. Each takes the same steps in a vector and on its own, so that
a number has one result wherever it stands: what may be fused is fused explicitly, and no product is
left for the compiler to fuse with a sum, unless it is exact. Where the processor does not fuse, the
library is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from openwork.errors import InternalError
from openwork.render.c.dialect import C

# exp(x) = 2^n (1 + rest + tail): n is whole, the rest within log(2) / 2.
_PARTS = """\
// exp(x) = 2^whole (1 + rest + tail), where the last bits of `shifted` are the whole number.
static inline void ${name}_$type($ctype x, $ctype *shifted, $ctype *rest, $ctype *tail) {
  *shifted = __builtin_fma$suffix(x, $log2_e, $shift);
  const $ctype whole = *shifted - $shift;
  const $ctype high = __builtin_fma$suffix(-whole, $ln2_high, x);
  const $ctype r = __builtin_fma$suffix(-whole, $ln2_low, high);
  const $ctype lost = __builtin_fma$suffix(-whole, $ln2_low, high - r);
  $ctype sum = $exp_first;
$exp_steps
  *rest = r;
  *tail = __builtin_fma$suffix(r * r, sum, $lost);
}
"""

_EXP = """\
// exp, where processors fuse; within 0.6 units in the last place.
static inline $ctype exp_$type($ctype x) {
#if $fuses
  x = x > $exp_most ? $exp_most : x;
  x = x < $exp_least ? $exp_least : x;
  $ctype shifted, rest, tail;
  exp_parts_$type(x, &shifted, &rest, &tail);
  const $ctype one = 1 + rest;
  const $ctype result = one + (rest - (one - 1) + tail);
  // The power in two halves: each is a normal number where the whole is not.
  union { $ctype number; $bits bits; } a, b;
  a.number = shifted;
  a.bits += 2 * $bias;
  b.bits = (a.bits - (a.bits >> 1)) << $mantissa;
  a.bits = (a.bits >> 1) << $mantissa;
  return result * a.number * b.number;
#else
  return __builtin_exp$suffix(x);
#endif
}
"""

_EXPM1 = """\
// exp(x) - 1, where processors fuse; within 0.8 units in the last place.
static inline $ctype expm1_$type($ctype x) {
#if $fuses
  $ctype y = x > $exp_most ? $exp_most : x;
  y = y < -40 ? -40 : y;
  $ctype shifted, rest, tail;
  expm1_parts_$type(y, &shifted, &rest, &tail);
  union { $ctype number; $bits bits; } power;  // half of 2^n
  power.number = shifted;
  power.bits = (power.bits + $bias - 1) << $mantissa;
  const $ctype half = power.number, scaled = half * rest;
  const $ctype less = half - ($ctype)0.5, sum = less + scaled;
  const $ctype low = less - sum + scaled + (half - less - ($ctype)0.5);
  const $ctype result = 2 * (sum + __builtin_fma$suffix(half, tail, low));
  const $ctype size = __builtin_fabs$suffix(x);
  return size < $tiny ? x : result;
#else
  return __builtin_expm1$suffix(x);
#endif
}
"""

_TANH = """\
// The quotient of exp(2x) - 1 and exp(2x) + 1, where processors fuse; within 0.9 units.
static inline $ctype tanh_$type($ctype x) {
#if $fuses
  const $ctype size = __builtin_fabs$suffix(x);
  const $ctype twice = size > 22 ? 44 : 2 * size;
  $ctype shifted, rest, tail;
  exp_parts_$type(twice, &shifted, &rest, &tail);
  union { $ctype number; $bits bits; } power;  // half of 2^n
  power.number = shifted;
  power.bits = (power.bits + $bias - 1) << $mantissa;
  const $ctype half = power.number, scaled = half * rest;
  const $ctype less = half - ($ctype)0.5, more = half + ($ctype)0.5;
  const $ctype above = less + scaled, below = more + scaled;
  const $ctype above_low = less - above + scaled + (half - less - ($ctype)0.5);
  const $ctype below_low = more - below + scaled + (half - more + ($ctype)0.5);
  const $ctype above_tail = __builtin_fma$suffix(half, tail, above_low);
  const $ctype below_tail = __builtin_fma$suffix(half, tail, below_low);
  const $ctype a = above + above_tail, a_low = above_tail - (a - above);
  const $ctype b = below + below_tail, b_low = below_tail - (b - below);
  const $ctype inverse = 1 / b, q = a * inverse;
  const $ctype left = __builtin_fma$suffix(-q, b, a) + __builtin_fma$suffix(-q, b_low, a_low);
  const $ctype result = __builtin_fma$suffix(left, inverse, q);
  return __builtin_copysign$suffix(size < $small ? size : result, x);
#else
  return __builtin_tanh$suffix(x);
#endif
}
"""

_LOG = """\
// log, where processors fuse; within 0.6 units in the last place.
static inline $ctype log_$type($ctype x) {
#if $fuses
  // x = 2^n (1 + f), with 1 + f between the roots of 1/2 and 2.
  const $ctype normal = x < $least ? x * $raise : x;
  union { $ctype number; $bits bits; } a, power;
  a.number = normal;
  a.bits += $one - $root_half;
  power.bits = (a.bits >> $mantissa) | $counter;
  const $ctype n = power.number - (x < $least ? $counted + $raised : $counted);
  a.bits = (a.bits & $fraction) + $root_half;
  const $ctype f = a.number - 1, s = f / (2 + f), z = s * s, half = ($ctype)0.5 * f;
  $ctype series = $log_first;
$log_steps
  const $ctype square = __builtin_fma$suffix(half, f, 0);
  const $ctype square_low = __builtin_fma$suffix(half, f, -square);
  const $ctype high = n * $ln2_high, sum = high + f, sum_low = high - sum + f;
  const $ctype head = sum - square, head_low = sum - head - square;
  const $ctype low = __builtin_fma$suffix(n, $ln2_low, sum_low + (head_low - square_low));
  const $ctype both = __builtin_fma$suffix(z, series, square);
  const $ctype result = head + __builtin_fma$suffix(s, both, low);
  const $ctype other = x == 0 ? -$infinity : x < 0 ? $nan : x;
  return x > 0 && x < $infinity ? result : other;
#else
  return __builtin_log$suffix(x);
#endif
}
"""

_SHARED = {
    "float64": {
        "bits": "uint64_t", "suffix": "", "mantissa": "52", "bias": "1023",
        "shift": "0x1.8p52", "log2_e": "0x1.71547652b82fep0",
        "ln2_high": "0x1.62e42feep-1", "ln2_low": "0x1.a39ef35793c76p-33",
        "exp_most": "710.0", "exp_least": "-746.0", "tiny": "0x1p-54", "small": "0x1p-28",
        "least": "0x1p-1022", "raise": "0x1p54", "raised": "54", "one": "0x3ff0000000000000u",
        "root_half": "0x3fe6a09e00000000u", "fraction": "0x000fffffffffffffu",
        "counter": "0x4330000000000000u", "counted": "(0x1p52 + 1023)",
    },
    "float32": {
        "bits": "uint32_t", "suffix": "f", "mantissa": "23", "bias": "127",
        "shift": "0x1.8p23f", "log2_e": "0x1.715476p0f",
        "ln2_high": "0x1.62ep-1f", "ln2_low": "0x1.0bfbe8p-15f",
        "exp_most": "89.0f", "exp_least": "-105.0f", "tiny": "0x1p-25f", "small": "0x1p-14f",
        "least": "0x1p-126f", "raise": "0x1p25f", "raised": "25", "one": "0x3f800000u",
        "root_half": "0x3f3504f3u", "fraction": "0x007fffffu",
        "counter": "0x4b000000u", "counted": "(0x1p23f + 127)",
    },
}  # fmt: skip
# Near the best polynomials of (exp(r) - 1 - r) / r^2, and of what log(1 + f) has beyond 2 s, by
# s = f / (2 + f), over s^3: the highest power first.
_EXP_SERIES = {
    "float64": (
        2.0914753544959482021e-9, 2.5105310235689788099e-8, 2.7557273483005248634e-7,
        2.7557255176003714047e-6, 0.000024801587325674076349, 0.00019841269874997537857,
        0.0013888888888883712137, 0.0083333333333260844787, 0.041666666666666669782,
        0.16666666666666671029, 0.5,
    ),
    "float32": (
        0.000198910781286, 0.00139337286128, 0.00833331084676, 0.0416664642164, 0.166666666817, 0.5,
    ),
}  # fmt: skip
_LOG_SERIES = {
    "float64": (
        0.14621753178020775689, 0.1533129169309297877, 0.18182902084008460519,
        0.2222221095658658548, 0.28571428627069315637, 0.39999999999897088262,
        0.66666666666666697708,
    ),
    "float32": (0.233349491394, 0.285506557837, 0.400001232973, 0.666666665527),
}  # fmt: skip
_FUSES = "defined __FMA__ || defined __aarch64__"
_TEXTS = {"exp": _EXP, "expm1": _EXPM1, "tanh": _TANH, "log": _LOG}

# What the parts of exp have lost: the rounding error of the rest, and that of its square.
_LOST = {
    "exp_parts": "lost",
    "expm1_parts": "__builtin_fma$suffix($half, __builtin_fma$suffix(r, r, -(r * r)), lost)",
}

FUNCTION_HELPERS = frozenset((*_TEXTS, *_LOST))
# What a function calls itself.
FUNCTIONS_NEED: Mapping[str, str] = {
    "exp": "exp_parts",
    "expm1": "expm1_parts",
    "tanh": "exp_parts",
}


def function_text(name: str, type: str) -> str:
    """The text of a function of an element type."""
    if type not in _SHARED:
        raise InternalError(f"no formula of {name} for {type}")
    words = dict(_SHARED[type])
    for which, series in (("exp", _EXP_SERIES[type]), ("log", _LOG_SERIES[type])):
        by, sum = ("r", "sum") if which == "exp" else ("z", "series")
        first, *steps = (f"{each!r}{words['suffix']}" for each in series)
        words[f"{which}_first"] = first
        fused = f"__builtin_fma{words['suffix']}"
        words[f"{which}_steps"] = "\n".join(f"  {sum} = {fused}({sum}, {by}, {c});" for c in steps)
    words["lost"] = Template(_LOST.get(name, "")).substitute(words, half=f"0.5{words['suffix']}")
    far = {"infinity": C.infinity[type], "nan": C.nan[type]}
    return C.fill(_TEXTS.get(name, _PARTS), type, name=name, fuses=_FUSES, **words, **far)
