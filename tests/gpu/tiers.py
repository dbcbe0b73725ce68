"""Numbers of the GPU's table that tests change, so that short rows are made as long ones are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from openwork.loops.schedule.machines import Gpu
from openwork.program.lower.result import gpu_table
from openwork.recipes.devices.tables import H200
from openwork.tensor.kernel.gpu import GpuTarget

TIERS = ("long", "far", "mapped")


def set_numbers(monkeypatch: pytest.MonkeyPatch, **numbers: Any) -> None:
    """Change how the units of a GPU share a sparse result (`machines.SparseResult`)."""
    known = GpuTarget.table if isinstance(GpuTarget.table, Gpu) else H200
    changed = replace(known, result=replace(known.result, **numbers))
    monkeypatch.setattr(GpuTarget, "table", changed)


def make_all(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row fits a near table: all are of `tier`."""
    mapped = 1 << 22 if tier == "mapped" else 0
    set_numbers(monkeypatch, slots=(2, 2), most_mapped=mapped)
    if tier != "long":
        monkeypatch.setattr(gpu_table, "MOST_SHARED", 128)
