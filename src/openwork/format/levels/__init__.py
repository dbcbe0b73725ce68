"""The levels, one file each; `LEVELS` has the ones that text can name."""

from openwork.format.levels.affine import AffineLevel
from openwork.format.levels.banded import Diagonals, NumberedDiagonals, Range
from openwork.format.levels.base import ArrayFact, Entries, Fault, Level, Packed, chain_end
from openwork.format.levels.bitmap import Bitmap
from openwork.format.levels.chosen import Chosen
from openwork.format.levels.compressed import Compressed
from openwork.format.levels.dense import Dense, InnerLevel, OuterLevel
from openwork.format.levels.hashed import Hashed, KeyLevel, is_hashed
from openwork.format.levels.lengths import Lengths
from openwork.format.levels.padded import Padded, SideBySide, Sliced
from openwork.format.levels.permuted import Permuted
from openwork.format.levels.prefixes import Growing, Ragged
from openwork.format.levels.singleton import Singleton

LEVELS: dict[str, Level] = {
    level.name: level
    for level in (
        Dense,
        Compressed,
        Hashed,
        Singleton,
        Lengths,
        Padded,
        Sliced,
        Range,
        Ragged,
        Growing,
        Diagonals,
        Bitmap,
        Permuted,
    )
}

__all__ = [
    "LEVELS",
    "AffineLevel",
    "ArrayFact",
    "Bitmap",
    "Chosen",
    "Compressed",
    "Dense",
    "Diagonals",
    "Entries",
    "Fault",
    "Growing",
    "Hashed",
    "InnerLevel",
    "KeyLevel",
    "Lengths",
    "Level",
    "NumberedDiagonals",
    "OuterLevel",
    "Packed",
    "Padded",
    "Permuted",
    "Ragged",
    "Range",
    "SideBySide",
    "Singleton",
    "Sliced",
    "is_hashed",
    "chain_end",
]
