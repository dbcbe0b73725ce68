"""Storage: the arrays that hold a tensor, as a format lays them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from openwork.algebra.types import DType, Number
from openwork.format.formats import Format

Array = np.ndarray[Any, Any]


@dataclass(eq=False)
class Storage:
    """A tensor's arrays: the index arrays of each level, and the values.

    `levels[l]` maps the array names of level `l` ("pos", "crd") to one-dimensional, contiguous
    arrays; `values` is one-dimensional and contiguous, in the order of the last level's positions.
    The arrays are trusted here: whoever takes them from outside validates them first.
    """

    shape: tuple[int, ...]
    format: Format
    dtype: DType
    levels: tuple[Mapping[str, Array], ...]
    values: Array
    fill: Number = 0

    @property
    def nnz(self) -> int:
        """The number of stored entries, explicit zeros included."""
        return int(self.values.size)

    @cached_property
    def widths(self) -> tuple[str, ...]:
        """The element types of all index arrays, level by level: kernels depend on them."""
        return tuple(arrays[name].dtype.name for arrays in self.levels for name in sorted(arrays))

    def level_view(self, level: int) -> SimpleNamespace:
        """What the formulas of a level are evaluated over: its arrays and the mode's extent."""
        extent = self.shape[self.format.order[level]]
        return SimpleNamespace(extent=extent, **self.levels[level])

    def positions(self, level: int) -> int:
        """How many positions level `level` has; level -1 is the root, with one."""
        count = 1
        for n in range(level + 1):
            count = int(self.format.levels[n].children(self.level_view(n), count))
        return count

    @cached_property
    def pointers(self) -> tuple[int, ...]:
        """Addresses of all arrays, index arrays level by level and then the values."""
        arrays = [each[name] for each in self.levels for name in sorted(each)]
        return tuple(int(a.__array_interface__["data"][0]) for a in (*arrays, self.values))
