"""Commands that name a mode which is stored in blocks, as the user's statement does.

A schedule is independent of the format: `i` of `A(i,j)` may be named where the loops are over the
blocks `ib` and the places `ii` within one. It then means the loop that keeps the command's sense:

    parallelize, pos, coord, fuse, divide, mergeby, prefetch   the blocks, `ib`
    split, bound                                    whole blocks; the number counts rows, as for CSR
    unroll, and parallelize for CPUVector                      the places within a block, `ii`
    order, reorder, precompute                                 both: blocks, and then places
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openwork.errors import ScheduleError
from openwork.index.nodes import IndexVar
from openwork.loops.nodes import ParallelUnit
from openwork.loops.plan.blocks import Block
from openwork.loops.plan.plan import Plan


def in_blocks(plan: Plan, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a command with the loops that are meant.

    Raises:
        ScheduleError: E303 if a number of rows is not one of whole blocks.
    """
    blocks = {block.var: block for block in plan.blocks}
    if not blocks or not _named(arguments) & set(blocks):
        return arguments
    match name, arguments:
        case (("order" | "reorder"), (variables,)):
            return (_pairs(variables, blocks),)
        case "precompute", (expr, variables, new, workspace):
            return (expr, *_both(variables, new, blocks), workspace)
        case "split", (var, outer, inner, factor) if var in blocks:
            return (blocks[var].outer, outer, inner, _whole(factor, blocks[var]))
        case "bound", (var, new, value, kind) if var in blocks:
            return (blocks[var].outer, new, _whole(value, blocks[var]), kind)
        case "unroll", (var, factor) if var in blocks:
            return (blocks[var].inner, factor)
        case "parallelize", (var, ParallelUnit.CPUVector, *more) if var in blocks:
            return (blocks[var].inner, ParallelUnit.CPUVector, *more)
    return tuple(
        blocks[arg].outer if isinstance(arg, IndexVar) and arg in blocks else arg
        for arg in arguments
    )


def _named(arguments: tuple[Any, ...]) -> set[IndexVar]:
    """The variables that a command names."""
    found: set[IndexVar] = set()
    for arg in arguments:
        inside = arg if isinstance(arg, tuple) else (arg,)
        found |= {var for var in inside if isinstance(var, IndexVar)}
    return found


def _pairs(variables: Sequence[IndexVar], blocks: Mapping[IndexVar, Block]) -> tuple[IndexVar, ...]:
    """Blocks where their modes are named, and the places within after the last of them.

    Unless all modes in blocks are named: then the loops within stay where storage has them.
    """
    found = [blocks[var].outer if var in blocks else var for var in variables]
    if not set(blocks) <= set(variables):
        return tuple(found)
    last = max(n for n, var in enumerate(variables) if var in blocks)
    within = [blocks[var].inner for var in variables if var in blocks]
    return (*found[: last + 1], *within, *found[last + 1 :])


def _both(
    variables: Sequence[IndexVar], new: Sequence[IndexVar], blocks: Mapping[IndexVar, Block]
) -> tuple[tuple[IndexVar, ...], tuple[IndexVar, ...]]:
    """The loops of a workspace over modes in blocks, and names for those that fill it."""
    if len(variables) != len(new):
        return tuple(variables), tuple(new)  # refused by the command
    old: list[IndexVar] = []
    made: list[IndexVar] = []
    for part in ("b", ""):
        for var, name in zip(variables, new, strict=True):
            block = blocks.get(var)
            if block is None and part:
                old.append(var)
                made.append(name)
            elif block is not None:
                own = IndexVar(f"{name}{part or name.name[-1]}")
                loop = block.outer if part else block.inner
                old.append(loop)
                made.append(loop if name == var else own)
    return tuple(old), tuple(made)


def _whole(number: int, block: Block) -> int:
    """So many values of a mode as a number of blocks."""
    if isinstance(number, bool) or not isinstance(number, int) or number % block.size == 0:
        return number // block.size if isinstance(number, int) else number
    raise ScheduleError(
        f"{number} values of {block.var} are not whole blocks of {block.size}",
        code="E303",
        hint=f"a multiple of {block.size}, or name {block.outer}, which counts blocks",
    )
