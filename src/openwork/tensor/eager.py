"""Eager operations: a kernel for each combination of operation, formats and element types.

A kernel serves operands of any shape, so the second call with like operands compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, Self, TypeVar, cast

from openwork.algebra.types import DType
from openwork.format.formats import Format
from openwork.index.nodes import Access, Assignment, Expr, IndexVar, TensorVar
from openwork.runtime.storage import Storage
from openwork.tensor.broadcast import Layout, squeeze
from openwork.tensor.exchange.facts import Facts, facts_for
from openwork.tensor.result_format import fill_of
from openwork.tensor.statement import Statement

_MOST_KERNELS = 512
_LETTERS = "ABCDEFGHIJKLMNOPQSTUVWXYZ"  # without R, which is the result
RESULT = "R"


class Operand:
    """What eager operations need of the tensor class."""

    @property
    def name(self) -> str:
        """What messages call the tensor."""
        raise NotImplementedError

    @property
    def storage(self) -> Storage:
        """The arrays."""
        raise NotImplementedError

    _storage: Storage | None

    @property
    def device(self) -> str:
        """Where the arrays are."""
        raise NotImplementedError

    def rename(self, name: str | None = None) -> Self:
        """Give the tensor another name."""
        raise NotImplementedError

    @property
    def facts(self) -> Facts:
        """What a kernel depends on."""
        raise NotImplementedError

    @property
    def var(self) -> TensorVar:
        """The tensor as expressions see it."""
        raise NotImplementedError

    @classmethod
    def of(cls, storage: Storage) -> Self:
        """A tensor around `storage`, under a name of its own."""
        raise NotImplementedError

    @classmethod
    def wrap(cls, obj: object) -> Self:
        """A foreign array or number as a tensor."""
        raise NotImplementedError

    @classmethod
    def hollow(cls, name: str, facts: Facts) -> Self:
        """A tensor without data or extents, for statements that serve any shape."""
        raise NotImplementedError


T = TypeVar("T", bound=Operand)


class KernelStore:
    """Kernels by key; the oldest are forgotten when there are too many."""

    def __init__(self, most: int = _MOST_KERNELS) -> None:
        self._most = most
        self._kernels: dict[Hashable, Any] = {}

    def get(self, key: Hashable, build: Callable[[], Assignment], target: str = "cpu") -> Any:
        """The kernel under `key`, compiled from what `build` returns when there is none yet."""
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = Statement(build()).compile(target)
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


def operand_name(position: int) -> str:
    """What an eager statement calls its operand: A, B, ..., Z without R, then A1, B1, ...

    >>> operand_name(0), operand_name(17), operand_name(25)
    ('A', 'S', 'A1')
    """
    turn, letter = divmod(position, len(_LETTERS))
    return _LETTERS[letter] + (str(turn) if turn else "")


def call(kernel: Any, operands: Sequence[T]) -> T:
    """The kernel's result for `operands`, under a name of its own."""
    few = len(operands) <= len(_LETTERS)
    names: Iterable[str] = _LETTERS if few else map(operand_name, range(len(operands)))
    result = kernel(**dict(zip(names, operands, strict=False)))
    result.rename()
    return cast(T, result)


class Result(NamedTuple):
    """What an eager statement computes, and how the result is stored."""

    rhs: Expr
    format: Format
    dtype: DType


def run(
    operation: Hashable,
    layout: Layout,
    operands: Sequence[T],
    build: Callable[[Sequence[Access]], Result],
) -> T:
    """Compile what `build` makes of accesses to `operands` by `layout`, or find it, and run it."""
    tensors = operands
    if any(layout.dropped):
        tensors = [
            type(operand).of(squeeze(operand.storage, modes)) if modes else operand
            for operand, modes in zip(operands, layout.dropped, strict=True)
        ]
    facts = tuple(tensor.facts for tensor in tensors)
    on_gpu = any(tensor.device == "cuda" for tensor in tensors)
    shown: list[T] = []

    def operand(n: int) -> T:
        """A tensor for any data; on a GPU the data itself, as a recipe is chosen by it."""
        cls, name = type(tensors[0]), operand_name(n)
        if not on_gpu:
            return cls.hollow(name, facts[n])
        named = cls.of(tensors[n].storage).rename(name)
        shown.append(named)
        return named

    def assignment() -> Assignment:
        cls = type(tensors[0])
        accesses = [
            Access(operand(n).var, variables(numbers)) for n, numbers in enumerate(layout.operands)
        ]
        rhs, format, dtype = build(accesses)
        fill = 0 if format.is_dense else fill_of(rhs)
        result = cls.hollow(RESULT, facts_for(format, dtype, fill))
        return Assignment(Access(result.var, variables(layout.result)), rhs)

    key: tuple[Hashable, ...] = (operation, layout.operands, layout.result, facts)
    if not on_gpu:
        return call(KERNELS.get(key, assignment), tensors)
    # Extents are constants of the kernel, and the number of entries tells matrices apart.
    sizes = tuple((tensor.storage.shape, tensor.storage.nnz) for tensor in tensors)
    kernel = KERNELS.get((*key, sizes), assignment, "cuda")
    for tensor in shown:
        tensor._storage = None  # the kernel is kept, but not the data it was made for
    return call(kernel, tensors)


def variables(numbers: Sequence[int]) -> tuple[IndexVar, ...]:
    """Index variables by number."""
    return tuple(IndexVar(f"i{n}") for n in numbers)
