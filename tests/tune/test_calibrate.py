"""Calibrating a GPU: what it measures, and what becomes of the table."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import pytest

import openwork as ow
from openwork.recipes.devices.tables import H200, with_constant
from openwork.tensor.kernel import machine
from openwork.tensor.kernel.targets import find_target

CALIBRATE = importlib.import_module("openwork.tune.defaults.calibrate")


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Notes of a test's own."""
    kept: dict[str, Any] = {}
    monkeypatch.setattr(machine, "read_note", kept.get)
    monkeypatch.setattr(machine, "write_note", kept.__setitem__)
    machine.gpu_of.cache_clear()
    yield kept
    machine.gpu_of.cache_clear()


def test_a_gpu_gets_the_table_that_was_fitted(notes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [m for m in CALIBRATE.generated(0.0005) if m[0] in ("stencil", "one long row")]
    monkeypatch.setattr(CALIBRATE, "generated", lambda size: chosen)
    monkeypatch.setattr(CALIBRATE, "PRODUCTS", (("float32", 0),))
    monkeypatch.setattr(CALIBRATE, "_WRONG", 1)
    found = CALIBRATE.calibrate("cuda-emulated", seconds=60)
    assert found.cases == 2 and found.after.mean <= found.before.mean
    assert "2 products measured" in str(found)
    assert machine.gpu_of("") == found.table == find_target("cuda-emulated").table


def test_notes_that_are_no_tables_are_passed_over(notes: Any) -> None:
    table = with_constant(H200, "load.many_rows", 12_345)
    machine.keep_gpu("some GPU", table)
    assert machine.gpu_of("some GPU") == table and machine.gpu_of("another") == H200
    ((name, sound),) = notes.items()
    for wrong in ({}, {**sound, "load": 3}, {**sound, "load": {**sound["load"], "many": -1}}):
        machine.gpu_of.cache_clear()
        notes[name] = wrong
        assert machine.gpu_of("some GPU") == H200


def test_only_a_gpu_with_some_time_is_calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ow.ScheduleError) as caught:
        CALIBRATE.calibrate("cpu")
    assert caught.value.code == "E303"
    monkeypatch.setattr(CALIBRATE, "_WRONG", 0)
    monkeypatch.setattr(CALIBRATE, "PRODUCTS", (("float32", 0),))
    with pytest.raises(ow.ScheduleError, match="too few"):
        CALIBRATE.calibrate("cuda-emulated", seconds=0, size=0.0001)


def test_other_tables_choose_other_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default of a statement follows the table of its target."""
    target = find_target("cuda-emulated")
    A, x = ow.tensor([[1.0, 0.0], [0.0, 2.0]], format="CSR", name="A"), ow.tensor([1.0, 1.0])
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(2), A=A, x=x)
    usual = stmt.default_schedule("cuda-emulated")
    load = replace(H200.load, many_rows=1)
    monkeypatch.setattr(type(target), "table", replace(H200, load=load))
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(2), A=A, x=x)
    assert stmt.default_schedule("cuda-emulated") != usual
