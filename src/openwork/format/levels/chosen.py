"""Chosen: some of the runs of a level, which share its coordinates."""

from __future__ import annotations

from dataclasses import dataclass

from openwork.errors import InternalError
from openwork.format.levels.base import Entries, Packed
from openwork.format.levels.lengths import LengthsLevel


@dataclass(frozen=True, repr=False)
class ChosenLevel(LengthsLevel):
    """Some of the runs of another level: what lies between them belongs to runs left out.

    `pos` says where each begins, and at last how many entries the other level has.
    Only views of a tensor have it, never text.
    """

    name = "Chosen"
    proven = False
    contiguous = False

    def pack(self, entries: Entries) -> Packed:
        raise InternalError("a view of some runs is not packed")


Chosen = ChosenLevel()
