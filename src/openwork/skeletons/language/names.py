"""Names of bound variables: each is bound once in a program, so that nothing is ever captured."""

from __future__ import annotations

from typing import cast

from openwork.loops.fresh import take_name
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import Expr, Signature, Type
from openwork.tree import Node


def tidied(signature: Signature) -> Signature:
    """The program with readable names: the part after `#` is left out, or becomes a number."""
    taken = set(signature.nats) | set(signature.params)
    types = tuple(cast(Type, _positions(t, set(taken))) for t in signature.types)
    body = cast(Expr, _named(signature.body, taken, {}))
    return Signature(signature.nats, signature.params, types, body)


def tidied_type(type: Type) -> Type:
    """The type with readable names for its positions."""
    return cast(Type, _positions(type, set()))


def _base(name: str) -> str:
    return name.split("#")[0] or "x"


def _positions(node: Node, taken: set[str]) -> Node:
    """Types whose positions have readable names; those of two types may be the same."""
    if isinstance(node, n.ArrayType) and node.var:
        inner = set(taken)
        var = take_name(_base(node.var), inner)
        element = _positions(node.at(n.named(var)), inner)
        return n.ArrayType(cast(Type, element), node.length, var)
    return n.changed(node, lambda child: _positions(child, taken))


def _named(node: Node, taken: set[str], table: dict[str, str]) -> Node:
    match node:
        case n.Var(name=name):
            return n.Var(table.get(name, name))
        case n.Named(name=name):
            return n.Named(table.get(name, name))
        case n.Fun(param=param, body=body, type=type):
            fresh = take_name(_base(param), taken)
            inner = {**table, param: fresh}
            noted = None if type is None else cast(Type, _positions(type, set(taken)))
            return n.Fun(fresh, cast(Expr, _named(body, taken, inner)), noted)
        case n.NFun(param=param, body=body):
            fresh = take_name(_base(param), taken)
            inner = {**table, param: fresh}
            return n.NFun(fresh, cast(Expr, _named(body, taken, inner)))
        case n.Noted(expr=expr, type=type):
            found = cast(Expr, _named(expr, taken, table))
            return n.Noted(found, cast(Type, _positions(type, set(taken))))
    return n.changed(node, lambda child: _named(child, taken, table))
