"""C as a dialect: with the extensions that gcc and clang share, without headers."""

from __future__ import annotations

from openwork.render.dialect import COMMON_TYPES, Dialect, Form
from openwork.render.precedence import ATOM, CHOICE, EQUAL, LESS, UNARY

CTYPES = COMMON_TYPES | {
    "bool": "_Bool",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
}

# Functions that compilers vectorize: see `function_helpers`.
FORMULAS = frozenset(
    (name, type)
    for name in ("exp", "expm1", "tanh", "log", "sin", "cos")
    for type in ("float64", "float32")
)

_CAST = Form("({type}){x}", UNARY, UNARY)

C = Dialect(
    name="C",
    types=CTYPES,
    index="int64_t",
    function="static",
    inline="static inline",
    truth=("0", "1"),
    infinity={"float32": "__builtin_inff()", "float64": "__builtin_inf()"},
    nan={"float32": '__builtin_nanf("")', "float64": '__builtin_nan("")'},
    library="__builtin_",
    formulas=FORMULAS,
    complex_function="__builtin_c{name}{suffix}",
    complex_value="__builtin_complex({real}, {imag})",
    real=Form("__real__ {x}", ATOM, UNARY),
    imag=Form("__imag__ {x}", ATOM, UNARY),
    conjugate=Form("~{x}", ATOM, UNARY),
    nonzero=Form("{x} != 0", LESS, EQUAL),
    from_complex=_CAST,
    to_complex=_CAST,
    lowest_bit=Form("__builtin_ctzll({x})", CHOICE, ATOM),
    number_of_bits=Form("__builtin_popcountll({x})", CHOICE, ATOM),
    malloc="__builtin_malloc",
    free="__builtin_free",
)
