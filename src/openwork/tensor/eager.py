"""Eager operations: a kernel for each combination of operation, formats and element types.

A kernel serves operands of any shape, so the second call with like operands compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from openwork.index.nodes import Assignment
from openwork.tensor.statement import Statement

_MOST_KERNELS = 512


class KernelStore:
    """Kernels by key, the least recently made ones forgotten first."""

    def __init__(self, most: int = _MOST_KERNELS) -> None:
        self._most = most
        self._kernels: dict[Hashable, Any] = {}

    def get(self, key: Hashable, build: Callable[[], Assignment]) -> Any:
        """The kernel under `key`, compiled from what `build` returns when there is none yet."""
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = Statement(build()).compile()
            while len(self._kernels) >= self._most:
                # Another thread may have been faster, which is just as well.
                self._kernels.pop(next(iter(self._kernels), None), None)
            self._kernels[key] = kernel
        return kernel

    def __len__(self) -> int:
        return len(self._kernels)

    def clear(self) -> None:
        """Forget all kernels."""
        self._kernels.clear()


KERNELS = KernelStore()
RESULT = "R"


def operand_name(position: int) -> str:
    """What an eager statement calls its operand: A, B, ..., Z without R, then A1, B1, ...

    >>> operand_name(0), operand_name(17), operand_name(25)
    ('A', 'S', 'A1')
    """
    letters = "ABCDEFGHIJKLMNOPQSTUVWXYZ"
    turn, letter = divmod(position, len(letters))
    return letters[letter] + (str(turn) if turn else "")


def call(kernel: Any, operands: Iterable[Any]) -> Any:
    """The kernel's result for `operands`, under a name of its own."""
    named = {operand_name(n): operand for n, operand in enumerate(operands)}
    result = kernel(**named)
    result.rename()
    return result
