"""How element types, constants and operators are spelled in C."""

from __future__ import annotations

import math
from collections.abc import Callable

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

CTYPES = {
    "bool": "_Bool",
    "float32": "float",
    "float64": "double",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
    "int128": "__int128",  # keys of workspaces with very many modes; never an element type
} | {name: f"{name}_t" for s in ("int", "uint") for b in (8, 16, 32, 64) for name in [f"{s}{b}"]}

# Precedence of C's operators, as far as we use them; higher binds tighter.
ATOM, UNARY, TIMES, PLUS, LESS, EQUAL, AND, OR, CHOICE = 9, 8, 7, 6, 5, 4, 3, 2, 1
Spelled = tuple[str, int]
UseHelper = Callable[[str, str], str]  # (helper, type) -> the name to call


def unsigned_of(type: str) -> str:
    """The type that C computes integers of `type` in: it wraps, where others may do anything."""
    return "uint64_t" if size_of(type) == 8 else "uint32_t"


def constant(value: Number, type: str) -> Spelled:
    """A constant of an element type."""
    if type == "bool":
        return ("1" if value else "0"), ATOM
    if is_complex(type):
        number = complex(value)
        parts = ", ".join(constant(part, half_of(type))[0] for part in (number.real, number.imag))
        return f"__builtin_complex({parts})", ATOM
    if is_float(type):
        return _real(float(value.real if isinstance(value, complex) else value), type)
    return _integer(int(value.real if isinstance(value, complex) else value), type)


def _real(value: float, type: str) -> Spelled:
    suffix = "f" if type == "float32" else ""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")', ATOM
    if math.isinf(value):
        return (
            (f"-__builtin_inf{suffix}()", UNARY)
            if value < 0
            else (f"__builtin_inf{suffix}()", ATOM)
        )
    text = repr(value) + suffix
    return text, UNARY if text.startswith("-") else ATOM


def _integer(value: int, type: str) -> Spelled:
    if type in ("uint32", "uint64"):
        return f"{value}u", ATOM
    if value == -(2**63):
        return "(-9223372036854775807 - 1)", ATOM
    return str(value), UNARY if value < 0 else ATOM


def paren(spelled: Spelled, least: int) -> str:
    """The text, in parentheses if it binds less tightly than `least`."""
    text, precedence = spelled
    return text if precedence >= least else f"({text})"


def convert(value: Spelled, source: str, to: str) -> Spelled:
    """A conversion between element types."""
    if to == "bool":
        return f"{paren(value, LESS)} != 0", EQUAL
    return f"({CTYPES[to]}){paren(value, UNARY)}", UNARY


_INFIX = {"add": ("+", PLUS), "sub": ("-", PLUS), "mul": ("*", TIMES), "div": ("/", TIMES)}
_COMPARE = {
    "lt": ("<", LESS), "le": ("<=", LESS), "gt": (">", LESS), "ge": (">=", LESS),
    "eq": ("==", EQUAL), "ne": ("!=", EQUAL),
}  # fmt: skip
# The complement is that of the bits; among bools each is the logic of its name.
_BITS = {
    "bitwise_and": ("&", "and"), "bitwise_or": ("|", "or"), "bitwise_xor": ("^", "xor"),
    "invert": ("~", "not"),
}  # fmt: skip
# Operators that C has not, or leaves undefined for some arguments.
_CALLED = ("floor_divide", "remainder", "left_shift", "right_shift", "pow")
_FUNCTIONS = ("sqrt", "exp", "log", "sin", "cos", "tan", "tanh")


def operator(op: Op, args: list[Spelled], types: list[str], type: str, use: UseHelper) -> Spelled:
    """An application of a built-in operator whose arguments have element types `types`."""
    name = op.name
    if name == "add" and op.annihilator is not None and is_integer(type):
        far = "add_inf" if float(op.annihilator.real) > 0 else "add_minus_inf"
        return f"{use(far, type)}({args[0][0]}, {args[1][0]})", ATOM
    if name in _INFIX:
        return _arithmetic(name, args, type)
    if name in _COMPARE:
        sign, level = _COMPARE[name]
        if is_complex(types[0]) and name not in ("eq", "ne"):
            return f"{use(name, types[0])}({args[0][0]}, {args[1][0]})", ATOM
        return f"{paren(args[0], level + 1)} {sign} {paren(args[1], level + 1)}", level
    if name in ("and", "or", "xor", "not"):
        return _logic(name, args)
    if name in _BITS:
        return _bitwise(name, args, type)
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
    if name == "pow":
        return f"__builtin_pow{_suffix(type)}({args[0][0]}, {args[1][0]})", ATOM
    return _unary(name, args[0], types[0], type)


def _arithmetic(name: str, args: list[Spelled], type: str) -> Spelled:
    sign, level = _INFIX[name]
    if type == "bool":
        return _logic({"add": "or", "mul": "and"}[name], args)
    if is_integer(type) and type not in ("uint32", "uint64"):
        # Integers wrap, as NumPy's do; in C only wide unsigned arithmetic does.
        left, right = (f"({unsigned_of(type)}){paren(arg, UNARY)}" for arg in args)
        return f"({CTYPES[type]})({left} {sign} {right})", UNARY
    return f"{paren(args[0], level)} {sign} {paren(args[1], level + 1)}", level


def _logic(name: str, args: list[Spelled]) -> Spelled:
    if name == "not":
        return f"!{paren(args[0], UNARY)}", UNARY
    if name == "xor":
        return f"!{paren(args[0], UNARY)} != !{paren(args[1], UNARY)}", EQUAL
    sign, level = ("&&", AND) if name == "and" else ("||", OR)
    return f"{paren(args[0], level + 1)} {sign} {paren(args[1], level + 1)}", level


def _bitwise(name: str, args: list[Spelled], type: str) -> Spelled:
    sign, logic = _BITS[name]
    if type == "bool":
        return _logic(logic, args)
    if len(args) == 1:  # C computes in int, whose further bits an unsigned number has not
        return f"({CTYPES[type]})~{paren(args[0], UNARY)}", UNARY
    return f"({paren(args[0], UNARY)} {sign} {paren(args[1], UNARY)})", ATOM


def _suffix(type: str) -> str:
    return "f" if type in ("float32", "complex64") else ""


def _unary(name: str, arg: Spelled, source: str, type: str) -> Spelled:
    if name == "neg":
        if is_integer(type):
            return f"({CTYPES[type]})(0 - ({unsigned_of(type)}){paren(arg, UNARY)})", UNARY
        return f"-{paren(arg, ATOM)}", UNARY
    if name == "abs":
        return _absolute(arg, source)
    if name in ("real", "imag"):
        if is_complex(source):
            return f"__{name}__ {paren(arg, ATOM)}", UNARY
        return arg if name == "real" else constant(0, type)
    if name in ("floor", "ceil"):
        whole = not is_float(source)
        return arg if whole else (f"__builtin_{name}{_suffix(source)}({arg[0]})", ATOM)
    if name == "conj":
        return (f"~{paren(arg, ATOM)}", UNARY) if is_complex(source) else arg
    if name in _FUNCTIONS:
        prefix = "c" if is_complex(type) else ""
        return f"__builtin_{prefix}{name}{_suffix(type)}({arg[0]})", ATOM
    raise InternalError(f"C has no spelling for the operator {name}")


def _absolute(arg: Spelled, source: str) -> Spelled:
    if is_complex(source):
        return f"__builtin_cabs{_suffix(source)}({arg[0]})", ATOM
    if is_float(source):
        return f"__builtin_fabs{_suffix(source)}({arg[0]})", ATOM
    if not is_signed(source):
        return arg
    wide = unsigned_of(source)
    value = paren(arg, UNARY)
    return f"({CTYPES[source]})({value} < 0 ? 0 - ({wide}){value} : ({wide}){value})", UNARY
