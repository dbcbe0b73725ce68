"""Watching a compilation: numbered dumps, decisions, and kernels that answer Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import openwork as ow
from openwork.tensor.eager import KERNELS

STAGES = [
    "statement.txt",
    "explicit.txt",
    "loops.txt",
    "scheduled.txt",
    "lowered.c",
    "simplified.c",
    "kernel.c",
]


def test_a_dump_has_every_stage_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENWORK_DUMP", str(tmp_path / "dump"))
    KERNELS.clear()
    A = ow.tensor(np.eye(3), format=ow.CSR)
    _ = A + A
    _ = A + A
    files = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert files == [f"{n:02d}-{stage}" for n, stage in enumerate(STAGES, 1)]
    assert "forall" in (tmp_path / "dump" / "03-loops.txt").read_text()
    assert "int32_t kernel(" in (tmp_path / "dump" / "07-kernel.c").read_text()


def test_nothing_is_dumped_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENWORK_DUMP", raising=False)
    x, y = ow.tensor(np.ones(3), name="x"), ow.empty(3, name="y")
    ow.parse("y(i) = 2 * x(i)", x=x, y=y).compile()()
    assert not list(tmp_path.iterdir())


@pytest.mark.needs_cc
def test_a_long_kernel_answers_ctrl_c() -> None:
    A = ow.tensor(np.ones((3000, 3000)))
    _ = ow.einsum("ij,jk->ik", np.ones((2, 2)), np.ones((2, 2)))  # compiled beforehand
    fired = []

    def interrupt() -> None:
        fired.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.3, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ow.einsum("ij,jk->ik", A, A)
    assert time.perf_counter() - fired[0] < 0.5
    timer.join()
    np.testing.assert_array_equal((ow.tensor(np.eye(3)) @ np.ones(3)).to_numpy(), np.ones(3))
