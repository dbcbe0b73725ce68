"""Reductions of whole tensors, as eager statements over stored entries.

Sums, products, extremes and truth are found from the stored entries alone: their fill is read as
the operator's identity, so that no loop walks over absent ones. How many are absent is counted, and
the fill joins the result where it is not neutral.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from openwork.algebra import operators as ops
from openwork.algebra.entries import Entry
from openwork.algebra.operators import Op
from openwork.algebra.types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT64,
    DType,
    Number,
    as_dtype,
    computed,
    number,
)
from openwork.errors import ShapeError
from openwork.format.formats import dense
from openwork.format.layouts import AOS
from openwork.frozen import frozen
from openwork.index.nodes import Access, Apply, Cast, Expr, IndexVar, Literal, Reduce
from openwork.runtime.storage import Storage
from openwork.tensor.convert.pack import unpack
from openwork.tensor.eager import KERNELS, Result, around, called, run, variables
from openwork.tensor.elementwise import elementwise, operation
from openwork.tensor.operand import Operand
from openwork.tensor.rearrange.broadcast import Layout, check_axes
from openwork.tensor.rearrange.shape import reshaped

Axis = int | Sequence[int] | None

# The reductions that NumPy has as methods, by their names.
REDUCTIONS = {
    "sum": ops.ADD, "prod": ops.MUL, "min": ops.MIN, "max": ops.MAX, "any": ops.OR, "all": ops.AND,
}  # fmt: skip


@frozen
class Modes:
    """Which modes a reduction keeps: `kept`, and what the shape of the result is."""

    order: int
    axes: tuple[int, ...]
    extents: tuple[int, ...]
    keepdims: bool

    @staticmethod
    def of(operand: Operand, axis: Axis, keepdims: bool) -> Modes:
        """The modes for NumPy's `axis` and `keepdims`."""
        shape = operand.storage.shape
        return Modes(len(shape), check_axes(axis, len(shape), operand.name), shape, keepdims)

    @property
    def kept(self) -> tuple[int, ...]:
        """The modes of the result, before `keepdims`."""
        return tuple(mode for mode in range(self.order) if mode not in self.axes)

    @property
    def count(self) -> int:
        """How many elements each element of the result is made of."""
        return prod(self.extents[mode] for mode in self.axes)

    def layout(self, others: int = 0) -> Layout:
        """One operand with all modes, the result, and further operands like the result."""
        every, kept = tuple(range(self.order)), self.kept
        return Layout((every, *[kept] * others), kept, ((),) * (1 + others))

    def shaped(self, made: Operand) -> Operand:
        """The result with the modes that `keepdims` asks for."""
        if not self.keepdims:
            return made
        shape = tuple(1 if n in self.axes else e for n, e in enumerate(self.extents))
        return around(reshaped(made.storage, shape), made.name)


def reduction(
    name: str, operand: Operand, axis: Axis = None, keepdims: bool = False, dtype: object = None
) -> Operand:
    """The sum, product, minimum, maximum, or the truth of any or all elements; it is dense.

    Small integers are added up and multiplied in 64 bits, as NumPy does.
    """
    what = None
    if not keepdims and (axis is None or type(axis) is int):
        what = name, axis, dtype.str if isinstance(dtype, np.dtype) else None
        what = what if dtype is None or what[2] else None
    if what is not None:
        again = KERNELS.again(Operand, what, (operand,))
        if again is not None:
            return again
        made = KERNELS.repeat(what, operand)
        if made is not None:
            return made
    op, modes = REDUCTIONS[name], Modes.of(operand, axis, keepdims)
    if op in (ops.MIN, ops.MAX) and not modes.count:
        raise ShapeError(
            f"{operand.name} has no {name}: there are no elements along axis {axis}",
            code="E204",
            hint="append an element, or choose another axis",
        )
    kind = as_dtype(dtype) if dtype is not None else _type_of(op, operand.facts.dtype)
    identity = op.identity_of(kind)
    stored, fill = operand, number(operand.fill, operand.facts.dtype)
    neutral = operand.format.is_dense or _converted(op, fill, kind) == identity
    if not neutral:
        stored = _with_fill(operand, _neutral_fill(op, operand.facts.dtype, identity))
    named: tuple[object, ...] = ()
    if what is not None and neutral:
        named = called(what, (operand,)) or (what, operand.facts)
    made = _reduced(op, stored, modes, kind, named)
    if not neutral:
        made = _joined(op, made, operand, modes, _converted(op, fill, kind), kind)
    return modes.shaped(made)


def _type_of(op: Op, dtype: DType) -> DType:
    """The element type of a reduction of elements of a type."""
    if op in (ops.OR, ops.AND):
        return BOOL
    if isinstance(dtype, Entry):
        return dtype.decoded
    if op in (ops.MIN, ops.MAX):
        return dtype
    return computed(as_dtype(np.add.reduce(np.empty(0, dtype)).dtype))


def _converted(op: Op, value: Number, kind: DType) -> Number:
    """An element as the reduction takes it."""
    return bool(value) if op in (ops.OR, ops.AND) else number(value, kind)


def _neutral_fill(op: Op, dtype: DType, identity: Number) -> Number:
    """The fill, of the operand's type, that counts as the identity."""
    return number(identity, dtype)


def _with_fill(operand: Operand, fill: Number) -> Operand:
    """The same arrays with another value of absent entries."""
    return around(replace(operand.storage, fill=fill), operand.name)


def _reduced(
    op: Op, operand: Operand, modes: Modes, kind: DType, called: tuple[object, ...] = ()
) -> Operand:
    """The reduction by one statement; `called`: as for `run`."""
    over = variables(modes.axes)

    def build(accesses: Sequence[Access]) -> Result:
        element: Expr = accesses[0]
        if op in (ops.OR, ops.AND) and element.dtype != BOOL:
            element = Apply(ops.NE, (element, Literal(0)))
        elif element.dtype != kind:
            element = Cast(kind, element)
        return Result(_nested(op, over, element), dense(len(modes.kept)), kind)

    return run((op.name, str(kind)), modes.layout(), (operand,), build, called)


def _nested(op: Op, over: Sequence[IndexVar], element: Expr) -> Expr:
    for var in reversed(over):
        element = Reduce(op, var, element)
    return element


def trace(operand: Operand) -> Operand:
    """The sum of the diagonal of a square matrix whose absent entries are zero."""
    again = KERNELS.again(Operand, "trace", (operand,))
    if again is not None:
        return again
    kind = _type_of(ops.ADD, operand.facts.dtype)

    def build(accesses: Sequence[Access]) -> Result:
        element = accesses[0] if accesses[0].dtype == kind else Cast(kind, accesses[0])
        return Result(_nested(ops.ADD, variables((0,)), element), dense(0), kind)

    layout = Layout(((0, 0),), (), ((),))
    return run(("trace", str(kind)), layout, (operand,), build, called("trace", (operand,)))


def root_of_squares(operand: Operand, axis: Axis) -> Operand:
    """The length of vectors of real numbers, whose absent entries are zero."""
    simple = axis is None or type(axis) is int
    again = KERNELS.again(Operand, ("length", axis), (operand,)) if simple else None
    if again is not None:
        return again
    modes, kind = Modes.of(operand, axis, False), operand.facts.dtype

    def build(accesses: Sequence[Access]) -> Result:
        square = Apply(ops.MUL, (accesses[0], accesses[0]))
        total = _nested(ops.ADD, variables(modes.axes), square)
        return Result(Apply(ops.SQRT, (total,)), dense(len(modes.kept)), kind)

    key = called(("length", axis), (operand,)) if simple else ()
    return run(("length",), modes.layout(), (operand,), build, key)


# What absent entries add


def pattern(operand: Operand) -> Operand:
    """A tensor of ones where `operand` has entries, and zeros elsewhere."""
    storage = operand.storage.laid_out(AOS)
    ones = np.ones_like(storage.values[: storage.places], dtype=INT64)
    made = replace(storage, format=storage.format.of(INT64), dtype=INT64, values=ones, fill=0)
    return around(made, operand.name)


def absent(operand: Operand, modes: Modes) -> Operand:
    """How many absent entries each element of the result is made of."""
    if not modes.kept:  # no walk is needed to count all of them
        return _scalar(modes.count - operand.storage.nnz)
    stored = _reduced(ops.ADD, pattern(operand), modes, INT64)
    return _apply(ops.SUB, modes.count, stored)


def _scalar(count: int) -> Operand:
    return around(Storage.of_values((), dense(0), (), np.array([count], INT64), 0))


def _joined(
    op: Op, made: Operand, operand: Operand, modes: Modes, fill: Number, kind: DType
) -> Operand:
    """The reduction of stored entries, joined with the absent ones, which are all `fill`."""
    missing = absent(operand, modes)
    value = np.dtype(kind).type(fill) if not isinstance(kind, Entry) else fill
    if op is ops.ADD:
        with_fill = _apply(ops.ADD, made, _apply(ops.MUL, missing, value))
    elif op is not ops.MUL:
        with_fill = _apply(op, made, value)
    elif fill == 0:
        with_fill = _apply(ops.MUL, missing, value)  # a structural zero, even beside NaN
    else:
        with_fill = _apply(ops.MUL, made, _apply(ops.POW, value, missing))
    return _where_absent(missing, with_fill, made, kind)


def _where_absent(missing: Operand, yes: Operand, no: Operand, kind: DType) -> Operand:
    """`yes` where entries are missing, `no` elsewhere."""
    made = _apply(ops.SELECT, _apply(ops.GT, missing, 0), yes, no)
    return around(made.storage.astype(kind))


def _apply(op: Op, *args: Any) -> Operand:
    return elementwise(operation(op), args)


# Means

# A sum that is a statement of its own is in vectors; of fewer elements a second call takes longer.
_SUMMED_APART = 8192


def mean(operand: Operand, axis: Axis, keepdims: bool, dtype: object = None) -> Operand:
    """The arithmetic mean; of integers and bools in float64."""
    if dtype is None and not keepdims and _is_quick(operand, axis):
        return _mean_of_array(operand, axis)
    modes = Modes.of(operand, axis, keepdims)
    total = reduction("sum", operand, axis, keepdims, _floating(operand, dtype))
    return _divided(total, modes.count)


def _is_quick(operand: Operand, axis: Axis) -> bool:
    """Whether a mean is one statement: along one mode or all, of a small array of floats."""
    storage = operand.storage
    if not storage.alike or storage.dtype not in (FLOAT32, FLOAT64):
        return False
    if storage.values.size > _SUMMED_APART:
        return False
    return axis is None or (type(axis) is int and -len(storage.shape) <= axis < len(storage.shape))


def _mean_of_array(operand: Operand, axis: Axis) -> Operand:
    """The mean of a dense tensor as one statement: a sum, divided."""
    storage = operand.storage
    count = float(storage.shape[axis] if isinstance(axis, int) else storage.values.size)
    given = operand, count
    again = KERNELS.again(Operand, ("mean", axis), given)
    if again is not None:
        return again
    modes, kind = Modes.of(operand, axis, False), storage.dtype

    def build(accesses: Sequence[Access]) -> Result:
        total = _nested(ops.ADD, variables(modes.axes), accesses[0])
        return Result(Apply(ops.DIV, (total, accesses[1])), dense(len(modes.kept)), kind)

    layout = Layout((tuple(range(modes.order)), ()), modes.kept, ((), ()))
    number = around(Storage((), dense(0), kind, (), np.array([count], kind)))
    key = called(("mean", axis), given)
    return run(("mean",), layout, (operand, number), build, key)


def variance(operand: Operand, axis: Axis, keepdims: bool, correction: float) -> Operand:
    """The mean of the squared distance from the mean, with `correction` elements less."""
    modes = Modes.of(operand, axis, keepdims)
    kind = as_dtype(_floating(operand, None) or operand.facts.dtype)
    middle = mean(operand, axis, False)
    real = np.empty(0, kind).real.dtype
    sparse = not operand.format.is_dense

    def build(accesses: Sequence[Access]) -> Result:
        element, centre, *stored = accesses
        away = Apply(ops.SUB, (Cast(kind, element), centre))
        size = Apply(ops.ABS, (away,))
        square: Expr = Apply(ops.MUL, (size, size))
        if stored:  # ones, which limit the loops to stored entries
            square = Apply(ops.MUL, (Cast(as_dtype(real), stored[0]), square))
        over = variables(modes.axes)
        return Result(_nested(ops.ADD, over, square), dense(len(modes.kept)), as_dtype(real))

    every = tuple(range(modes.order))
    layout = Layout((every, modes.kept, *[every] * sparse), modes.kept, ((), (), *[()] * sparse))
    operands = (operand, middle, *([pattern(operand)] if sparse else []))
    total = run(("variance", str(kind)), layout, operands, build)
    if sparse:
        away = _apply(ops.ABS, _apply(ops.SUB, middle, operand.fill))
        missing = absent(operand, modes)
        more = _apply(ops.MUL, missing, _apply(ops.MUL, away, away))
        joined = _apply(ops.ADD, total, more)
        total = _where_absent(missing, joined, total, as_dtype(real))
    return modes.shaped(_divided(total, max(modes.count - correction, 0)))


def _floating(operand: Operand, dtype: object) -> object:
    """The type that a mean is computed in; None for the operand's own."""
    if dtype is not None or isinstance(operand.facts.dtype, Entry):
        return dtype
    return "float64" if operand.facts.dtype.kind in "iub" else operand.facts.dtype


def _divided(total: Operand, count: float) -> Operand:
    """Every element divided, by zero as well: then it is not a number, as in NumPy."""
    return _apply(ops.DIV, total, count)


# Where extremes are


def arg_extreme(op: Op, operand: Operand, axis: int | None, keepdims: bool) -> Operand:
    """The first coordinate along `axis` of the least or the greatest element."""
    if axis is None:
        flat = around(reshaped(operand.storage, (prod(operand.storage.shape),)), operand.name)
        made = arg_extreme(op, flat, 0, False)
        shape = (1,) * len(operand.storage.shape)
        return around(reshaped(made.storage, shape)) if keepdims else made
    modes = Modes.of(operand, axis, keepdims)
    if len(modes.axes) != 1:
        raise ShapeError(
            f"the place of an extreme along {len(modes.axes)} modes is not one coordinate",
            code="E204",
            hint="axis=None numbers all elements in row-major order; A.reshape joins modes",
        )
    extreme = reduction("min" if op is ops.MIN else "max", operand, axis)
    first = _first_equal(operand, extreme, modes)
    if not operand.format.is_dense:
        gap = around(_first_absent(operand.storage, modes))
        fill = np.dtype(operand.facts.dtype).type(operand.fill)
        is_fill = _apply(ops.EQ, extreme, fill)
        if operand.fill != operand.fill:
            is_fill = _apply(ops.NE, extreme, extreme)
        first = _apply(ops.MIN, first, _apply(ops.SELECT, is_fill, gap, np.int64(_NOWHERE)))
    return modes.shaped(first)


_NOWHERE = np.iinfo(np.int64).max


def _first_equal(operand: Operand, extreme: Operand, modes: Modes) -> Operand:
    """The first coordinate of a stored entry that is the extreme, NaN among them."""
    (axis,) = modes.axes
    (var,) = variables(modes.axes)
    sparse = not operand.format.is_dense
    what = "first", axis
    again = None if sparse else KERNELS.again(Operand, what, (operand, extreme))
    if again is not None:
        return again

    def build(accesses: Sequence[Access]) -> Result:
        element, wanted, *stored = accesses
        both_nan = Apply(
            ops.AND, (Apply(ops.NE, (element, element)), Apply(ops.NE, (wanted, wanted)))
        )
        equal: Expr = Apply(ops.OR, (Apply(ops.EQ, (element, wanted)), both_nan))
        if stored:
            equal = Apply(ops.AND, (stored[0], equal))
        chosen = Apply(ops.SELECT, (equal, var, Literal(_NOWHERE, INT64)))
        return Result(Reduce(ops.MIN, var, chosen), dense(len(modes.kept)), INT64)

    every = tuple(range(modes.order))
    layout = Layout((every, modes.kept, *[every] * sparse), modes.kept, ((), (), *[()] * sparse))
    operands = (operand, extreme, *([pattern(operand)] if sparse else []))
    return run(what, layout, operands, build, () if sparse else called(what, operands))


def _first_absent(storage: Storage, modes: Modes) -> Storage:
    """The first coordinate along the axis without an entry; none is beyond all of them.

    Sorted, the entries before the first gap are those whose rank is their coordinate.
    """
    (axis,) = modes.axes
    coords, _ = unpack(storage.host())
    shape = tuple(modes.extents[mode] for mode in modes.kept)
    cells = np.zeros(coords.shape[1], dtype=np.int64)
    for mode in modes.kept:
        cells = cells * modes.extents[mode] + coords[mode]
    order = np.lexsort((coords[axis], cells))
    cells, along = cells[order], coords[axis][order]
    starts = np.searchsorted(cells, cells, side="left")
    in_front = cells[np.arange(len(cells)) - starts == along]
    gaps = np.bincount(in_front, minlength=prod(shape)).astype(np.int64)
    gaps[gaps == modes.extents[axis]] = _NOWHERE
    return Storage.of_values(shape, dense(len(shape)), ({},) * len(shape), gaps, 0)
