"""Index widths: int32 while the numbers fit, int64 otherwise, chosen per array."""

from __future__ import annotations

import numpy as np

from openwork.algebra.types import INT32, INT64, DType


class _Limit:
    """The largest number that is stored as int32; tests lower it to see both widths."""

    def __init__(self) -> None:
        self.value = int(np.iinfo(np.int32).max)


INT32_LIMIT = _Limit()


def index_dtype(largest: int) -> DType:
    """The element type of an index array whose entries are at most `largest`."""
    return INT32 if largest <= INT32_LIMIT.value else INT64
