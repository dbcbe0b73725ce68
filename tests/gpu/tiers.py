"""Rows of products that are made as long ones are, however short."""

from __future__ import annotations

import pytest

from openwork.loops import default_gpu
from openwork.program import tables

TIERS = ("long", "far", "mapped")


def make_all(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row fits a near table: all are of `tier`."""
    monkeypatch.setattr(default_gpu, "slots_for", lambda keys: 2)
    monkeypatch.setattr(default_gpu, "_MOST_MAPPED", 1 << 22 if tier == "mapped" else 0)
    if tier != "long":
        monkeypatch.setattr(tables, "MOST_SHARED", 128)
