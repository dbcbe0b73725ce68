"""Watching a compilation: numbered dumps, decisions, and kernels that answer Ctrl-C."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import openwork as ow
from openwork.tensor.eager import KERNELS

FRONT = ["statement.txt", "explicit.txt", "loops.txt", "scheduled.txt"]
STAGES = [
    *FRONT,
    "lowered.c",
    "records.c",
    "extents.c",
    "simplified.c",
    "vectorized.c",
    "chains.c",
    "ranges.c",
    "tidied.c",
    "kernel.c",
]
STAGES_OF_A_GPU = [
    *FRONT,
    "lowered.c",
    "records.c",
    "extents.c",
    "simplified.c",
    "copies.c",
    "inspected.c",
    "kernels.c",
    "statuses.c",
    "streamed.c",
    "wide.c",
    "batches.c",
    "tidied.c",
    "kernel.cu",
]
THREADS = "split(i,i0,i1,32), parallelize(i0,CPUThread,NoRaces)"
BLOCKS = "split(i,i0,i1,32), parallelize(i0,GPUBlock,NoRaces), parallelize(i1,GPUThread,NoRaces)"


def test_a_dump_has_every_stage_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENWORK_DUMP", str(tmp_path / "dump"))
    KERNELS.clear()
    A = ow.tensor(np.eye(3), format=ow.CSR)
    _ = A + A
    _ = A + A
    files = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert files == [f"{n:02d}-{stage}" for n, stage in enumerate(STAGES, 1)]
    assert "forall" in (tmp_path / "dump" / "03-loops.txt").read_text()
    assert "int32_t kernel(" in (tmp_path / "dump" / "13-kernel.c").read_text()


@pytest.mark.parametrize(
    ("target", "schedule"),
    [("cpu", ""), ("cpu", THREADS), ("cuda-emulated", ""), ("cuda-emulated", BLOCKS)],
)
def test_every_stage_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, schedule: str
) -> None:
    A, x, y = ow.tensor(np.eye(99), format=ow.CSR), ow.tensor(np.ones(99)), ow.empty(99)
    stmt = ow.parse("y(i) = A(i,j) * x(j)", A=A, x=x, y=y)
    monkeypatch.setenv("OPENWORK_DUMP", str(tmp_path / "dump"))
    stmt = stmt.schedule(schedule) if schedule else stmt
    kernel = stmt.compile(target)
    files = sorted((tmp_path / "dump").iterdir())
    names = STAGES if target == "cpu" else STAGES_OF_A_GPU
    assert [file.name for file in files] == [f"{n:02d}-{stage}" for n, stage in enumerate(names, 1)]
    texts = [file.read_text() for file in files]
    for name, text in zip(names, texts, strict=True):
        assert text.strip() and "(name=" not in text, name  # no repr
    assert texts[2] == "forall i:\n  forall j:\n    y(i) += A(i,j) * x(j)\n"
    assert texts[3] == f"{kernel.loops}\n"  # those that are compiled
    assert texts[-1] == f"{kernel.source}\n"


def test_nothing_is_dumped_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENWORK_DUMP", raising=False)
    x, y = ow.tensor(np.ones(3), name="x"), ow.empty(3, name="y")
    ow.parse("y(i) = 2 * x(i)", x=x, y=y).compile()()
    assert not list(tmp_path.iterdir())


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage is collected: Hypothesis listens to that, and an interrupt in there is lost."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.needs_cc
@pytest.mark.usefixtures("uncollected")
def test_a_long_kernel_answers_ctrl_c() -> None:
    A = ow.tensor(np.ones((1500, 1500)))
    small = np.ones((2, 2))
    ow.einsum("ij,jk->ik", small, small, semiring="min_plus")  # compiled beforehand; not BLAS's
    fired = []

    def interrupt() -> None:
        fired.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.3, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ow.einsum("ij,jk->ik", A, A, semiring="min_plus")
    assert time.perf_counter() - fired[0] < 0.5
    timer.join()
    np.testing.assert_array_equal((ow.tensor(np.eye(3)) @ np.ones(3)).to_numpy(), np.ones(3))
