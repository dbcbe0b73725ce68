"""Measurements of a machine: kept as data, checked when read, and used by default schedules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import openwork as ow
from openwork.loops.schedule.machines import ANY_CPU
from openwork.runtime import cache
from openwork.runtime.host import calibration, launch
from openwork.runtime.host.calibration import Calibration
from openwork.tensor.kernel import machine
from openwork.ui import doctor
from openwork.ui.cli import main

KNOWN = Calibration(
    cpus=16,
    fork_join=3.0,
    fork_join_two=1.0,
    bandwidth=100.0,
    bandwidth_one=10.0,
    scalar=600.0,
    masked=1500.0,
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of the test's own, on a machine with 16 CPUs."""
    monkeypatch.setenv("OPENWORK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(calibration, "available_cpus", lambda: 16)
    monkeypatch.setattr(calibration, "gathers_are_fast", lambda: True)
    monkeypatch.setattr(launch, "SERIAL_BELOW", launch.SERIAL_BELOW)
    machine.this_cpu.cache_clear()
    yield tmp_path
    machine.this_cpu.cache_clear()


def keep(**changed: object) -> None:
    facts = {"version": 2, **KNOWN.__dict__, **changed}
    cache.write_note(calibration._name(), facts)


def test_what_was_measured_is_recalled() -> None:
    assert calibration.recall() is None
    keep()
    assert calibration.recall() == KNOWN


@pytest.mark.parametrize(
    "changed",
    [{"version": 1}, {"cpus": 8}, {"scalar": "fast"}, {"masked": -1.0}, {"fork_join": 1e400}],
    ids=str,
)
def test_what_does_not_fit_is_ignored(changed: dict[str, object]) -> None:
    keep(**changed)
    assert calibration.recall() is None


def test_a_file_that_was_changed_is_ignored(own_cache: Path) -> None:
    keep()
    (file,) = own_cache.glob("note-calibration-*.json")
    note = json.loads(file.read_bytes())
    note["facts"]["fork_join"] = 0.1
    file.write_text(json.dumps(note))
    assert calibration.recall() is None


def test_threads_wait_for_more_work_where_they_take_longer_to_start() -> None:
    cheap, dear = (Calibration(**{**KNOWN.__dict__, "fork_join": t}) for t in (3.0, 100.0))
    assert 15_000 < cheap.serial_below < 25_000
    assert dear.serial_below == 200_000  # however busy the machine was
    assert Calibration(**{**KNOWN.__dict__, "cpus": 1}).serial_below == 200_000


def test_default_schedules_read_it() -> None:
    assert machine.this_cpu() == ANY_CPU
    assert ANY_CPU.serial_below == launch.SERIAL_BELOW
    machine.this_cpu.cache_clear()
    keep(fork_join=6.0)
    assert machine.this_cpu().gathers
    assert launch.SERIAL_BELOW == machine.this_cpu().serial_below > ANY_CPU.serial_below
    machine.this_cpu.cache_clear()
    keep(masked=400.0)
    assert not machine.this_cpu().gathers


def test_it_holds_for_any_number_of_threads() -> None:
    """A process that sets its threads first has the same defaults."""
    keep()
    ow.set_num_threads(1)
    try:
        assert calibration.recall() == KNOWN
    finally:
        ow.set_num_threads(None)


@pytest.mark.needs_cc
def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(calibration, "available_cpus", lambda: 2)
    speed = [f.text for f in doctor.examine() if f.topic == "speed"]
    assert "`python -m openwork calibrate`" in speed[0]
    assert main(["calibrate"]) == 0
    known = calibration.recall()
    assert known is not None and known.cpus == 2
    assert capsys.readouterr().out == f"{known}\n"
    assert [f.text for f in doctor.examine() if f.topic == "speed"] == [str(known)]
