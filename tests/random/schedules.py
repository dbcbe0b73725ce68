"""Random legal schedules: commands drawn from `stmt.legal()`, with other numbers in them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from openwork.errors import ScheduleError
from openwork.index.checks import extents
from openwork.index.nodes import Access, Apply, IndexVar
from openwork.loops.nodes import ParallelUnit
from openwork.loops.plan.assembly import Append
from openwork.loops.plan.nest import loop_variables, paths, provenance_of
from openwork.loops.schedule.options import Option, attempt, candidates
from openwork.tensor.statement import Statement
from openwork.tree import walk

_FACTORS = (1, 2, 3, 4, 5, 7, 16)
_PARTS = (1, 2, 3, 5)
_CHUNKS = (1, 2, 5)
_MOST_LOOPS = 7


def random_schedules(
    rng: random.Random, stmt: Statement, finite: bool = True
) -> Iterator[Statement]:
    """`stmt` after each of up to five random commands.

    Without `finite` data there are no workspaces: a sum that is taken before it is multiplied has
    no NaN where a term alone would, as infinity times zero.
    """
    for _ in range(rng.randint(1, 5)):
        if len(loop_variables(stmt._base)) > _MOST_LOOPS:
            break
        new = random_command(rng, stmt)
        if finite or "precompute" not in new.commands:
            stmt = new
        yield stmt


def random_schedule(rng: random.Random, stmt: Statement, finite: bool = True) -> Statement:
    """`stmt` after up to five random commands."""
    return list(chain([stmt], random_schedules(rng, stmt, finite)))[-1]


def random_command(rng: random.Random, stmt: Statement) -> Statement:
    """`stmt` after one more command; the kind of command is drawn first."""
    if rng.random() < 0.25:
        kinds = (_promised, _ordered, _precomputed, _ignoring, _in_blocks, _chunks)
        return rng.choice(kinds)(rng, stmt)
    option = random_option(rng, stmt)
    if option is None:
        return stmt
    kind = option.name
    arguments = list(option.command.arguments)
    if kind in ("split", "divide"):
        arguments[3] = rng.choice(_FACTORS if kind == "split" else _PARTS)
    if kind == "divide" and arguments[-1] is not None:
        arguments[-1] = rng.choice(_CHUNKS)
    if kind == "unroll" and arguments[1] is not None:
        arguments[1] = rng.choice(_FACTORS)
    if kind in ("reorder", "order"):
        arguments = list(arguments[0])
    pieces = isinstance(stmt._base.assembly, Append)  # which have no chunks
    if kind == "parallelize" and rng.random() < 0.3 and not pieces:
        in_chunks = [*arguments[:3], rng.choice(_CHUNKS), *arguments[4:]]
        legal = attempt(stmt._base, kind, tuple(in_chunks)) is not None  # not if dealt out already
        arguments = in_chunks if legal else arguments
    names = _OPTIONAL.get(kind, ())
    fixed = len(arguments) - len(names)
    keywords = dict(zip(names, arguments[fixed:], strict=True))
    new: Statement = getattr(stmt, kind)(*arguments[:fixed], **keywords)
    return new


def random_option(rng: random.Random, stmt: Statement) -> Option | None:
    """One of `stmt.legal()`, found without trying all that is in it."""
    by_kind: dict[str, list[tuple[object, ...]]] = {}
    for name, args in candidates(stmt._base):
        by_kind.setdefault(name, []).append(args)
    kinds = sorted(by_kind)
    rng.shuffle(kinds)
    for kind in kinds:
        tries = by_kind[kind]
        rng.shuffle(tries)
        for args in tries:
            option = attempt(stmt._base, kind, args)
            if option is not None:
                return option
    return None


_OPTIONAL = {
    "divide": ("balance", "split_points", "assign", "chunk"),
    "parallelize": (
        "chunk", "group_size", "reduction", "resident", "writes", "threads", "blocks_per_sm",
    ),
}  # fmt: skip


def _promised(rng: random.Random, stmt: Statement) -> Statement:
    """What `legal` does not list: a bound that holds, or cuts by a function."""
    plan = stmt._base
    provenance = provenance_of(plan)
    plain = [v for v in loop_variables(plan) if v not in provenance.above]
    if not plain:
        return stmt
    var = rng.choice(plain)
    if any(block.inner == var for block in stmt._planned.plan.blocks):
        return stmt  # how far it runs depends on the block
    size = _extent(stmt, var)
    names = [f"{var}_{n}" for n in ("a", "b")]
    try:
        if rng.random() < 0.5:
            cuts = sorted(rng.randint(0, size) for _ in range(2))

            def points(tensors: Any, parts: int) -> list[int]:
                return [0, *cuts, size]

            return stmt.divide(var, *names, 3, split_points=points)
        kind = rng.choice(["MaxExact", "MaxConstraint", "MinExact", "MinConstraint", "Divisible"])
        values = {"MaxExact": size, "MaxConstraint": size + 1, "Divisible": max(1, size)}
        return stmt.bound(var, names[0], values.get(kind, 0), kind)
    except ScheduleError:
        return stmt


def _ordered(rng: random.Random, stmt: Statement) -> Statement:
    """All or some loops in another order, which may ask for other conversions than before."""
    variables = loop_variables(stmt._base)
    for _ in range(4):
        count = len(variables) if rng.random() < 0.5 else rng.randint(0, len(variables))
        try:
            return stmt.order(*rng.sample(variables, count))
        except ScheduleError:
            continue
    return stmt


def _precomputed(rng: random.Random, stmt: Statement) -> Statement:
    """A workspace over several loops, or over none."""
    tries = [
        (path, expr)
        for path in paths(stmt._base.loops)
        for expr in walk(path.assign.rhs)
        if isinstance(expr, (Apply, Access))
    ]
    rng.shuffle(tries)
    taken = {n.name for n in walk(stmt._base.loops) if isinstance(n, IndexVar)}
    for path, expr in tries[:6]:
        some = [v for v in path.variables if rng.random() < 0.5]
        rng.shuffle(some)
        names = [v if rng.random() < 0.3 else f"{v}_{len(taken)}" for v in some]
        try:
            return stmt.precompute(expr, some, names)
        except ScheduleError:
            continue
    return stmt


def _in_blocks(rng: random.Random, stmt: Statement) -> Statement:
    """A command for a mode that is stored in blocks, by the name of the mode."""
    blocks = stmt._base.blocks
    if not blocks:
        return _ordered(rng, stmt)
    block, name = rng.choice(blocks), f"{len(loop_variables(stmt._base))}"
    var, rows = block.var, block.size * rng.choice((1, 2, 3))
    kinds: tuple[Callable[[], Statement], ...] = (
        lambda: stmt.split(var, f"{var}_c{name}", f"{var}_d{name}", rows),
        lambda: stmt.divide(var, f"{var}_c{name}", f"{var}_d{name}", 3),
        lambda: stmt.parallelize(var, "CPUThread"),
        lambda: stmt.unroll(var),
        lambda: stmt.order(*rng.sample([b.var for b in blocks], len(blocks))),
    )
    try:
        return rng.choice(kinds)()
    except ScheduleError:
        return stmt


def _ignoring(rng: random.Random, stmt: Statement) -> Statement:
    """Races ignored where there are none."""
    variables = loop_variables(stmt._base)
    var = rng.choice(variables) if variables else None
    unit = rng.choice([ParallelUnit.CPUThread, ParallelUnit.CPUVector])
    try:
        if var is not None:
            stmt.parallelize(var, unit, "NoRaces")
            return stmt.parallelize(var, unit, "IgnoreRaces")
    except ScheduleError:
        pass
    return stmt


def _chunks(rng: random.Random, stmt: Statement) -> Statement:
    """Threads that take runs of the positions of several levels of an operand."""
    path = rng.choice(list(paths(stmt._base.loops)))
    reads = [a for a in walk(path.assign.rhs) if isinstance(a, Access) and len(a.vars) > 1]
    if not reads:
        return stmt
    access = rng.choice(reads)
    levels = access.level_vars[: rng.randint(2, len(access.vars))]
    rest = [v for v in path.variables if v not in levels]
    try:
        if rng.random() < 0.7:
            stmt = stmt.order(*levels, *rest)
        fused = levels[0]
        for n, inner in enumerate(levels[1:]):
            stmt, fused = stmt.fuse(fused, inner, f"{inner}_f{n}"), IndexVar(f"{inner}_f{n}")
        stmt = stmt.pos(fused, f"{fused}_p", access)
        race = rng.choice(("Atomics", "NoRaces"))
        if rng.random() < 0.3:
            return stmt.parallelize(f"{fused}_p", "CPUThread", race)
        stmt = stmt.split(f"{fused}_p", f"{fused}_c", f"{fused}_e", rng.choice(_FACTORS))
        if rng.random() < 0.8:
            stmt = stmt.parallelize(f"{fused}_c", "CPUThread", race)
    except ScheduleError:
        pass
    return stmt


def _extent(stmt: Statement, var: Any) -> int:
    known = extents(stmt._planned.plan.assignment)[var]
    assert known is not None
    return int(np.int64(known))
