"""What the tests of SciPy and PyData/sparse ask for, asked of tensors.

A case that is marked as missed must fail, so that a change that mends it tells.
"""

from __future__ import annotations

import builtins
import os
import re
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.tensor.ported.cases import FILES, Case, expand, given, same

import openwork as ow

pytestmark = pytest.mark.needs_cc
EVERY = os.environ.get("OPENWORK_EVERY_CHOICE") == "1"
MOST = 3  # cases of a line, unless all are asked for


def chosen(library: str) -> list[Case]:
    """The cases that run by default: some of each line, evenly spread."""
    lines = [list(each) for _, each in groupby(expand(library), lambda case: case.line)]
    return [case for line in lines for case in line[:: 1 if EVERY else -(-len(line) // MOST)]]


CASES = [(library, case) for library in FILES for case in chosen(library)]
PAGE = Path(__file__).resolve().parents[3] / "docs" / "arrays.md"


def holds(case: Case, tensors: dict[str, Any], arrays: dict[str, Any]) -> bool:
    """Whether a case has the answer that it asks for."""
    if case.refused is not None:
        kind = getattr(ow, case.refused, None) or getattr(builtins, case.refused)
        try:
            eval(case.ours, dict(tensors))  # noqa: S307 - our own cases
        except kind:
            return True
        return False
    wanted = eval(case.wanted, dict(arrays))  # noqa: S307
    try:
        return same(eval(case.ours, dict(tensors)), wanted)  # noqa: S307 - our own cases
    except Exception:
        if case.missed is None:
            raise
        return False


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [pytest.param(c, id=f"{lib} {c}") for lib, c in CASES])
def test_case(case: Case) -> None:
    tensors, arrays = given()
    with np.errstate(all="ignore"):
        assert holds(case, tensors, arrays) == (case.missed is None), case.missed or case


def test_docs_have_the_numbers() -> None:
    """The page tells how many cases there are, and each miss with its reason."""
    text = PAGE.read_text()
    for library in FILES:
        cases = list(expand(library))
        count = Counter("missed" if c.missed else "other" if c.otherwise else "" for c in cases)
        row = f"| {library} | {len(cases)} | {count['']} | {count['other']} | {count['missed']} |"
        assert row in text, row
        for reason in {c.missed or c.otherwise for c in cases} - {None}:
            assert re.sub(r"\s+", " ", str(reason)) in re.sub(r"\s+", " ", text), reason
