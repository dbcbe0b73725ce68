"""Python's operators on tensors: each builds a statement, compiles it once, and runs it.

The tensor class derives from `Arithmetic` and tells it how to wrap foreign operands; the format of
a result follows from the operands by `result_format`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self, TypeVar, cast

import numpy as np
from scipy import sparse

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.algebra.types import DType, Kind, Number, as_dtype, number
from openwork.errors import ParseError
from openwork.format.formats import Format, dense
from openwork.index.nodes import (
    Access,
    Apply,
    Assignment,
    Expr,
    IndexVar,
    Literal,
    TensorVar,
    as_expr,
)
from openwork.runtime.storage import Storage
from openwork.tensor.broadcast import (
    Layout,
    broadcast,
    check_axes,
    matmul_layout,
    squeeze,
)
from openwork.tensor.eager import KERNELS, RESULT, call, operand_name
from openwork.tensor.result_format import absent_value, result_format, sparse_accesses

Signature = tuple[Format, DType, object]
_NUMBERS = (bool, int, float, complex, np.generic)


class Result(NamedTuple):
    """What an eager statement computes, and how the result is stored."""

    rhs: Expr
    format: Format
    dtype: DType


Builder = Callable[[Sequence[Access]], Result]


class Arithmetic:
    """The operators of tensors, on either side of tensors, SciPy and NumPy arrays and numbers."""

    # NumPy and SciPy leave `array * tensor` to us instead of making arrays of objects.
    __array_ufunc__ = None
    __array_priority__ = 20.0

    # What the tensor class provides.

    @property
    def storage(self) -> Storage:
        """The arrays."""
        raise NotImplementedError

    @property
    def signature(self) -> Signature:
        """What a kernel depends on: format, element type, and the value of absent entries."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """What messages call the tensor."""
        raise NotImplementedError

    @property
    def var(self) -> TensorVar:
        """The tensor as expressions see it."""
        raise NotImplementedError

    @classmethod
    def wrap(cls, obj: object, dtype: DType | None = None) -> Self:
        """A foreign array or number as a tensor."""
        raise NotImplementedError

    @classmethod
    def hollow(cls, name: str, signature: Signature) -> Self:
        """A tensor without data or extents, for statements that serve any shape."""
        raise NotImplementedError

    @classmethod
    def of(cls, storage: Storage) -> Self:
        """A tensor around `storage`, under a name of its own."""
        raise NotImplementedError

    # Operators.

    def __openwork_apply__(self, op: Op, args: Sequence[object]) -> Any:
        if any(isinstance(arg, Expr) for arg in args):
            return Apply(op, tuple(as_expr(arg) for arg in args))
        return self._elementwise(op, *args)

    def __add__(self, other: object) -> Any:
        return self._elementwise(ops.ADD, self, other)

    def __radd__(self, other: object) -> Any:
        return self._elementwise(ops.ADD, other, self)

    def __sub__(self, other: object) -> Any:
        return self._elementwise(ops.SUB, self, other)

    def __rsub__(self, other: object) -> Any:
        return self._elementwise(ops.SUB, other, self)

    def __mul__(self, other: object) -> Any:
        return self._elementwise(ops.MUL, self, other)

    def __rmul__(self, other: object) -> Any:
        return self._elementwise(ops.MUL, other, self)

    def __truediv__(self, other: object) -> Any:
        return self._elementwise(ops.DIV, self, other)

    def __rtruediv__(self, other: object) -> Any:
        return self._elementwise(ops.DIV, other, self)

    def __pow__(self, other: object) -> Any:
        return self._elementwise(ops.POW, self, other)

    def __rpow__(self, other: object) -> Any:
        return self._elementwise(ops.POW, other, self)

    def __neg__(self) -> Self:
        return _elementwise_of(self, ops.NEG, (self,))

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return _elementwise_of(self, ops.ABS, (self,))

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
        shape = self.storage.shape
        axes = check_axes(axis, len(shape), self.name)
        kept = tuple(mode for mode in range(len(shape)) if mode not in axes)
        dtype = as_dtype(np.add.reduce(np.empty(0, self.storage.dtype)).dtype)

        def build(accesses: Sequence[Access]) -> Result:
            return Result(accesses[0], dense(len(kept)), dtype)

        layout = Layout((tuple(range(len(shape))),), kept, ((),))
        return _run(("sum",), layout, (self,), build)

    def _operand(self, other: object) -> Any:
        """`other` as a tensor, or NotImplemented where Python should try something else."""
        if isinstance(other, Arithmetic):
            return other
        if isinstance(other, Expr) or not _is_array(other):
            return NotImplemented
        return type(self).wrap(other)

    def _elementwise(self, op: Op, *args: object) -> Any:
        if any(isinstance(arg, Expr) for arg in args):
            return Apply(op, tuple(as_expr(arg) for arg in args))
        made = [arg if isinstance(arg, _NUMBERS) else self._operand(arg) for arg in args]
        if any(arg is NotImplemented for arg in made):
            return NotImplemented
        return _elementwise_of(self, op, tuple(made))


T = TypeVar("T", bound=Arithmetic)


def _is_array(obj: object) -> bool:
    return (
        isinstance(obj, list | tuple | np.ndarray | bool | int | float | complex | np.generic)
        or sparse.issparse(obj)
        or hasattr(obj, "__array_interface__")
        or hasattr(obj, "__dlpack__")
    )


def _elementwise_of(like: T, op: Op, args: tuple[Any, ...]) -> T:
    """`op` applied element by element, with NumPy's broadcasting.

    A number becomes an operand, so that `2 * A` and `3 * A` share a kernel; unless its value
    decides whether the result is sparse, as in `A ** 2`.
    """
    kinds = tuple(_kind(arg) for arg in args)
    unchanged = _unchanged(op, args)
    if unchanged is not None:
        return cast(T, unchanged.astype(op.result(kinds)).copy())
    signatures = tuple(arg.signature if isinstance(arg, Arithmetic) else None for arg in args)
    literals: tuple[Literal | None, ...] = (None,) * len(args)
    if None in signatures and _value_matters(op, signatures, kinds):
        candidates = tuple(
            None if isinstance(arg, Arithmetic) else _literal(arg, op.argument_type(kinds, n))
            for n, arg in enumerate(args)
        )
        if _keeps_fill(op, signatures, candidates):
            literals = candidates
    tensors: tuple[T, ...] = tuple(
        cast(T, arg) if isinstance(arg, Arithmetic) else _number_tensor(like, arg, op, kinds, n)
        for n, arg in enumerate(args)
        if literals[n] is None
    )
    layout = broadcast([t.storage.shape for t in tensors], [t.name for t in tensors], op)

    def build(accesses: Sequence[Access]) -> Result:
        rest = iter(accesses)
        rhs = Apply(op, tuple(next(rest) if given is None else given for given in literals))
        return Result(rhs, result_format(rhs, _variables(layout.result), _fill_of(rhs)), rhs.dtype)

    return _run((op, literals), layout, tensors, build)


def _unchanged(op: Op, args: tuple[Any, ...]) -> Any:
    """The tensor among two arguments whose partner, a number, leaves it as it is: `0 + A`."""
    if len(args) != 2:
        return None
    for position, (arg, other) in enumerate(zip(args, reversed(args), strict=True)):
        if isinstance(arg, Arithmetic) and isinstance(other, _NUMBERS):
            laws = (op.identity, op.right_identity if position == 0 else None)
            if any(law is not None and other == law for law in laws):
                return arg
    return None


def _kind(arg: Any) -> Kind:
    if isinstance(arg, Arithmetic):
        return arg.signature[1]
    return as_expr(arg).kind


def _literal(value: Any, dtype: DType) -> Literal:
    expr = as_expr(value)
    if not isinstance(expr, Literal):
        raise ParseError(f"{value!r} is not a number", code="E112")
    _check_fits(expr.value, dtype)
    return expr


def _check_fits(value: Number, dtype: DType) -> None:
    """Refuse an integer that its partner's element type cannot hold, as NumPy does."""
    if dtype.kind in "iu" and isinstance(value, int):
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            raise ParseError(
                f"{value} does not fit into {dtype}",
                code="E112",
                hint="convert the tensor first: A.astype('int64')",
            )


def _number_tensor(like: T, value: Any, op: Op, kinds: tuple[Kind, ...], position: int) -> T:
    """A number as an operand without modes, of the type that the operator wants."""
    dtype = op.argument_type(kinds, position)
    literal = _literal(value, dtype)
    return type(like).wrap(np.array(number(literal.value, dtype), dtype=dtype))


@lru_cache(maxsize=1024)
def _value_matters(
    op: Op, signatures: tuple[Signature | None, ...], kinds: tuple[Kind, ...]
) -> bool:
    """Whether only a number's value can tell if the result is the fill where tensors are absent."""
    scalars = tuple(
        (dense(0), op.argument_type(kinds, n), 0) if signature is None else signature
        for n, signature in enumerate(signatures)
    )
    rhs = Apply(op, tuple(_stand_in(n, s) for n, s in enumerate(scalars)))
    return bool(sparse_accesses(rhs)) and absent_value(rhs) is None


def _keeps_fill(
    op: Op, signatures: tuple[Signature | None, ...], literals: tuple[Literal | None, ...]
) -> bool:
    """Whether absent entries stay what they are with these numbers."""
    args: list[Expr] = []
    for n, (signature, literal) in enumerate(zip(signatures, literals, strict=True)):
        if literal is not None:
            args.append(literal)
        elif signature is not None:
            args.append(_stand_in(n, signature))
    rhs = Apply(op, tuple(args))
    fills = {number(a.tensor.fill, rhs.dtype) for a in sparse_accesses(rhs)}
    value = absent_value(rhs)
    return value is not None and fills == {value}


def _stand_in(position: int, signature: Signature) -> Access:
    """An access with the facts of a tensor and no tensor."""
    format, dtype, fill = signature
    plain = fill if isinstance(fill, bool | int | float | complex) else float("nan")
    shape = (None,) * format.ndim
    variables = tuple(IndexVar(f"i{mode}") for mode in range(format.ndim))
    return Access(TensorVar(operand_name(position), format, dtype, plain, shape), variables)


def _fill_of(rhs: Expr) -> Number:
    """The value of absent entries of a result: what is left without operands, else zero."""
    value = absent_value(rhs)
    return 0 if value is None else value


def _variables(numbers: Sequence[int]) -> tuple[IndexVar, ...]:
    return tuple(IndexVar(f"i{n}") for n in numbers)


def _matmul(left: T, right: T) -> T:
    """Matrix and vector products, with NumPy's rules for vectors and for stacks of matrices."""
    shapes = (left.storage.shape, right.storage.shape)
    layout = matmul_layout(shapes, (left.name, right.name))

    def build(accesses: Sequence[Access]) -> Result:
        rhs = Apply(ops.MUL, tuple(accesses))
        return Result(rhs, result_format(rhs, _variables(layout.result)), rhs.dtype)

    return _run(("matmul",), layout, (left, right), build)


def _run(
    operation: tuple[Hashable, ...], layout: Layout, operands: tuple[T, ...], build: Builder
) -> T:
    """Compile what `build` makes of accesses to `operands` by `layout`, or find it, and run it."""
    tensors = [
        type(operand).of(squeeze(operand.storage, modes)) if modes else operand
        for operand, modes in zip(operands, layout.dropped, strict=True)
    ]
    signatures = tuple(tensor.signature for tensor in tensors)
    cls = type(tensors[0])

    def assignment() -> Assignment:
        accesses = [
            Access(cls.hollow(operand_name(n), signature).var, _variables(numbers))
            for n, (signature, numbers) in enumerate(zip(signatures, layout.operands, strict=True))
        ]
        made = build(accesses)
        fill = 0 if made.format.is_dense else _fill_of(made.rhs)
        result = cls.hollow(RESULT, (made.format, made.dtype, number(fill, made.dtype)))
        return Assignment(Access(result.var, _variables(layout.result)), made.rhs)

    kernel = KERNELS.get((*operation, layout.operands, layout.result, *signatures), assignment)
    return cast(T, call(kernel, tensors))
