"""Checks of an assignment before it is compiled, with errors in the user's terms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from openwork.algebra.entries import Entry
from openwork.algebra.meaning import is_held
from openwork.algebra.types import DType, Kind
from openwork.errors import Fault, ParseError, ShapeError
from openwork.index.nodes import (
    Access,
    Affine,
    Apply,
    Assignment,
    Expr,
    IndexVar,
    Literal,
    Selected,
    TensorVar,
)
from openwork.index.show import show
from openwork.tree import Node, children, walk

MAX_DEPTH = 200  # of an expression's tree: a long sum is deep, too


def check(assignment: Assignment) -> Assignment:
    """Return `assignment` if it can be compiled.

    Raises:
        ParseError: E107 if the result is read or its access repeats a variable, E109 if two tensors
            share a name, E106 if a variable has no extent, E108 if the result's element type
            cannot hold the right side, E102 if the expression is too deep.
        ShapeError: E201 if a variable runs over modes of different extents.

    >>> from openwork.algebra.types import FLOAT64
    >>> from openwork.format.formats import dense
    >>> from openwork.index.parse import parse_assignment
    >>> vectors = {n: TensorVar(n, dense(1), FLOAT64, shape=(s,)) for n, s in [("y", 3), ("x", 4)]}
    >>> check(parse_assignment("y(i) = 2 * x(i)", vectors))
    Traceback (most recent call last):
    ...
    openwork.errors.ShapeError: E201: i has extent 3 in mode 0 of y, but 4 in mode 0 of x
      y(i) = 2 * x(i)
                 ^^^^
      hint: y has shape (3,), x has shape (4,)
    """
    _check_depth(assignment)
    _check_names(assignment)
    check_result(assignment)
    known = extents(assignment)
    _check_extents(assignment, known)
    _check_type(assignment)
    return assignment


def extents(assignment: Assignment) -> dict[IndexVar, int | None]:
    """The extent of every variable; None where it is only known when data is bound.

    Raises:
        ShapeError: E201 if a variable runs over modes of different extents.
    """
    known: dict[IndexVar, int | None] = {}
    places: dict[IndexVar, tuple[Access | Selected, int]] = {}
    faults: list[Fault] = []
    moved = moved_modes(assignment)
    for node in walk(assignment):
        if isinstance(node, IndexVar):
            known.setdefault(node, None)
        if not isinstance(node, (Access, Selected)):
            continue
        for mode, var, extent in _given(node, moved):
            before = known.setdefault(var, None)
            if extent is None or extent == before:
                continue
            if before is None:
                known[var], places[var] = extent, (node, mode)
            else:
                faults.append(_disagreement(var, places[var], (node, mode)))
    if faults:
        first, *rest = faults
        raise ShapeError(
            first.message, code="E201", span=first.span, hint=first.hint, more=tuple(rest)
        )
    return known


def moved_modes(assignment: Assignment) -> frozenset[tuple[str, int, IndexVar]]:
    """The tensors, modes and variables of accesses at an offset that have no border.

    A mode that is read at `i+1` as well as at `i` bounds `i`, and does not say what it runs over.
    """
    return frozenset(
        (node.tensor.name, mode, c.var)
        for node in walk(assignment.rhs)
        if isinstance(node, Selected) and node.border is None
        for mode, c in enumerate(node.coordinates)
        if isinstance(c, Affine) and c.var is not None and c.count is None
    )


def _given(
    node: Access | Selected, moved: frozenset[tuple[str, int, IndexVar]]
) -> Iterator[tuple[int, IndexVar, int | None]]:
    """The modes of an access whose extent is that of a variable."""
    places = node.vars if isinstance(node, Access) else node.coordinates
    for mode, (place, extent) in enumerate(zip(places, node.tensor.shape, strict=True)):
        if isinstance(place, IndexVar) and (node.tensor.name, mode, place) not in moved:
            yield mode, place, extent
        elif isinstance(place, Affine) and place.var is not None and place.count is not None:
            yield mode, place.var, place.count


def wrong_order(tensor: TensorVar, given: int) -> str:
    """What is wrong with an access of `tensor` by `given` variables.

    >>> from openwork.algebra.types import FLOAT64
    >>> from openwork.format.formats import CSR
    >>> wrong_order(TensorVar("A", CSR, FLOAT64, shape=(2, 3)), 1)
    'A has 2 modes, but 1 index variable is given'
    """
    modes = f"{tensor.ndim} mode{'' if tensor.ndim == 1 else 's'}"
    are = "variable is" if given == 1 else "variables are"
    return f"{tensor.name} has {modes}, but {given} index {are} given"


def _check_depth(assignment: Assignment) -> None:
    level: dict[int, Node] = {0: assignment.rhs}
    for _ in range(MAX_DEPTH):
        level = {id(child): child for node in level.values() for child in children(node)}
        if not level:
            return
    if any(isinstance(node, Apply) for node in level.values()):
        raise ParseError(
            f"the expression is nested more than {MAX_DEPTH} deep",
            code="E102",
            hint="compute part of it in a separate statement",
        )


def _operands(assignment: Assignment) -> Iterator[Access | Selected]:
    return (node for node in walk(assignment.rhs) if isinstance(node, (Access, Selected)))


def _check_names(assignment: Assignment) -> None:
    """One name, one tensor."""
    known: dict[str, TensorVar] = {}
    for access in (assignment.lhs, *_operands(assignment)):
        other = known.setdefault(access.tensor.name, access.tensor)
        if other != access.tensor or other.source is not access.tensor.source:
            raise ParseError(
                f"two different tensors are called {other.name}",
                code="E109",
                span=access.span,
                hint="give one of them another name: ow.tensor(..., name=...)",
            )


def check_result(assignment: Assignment) -> None:
    """The result is written once per coordinate, and not read."""
    lhs = assignment.lhs
    for access in _operands(assignment):
        same = lhs.tensor.source is not None and lhs.tensor.source is access.tensor.source
        if same or access.tensor.name == lhs.tensor.name:
            raise ParseError(
                f"{access.tensor} is read on the right, but it holds the result",
                code="E107",
                span=access.span,
                hint=f"write {show(lhs)} += ... to add to it, or assign to a second tensor",
            )
    for position, var in enumerate(lhs.vars):
        if var in lhs.vars[:position]:
            raise ParseError(
                f"the result {show(lhs)} uses {var} twice",
                code="E107",
                span=lhs.span,
                hint="use a different variable for each mode of the result",
            )


def _disagreement(
    var: IndexVar, first: tuple[Access | Selected, int], second: tuple[Access | Selected, int]
) -> Fault:
    (one, mode), (other, other_mode) = first, second
    sizes = _size(one, mode), _size(other, other_mode)
    shapes = dict.fromkeys(f"{a.tensor} has shape {a.tensor.shape}" for a in (one, other))
    return Fault(
        f"{var} has extent {sizes[0]} in mode {mode} of {one.tensor}, "
        f"but {sizes[1]} in mode {other_mode} of {other.tensor}",
        other.span,
        ", ".join(shapes),
    )


def _size(node: Access | Selected, mode: int) -> int | None:
    """What an access says about the extent of the variable of a mode."""
    place = node.coordinates[mode] if isinstance(node, Selected) else None
    return place.count if isinstance(place, Affine) else node.tensor.shape[mode]


def _check_extents(assignment: Assignment, known: dict[IndexVar, int | None]) -> None:
    """Every variable runs over a mode of an operand, or one of the result whose size is known."""
    indexing = {
        var
        for access in _operands(assignment)
        for place in (access.vars if isinstance(access, Access) else access.coordinates)
        for var in walk(place)
        if isinstance(var, IndexVar)
    }
    for var, extent in known.items():
        if extent is not None or var in indexing:
            continue
        if var in assignment.lhs.vars:
            raise ParseError(
                f"nothing gives {var} an extent: only {show(assignment.lhs)} is indexed by it",
                code="E106",
                span=assignment.lhs.span,
                hint=f"give {assignment.lhs.tensor} a shape",
            )
        raise ParseError(
            f"nothing gives {var} an extent: it indexes no tensor",
            code="E106",
            span=assignment.span,
            hint=f"index a tensor with {var}, or, if {var} is a scalar, pass it as a tensor",
        )


def _check_type(assignment: Assignment) -> None:
    """The right side fits the result's element type by NumPy's same-kind rule."""
    lhs, rhs, op = assignment.lhs, assignment.rhs, assignment.op
    value = rhs if op is None else Apply(op, (lhs, rhs))
    kind = _weak_kind(value)
    if _fits(kind, lhs.dtype) and _number_fits(rhs, lhs.dtype):
        return
    text = f"{lhs.dtype} cannot hold {show(rhs)}"
    if not isinstance(rhs, Literal):
        text = f"{lhs.tensor} holds {lhs.dtype}, but the right side is {value.dtype}"
    raise ParseError(
        text,
        code="E108",
        span=assignment.span,
        hint=f"cast it, which may lose information: ow.cast('{lhs.dtype}', ...)",
    )


def _weak_kind(expr: Expr) -> Kind:
    """The kind of `expr`; weak if it has Python numbers only."""
    match expr:
        case Apply(args=args) if expr.op.definition is None:
            if all(isinstance(_weak_kind(arg), type) for arg in args):
                return {"i": int, "f": float, "c": complex}.get(expr.dtype.kind, expr.dtype)
    return expr.kind


def _fits(kind: Kind, dtype: DType) -> bool:
    if isinstance(kind, Entry) or isinstance(dtype, Entry):
        return is_held(kind, dtype)
    if isinstance(kind, np.dtype):
        return bool(np.can_cast(kind, dtype, "same_kind"))
    return dtype.kind in {int: "iufc", float: "fc", complex: "c"}[kind]


def _number_fits(expr: Expr, dtype: DType) -> bool:
    """Whether `dtype` can hold `expr`, if that is a single number."""
    if not isinstance(expr, Literal) or isinstance(dtype, Entry) or dtype.kind not in "iu":
        return True
    limits = np.iinfo(dtype)
    return not isinstance(expr.value, int) or bool(limits.min <= expr.value <= limits.max)
