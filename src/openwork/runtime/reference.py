"""The reference evaluator: what a statement means, spelled out in dense NumPy.

Every subexpression is computed at every point of the iteration space, together with whether it is
*present* there. A present element follows the arithmetic of its type. An absent one is a structural
zero, or another fill value: a constant that obeys the operators' laws. The compiler shares nothing
with this module, against which it is tested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod
from typing import cast

import numpy as np

from openwork.algebra.entries import Entry
from openwork.algebra.meaning import has_records, meaning, stays
from openwork.algebra.operators import Op
from openwork.algebra.types import DType, Kind, Number, as_dtype, as_element, strong
from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.index.checks import moved_modes
from openwork.index.nodes import (
    Absent,
    Access,
    Affine,
    Apply,
    Assignment,
    Cast,
    Expr,
    IndexVar,
    Literal,
    Reduce,
    Selected,
)
from openwork.runtime.storage import Array, Storage
from openwork.tree import substitute, walk

# More points than this are refused: the evaluator holds several arrays of that size.
LIMIT = 2**28


@frozen(eq=False)
class Masked:
    """A tensor as dense arrays: `values` of its shape, and where an entry is `present`."""

    values: Array
    present: Array


@frozen(eq=False)
class _Element:
    """A subexpression at every point: one axis per variable, of length 1 where it is constant.

    `literal`: where the element is a number written in the statement. Such an element is present,
    yet an operator with only literal and absent arguments has nothing to compute.
    """

    values: Array
    present: Array
    literal: Array

    @property
    def constant(self) -> Array:
        """Where the value depends on no stored entry or coordinate."""
        return cast(Array, self.literal | ~self.present)


@frozen
class _Space:
    """The iteration space: the tensors, and the axis and extent of each variable.

    `numbers`: an empty sum is a number where its terms would be present without any entry.
    """

    operands: Mapping[str, Masked]
    extents: Mapping[IndexVar, int]
    axes: Mapping[IndexVar, int]
    numbers: bool = True
    moved: frozenset[tuple[str, int, IndexVar]] = frozenset()  # modes that are read at offsets

    def coordinates(self, var: IndexVar) -> Array:
        """0, 1, 2, ... along the axis of `var`."""
        shape = [1] * len(self.axes)
        shape[self.axes[var]] = self.extents[var]
        return np.arange(self.extents[var], dtype=np.int64).reshape(shape)

    def read(self, array: Array, variables: Sequence[IndexVar]) -> Array:
        """The elements `array[i, j, ...]` for all values of `variables`."""
        if not variables:
            return array.reshape([1] * len(self.axes))
        self.allow({var: self.extents[var] for var in variables}.values())
        return cast(Array, array[tuple(map(self.coordinates, variables))])

    def write(self, array: Array, variables: Sequence[IndexVar], new: Array) -> None:
        """Set the elements `array[i, j, ...]` for all values of `variables`."""
        free = [n for n in new.shape if n != 1]
        if len(free) > len(set(variables)) or (not variables and new.size != 1):
            raise InternalError(f"the result has {variables}, the right side has more variables")
        array[tuple(map(self.coordinates, variables))] = new if variables else new.reshape(())

    @staticmethod
    def allow(shape: Iterable[int]) -> None:
        """Refuse shapes that would exhaust memory, before allocating anything."""
        points = prod(shape)
        if points > LIMIT:
            raise MemoryError(
                f"the reference evaluator would need {points} points in a dense array "
                f"(at most {LIMIT}); a compiled kernel does not"
            )


def evaluate(
    assignment: Assignment,
    operands: Mapping[str, Masked],
    extents: Mapping[IndexVar, int],
    out: Masked | None = None,
) -> Masked:
    """The result of `assignment`, whose reductions are all explicit.

    Args:
        assignment: the statement, after `index.einstein.explicit`.
        operands: every tensor on the right side, by name.
        extents: the extent of each variable.
        out: the result's old entries, which `lhs op= rhs` combines with; none by default.

    Returns:
        The values in the result's element type, and which of them are entries: those where the
        right side is present, or differs from the result's fill value. Where only an empty sum is
        present, the result need not have an entry.
    """
    variables = dict.fromkeys(n for n in walk(assignment) if isinstance(n, IndexVar))
    axes = {var: axis for axis, var in enumerate(variables)}
    space = _Space(operands, extents, axes, moved=moved_modes(assignment))
    lhs, dtype = assignment.lhs, assignment.lhs.tensor.dtype
    shape = tuple(extents[var] for var in lhs.vars)
    space.allow(shape)
    fill = as_element(lhs.tensor.fill, dtype)
    values, present = np.full(shape, fill), np.zeros(shape, dtype=bool)
    with np.errstate(all="ignore"):
        new = _element(assignment.rhs, space)
        there = new.present
        if any(isinstance(n, Reduce) and extents[n.var] == 0 for n in walk(assignment.rhs)):
            there = _element(assignment.rhs, replace(space, numbers=False)).present
        new = _Element(convert(new.values, dtype), there, new.literal)
        if assignment.op is not None:
            if out is not None:
                present = out.present.copy()
                values = np.where(present, convert(out.values, dtype), fill)
            old = _read(Masked(values, present), lhs.vars, space)
            new = _apply_to_result(assignment.op, old, new, dtype)
        space.write(values, lhs.vars, new.values)
        space.write(present, lhs.vars, new.present | ~_same(new.values, fill))
    return Masked(values, present)


def _apply_to_result(op: Op, old: _Element, new: _Element, dtype: DType) -> _Element:
    """`old op new`, in the arithmetic of the result's type."""
    kinds = (dtype, dtype)
    args = [
        _Element(convert(e.values, op.argument_type(kinds, n)), e.present, e.literal)
        for n, e in enumerate((old, new))
    ]
    return _obey(op, args, kinds, dtype)


def _element(expr: Expr, space: _Space) -> _Element:
    """`expr` at every point of the iteration space."""
    match expr:
        case Access(tensor=tensor, vars=variables):
            operand = space.operands[tensor.name]
            shape = operand.values.shape
            fits = (
                size == space.extents[var] or (tensor.name, mode, var) in space.moved
                for mode, (size, var) in enumerate(
                    zip(operand.values.shape, variables, strict=True)
                )
            )
            if not all(fits):
                raise InternalError(f"{expr} with data of shape {shape}")
            fill = as_element(tensor.fill, tensor.dtype)
            known = np.where(operand.present, convert(operand.values, tensor.dtype), fill)
            return _read(Masked(known, operand.present), variables, space)
        case Selected():
            return _selected(expr, space)
        case Literal(value=value):
            return _constant(value, expr.dtype, space, present=True)
        case Absent(value=value):
            return _constant(value, expr.dtype, space, present=False)
        case IndexVar():
            coordinates = space.coordinates(expr)
            return _Element(coordinates, _all(coordinates, True), _all(coordinates, False))
        case Cast(to=to, expr=inner):
            element = _element(inner, space)
            return _Element(convert(element.values, to), element.present, element.literal)
        case Apply(op=op, args=inner):
            kinds = [arg.kind for arg in inner]
            args = [_argument(op, kinds, n, arg, space) for n, arg in enumerate(inner)]
            return _obey(op, args, kinds, expr.dtype)
        case Reduce(op=op, var=var, expr=inner):
            made = _combine(op, _element(inner, space), space, var, expr.dtype)
            if space.numbers and space.extents[var] == 0 and _has_all_entries(inner, space):
                made = replace(made, present=_all(made.present, True))
            return made
    raise InternalError(f"the reference evaluator has no rule for {type(expr).__name__}")


def _selected(expr: Selected, space: _Space) -> _Element:
    """An element at computed coordinates; beyond the extents, the border, absent like the fill."""
    operand, dtype = space.operands[expr.tensor.name], expr.tensor.dtype
    fill = as_element(expr.tensor.fill, dtype)
    known = np.where(operand.present, convert(operand.values, dtype), fill)
    places = [_coordinate(place, space) for place in expr.coordinates]
    shape = operand.values.shape
    space.allow(np.broadcast_shapes(*(place.shape for place in places)))
    inside = np.asarray(True)
    for place, extent in zip(places, shape, strict=True):
        inside = inside & (place >= 0) & (place < extent)
    if expr.border is None and not inside.all():
        raise InternalError(f"{expr} with data of shape {shape}")
    if 0 in shape:
        values, present = np.full(inside.shape, fill), np.zeros(inside.shape, dtype=bool)
    else:
        at = tuple(np.clip(place, 0, n - 1) for place, n in zip(places, shape, strict=True))
        values, present = known[at], operand.present[at] & inside
    if expr.border is not None:
        border = as_element(expr.border, dtype)
        values = np.where(inside, values, border)
        present = present | (~inside & ~_same(border, as_element(expr.tensor.fill, dtype)))
    return _Element(values, present, _all(present, False))


def _coordinate(place: IndexVar | Affine | Access, space: _Space) -> Array:
    """A coordinate at every point of the iteration space."""
    match place:
        case IndexVar():
            return space.coordinates(place)
        case Affine(var=None, start=start):
            return np.full([1] * len(space.axes), start, dtype=np.int64)
        case Affine(var=IndexVar() as var, start=start, step=step):
            return start + step * space.coordinates(var)
        case Access():
            return _element(place, space).values.astype(np.int64)
    raise InternalError(f"the reference evaluator has no rule for a coordinate {place}")


def _has_all_entries(expr: Expr, space: _Space) -> bool:
    """Whether `expr` is present even at a point where no sparse tensor has an entry."""
    nowhere: dict[str, Masked] = {}
    for access in (node for node in walk(expr) if isinstance(node, Access)):
        tensor, shape = access.tensor, (1,) * len(access.vars)
        full = all(kind.full for kind in tensor.format.levels)
        value = _some(tensor.dtype) if full else as_element(tensor.fill, tensor.dtype)
        nowhere[tensor.name] = Masked(np.full(shape, value), np.full(shape, full))
    for node in (node for node in walk(expr) if isinstance(node, Selected)):
        expr = substitute(expr, {node: Absent(node.tensor.fill, node.tensor.dtype)})
    point = _Space(nowhere, dict.fromkeys(space.extents, 1), space.axes)
    return bool(_element(expr, point).present.all())


def _some(dtype: DType) -> Array:
    """An element that is there."""
    if isinstance(dtype, Entry):
        return dtype.records(np.ones(dtype.shape))
    return as_element(1, dtype)


def _read(tensor: Masked, variables: Sequence[IndexVar], space: _Space) -> _Element:
    values, present = (space.read(each, variables) for each in (tensor.values, tensor.present))
    return _Element(values, present, _all(present, False))


def _constant(value: Number, dtype: DType, space: _Space, present: bool) -> _Element:
    values = np.full([1] * len(space.axes), as_element(value, dtype))
    return _Element(values, _all(values, present), _all(values, present))


def _argument(op: Op, kinds: Sequence[Kind], n: int, arg: Expr, space: _Space) -> _Element:
    """Argument `n` of `op`, converted to the type that `op` computes in."""
    to = strong(kinds[n]) if op.definition is not None else op.argument_type(kinds, n)
    if isinstance(arg, Literal):  # Python numbers get their type here, and only here
        return _constant(arg.value, to, space, present=True)
    element = _element(arg, space)
    return _Element(convert(element.values, to), element.present, element.literal)


def _obey(op: Op, args: Sequence[_Element], kinds: Sequence[Kind], dtype: DType) -> _Element:
    """`op` applied to `args` of `kinds`, by the first of these that holds at a point:

    1. an absent argument is the operator's annihilator: absent, with that value;
    2. every argument is absent or a literal, and one is absent: absent, with the computed value;
    3. an absent argument is the operator's identity: the other argument, unchanged;
    4. the operator selects and its condition is absent: the branch that it picks, unchanged, but
       a literal is absent;
    5. the computed value, present.
    """
    shape = np.broadcast_shapes(*(arg.values.shape for arg in args))
    _Space.allow(shape)
    values = np.broadcast_to(_compute(op, [arg.values for arg in args], kinds, dtype), shape)
    constant = reduce(np.logical_and, [arg.constant for arg in args])
    literal = np.broadcast_to(reduce(np.logical_and, [arg.literal for arg in args]), shape)
    present = ~constant | literal
    computes = present  # where law 2 does not hold
    # The last write wins, so the laws come in reverse.
    if op.selects:
        condition, yes, no = args
        picks, take = computes & ~condition.present, condition.values
        branch, written = (
            np.where(take, *pair) for pair in ((yes.present, no.present), (yes.literal, no.literal))
        )
        present = np.where(picks, branch & ~written, present)
        literal = literal & ~picks
    if op.arity == 2:
        for n, law in ((1, op.right_identity), (1, op.identity), (0, op.identity)):
            holds, other = computes & _absent_as(args[n], law), args[1 - n]
            if not holds.any() or not stays(kinds[1 - n], dtype):
                continue  # then the other argument need not even have the type of the result
            values = np.where(holds, convert(other.values, dtype), values)
            present = np.where(holds, other.present, present)
            literal = np.where(holds, other.literal, literal)
    for n, arg in reversed(list(enumerate(args))):
        for law in (op.annihilator, op.left_annihilator if n == 0 else None):
            holds = _absent_as(arg, law)
            values = np.where(holds, _number(law, dtype), values)
            present, literal = present & ~holds, literal & ~holds
    return _Element(values, present, literal)


def _combine(op: Op, element: _Element, space: _Space, var: IndexVar, dtype: DType) -> _Element:
    """`element` reduced over `var`: absent identities are skipped, all else takes part."""
    axis = space.axes[var]
    shape = list(element.values.shape)
    shape[axis] = space.extents[var]
    space.allow(shape)
    values = np.broadcast_to(convert(element.values, dtype), shape)
    start = as_element(op.identity_of(dtype), dtype)
    takes_part = np.broadcast_to(element.present, shape) | ~_same(values, start)
    if isinstance(op.ufunc, np.ufunc) and _stays(op.ufunc, dtype):
        total = op.ufunc.reduce(
            values, axis=axis, dtype=dtype, keepdims=True, initial=start[()], where=takes_part
        )
    else:

        def step(total: Array, at: int) -> Array:
            value, takes = values.take([at], axis), takes_part.take([at], axis)
            return np.where(takes, _compute(op, [total, value], (dtype, dtype), dtype), total)

        shape[axis] = 1
        total = reduce(step, range(space.extents[var]), np.full(shape, start))
    present = np.asarray(takes_part.any(axis=axis, keepdims=True))
    return _Element(np.asarray(total), present, _all(present, False))


def _stays(ufunc: np.ufunc, dtype: DType) -> bool:
    """Whether `ufunc` on two elements of `dtype` returns `dtype`."""
    if isinstance(dtype, Entry):
        return False
    return bool(ufunc.resolve_dtypes((dtype, dtype, None))[-1] == dtype)


def _compute(op: Op, values: Sequence[Array], kinds: Sequence[Kind], dtype: DType) -> Array:
    """`op` on arrays that are converted already, as an array of `dtype`."""
    if has_records(kinds) and op.definition is None and not op.selects:
        return convert(meaning(op.name, tuple(kinds)).on_arrays(values), dtype)
    args: list[Array | Number] = list(values)
    if op.definition is not None:  # a user's operator converts by itself, Python numbers last
        args = [
            value.item() if isinstance(kind, type) else value
            for value, kind in zip(values, kinds, strict=True)
        ]
    return convert(np.asarray(op.ufunc(*args)), dtype)


def convert(values: Array, dtype: DType) -> Array:
    """`values` as `dtype`, as C converts: truncated, wrapped, imaginary parts dropped."""
    if isinstance(dtype, Entry):
        return dtype.cast(values)
    if values.dtype.kind == "c" and dtype.kind not in "cb":
        values = values.real
    return values.astype(dtype, copy=False)


def _same(values: Array, value: Array) -> Array:
    """Where `values` are `value`; a NaN is the same as a NaN."""
    return cast(Array, (values == value) | ((values != values) & (value != value)))


def _absent_as(arg: _Element, law: Number | None) -> Array:
    """Where `arg` is absent and has the value of `law`."""
    dtype = as_dtype(arg.values.dtype)
    if law is None or (isinstance(dtype, Entry) and not dtype.has(law)):
        return np.zeros((), dtype=bool)
    return cast(Array, ~arg.present & _same(arg.values, _number(law, dtype)))


def _number(value: Number | None, dtype: DType) -> Array:
    return as_element(0 if value is None else value, dtype)


def _all(like: Array, value: bool) -> Array:
    return np.full(like.shape, value)


def to_masked(storage: Storage) -> Masked:
    """`storage` as dense arrays; absent elements have the fill value."""
    _Space.allow(storage.shape)
    coords, places = storage.coordinates()
    at = tuple(coords) or ...
    values = np.full(storage.shape, as_element(storage.fill, storage.dtype))
    present = np.zeros(storage.shape, dtype=bool)
    values[at], present[at] = storage.elements[places], True
    return Masked(values, present)


def masked_to_coo(tensor: Masked) -> tuple[Array, Array]:
    """Coordinates, of shape (order, entries), and values of the present entries, row by row."""
    coords = np.ascontiguousarray(np.argwhere(tensor.present).T)
    return coords, tensor.values[tensor.present]
