"""SIMD vectors in C: by the extensions that gcc and clang share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from openwork.program import nodes as p
from openwork.program.vectorize import InVectors, SumLanes
from openwork.render.c.dialect import CTYPES
from openwork.render.c.vector_helpers import vector_kind
from openwork.render.c.writer import CWriter
from openwork.render.precedence import ATOM, PLUS, TIMES, Spelled, paren
from openwork.render.writer import indent, remark
from openwork.tree import walk

# Operators on vectors; the others that are `lanewise` are helpers.
_SIGNS = {"add": ("+", PLUS), "sub": ("-", PLUS), "mul": ("*", TIMES), "div": ("/", TIMES)}


def local(w: CWriter, s: p.Local) -> list[str]:
    """The declaration of a small array."""
    array = s.array
    if not array.vectors:
        return [f"{CTYPES[array.type]} {array.name}[{s.count}];"]
    kind = vector_kind(array.type, array.vectors)
    return [f"{w.use('vector', kind)} {array.name}[{s.count} / LANES_{kind}];"]


def in_vectors(w: CWriter, s: InVectors) -> list[str]:
    """An unrolled loop over whole vectors."""
    kind = vector_kind(s.type, s.bytes)
    w.use("vector", kind)
    var, step = s.var.name, f"LANES_{kind}"
    head = f"for (int64_t {var} = 0; {var} < {s.count}; {var} += {step}) {{"
    body = s.body.body if isinstance(s.body, p.Block) else (s.body,)
    lines = [line for one in body for line in _stmt(w, one, _Varying(s))]
    return [*remark(s.comment), f"#pragma GCC unroll {s.count}", head, *indent(lines), "}"]


def sum_lanes(w: CWriter, s: SumLanes) -> list[str]:
    """Add all elements to a scalar."""
    kind = vector_kind(s.array.type, s.array.vectors)
    w.use("vector", kind)
    total = w.use("sum", kind)
    return [f"{s.name.name} += {total}({s.array.name}, {s.count} / LANES_{kind});"]


@dataclass
class _Varying:
    """The names that differ from lane to lane in a loop."""

    loop: InVectors

    def __post_init__(self) -> None:
        self.kind = vector_kind(self.loop.type, self.loop.bytes)
        declared = (n.name for n in walk(self.loop.body) if isinstance(n, p.Declare))
        self.names = {self.loop.var, *declared}

    def among(self, e: p.Expr) -> bool:
        """Whether `e` differs from lane to lane."""
        return any(n in self.names for n in walk(e))


def _stmt(w: CWriter, s: p.Stmt, varying: _Varying) -> list[str]:
    if not isinstance(s, p.Store):
        return w.stmt(s)
    load = p.Load(s.array, s.index)
    value = _vector(w, s.value, varying)
    place = _place(w, load, varying)
    if s.op is not None and s.op.name in _SIGNS:
        return [f"{place} {_SIGNS[s.op.name][0]}= {value[0]};"]
    if not varying.among(s.value):
        value = _spread(value, varying)
        if isinstance(s.value, p.Value) and s.value.value == 0:
            value = f"{'-' if str(s.value.value)[0] == '-' else ''}{_zeros(varying)}", PLUS
    if s.op is None:
        return [f"{place} = {value[0]};"]
    return [f"{place} = {w.use(f'{s.op.name}_lanes', varying.kind)}({place}, {value[0]});"]


def _zeros(varying: _Varying) -> str:
    return f"(vector_{varying.kind}){{0}}"


def _spread(value: Spelled, varying: _Varying) -> Spelled:
    """A scalar in all lanes of a vector."""
    return f"{paren(value, PLUS)} - {_zeros(varying)}", PLUS


def _place(w: CWriter, load: p.Load, varying: _Varying) -> str:
    """The address of a vector."""
    array, index = load.array, load.index
    if array.vectors:
        return f"{array.name}[{paren(w.expr(index), TIMES)} / LANES_{varying.kind}]"
    return f"*(near_{varying.kind} *)&{array.name}[{w.text(index)}]"


def _vector(w: CWriter, e: p.Expr, varying: _Varying) -> Spelled:
    """`e` for all lanes of a vector; a scalar where all lanes have the same value."""
    if not varying.among(e):
        return w.expr(e)
    if isinstance(e, p.Load):
        if e.array.vectors:
            return _place(w, e, varying), ATOM
        return f"*(const near_{varying.kind} *)&{e.array.name}[{w.text(e.index)}]", ATOM
    apply = cast(p.Apply, e)
    name = apply.op.name
    left, right = (_vector(w, arg, varying) for arg in apply.args)
    if name in _SIGNS:
        sign, level = _SIGNS[name]
        return f"{paren(left, level)} {sign} {paren(right, level + 1)}", level
    lanes = (
        value if varying.among(arg) else _spread(value, varying)
        for arg, value in zip(apply.args, (left, right), strict=True)
    )
    return f"{w.use(f'{name}_lanes', varying.kind)}({', '.join(each for each, _ in lanes)})", ATOM
