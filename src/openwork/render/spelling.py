"""How constants, conversions and operators of elements are spelled in a dialect."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from openwork.algebra.operators import Op
from openwork.algebra.types import (
    Number,
    half_of,
    is_complex,
    is_float,
    is_integer,
    is_signed,
    size_of,
)
from openwork.errors import InternalError
from openwork.render.dialect import Dialect
from openwork.render.precedence import (
    AND,
    ATOM,
    CHOICE,
    EQUAL,
    LESS,
    OR,
    PLUS,
    TIMES,
    UNARY,
    Spelled,
    paren,
)

UseHelper = Callable[[str, str], str]  # (helper, type) -> the name to call


def wide_type(type: str) -> str:
    """An unsigned type in which to compute integers of `type`: it wraps, signed ones need not."""
    return "uint64_t" if size_of(type) == 8 else "uint32_t"


def suffix_of(type: str) -> str:
    """The suffix of C's mathematical functions of a type."""
    return "f" if type in ("float32", "complex64") else ""


def constant(value: Number, type: str, d: Dialect) -> Spelled:
    """A constant of an element type."""
    if type == "bool":
        return d.truth[bool(value)], ATOM
    if type == "float16":
        return f"{np.float16(complex(value).real).view(np.uint16)}u", ATOM
    if is_complex(type):
        number = complex(value)
        real, imag = (constant(part, half_of(type), d)[0] for part in (number.real, number.imag))
        return d.complex_value.format(type=d.types[type], real=real, imag=imag), ATOM
    value = value.real if isinstance(value, complex) else value
    return _real(float(value), type, d) if is_float(type) else _integer(int(value), type)


def _real(value: float, type: str, d: Dialect) -> Spelled:
    if math.isnan(value):
        return d.nan[type], ATOM
    if math.isinf(value):
        return (f"-{d.infinity[type]}", UNARY) if value < 0 else (d.infinity[type], ATOM)
    text = repr(value) + suffix_of(type)
    return text, UNARY if text.startswith("-") else ATOM


def _integer(value: int, type: str) -> Spelled:
    if type in ("uint32", "uint64"):
        return f"{value}u", ATOM
    if value == -(2**63):
        return "(-9223372036854775807 - 1)", ATOM
    return str(value), UNARY if value < 0 else ATOM


def convert(value: Spelled, source: str, to: str, d: Dialect, use: UseHelper) -> Spelled:
    """A conversion between element types."""
    if source == "float16":
        wide = f"{use('widened', source)}({value[0]})", ATOM
        return wide if to == "float32" else convert(wide, "float32", to, d, use)
    if to == "float16":
        if source not in ("float32", "float64"):
            value, source = convert(value, source, "float64", d, use), "float64"
        return f"{use('halved', source)}({value[0]})", ATOM
    type = d.types[to]
    if to == "bool":
        return d.nonzero.of(value) if is_complex(source) else (f"{paren(value, LESS)} != 0", EQUAL)
    if is_complex(source) and not is_complex(to):
        return d.from_complex.of(value, type=type)
    if is_complex(to) and not is_complex(source):
        return d.to_complex.of(value, type=type, half=d.types[half_of(to)])
    return f"({type}){paren(value, UNARY)}", UNARY


_INFIX = {"add": ("+", PLUS), "sub": ("-", PLUS), "mul": ("*", TIMES), "div": ("/", TIMES)}
_COMPARE = {
    "lt": ("<", LESS), "le": ("<=", LESS), "gt": (">", LESS), "ge": (">=", LESS),
    "eq": ("==", EQUAL), "ne": ("!=", EQUAL),
}  # fmt: skip
# The complement is bitwise; on bools each operator is logical.
_BITS = {
    "bitwise_and": ("&", "and"), "bitwise_or": ("|", "or"), "bitwise_xor": ("^", "xor"),
    "invert": ("~", "not"),
}  # fmt: skip
# Operators that C lacks, or leaves undefined for some arguments.
_CALLED = ("floor_divide", "remainder", "left_shift", "right_shift", "pow")
_FUNCTIONS = (
    "sqrt", "exp", "log", "sin", "cos", "tan", "tanh",
    "exp2", "expm1", "log2", "log10", "log1p", "cbrt", "asin", "acos", "atan", "sinh", "cosh",
    "asinh", "acosh", "atanh",
)  # fmt: skip
_FUNCTIONS_OF_TWO = ("atan2", "hypot", "copysign")
# Integers are whole already.
_WHOLE = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint"}


def operator(
    op: Op, args: list[Spelled], types: list[str], type: str, d: Dialect, use: UseHelper
) -> Spelled:
    """An application of a built-in operator whose arguments have element types `types`."""
    name = op.name
    beyond = 0.0 if op.annihilator is None else float(op.annihilator.real)
    if name == "add" and math.isinf(beyond) and is_integer(type):
        far = "add_inf" if beyond > 0 else "add_minus_inf"
        return f"{use(far, type)}({args[0][0]}, {args[1][0]})", ATOM
    if name in _INFIX:
        return _arithmetic(name, args, type, d)
    if name in _COMPARE:
        sign, level = _COMPARE[name]
        if is_complex(types[0]) and name not in ("eq", "ne"):
            return f"{use(name, types[0])}({args[0][0]}, {args[1][0]})", ATOM
        return f"{paren(args[0], level + 1)} {sign} {paren(args[1], level + 1)}", level
    if name in ("and", "or", "xor", "not"):
        return _logic(name, args)
    if name in _BITS:
        return _bitwise(name, args, type, d)
    if name == "select":
        return " ".join(
            (paren(args[0], OR), "?", paren(args[1], OR), ":", paren(args[2], CHOICE))
        ), CHOICE
    if name in ("min", "max"):
        if type == "bool":
            return _logic("and" if name == "min" else "or", args)
        return f"{use(name, type)}({args[0][0]}, {args[1][0]})", ATOM
    if name in _CALLED and not (name == "pow" and is_float(type)):
        return f"{use(name, type)}({args[0][0]}, {args[1][0]})", ATOM
    if name == "pow" or name in _FUNCTIONS_OF_TWO:
        return f"{d.library}{name}{suffix_of(type)}({args[0][0]}, {args[1][0]})", ATOM
    if name == "sign":
        return f"{use(name, type)}({args[0][0]})", ATOM
    return _unary(name, args[0], types[0], type, d, use)


def _arithmetic(name: str, args: list[Spelled], type: str, d: Dialect) -> Spelled:
    sign, level = _INFIX[name]
    if type == "bool":
        return _logic({"add": "or", "mul": "and"}[name], args)
    if is_integer(type) and type not in ("uint32", "uint64"):
        # Integers wrap, as in NumPy; in C only wide unsigned arithmetic does.
        left, right = (f"({wide_type(type)}){paren(arg, UNARY)}" for arg in args)
        return f"({d.types[type]})({left} {sign} {right})", UNARY
    return f"{paren(args[0], level)} {sign} {paren(args[1], level + 1)}", level


def _logic(name: str, args: list[Spelled]) -> Spelled:
    if name == "not":
        return f"!{paren(args[0], UNARY)}", UNARY
    if name == "xor":
        return f"!{paren(args[0], UNARY)} != !{paren(args[1], UNARY)}", EQUAL
    sign, level = ("&&", AND) if name == "and" else ("||", OR)
    return f"{paren(args[0], level + 1)} {sign} {paren(args[1], level + 1)}", level


def _bitwise(name: str, args: list[Spelled], type: str, d: Dialect) -> Spelled:
    sign, logic = _BITS[name]
    if type == "bool":
        return _logic(logic, args)
    if len(args) == 1:  # C computes in int, whose upper bits must be cut off
        return f"({d.types[type]})~{paren(args[0], UNARY)}", UNARY
    return f"({paren(args[0], UNARY)} {sign} {paren(args[1], UNARY)})", ATOM


def _unary(name: str, arg: Spelled, source: str, type: str, d: Dialect, use: UseHelper) -> Spelled:
    if name == "neg":
        if is_integer(type):
            return f"({d.types[type]})(0 - ({wide_type(type)}){paren(arg, UNARY)})", UNARY
        return f"-{paren(arg, ATOM)}", UNARY
    if name == "abs":
        return _absolute(arg, source, d)
    if name in ("real", "imag"):
        if is_complex(source):
            return (d.real if name == "real" else d.imag).of(arg)
        return arg if name == "real" else constant(0, type, d)
    if name == "conj":
        return d.conjugate.of(arg, type=d.types[source]) if is_complex(source) else arg
    if name in _WHOLE:
        return _call(_WHOLE[name], arg, source, d) if is_float(source) else arg
    if (name, type) in d.formulas:
        return f"{use(name, type)}({arg[0]})", ATOM
    if name in _FUNCTIONS:
        return _call(name, arg, type, d)
    raise InternalError(f"{d.name} has no spelling for the operator {name}")


def _call(name: str, arg: Spelled, type: str, d: Dialect) -> Spelled:
    """A call of a function of C's mathematical library."""
    function = f"{d.library}{name}{suffix_of(type)}"
    if is_complex(type):
        function = d.complex_function.format(name=name, suffix=suffix_of(type))
    return f"{function}({arg[0]})", ATOM


def _absolute(arg: Spelled, source: str, d: Dialect) -> Spelled:
    if is_complex(source):
        return _call("abs", arg, source, d)
    if is_float(source):
        return _call("fabs", arg, source, d)
    if not is_signed(source):
        return arg
    wide, value = wide_type(source), paren(arg, UNARY)
    return f"({d.types[source]})({value} < 0 ? 0 - ({wide}){value} : ({wide}){value})", UNARY
