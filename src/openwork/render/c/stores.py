"""Stores that are more than an assignment: atomic and streaming ones."""

from __future__ import annotations

from openwork.algebra.types import half_of, is_complex, is_float, is_integer, size_of
from openwork.program import nodes as p
from openwork.program.elements import applied
from openwork.render.c.dialect import CTYPES
from openwork.render.c.writer import CWriter
from openwork.render.writer import indent

_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def is_streamed(s: p.Stmt) -> bool:
    """Whether `s` bypasses the cache; an update must load its element, and gains nothing."""
    return isinstance(s, p.Store) and s.stream and s.op is None and not s.atomic


def needs_lock(s: p.Stmt) -> bool:
    """Whether `s` is an atomic update of more bytes than the processor can compare and exchange."""
    return isinstance(s, p.Store) and s.atomic and size_of(s.array.type) > 8 and not _splits(s)


def store(w: CWriter, s: p.Store) -> list[str]:
    """`s` as C."""
    if s.atomic:
        return _atomic(w, s)
    if is_streamed(s):
        type = s.array.type
        if is_complex(type):
            w.use("stream", half_of(type))
        place = w.text(p.Load(s.array, s.index))
        return [f"{w.use('stream', type)}(&{place}, {w.text(s.value)});"]
    return [f"{w.update(p.Load(s.array, s.index), s.value, s.op)};"]


def _atomic(w: CWriter, s: p.Store) -> list[str]:
    """An atomic update by OpenMP or a compiler builtin, or else by compare and exchange."""
    type, place, value = s.array.type, p.Load(s.array, s.index), w.text(s.value)
    name = "write" if s.op is None else s.op.name if s.op.definition is None else ""
    if name == "write" and not is_complex(type):
        return ["#pragma omp atomic write", f"{w.text(place)} = {value};"]
    if name in _ARITHMETIC and is_float(type):
        return ["#pragma omp atomic", f"{w.text(place)} {_ARITHMETIC[name]}= {value};"]
    if name in ("add", "sub") and is_integer(type):
        # As the pragma, but with guaranteed wrap-around.
        return [f"__atomic_fetch_{name}(&{w.text(place)}, {value}, __ATOMIC_RELAXED);"]
    if _splits(s):
        return _halves(w, s)
    if size_of(type) > 8:
        line = f"{w.update(place, s.value, s.op)};"
        return ["#pragma omp critical (openwork_update)", f"{{ {line} }}"]
    return _exchange(w, s)


def _splits(s: p.Store) -> bool:
    """Whether the real and the imaginary part may be updated separately."""
    return s.op is not None and s.op.name in ("add", "sub") and s.array.type == "complex128"


def _halves(w: CWriter, s: p.Store) -> list[str]:
    """Two atomic updates: each part of a sum depends only on parts of its kind."""
    name, ctype = s.array.name, CTYPES[s.array.type]
    sign = "+" if s.op is not None and s.op.name == "add" else "-"
    lines = [
        f"double *const {name}_at = (double *)&{w.text(p.Load(s.array, s.index))};",
        f"const {ctype} {name}_given = {w.text(s.value)};",
    ]
    for n, part in enumerate(("real", "imag")):
        lines += ["#pragma omp atomic", f"{name}_at[{n}] {sign}= __{part}__ {name}_given;"]
    return ["{", *indent(lines), "}"]


def _exchange(w: CWriter, s: p.Store) -> list[str]:
    """Compute the new element from the old one until no other thread has changed it meanwhile."""
    type, array = s.array.type, s.array.name
    bits, ctype = f"uint{8 * size_of(type)}", CTYPES[type]
    word = w.use("word", bits)
    old, given = p.Name(f"{array}_old", type), p.Name(f"{array}_given", type)
    new = given if s.op is None else applied(s.op, old, given)
    orders = "__ATOMIC_RELAXED, __ATOMIC_RELAXED"
    compute = [
        f"__builtin_memcpy(&{array}_old, &{array}_seen, sizeof {array}_old);",
        f"const {ctype} {array}_new = {w.text(new)};",
        f"__builtin_memcpy(&{array}_next, &{array}_new, sizeof {array}_next);",
    ]
    lines = [
        f"{word} *const {array}_at = ({word} *)&{w.text(p.Load(s.array, s.index))};",
        f"const {ctype} {array}_given = {w.text(s.value)};",
        f"{CTYPES[bits]} {array}_seen = __atomic_load_n({array}_at, __ATOMIC_RELAXED);",
        f"{CTYPES[bits]} {array}_next;",
        f"{ctype} {array}_old;",
        "do {",
        *indent(compute),
        f"}} while (!__atomic_compare_exchange_n({array}_at, &{array}_seen, {array}_next, 1,",
        f"                                       {orders}));",
    ]
    return ["{", *indent(lines), "}"]
