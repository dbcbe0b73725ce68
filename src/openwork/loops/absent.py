"""What is left of a statement where operands are absent."""

from __future__ import annotations

from collections.abc import Collection

from openwork.algebra.types import number
from openwork.errors import InternalError
from openwork.index.absence import without
from openwork.index.nodes import Absent, Access, TensorVar
from openwork.loops.nodes import Assign, Forall, Sequence as Then, Stmt, Where
from openwork.loops.provenance import Provenance
from openwork.tree import replace, walk


def restrict(stmt: Stmt, absent: Collection[Access]) -> Stmt | None:
    """What is left of `stmt` where the accesses in `absent` have no entry; None if nothing."""
    match stmt:
        case Assign(lhs=lhs) if lhs in absent:
            return None  # a workspace over positions has no place for it
        case Assign(lhs=lhs, rhs=rhs, op=op):
            left = without(rhs, absent)
            if isinstance(left, Absent):
                nothing = lhs.tensor.fill if op is None else op.identity_of(lhs.dtype)
                if number(left.value, lhs.dtype) == number(nothing, lhs.dtype):
                    return None
            return stmt if left is rhs else replace(stmt, rhs=left)
        case Forall(body=body):
            inner = restrict(body, absent)
            return None if inner is None else replace(stmt, body=inner)
        case Where(consumer=consumer, producer=producer, temporary=temporary):
            made = restrict(producer, absent)
            if made is None:
                return restrict(consumer, {*absent, *reads_of(consumer, temporary)})
            used = restrict(consumer, absent)
            return None if used is None else replace(stmt, consumer=used, producer=made)
        case Then(first=first, then=then):
            a, b = restrict(first, absent), restrict(then, absent)
            if a is None or b is None:
                return b if a is None else a
            return Then(a, b)
    raise InternalError(f"no lattice rule for {stmt}")


def reads_of(stmt: Stmt, tensor: TensorVar) -> list[Access]:
    """The different accesses to `tensor` in `stmt`."""
    found = (n for n in walk(stmt) if isinstance(n, Access) and n.tensor == tensor)
    return list(dict.fromkeys(found))


def vanishes(body: Stmt, access: Access, provenance: Provenance) -> bool:
    """Whether nothing is left of `body` where `access` has no entry."""
    return restrict(body, [access, *followers(body, access, provenance)]) is None


def followers(body: Stmt, access: Access, provenance: Provenance) -> list[Access]:
    """The workspaces in `body` that are indexed by positions of `access`: absent where it is."""
    if not provenance.has_positions:
        return []
    found = (n for n in walk(body) if isinstance(n, Access))
    return [
        node
        for node in dict.fromkeys(found)
        if any((pos := provenance.space(v)) is not None and pos.access == access for v in node.vars)
    ]
