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

from openwork.errors import InternalError
from openwork.render.c.dialect import C

# exp(x) = 2^n (1 + rest + rest^2 series + lost): n is whole, the rest within log(2) / 2.
_PARTS = """\
#if $fuses
// exp(x) = 2^n (1 + rest + rest^2 series + lost); n are the last bits of `shifted`.
static inline void exp_parts_$type($ctype x, $ctype *shifted, $ctype *rest, $ctype *series,
                                   $ctype *lost) {
  *shifted = __builtin_fma$suffix(x, $log2_e, $shift);
  const $ctype whole = *shifted - $shift;
  const $ctype high = __builtin_fma$suffix(-whole, $ln2_high, x);
  const $ctype r = __builtin_fma$suffix(-whole, $ln2_low, high);
  $ctype sum = $exp_first;
$exp_steps
  *rest = r;
  *series = sum;
  const $ctype less = __builtin_fma$suffix(-whole, $ln2_low, high - r);
  *lost = __builtin_fma$suffix(less, r, less);  // times exp(r), about
}
#endif
"""

_EXP = """\
// exp, where processors fuse; within 0.8 units in the last place, 0.6 but for subnormals.
static inline $ctype exp_$type($ctype x) {
#if $fuses
  x = x > $exp_most ? $exp_most : x;
  x = x < $exp_least ? $exp_least : x;
  $ctype shifted, rest, series, lost;
  exp_parts_$type(x, &shifted, &rest, &series, &lost);
  const $ctype tail = __builtin_fma$suffix(rest * rest, series, lost);
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
// exp(x) - 1, where processors fuse; within 0.9 units in the last place.
static inline $ctype expm1_$type($ctype x) {
#if $fuses
  $ctype y = x > $exp_most ? $exp_most : x;
  y = y < -40 ? -40 : y;
  $ctype shifted, rest, series, lost;
  exp_parts_$type(y, &shifted, &rest, &series, &lost);
  union { $ctype number; $bits bits; } power;  // half of 2^n
  power.number = shifted;
  power.bits = (power.bits + $bias - 1) << $mantissa;
  const $ctype half = power.number, scaled = half * rest;
  const $ctype less = half - ($ctype)0.5, sum = less + scaled;
  const $ctype low = less - sum + scaled + (half - less - ($ctype)0.5);
  const $ctype square = rest * rest, lower = __builtin_fma$suffix(rest, rest, -square);
  const $ctype small = __builtin_fma$suffix(($ctype)0.5, lower, lost);
  const $ctype tail = __builtin_fma$suffix(half, small, low);
  const $ctype result = 2 * (sum + __builtin_fma$suffix(half * square, series, tail));
  const $ctype size = __builtin_fabs$suffix(x);
  return size < $tiny ? x : result;
#else
  return __builtin_expm1$suffix(x);
#endif
}
"""

_TANH = """\
// tanh, where processors fuse, within 0.8 units in the last place: 1 - 2 / (exp(2x) + 1), and near
// zero a polynomial.
static inline $ctype tanh_$type($ctype x) {
#if $fuses
  const $ctype size = __builtin_fabs$suffix(x);
  const $ctype twice = size > 22 ? 44 : 2 * size;
  $ctype shifted, rest, series, lost;
  exp_parts_$type(twice, &shifted, &rest, &series, &lost);
  const $ctype tail = rest * rest * series;  // what is lost does not show in the result
  union { $ctype number; $bits bits; } power;  // half of 2^n
  power.number = shifted;
  power.bits = (power.bits + $bias - 1) << $mantissa;
  const $ctype half = power.number, scaled = half * rest;
  const $ctype more = half + ($ctype)0.5, sum = more + scaled;
  const $ctype rounded = __builtin_fma$suffix(half, tail, more - sum + scaled);
  const $ctype below = sum + rounded, low = rounded - (below - sum);  // half of exp(2x) + 1
  const $ctype q = 1 / below, most = 1 - q;
  const $ctype left = __builtin_fma$suffix(-q, low, __builtin_fma$suffix(-q, below, 1));
  const $ctype far = most + __builtin_fma$suffix(-q, left, 1 - most - q);
  const $ctype z = size * size;
  $ctype even = $tanh_first;
$tanh_steps
  const $ctype near = __builtin_fma$suffix(z * size, even, size);
  return __builtin_copysign$suffix(size < ($ctype)0.55 ? near : far, x);
#else
  return __builtin_tanh$suffix(x);
#endif
}
"""

_LOG = """\
// log, where processors fuse; within 0.7 units in the last place.
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

_TRIG_PARTS = """\
#if $fuses
// The sine and the cosine of `x`, below 1e5, less the nearest multiple of pi / 2: which it is are
// the last bits of `shifted`.
static inline void trig_parts_$type($ctype x, $ctype *shifted, $ctype *sine, $ctype *cosine) {
  *shifted = __builtin_fma$suffix(x, $two_pi, $shift);
  const $ctype whole = *shifted - $shift;
  const $ctype high = __builtin_fma$suffix(-whole, $pi_high, x);  // exact
  // What is left may be far smaller than what is subtracted: nothing is lost of either.
  const $ctype low = __builtin_fma$suffix(whole, $pi_low, 0), r = high - low, taken = r - high;
  const $ctype rounded = (high - (r - taken)) - (low + taken);
  const $ctype less = rounded - __builtin_fma$suffix(whole, $pi_low, -low);
  const $ctype lost = __builtin_fma$suffix(-whole, $pi_lowest, less);
  const $ctype z = r * r, half = __builtin_fma$suffix(($ctype)0.5 * r, r, 0), one = 1 - half;
  $ctype odd = $sin_first;
$sin_steps
  $ctype even = $cos_first;
$cos_steps
  *sine = r + __builtin_fma$suffix(z * r, odd, __builtin_fma$suffix(-half, lost, lost));
  const $ctype last = __builtin_fma$suffix(-r, lost, 1 - one - half);
  *cosine = one + __builtin_fma$suffix(z * z, even, last);
}
#endif
"""

_NEAR_SIN = """\
// The sine of an angle below 1e5, where processors fuse; within 0.9 units in the last place.
static inline $ctype near_sin_$type($ctype x) {
#if $fuses
  $ctype shifted, sine, cosine;
  trig_parts_$type(x, &shifted, &sine, &cosine);
  union { $ctype number; $bits bits; } turn, made;
  turn.number = shifted;
  made.number = turn.bits & 1 ? cosine : sine;
  made.bits ^= (turn.bits & 2) << ($sign - 1);
  return __builtin_fabs$suffix(x) < $tiny_angle ? x : made.number;
#else
  return __builtin_sin$suffix(x);
#endif
}
"""

_NEAR_COS = """\
// The cosine of an angle below 1e5, where processors fuse; within 0.9 units in the last place.
static inline $ctype near_cos_$type($ctype x) {
#if $fuses
  $ctype shifted, sine, cosine;
  trig_parts_$type(x, &shifted, &sine, &cosine);
  union { $ctype number; $bits bits; } turn, made;
  turn.number = shifted;
  made.number = turn.bits & 1 ? sine : cosine;
  made.bits ^= ((turn.bits + 1) & 2) << ($sign - 1);
  return made.number;
#else
  return __builtin_cos$suffix(x);
#endif
}
"""

_SIN = """\
// Large angles are the library's.
static inline $ctype ${name}_$type($ctype x) {
#if $fuses
  if (!(__builtin_fabs$suffix(x) >= $far)) return near_${name}_$type(x);
#endif
  return __builtin_${name}$suffix(x);
}
"""

_SHARED = {
    "float64": {
        "bits": "uint64_t", "suffix": "", "mantissa": "52", "bias": "1023",
        "shift": "0x1.8p52", "log2_e": "0x1.71547652b82fep0",
        "ln2_high": "0x1.62e42feep-1", "ln2_low": "0x1.a39ef35793c76p-33",
        "pi_high": "0x1.921fb54442d18p0", "pi_low": "0x1.1a62633145c07p-54",
        "pi_lowest": "-0x1.f1976b7ed8fbcp-110", "two_pi": "0x1.45f306dc9c883p-1",
        "tiny_angle": "0x1p-27", "sign": "63",
        "exp_most": "710.0", "exp_least": "-746.0", "tiny": "0x1p-54",
        "least": "0x1p-1022", "raise": "0x1p54", "raised": "54", "one": "0x3ff0000000000000u",
        "root_half": "0x3fe6a09e00000000u", "fraction": "0x000fffffffffffffu",
        "counter": "0x4330000000000000u", "counted": "(0x1p52 + 1023)",
    },
    "float32": {
        "bits": "uint32_t", "suffix": "f", "mantissa": "23", "bias": "127",
        "shift": "0x1.8p23f", "log2_e": "0x1.715476p0f",
        "ln2_high": "0x1.62ep-1f", "ln2_low": "0x1.0bfbe8p-15f",
        "pi_high": "0x1.921fb6p0f", "pi_low": "-0x1.777a5cp-25f",
        "pi_lowest": "-0x1.ee59dap-50f", "two_pi": "0x1.45f306p-1f",
        "tiny_angle": "0x1p-12f", "sign": "31",
        "exp_most": "89.0f", "exp_least": "-105.0f", "tiny": "0x1p-25f",
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
# Of (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2 / 2) / r^4, by r^2.
_SIN_SERIES = {
    "float64": (
        1.5915937002043080391e-10, -2.5051101178228797e-8, 2.7557315954257524976e-6,
        -0.00019841269836470438361, 0.0083333333333307565279, -0.16666666666666664425,
    ),
    "float32": (-0.00019583957154893720879, 0.0083327299209047131226, -0.16666664567160510922),
}  # fmt: skip
_COS_SERIES = {
    "float64": (
        -1.1381260936157238332e-11, 2.0876127083530395786e-9, -2.7557317178958576836e-7,
        0.000024801587298585436162, -0.0013888888888887277154, 0.041666666666666665264,
    ),
    "float32": (0.000024544000003667162574, -0.0013888284648640476483, 0.041666664564168772283),
}  # fmt: skip
# Of (tanh(r) / r - 1) / r^2, by r^2.
_TANH_SERIES = {
    "float64": (
        -2.060276537636634e-05, 8.511313685577672e-05, -0.0002346347410887237,
        0.0005889360520074057, -0.001455661830100716, 0.003592110378689024,
        -0.008863234397814355, 0.021869488493666944, -0.053968253967434016, 0.13333333333332714,
        -0.3333333333333333,
    ),
    "float32": (
        -0.006610227831114734, 0.021309388664443474, -0.05390942882746055, 0.1333311372902087,
        -0.3333333200797698,
    ),
}  # fmt: skip
# What a series is in, its name in the text, and its coefficients.
_SERIES = {
    "exp": ("r", "sum", _EXP_SERIES),
    "log": ("z", "series", _LOG_SERIES),
    "sin": ("z", "odd", _SIN_SERIES),
    "cos": ("z", "even", _COS_SERIES),
    "tanh": ("z", "even", _TANH_SERIES),
}
# Angles from here on are the library's, one by one: see `angles.py`.
FAR = "100000"
_FUSES = "defined __FMA__ || defined __aarch64__"
_TEXTS = {
    **{"exp": _EXP, "expm1": _EXPM1, "tanh": _TANH, "log": _LOG, "exp_parts": _PARTS},
    **{"trig_parts": _TRIG_PARTS, "near_sin": _NEAR_SIN, "near_cos": _NEAR_COS},
    **{"sin": _SIN, "cos": _SIN},
}

FUNCTION_HELPERS = frozenset(_TEXTS)
# What a function calls itself.
FUNCTIONS_NEED: Mapping[str, str] = {
    **dict.fromkeys(("exp", "expm1", "tanh"), "exp_parts"),
    **dict.fromkeys(("near_sin", "near_cos"), "trig_parts"),
    **{"sin": "near_sin", "cos": "near_cos"},
}


def function_text(name: str, type: str) -> str:
    """The text of a function of an element type."""
    if type not in _SHARED:
        raise InternalError(f"no formula of {name} for {type}")
    words = dict(_SHARED[type])
    for which, (by, sum, series) in _SERIES.items():
        first, *steps = (f"{each!r}{words['suffix']}" for each in series[type])
        words[f"{which}_first"] = first
        fused = f"__builtin_fma{words['suffix']}"
        words[f"{which}_steps"] = "\n".join(f"  {sum} = {fused}({sum}, {by}, {c});" for c in steps)
    values = {"infinity": C.infinity[type], "nan": C.nan[type]}
    return C.fill(_TEXTS[name], type, name=name, fuses=_FUSES, far=FAR, **words, **values)
