"""Records of a test's own, and measurements that a test makes up."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openwork.runtime import tuning_file
from openwork.tensor.buckets.buckets import BucketKernel
from openwork.tune.clock import Clock

SPACE = importlib.import_module("openwork.tune.space")
SEARCH = importlib.import_module("openwork.tune.search")
Seconds = Callable[[str, str], float]
# Enough to choose from, where the space itself is not what a test is about.
RECIPES, FORMATS = ("balanced_rows", "rows at a time"), ("CSR", "CSC", "SELL(8)", "ELL", "DIA")


class Pretended(Clock):
    """Times that follow from a kernel's schedule and the format of A."""

    def __init__(self, seconds: Seconds) -> None:
        super().__init__(cold=False)
        self.seconds, self.calls = seconds, 0

    def timed(self, call: Any, count: int) -> float:
        self.calls += 1
        if isinstance(call, BucketKernel):
            return self.seconds(call._buckets.text, "buckets")
        stmt = call._origin[1][0]
        return self.seconds(stmt.commands, repr(call._templates["A"].format))

    def flush(self) -> None:
        pass


@pytest.fixture(autouse=True)
def own_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tests that run at the same time share the cache, but not what was learnt."""
    monkeypatch.setattr(tuning_file, "path", lambda: tmp_path / "tuning.jsonl")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few candidates: each is compiled, and a search may try them all."""
    recipes, choices, layouts = SPACE._recipes_for_cpu, SEARCH.choices, SEARCH.layouts
    known = [each for each in recipes() if each[0] in RECIPES]
    monkeypatch.setattr(SPACE, "_recipes_for_cpu", lambda: iter(known))
    chosen = lambda tensor: (c for c in choices(tensor) if c.text in FORMATS)  # noqa: E731
    monkeypatch.setattr(SEARCH, "choices", chosen)
    laid_out = lambda tensor: (each for each in layouts(tensor) if each == "SoA")  # noqa: E731
    monkeypatch.setattr(SEARCH, "layouts", laid_out)


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[[Seconds], Pretended]:
    """Measurements that a test makes up."""

    def use(seconds: Seconds) -> Pretended:
        clock = Pretended(seconds)
        monkeypatch.setattr(SEARCH, "clock_for", lambda target, cold: clock)
        return clock

    return use
