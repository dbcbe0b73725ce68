"""Types of functions of elements, for editors: of tensors tensors, of terms terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast, overload

import numpy as np

from openwork.algebra.overloads import Overloaded
from openwork.index.terms import Term

R = TypeVar("R")
Plain = complex | np.generic | np.ndarray[Any, Any]


class OfOne(Protocol):
    """A function of one element."""

    __name__: str

    @overload
    def __call__(self, e: Overloaded[R], /) -> R: ...
    @overload
    def __call__(self, e: Plain, /) -> Term: ...


class OfTwo(Protocol):
    """A function of two elements, of which one may be a number or an array."""

    __name__: str

    @overload
    def __call__(self, a: Overloaded[R], b: object, /) -> R: ...
    @overload
    def __call__(self, a: Plain, b: Overloaded[R], /) -> R: ...
    @overload
    def __call__(self, a: Plain, b: Plain, /) -> Term: ...


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
    def __call__(self, dtype: object, e: Plain, /) -> Term: ...


def of_one(function: Callable[[object], Term]) -> OfOne:
    """The same function."""
    return cast(OfOne, function)


def of_two(function: Callable[[object, object], Term]) -> OfTwo:
    """The same function."""
    return cast(OfTwo, function)


def choice(function: Callable[[object, object, object], Term]) -> Choice:
    """The same function."""
    return cast(Choice, function)


def conversion(function: Callable[[object, object], Term]) -> Conversion:
    """The same function."""
    return cast(Conversion, function)
