"""The rules of loops: run on every nest before it is lowered.

Every variable is bound by a loop around its use and by only one, a temporary is written before it
is read and nowhere else, and reductions are loops: none is left inside an expression.
"""

from __future__ import annotations

from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.index.nodes import Access, Expr, IndexVar, Reduce, TensorVar
from openwork.loops.nodes import (
    Assign,
    Forall,
    Sequence,
    Stmt,
    Where,
    nest_of,
    relations_of,
    written,
)
from openwork.loops.provenance import Provenance
from openwork.tree import walk


def verify_loops(stmt: Stmt, tensors: frozenset[str]) -> None:
    """Raise `InternalError` if `stmt`, over the user's `tensors`, breaks a rule."""
    _Rules(Provenance(relations_of(stmt))).verify(nest_of(stmt), frozenset(), tensors)


@frozen
class _Rules:
    """The rules for one nest; `provenance` says what derived loops make known."""

    provenance: Provenance

    def verify(self, stmt: Stmt, bound: frozenset[IndexVar], known: frozenset[str]) -> None:
        match stmt:
            case Forall(var=var, body=body):
                if var in bound:
                    raise InternalError(f"{var} is bound twice:\n{stmt}")
                self.verify(body, bound | {var}, known)
            case Assign(lhs=lhs, rhs=rhs):
                reachable = self.provenance.recoverable(bound)
                for expr in (lhs, rhs):
                    _verify_expr(expr, reachable, known)
            case Where(consumer=consumer, producer=producer, temporary=temporary):
                _fresh(temporary, known)
                inner = known | {temporary.name}
                if written(producer).tensor != temporary:
                    raise InternalError(f"{temporary} is not what its producer writes:\n{stmt}")
                self.verify(producer, bound, inner)
                self.verify(consumer, bound, inner)
            case Sequence(first=first, then=then):
                self.verify(first, bound, known)
                self.verify(then, bound, known)
            case _:
                raise InternalError(f"{type(stmt).__name__} is not a statement of loops")


def _verify_expr(expr: Expr, bound: frozenset[IndexVar], known: frozenset[str]) -> None:
    for node in walk(expr):
        match node:
            case IndexVar() if node not in bound:
                raise InternalError(f"{node} is used outside of its loop, in {expr}")
            case Access(tensor=tensor) if tensor.name not in known:
                raise InternalError(f"{tensor} is used before it is made, in {expr}")
            case Reduce():
                raise InternalError(f"a reduction is left in {expr}")


def _fresh(temporary: TensorVar, known: frozenset[str]) -> None:
    if temporary.name in known:
        raise InternalError(f"the temporary {temporary} has the name of another tensor")
