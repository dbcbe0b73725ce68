"""Random statements, formats and schedules for a GPU, under the emulator, against the reference.

`OPENWORK_GPU_CASES` says how many, `OPENWORK_FUZZ_SEED` which; `OPENWORK_GPU_TARGET=cuda` runs them
on a real GPU.
"""

from __future__ import annotations

import os
import random
from typing import Any, cast

import pytest
from tests.generate import random_case
from tests.gpu.batch import Batch
from tests.schedules import random_command
from tests.test_property import answer, compare, statement_of

from openwork.errors import ScheduleError
from openwork.loops.nodes import ParallelUnit
from openwork.loops.options import GPU, attempt, candidates
from openwork.pipeline import CompiledCuda
from openwork.tensor.statement import Statement

CASES = int(os.environ.get("OPENWORK_GPU_CASES", "500"))
SEED = int(os.environ.get("OPENWORK_FUZZ_SEED", "0"))
TARGET = os.environ.get("OPENWORK_GPU_TARGET", "cuda-emulated")
CHUNKS = 12


def random_gpu_schedule(rng: random.Random, stmt: Statement) -> Statement:
    """Up to three commands of any kind, and then loops for the units of a GPU, outermost first."""
    for _ in range(rng.randint(0, 3)):
        new = random_command(rng, stmt)
        if any(c.name == "parallelize" for c in new._commands):
            continue
        stmt = new
    for _ in range(rng.randint(1, 3)):
        found = [
            args
            for name, args in candidates(stmt._base, GPU)
            if name == "parallelize" and _fits(rng, args)
        ]
        rng.shuffle(found)
        for args in found[:12]:
            option = attempt(stmt._base, "parallelize", args)
            if option is not None:
                var, unit, race, _, size, reduction = option.command.arguments
                if size is not None:
                    size = rng.choice((2, 4, 8, 16, 32))
                try:
                    stmt = stmt.parallelize(var, unit, race, group_size=size, reduction=reduction)
                except ScheduleError:
                    continue
                break
    return stmt


def _fits(rng: random.Random, args: tuple[Any, ...]) -> bool:
    """Blocks and threads more often than warps, and groups now and then."""
    often = {ParallelUnit.GPUBlock: 1.0, ParallelUnit.GPUThread: 1.0, ParallelUnit.GPUWarp: 0.5}
    return rng.random() < often.get(args[1], 0.7)


@pytest.mark.fuzz
@pytest.mark.needs_cc
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_emulated_kernels_agree_with_the_reference(chunk: int) -> None:
    seeds = range(SEED + chunk, SEED + CASES, CHUNKS)
    batch, runs, failures = Batch(), [], []
    for seed in seeds:
        case = random_case(random.Random(seed), nonfinite=seed % 9 == 0)
        commands = ""
        try:
            stmt = statement_of(case)
            if seed % 4:
                stmt = random_gpu_schedule(random.Random(5 * seed + 2), stmt)
            commands = stmt.commands
            kernel = (
                stmt.compile(TARGET, loader=batch) if TARGET != "cuda" else stmt.compile(TARGET)
            )
            if TARGET != "cuda":
                kernel._device.order = seed % 3
                batch.expect(cast(CompiledCuda, kernel._compiled))
            runs.append((seed, case, commands, kernel))
        except Exception as error:
            failures.append(
                f"seed {seed}: {case.text} | {commands}\n{type(error).__name__}: {error}"
            )
    for seed, case, commands, kernel in runs:
        result = answer(kernel)
        try:
            if isinstance(result, Exception):
                raise AssertionError(f"{type(result).__name__}: {result}") from result
            compare(case, result)
        except AssertionError as error:
            failures.append(f"seed {seed}: {case.text} | {commands}\n{error}\n{case.reproducer()}")
    if failures:
        count = f"{len(failures)} of {len(seeds)} cases differ from the reference"
        pytest.fail("\n\n".join([count, *failures[:4]]), pytrace=False)
