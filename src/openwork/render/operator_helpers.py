"""The small functions that operators of elements become, where C has none or leaves some undefined.

Arguments for which C promises nothing (a divisor of 0, a shift by more bits than there are, the
least integer divided by -1) give what NumPy gives.
"""

from __future__ import annotations

from openwork.algebra.types import SUPPORTED, is_complex, is_float, is_unsigned, number, size_of
from openwork.errors import InternalError
from openwork.render.spelling import constant, unsigned_of

_EXTREME = """\
// NaN wins, as in NumPy.
static inline {ctype} {name}_{type}({ctype} a, {ctype} b) {{
  return a {sign} b || a != a ? a : b;
}}
"""

_EXTREME_COMPLEX = """\
static inline {ctype} {name}_{type}({ctype} a, {ctype} b) {{
  if (a != a) return a;
  if (b != b) return b;
  return __real__ a {sign} __real__ b ||
         (__real__ a == __real__ b && __imag__ a {sign}= __imag__ b) ? a : b;
}}
"""

_LESS_COMPLEX = """\
// Complex numbers in lexicographic order; not a number in any part is in no order, as in NumPy.
static inline _Bool {name}_{type}({ctype} a, {ctype} b) {{
  if (a != a || b != b) return 0;
  if (__real__ a != __real__ b) return __real__ a {strict} __real__ b;
  return __imag__ a {sign} __imag__ b;
}}
"""

_ADD_FAR = """\
// Nothing added to what is out of reach brings it back.
static inline {ctype} {name}_{type}({ctype} a, {ctype} b) {{
  return a == {far} || b == {far} ? {far} : ({ctype})(({wide})a + ({wide})b);
}}
"""

_POWER = """\
// Integer power by squaring; arithmetic wraps.
static {ctype} pow_{type}({ctype} base, {ctype} exponent) {{
  uint64_t factor = (uint64_t)base, result = 1, left = (uint64_t)exponent;
  for (; left; left >>= 1, factor *= factor)
    if (left & 1) result *= factor;
  return ({ctype})result;
}}
"""

_CHECKED_POWER = """\
// Integer power, of which negative ones are none: the flag tells.
static {ctype} checked_pow_{type}({ctype} base, {ctype} exponent, int32_t *negative) {{
  if (exponent < 0) __atomic_store_n(negative, 1, __ATOMIC_RELAXED);
  return exponent < 0 ? 0 : pow_{type}(base, exponent);
}}
"""

_POWER_COMPLEX = """\
// Complex power. The zeroth is 1, zero to another is 0 if its real part is positive and else not
// a number, and small whole powers are products, as in NumPy.
static {ctype} pow_{type}({ctype} base, {ctype} exponent) {{
  const {ctype} one = 1, zero = 0;
  const {half} re = __real__ exponent, im = __imag__ exponent;
  if (exponent == zero) return one;
  if (exponent == one) return base;
  if (base == zero) return re > 0 ? zero : zero / zero;
  const {half} size = re < 0 ? -re : re;
  if (im != 0 || !(size < 100) || size != ({half})(int32_t)size)
    return __builtin_cpow{suffix}(base, exponent);
  {ctype} factor = base, result = one;
  int32_t left = (int32_t)size;
  for (;;) {{
    if (left & 1) result = result * factor;
    left >>= 1;
    if (!left) return re < 0 ? one / result : result;
    factor = factor * factor;
  }}
}}
"""

_LEFT_SHIFT = """\
// Bits that are shifted out are gone, also if all are.
static inline {ctype} left_shift_{type}({ctype} a, {ctype} b) {{
  return ({bits}_t)b < {width} ? ({ctype})(({wide})a << b) : 0;
}}
"""

_RIGHT_SHIFT = """\
// Where all bits are shifted out, the sign is left.
static inline {ctype} right_shift_{type}({ctype} a, {ctype} b) {{
  return ({bits}_t)b < {width} ? ({ctype})(a >> b) : {rest};
}}
"""

_FLOOR_DIVIDE_UNSIGNED = """\
// A quotient; by 0 it is 0.
static inline {ctype} floor_divide_{type}({ctype} a, {ctype} b) {{
  return b == 0 ? 0 : ({ctype})(a / b);
}}
"""

_REMAINDER_UNSIGNED = """\
// A remainder; by 0 it is 0.
static inline {ctype} remainder_{type}({ctype} a, {ctype} b) {{
  return b == 0 ? 0 : ({ctype})(a % b);
}}
"""

_FLOOR_DIVIDE = """\
// A quotient rounded down; by 0 it is 0, and the least number by -1 wraps.
static inline {ctype} floor_divide_{type}({ctype} a, {ctype} b) {{
  if (b == 0) return 0;
  if (b == -1) return ({ctype})(0 - ({wide})a);
  return ({ctype})(a / b - (a % b != 0 && (a < 0) != (b < 0)));
}}
"""

_REMAINDER = """\
// A remainder with the sign of the divisor; by 0 it is 0.
static inline {ctype} remainder_{type}({ctype} a, {ctype} b) {{
  if (b == 0 || b == -1) return 0;
  const {ctype} rest = ({ctype})(a % b);
  return ({ctype})(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}}
"""

_REMAINDER_FLOAT = """\
// A remainder with the sign of the divisor, also where it is 0; by 0 it is not a number.
static inline {ctype} remainder_{type}({ctype} a, {ctype} b) {{
  const {ctype} rest = __builtin_fmod{suffix}(a, b);
  if (b == 0 || rest != rest) return rest;
  if (rest == 0) return __builtin_copysign{suffix}(({ctype})0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}}
"""

_FLOOR_DIVIDE_FLOAT = """\
// A quotient rounded down. What is left without the remainder is a multiple of the divisor, and so
// the quotient is whole but for its rounding error.
static inline {ctype} floor_divide_{type}({ctype} a, {ctype} b) {{
  if (b == 0) return a / b;
  const {ctype} rest = __builtin_fmod{suffix}(a, b);
  {ctype} quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return __builtin_copysign{suffix}(({ctype})0, a / b);
  const {ctype} below = __builtin_floor{suffix}(quotient);
  return quotient - below > ({ctype})0.5 ? below + 1 : below;
}}
"""

_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_INTEGERS = {
    "floor_divide": (_FLOOR_DIVIDE, _FLOOR_DIVIDE_UNSIGNED),
    "remainder": (_REMAINDER, _REMAINDER_UNSIGNED),
    "left_shift": (_LEFT_SHIFT, _LEFT_SHIFT),
    "right_shift": (_RIGHT_SHIFT, _RIGHT_SHIFT),
    "pow": (_POWER, _POWER),
    "checked_pow": (_CHECKED_POWER, _CHECKED_POWER),
}
OPERATOR_HELPERS = frozenset(
    ("min", "max", "add_inf", "add_minus_inf", "lt", "le", "gt", "ge", *_INTEGERS)
)


def operator_text(name: str, type: str, ctype: str) -> str:
    """The C text of the function of an operator for an element type, which C calls `ctype`."""
    match name:
        case "min" | "max":
            text = _EXTREME_COMPLEX if is_complex(type) else _EXTREME
            return text.format(name=name, type=type, ctype=ctype, sign="<>"[name == "max"])
        case "add_inf" | "add_minus_inf":
            extreme = float("inf") if name == "add_inf" else -float("inf")
            far, _ = constant(number(extreme, SUPPORTED[type]), type)
            return _ADD_FAR.format(
                name=name, type=type, ctype=ctype, far=far, wide=unsigned_of(type)
            )
        case "lt" | "le" | "gt" | "ge":
            sign = _SIGNS[name]
            return _LESS_COMPLEX.format(
                name=name, type=type, ctype=ctype, sign=sign, strict=sign[0]
            )
        case "floor_divide" | "remainder" if is_float(type):
            text = _FLOOR_DIVIDE_FLOAT if name == "floor_divide" else _REMAINDER_FLOAT
            return text.format(type=type, ctype=ctype, suffix="f" if type == "float32" else "")
        case "pow" if is_complex(type):
            half = "float" if type == "complex64" else "double"
            return _POWER_COMPLEX.format(
                type=type, ctype=ctype, half=half, suffix="f" if half == "float" else ""
            )
    if name in _INTEGERS:
        unsigned = is_unsigned(type)
        return _INTEGERS[name][unsigned].format(
            type=type,
            ctype=ctype,
            wide=unsigned_of(type),
            bits=type if unsigned else f"u{type}",
            width=8 * size_of(type),
            rest="0" if unsigned else f"({ctype})(a < 0 ? -1 : 0)",
        )
    raise InternalError(f"no helper {name}")
