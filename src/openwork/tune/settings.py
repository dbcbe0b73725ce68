"""What a search is asked for, checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from openwork.errors import ScheduleError
from openwork.frozen import frozen
from openwork.tune.space import Dimension

DIMENSIONS = ("schedule", "format", "layout")


def dimensions(more: Iterable[Dimension] | Dimension) -> tuple[Dimension, ...]:
    """The user's dimensions of the space, or the only one."""
    return (more,) if callable(more) else tuple(more)


@frozen
class Settings:
    """What `search` is asked for; its arguments, but for the statement.

    Raises:
        ScheduleError: E303 for what is not possible.
    """

    budget: float = 10.0
    over: Sequence[str] = DIMENSIONS
    target: str = "cpu"
    uses: float = 1000
    seed: int = 0
    memory: float = 1.5
    exhaustive: bool = False
    cold: bool = False
    more: tuple[Dimension, ...] = ()
    progress: bool | None = None

    def __post_init__(self) -> None:
        over, least = self.over, {"budget": 0.0, "uses": 1.0, "memory": 1.0}
        if isinstance(over, str) or not over or not set(over) <= set(DIMENSIONS):
            raise ScheduleError(
                f"over={over!r} is not a selection of {', '.join(DIMENSIONS)}",
                code="E303",
                hint='over=("schedule", "format")',
            )
        for name, bound in least.items():
            value = getattr(self, name)
            if not isinstance(value, int | float | np.number) or not value >= bound:
                raise ScheduleError(
                    f"{name}={value!r} is not a number of at least {bound}", code="E303"
                )
        if not isinstance(self.seed, int):
            raise ScheduleError(f"seed={self.seed!r} is not an integer", code="E303")
        for each in self.more:
            if not callable(each):
                raise ScheduleError(
                    f"more has {each!r}, not a function",
                    code="E303",
                    hint='more=[lambda stmt: ["split(i,i0,i1,8)"]]',
                )

    @property
    def asked(self) -> str:
        """What a record must have been asked for, too, to answer this; besides the budget."""
        words = [f"over {', '.join(sorted(self.over))}", f"uses {self.uses:g}"]
        words += [f"memory {self.memory:g}", *(["exhaustive"] if self.exhaustive else [])]
        words += ["cold"] if self.cold else []
        words += [f"more {getattr(each, '__name__', 'more')}" for each in self.more]
        return "; ".join(words)
