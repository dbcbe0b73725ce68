"""Loops over sines and cosines: in vectors where all angles are near 0, else one by one.

A large angle takes a hundred digits of pi, which no formula for vectors has. So a pass over the
angles looks for one first. Both loops compute the same: `sin` is `near_sin` where that is right.
"""

from __future__ import annotations

from collections.abc import Callable

from openwork.program import nodes as p
from openwork.render.c.function_helpers import FAR
from openwork.render.c.writer import ANGLES, CWriter
from openwork.render.spelling import suffix_of
from openwork.render.writer import indent
from openwork.tree import Node, walk

_LAZY = ("select", "and", "or")  # as C spells them


def angles_of(w: CWriter, s: p.For) -> list[p.Expr]:
    """The arguments of sines and cosines in a loop; none unless all are known before it."""
    applied = [
        e
        for e in walk(s.body)
        if isinstance(e, p.Apply)
        and e.op.name in ANGLES
        and (e.op.name, e.type) in w.dialect.formulas
    ]
    changed: set[str] = set()
    for node in p.statements(s.body):
        match node:
            case p.Declare(name=name) | p.Set(name=name):
                changed.add(name.name)
            case p.Store(array=array):
                changed.add(array.name)
            case p.Block():
                pass
            case _:  # what is loaded under a condition may not be there without it
                return []
    if any(map(_is_lazy, walk(s.body))):
        return []
    found = list(dict.fromkeys(e.args[0] for e in applied))
    for part in (part for angle in found for part in walk(angle)):
        if isinstance(part, (p.Name, p.Array)) and part.name in changed:
            return []
        if isinstance(part, p.Helper) or (isinstance(part, p.Apply) and part in applied):
            return []
    return found


def _is_lazy(node: Node) -> bool:
    """Whether C evaluates some operands only where others ask for them."""
    if isinstance(node, p.Binary):
        return node.sign in ("&&", "||")
    return isinstance(node, p.Apply) and node.op.name in _LAZY


def near_or_far(
    w: CWriter,
    s: p.For,
    begin: p.Expr,
    end: p.Expr,
    angles: list[p.Expr],
    loop: Callable[[bool], list[str]],
) -> list[str]:
    """`loop(True)`, in vectors, where no angle is far from 0; else `loop(False)`."""
    var = s.var.name
    far = f"{var}_far"
    tests = [f"{far} |= __builtin_fabs{suffix_of(a.type)}({w.text(a)}) >= {FAR};" for a in angles]
    more = w.text(p.compare("<", s.var, end))
    lines = [
        f"{'int32_t' if angles[0].type == 'float32' else 'int64_t'} {far} = 0;",
        f"#pragma omp simd reduction(| : {far})",
        f"for (int64_t {var} = {w.text(begin)}; {more}; {var}++) {{",
        *indent(tests),
        "}",
    ]
    w.near = True
    near = loop(True)
    w.near = False
    lines += [f"if (!{far}) {{", *indent(near), "} else {", *indent(loop(False)), "}"]
    return ["{", *indent(lines), "}"]
