"""Rows of products that are made as long ones are, however short."""

from __future__ import annotations

import pytest

from openwork.loops.schedule.default import gpu
from openwork.program.lower.result import gpu_table

TIERS = ("long", "far", "mapped")


def make_all(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row fits a near table: all are of `tier`."""
    monkeypatch.setattr(gpu, "slots_for", lambda keys: 2)
    monkeypatch.setattr(gpu, "_MOST_MAPPED", 1 << 22 if tier == "mapped" else 0)
    if tier != "long":
        monkeypatch.setattr(gpu_table, "MOST_SHARED", 128)
