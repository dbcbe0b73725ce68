"""How CUDA spells element types, constants and functions where it differs from C."""

from __future__ import annotations

import math

from openwork.algebra.types import Number, is_complex, is_float
from openwork.program import nodes as p
from openwork.program.elements import applied
from openwork.render.spelling import ATOM, CTYPES, Spelled, constant, paren
from openwork.render.writer import Writer, indent

CUDA_TYPES = CTYPES | {
    "bool": "bool",
    "complex64": "Complex<float>",
    "complex128": "Complex<double>",
}

_INFINITY = {
    "float32": "__int_as_float(0x7f800000)",
    "float64": "__longlong_as_double(0x7ff0000000000000ll)",
}
_NAN = {
    "float32": "__int_as_float(0x7fc00000)",
    "float64": "__longlong_as_double(0x7ff8000000000000ll)",
}

# Names of the functions of C's library: __builtin_sqrtf is sqrtf.
BUILTIN_PREFIX = "__builtin_"

COMPLEX = """\
// Complex numbers with the arithmetic of C.
template <typename T> struct alignas(2 * sizeof(T)) Complex {
  T re, im;
  Complex() = default;
  __device__ Complex(T a, T b = 0) : re(a), im(b) {}
  template <typename U> __device__ explicit Complex(Complex<U> z) : re((T)z.re), im((T)z.im) {}
  __device__ Complex operator-() const { return Complex(-re, -im); }
  __device__ explicit operator bool() const { return re != 0 || im != 0; }
};
#define COMPLEX(T) template <typename T> static __device__ inline
COMPLEX(T) Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return Complex<T>(a.re + b.re, a.im + b.im);
}
COMPLEX(T) Complex<T> operator-(Complex<T> a, Complex<T> b) {
  return Complex<T>(a.re - b.re, a.im - b.im);
}
COMPLEX(T) Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return Complex<T>(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}
COMPLEX(T) Complex<T> operator/(Complex<T> a, Complex<T> b) {
  // Divided by the larger part first, so that squares do not overflow.
  if (fabs(b.re) >= fabs(b.im)) {
    const T q = b.im / b.re, d = b.re + b.im * q;
    return Complex<T>((a.re + a.im * q) / d, (a.im - a.re * q) / d);
  }
  const T q = b.re / b.im, d = b.re * q + b.im;
  return Complex<T>((a.re * q + a.im) / d, (a.im * q - a.re) / d);
}
COMPLEX(T) bool operator==(Complex<T> a, Complex<T> b) { return a.re == b.re && a.im == b.im; }
COMPLEX(T) bool operator!=(Complex<T> a, Complex<T> b) { return !(a == b); }
COMPLEX(T) bool nonzero(Complex<T> a) { return a.re != 0 || a.im != 0; }
COMPLEX(T) Complex<T> &operator+=(Complex<T> &a, Complex<T> b) { return a = a + b; }
COMPLEX(T) Complex<T> &operator-=(Complex<T> &a, Complex<T> b) { return a = a - b; }
COMPLEX(T) Complex<T> &operator*=(Complex<T> &a, Complex<T> b) { return a = a * b; }
COMPLEX(T) T cabs(Complex<T> z) { return (T)hypot((double)z.re, (double)z.im); }
COMPLEX(T) Complex<T> polar(T r, T angle) { return Complex<T>(r * cos(angle), r * sin(angle)); }
COMPLEX(T) Complex<T> cexp(Complex<T> z) { return polar<T>(exp(z.re), z.im); }
COMPLEX(T) Complex<T> clog(Complex<T> z) { return Complex<T>(log(cabs(z)), atan2(z.im, z.re)); }
COMPLEX(T) Complex<T> csqrt(Complex<T> z) {
  const T r = cabs(z);
  if (r == 0) return Complex<T>(0, z.im);
  const T a = sqrt((r + fabs(z.re)) / 2), b = fabs(z.im) / (2 * a);
  return z.re >= 0 ? Complex<T>(a, copysign(b, z.im)) : Complex<T>(b, copysign(a, z.im));
}
COMPLEX(T) Complex<T> csin(Complex<T> z) {
  return Complex<T>(sin(z.re) * cosh(z.im), cos(z.re) * sinh(z.im));
}
COMPLEX(T) Complex<T> ccos(Complex<T> z) {
  return Complex<T>(cos(z.re) * cosh(z.im), -sin(z.re) * sinh(z.im));
}
COMPLEX(T) Complex<T> ctan(Complex<T> z) { return csin(z) / ccos(z); }
COMPLEX(T) Complex<T> ctanh(Complex<T> z) {
  const Complex<T> t = ctan(Complex<T>(-z.im, z.re));
  return Complex<T>(t.im, -t.re);
}
COMPLEX(T) Complex<T> cpow(Complex<T> z, Complex<T> w) {
  if (!nonzero(z)) return nonzero(w) ? Complex<T>(0) : Complex<T>(1);
  return cexp(w * clog(z));
}
static __device__ inline Complex<float> cpowf(Complex<float> z, Complex<float> w) {
  return cpow(z, w);
}
"""


def cuda_constant(value: Number, type: str) -> Spelled:
    """A constant of an element type."""
    if type == "bool":
        return ("true" if value else "false"), ATOM
    if is_complex(type):
        half = "float32" if type == "complex64" else "float64"
        number = complex(value)
        parts = ", ".join(cuda_constant(part, half)[0] for part in (number.real, number.imag))
        return f"{CUDA_TYPES[type]}({parts})", ATOM
    if is_float(type):
        number = value.real if isinstance(value, complex) else value
        if math.isnan(number):
            return _NAN[type], ATOM
        if math.isinf(number):
            return (_INFINITY[type] if number > 0 else f"(-{_INFINITY[type]})"), ATOM
    return constant(value, type)


_ADDS = ("int32", "uint32", "uint64", "float32", "float64")  # that the hardware has


def atomic(w: Writer, s: p.Store) -> list[str]:
    """An atomic of the hardware, or else one by compare and exchange."""
    type, value = s.array.type, w.text(s.value)
    place = f"&{s.array.name}[{w.text(s.index)}]"
    name = "" if s.op is None or s.op.definition is not None else s.op.name
    if name in ("add", "sub") and type in _ADDS:
        if name == "sub":
            value = f"-{paren(w.expr(s.value), ATOM)}"
        return [f"atomicAdd({place}, {value});"]
    if name == "add" and type == "int64":
        return [f"atomicAdd((unsigned long long *){place}, (unsigned long long)({value}));"]
    if name in ("min", "max") and type in ("int32", "uint32", "uint64"):
        return [f"atomic{name.title()}({place}, {value});"]
    if name == "add" and is_complex(type):
        half = "float" if type == "complex64" else "double"
        lines = [
            f"{half} *const {s.array.name}_at = ({half} *){place};",
            f"const {CUDA_TYPES[type]} {s.array.name}_given = {value};",
            f"atomicAdd({s.array.name}_at, {s.array.name}_given.re);",
            f"atomicAdd({s.array.name}_at + 1, {s.array.name}_given.im);",
        ]
        return ["{", *indent(lines), "}"]
    return _exchange(w, s, place)


def _exchange(w: Writer, s: p.Store, place: str) -> list[str]:
    """Compute the new element from the old one until nobody has changed it in the meantime."""
    type, array = s.array.type, s.array.name
    old, given = p.Name(f"{array}_old", type), p.Name(f"{array}_given", type)
    new = given if s.op is None else applied(s.op, old, given)
    ctype = CUDA_TYPES[type]
    swap = w.use("exchange", "")
    lines = [
        f"{ctype} *const {array}_at = {place};",
        f"const {ctype} {array}_given = {w.text(s.value)};",
        f"{ctype} {array}_old = *(volatile {ctype} *){array}_at;"
        if not is_complex(type)
        else f"{ctype} {array}_old = *{array}_at;",
        f"while (!{swap}({array}_at, {array}_old, ({ctype})({w.text(new)}))) {{",
        "}",
    ]
    return ["{", *indent(lines), "}"]
