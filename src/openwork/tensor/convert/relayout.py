"""Moves records from one layout to another, in C where they are many."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from openwork.format.layouts import Placement, moved
from openwork.runtime.host.library import load
from openwork.runtime.host.toolchain import find_toolchain
from openwork.runtime.memory import address

Array = np.ndarray[Any, Any]

_MANY = 1 << 18  # numbers; NumPy has moved fewer before a library is loaded


def relayout(source: Array, of: Placement, made: Array, to: Placement, count: int) -> None:
    """Copy the first `count` records of an array to where the layout of another has them."""
    if not isinstance(source, np.ndarray) or source.size < _MANY or find_toolchain() is None:
        moved(source, of, made, to, count)
        return
    ends = [(source, of), (made, to)]
    given = [
        each
        for array, where in ends
        for each in (
            ctypes.c_void_p(address(array)),
            (ctypes.c_int64 * 5)(*where.steps(where.stride(int(array.size)))),
        )
    ]
    sizes = (ctypes.c_int64(count), ctypes.c_int64(of.size))
    _compiled(source.dtype.itemsize)(*given, *sizes)


@cache
def _compiled(width: int) -> Any:
    """The function for numbers of so many bytes."""
    head = ["typedef __INT64_TYPE__ int64_t;", f"typedef __UINT{8 * width}_TYPE__ WORD;"]
    text = Path(__file__).with_name("relayout.c").read_text()
    function = load("\n".join([*head, text])).relayout
    function.restype = None
    return function
