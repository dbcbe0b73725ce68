"""Merges: loops over the coordinates of several operands, in order.

    while (pA < pA_end && pB < pB_end) { j = min(jA, jB); cases; advance }

Two operands are told apart by whether they meet. Which of them is first where they do not is
selected, one coordinate ahead, or branched on: as suits the processor, if both are to be added.
"""

from __future__ import annotations

from openwork.errors import InternalError
from openwork.index.nodes import Access
from openwork.loops.nodes import Assign
from openwork.program import nodes as p
from openwork.program.lower.base.header import FEW, polls_of
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.walk.lattice import Point
from openwork.program.lower.walk.look_ahead import Ahead, look_ahead, renamed
from openwork.program.lower.walk.visit import Visit
from openwork.program.lower.walk.walkers import Walker
from openwork.program.nodes import Declare, Expr, Name, Value, block, compare, every


class Merging(Visit):
    """A loop that may have to merge what operands store."""

    def merge_loop(self, walkers: list[Walker], scope: Scope) -> p.Block:
        """One loop of a merge: all of `walkers` have entries left, the others have none."""
        if not self._looks_ahead(walkers):
            return block(self._in_order(walkers, scope))
        selects = self._all_work_alone(walkers)
        ahead, inner = look_ahead(self.ctx, walkers, self._tried(walkers), selects, scope)
        quick = self._in_order(list(ahead.walkers), inner, ahead)
        plain = self._in_order(walkers, scope, branches=selects)
        return block(ahead.around(quick, plain))

    def _in_order(
        self,
        walkers: list[Walker],
        scope: Scope,
        ahead: Ahead | None = None,
        branches: bool = False,
    ) -> p.Stmt:
        """The loop, which may look ahead, or branch on which of two operands is first."""
        if ahead is None:
            walkers, scope = renamed(walkers, scope, stored=branches)
        more = every([compare("<", w.position, w.end) for w in walkers])
        if more is None:
            raise InternalError("a merge loop without operands")
        var, scope = scope.fresh(self.name)
        scope = scope.bind(self.var, var)
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
        if self.loop.merge == "gallop" and self._meets(walkers):
            code.append(self._gallop(walkers, var, scope))
        elif len(walkers) == 2 and not any(w.segment or w.part.searched for w in walkers):
            code.append(self._pair(walkers, var, least, scope, ahead, branches))
        else:
            code.append(Declare(var, least, fixed=True))
            code += self._each(walkers, self.cases, var, scope).body
        named = " and ".join(self.ctx.names.of(w.part.access.tensor) for w in walkers)
        comment = f"{self.name} of {named}, in order" if not alone else f"rest of {named}"
        unroll = 0 if self.loop.unroll is None else self.loop.unroll or 2
        return p.While(more, block(*code), comment, self._polls(), unroll, brief=alone)

    def _looks_ahead(self, walkers: list[Walker]) -> bool:
        """Whether what is done at a coordinate is so little that finding the next one matters."""
        return (
            isinstance(self.loop.body, Assign)
            and self.loop.merge != "gallop"
            and len(walkers) == 2
            and not self.ctx.on_gpu
            and all(w.looks_ahead for w in walkers)
        )

    def _all_work_alone(self, walkers: list[Walker]) -> bool:
        """Whether there is something to do for each of the walkers where the others are absent."""
        together = {w.part.access for w in walkers}
        working = [point.present & together for point in self.cases if point.body is not None]
        return all({access} in working for access in together)

    def _tried(self, walkers: list[Walker]) -> int:
        """Which of two walkers has a case of its own that is tried before that of the other."""
        alone = [point.present for point in self.cases if len(point.present) == 1]
        return int(frozenset([walkers[1].part.access]) in alone[:1])

    def _each(
        self,
        walkers: list[Walker],
        cases: list[Point],
        var: Name,
        scope: Scope,
        known: dict[Access, Expr | None] | None = None,
    ) -> p.Block:
        """Do what the operands at coordinate `var` ask for, and step over them.

        `known`: which of them are there, if that is not to be found by comparing.
        """
        code: list[p.Stmt] = []
        alone = len(walkers) == 1
        present: dict[Access, Expr | None] = dict(known or {})
        for w in walkers:
            here = None if alone else compare("==", w.coordinate, var)
            present.setdefault(w.part.access, here)
            code += w.find_segment(var)
        code += self.visit(present, walkers, scope, cases=cases).body
        for w in walkers:
            matched = present[w.part.access]
            code.append(w.advance(Value(1) if matched is None else matched))
        return block(*code)

    def _pair(
        self,
        walkers: list[Walker],
        var: Name,
        least: Expr,
        scope: Scope,
        ahead: Ahead | None = None,
        branches: bool = False,
    ) -> p.Stmt:
        """if (iA == iB) { both; pA++; pB++; } else { the lesser one; advance it }

        Whether two operands meet is easily predicted where their patterns are alike, and seldom
        happens where they are not; which one is ahead is anybody's guess, unless entries of each
        lie together: then it pays to branch.
        """
        one, other = walkers
        both = {w.part.access for w in walkers}
        steps = [w.advance(Value(1)) for w in walkers]
        meet = [point for point in self.cases if point.present >= both]
        apart = [point for point in self.cases if not point.present >= both]
        certain: dict[Access, Expr | None] = dict.fromkeys(both)
        # Where both meet, a third operand may still be missing, and then a smaller case applies.
        settled = any(point.present <= both for point in meet)
        together = block(
            Declare(var, one.coordinate, fixed=True),
            self.visit(certain, walkers, scope, cases=meet if settled else self.cases),
            *(() if ahead is None else ahead.both()),
            *steps,
        )
        lesser: p.Stmt
        if branches:
            less = compare("<", one.coordinate, other.coordinate)
            first, second = (self._lone(w, apart, var, scope) for w in walkers)
            lesser = p.If(less, first, second)
        else:
            known = None if ahead is None else ahead.first()
            lesser = block(
                *(() if ahead is None else ahead.load()),
                Declare(var, least, fixed=True),
                self._each(walkers, apart, var, scope, known),
                *(() if ahead is None else ahead.step()),
            )
        return p.If(compare("==", one.coordinate, other.coordinate), together, lesser)

    def _lone(self, walker: Walker, cases: list[Point], var: Name, scope: Scope) -> p.Block:
        """The case of one walker, where the others have nothing."""
        return block(
            Declare(var, walker.coordinate, fixed=True),
            self.visit({walker.part.access: None}, [walker], scope, cases=cases),
            walker.advance(Value(1)),
        )

    def _meets(self, walkers: list[Walker]) -> bool:
        """Whether there is work only where all walkers meet, and they can be searched."""
        needed = {w.part.access for w in walkers}
        return len(walkers) > 1 and all(
            point.present >= needed or point.body is None for point in self.cases
        ) and all(
            w.segment is None and w.stored is not None for w in walkers
        )  # fmt: skip

    def _gallop(self, walkers: list[Walker], var: Name, scope: Scope) -> p.Stmt:
        """if (all meet) { body; step } else { search each one on to the farthest }"""
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
            self.visit(certain, walkers, scope),
            *(w.advance(Value(1)) for w in walkers),
        )
        target, scope = scope.fresh(f"{self.name}_next")
        skip: list[p.Stmt] = [Declare(target, farthest, fixed=True)]
        for w in walkers:
            if w.stored is not None:
                reach = p.Helper("gallop", (w.stored, w.position, w.end, target))
                skip.append(p.Set(w.position, reach))
        return p.If(meet, together, block(*skip))

    def _polls(self) -> bool:
        """Whether to look at the interrupt flag at each step: around other loops, and along runs
        that take long by themselves, where it costs a few percent."""
        inner, names = self.scope.depth > 1, self.ctx.names
        known = self.ctx.provenance.underived(self.loop.var)
        if not self.ctx.on_gpu and any(names.is_long(var, run=True) for var in known):
            return True
        asked = not inner or (names.takes_long and not self.ctx.on_gpu)
        return asked and polls_of(self.ctx, self.loop) <= FEW
