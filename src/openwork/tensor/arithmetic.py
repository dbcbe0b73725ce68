"""Python's operators on tensors: each builds a statement, compiles it once, and runs it.

The tensor class derives from `Arithmetic`. The format of a result follows from the operands by
`result_format`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Self

import numpy as np
from scipy import sparse

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.algebra.types import as_dtype
from openwork.format.formats import dense
from openwork.index.nodes import Access, Apply
from openwork.index.terms import any_terms, applied
from openwork.runtime.storage import Storage
from openwork.tensor.broadcast import Layout, check_axes, matmul_layout
from openwork.tensor.convert.pack import unpack
from openwork.tensor.eager import Operand, Result, T, run, variables
from openwork.tensor.elementwise import NUMBERS, Operation, elementwise, operation
from openwork.tensor.result_format import result_format

_ADD, _SUB, _MUL = operation(ops.ADD), operation(ops.SUB), operation(ops.MUL)
_DIV, _POW, _NEG, _ABS = map(operation, (ops.DIV, ops.POW, ops.NEG, ops.ABS))
_EQ, _NE, _LT = map(operation, (ops.EQ, ops.NE, ops.LT))
_LE, _GT, _GE = map(operation, (ops.LE, ops.GT, ops.GE))
_FLOOR_DIVIDE, _REMAINDER = operation(ops.FLOOR_DIVIDE), operation(ops.REMAINDER)
_AND, _OR, _XOR = map(operation, (ops.BITWISE_AND, ops.BITWISE_OR, ops.BITWISE_XOR))
_LEFT, _RIGHT, _INVERT = map(operation, (ops.LEFT_SHIFT, ops.RIGHT_SHIFT, ops.INVERT))


class Arithmetic(Operand):
    """The operators of tensors, on either side of tensors, SciPy and NumPy arrays and numbers."""

    # NumPy and SciPy leave `array * tensor` to us instead of making arrays of objects.
    __array_ufunc__ = None
    __array_priority__ = 20.0

    def __array_function__(
        self, function: Any, types: Sequence[type], args: Any, kwargs: Any
    ) -> Any:
        """NumPy's functions take a tensor as what `__array__` makes of it.

        Two of them would take that a sparse tensor refuses for an answer: that it is not equal.
        """
        if not all(issubclass(each, (Arithmetic, np.ndarray)) for each in types):
            return NotImplemented
        if function in (np.array_equal, np.array_equiv):
            for each in (*args, *kwargs.values()):
                if isinstance(each, Arithmetic):
                    np.asarray(each)  # which raises if it is sparse
        return function.__wrapped__(*args, **kwargs)

    def __openwork_apply__(self, op: Op, args: Sequence[object]) -> Any:
        return self._elementwise(operation(op), *args)

    def __add__(self, other: object) -> Any:
        return self._elementwise(_ADD, self, other)

    def __radd__(self, other: object) -> Any:
        return self._elementwise(_ADD, other, self)

    def __sub__(self, other: object) -> Any:
        return self._elementwise(_SUB, self, other)

    def __rsub__(self, other: object) -> Any:
        return self._elementwise(_SUB, other, self)

    def __mul__(self, other: object) -> Any:
        return self._elementwise(_MUL, self, other)

    def __rmul__(self, other: object) -> Any:
        return self._elementwise(_MUL, other, self)

    def __truediv__(self, other: object) -> Any:
        return self._elementwise(_DIV, self, other)

    def __rtruediv__(self, other: object) -> Any:
        return self._elementwise(_DIV, other, self)

    def __floordiv__(self, other: object) -> Any:
        return self._elementwise(_FLOOR_DIVIDE, self, other)

    def __rfloordiv__(self, other: object) -> Any:
        return self._elementwise(_FLOOR_DIVIDE, other, self)

    def __mod__(self, other: object) -> Any:
        return self._elementwise(_REMAINDER, self, other)

    def __rmod__(self, other: object) -> Any:
        return self._elementwise(_REMAINDER, other, self)

    def __pow__(self, other: object) -> Any:
        return self._elementwise(_POW, self, other)

    def __rpow__(self, other: object) -> Any:
        return self._elementwise(_POW, other, self)

    def __eq__(self, other: object) -> Any:
        return self._elementwise(_EQ, self, other)

    def __ne__(self, other: object) -> Any:
        return self._elementwise(_NE, self, other)

    def __lt__(self, other: object) -> Any:
        return self._elementwise(_LT, self, other)

    def __le__(self, other: object) -> Any:
        return self._elementwise(_LE, self, other)

    def __gt__(self, other: object) -> Any:
        return self._elementwise(_GT, self, other)

    def __ge__(self, other: object) -> Any:
        return self._elementwise(_GE, self, other)

    __hash__ = object.__hash__  # a tensor is a key by identity, though `==` compares elements

    def equals(self, other: object) -> bool:
        """Whether `other` has the same shape and values, whatever its format and element type.

        A NaN is not equal to itself, as in `numpy.array_equal`.

        >>> from openwork.tensor.create import tensor
        >>> A = tensor([[0, 3], [4, 0]], format="CSR")
        >>> A.equals(A.to("COO(2)")), A.equals([[0, 3], [4, 5]])
        (True, False)
        """
        operand = other if isinstance(other, Arithmetic) else type(self).wrap(other)
        if self.storage.shape != operand.storage.shape:
            return False
        differing: Storage = (self != operand)._host
        if differing.format.is_dense:
            return not differing.values.any()
        _, values = unpack(differing)
        if differing.fill and values.size < prod(differing.shape):
            return False
        return not values.any()

    def __and__(self, other: object) -> Any:
        return self._elementwise(_AND, self, other)

    def __rand__(self, other: object) -> Any:
        return self._elementwise(_AND, other, self)

    def __or__(self, other: object) -> Any:
        return self._elementwise(_OR, self, other)

    def __ror__(self, other: object) -> Any:
        return self._elementwise(_OR, other, self)

    def __xor__(self, other: object) -> Any:
        return self._elementwise(_XOR, self, other)

    def __rxor__(self, other: object) -> Any:
        return self._elementwise(_XOR, other, self)

    def __lshift__(self, other: object) -> Any:
        return self._elementwise(_LEFT, self, other)

    def __rlshift__(self, other: object) -> Any:
        return self._elementwise(_LEFT, other, self)

    def __rshift__(self, other: object) -> Any:
        return self._elementwise(_RIGHT, self, other)

    def __rrshift__(self, other: object) -> Any:
        return self._elementwise(_RIGHT, other, self)

    def __invert__(self) -> Self:
        return elementwise(type(self), _INVERT, (self,))

    def __neg__(self) -> Self:
        return elementwise(type(self), _NEG, (self,))

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return elementwise(type(self), _ABS, (self,))

    def __matmul__(self, other: object) -> Any:
        operand = self._operand(other)
        return operand if operand is NotImplemented else _matmul(self, operand)

    def __rmatmul__(self, other: object) -> Any:
        operand = self._operand(other)
        return operand if operand is NotImplemented else _matmul(operand, self)

    def sum(self, axis: int | Sequence[int] | None = None) -> Self:
        """The sum over one mode, several, or all of them; the result is dense.

        Small integers are added up in 64 bits, as NumPy does.

        Args:
            axis: the modes to sum over; negative ones count from the end.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[1.0, 2.0], [3.0, 4.0]]).sum(axis=0).to_numpy()
        array([4., 6.])
        """
        order = len(self.storage.shape)
        axes = check_axes(axis, order, self.name)
        kept = tuple(mode for mode in range(order) if mode not in axes)

        def build(accesses: Sequence[Access]) -> Result:
            wide = np.add.reduce(np.empty(0, accesses[0].dtype)).dtype
            return Result(accesses[0], dense(len(kept)), as_dtype(wide))

        layout = Layout((tuple(range(order)),), kept, ((),))
        return run("sum", layout, (self,), build)

    def _operand(self, other: object) -> Any:
        """`other` as a tensor, or NotImplemented where Python should try something else."""
        if isinstance(other, Arithmetic):
            return other
        return type(self).wrap(other) if _is_array(other) else NotImplemented

    def _elementwise(self, operation: Operation, *args: object) -> Any:
        if any_terms(args):
            return applied(operation.op, *args)
        made = [arg if isinstance(arg, NUMBERS) else self._operand(arg) for arg in args]
        if any(arg is NotImplemented for arg in made):
            return NotImplemented
        return elementwise(type(self), operation, made)


def _is_array(obj: object) -> bool:
    return (
        isinstance(obj, (list, tuple, np.ndarray, *NUMBERS))
        or sparse.issparse(obj)
        or hasattr(obj, "__array_interface__")
        or hasattr(obj, "__dlpack__")
    )


def _matmul(left: T, right: T) -> T:
    """Matrix and vector products, with NumPy's rules for vectors and for stacks of matrices."""
    layout = matmul_layout((left.storage.shape, right.storage.shape), (left.name, right.name))

    def build(accesses: Sequence[Access]) -> Result:
        rhs = Apply(ops.MUL, tuple(accesses))
        return Result(rhs, result_format(rhs, variables(layout.result)), rhs.dtype)

    return run("matmul", layout, (left, right), build)
