"""A draft: the loops of a statement, and the commands that made them.

Users, recipes and the defaults all schedule through a draft, so commands are applied in one place.
Functions that choose a schedule return a draft: its commands are the schedule, and its plan the
resulting loops.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import field, replace
from typing import Any

from openwork.errors import ScheduleError
from openwork.frozen import frozen
from openwork.index.nodes import Assignment, IndexVar
from openwork.loops.plan.nest import loop_variables
from openwork.loops.plan.plan import Plan
from openwork.loops.schedule.command import COMMANDS, Command, run
from openwork.loops.schedule.commands.reorder import completed_orders
from openwork.loops.schedule.in_blocks import in_blocks
from openwork.loops.schedule.schedulable import Schedulable
from openwork.trace import Stage


@frozen
class Draft(Schedulable):
    """Loops, the `commands` that led to them, and the `decisions` on the way, in words.

    `written`: the assignment as the user wrote it. `replan`: starts over with a loop order, which
    also decides what is converted and precomputed. `otherwise`: the fallback for other data, if
    this draft is specialized to the extents of the operands. `stages`: of the compilation so far.
    """

    written: Assignment
    plan: Plan
    commands: tuple[Command, ...] = ()
    decisions: tuple[str, ...] = ()
    replan: Callable[[tuple[IndexVar, ...]], Draft] | None = None
    otherwise: Draft | None = None
    stages: tuple[Stage, ...] = field(default=(), compare=False)

    @property
    def assignment(self) -> Assignment:
        """The assignment as the user wrote it."""
        return self.written

    @property
    def _base(self) -> Plan:
        return self.plan

    @property
    def whole(self) -> Plan:
        """The plan, with its fallback for other data."""
        if self.otherwise is None:
            return self.plan
        return replace(self.plan, otherwise=self.otherwise.whole)

    def _scheduled(self, command: Command) -> Draft:
        return self._run(command).said(f"schedule: {command}")

    def then(self, name: str, *arguments: Any) -> Draft:
        """The draft after a command, with the arguments that its function takes.

        Raises:
            ScheduleError: the command is not legal here.
        """
        left_out = len(COMMANDS[name].parameters) - len(arguments)
        return self._run(Command(name, (*arguments, *(None,) * left_out)))

    def _run(self, command: Command) -> Draft:
        start = self._reordered(command) if command.name == "order" else self
        return replace(start, plan=run(start.plan, command), commands=(*self.commands, command))

    def _reordered(self, command: Command) -> Draft:
        """Where a schedule starts that begins with an order: nothing is converted for another.

        An order of some loops is less than a demand: if it needs conversions, these stay.
        """
        (wanted,) = in_blocks(self.plan, command.name, command.arguments)
        present = loop_variables(self.plan)
        if self.replan is None or self.commands or not set(wanted) <= set(present):
            return self
        if set(wanted) == set(present):
            return self.replan(wanted)
        for every in completed_orders(wanted, present):
            with suppress(ScheduleError):
                return self.replan(tuple(every))
        return self

    def decided(self, plan: Plan, sentence: str) -> Draft:
        """The draft after a decision that the scheduling language has no command for."""
        return replace(self, plan=plan).said(sentence)

    def said(self, sentence: str) -> Draft:
        """The draft with a sentence for `explain()`."""
        return replace(self, decisions=(*self.decisions, sentence))

    def since(self, before: Draft) -> Draft:
        """The draft with a sentence that lists its commands since `before`."""
        new = self.commands[len(before.commands) :]
        return self.said(f"schedule: {', '.join(map(str, new))}")
