"""Atomic stores in CUDA: hardware atomics, and others by compare and exchange."""

from __future__ import annotations

from openwork.algebra.types import half_of, is_complex
from openwork.program import nodes as p
from openwork.program.elements import applied
from openwork.render.cuda.dialect import CUDA_TYPES
from openwork.render.precedence import ATOM, paren
from openwork.render.writer import Writer, indent

# Types with a hardware atomic add.
_ADDS = ("int32", "uint32", "uint64", "float32", "float64")


def atomic(w: Writer, s: p.Store) -> list[str]:
    """A hardware atomic, or else compare and exchange."""
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
        half = CUDA_TYPES[half_of(type)]
        lines = [
            f"{half} *const {s.array.name}_at = ({half} *){place};",
            f"const {CUDA_TYPES[type]} {s.array.name}_given = {value};",
            f"atomicAdd({s.array.name}_at, {s.array.name}_given.re);",
            f"atomicAdd({s.array.name}_at + 1, {s.array.name}_given.im);",
        ]
        return ["{", *indent(lines), "}"]
    return _exchange(w, s, place)


def _exchange(w: Writer, s: p.Store, place: str) -> list[str]:
    """Compute the new element from the old one until no other thread has changed it meanwhile."""
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
