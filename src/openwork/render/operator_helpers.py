"""Templates of functions for operators that C lacks, or leaves undefined for some arguments.

Where C leaves the result undefined (division by 0, a shift by too many bits, the least integer
divided by -1), they return what NumPy returns.
"""

from __future__ import annotations

from openwork.algebra.types import (
    SUPPORTED,
    half_of,
    is_complex,
    is_float,
    is_unsigned,
    number,
    size_of,
)
from openwork.errors import InternalError
from openwork.render.dialect import Dialect
from openwork.render.precedence import ATOM
from openwork.render.spelling import constant, suffix_of, wide_type

_EXTREME = """\
// NaN wins, as in NumPy.
$inline $ctype ${name}_$type($ctype a, $ctype b) {
  return a $sign b || a != a ? a : b;
}
"""

_EXTREME_COMPLEX = """\
$inline $ctype ${name}_$type($ctype a, $ctype b) {
  if (a != a) return a;
  if (b != b) return b;
  return $real_a $sign $real_b ||
         ($real_a == $real_b && $imag_a $sign= $imag_b) ? a : b;
}
"""

_SIGN = """\
// 1, 0 or -1; NaN stays, as in NumPy.
$inline $ctype sign_$type($ctype a) {
  return a != a ? a : ($ctype)((a > 0) - (a < 0));
}
"""

_LESS_COMPLEX = """\
// Complex numbers in lexicographic order; not a number in any part is in no order, as in NumPy.
$inline $bool ${name}_$type($ctype a, $ctype b) {
  if (a != a || b != b) return 0;
  if ($real_a != $real_b) return $real_a $strict $real_b;
  return $imag_a $sign $imag_b;
}
"""

_WIDENED = """\
// The number that these bits are in half precision.
$inline float widened_float16(uint16_t bits) {
#if defined(__CUDA_ARCH__)
  float number;
  asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(bits));
  return number;
#elif defined(__FLT16_MAX__)
  union { uint16_t bits; _Float16 number; } half;
  half.bits = bits;
  return (float)half.number;
#else
  union { uint32_t bits; float number; } wide;
  wide.bits = (uint32_t)(bits & 0x7fff) << 13;
  if (wide.bits >= 0x0f800000u) wide.bits |= 0x7f800000u;
  else wide.number *= 0x1p112f;  // exact, and right for subnormals, too
  wide.bits |= (uint32_t)(bits & 0x8000) << 16;
  return wide.number;
#endif
}
"""

_HALVED = """\
// The bits of a number in half precision, rounded once, to even.
$inline uint16_t halved_$type($ctype number) {
#if defined(__FLT16_MAX__) && !defined(__CUDA_ARCH__)
  union { uint16_t bits; _Float16 number; } half;
  half.number = (_Float16)number;
  return half.bits;
#else
  union { uint64_t bits; double number; } wide;
  wide.number = number;
  const uint16_t sign = (uint16_t)(wide.bits >> 48 & 0x8000);
  wide.bits &= 0x7fffffffffffffffu;
  if (wide.number != wide.number) return 0x7e00;
  if (wide.number >= 65520) return sign | 0x7c00;
  if (wide.number < 0x1p-14) {  // subnormal: a multiple of 2^-24
    wide.number = wide.number * 0x1p24 + 0x1p52;
    return sign | (uint16_t)(wide.bits & 0x7ff);
  }
  wide.bits += 0x1ffffffffffu + (wide.bits >> 42 & 1);
  return sign | (uint16_t)((wide.bits >> 42) - (1008 << 10));
#endif
}
"""

_ADD_FAR = """\
// Nothing added to what is out of reach brings it back.
$inline $ctype ${name}_$type($ctype a, $ctype b) {
  return a == $far || b == $far ? $far : ($ctype)(($wide)a + ($wide)b);
}
"""

_POWER = """\
// Integer power by squaring; arithmetic wraps.
$static $ctype pow_$type($ctype base, $ctype exponent) {
  uint64_t factor = (uint64_t)base, result = 1, left = (uint64_t)exponent;
  for (; left; left >>= 1, factor *= factor)
    if (left & 1) result *= factor;
  return ($ctype)result;
}
"""

_POWER_COMPLEX = """\
// Complex power. The zeroth is 1, zero to another is 0 if its real part is positive and else not
// a number, and small whole powers are products, as in NumPy.
$static $ctype pow_$type($ctype base, $ctype exponent) {
  const $ctype one = 1, zero = 0;
  const $half re = $real_exponent, im = $imag_exponent;
  if (exponent == zero) return one;
  if (exponent == one) return base;
  if (base == zero) return re > 0 ? zero : zero / zero;
  const $half size = re < 0 ? -re : re;
  if (im != 0 || !(size < 100) || size != ($half)(int32_t)size)
    return $power(base, exponent);
  $ctype factor = base, result = one;
  int32_t left = (int32_t)size;
  for (;;) {
    if (left & 1) result = result * factor;
    left >>= 1;
    if (!left) return re < 0 ? one / result : result;
    factor = factor * factor;
  }
}
"""

_LEFT_SHIFT = """\
// Bits that are shifted out are gone, also if all are.
$inline $ctype left_shift_$type($ctype a, $ctype b) {
  return (${bits}_t)b < $width ? ($ctype)(($wide)a << b) : 0;
}
"""

_RIGHT_SHIFT = """\
// Where all bits are shifted out, the sign is left.
$inline $ctype right_shift_$type($ctype a, $ctype b) {
  return (${bits}_t)b < $width ? ($ctype)(a >> b) : $rest;
}
"""

_FLOOR_DIVIDE_UNSIGNED = """\
// A quotient; by 0 it is 0.
$inline $ctype floor_divide_$type($ctype a, $ctype b) {
  return b == 0 ? 0 : ($ctype)(a / b);
}
"""

_REMAINDER_UNSIGNED = """\
// A remainder; by 0 it is 0.
$inline $ctype remainder_$type($ctype a, $ctype b) {
  return b == 0 ? 0 : ($ctype)(a % b);
}
"""

_FLOOR_DIVIDE = """\
// A quotient rounded down; by 0 it is 0, and the least number by -1 wraps.
$inline $ctype floor_divide_$type($ctype a, $ctype b) {
  if (b == 0) return 0;
  if (b == -1) return ($ctype)(0 - ($wide)a);
  return ($ctype)(a / b - (a % b != 0 && (a < 0) != (b < 0)));
}
"""

_REMAINDER = """\
// A remainder with the sign of the divisor; by 0 it is 0.
$inline $ctype remainder_$type($ctype a, $ctype b) {
  if (b == 0 || b == -1) return 0;
  const $ctype rest = ($ctype)(a % b);
  return ($ctype)(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}
"""

_REMAINDER_FLOAT = """\
// A remainder with the sign of the divisor, also where it is 0; by 0 it is not a number.
$inline $ctype remainder_$type($ctype a, $ctype b) {
  const $ctype rest = ${library}fmod$suffix(a, b);
  if (b == 0 || rest != rest) return rest;
  if (rest == 0) return ${library}copysign$suffix(($ctype)0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}
"""

_FLOOR_DIVIDE_FLOAT = """\
// A quotient rounded down. What is left without the remainder is a multiple of the divisor, and so
// the quotient is whole but for its rounding error.
$inline $ctype floor_divide_$type($ctype a, $ctype b) {
  if (b == 0) return a / b;
  const $ctype rest = ${library}fmod$suffix(a, b);
  $ctype quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return ${library}copysign$suffix(($ctype)0, a / b);
  const $ctype below = ${library}floor$suffix(quotient);
  return quotient - below > ($ctype)0.5 ? below + 1 : below;
}
"""

_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_INTEGERS = {
    "floor_divide": (_FLOOR_DIVIDE, _FLOOR_DIVIDE_UNSIGNED),
    "remainder": (_REMAINDER, _REMAINDER_UNSIGNED),
    "left_shift": (_LEFT_SHIFT, _LEFT_SHIFT),
    "right_shift": (_RIGHT_SHIFT, _RIGHT_SHIFT),
    "pow": (_POWER, _POWER),
}
OPERATOR_HELPERS = frozenset(
    (
        *("min", "max", "add_inf", "add_minus_inf", "lt", "le", "gt", "ge", "sign"),
        *("widened", "halved"),
        *_INTEGERS,
    )
)


def operator_text(name: str, type: str, d: Dialect) -> str:
    """The function of an operator for an element type."""
    if is_complex(type):
        return _complex_text(name, type, d)
    match name:
        case "min" | "max":
            return d.fill(_EXTREME, type, name=name, sign="<>"[name == "max"])
        case "sign":
            return d.fill(_SIGN, type)
        case "widened" | "halved":
            return d.fill(_WIDENED if name == "widened" else _HALVED, type)
        case "add_inf" | "add_minus_inf":
            extreme = float("inf") if name == "add_inf" else -float("inf")
            far, _ = constant(number(extreme, SUPPORTED[type]), type, d)
            return d.fill(_ADD_FAR, type, name=name, far=far, wide=wide_type(type))
        case "floor_divide" | "remainder" if is_float(type):
            text = _FLOOR_DIVIDE_FLOAT if name == "floor_divide" else _REMAINDER_FLOAT
            return d.fill(text, type, suffix=suffix_of(type))
        case _ if name in _INTEGERS:
            unsigned = is_unsigned(type)
            return d.fill(
                _INTEGERS[name][unsigned],
                type,
                wide=wide_type(type),
                bits=type if unsigned else f"u{type}",
                width=str(8 * size_of(type)),
                rest="0" if unsigned else f"({d.types[type]})(a < 0 ? -1 : 0)",
            )
    raise InternalError(f"no helper {name} for {type}")


def _complex_text(name: str, type: str, d: Dialect) -> str:
    """The function of an operator for complex numbers."""
    match name:
        case "min" | "max":
            sign = "<>"[name == "max"]
            return d.fill(_EXTREME_COMPLEX, type, name=name, sign=sign, **_parts(d, "a", "b"))
        case "lt" | "le" | "gt" | "ge":
            sign = _SIGNS[name]
            holes = {"name": name, "sign": sign, "strict": sign[0]}
            return d.fill(_LESS_COMPLEX, type, **holes, **_parts(d, "a", "b"))
        case "pow":
            power = d.complex_function.format(name="pow", suffix=suffix_of(type))
            half = d.types[half_of(type)]
            return d.fill(_POWER_COMPLEX, type, half=half, power=power, **_parts(d, "exponent"))
    raise InternalError(f"no helper {name} for {type}")


def _parts(d: Dialect, *names: str) -> dict[str, str]:
    """The real and imaginary parts of variables, as placeholders of a template."""
    forms = {"real": d.real, "imag": d.imag}
    return {f"{part}_{n}": form.of((n, ATOM))[0] for n in names for part, form in forms.items()}
