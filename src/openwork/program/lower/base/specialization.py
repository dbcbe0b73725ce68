"""What a kernel is compiled for beyond its plan: facts about data that change its code."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from openwork.index.nodes import IndexVar

Width = tuple[tuple[str, int, str], str]  # (tensor, level, array) and its element type


@dataclass(frozen=True)
class LongLoops:
    """Loops that take longer than somebody waits who pressed Ctrl-C, and so look at a flag.

    `loops`: the variables of which a loop over all values does; `runs`: those of which a loop along
    a run of stored ones does. `kernel`: all loops together do.
    """

    loops: frozenset[IndexVar] = frozenset()
    runs: frozenset[IndexVar] = frozenset()
    kernel: bool = False


@dataclass(frozen=True)
class Specialization:
    """Facts that tell the kernels of one plan apart: where they are equal, the code is the same.

    `widths`: the element types of index arrays; one that is not listed is int32. `wide_keys`: the
    workspaces whose keys take 128 bits. `whole`: the modes that blocks divide without a rest.
    """

    widths: tuple[Width, ...] = ()
    wide_keys: frozenset[str] = frozenset()
    whole: frozenset[IndexVar] = frozenset()
    long: LongLoops = field(default_factory=LongLoops)

    @cached_property
    def _width_of(self) -> dict[tuple[str, int, str], str]:
        return dict(self.widths)

    def width(self, tensor: str, level: int, array: str) -> str:
        """The element type of an index array."""
        return self._width_of.get((tensor, level, array), "int32")
