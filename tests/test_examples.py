"""Every script in examples/ runs, on a file and on its own operands, and is in the README."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow

pytestmark = pytest.mark.needs_cc

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
ALL_SCRIPTS = sorted(p.stem for p in EXAMPLES.glob("*.py") if p.stem != "common")
SCRIPTS = [name for name in ALL_SCRIPTS if not name.startswith("gpu_")]  # those are not timed


@pytest.fixture
def restored() -> Iterator[None]:
    """Examples choose how many threads there are."""
    yield
    ow.set_num_threads(None)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A matrix with empty rows, one long one, and more columns than rows; a tensor of order 5."""
    folder = tmp_path_factory.mktemp("operands")
    rng = np.random.default_rng(3)
    matrix = sp.random_array((70, 90), density=0.05, format="lil", rng=rng)
    matrix[11, :] = rng.random(90)
    matrix[[0, 12, 13, 69], :] = 0
    ow.write(folder / "matrix.mtx", ow.tensor(matrix.tocsr()))
    coordinates = np.unique(rng.integers(0, 6, (200, 5)), axis=0).T
    tensor = ow.tensor((coordinates, rng.random(coordinates.shape[1])), shape=(6,) * 5)
    ow.write(folder / "tensor.tns", tensor)
    return folder / "matrix.mtx", folder / "tensor.tns"


@pytest.mark.parametrize("name", SCRIPTS)
def test_example_on_a_file(
    name: str,
    files: tuple[Path, Path],
    restored: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = str(files["mttkrp" in name])
    monkeypatch.setattr(sys, "argv", [f"{name}.py", file])
    monkeypatch.syspath_prepend(EXAMPLES)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "forall" in printed
    assert re.search(r"^default +[\d.]+ ms", printed, re.M)
    assert re.search(r"^scheduled +[\d.]+ ms", printed, re.M)


def test_gpu_schedules_agree_under_the_emulator(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "gpu_schedules.py"), run_name="__main__")
    assert capsys.readouterr().out.count("NumPy: True") == 12


@pytest.mark.parametrize("name", ["spmv_chunks", "mttkrp_order3"])
def test_example_on_operands_of_its_own(name: str) -> None:
    script = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    ran = subprocess.run(script, capture_output=True, text=True, timeout=300, env=_environment())
    assert ran.returncode == 0, ran.stderr
    assert "scheduled" in ran.stdout


def _environment() -> dict[str, str]:
    """Ours, and the modules that we see: the package need not be installed."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def test_a_wrong_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    check = runpy.run_path(str(EXAMPLES / "common.py"))["check"]
    check(ow.tensor([1.0, 2.0]), np.array([1.0, 2.0]))
    with pytest.raises(SystemExit, match="wrong by 1"):
        check(ow.tensor([1.0, 2.0]), np.array([1.0, 3.0]))


def test_merge_path_parts_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part has as many rows and entries together, and no entry is before its row."""
    monkeypatch.syspath_prepend(EXAMPLES)
    merge_path = runpy.run_path(str(EXAMPLES / "spmv_merge_path.py"))["merge_path"]
    rng = np.random.default_rng(0)
    for lengths in ([0, 0, 7, 0, 1], [5], [0], rng.integers(0, 9, 50), np.zeros(4, int), []):
        ends = np.cumsum(np.asarray(lengths, dtype=np.int64))
        begins = ends - np.asarray(lengths, dtype=np.int64)
        for parts in (1, 2, 3, 8):
            rows, entries = merge_path(ends, parts)
            steps = np.diff(rows + entries)
            assert steps.max() - steps.min() <= 1
            assert (rows[0], entries[0]) == (0, 0)
            assert (rows[-1], entries[-1]) == (ends.size, ends[-1] if ends.size else 0)
            for row, entry in zip(rows, entries, strict=True):
                assert row == ends.size or begins[row] <= entry <= ends[row]


def test_every_example_is_listed() -> None:
    listed = re.findall(r"^\| \[(\w+)\.py\]", (EXAMPLES / "README.md").read_text(), re.M)
    assert sorted(listed) == ALL_SCRIPTS
