"""Index widths: int32 while the numbers fit, int64 otherwise, chosen per array."""

from __future__ import annotations

import numpy as np

from openwork.algebra.types import INT32, INT64, DType


class _Limit:
    """The largest number that is stored as int32; tests lower it to see both widths."""

    def __init__(self) -> None:
        self.value = int(np.iinfo(np.int32).max)


INT32_LIMIT = _Limit()


# Positions are 64-bit integers, and so are offsets in bytes.
_MOST_PLACES = 2**58


def countable(places: int) -> int:
    """`places`, if 64 bits can count them: checked before memory is allocated.

    >>> countable(2**33)
    8589934592
    >>> countable(2**80)
    Traceback (most recent call last):
    MemoryError: 1208925819614629174706176 places are more than 64 bits can count
    """
    if places > _MOST_PLACES:
        raise MemoryError(f"{places} places are more than 64 bits can count")
    return places


def index_dtype(largest: int) -> DType:
    """The element type of an index array whose entries are at most `largest`."""
    return INT32 if largest <= INT32_LIMIT.value else INT64
