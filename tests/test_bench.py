"""The scripts of bench/ can be imported: what they take from the package is still there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent.parent / "bench"
# What they compare with and run on need not be installed.
PEERS = {"cupy", "cupyx", "fast_matrix_market", "graphblas", "matplotlib", "mkl", "numba", "torch"}
IMPORT = """
import importlib, sys
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in sys.argv[1].split(","):
            raise
"""


@pytest.mark.needs_cc
def test_benchmarks_are_imported() -> None:
    names = sorted(path.stem for path in BENCH.glob("*.py"))
    assert len(names) > 30
    command = [sys.executable, "-c", IMPORT, ",".join(PEERS), *names]
    done = subprocess.run(command, cwd=BENCH, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
