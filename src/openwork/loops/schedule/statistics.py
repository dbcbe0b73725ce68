"""Statistics of an operand's entries: plain data for planning and choosing."""

from __future__ import annotations

from openwork.frozen import frozen


@frozen
class Rows:
    """How entries are distributed over rows, the coordinates of the outermost level."""

    count: int
    longest: int  # entries of the longest row
    reach: float  # columns from the first to the last entry of a row, on average; 0: not measured


@frozen
class Statistics:
    """How many entries a tensor stores, and how they are distributed over rows, if it has rows."""

    entries: int
    rows: Rows | None = None
