"""Random statements, formats and schedules for a GPU, under the emulator, against the reference.

`OPENWORK_GPU_CASES` says how many, `OPENWORK_FUZZ_SEED` which; `OPENWORK_GPU_TARGET=cuda` runs them
on a real GPU.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Iterator
from typing import Any, cast

import pytest
from tests.gpu import tiers
from tests.gpu.batch import Batch
from tests.random.schedules import random_command
from tests.random.test_property import NONFINITE, answer, any_case_of, compare, report, statement_of
from tests.random.unguarded import unguarded_updates

from openwork.errors import ScheduleError
from openwork.index.nodes import IndexVar
from openwork.loops.nodes import ParallelUnit
from openwork.loops.plan.assembly import accesses_of
from openwork.loops.plan.nest import loop_variables
from openwork.loops.schedule.options import GPU, attempt, candidates
from openwork.pipeline import CompiledCuda
from openwork.runtime.gpu import emulator
from openwork.tensor.statement import Statement

CASES = int(os.environ.get("OPENWORK_GPU_CASES", "120"))
SEED = int(os.environ.get("OPENWORK_FUZZ_SEED", "0"))
TARGET = os.environ.get("OPENWORK_GPU_TARGET", "cuda-emulated")
CHUNKS = 12
REFUSED = 0.05  # of the cases may be, when they are compiled
UNSCHEDULED = 4  # one case in so many has the default schedule


def random_gpu_schedules(
    rng: random.Random, stmt: Statement, finite: bool = True
) -> Iterator[Statement]:
    """`stmt` after each of up to three commands, and then of loops for a GPU, outermost first.

    Without `finite` data there are no workspaces, as on a CPU.
    """
    for _ in range(rng.randint(0, 3)):
        new = random_command(rng, stmt)
        names = {command.name for command in new._commands}
        if "parallelize" in names or ("precompute" in names and not finite):
            continue
        stmt = new
        yield stmt
    if rng.random() < 0.5:
        stmt = _tiled(rng, stmt)
        yield stmt
    for _ in range(rng.randint(1, 3)):
        stmt = _with_unit(rng, stmt)
        yield stmt


def _tiled(rng: random.Random, stmt: Statement) -> Statement:
    """`stmt` with a loop, or the positions it walks, for blocks and for what is inside of them."""
    if rng.random() < 0.25:
        stmt = _fused(rng, stmt)
    variables = loop_variables(stmt._base)
    rng.shuffle(variables)
    for var in variables[:3]:
        found = [a for name, a in candidates(stmt._base) if name == "pos" and a[0] == var]
        tries: list[tuple[Any, ...] | None] = [None, *found]
        rng.shuffle(tries)
        for walked in tries[:2]:
            try:
                new, cut = stmt, var
                if walked is not None:
                    new, cut = stmt.pos(*walked), walked[1]
                new = _in_tiles(rng, new, cut)
            except ScheduleError:
                continue
            if rng.random() < 0.3:  # races of blocks are left to their threads
                try:
                    blocks = new.parallelize(f"{cut}_b", "GPUBlock", "IgnoreRaces")
                    return blocks.parallelize(f"{cut}_t", "GPUThread", "Atomics")
                except ScheduleError:
                    pass
            outer = _with_unit(rng, new, {f"{cut}_b"}, (ParallelUnit.GPUBlock,))
            inside = (ParallelUnit.GPUThread, ParallelUnit.GPUGroup, ParallelUnit.GPUWarp)
            inner = _with_unit(rng, outer, {f"{cut}_t"}, inside)
            if inner is not new:
                return inner
    return stmt


def _in_tiles(rng: random.Random, stmt: Statement, var: Any) -> Statement:
    """Tiles of `var`: `_b` for blocks, `_t` within one; now and then in a grid of constant size."""
    length = rng.choice((1, 2, 3, 4, 8, 32))
    if rng.random() < 0.7:
        return stmt.split(var, f"{var}_b", f"{var}_t", length)
    parts, assign = rng.choice((1, 2, 5)), rng.choice(("stride", "dynamic"))
    chunk = rng.choice((None, 1, 3)) if assign == "dynamic" else None
    stmt = stmt.split(var, f"{var}_d", f"{var}_t", length)
    return stmt.divide(f"{var}_d", f"{var}_b", f"{var}_r", parts, assign=assign, chunk=chunk)


def _fused(rng: random.Random, stmt: Statement) -> Statement:
    """`stmt` with two or more modes of an operand fused, in the order of its levels."""
    reads = [a for a in accesses_of(stmt._base.assignment.rhs) if len(a.vars) > 1]
    if not reads:
        return stmt
    access = rng.choice(reads)
    outer, *inner = access.level_vars[: rng.randint(2, len(access.vars))]
    try:
        rest = [v for v in loop_variables(stmt._base) if v not in (outer, *inner)]
        new = stmt.order(outer, *inner, *rest)
        for var in inner:
            new, outer = new.fuse(outer, var, f"{var}_f"), IndexVar(f"{var}_f")
    except ScheduleError:
        return stmt
    return new


def _with_unit(
    rng: random.Random,
    stmt: Statement,
    loops: Collection[str] | None = None,
    units: Collection[ParallelUnit] = GPU,
) -> Statement:
    """`stmt` with one more loop for a unit of a GPU, if one is found; perhaps one of `loops`."""
    found = [
        args
        for name, args in candidates(stmt._base, units)
        if name == "parallelize" and _fits(rng, args)
        if loops is None or str(args[0]) in loops
    ]
    rng.shuffle(found)
    for args in found[:12]:
        option = attempt(stmt._base, "parallelize", args)
        if option is None:
            continue
        var, unit, race, _, size, reduction, *_ = option.command.arguments
        more: dict[str, Any] = {}
        if size is not None:
            more = {"group_size": rng.choice((2, 4, 8, 16, 32)), "reduction": reduction}
        if unit is ParallelUnit.GPUBlock and rng.random() < 0.25:
            more = {"resident": rng.choice((64, 512, 1024, 2048))}
        if unit is ParallelUnit.GPUBlock and rng.random() < 0.25:
            more["chunk"] = rng.choice((1, 2, 5))
        if unit is ParallelUnit.GPUBlock and rng.random() < 0.25:
            more["threads"] = rng.choice((32, 64, 256))
        if unit is ParallelUnit.GPUBlock and "resident" not in more and rng.random() < 0.25:
            more["blocks_per_sm"] = rng.choice((1, 2, 4))
        try:
            return stmt.parallelize(var, unit, race, **more)
        except ScheduleError:
            continue
    return stmt


def _fits(rng: random.Random, args: tuple[Any, ...]) -> bool:
    """Blocks and threads more often than warps, and groups now and then."""
    often = {ParallelUnit.GPUBlock: 1.0, ParallelUnit.GPUThread: 1.0, ParallelUnit.GPUWarp: 0.5}
    return rng.random() < often.get(args[1], 0.7)


@pytest.fixture(autouse=True)
def races_are_looked_for(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every second chunk, since it takes longer; `make races-gpu` does it in all."""
    monkeypatch.setattr(emulator, "races", emulator.races or chunk % 2 == 0)


@pytest.mark.fuzz
@pytest.mark.needs_cc
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_emulated_kernels_agree_with_the_reference(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiers.set_numbers(monkeypatch, share=1 + chunk % 4)  # so that short rows are cut, too
    tier = (None, *tiers.TIERS)[chunk // 3]  # and are done as long ones are
    if tier is not None:
        tiers.make_all(tier, monkeypatch)
    seeds = range(SEED + chunk, SEED + CASES, CHUNKS)
    batch, runs, failures, refused = Batch(), [], [], []
    for seed in seeds:
        case = any_case_of(seed)
        commands = ""
        try:
            stmt = statement_of(case)
            if seed % UNSCHEDULED:
                rng = random.Random(5 * seed + 2)
                for scheduled in random_gpu_schedules(rng, stmt, seed % NONFINITE != 0):
                    stmt, commands = scheduled, scheduled.commands
            kernel = (
                stmt.compile(TARGET, loader=batch) if TARGET != "cuda" else stmt.compile(TARGET)
            )
            assert not unguarded_updates(cast(CompiledCuda, kernel._launcher.compiled).program)
            if TARGET != "cuda":
                kernel._launcher.device.order = seed % 3
                batch.expect(cast(CompiledCuda, kernel._launcher.compiled))
            runs.append((seed, case, commands, kernel))
        except ScheduleError as error:
            if "mixes the numbers" not in str(error):  # sums of records that cannot be shared
                refused.append(f"seed {seed}: {case.text} | {commands}\n{error}")
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}\n{report(seed, case, commands)}")
    for seed, case, commands, kernel in runs:
        result = answer(kernel)
        try:
            if isinstance(result, Exception):
                raise AssertionError(f"{type(result).__name__}: {result}") from result
            compare(case, result)
        except AssertionError as error:
            failures.append(f"{error}\n{report(seed, case, commands)}")
    if len(refused) > len(seeds) * REFUSED:  # what is legal command by command, but not together
        failures += refused
    if failures:
        count = f"{len(failures)} of {len(seeds)} cases differ from the reference"
        pytest.fail("\n\n".join([count, *failures[:4]]), pytrace=False)
