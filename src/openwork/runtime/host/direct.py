"""Kernels as ordinary functions of Python's, which take NumPy's arrays: the shortest way to call.

A call through ctypes takes longer than a kernel on a thousand elements: arguments are objects that
are made, converted and checked. Here a kernel becomes a built-in function (`direct.c`), which finds
the elements where NumPy's array objects have their address. Where Python has no such functions, or
array objects are others, there are none, and kernels are called through ctypes.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from openwork.errors import ToolchainError
from openwork.runtime.host.interrupt import QUIET
from openwork.runtime.host.library import load
from openwork.runtime.host.toolchain import Toolchain, find_toolchain
from openwork.runtime.memory import address

MOST = 8  # operands and result of a call, as in direct.c
_BRIEF = 1 << 14  # loop iterations for which other threads may wait
# Behind the header of an object, as NumPy's own macros have it: the address of the elements.
_OFFSET = object.__basicsize__
_FUNCTIONS = (
    *("PyLong_FromLong", "PyLong_AsVoidPtr", "PyFloat_AsDouble", "PyErr_Occurred"),
    *("PyEval_SaveThread", "PyEval_RestoreThread"),
)
# What an operand may be given as, as in direct.c: an array, or one of Python's numbers for an
# element of these types.
KINDS = {None: 0, "float64": 1, "float32": 2}
_FAST = 0x80  # METH_FASTCALL: arguments come as an array


class _Call(ctypes.Structure):
    _fields_ = (
        ("kernel", ctypes.c_void_p),
        ("sizes", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("brief", ctypes.c_int64),
        ("kinds", ctypes.c_int64 * MOST),
    )


class _Method(ctypes.Structure):
    """How Python describes a function in C."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


Status = Callable[..., int]


def direct(
    kernel: Any, sizes: Any, kinds: Sequence[str | None], steps: float
) -> tuple[Status, Any] | None:
    """A kernel as a function of contiguous arrays, and what has to live as long as it does.

    None where there can be no such function.

    Args:
        kernel: a kernel that allocates nothing, as ctypes has it.
        sizes: its sizes, which it only reads.
        kinds: for each operand and the result None if it is given as an array; the type of its
            element if it is given as a number.
        steps: an upper estimate of loop iterations.
    """
    toolchain = find_toolchain()
    method = None if toolchain is None or len(kinds) > MOST else _method(toolchain)
    if method is None:
        return None
    where = ctypes.cast(kernel, ctypes.c_void_p).value
    call = _Call(where, ctypes.addressof(sizes), QUIET, len(kinds), _OFFSET, steps < _BRIEF)
    call.kinds[: len(kinds)] = [KINDS[kind] for kind in kinds]
    function = _function(ctypes.addressof(method), ctypes.addressof(call), None)
    return function, (call, sizes, kernel)


_Maker = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)


def _function(method: int, self: int, module: None) -> Status:
    """A function of Python's from its description, and what it gets besides its arguments."""
    made: Status = _Maker(("PyCFunction_NewEx", ctypes.pythonapi))(method, self, module)
    return made


@cache  # functions refer to what it returns
def _method(toolchain: Toolchain) -> _Method | None:
    """The function that calls kernels, if Python and NumPy are as it needs them."""
    if sys.implementation.name != "cpython" or not _finds(np.arange(3.0)[1:]):
        return None
    try:
        library = load(Path(__file__).with_name("direct.c").read_text(), optimize="-O2")
        functions = [getattr(ctypes.pythonapi, name) for name in _FUNCTIONS]
    except (ToolchainError, AttributeError):
        return None
    library.ow_direct_open(_addresses(functions))
    return _Method(b"kernel", *_addresses([library.ow_direct_run]), _FAST, None)


def _finds(array: np.ndarray[Any, Any]) -> bool:
    """Whether the address of an array's elements is where it is looked for."""
    return ctypes.c_void_p.from_address(id(array) + _OFFSET).value == address(array)


def _addresses(functions: Sequence[Any]) -> Any:
    found = [ctypes.cast(each, ctypes.c_void_p).value for each in functions]
    return (ctypes.c_void_p * len(found))(*found)
