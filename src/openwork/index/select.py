"""Accesses at coordinates that are not variables: constants, offsets, windows, strides, gathers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openwork.algebra import operators as ops
from openwork.errors import ParseError, Span
from openwork.index.nodes import (
    Access,
    Affine,
    Apply,
    Expr,
    IndexVar,
    Literal,
    Selected,
    TensorVar,
)

HINT = "write a variable, a number, a sum like i+1 or 2*i, a window i(2,5), or rows(i)"
_LIMIT = 1 << 62


def element(tensor: TensorVar, coordinates: Sequence[Expr | Affine], span: Span | None) -> Expr:
    """The element of `tensor` at `coordinates`, each of which is an expression or a window.

    Raises:
        ParseError: E104 for a coordinate that no access has.

    >>> from openwork.algebra.types import FLOAT64
    >>> from openwork.format.formats import dense
    >>> x = TensorVar("x", dense(1), FLOAT64, shape=(None,))
    >>> print(element(x, [Apply(ops.ADD, (IndexVar("i"), Literal(1)))], None))
    x[i+1]
    """
    places = tuple(_coordinate(tensor, each, span) for each in coordinates)
    variables = tuple(place for place in places if isinstance(place, IndexVar))
    if len(variables) == len(places):
        return Access(tensor, variables, span)
    return Selected(tensor, places, None, span)


def window(var: IndexVar, bounds: Sequence[Expr], span: Span | None) -> Affine:
    """The window `var(start, stop)` or `var(start, stop, step)`.

    >>> print(window(IndexVar("i"), [Literal(2), Literal(9), Literal(3)], None))
    i(2,9,3)
    """
    values = [
        each.value
        for each in bounds
        if isinstance(each, Literal)
        and isinstance(each.value, int)
        and not isinstance(each.value, bool)
    ]
    start, stop, step = (*values, 1)[:3] if len(values) in (2, 3) else (0, 0, 0)
    if len(values) != len(bounds) or not 0 <= start < stop <= _LIMIT or step < 1:
        raise ParseError(
            f"{var} takes a window of whole numbers: a start, a stop behind it, perhaps a step",
            code="E104",
            span=span,
            hint=f"for example {var}(2,5) or {var}(0,10,2)",
        )
    return Affine(start, step, var, -(-(stop - start) // step))


def bordered(expr: Expr, border: Expr, span: Span | None) -> Selected:
    """`expr`, which has the value `border` where it would read beyond its tensor."""
    offsets = isinstance(expr, Selected) and any(
        isinstance(c, Affine) and c.var is not None and c.count is None for c in expr.coordinates
    )
    if not isinstance(expr, Selected) or not offsets or not isinstance(border, Literal):
        raise ParseError(
            "a border is for an access with an offset, and a number",
            code="E112",
            span=span,
            hint="for example border(x(i+1), 0)",
        )
    return replace(expr, border=border.value, span=span)


def _coordinate(
    tensor: TensorVar, expr: Expr | Affine, span: Span | None
) -> IndexVar | Affine | Access:
    """A coordinate from the expression that was written for it."""
    if isinstance(expr, (IndexVar, Affine)):
        return expr
    if isinstance(expr, Access):
        return _table(tensor, expr, span)
    found = _linear(expr)
    if found is None or (found.var is None and found.start < 0) or abs(found.start) > _LIMIT:
        text = "a negative number" if found is not None else f"{expr}"
        raise ParseError(
            f"{tensor} has no element at a coordinate like {text}",
            code="E104",
            span=span,
            hint=HINT,
        )
    if found.var is not None and (found.start, found.step) == (0, 1):
        return found.var
    return found if found.step != 0 else Affine(found.start)


def _table(tensor: TensorVar, access: Access, span: Span | None) -> Access:
    """An access to coordinates: dense, and of integers."""
    dtype = access.dtype
    integers = not hasattr(dtype, "decoded") and dtype.kind in "iu"
    if not integers or not access.tensor.format.is_dense:
        raise ParseError(
            f"{access.tensor} gives coordinates of {tensor}, but it is not a dense tensor of "
            "integers",
            code="E104",
            span=span,
            hint=f"convert it: {access.tensor}.astype('int64')",
        )
    return access


def _linear(expr: Expr) -> Affine | None:
    """`start + step * var`, if that is what `expr` is."""
    match expr:
        case IndexVar():
            return Affine(0, 1, expr)
        case Literal(value=value) if isinstance(value, int) and not isinstance(value, bool):
            return Affine(value)
        case Apply(op=ops.NEG, args=(inner,)):
            return _scaled(_linear(inner), -1)
        case Apply(op=ops.ADD | ops.SUB | ops.MUL, args=(left, right)):
            one, two = _linear(left), _linear(right)
            if one is None or two is None:
                return None
            if expr.op == ops.MUL:
                if two.var is None:
                    return _scaled(one, two.start)
                return _scaled(two, one.start) if one.var is None else None
            return _sum(one, two if expr.op == ops.ADD else _scaled(two, -1))
    return None


def _scaled(term: Affine | None, factor: int) -> Affine | None:
    return term and Affine(term.start * factor, term.step * factor, term.var)


def _sum(one: Affine, two: Affine | None) -> Affine | None:
    if two is None or (one.var is not None and two.var not in (None, one.var)):
        return None
    return Affine(one.start + two.start, one.step + two.step, one.var or two.var)
