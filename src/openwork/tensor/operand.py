"""Operands: the arguments and results of kernels, with name, shape, facts, and perhaps arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, Self

from openwork.algebra.types import DType, Number
from openwork.errors import ShapeError
from openwork.format.formats import Format
from openwork.index.nodes import TensorVar
from openwork.runtime.gpu.cuda import DeviceStorage
from openwork.runtime.storage import Storage
from openwork.tensor.exchange.facts import Facts, facts_of

_numbers = count(1)


def auto_name() -> str:
    """A new name: T1, T2, ..."""
    return f"T{next(_numbers)}"


class _Named:
    """The name of a result, which gets one when somebody asks: most are never asked."""

    def __get__(self, operand: Operand, _: type) -> str:
        operand._name = name = auto_name()
        return name


class Operand:
    """An operand or a result of a kernel.

    Eager operations create plain ones, for statements that serve any data. Users hold a `Tensor`,
    which also records statements, and computes them when its arrays are read.
    """

    _name: str = _Named()  # type: ignore[assignment]

    def __init__(
        self,
        name: str,
        shape: Sequence[int | None],
        facts: Facts,
        storage: Storage | None = None,
    ) -> None:
        self._name = name
        self._shape = tuple(shape)
        self._facts = facts
        self._storage = storage

    @classmethod
    def made(cls, operand: Operand) -> Self:
        """An operand over a kernel's result, under a new name."""
        made = object.__new__(cls)  # in less time than by the constructor
        made._shape, made._facts = operand._shape, operand._facts
        made._storage = operand._storage
        return made

    @property
    def name(self) -> str:
        """The tensor's name in statements, kernels and messages."""
        return self._name

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extent of each mode; None where a placeholder leaves it open."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._facts.dtype

    @property
    def format(self) -> Format:
        """How the tensor is stored."""
        return self._facts.format

    @property
    def fill(self) -> Number:
        """The value of absent entries."""
        return self._facts.fill

    @property
    def facts(self) -> Facts:
        """What a kernel depends on: format, element type, and the value of absent entries."""
        return self._facts

    @property
    def _arrays(self) -> Storage | None:
        """The arrays; None if there is no data."""
        return self._storage

    @property
    def _waits(self) -> bool:
        """Whether a statement has to be computed before there are arrays."""
        return False

    @property
    def storage(self) -> Storage:
        """The arrays.

        Raises:
            ShapeError: E203 if there is no data.
        """
        storage = self._storage
        if storage is None:
            storage = self._arrays
        if storage is None:
            raise ShapeError(
                f"{self.name} is a placeholder and has no data",
                code="E203",
                hint=f"pass it to the kernel: kernel({self.name}=...)",
            )
        return storage

    @property
    def device(self) -> str:
        """Where the arrays are: `"cpu"` or `"cuda"`."""
        storage = self._storage
        if storage is None:
            storage = self._arrays
        return "cuda" if isinstance(storage, DeviceStorage) else "cpu"

    @property
    def tensor_var(self) -> TensorVar:
        """The tensor as a node of expressions.

        It is created each time: a stored one would be a reference cycle that holds the arrays.
        """
        facts = self._facts
        return TensorVar(
            self._name, facts.format, facts.dtype, facts.fill, self._shape, source=self
        )

    # The protocol between kernels and the tensors of their statement

    def __openwork_result__(self, storage: Storage, facts: Facts | None = None) -> Self:
        """A new operand of this name over a kernel's result, whose `facts` may be known."""
        made = object.__new__(type(self))  # in less time than by the constructor
        made._name, made._shape, made._storage = self._name, storage.shape, storage
        if facts is None:
            facts = self._facts
            if storage.fill != facts.key:  # a semiring's zero
                facts = facts_of(storage)
        made._facts = facts
        return made

    def __openwork_part__(
        self, name: str, shape: Sequence[int | None], facts: Facts, storage: Storage | None
    ) -> Operand:
        """An operand in place of this one for some of its rows, or a list of these."""
        return Operand(name, shape, facts, storage)

    def __openwork_coerce__(self, obj: Any) -> Any:
        """`obj` as a kernel argument for this operand: eager operations pass what fits."""
        return obj
