"""From an assignment with explicit reductions to loops.

Loops are made in the chosen order. A result variable becomes a loop around everything that
follows. At a reduction variable the result is accumulated directly where it can be; otherwise each
reduction over it is computed into a temporary, over the variables that it still has open, and the
rest of the statement reads that temporary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field, replace

from openwork.algebra.operators import Op
from openwork.errors import InternalError
from openwork.format.formats import dense
from openwork.frozen import frozen
from openwork.index.einstein import free_vars
from openwork.index.nodes import Access, Expr, IndexVar, Reduce, TensorVar
from openwork.loops.nodes import Assign, Forall, Stmt, Where
from openwork.loops.plan.assembly import Append, Assembly
from openwork.loops.plan.presence import key_format, presence_matters, sparse_along
from openwork.tree import Node, children, substitute, walk

# A dense workspace of LARGE elements (64 MB of values and keys) is too much for every thread, and
# does not pay off if fewer than one in THIN is used.
LARGE, THIN = 1 << 22, 1 << 12


@frozen
class Concretizer:
    """Builds the loops of one statement."""

    order: tuple[IndexVar, ...]
    result: TensorVar
    assembly: Assembly
    extents: dict[IndexVar, int | None]
    names: Iterator[str]
    stored: float | None = None  # entries of all operands together, if that is known
    single: frozenset[IndexVar] = frozenset()  # they have one value for each of those before
    made: list[TensorVar] = field(default_factory=list)  # temporaries

    def build(
        self, at: int, lhs: Access, op: Op | None, rhs: Expr, bound: frozenset[IndexVar]
    ) -> Stmt:
        """Loops over `order[at:]` for `lhs op= rhs`, with the variables in `bound` already set."""
        if at == len(self.order):
            if any(isinstance(node, Reduce) for node in walk(rhs)):
                raise InternalError(f"a reduction was left over: {rhs}")
            return Assign(lhs, rhs, op)
        var = self.order[at]
        reductions = [r for r in _reductions(rhs) if var in _chain(r)[0]]
        if reductions == [rhs] and self._writes_once(lhs, op, reductions[0], var, bound):
            return Forall(var, self.build(at + 1, lhs, op, _chain(reductions[0])[1], bound | {var}))
        if reductions:
            if self._accumulates(lhs, op, rhs, reductions):
                chain, body = _chain(reductions[0])
                rest = _wrap(reductions[0].op, tuple(v for v in chain if v != var), body)
                inner = self.build(at + 1, lhs, reductions[0].op, rest, bound | {var})
                return Forall(var, inner)
            return self._through_temporaries(at, lhs, op, rhs, bound, reductions)
        if var not in lhs.vars or var in bound:
            return self.build(at + 1, lhs, op, rhs, bound)
        invariant = [r for r in _reductions(rhs) if r != rhs and var not in free_vars(r)]
        if invariant:
            return self._through_temporaries(at, lhs, op, rhs, bound, invariant)
        return Forall(var, self.build(at + 1, lhs, op, rhs, bound | {var}))

    def _writes_once(
        self, lhs: Access, op: Op | None, sum: Reduce, var: IndexVar, bound: frozenset[IndexVar]
    ) -> bool:
        """Whether `sum` has one term, which a result takes as it is.

        It does where its entries are appended within the loop over `var`.
        """
        appended = lhs.tensor == self.result and isinstance(self.assembly, Append)
        within = bool(lhs.vars) and lhs.level_vars[-1] not in bound
        return (
            appended and within and op is None and var in self.single and _chain(sum)[0] == (var,)
        )

    def _accumulates(self, lhs: Access, op: Op | None, rhs: Expr, found: list[Reduce]) -> bool:
        """Whether the reduction can go straight into `lhs`."""
        return (
            found == [rhs]
            and op in (None, found[0].op)
            and rhs.dtype == lhs.dtype
            and not (lhs.tensor == self.result and isinstance(self.assembly, Append))
        )

    def _through_temporaries(
        self,
        at: int,
        lhs: Access,
        op: Op | None,
        rhs: Expr,
        bound: frozenset[IndexVar],
        reductions: list[Reduce],
    ) -> Stmt:
        """`lhs op= rhs[t...] where t... = reductions`"""
        reduction = reductions[0]
        chain, body = _chain(reduction)
        used = free_vars(reduction)
        open_vars = tuple(v for v in self.order[at:] if v in used and v not in bound)
        dtype = reduction.dtype
        shape = tuple(self.extents[v] for v in open_vars)
        fill = reduction.op.identity_of(dtype)
        temporary = TensorVar(next(self.names), dense(len(open_vars)), dtype, fill, shape)
        access = Access(temporary, open_vars)
        guarded = False
        appends = isinstance(self.assembly, Append) and lhs.tensor == self.result
        after = substitute(rhs, {reduction: access})
        if presence_matters(lhs, op, after, access, appends, self.made):
            if sparse_along(body, open_vars, self.made):
                keyed = key_format(len(open_vars), self._is_hashed(open_vars, bound))
                access = Access(replace(temporary, format=keyed), open_vars)
            else:
                guarded = sparse_along(body, chain, self.made)
        self.made.append(access.tensor)
        producer = self.build(at, access, reduction.op, reduction, bound)
        consumer = self.build(at, lhs, op, substitute(rhs, {reduction: access}), bound)
        return Where(consumer, producer, access.tensor, guarded)

    def _is_hashed(self, open_vars: tuple[IndexVar, ...], bound: frozenset[IndexVar]) -> bool:
        """Whether a workspace over `open_vars` finds its keys through a hash table.

        It does if the result's format says so, or if it would else be large and nearly empty.
        """
        if any(level.inserts for level in self.result.format.levels):
            return True
        extent = math.prod(self.extents[v] or 0 for v in open_vars)
        rows = math.prod(self.extents[v] or 1 for v in bound)
        if self.stored is None or extent < LARGE:
            return False
        return self.stored / max(1, rows) * THIN < extent


def _reductions(expr: Expr) -> list[Reduce]:
    """The outermost reductions in `expr`, and those inside them with another operator."""
    return list(dict.fromkeys(n for n in _outer_reductions(expr)))


def _outer_reductions(node: Node) -> Iterator[Reduce]:
    if isinstance(node, Reduce):
        yield node
        _, body = _chain(node)
        yield from _outer_reductions(body)
        return
    for child in _expr_children(node):
        yield from _outer_reductions(child)


def _expr_children(node: Node) -> Iterator[Node]:
    return (child for child in children(node) if isinstance(child, Expr))


def _chain(reduction: Reduce) -> tuple[tuple[IndexVar, ...], Expr]:
    """The variables of directly nested reductions by one operator, and what they reduce."""
    variables = [reduction.var]
    body = reduction.expr
    while isinstance(body, Reduce) and body.op == reduction.op:
        variables.append(body.var)
        body = body.expr
    return tuple(variables), body


def _wrap(op: Op, variables: tuple[IndexVar, ...], body: Expr) -> Expr:
    for var in reversed(variables):
        body = Reduce(op, var, body)
    return body


def fresh_names(taken: frozenset[str], base: str = "w") -> Iterator[str]:
    """Names for temporaries that no tensor of the statement has."""
    number = 0
    while True:
        number += 1
        name = base if number == 1 else f"{base}{number}"
        if name not in taken:
            yield name
