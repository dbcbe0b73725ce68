"""precompute: a part of the expression into a workspace, ahead of its use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import cast

from openwork.algebra.operators import ADD, DIV, NEG, SEMIRINGS, Op
from openwork.algebra.types import Number
from openwork.errors import ScheduleError
from openwork.format.formats import dense
from openwork.format.levels import KeyLevel
from openwork.frozen import frozen
from openwork.index.absence import without
from openwork.index.nodes import Absent, Access, Apply, Expr, IndexVar, Literal, TensorVar
from openwork.index.show import show
from openwork.loops.nodes import Assign, Forall, Stmt, Where, nest_of
from openwork.loops.plan.assembly import Append, Shared, accesses_of
from openwork.loops.plan.nest import new_variables, provenance_of, with_nest
from openwork.loops.plan.plan import Plan
from openwork.loops.plan.presence import key_format, presence_matters, sparse_along
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Precompute
from openwork.loops.schedule.legality.loops import check_nest, drives_alone
from openwork.tree import Node, map_children, substitute, walk


def precompute(
    plan: Plan,
    expr: Expr,
    variables: Sequence[IndexVar],
    new: Sequence[IndexVar],
    workspace: TensorVar | str | None = None,
) -> Plan:
    """Compute `expr` into a workspace over `variables`, and read it from there.

    forall i: y = e * f   =>   forall i: y = w[i] * f  where  forall ip: w[ip] = e

    A loop that only `expr` depends on moves to where the workspace is filled, if the rest
    distributes over its sum, as it does for finite numbers. Legal where `expr` is part of
    one assignment inside loops over `variables`, and where absent entries stay absent. Buys partial
    results that are computed once, and loops that are scheduled separately.
    """
    if len(variables) != len(new):
        raise ScheduleError(
            f"precompute has {len(variables)} loops but {len(new)} new ones",
            code="E303",
            hint="name a new loop, or the same, for each",
        )
    if isinstance(expr, IndexVar):
        raise ScheduleError(
            f"{expr} is an index variable, which needs no workspace",
            code="E309",
            hint="precompute an expression over tensors",
        )
    new_variables(plan, *(n for v, n in zip(variables, new, strict=True) if v != n))
    site = _find(plan, expr, variables)
    provenance = provenance_of(plan)
    builder = _Workspace(plan, provenance, site, tuple(variables), tuple(new), workspace)
    place, made = builder.build()
    aliases = [Precompute(v, n) for v, n in zip(variables, new, strict=True) if v != n]

    def put(node: Node) -> Node:
        return made if node is place else map_children(node, put)

    return check_nest(with_nest(plan, cast(Stmt, put(nest_of(plan.loops))), *aliases))


@frozen
class _Site:
    """Where the expression is: the loops around it that lie directly inside each other."""

    chain: tuple[Forall, ...]
    assign: Assign
    expr: Expr
    rest: Expr  # the right side with a hole for the expression
    hole: Access


_HOLE = "precomputed"


def _find(plan: Plan, expr: Expr, variables: Sequence[IndexVar]) -> _Site:
    hole = Access(TensorVar(_HOLE, dense(0), expr.dtype, 0), ())
    found: list[_Site] = []

    def look(stmt: Node, chain: tuple[Forall, ...]) -> None:
        match stmt:
            case Forall(body=body):
                look(body, (*chain, stmt))
            case Assign(rhs=rhs):
                rest = _without(rhs, expr, hole)
                if rest is not None:
                    found.append(_Site(chain, stmt, expr, rest, hole))
            case Where(consumer=consumer, producer=producer):
                look(producer, ())
                look(consumer, ())

    look(nest_of(plan.loops), ())
    if not found:
        raise ScheduleError(
            f"{show(expr)} is not part of the statement",
            code="E309",
            hint=f"it computes {show(plan.assignment.rhs)}",
        )
    usable = [s for s in found if {loop.var for loop in s.chain} >= set(variables)]
    if not usable:
        missing = [v for v in variables if v not in {loop.var for loop in found[0].chain}]
        raise ScheduleError(
            f"{show(expr)} is not directly inside of a loop over {missing[0]}",
            code="E309",
            hint="precompute over loops that are around the expression, with nothing in between",
        )
    if len(usable) > 1:
        raise ScheduleError(
            f"{show(expr)} is computed in {len(usable)} places",
            code="E309",
            hint="precompute a larger expression that is computed in one",
        )
    return usable[0]


def _without(rhs: Expr, expr: Expr, hole: Access) -> Expr | None:
    """`rhs` with `hole` in place of `expr`; terms that commute may stand in any order."""
    if any(node == expr for node in walk(rhs)):
        return substitute(rhs, {expr: hole})
    if isinstance(expr, Apply) and expr.op.commutes and expr.op.associates:
        for node in walk(rhs):
            if isinstance(node, Apply) and node.op == expr.op:
                left, wanted = _terms(node, expr.op), _terms(expr, expr.op)
                if any(term.dtype != expr.dtype for term in left):
                    continue
                rest = _taken(left, wanted, hole, expr.commutes)
                if rest is not None:
                    first, *others = rest
                    new = reduce(lambda a, b: Apply(expr.op, (a, b)), others, first)
                    return substitute(rhs, {node: new})
    return None


def _taken(terms: list[Expr], wanted: list[Expr], hole: Access, commute: bool) -> list[Expr] | None:
    """`terms` with `hole` in place of those `wanted`; None if not all of these are there."""
    if commute:
        if any(terms.count(term) < wanted.count(term) for term in wanted):
            return None
        for term in wanted:
            terms.remove(term)
        return [hole, *terms]
    for start in range(len(terms) - len(wanted) + 1):  # then only side by side, in order
        end = start + len(wanted)
        if terms[start:end] == wanted:
            return [*terms[:start], hole, *terms[end:]]
    return None


def _terms(expr: Expr, op: Op) -> list[Expr]:
    if isinstance(expr, Apply) and expr.op == op:
        return [term for arg in expr.args for term in _terms(arg, op)]
    return [expr]


@frozen
class _Workspace:
    """The statement that fills a workspace and reads it."""

    plan: Plan
    provenance: Provenance
    site: _Site
    variables: tuple[IndexVar, ...]
    new: tuple[IndexVar, ...]
    given: TensorVar | str | None

    def build(self) -> tuple[Forall, Where]:
        """The loop to replace, and its replacement."""
        site, chain, provenance = self.site, self.site.chain, self.provenance
        reads = provenance.roots_of(_index_vars(site.expr))
        rest = provenance.roots_of(_index_vars(site.rest))
        rest |= provenance.roots_of(site.assign.lhs.vars)
        around = [n for n, loop in enumerate(chain) if loop.var in self.variables]
        start = min(around, default=len(chain))
        while start and self._only(chain[start - 1], reads, rest):
            start -= 1
        moved: list[Forall] = []
        filling: list[Forall] = []
        using: list[Forall] = []
        for loop in chain[start:]:
            roots = provenance.roots(loop.var)
            if loop.var in self.variables:
                name = self.new[self.variables.index(loop.var)]
                filling.append(replace(loop, var=name, unroll=None, ahead=()))
                using.append(loop)
            elif self._only(loop, reads, rest):
                moved.append(loop)
                filling.append(loop)
            elif roots & reads:
                self._check_distributes(loop, roots & rest)
                raise ScheduleError(
                    f"{show(site.expr)} changes with {loop.var}, which is inside of "
                    f"{chain[start].var}",
                    code="E309",
                    hint=f"precompute over {loop.var} as well, or reorder it outside",
                )
            else:
                using.append(loop)
        if start == len(chain):
            raise ScheduleError(
                f"no loop is over {show(site.expr)} alone, so there is nothing to compute ahead",
                code="E309",
                hint="name the loops that the workspace has entries for",
            )
        self._check_positions(chain[start])
        tensor = self._tensor(bool(moved))
        op = site.assign.op if moved else None
        fill = Access(tensor, self.new)
        read = Access(tensor, self.variables)
        rhs = substitute(site.rest, {site.hole: read})
        tensor, guarded = self._presence(tensor, read, rhs, moved)
        fill, read = replace(fill, tensor=tensor), replace(read, tensor=tensor)
        rhs = substitute(site.rest, {site.hole: read})
        self._check_pattern(chain[start:], rhs)
        producer: Stmt = Assign(fill, site.expr, op)
        consumer: Stmt = Assign(site.assign.lhs, rhs, self._operator(start, using))
        for loop in reversed(filling):
            producer = replace(loop, body=producer)
        for loop in reversed(using):
            consumer = replace(loop, body=consumer)
        return chain[start], Where(consumer, producer, tensor, guarded)

    def _only(self, loop: Forall, reads: frozenset[IndexVar], rest: frozenset[IndexVar]) -> bool:
        """Whether a reduction loop concerns the expression alone."""
        roots = self.provenance.roots(loop.var)
        return (
            loop.var not in self.variables
            and roots <= reads
            and not roots & rest
            and self.site.assign.op is not None
            and loop.tag is None
            and _distributes(self.site, self.site.assign.op)
        )

    def _check_distributes(self, loop: Forall, shared: frozenset[IndexVar]) -> None:
        op = self.site.assign.op
        if not shared and (op is None or not _distributes(self.site, op)):
            raise ScheduleError(
                f"the rest of the statement does not distribute over the sum over {loop.var}",
                code="E309",
                hint=f"reorder {loop.var} outside of {', '.join(map(str, self.variables))}",
            )

    def _check_positions(self, first: Forall) -> None:
        """A workspace over positions is filled where one operand has entries, and nowhere else."""
        for var in self.variables:
            pos = self.provenance.space(var)
            if pos is None:
                continue
            if not drives_alone(pos, first, self.provenance) or isinstance(
                self.plan.assembly, Append
            ):
                raise ScheduleError(
                    f"{var} counts positions of {pos.access.tensor}, but there is work elsewhere "
                    "too, or another sparse operand",
                    code="E309",
                    hint="precompute before pos, over coordinates",
                )

    def _check_pattern(self, loops: tuple[Forall, ...], rhs: Expr) -> None:
        """A result with an operand's pattern is written where that operand has entries."""
        assembly, site = self.plan.assembly, self.site
        if not isinstance(assembly, Shared) or site.assign.lhs.tensor != self.plan.result:
            return
        operand, shared = assembly.operand, set(assembly.operand.level_vars[: assembly.depth])
        if isinstance(without(rhs, (operand,)), Absent):
            return
        for loop in loops:
            pos = self.provenance.space(loop.var)
            counted = pos is not None and pos.access == operand
            if self.provenance.roots(loop.var) & shared and not counted:
                raise ScheduleError(
                    f"{self.plan.result} has the pattern of {operand.tensor}, which would no "
                    "longer decide where it is written",
                    code="E309",
                    hint=f"leave {operand.tensor} out of the expression, or make the result dense",
                )

    def _operator(self, start: int, using: list[Forall]) -> Op | None:
        """How the result is written: sums that moved away leave a plain assignment."""
        assign, provenance = self.site.assign, self.provenance
        around = [*_around(self.plan, self.site.chain[0]), *self.site.chain[:start], *using]
        known = provenance.recoverable(assign.lhs.vars)
        summed = any(loop.var not in known for loop in around)
        is_result = assign.lhs.tensor == self.plan.result
        old = self.plan.assignment.op if is_result else None
        return assign.op if summed or old is not None else None

    def _tensor(self, moved: bool) -> TensorVar:
        """The workspace: what is not given follows from the statement."""
        site, given = self.site, self.given
        dtype = site.expr.dtype
        taken = {n.name for n in walk(self.plan.loops) if isinstance(n, TensorVar)}
        name = given.name if isinstance(given, TensorVar) else given
        if name is not None and name in taken:
            raise ScheduleError(
                f"the statement already has a tensor {name}",
                code="E309",
                hint="give the workspace another name",
            )
        if name is None:
            numbers = (f"w{n}" if n else "w" for n in range(len(taken) + 1))
            name = next(n for n in numbers if n not in taken)
        if isinstance(given, TensorVar) and (
            given.ndim != len(self.variables) or given.dtype != dtype or not given.format.is_dense
        ):
            raise ScheduleError(
                f"the workspace {name} must be dense, of {dtype} and with {len(self.variables)} "
                f"mode{'' if len(self.variables) == 1 else 's'}",
                code="E309",
                hint="leave it out, and it follows from the statement",
            )
        shape = (None,) * len(self.variables)
        return TensorVar(name, dense(len(self.variables)), dtype, self._fill(moved), shape)

    def _fill(self, moved: bool) -> Number:
        """The initial value of the workspace: an empty sum, or the value of an absent entry."""
        expr, op = self.site.expr, self.site.assign.op
        if moved and op is not None:
            return op.identity_of(expr.dtype)
        left = without(expr, accesses_of(expr))
        return left.value if isinstance(left, Absent) else 0

    def _presence(
        self, tensor: TensorVar, read: Access, rhs: Expr, moved: list[Forall]
    ) -> tuple[TensorVar, bool]:
        """Track which entries are absent, where that differs from a zero."""
        site, provenance = self.site, self.provenance
        written = site.assign.lhs.tensor
        appends = isinstance(self.plan.assembly, Append) and written == self.plan.result
        appends |= any(isinstance(kind, KeyLevel) for kind in written.format.levels)
        wheres = [n for n in walk(self.plan.loops) if isinstance(n, Where)]
        appends |= any(n.guarded and n.temporary == written for n in wheres)  # or is it absent?
        roots = provenance.roots_of(self.variables)
        made = {n.temporary for n in wheres}
        gaps = sparse_along(site.expr, roots, made)
        # An appended result would get entries wherever a dense workspace has them.
        filled = appends and gaps
        if not filled and not presence_matters(site.assign.lhs, None, rhs, read, appends, made):
            return tensor, False
        in_positions = all(provenance.space(v) is not None for v in self.variables)
        if gaps and not in_positions:
            if any(v in provenance.above for v in self.variables):
                where = [str(v) for v in roots if sparse_along(site.expr, [v], made)]
                where = sorted(where or map(str, roots))
                raise ScheduleError(
                    f"{show(site.expr)} has no entry at some {', '.join(where)}, which a workspace "
                    f"over {', '.join(map(str, self.variables))} does not record",
                    code="E309",
                    hint=f"precompute over {', '.join(where)} itself",
                )
            return replace(tensor, format=key_format(len(self.variables))), False
        summed = provenance.roots_of(loop.var for loop in moved)
        return tensor, sparse_along(site.expr, summed, made)


def _around(plan: Plan, inner: Forall) -> list[Forall]:
    """The loops around `inner`."""

    def look(stmt: Node, chain: list[Forall]) -> list[Forall] | None:
        if stmt is inner:
            return chain
        match stmt:
            case Forall(body=body):
                return look(body, [*chain, stmt])
            case Where(consumer=consumer, producer=producer):
                found = look(producer, chain)
                return look(consumer, chain) if found is None else found
        return None

    return look(nest_of(plan.loops), []) or []


def _index_vars(expr: Expr) -> set[IndexVar]:
    return {n for n in walk(expr) if isinstance(n, IndexVar)}


def _distributes(site: _Site, over: Op) -> bool:
    """Whether sums by `over` can be taken before the rest of the right side is applied."""

    def holds(expr: Expr) -> bool:
        if expr == site.hole:
            return True
        if not isinstance(expr, Apply) or expr.dtype != site.hole.dtype:
            return False
        holding = [n for n, arg in enumerate(expr.args) if any(x == site.hole for x in walk(arg))]
        if len(holding) != 1:
            return False
        return _law(expr, holding[0], over) and holds(expr.args[holding[0]])

    return holds(site.rest)


def _law(expr: Apply, position: int, over: Op) -> bool:
    """x op (a over b) == (x op a) over (x op b)

    For a quotient, only where the divisor is known not to be zero: 1/0 - 1/0 is not 0/0.
    """
    op, (*_, last) = expr.op, expr.args
    if over == ADD and op == DIV:
        return position == 0 and isinstance(last, Literal) and last.value != 0
    if over == ADD and op == NEG:
        return True
    return any(op == ring.mul and over == ring.add for ring in SEMIRINGS.values())
