"""Merges: loops that co-iterate over the sorted coordinates of several operands.

    while (pA < pA_end && pB < pB_end) { j = min(jA, jB); cases; advance }

Two operands are compared for equality first. Where they differ, the smaller coordinate is selected
without a branch, one coordinate ahead, or branched on; for a sum, the machine decides which.
"""

from __future__ import annotations

from openwork.errors import InternalError
from openwork.index.nodes import Access
from openwork.loops.nodes import Assign
from openwork.program import nodes as p
from openwork.program.lower.base.header import FEW, polls_of
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.walk.cases import Cases
from openwork.program.lower.walk.lattice import Point
from openwork.program.lower.walk.look_ahead import Ahead, look_ahead, renamed
from openwork.program.lower.walk.walkers import Walker
from openwork.program.nodes import Declare, Expr, Name, Value, block, compare, every


def merge_loop(cases: Cases, walkers: list[Walker], scope: Scope) -> p.Block:
    """One loop of a merge: all of `walkers` have entries left, the others are exhausted."""
    if not _looks_ahead(cases, walkers):
        return block(_in_order(cases, walkers, scope))
    either = _all_work_alone(cases, walkers)
    if either and not cases.ctx.names.facts.selects:
        return block(_in_order(cases, walkers, scope, branches=True))
    ahead, inner = look_ahead(cases.ctx, walkers, _tried(cases, walkers), scope)
    quick = _in_order(cases, list(ahead.walkers), inner, ahead)
    plain = _in_order(cases, walkers, scope, branches=either)
    return block(ahead.around(quick, plain))


def _in_order(
    cases: Cases,
    walkers: list[Walker],
    scope: Scope,
    ahead: Ahead | None = None,
    branches: bool = False,
) -> p.Stmt:
    """The loop, which may look ahead, or branch on which of two operands comes first."""
    if ahead is None:
        walkers, scope = renamed(walkers, scope, stored=branches)
    more = every([compare("<", w.position, w.end) for w in walkers])
    if more is None:
        raise InternalError("a merge loop without operands")
    var, scope = scope.fresh(cases.name)
    scope = scope.bind(cases.var, var)
    alone = len(walkers) == 1
    code: list[p.Stmt] = []
    least: Expr | None = None
    for w in walkers:
        here = w.coordinate_at(w.position)
        if not alone:
            code += [Declare(w.coordinate, here, fixed=True)] if ahead is None else []
            here = w.coordinate
        least = here if least is None else p.arithmetic("min", least, here)
    if least is None:
        raise InternalError("a merge loop without coordinates")
    if cases.loop.merge == "gallop" and _meets(cases, walkers):
        code.append(_gallop(cases, walkers, var, scope))
    elif len(walkers) == 2 and not any(w.segment or w.part.searched for w in walkers):
        code.append(_pair(cases, walkers, var, least, scope, ahead, branches))
    else:
        code.append(Declare(var, least, fixed=True))
        code += _each(cases, walkers, cases.points, var, scope).body
    those = " and ".join(cases.ctx.names.said(w.part.access.tensor) for w in walkers)
    comment = f"{cases.said} of {those}, in order" if not alone else f"rest of {those}"
    unroll = 0 if cases.loop.unroll is None else cases.loop.unroll or 2
    return p.While(more, block(*code), comment, polls(cases), unroll, brief=alone)


def _looks_ahead(cases: Cases, walkers: list[Walker]) -> bool:
    """Whether the work at a coordinate is so little that the latency of the next one matters."""
    return (
        isinstance(cases.loop.body, Assign)
        and cases.loop.merge != "gallop"
        and len(walkers) == 2
        and not cases.ctx.on_gpu
        and all(w.looks_ahead for w in walkers)
    )


def _all_work_alone(cases: Cases, walkers: list[Walker]) -> bool:
    """Whether each walker has work where the others are absent."""
    together = {w.part.access for w in walkers}
    working = [point.present & together for point in cases.points if point.body is not None]
    return all({access} in working for access in together)


def _tried(cases: Cases, walkers: list[Walker]) -> int:
    """Which of two walkers has the single-operand case that is tried first."""
    alone = [point.present for point in cases.points if len(point.present) == 1]
    return int(frozenset([walkers[1].part.access]) in alone[:1])


def _each(
    cases: Cases,
    walkers: list[Walker],
    points: list[Point],
    var: Name,
    scope: Scope,
    known: dict[Access, Expr | None] | None = None,
) -> p.Block:
    """Execute the case of the operands at coordinate `var`, and advance them.

    `known`: which of them are present, if comparisons need not tell.
    """
    code: list[p.Stmt] = []
    alone = len(walkers) == 1
    present: dict[Access, Expr | None] = dict(known or {})
    for w in walkers:
        here = None if alone else compare("==", w.coordinate, var)
        present.setdefault(w.part.access, here)
        code += w.find_segment(var)
    code += cases.at(present, walkers, scope, points=points).body
    for w in walkers:
        matched = present[w.part.access]
        code.append(w.advance(Value(1) if matched is None else matched))
    return block(*code)


def _pair(
    cases: Cases,
    walkers: list[Walker],
    var: Name,
    least: Expr,
    scope: Scope,
    ahead: Ahead | None = None,
    branches: bool = False,
) -> p.Stmt:
    """if (iA == iB) { both; pA++; pB++; } else { the lesser one; advance it }

    Whether two coordinates are equal is easy to predict where the patterns are alike, and seldom
    true where they are not. Which one is smaller is unpredictable, unless the entries of each are
    clustered: then a branch pays off.
    """
    one, other = walkers
    both = {w.part.access for w in walkers}
    steps = [w.advance(Value(1)) for w in walkers]
    meet = [point for point in cases.points if point.present >= both]
    apart = [point for point in cases.points if not point.present >= both]
    certain: dict[Access, Expr | None] = dict.fromkeys(both)
    # Where both are equal, a third operand may still be absent, and then a smaller case applies.
    settled = any(point.present <= both for point in meet)
    together = block(
        Declare(var, one.coordinate, fixed=True),
        cases.at(certain, walkers, scope, points=meet if settled else cases.points),
        *(() if ahead is None else ahead.both()),
        *steps,
    )
    lesser: p.Stmt
    if branches:
        less = compare("<", one.coordinate, other.coordinate)
        first, second = (_lone(cases, w, apart, var, scope) for w in walkers)
        lesser = p.If(less, first, second)
    else:
        known = None if ahead is None else ahead.first()
        lesser = block(
            *(() if ahead is None else ahead.load()),
            Declare(var, least, fixed=True),
            _each(cases, walkers, apart, var, scope, known),
            *(() if ahead is None else ahead.step()),
        )
    return p.If(compare("==", one.coordinate, other.coordinate), together, lesser)


def _lone(cases: Cases, walker: Walker, points: list[Point], var: Name, scope: Scope) -> p.Block:
    """The case of one walker, where the others are absent."""
    return block(
        Declare(var, walker.coordinate, fixed=True),
        cases.at({walker.part.access: None}, [walker], scope, points=points),
        walker.advance(Value(1)),
    )


def _meets(cases: Cases, walkers: list[Walker]) -> bool:
    """Whether there is work only in the intersection of all walkers, and they can be searched."""
    needed = {w.part.access for w in walkers}
    return len(walkers) > 1 and all(
        point.present >= needed or point.body is None for point in cases.points
    ) and all(
        w.segment is None and w.stored is not None for w in walkers
    )  # fmt: skip


def _gallop(cases: Cases, walkers: list[Walker], var: Name, scope: Scope) -> p.Stmt:
    """if (all equal) { body; step } else { gallop each one to the largest coordinate }"""
    first, *others = walkers
    farthest: Expr = first.coordinate
    for w in others:
        farthest = p.arithmetic("max", farthest, w.coordinate)
    meet = every([compare("==", first.coordinate, w.coordinate) for w in others])
    if meet is None:
        raise InternalError("one operand alone does not gallop")
    certain: dict[Access, Expr | None] = {w.part.access: None for w in walkers}
    together = block(
        Declare(var, first.coordinate, fixed=True),
        cases.at(certain, walkers, scope),
        *(w.advance(Value(1)) for w in walkers),
    )
    target, scope = scope.fresh(f"{cases.name}_next")
    skip: list[p.Stmt] = [Declare(target, farthest, fixed=True)]
    for w in walkers:
        if w.stored is not None:
            reach = p.Helper("gallop", (w.stored, w.position, w.end, target))
            skip.append(p.Set(w.position, reach))
    return p.If(meet, together, block(*skip))


def polls(cases: Cases) -> bool:
    """Whether to check the interrupt flag at each step: around other loops, and along segments
    that are long by themselves, where it costs a few percent."""
    inner, names = cases.scope.depth > 1, cases.ctx.names
    known = cases.ctx.provenance.underived(cases.loop.var)
    if not cases.ctx.on_gpu and any(names.is_long(var, run=True) for var in known):
        return True
    asked = not inner or (names.takes_long and not cases.ctx.on_gpu)
    return asked and polls_of(cases.ctx, cases.loop) <= FEW
