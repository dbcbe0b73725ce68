"""Python's operators on terms and tensors, and the types of functions of them, for editors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast, overload

import numpy as np

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op

R = TypeVar("R")


class Overloaded(Generic[R]):
    """A base of terms and tensors, which Python's operators combine to an `R`.

    `==` and `!=` compare elements, as `<` does. So sets and dictionaries look objects up by
    identity.
    """

    __slots__ = ()
    __array_ufunc__ = None  # NumPy leaves `array * ours` to us instead of looping over it
    __hash__ = object.__hash__

    @abstractmethod
    def __openwork_apply__(self, op: Op, args: Sequence[object]) -> R:
        """`op` applied to `args`, of which this is one."""

    def __add__(self, other: object) -> R:
        return self.__openwork_apply__(ops.ADD, (self, other))

    def __radd__(self, other: object) -> R:
        return self.__openwork_apply__(ops.ADD, (other, self))

    def __sub__(self, other: object) -> R:
        return self.__openwork_apply__(ops.SUB, (self, other))

    def __rsub__(self, other: object) -> R:
        return self.__openwork_apply__(ops.SUB, (other, self))

    def __mul__(self, other: object) -> R:
        return self.__openwork_apply__(ops.MUL, (self, other))

    def __rmul__(self, other: object) -> R:
        return self.__openwork_apply__(ops.MUL, (other, self))

    def __truediv__(self, other: object) -> R:
        return self.__openwork_apply__(ops.DIV, (self, other))

    def __rtruediv__(self, other: object) -> R:
        return self.__openwork_apply__(ops.DIV, (other, self))

    def __floordiv__(self, other: object) -> R:
        return self.__openwork_apply__(ops.FLOOR_DIVIDE, (self, other))

    def __rfloordiv__(self, other: object) -> R:
        return self.__openwork_apply__(ops.FLOOR_DIVIDE, (other, self))

    def __mod__(self, other: object) -> R:
        return self.__openwork_apply__(ops.REMAINDER, (self, other))

    def __rmod__(self, other: object) -> R:
        return self.__openwork_apply__(ops.REMAINDER, (other, self))

    def __pow__(self, other: object) -> R:
        return self.__openwork_apply__(ops.POW, (self, other))

    def __rpow__(self, other: object) -> R:
        return self.__openwork_apply__(ops.POW, (other, self))

    def __and__(self, other: object) -> R:
        return self.__openwork_apply__(ops.BITWISE_AND, (self, other))

    def __rand__(self, other: object) -> R:
        return self.__openwork_apply__(ops.BITWISE_AND, (other, self))

    def __or__(self, other: object) -> R:
        return self.__openwork_apply__(ops.BITWISE_OR, (self, other))

    def __ror__(self, other: object) -> R:
        return self.__openwork_apply__(ops.BITWISE_OR, (other, self))

    def __xor__(self, other: object) -> R:
        return self.__openwork_apply__(ops.BITWISE_XOR, (self, other))

    def __rxor__(self, other: object) -> R:
        return self.__openwork_apply__(ops.BITWISE_XOR, (other, self))

    def __lshift__(self, other: object) -> R:
        return self.__openwork_apply__(ops.LEFT_SHIFT, (self, other))

    def __rlshift__(self, other: object) -> R:
        return self.__openwork_apply__(ops.LEFT_SHIFT, (other, self))

    def __rshift__(self, other: object) -> R:
        return self.__openwork_apply__(ops.RIGHT_SHIFT, (self, other))

    def __rrshift__(self, other: object) -> R:
        return self.__openwork_apply__(ops.RIGHT_SHIFT, (other, self))

    def __eq__(self, other: object) -> R:  # type: ignore[override]
        return self.__openwork_apply__(ops.EQ, (self, other))

    def __ne__(self, other: object) -> R:  # type: ignore[override]
        return self.__openwork_apply__(ops.NE, (self, other))

    def __lt__(self, other: object) -> R:
        return self.__openwork_apply__(ops.LT, (self, other))

    def __le__(self, other: object) -> R:
        return self.__openwork_apply__(ops.LE, (self, other))

    def __gt__(self, other: object) -> R:
        return self.__openwork_apply__(ops.GT, (self, other))

    def __ge__(self, other: object) -> R:
        return self.__openwork_apply__(ops.GE, (self, other))

    def __neg__(self) -> R:
        return self.__openwork_apply__(ops.NEG, (self,))

    def __invert__(self) -> R:
        return self.__openwork_apply__(ops.INVERT, (self,))

    def __abs__(self) -> R:
        return self.__openwork_apply__(ops.ABS, (self,))

    def __pos__(self) -> Any:
        return self


# Functions of elements: of tensors they are tensors, of terms they are terms. A number alone is a
# term, too.

Plain = complex | np.generic | np.ndarray[Any, Any]


class OfOne(Protocol):
    """A function of one element."""

    __name__: str

    @overload
    def __call__(self, e: Overloaded[R], /) -> R: ...
    @overload
    def __call__(self, e: Plain, /) -> Any: ...


class OfTwo(Protocol):
    """A function of two elements, of which one may be a number or an array."""

    __name__: str

    @overload
    def __call__(self, a: Overloaded[R], b: object, /) -> R: ...
    @overload
    def __call__(self, a: Plain, b: Overloaded[R], /) -> R: ...
    @overload
    def __call__(self, a: Plain, b: Plain, /) -> Any: ...


class Choice(Protocol):
    """A function of a condition and two elements."""

    __name__: str

    @overload
    def __call__(self, condition: Overloaded[R], yes: object, no: object, /) -> R: ...
    @overload
    def __call__(self, condition: Plain, yes: object, no: object, /) -> Any: ...


class Conversion(Protocol):
    """A function of a type and an element."""

    __name__: str

    @overload
    def __call__(self, dtype: object, e: Overloaded[R], /) -> R: ...
    @overload
    def __call__(self, dtype: object, e: Plain, /) -> Any: ...


def of_one(function: Callable[[object], Any]) -> OfOne:
    """The same function."""
    return cast(OfOne, function)


def of_two(function: Callable[[object, object], Any]) -> OfTwo:
    """The same function."""
    return cast(OfTwo, function)


def choice(function: Callable[[object, object, object], Any]) -> Choice:
    """The same function."""
    return cast(Choice, function)


def conversion(function: Callable[[object, object], Any]) -> Conversion:
    """The same function."""
    return cast(Conversion, function)
