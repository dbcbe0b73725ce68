"""Hashed: a result whose entries come in any order, through a hash table."""

from __future__ import annotations

from dataclasses import dataclass

from openwork.format.levels.compressed import CompressedLevel


@dataclass(frozen=True, repr=False)
class HashedLevel(CompressedLevel):
    """Compressed, for results: entries are inserted into a hash table in any order.

    The table grows with its entries, not with the extents. The finished result is sorted into the
    arrays of a compressed level, and is then read as one.
    """

    name = "Hashed"
    proven = True
    inserts = True


Hashed = HashedLevel()
