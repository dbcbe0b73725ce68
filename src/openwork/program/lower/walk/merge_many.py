"""Merges of many operands: one loop, linear in their number.

    while (j < j_size) { work on those with jA == j, jB == j, ...; advance them; j = min(jA, jB, ...) }

An operand without entries left stands at the extent, behind all coordinates.
"""

from __future__ import annotations

from dataclasses import replace

from openwork.algebra.operators import SELECT
from openwork.program import nodes as p
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.walk.cases import Cases
from openwork.program.lower.walk.merge import polls
from openwork.program.lower.walk.walkers import Walker
from openwork.program.nodes import Declare, Expr, Set, Value, block, compare, every


def merge_many(cases: Cases, walkers: list[Walker], scope: Scope) -> p.Block:
    """The loop over all coordinates of `walkers`, which are declared."""
    end = cases.ctx.everything(cases.var, scope).hi
    standing: list[Walker] = []
    for w in walkers:
        name, scope = scope.fresh(w.coordinate.name, lasting=True)
        standing.append(replace(w, coordinate=name))
    var, scope = scope.fresh(cases.name, lasting=True)
    first = [Declare(w.coordinate, _coordinate(w, end)) for w in standing]
    least = _least([w.coordinate for w in standing])
    here = {w.part.access: compare("==", w.coordinate, var) for w in standing}
    segments = [stmt for w in standing for stmt in w.find_segment(var)]
    body = cases.at(here, standing, scope.bind(cases.var, var))
    needed = [w for w in standing if not cases.works_without([w.part.access])]
    more = every([compare("<", w.coordinate, end) for w in needed]) or compare("<", var, end)
    steps = [
        p.If(
            here[w.part.access],
            block(w.advance(Value(1)), Set(w.coordinate, _coordinate(w, end))),
        )
        for w in standing
    ]
    named = " and ".join(cases.ctx.names.of(w.part.access.tensor) for w in standing)
    loop = p.While(
        more,
        block(*segments, body, *steps, Set(var, least)),
        f"{cases.name} of {named}, in order",
        polls(cases),
    )
    return block(*first, Declare(var, least), loop)


def _coordinate(walker: Walker, end: Expr) -> Expr:
    """The coordinate where the walker stands, or `end` if it has no entries left."""
    left = compare("<", walker.position, walker.end)
    return p.Apply(SELECT, (left, walker.coordinate_at(walker.position), end), p.INDEX)


def _least(coordinates: list[p.Name]) -> Expr:
    """The least of `coordinates`; balanced, so that comparisons do not wait for each other."""
    found: list[Expr] = list(coordinates)
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2], strict=False)
        rest = found[-1:] if len(found) % 2 else []
        found = [*(p.arithmetic("min", a, b) for a, b in pairs), *rest]
    return found[0]
