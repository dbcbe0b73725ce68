"""Which modes of operands share an index variable: NumPy's broadcasting and matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import index

from openwork.errors import ShapeError
from openwork.format.formats import Format
from openwork.format.levels import Compressed, Dense, Level
from openwork.frozen import frozen
from openwork.runtime.storage import Storage
from openwork.tensor.convert.convert import convert

Shape = tuple[int, ...]


@frozen
class Layout:
    """The number of the index variable of each mode, for every operand and the result.

    `dropped`: the modes of extent 1 without a variable, because they are broadcast.
    """

    operands: tuple[tuple[int, ...], ...]
    result: tuple[int, ...]
    dropped: tuple[tuple[int, ...], ...]


def broadcast(shapes: tuple[Shape, ...], names: Sequence[str], operator: str) -> Layout:
    """How operands combine element by element: aligned at the last mode, extents of 1 broadcast.

    >>> broadcast(((3, 4), (4,)), "AB", "add")
    Layout(operands=((0, 1), (1,)), result=(0, 1), dropped=((), ()))
    """
    try:
        _, operands, dropped = _align(shapes)
    except ValueError:
        raise ShapeError(
            f"{operator} cannot broadcast {_listed(shapes, names)}: the shapes do not fit",
            code="E204",
            hint="extents must agree from the last mode on; an extent of 1 is broadcast",
        ) from None
    order = max((len(shape) for shape in shapes), default=0)
    return Layout(operands, tuple(range(order)), dropped)


@lru_cache(maxsize=1024)
def _align(
    shapes: tuple[Shape, ...],
) -> tuple[Shape, tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """The common shape, and per operand the variables and the broadcast modes."""
    order = max((len(shape) for shape in shapes), default=0)
    common = [1] * order
    for shape in shapes:
        for place, extent in enumerate(shape, order - len(shape)):
            if extent != 1 and common[place] not in (1, extent):
                raise ValueError
            common[place] = extent if extent != 1 else common[place]
    operands, dropped = [], []
    for shape in shapes:
        places = range(order - len(shape), order)
        stretched = [n for n, p in enumerate(places) if shape[n] != common[p]]
        operands.append(tuple(p for n, p in enumerate(places) if n not in stretched))
        dropped.append(tuple(stretched))
    return tuple(common), tuple(operands), tuple(dropped)


def matmul_layout(shapes: tuple[Shape, Shape], names: tuple[str, str]) -> Layout:
    """How the operands of `@` combine: rows with columns, stacks of matrices by broadcasting.

    >>> matmul_layout(((2, 3), (3,)), ("A", "x"))
    Layout(operands=((0, 1), (1,)), result=(0,), dropped=((), ()))
    """
    left, right = shapes
    if not left or not right:
        raise ShapeError(
            f"{names[0 if not left else 1]} is a scalar, which @ does not multiply",
            code="E204",
            hint="scale with *",
        )
    inner = (left[-1], right[-2] if len(right) > 1 else right[0])
    if inner[0] != inner[1]:
        raise ShapeError(
            f"cannot multiply {_listed(shapes, names)}: {inner[0]} columns, but {inner[1]} rows",
            code="E204",
        )
    try:
        stack, operands, dropped = _align((left[:-2], right[:-2]))
    except ValueError:
        raise ShapeError(
            f"cannot multiply {_listed(shapes, names)}: the stacks do not fit", code="E204"
        ) from None
    return _matmul_variables(len(stack), operands, dropped, len(left) > 1, len(right) > 1)


@lru_cache(maxsize=1024)
def _matmul_variables(
    stack: int,
    operands: tuple[tuple[int, ...], ...],
    dropped: tuple[tuple[int, ...], ...],
    has_rows: bool,
    has_columns: bool,
) -> Layout:
    """The variables of the stack come first, then rows, the inner one, columns."""
    rows = (stack,) if has_rows else ()
    middle = stack + len(rows)
    columns = (middle + 1,) if has_columns else ()
    modes = ((*operands[0], *rows, middle), (*operands[1], middle, *columns))
    return Layout(modes, (*range(stack), *rows, *columns), dropped)


def _listed(shapes: Sequence[Shape], names: Sequence[str]) -> str:
    return " and ".join(f"{name} of shape {s}" for name, s in zip(names, shapes, strict=True))


def check_axes(axis: int | Sequence[int] | None, order: int, name: str) -> tuple[int, ...]:
    """The modes that `axis` names, each once, counted from the front.

    >>> check_axes(-1, 3, "A"), check_axes(None, 2, "A")
    ((2,), (0, 1))
    """
    if axis is None:
        return tuple(range(order))
    try:
        listed = [index(axis)] if not isinstance(axis, Sequence) else list(axis)
        modes = [index(each) for each in listed]
    except TypeError as error:
        raise ShapeError(
            f"{axis!r} is not a mode: {error}",
            code="E204",
            hint="modes are numbers; over an index variable runs ow.sum(j, A[i, j])",
        ) from error
    if any(not -order <= mode < order for mode in modes):
        raise ShapeError(f"{name} has {order} modes, but axis is {axis}", code="E204")
    modes = [mode % order for mode in modes]
    if len(set(modes)) != len(modes):
        raise ShapeError(f"axis {axis} names a mode twice", code="E204")
    return tuple(modes)


def squeeze(storage: Storage, modes: Sequence[int]) -> Storage:
    """`storage` without `modes`, which have extent 1. No copy if they are stored densely."""
    if not modes:
        return storage
    if not _is_free(storage.format, modes):
        storage = convert(storage, _outside(storage.format, modes))
    format = storage.format
    kept = [mode for mode in range(format.ndim) if mode not in modes]
    levels = [n for n, mode in enumerate(format.order) if mode in kept]
    return replace(
        storage,
        shape=tuple(storage.shape[mode] for mode in kept),
        format=Format(
            [format.levels[n] for n in levels],
            [kept.index(format.order[n]) for n in levels],
            [format.tiles[mode] for mode in kept],
            format.layout,
        ),
        levels=tuple(storage.levels[n] for n in levels),
    )


def _is_free(format: Format, modes: Sequence[int]) -> bool:
    """Whether `modes` can be dropped without moving data."""
    return all(
        format.tiles[mode] == 0 and _is_plain(level)
        for mode, level in zip(format.order, format.levels, strict=True)
        if mode in modes
    )


def _outside(format: Format, modes: Sequence[int]) -> Format:
    """A format like this one with `modes` outermost, where they can be dropped without a copy.

    The remaining levels depend on the dropped ones: a singleton needs a level above it, and a row
    may be absent though all rows are listed. So the last level of a sparse format is compressed.
    """
    kept = [mode for mode in dict.fromkeys(format.order) if mode not in modes]
    levels = [format.levels[format.level_of(mode)] for mode in kept]
    levels = [
        Dense if format.is_dense or (_is_plain(level) and mode != kept[-1]) else Compressed
        for mode, level in zip(kept, levels, strict=True)
    ]
    return Format([*[Dense] * len(modes), *levels], [*modes, *kept])


def _is_plain(level: Level) -> bool:
    return level.full and not level.arrays


def permute(storage: Storage, modes: Sequence[int]) -> Storage:
    """The same arrays with the modes in another order: new mode `m` is old mode `modes[m]`.

    Asked again it is the same storage, so that what kernels keep with it is found again.
    """
    order = tuple(modes)
    made = storage.permuted.get(order)
    if made is None:
        shape = tuple(storage.shape[mode] for mode in order)
        made = replace(storage, shape=shape, format=storage.format.permuted(order))
        made = storage.permuted.setdefault(order, made)
    return made
