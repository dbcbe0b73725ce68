"""NumPy's functions that take tensors: which are operators of ours, and which functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

FUNCTIONS: dict[Any, Callable[..., Any]] = {}  # of NumPy, and what computes them on tensors


def implements(*functions: Any) -> Callable[[Function], Function]:
    """Registers what NumPy's functions do with tensors."""

    def register(function: Function) -> Function:
        FUNCTIONS.update(dict.fromkeys(functions, function))
        return function

    return register


class IsSparse(TypeError):
    """NumPy asked for the array of a sparse tensor, which is not made implicitly."""
