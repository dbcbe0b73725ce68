"""The space of schedules: recipes with their parameters, for a statement as it is stored.

A function from a statement to schedules, each a statement or a text, is a dimension of the space;
`search(..., more=[...])` takes others. What does not apply to a statement is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, product, zip_longest

from openwork import recipes as r
from openwork.errors import ScheduleError
from openwork.loops.plan.assembly import accesses_of
from openwork.loops.schedule.statistics import Statistics
from openwork.tensor.statement import Statement

Dimension = Callable[[Statement], Iterable["Statement | str"]]
Recipe = Callable[[Statement], Statement]


def schedules(stmt: Statement, gpu: bool) -> Iterator[tuple[Statement, str]]:
    """A statement under schedules, each once, with the name of the recipe it comes from.

    One of each recipe comes first, then the next of each: there may be no time for all.
    """
    seen = {""}
    recipes: dict[str, list[tuple[str, Recipe]]] = {}
    for name, recipe in _recipes_for_gpu() if gpu else _recipes_for_cpu():
        recipes.setdefault(name, []).append((name, recipe))
    for point in chain.from_iterable(zip_longest(*recipes.values())):
        if point is None:
            continue
        name, recipe = point
        found = _made(lambda recipe=recipe: recipe(stmt))  # type: ignore[misc]
        if found is not None and found.commands not in seen:
            seen.add(found.commands)
            yield found, name


def buckets(stmt: Statement, statistics: Mapping[str, Statistics], formats: bool) -> Iterator[str]:
    """Rows by length, where some are much longer than most, as text.

    `formats`: the shortest rows may be stored padded.
    """
    for access in accesses_of(stmt.assignment.rhs):
        known = statistics.get(access.tensor.name)
        row = access.level_vars[:1]
        if known is None or known.rows is None or not set(row) & set(stmt.assignment.lhs.vars):
            continue
        mean = max(1, round(known.entries / max(1, known.rows.count)))
        if known.rows.longest <= 2 * mean:
            continue
        for bounds in ((mean,), (8 * mean,), (mean, 8 * mean)):
            yield f"bucket({row[0]},{','.join(map(str, bounds))})"
        if formats:
            yield f"bucket({row[0]},{mean}=ELL)"
        return


def _made(make: Callable[[], Statement]) -> Statement | None:
    """A scheduled statement; None where the schedule does not apply, or text cannot say it."""
    try:
        made = make()
    except ScheduleError:
        return None
    return None if "split_points" in made.commands else made


def _recipes_for_cpu() -> Iterator[tuple[str, Recipe]]:
    for parts in (16, 64, 256):
        yield "balanced_rows", partial(r.balanced_rows, parts=parts)
    for lanes, rows in product((None, 8, 16, 32), (16, 64)):
        yield "register_tiles", partial(r.register_tiles, lanes=lanes, rows=rows)
    for each in (1024, 4096, 16384):
        yield "position_chunks", partial(r.position_chunks, each=each)
    for rows, across in product((1024, 8192), (2048, 16384)):
        yield "cache_tiles", partial(r.cache_tiles, rows=rows, across=across)
    for chunk in (16, 64, 256, 1024):
        yield "rows at a time", partial(_rows_at_a_time, chunk=chunk)
    yield "one thread", _serial
    yield "rows", _rows
    yield "rows in lanes", _rows_in_lanes
    for parts in (16, 64):
        yield "rows by turns", partial(_rows_by_turns, parts=parts)
    yield "streamed", _streamed
    for distance in (2, 4, 8, 16):
        yield "prefetched", partial(_prefetched, distance=distance)
    for factor in (2, 4):
        yield "unrolled", partial(_unrolled, factor=factor)


def _names(stmt: Statement) -> list[str]:
    """The variables of the loops, outermost first."""
    lines = [line.split(":")[0].strip() for line in str(stmt._base.loops).splitlines()]
    return [line.removeprefix("forall ") for line in lines if line.startswith("forall ")]


def _rows_by_turns(stmt: Statement, parts: int) -> Statement:
    """Threads stride over the values of the outermost loop."""
    made = stmt.divide(_names(stmt)[0], "turn", "rest", parts, assign="stride")
    return made.parallelize("turn", "CPUThread", "NoRaces")


def _streamed(stmt: Statement) -> Statement:
    """The result bypasses the cache."""
    streamed = stmt.stream(stmt.assignment.lhs.tensor.name)
    return streamed.parallelize(_names(stmt)[0], "CPUThread", "NoRaces")


def _prefetched(stmt: Statement, distance: int) -> Statement:
    """What a sparse operand's coordinates gather is loaded ahead."""
    reads = accesses_of(stmt.assignment.rhs)
    inner = [a.level_vars[-1] for a in reads if not a.tensor.format.is_dense and a.vars]
    gathered = [a for a in reads if a.tensor.format.is_dense and set(a.vars) & set(inner)]
    if not gathered:
        raise ScheduleError("nothing is gathered", code="E316")
    made = stmt.prefetch(gathered[0], inner[0], distance)
    return made.parallelize(_names(stmt)[0], "CPUThread", "NoRaces")


def _unrolled(stmt: Statement, factor: int) -> Statement:
    """The innermost loop, several iterations at once."""
    outermost, *_, innermost = _names(stmt)
    return stmt.unroll(innermost, factor).parallelize(outermost, "CPUThread", "NoRaces")


def _rows_at_a_time(stmt: Statement, chunk: int) -> Statement:
    """The outermost loop on threads, which take so many of its values at a time."""
    return stmt.parallelize(_names(stmt)[0], "CPUThread", "NoRaces", chunk=chunk)


def _rows(stmt: Statement) -> Statement:
    """The outermost loop on threads: the default, where that puts no sums into lanes."""
    return stmt.parallelize(_names(stmt)[0], "CPUThread", "NoRaces")


def _rows_in_lanes(stmt: Statement) -> Statement:
    """The sum of a row in the lanes of a vector."""
    outermost, *_, innermost = _names(stmt)
    made = stmt.parallelize(innermost, "CPUVector", "ParallelReduction")
    return made.parallelize(outermost, "CPUThread", "NoRaces")


def _serial(stmt: Statement) -> Statement:
    """The loops as they are, in an order that is written down, so that nothing is added."""
    return stmt.order(*dict.fromkeys(_names(stmt)))


def _recipes_for_gpu() -> Iterator[tuple[str, Recipe]]:
    yield "thread_per_row", r.thread_per_row
    for group, unroll in product((2, 4, 8, 16, 32, 256), (2, 4)):
        yield "group_per_row", partial(r.group_per_row, group=group, unroll=unroll)
    for blocks, threads in r.launch_bounds():
        for chunk in (None, 1):
            point = partial(r.grid_rows, blocks=blocks, threads=threads, chunk=chunk)
            yield "grid_rows", point
    for each, unroll in ((4, 4), (8, 4), (8, 8), (16, 8)):
        yield "position_split", partial(r.position_split, each=each, unroll=unroll)
    for each in (1, 2, 4):
        yield "position_strided", partial(r.position_strided, each=each)
    yield "position_segments", r.position_segments
    for each, group in product((1, 2, 4, 8), (2, 8, 32)):
        yield "position_staged", partial(r.position_staged, each=each, group=group)
    for vector, unroll, resident in product((None, 2, 1), (4, 8, 16), (None, 1024, 512)):
        yield (
            "spmm_rows",
            partial(r.spmm_rows, vector=vector, unroll=unroll, resident=resident),
        )
    for at_once in (4, 8, 16, 32):
        yield "spmm_rows", partial(r.spmm_rows, at_once=at_once, unroll=4)
    for lanes, at_once in product((8, 16), (1, 2, 4)):
        few = {"threads": 64, "resident": 1024} if at_once > 1 else {}
        point = partial(r.spmm_rows, lanes=lanes, at_once=at_once, unroll=4 * min(at_once, 2))
        yield "spmm_rows", partial(point, **few)
    for each in (16, 32, 64):
        yield "spmm_positions", partial(r.spmm_positions, each=each, lanes=8)
    for each, unroll in product((4, 8, 16, 32, 64), (4, 8, 16)):
        if each >= unroll:
            yield "spmm_positions", partial(r.spmm_positions, each=each, unroll=unroll)
    for each, group in product((2, 4), (2, 8, 32)):
        yield "spmm_staged", partial(r.spmm_staged, each=each, group=group)
    for across in (128, 256, 512):
        yield "spmm_tiles", partial(r.spmm_tiles, across=across)
    for each in (1, 2, 4, 8):
        yield "sddmm", partial(r.sddmm, each=each)
    yield from _sgap()
    yield "elements", r.elements
    yield "element_sums", r.element_sums
    for each in (32, 64, 256):
        yield "element_shares", partial(r.element_shares, each=each)
    yield "element_total", r.element_total


def _sgap() -> Iterator[tuple[str, Recipe]]:
    """The points of atomic parallelism: groups that reduce, blocks, columns of a thread.

    A row has as many threads as a group, or more: then several groups of it add to an entry. These
    threads may take several rows, one after the other.
    """
    groups = (2, 4, 8, 16, 32)
    for group, threads, col in product(groups, (128, 256, 512), (1, 2, 4)):
        point = partial(r.atomic_parallel, col=col, group=group, threads=threads)
        yield "atomic_parallel", partial(point, nnz=1)
        for share in groups:
            if share >= group:
                yield "atomic_parallel", partial(point, row=1 / share)
    for turns, group, threads, col in product((2, 4), groups, (128, 256, 512), (1, 2, 4)):
        point = partial(r.atomic_parallel, col=col, group=group, threads=threads)
        yield "atomic_parallel", partial(point, row=1 / group, turns=turns)
