"""Operators and reductions of plain arrays: by the kernel of a call before that was like this one.

On a thousand elements a kernel takes less time than a few frames of Python. So Python's operators
on tensors look here first, in one frame, and go the general way where nothing is found.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from inspect import isfunction
from typing import Any, TypeVar

import numpy as np

from openwork.algebra.operators import Op
from openwork.algebra.overloads import Overloaded
from openwork.tensor.eager import KERNELS
from openwork.tensor.elementwise import operation
from openwork.tensor.exchange.numpy_functions import UFUNCS
from openwork.tensor.operand import Operand

T = TypeVar("T", bound=Operand)
Method = Callable[..., Any]

_NUMBERS = {bool, int, float, complex}
_find = KERNELS.ready.get


class _Sign(Overloaded[Any]):
    """Says which operator one of Python's signs applies."""

    def __openwork_apply__(self, op: Op, args: Sequence[object]) -> tuple[Op, Sequence[object]]:
        return op, args


def operators() -> dict[str, Method]:
    """The methods of Python's signs on two operands, by name: `__add__`, `__radd__`, ..."""
    sign, made = _Sign(), {}
    for name, method in vars(Overloaded).items():
        if isfunction(method) and method.__code__.co_varnames[:2] == ("self", "other"):
            op, args = method(sign, None)
            made[name] = method_of_two(operation(op), method, turned=args[0] is None)
    return made


def method_of_two(what: Hashable, general: Method, turned: bool = False) -> Method:
    """A method that computes `what`, or calls `general` where it was not computed like this before.

    `turned`: the other operand stands on the left.
    """

    def method(self: Any, other: Any) -> Any:
        mine, kind, made = self._storage, type(self), None
        if mine is None:
            return general(self, other)
        if type(other) is kind:
            theirs = other._storage
            if theirs is not None:
                call = _find((what, mine.alike, theirs.alike))
                if call is not None:
                    made = call(kind, mine.values, theirs.values)
        elif type(other) in _NUMBERS:
            if turned:
                call = _find((what, type(other), mine.alike))
                if call is not None:
                    made = call(kind, other, mine.values)
            else:
                call = _find((what, mine.alike, type(other)))
                if call is not None:
                    made = call(kind, mine.values, other)
        return general(self, other) if made is None else made

    method.__doc__ = general.__doc__
    return method


def once_more(what: Hashable, operand: T) -> T | None:
    """`what` of one plain array, if there was one like it before."""
    storage = operand._storage
    call = None if storage is None else _find((what, storage.alike))
    made: T | None = None if call is None else call(type(operand), storage.values)  # type: ignore[union-attr]
    return made


def mean_once_more(operand: T, axis: int | None) -> T | None:
    """As `once_more`, of a mean, which is a sum divided by a number."""
    storage = operand._storage
    call = None if storage is None else _find((("mean", axis), storage.alike, float))
    if call is None or storage is None:
        return None
    count = storage.values.size if axis is None else storage.shape[axis]
    made: T | None = call(type(operand), storage.values, float(count))
    return made


# Universal functions of one array that are operators, also of dense tensors.
_FUNCTIONS: dict[np.ufunc, Hashable] = {
    ufunc: operation(op) for ufunc, op in UFUNCS.items() if ufunc.nin == 1 and not op.real
}


def function_once_more(ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """As `once_more`, of one of NumPy's universal functions."""
    what = _FUNCTIONS.get(ufunc)
    return None if what is None else once_more(what, inputs[0])
