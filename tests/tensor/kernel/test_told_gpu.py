"""What a kernel for a GPU tells of itself, and what the same kernel is in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.errors import InternalError
from openwork.tensor.kernel.gpu import GpuLauncher

pytestmark = pytest.mark.needs_cc

OWN = """
import numpy as np, openwork as ow
laws = dict(identity=0, associative=True, commutative=True)
either = ow.operator("either", lambda a, b: a + b - a * b, **laws)
growth = ow.operator("growth", lambda a, b: a + b + a * b, **laws)
i, j = ow.indices("i j")
A, y = ow.tensor(np.eye(9), format="CSR", name="A"), ow.empty(9, name="y")
for op in (either, growth):
    print(ow.assign(y[i], ow.reduce(op, j, A[i, j])).compile("cuda-emulated").source)
"""


def test_operators_of_users_have_the_same_names_in_every_process() -> None:
    texts = [
        subprocess.run(
            [sys.executable, "-c", OWN],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    names = {line for line in texts[0].splitlines() if line.startswith("struct f_of_float64_")}
    assert texts[0] == texts[1]
    assert len(names) == 2


def spmv() -> Any:
    i, j = ow.indices("i j")
    A, x = ow.tensor(np.eye(9), format="CSR", name="A"), ow.tensor(np.ones(9), name="x")
    return ow.assign(ow.empty(9, name="y")[i], A[i, j] * x[j]).compile("cuda-emulated")


def test_explain_counts_lines_of_cuda() -> None:
    assert " lines of CUDA, " in spmv().explain()


def test_results_are_compared_with_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENWORK_CHECK", "1")
    kernel = spmv()
    for _ in range(3):
        np.testing.assert_array_equal(kernel().to_numpy(), np.ones(9))
    really = GpuLauncher.launch

    def wrong(self: GpuLauncher, *args: Any) -> Any:
        made = really(self, *args)
        made.values[3] = 7
        return made

    monkeypatch.setattr(GpuLauncher, "launch", wrong)
    with pytest.raises(InternalError, match="disagrees with the reference"):
        kernel()
