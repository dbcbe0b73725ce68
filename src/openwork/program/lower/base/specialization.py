"""What a kernel is specialized to beyond its plan: properties of data that change its code."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

from openwork.frozen import frozen
from openwork.index.nodes import IndexVar

Width = tuple[tuple[str, int, str], str]  # (tensor, level, array) and its element type


@frozen
class LongLoops:
    """Loops that run for longer than Ctrl-C should take, and so poll the interrupt flag.

    `loops`: the variables for which a loop over all values does; `runs`: those for which a loop
    over a segment of stored ones does. `kernel`: all loops together do.
    """

    loops: frozenset[IndexVar] = frozenset()
    runs: frozenset[IndexVar] = frozenset()
    kernel: bool = False


@frozen
class Specialization:
    """Properties that distinguish the kernels of one plan: where they agree, the code is the same.

    `widths`: the element types of index arrays; unlisted ones are int32. `wide_keys`: the
    workspaces with 128-bit keys. `whole`: the modes that blocks divide evenly. `selects`: the CPU
    selects between two values without a branch.
    """

    widths: tuple[Width, ...] = ()
    wide_keys: frozenset[str] = frozenset()
    whole: frozenset[IndexVar] = frozenset()
    long: LongLoops = field(default_factory=LongLoops)
    selects: bool = False

    @cached_property
    def _width_of(self) -> dict[tuple[str, int, str], str]:
        return dict(self.widths)

    def width(self, tensor: str, level: int, array: str) -> str:
        """The element type of an index array."""
        return self._width_of.get((tensor, level, array), "int32")
