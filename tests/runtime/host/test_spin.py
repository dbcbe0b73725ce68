"""How long OpenMP's threads wait, in processes of their own: it is settled when it is loaded."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.needs_cc

PROGRAM = """
import ctypes, os
before = dict(os.environ)
import numpy as np, openwork as ow
A = ow.tensor(np.eye(3), format=ow.CSR, name="A")
ow.parse("y(i) = A(i,j)", A=A, y=ow.empty((3,), name="y")).compile()()
assert dict(os.environ) == before, "a setting is left behind"
"""


def spins(**settings: str) -> str | None:
    """How often GNU OpenMP says that it looks for work."""
    unset = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environment = {k: v for k, v in os.environ.items() if k not in unset}
    environment |= {"OMP_DISPLAY_ENV": "verbose", **settings}
    run = [sys.executable, "-c", PROGRAM]
    made = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    # A compiler that is tried for the first time may speak before.
    found = re.findall(r"GOMP_SPINCOUNT = '(\w+)'", made.stderr)
    return found[-1] if found else None


def test_threads_do_not_wait_long() -> None:
    found = spins()
    if found is None:
        pytest.skip("this compiler has another OpenMP than GNU's")
    assert found == "60000"


def test_what_the_user_says_holds() -> None:
    if spins() is None:
        pytest.skip("this compiler has another OpenMP than GNU's")
    assert spins(GOMP_SPINCOUNT="77") == "77"
    assert spins(OMP_WAIT_POLICY="passive") == "0"
