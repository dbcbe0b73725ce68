"""Modes that are stored in blocks, as two loops: over the blocks, and within a block.

A tensor with blocks is one with more modes: `A[i, j]` in 3x3 blocks is `A[ib, jb, ii, jj]`, where
`i` is `3 * ib + ii`. Dense tensors along `i` are viewed through the same two variables, without a
copy. Where another sparse tensor stores `i` without blocks, or in blocks of another size, the
tensor with blocks is converted instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from openwork.algebra import operators as ops
from openwork.format.formats import Format
from openwork.format.layouts import AOS
from openwork.format.levels import Compressed, Dense, InnerLevel, Level, OuterLevel
from openwork.frozen import frozen
from openwork.index.checks import extents
from openwork.index.nodes import (
    Access,
    Apply,
    Assignment,
    Cast,
    Expr,
    IndexVar,
    Literal,
    Reduce,
    TensorVar,
    apply,
)
from openwork.loops.plan.assembly import accesses_of
from openwork.trace import Trace
from openwork.tree import Node, bottom_up, walk


@frozen
class Block:
    """A variable that is tiled by `size`: `var = size * outer + inner`."""

    var: IndexVar
    outer: IndexVar
    inner: IndexVar
    size: int
    extent: int | None = None  # of the variable, where it is known


@frozen
class Tiled:
    """A statement over blocks, and the conversions that it needs.

    `flat`: the operands that are converted to formats without blocks, before and after. `native`:
    the format of the result as it is stored, viewed through the blocks.
    """

    assignment: Assignment
    blocks: tuple[Block, ...] = ()
    flat: tuple[tuple[TensorVar, TensorVar], ...] = ()
    native: Format | None = None


def tile(assignment: Assignment, trace: Trace) -> Tiled:
    """Rewrite a statement with tensors in blocks over the blocks' own variables."""
    accesses = (*accesses_of(assignment.rhs), assignment.lhs)
    if not any(access.tensor.format.tiled for access in accesses):
        return Tiled(assignment)
    sizes, flat = _agree(accesses)
    for tensor in flat:
        stored = flattened(tensor.format)
        trace.decide(
            f"{tensor}: converted from {tensor.format!r} to {stored!r}, because not all sparse "
            "tensors of the statement have the same blocks"
        )
    result = assignment.lhs.tensor
    table = {t: _flat(t, t == result) for t in flat}
    taken = {v.name for v in walk(assignment) if isinstance(v, IndexVar)}
    known = extents(assignment)
    blocks = {var: _block(var, size, known.get(var), taken) for var, size in sizes.items()}

    def change(node: Node) -> Node | None:
        match node:
            case Access():
                return _expanded(replace(node, tensor=table.get(node.tensor, node.tensor)), blocks)
            case Reduce(var=var) if var in blocks:
                inner = replace(node, var=blocks[var].inner)
                return replace(node, var=blocks[var].outer, expr=inner)
        return None

    lhs = cast(Access, change(assignment.lhs))
    rhs = cast(Expr, bottom_up(change)(_spelled(assignment.rhs, blocks)))
    tiled = replace(assignment, lhs=lhs, rhs=rhs)
    native = None if result in table else tiled.lhs.tensor.format
    for block in blocks.values():
        trace.decide(f"{block.var}: in blocks of {block.size}, over {block.outer}, {block.inner}")
    made = tuple((old, new) for old, new in table.items() if old != result)
    return Tiled(tiled, tuple(blocks.values()), made, native)


def _flat(tensor: TensorVar, is_result: bool) -> TensorVar:
    format = flattened(tensor.format)
    return replace(tensor, format=format) if is_result else tensor.converted("b", format)


def _agree(accesses: Sequence[Access]) -> tuple[dict[IndexVar, int], list[TensorVar]]:
    """The variables that are taken in blocks, and the tensors whose blocks do not fit."""
    flat: dict[TensorVar, None] = {}
    while True:
        native = [a for a in accesses if a.tensor.format.tiled and a.tensor not in flat]
        sizes: dict[IndexVar, int] = {}
        wrong: set[IndexVar] = set()
        for access in native:
            for var, size in zip(access.vars, access.tensor.format.tiles, strict=True):
                if size and sizes.setdefault(var, size) != size:
                    wrong.add(var)
        for access in accesses:
            wrong |= _misfits(access, sizes, access in native)
        views: dict[str, tuple[tuple[int, ...], Access]] = {}
        for access in accesses:  # all accesses view a tensor in the same way
            view = tuple(sizes.get(var, 0) for var in access.vars)
            before, other = views.setdefault(access.tensor.name, (view, access))
            if before != view:
                wrong |= {*access.vars, *other.vars}
        more = [a.tensor for a in native if wrong & set(a.vars)]
        if not more:
            return sizes, list(flat)
        flat |= dict.fromkeys(more)


def _misfits(access: Access, sizes: Mapping[IndexVar, int], native: bool) -> set[IndexVar]:
    """The variables that `access` cannot be read through in blocks."""
    format = access.tensor.format
    twice = {var for var in access.vars if access.vars.count(var) > 1}
    if native:
        unlike = {
            var
            for var, size in zip(access.vars, format.tiles, strict=True)
            if sizes.get(var, 0) != size
        }
    else:
        unlike = set() if format.with_layout(AOS).plain else set(access.vars)
    return (twice | unlike) & set(sizes)


def flattened(format: Format) -> Format:
    """The format without blocks that stores the modes in the same order, no denser."""
    order = tuple(dict.fromkeys(format.order))
    pairs = list(zip(format.levels, format.order, strict=True))
    kinds = {mode: [kind for kind, m in pairs if m == mode] for mode in order}
    thin = [not all(kind.full for kind in kinds[mode]) for mode in order]
    levels: list[Level] = [Compressed if any(thin[: n + 1]) else Dense for n in range(len(order))]
    if len(order) > 1 and kinds[order[0]][0].full:
        levels[0] = Dense  # empty rows take little space, and rows need no search
    return Format(levels, order)


def _block(var: IndexVar, size: int, extent: int | None, taken: set[str]) -> Block:
    names = []
    for base in (f"{var.name}b", f"{var.name}{var.name[-1]}"):
        name = base
        while name in taken:
            name += "_"
        taken.add(name)
        names.append(name)
    return Block(var, IndexVar(names[0]), IndexVar(names[1]), size, extent)


def _spelled(expr: Expr, blocks: Mapping[IndexVar, Block]) -> Expr:
    """`expr` with index variables that are values rewritten in terms of blocks."""

    match expr:
        case IndexVar() if expr in blocks:
            block = blocks[expr]
            return apply(ops.ADD, apply(ops.MUL, block.outer, Literal(block.size)), block.inner)
        case Apply(args=args):
            return replace(expr, args=tuple(_spelled(arg, blocks) for arg in args))
        case Cast(expr=inner) | Reduce(expr=inner):
            return replace(expr, expr=_spelled(inner, blocks))
    return expr


def _expanded(access: Access, blocks: Mapping[IndexVar, Block]) -> Access:
    """`access` through the variables of the blocks."""
    if not any(var in blocks for var in access.vars):
        return access
    tensor = access.tensor
    sizes = tuple(blocks[v].size if v in blocks else 0 for v in access.vars)
    format = expanded_format(tensor.format, sizes)
    shape: list[int | None] = []
    variables: list[IndexVar] = []
    for var, extent in zip(access.vars, tensor.shape, strict=True):
        if var in blocks:
            block = blocks[var]
            shape += [None if extent is None else -(-extent // block.size), block.size]
            variables += [block.outer, block.inner]
        else:
            shape.append(extent)
            variables.append(var)
    return Access(replace(tensor, format=format, shape=tuple(shape)), tuple(variables), access.span)


def expanded_format(format: Format, sizes: Sequence[int]) -> Format:
    """The format of a tensor whose modes are viewed in blocks of `sizes` (0: as they are).

    A mode that is stored in blocks keeps its two levels; a dense one is viewed through two.
    """
    first = [mode + sum(bool(size) for size in sizes[:mode]) for mode in range(len(sizes))]
    levels: list[Level] = []
    order: list[int] = []
    for level, (mode, part) in zip(format.levels, format.parts, strict=True):
        if part is not None or not sizes[mode]:
            levels.append(level)
            order.append(first[mode] + (part or 0))
        else:
            levels += [OuterLevel(sizes[mode]), InnerLevel()]
            order += [first[mode], first[mode] + 1]
    return Format(levels, order, layout=format.layout)


def whole_vars(variables: Iterable[IndexVar], blocks: Sequence[Block]) -> tuple[IndexVar, ...]:
    """The variables of an access as the user wrote it, from those over blocks."""
    outer = {block.outer: block.var for block in blocks}
    inner = {block.inner for block in blocks}
    return tuple(outer.get(var, var) for var in variables if var not in inner)


def extents_of_blocks(
    extents: Mapping[IndexVar, int], blocks: Sequence[Block]
) -> dict[IndexVar, int]:
    """The extents of the variables over blocks, from those of the variables they belong to."""
    found = dict(extents)
    for block in blocks:
        found[block.outer] = -(-extents[block.var] // block.size)
        found[block.inner] = block.size
    return found
