"""Symbolic plans: compute the pattern of a sparse result once, and its values many times."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from openwork.errors import DataError
from openwork.runtime.storage import Array, Storage


class Computes(Protocol):
    """Computes a result from operands given by name."""

    def __call__(self, /, *, out: Any = None, **operands: Any) -> Any:
        """Compute the result."""
        ...


class SymbolicPlan:
    """A kernel whose result has a known pattern; calling it computes values only.

    Created by `kernel.symbolic(A=A, B=B)`. Every sparse operand of a call must have the pattern
    that it had there: the same index arrays, or equal ones. The results share one set of index
    arrays.

    >>> import numpy as np, openwork as ow
    >>> i, j, k = ow.indices("i j k")
    >>> A = ow.tensor(np.eye(3), format=ow.CSR, name="A")
    >>> B = ow.tensor(np.tri(3), format=ow.CSR, name="B")
    >>> C = ow.empty((3, 3), format=ow.CSR, name="C")
    >>> plan = ow.assign(C[i, k], A[i, j] * B[j, k]).compile().symbolic(A=A, B=B)
    >>> plan
    <SymbolicPlan C(i,k) = sum(j, A(i,j) * B(j,k)), 3 x 3 with 6 entries>
    >>> plan(A=2 * A).to_numpy()[2]
    array([2., 2., 2.])
    """

    def __init__(
        self,
        text: str,
        names: tuple[str, ...],
        given: tuple[Storage, ...],
        pattern: Storage,
        compute: Computes,
        coerce: Any,
        origin: tuple[Any, ...],
    ) -> None:
        self._text, self._names, self._pattern = text, names, pattern
        self._compute, self._coerce = compute, coerce
        self._origin = origin  # recreates the plan in another process
        self._shapes = tuple(storage.shape for storage in given)
        self._levels = tuple(storage.levels for storage in given)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._origin

    @property
    def result_nnz(self) -> int:
        """The number of entries of the result."""
        return self._pattern.nnz

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return self._pattern.shape

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        return f"<SymbolicPlan {self._text}, {shape} with {self.result_nnz} entries>"

    def __call__(self, /, *, out: Any = None, **operands: Any) -> Any:
        """Compute the values of the result.

        Args:
            out: a tensor to write the result into, instead of a new one.
            **operands: tensors (or arrays) to use instead of the statement's, by name.

        Raises:
            DataError: E509 if the pattern of an operand has changed since the plan was created.
            ShapeError: as for the kernel itself.
        """
        given = self._coerce(operands)
        for name, storage, shape, levels in zip(
            self._names, given, self._shapes, self._levels, strict=True
        ):
            fault = _changed(storage, shape, levels)
            if fault is not None:
                raise DataError(
                    f"{name} has another pattern than when the plan was created: {fault}",
                    code="E509",
                    hint="call the kernel itself, or create another plan with kernel.symbolic(...)",
                )
        return self._compute(out=out, **operands)


def _changed(storage: Storage, shape: tuple[int, ...], levels: Any) -> str | None:
    """How the pattern of an operand has changed; None if it has not."""
    if storage.shape != shape:
        return f"its shape is {storage.shape}, not {shape}"
    for number, (arrays, before) in enumerate(zip(storage.levels, levels, strict=True)):
        for name, array in arrays.items():
            if not _same(array, before[name]):
                return f"{name} of level {number} has changed"
    return None


def _same(array: Array, before: Array) -> bool:
    return array is before or (array.size == before.size and bool(np.array_equal(array, before)))
