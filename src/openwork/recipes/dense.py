"""Recipes for dense tensors: adjacent threads take adjacent elements, so accesses coalesce."""

from __future__ import annotations

from openwork.errors import ScheduleError
from openwork.index.nodes import IndexVar
from openwork.loops.plan.assembly import accesses_of
from openwork.loops.schedule.schedulable import S, Schedulable
from openwork.recipes.statement_parts import THREADS, WARP, groups


def elements(stmt: S, threads: int = THREADS) -> S:
    """A thread per element of the result, in storage order."""
    stmt, element = _fused(stmt, stmt.assignment.lhs.level_vars)
    return (
        stmt.split(element, "block", "thread", threads)
        .parallelize("block", "GPUBlock", "NoRaces")
        .parallelize("thread", "GPUThread", "NoRaces")
    )


def element_sums(stmt: S, group: int = WARP, threads: int = THREADS) -> S:
    """`group` threads per element of the result, adjacent along the reduction."""
    along = summed_last(stmt)
    if along is None or not stmt.assignment.lhs.vars:
        raise ScheduleError(
            f"element_sums is for sums along contiguous elements; {stmt} has none",
            code="E316",
            hint="elements, or element_total",
        )
    stmt, element = _fused(stmt, stmt.assignment.lhs.level_vars, along)
    others = _others(stmt, along)
    return (
        stmt.split(element, "block", "warp", groups(threads, group))
        .split(along, "round", "lane", group)
        .order("block", "warp", "lane", *others, "round")
        .parallelize("block", "GPUBlock", "NoRaces")
        .parallelize("warp", "GPUWarp", "NoRaces")
        .parallelize("lane", "GPUGroup", group_size=group, reduction="parallel")
    )


def element_shares(stmt: S, each: int = 64, threads: int = THREADS) -> S:
    """A thread per element of the result and per `each` values of the outermost reduction.

    For results that are too small to fill a GPU, such as column sums of a matrix.
    """
    others = _others(stmt)
    if not others:
        raise ScheduleError(
            f"element_shares is for sums; {stmt} has none", code="E316", hint="elements"
        )
    first, *rest = others
    stmt, element = _fused(stmt, stmt.assignment.lhs.level_vars)
    return (
        stmt.split(element, "block", "thread", threads)
        .split(first, "share", "row", each)
        .order("share", "block", "thread", "row", *rest)
        .parallelize("share", "GPUBlock", "IgnoreRaces")
        .parallelize("block", "GPUBlock", "IgnoreRaces")
        .parallelize("thread", "GPUThread", "Atomics")
    )


def element_total(stmt: S, each: int = 16, threads: int = THREADS) -> S:
    """A sum to a scalar: each thread takes `each` elements, a block apart, so loads coalesce."""
    stmt, element = _fused(stmt, tuple(_others(stmt)))
    return (
        stmt.split(element, "block", "tile", threads * each)
        .split("tile", "round", "thread", threads)
        .order("block", "thread", "round")
        .parallelize("block", "GPUBlock", "Atomics")
        .parallelize("thread", "GPUThread", "ParallelReduction")
    )


def summed_last(stmt: Schedulable) -> IndexVar | None:
    """The reduction variable along contiguous elements, unless the result has them, too."""
    kept = stmt.assignment.lhs.level_vars
    lasts = [a.level_vars[-1] for a in accesses_of(stmt.assignment.rhs) if a.level_vars]
    if kept and kept[-1] in lasts:
        return None
    return next((var for var in lasts if var not in kept), None)


def _others(stmt: Schedulable, *known: IndexVar) -> list[IndexVar]:
    """The other reduction variables."""
    seen = {*stmt.assignment.lhs.vars, *known}
    reads = accesses_of(stmt.assignment.rhs)
    return list(dict.fromkeys(v for a in reads for v in a.vars if v not in seen))


def _fused(stmt: S, variables: tuple[IndexVar, ...], *last: IndexVar) -> tuple[S, IndexVar | str]:
    """The loops of the result fused into one, with the reductions inside."""
    if not variables:
        raise ScheduleError(
            f"{stmt} has no loops to fuse", code="E316", hint="leave it to the default"
        )
    stmt = stmt.order(*variables, *_others(stmt, *variables, *last), *last)
    fused: IndexVar | str = variables[0]
    for n, var in enumerate(variables[1:], 2):
        new = "element" if n == len(variables) else f"element{n}"
        stmt, fused = stmt.fuse(fused, var, new), new
    return stmt, fused
