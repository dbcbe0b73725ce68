"""Merges of many operands: one loop, linear in their number.

    while (j < j_size) {
      if (jA == j) { what A adds; pA++; jA = pA < pA_end ? A_crd[pA] : j_size; }
      if (jB == j) { ... }
      ...
      j = the least of jA, jB, ...
    }

An operand without entries left stands at the extent, behind all coordinates. Many operands are
compared in groups, each with its least coordinate: most groups have nothing at a coordinate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from openwork.algebra.operators import SELECT
from openwork.program import nodes as p
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.walk.cases import Cases
from openwork.program.lower.walk.merge import polls
from openwork.program.lower.walk.presence import dispensable
from openwork.program.lower.walk.walkers import Walker
from openwork.program.nodes import Declare, Expr, If, Name, Set, Stmt, Value, block, compare, every
from openwork.tree import replace, walk

_FLAT = 8  # operands that are compared one by one


def merge_many(cases: Cases, walkers: list[Walker], scope: Scope) -> p.Block:
    """The loop over all coordinates of `walkers`, which are declared."""
    end = cases.ctx.everything(cases.var, scope).hi
    standing: list[Walker] = []
    for w in walkers:
        name, scope = scope.fresh(w.coordinate.name, lasting=True)
        standing.append(replace(w, coordinate=name))
    var, scope = scope.fresh(cases.name, lasting=True)
    groups = _groups(standing)
    least: list[Name] = []
    for n in range(len(groups)):
        name, scope = scope.fresh(f"{cases.name}_least{n + 1}", lasting=True)
        least.append(name)
    here = {w.part.access: compare("==", w.coordinate, var) for w in standing}
    body = cases.at(here, standing, scope.bind(cases.var, var))
    segments = [stmt for w in standing for stmt in w.find_segment(var)]
    steps: list[Stmt] = [
        If(here[w.part.access], block(w.advance(Value(1)), Set(w.coordinate, _coordinate(w, end))))
        for w in standing
    ]
    before, steps, after = _with_terms(list(body.body), steps, standing)
    free = dispensable(cases.loop.body, here)
    needed = [w for w in standing if not free and not cases.works_without([w.part.access])]
    more = every([compare("<", w.coordinate, end) for w in needed]) or compare("<", var, end)
    declared: list[Stmt] = [Declare(w.coordinate, _coordinate(w, end)) for w in standing]
    if len(groups) == 1:
        again = _least(var, [w.coordinate for w in standing])
        declared.append(Declare(var, end))
    else:
        sized = zip(least, groups, strict=True)
        found = [_least(name, [w.coordinate for w in group]) for name, group in sized]
        declared += [Declare(name, end) for name in (*least, var)]
        declared += [stmt for code in found for stmt in code]
        grouped, at = list[Stmt](), 0
        for name, group, code in zip(least, groups, found, strict=True):
            own, at = steps[at : at + len(group)], at + len(group)
            grouped.append(If(compare("==", name, var), block(*own, *code)))
        steps, again = grouped, _least(var, least)
    those = ", ".join(cases.ctx.names.said(w.part.access.tensor) for w in standing)
    inside = block(*segments, *before, *steps, *after, *again)
    comment = f"{cases.said} of {those}, in order"
    return block(*declared, *again, p.While(more, inside, comment, polls(cases)))


def _groups(walkers: list[Walker]) -> list[list[Walker]]:
    """Groups of about equal size, as many as each has operands."""
    count = 1 if len(walkers) <= _FLAT else round(math.sqrt(len(walkers)))
    ends = [len(walkers) * n // count for n in range(count + 1)]
    return [walkers[a:b] for a, b in pairwise(ends)]


def _coordinate(walker: Walker, end: Expr) -> Expr:
    """The coordinate where the walker stands, or `end` if it has no entries left."""
    left = compare("<", walker.position, walker.end)
    return p.Apply(SELECT, (left, walker.coordinate_at(walker.position), end), p.INDEX)


def _least(name: Name, coordinates: Sequence[Name]) -> list[Stmt]:
    """Set `name` to the least of `coordinates`."""
    first, *rest = coordinates
    return [Set(name, first), *(Set(name, p.arithmetic("min", other, name)) for other in rest)]


def _with_terms(
    body: list[Stmt], steps: list[Stmt], walkers: list[Walker]
) -> tuple[list[Stmt], list[Stmt], list[Stmt]]:
    """Let each operand advance right where its term is added, if nothing needs it afterwards.

    Returns what comes before the steps, the steps, and what comes after them.
    """
    body = _flat(body)
    places = [_term_of(body, step) for step in steps]
    known = [place for place in places if place is not None]
    if len(known) < len(steps) or known != sorted(known):
        return body, steps, []
    owner = {name: n for n, w in enumerate(walkers) for name in (w.position, w.coordinate)}
    between = [n for n in range(known[0], known[-1] + 1) if n not in known]
    constant = all(
        isinstance(s, Declare) and isinstance(s.value, Value) for s in (body[n] for n in between)
    )
    for n, stmt in enumerate(body):
        own = known.index(n) if n in known else None
        used = {owner[node] for node in walk(stmt) if isinstance(node, Name) and node in owner}
        if used - {own}:
            return body, steps, []
    if not constant:
        return body, steps, []
    joined: list[Stmt] = []
    for place, step in zip(known, steps, strict=True):
        term = body[place]
        if isinstance(term, If) and isinstance(step, If):
            joined.append(If(step.condition, block(term.then, step.then)))
    return [*body[: known[0]], *(body[n] for n in between)], joined, body[known[-1] + 1 :]


def _flat(code: Sequence[Stmt]) -> list[Stmt]:
    found: list[Stmt] = []
    for stmt in code:
        found += _flat(stmt.body) if isinstance(stmt, p.Block) else [stmt]
    return found


def _term_of(body: list[Stmt], step: Stmt) -> int | None:
    """The place of the only statement under the same condition as `step`."""
    found = [
        n
        for n, stmt in enumerate(body)
        if isinstance(stmt, If) and isinstance(step, If)
        if stmt.condition == step.condition and stmt.otherwise is None
    ]
    return found[0] if len(found) == 1 else None
