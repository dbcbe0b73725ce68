"""NVRTC accepts what the compiler writes: golden kernels, and those of random cases.

It needs no GPU, only a wheel: `pip install --target out/nvrtc nvidia-cuda-nvrtc-cu12`, and that
folder in PYTHONPATH. `OPENWORK_NVRTC_CASES` says how many random cases, `OPENWORK_FUZZ_SEED` which.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.gpu.nvrtc import compile_text, library
from tests.random.test_emulated import UNSCHEDULED, random_gpu_schedules
from tests.random.test_property import NONFINITE, case_of, report, statement_of

from openwork.errors import ScheduleError

CASES = int(os.environ.get("OPENWORK_NVRTC_CASES", "30"))
SEED = int(os.environ.get("OPENWORK_FUZZ_SEED", "0"))
GOLDEN = sorted((Path(__file__).parent.parent / "golden").glob("*.cu"))

pytestmark = pytest.mark.skipif(library() is None, reason="needs NVRTC")


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_golden_kernels_compile(file: Path) -> None:
    compile_text(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("chunk", range(3))
def test_random_kernels_compile(chunk: int) -> None:
    for seed in range(SEED + chunk, SEED + CASES, 3):
        case, commands = case_of(seed), ""
        try:
            stmt = statement_of(case)
            if seed % UNSCHEDULED:
                rng = random.Random(5 * seed + 2)
                for scheduled in random_gpu_schedules(rng, stmt, seed % NONFINITE != 0):
                    stmt, commands = scheduled, scheduled.commands
            source = stmt.compile("cuda").source
        except ScheduleError:  # the emulated test counts them
            continue
        try:
            compile_text(source)
        except AssertionError as error:
            pytest.fail(f"{error}\n{report(seed, case, commands)}", pytrace=False)
