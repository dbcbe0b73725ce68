"""The numeric phase: a statement whose result has a pattern that is known already.

The pattern becomes an operand that masks everything else: `C(i,j) = e` turns into
`C(i,j) = within(P(i,j), e)`, whose value is that of `e`, and which is absent where P is. The
result shares the index arrays of P. So a workspace that only passes its entries on to the
result needs no list of its keys, which are those of P.
"""

from __future__ import annotations

from dataclasses import replace

from openwork.algebra.operators import Op
from openwork.errors import InternalError
from openwork.format.formats import dense
from openwork.format.levels import is_hashed
from openwork.index.absence import within
from openwork.index.nodes import Access, Apply, Assignment, TensorVar
from openwork.loops.absent import vanishes
from openwork.loops.nodes import Assign, Forall, Stmt, Where, nest_of, relations_of
from openwork.loops.plan.assembly import Shared, accesses_of
from openwork.loops.plan.nest import with_nest
from openwork.loops.plan.plan import Plan
from openwork.loops.plan.sorted import rises
from openwork.loops.provenance import Provenance
from openwork.tree import Node, bottom_up, substitute, walk


def known_pattern(plan: Plan, name: str) -> Plan:
    """`plan` for a result that has the pattern of an operand called `name`."""
    lhs = plan.assignment.lhs
    rhs = plan.assignment.rhs
    result = lhs.tensor
    pattern = replace(result, name=name, dtype=rhs.dtype, source=None)
    mask = Access(pattern, lhs.vars)
    levels = result.format.levels
    depth = max(n + 1 for n, level in enumerate(levels) if not level.full)

    def passed_on(node: Node) -> Node | None:
        if isinstance(node, Assign) and node.lhs.tensor == result:
            under = replace(mask, tensor=replace(pattern, dtype=node.rhs.dtype))
            return replace(node, rhs=within(under, node.rhs))
        return None

    body = bottom_up(passed_on)(nest_of(plan.loops))
    body = bottom_up(_unlisted)(body)
    if not isinstance(body, Stmt):
        raise InternalError("loops have turned into something else")
    typed = next(n for n in walk(body) if isinstance(n, Access) and n.tensor.name == name)
    assignment = Assignment(lhs, within(typed, rhs), None, plan.assignment.span)
    made = replace(plan, assignment=assignment, assembly=Shared(typed, depth))
    return with_nest(replace(made, loops=plan.loops), body)


def narrows(plan: Plan) -> bool:
    """Whether the numeric phase alone is less work: not for a plain union of operands.

    There every entry of an operand is one of the result, and the pattern is one more to merge. An
    unsorted pattern cannot be merged at all; it has to be all that is traversed.
    """
    loops = nest_of(plan.loops)
    if not rises(plan.result.format):
        return _only_passed_on(plan)
    if any(isinstance(node, Where) for node in walk(loops)):
        return True
    provenance = Provenance(relations_of(plan.loops))
    sparse = [a for a in accesses_of(plan.assignment.rhs) if not a.tensor.format.is_dense]
    return any(vanishes(loops, access, provenance) for access in sparse)


def _only_passed_on(plan: Plan) -> bool:
    """Whether the result is written once, from a workspace that is only passed on to it."""
    body = nest_of(known_pattern(plan, "").loops)
    made = [n for n in walk(body) if isinstance(n, Where)]
    writes = [n for n in walk(body) if isinstance(n, Assign) and n.lhs.tensor == plan.result]
    return len(writes) == 1 and len(made) == 1 and made[0].swept


def _unlisted(node: Node) -> Node | None:
    """A temporary that is only passed on has the pattern of the result."""
    if not isinstance(node, Where):
        return None
    read = _passed_on(node.consumer, node.temporary)
    if read is None:
        return None
    if node.guarded:
        return replace(node, guarded=False)
    format = node.temporary.format
    if format.is_dense or is_hashed(format.levels):
        return None
    plain = replace(node.temporary, format=dense(1))
    table: dict[Node, Node] = {node.temporary: plain}
    return replace(substitute(node, table), swept=True)


def _passed_on(stmt: Stmt, temporary: TensorVar) -> Access | None:
    """The one read of `temporary`, if all that is done with it is to store it in the result."""
    while isinstance(stmt, Forall):
        stmt = stmt.body
    match stmt:
        case Assign(rhs=Apply(op=Op(name="within"), args=(_, Access(tensor=tensor) as read))) if (
            tensor == temporary
        ):
            return read
    return None
