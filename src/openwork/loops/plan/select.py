"""Elements at coordinates that are not variables, as products with matrices that select them.

`x(i+1)` is the sum over `r` of `S(i,r) * x(r)`, where S has one entry in each row: at `r = i+1`. So
offsets, windows, strides, constants and gathers are relations between variables that are stored as
operands are, and every format, schedule and target takes them as it takes any operand. Where a
formula gives the coordinate, S has no arrays. Nothing of the tensor itself is copied.

Where the tensor lists its coordinates, S is stored by columns: entries are traversed as they are,
and each finds its place in the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import cast

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.algebra.types import BOOL, DType, Number, number
from openwork.format.formats import Format
from openwork.format.levels import AffineLevel, Compressed, Dense, Singleton
from openwork.frozen import frozen
from openwork.index.absence import within
from openwork.index.checks import moved_modes
from openwork.index.nodes import (
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
    TensorVar,
)
from openwork.tree import Node, map_children, walk

Coordinate = Affine | Access


@frozen
class Selection:
    """The matrix that selects the coordinates of a mode: `var[rows..., column]`.

    `tensor`, `mode`: what is read at them. `border`: whether some may lie outside, which then have
    no entry. `text`: the element, for messages.
    """

    var: TensorVar
    tensor: str
    mode: int
    coordinate: Coordinate
    rows: tuple[IndexVar, ...]
    column: IndexVar
    border: bool
    text: str

    @property
    def is_single(self) -> bool:
        """Whether every row has one entry."""
        return not self.border and self.var.format.order == tuple(range(self.var.ndim))

    @property
    def source(self) -> str:
        """The tensor that it is made for, or from."""
        return self.coordinate.tensor.name if isinstance(self.coordinate, Access) else self.tensor


@dataclass
class _Selections:
    """Makes the selections of one statement."""

    taken: set[str]
    moved: frozenset[tuple[str, int, IndexVar]]
    made: dict[tuple[object, ...], Selection] = field(default_factory=dict)

    def of(
        self, node: Selected, mode: int, coordinate: Coordinate, dtype: DType, fill: Number
    ) -> Selection:
        """The selection for a mode of `node`, with absent entries that stand for `fill`."""
        tensor, border = node.tensor, node.border is not None
        key = (tensor.name, mode, coordinate, border, dtype)
        known = self.made.get(key)
        if known is not None:
            return known
        rows = tuple(dict.fromkeys(v for v in walk(coordinate) if isinstance(v, IndexVar)))
        format = _format(tensor, mode, coordinate, border)
        name, column = self._fresh("at"), IndexVar(self._fresh(f"{tensor.name}{mode}_"))
        shape = (None,) * (len(rows) + 1)
        var = TensorVar(name, format, dtype, fill, shape)
        made = Selection(var, tensor.name, mode, coordinate, rows, column, border, str(node))
        self.made[key] = made
        return made

    def _fresh(self, base: str) -> str:
        name, count = base, 1
        while name in self.taken:
            count += 1
            name = f"{base}{count}"
        self.taken.add(name)
        return name


def _format(tensor: TensorVar, mode: int, coordinate: Coordinate, border: bool) -> Format:
    """How a selection is stored: by a formula where there is one."""
    if isinstance(coordinate, Access):
        return Format([*[Dense] * coordinate.tensor.ndim, Singleton])
    if coordinate.var is None:
        return Format([AffineLevel(coordinate.start)])
    levels = zip(tensor.format.levels, tensor.format.order, strict=True)
    if any(each == mode and level.walks and not level.locates for level, each in levels):
        return Format([Dense, Compressed], (1, 0))
    if border:
        return Format([Dense, Compressed])
    return Format([Dense, AffineLevel(coordinate.start, coordinate.step)])


Pending = list[tuple[Op, IndexVar]]


def with_selections(assignment: Assignment) -> tuple[Assignment, tuple[Selection, ...]]:
    """`assignment` with accesses by variables alone, and the selections that it then reads."""
    if not any(isinstance(node, Selected) for node in walk(assignment.rhs)):
        return assignment, ()
    names = {n.name for n in walk(assignment) if isinstance(n, (IndexVar, TensorVar))}
    made = _Selections(names, moved_modes(assignment))
    rhs, pending = _placed(assignment.rhs, made)
    return replace(assignment, rhs=_reduced(rhs, pending)), tuple(made.made.values())


def _placed(expr: Expr, made: _Selections) -> tuple[Expr, Pending]:
    """`expr` with its elements selected; the reductions that are still to be put around it.

    They go around the largest product, where they meet the sums of the statement.
    """
    if isinstance(expr, Access):
        return _element(_as_selected(expr, made.moved), made)
    if isinstance(expr, Selected):
        return _element(expr, made)
    waiting: Pending = []

    def change(node: Node) -> Node:
        if not isinstance(node, Expr):
            return node
        inner, pending = _placed(node, made)
        passing = [each for each in pending if _passes(expr, each[0])]
        waiting.extend(each for each in passing if each not in waiting)
        return _reduced(inner, [each for each in pending if each not in passing])

    return map_children(expr, change), waiting


def _passes(around: Expr, op: Op) -> bool:
    """Whether a reduction of one term may stand around `around` instead of its argument."""
    if isinstance(around, Apply):
        return around.op.annihilator is not None and around.op.annihilator == op.identity
    return isinstance(around, Cast) and op == ops.ADD


def _reduced(expr: Expr, pending: Iterable[tuple[Op, IndexVar]]) -> Expr:
    for op, var in pending:
        expr = Reduce(op, var, expr)
    return expr


def _as_selected(access: Access, moved: frozenset[tuple[str, int, IndexVar]]) -> Access | Selected:
    """An access to a mode that is read at offsets, too: its extent is not the variable's."""
    name = access.tensor.name
    if not any((name, mode, var) in moved for mode, var in enumerate(access.vars)):
        return access
    places = tuple(
        Affine(0, 1, var) if (name, mode, var) in moved else var
        for mode, var in enumerate(access.vars)
    )
    return Selected(access.tensor, places, None, access.span)


def _element(node: Access | Selected, made: _Selections) -> tuple[Expr, Pending]:
    """An element as a masked access, and the reductions over its new variables."""
    if isinstance(node, Access):
        return node, []
    tensor = node.tensor
    op = _reducer(tensor)
    nothing = op.identity_of(tensor.dtype)
    found = list(_selections(node, made, tensor.dtype, nothing))
    table = {selection.mode: selection.column for selection in found}
    variables = tuple(
        table[mode] if mode in table else cast(IndexVar, place)
        for mode, place in enumerate(node.coordinates)
    )
    expr = _masked(Access(tensor, variables, node.span), found)
    pending = [(op, selection.column) for selection in found]
    if node.border is None or number(node.border, tensor.dtype) == nothing:
        return expr, pending
    inside = list(_selections(node, made, BOOL, False))
    there = _masked(Literal(True, BOOL), inside)
    there = _reduced(there, [(ops.OR, selection.column) for selection in inside])
    border = Literal(number(node.border, tensor.dtype), tensor.dtype)
    return Apply(ops.SELECT, (there, _reduced(expr, pending), border)), []


def _selections(
    node: Selected, made: _Selections, dtype: DType, fill: Number
) -> Iterator[Selection]:
    for mode, place in enumerate(node.coordinates):
        if isinstance(place, IndexVar) and (node.tensor.name, mode, place) in made.moved:
            place = Affine(0, 1, place)
        if not isinstance(place, IndexVar):
            yield made.of(node, mode, place, dtype, fill)


def _masked(expr: Expr, selections: Iterable[Selection]) -> Expr:
    for selection in selections:
        pattern = Access(selection.var, (*selection.rows, selection.column))
        expr = within(pattern, expr, follows=True)
    return expr


def _reducer(tensor: TensorVar) -> Op:
    """The reduction whose identity is what absent entries of `tensor` are, so they add nothing.

    With another fill, absent entries are read, too: a row of the selection has one term at most.
    """
    candidates = (ops.OR,) if tensor.dtype == BOOL else (ops.ADD, ops.MIN, ops.MAX)
    for op in candidates:
        if op.identity_of(tensor.dtype) == tensor.fill:
            return op
    return candidates[0]
