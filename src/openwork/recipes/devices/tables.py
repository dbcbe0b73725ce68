"""Reading and writing tables of GPUs: data, which `bench/fit_defaults.py` fits to measurements."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from functools import cache
from math import log2
from pathlib import Path
from typing import Any, TypeVar

from openwork.loops.schedule import machines
from openwork.loops.schedule.machines import Gpu

FITTED = ("times", "load", "lengths", "caches", "tiles")
_ABSURD = 1e15
_POWERS = {"tiles.least_wide": (4, 32), "tiles.unroll_wide": (1, 8)}  # powers of two, within these

T = TypeVar("T")


@cache
def gpu_table(name: str) -> Gpu:
    """The table of a GPU that Openwork knows.

    >>> gpu_table("h200").multiprocessors
    132
    """
    return read_table(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8"))


def read_table(text: str) -> Gpu:
    """The table that a text holds."""
    return _read(Gpu, json.loads(text))


def noted_table(facts: object) -> Gpu | None:
    """The table that a note holds; None if it is none, or a number is not possible."""
    try:
        table = read_table(json.dumps(facts))
    except (ValueError, TypeError, LookupError):
        return None
    sound = all(0 < value < _ABSURD for value in constants(table).values())
    return table if sound and table.multiprocessors > 0 else None


def write_table(gpu: Gpu, device: str, fitted: str) -> str:
    """A table as text; `fitted`: to what, and when."""
    return f"{json.dumps({'device': device, 'fitted': fitted, **asdict(gpu)}, indent=2)}\n"


def _read(kind: type[T], facts: dict[str, Any]) -> T:
    """A part of a table; annotations are text, so they name the classes of `machines`."""
    made = {}
    for field in fields(kind):  # type: ignore[arg-type]
        value, called = facts[field.name], str(field.type)
        inner = getattr(machines, called, None)
        if inner is not None:
            made[field.name] = _read(inner, value)
        elif isinstance(value, list):
            made[field.name] = tuple(value)
        else:
            made[field.name] = int(value) if called == "int" else float(value)
    return kind(**made)


def constants(gpu: Gpu) -> dict[str, float]:
    """The numbers of a table that choices of products depend on, by their names: those to fit."""
    found: dict[str, float] = {}
    for group in FITTED:
        part = getattr(gpu, group)
        for field in fields(part):
            value = getattr(part, field.name)
            for at, each in enumerate(value) if isinstance(value, tuple) else ((None, value),):
                found[f"{group}.{field.name}" + ("" if at is None else f".{at}")] = each
    return found


def with_constant(gpu: Gpu, name: str, value: float) -> Gpu:
    """The table with another number; whole numbers stay whole, and powers of two."""
    group, field, *at = name.split(".")
    part = getattr(gpu, group)
    old = getattr(part, field)
    if at:
        new: Any = tuple(value if n == int(at[0]) else each for n, each in enumerate(old))
    else:
        new = max(1, round(value)) if isinstance(old, int) else value
        if name in _POWERS:
            least, most = _POWERS[name]
            new = min(most, max(least, 1 << round(log2(new))))
    made: Gpu = replace(gpu, **{group: replace(part, **{field: new})})
    return made


H200 = gpu_table("h200")
