"""Promised extents: what bounds give exactly is a constant of the program."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from openwork.index.nodes import IndexVar
from openwork.loops.nodes import relations_of
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Bound, BoundType
from openwork.program import nodes as p
from openwork.program.nodes import Value
from openwork.tree import Node, bottom_up, substitute


def with_promised_extents(
    program: p.Program, plan: Plan, variables: tuple[IndexVar, ...]
) -> p.Program:
    """`program` for the extents that bounds give exactly; every call checks them first."""
    provenance = Provenance(relations_of(plan.loops))
    sizes = dict(zip(variables, program.sizes, strict=False))  # strides follow the extents
    promised = promised_extents(provenance)
    table: dict[Node, Node] = {sizes[v]: Value(n) for v, n in promised.items() if v in sizes}
    if not table:
        return program
    body = _fold(substitute(program.body, table))
    return replace(program, body=cast(p.Block, body))


def promised_extents(provenance: Provenance) -> dict[IndexVar, int]:
    """The extents of variables of the statement that bounds give exactly."""
    found: dict[IndexVar, int] = {}
    for relation in provenance.relations:
        if not isinstance(relation, Bound) or relation.kind is not BoundType.MaxExact:
            continue
        var = provenance.unrenamed(relation.parent)
        if var not in provenance.above:
            found[var] = relation.value
    return found


def _known(node: Node) -> Node | None:
    """2 + 3 => 5, if (3 == 3) a else b => a"""
    match node:
        case p.Binary(sign=sign, left=p.Value() as a, right=p.Value() as b) if (
            sign in ("==", "!=", "<", "<=") and a.type == b.type == p.INDEX
        ):
            holds = {
                "==": a.value == b.value,
                "!=": a.value != b.value,
                "<": a.value.real < b.value.real,
                "<=": a.value.real <= b.value.real,
            }[sign]
            return Value(holds, "bool")
        case p.Binary(sign="+" | "-" | "*" | "/" | "min" | "max" as sign, left=left, right=right):
            new = p.arithmetic(sign, left, right)
            return None if new == node else new
        case p.If(condition=p.Value(value=True), then=then):
            return then
        case p.If(condition=p.Value(value=False), otherwise=otherwise):
            return p.Block(()) if otherwise is None else otherwise
    return None


_fold = bottom_up(_known)
