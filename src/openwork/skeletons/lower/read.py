"""Parameters: values that are loaded from where the type has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from openwork.program import nodes as p
from openwork.skeletons.language.nodes import ArrayType, Nat, PairType, Type, nat
from openwork.skeletons.lower.context import Context
from openwork.skeletons.lower.memory import Buffer, Path, is_record
from openwork.skeletons.lower.naturals import Chain, code, place_of
from openwork.skeletons.lower.values import Number, Two, Value, View


def read(
    low: Context, type: Type, chain: Chain, path: Path,
    buffer: Callable[[Path], Buffer],
) -> Value:  # fmt: skip
    """The value of a parameter, or of a part of it: `chain` are the indices so far."""
    if is_record(type):
        return _record(low, type, buffer(path), place_of(low, chain, path), ())
    if isinstance(type, PairType):
        return Two(
            read(low, type.first, chain, (*path, 1), buffer),
            read(low, type.second, chain, (*path, 2), buffer),
        )
    array = cast(ArrayType, type)
    if is_record(array.element) and low.spelled != "nested":
        begin = place_of(low, chain, path)
        mine = buffer(path)
        return View(
            begin, begin + array.length,
            lambda place: _record(low, array.element, mine, place, ()), array.length,
        )  # fmt: skip
    return View(
        nat(0), array.length,
        lambda i: read(low, array.at(i), [*chain, (array, i, path)], path, buffer), array.length,
    )  # fmt: skip


def _record(low: Context, type: Type, buffer: Buffer, place: Nat, path: Path) -> Value:
    if isinstance(type, PairType):
        return Two(
            _record(low, type.first, buffer, place, (*path, 1)),
            _record(low, type.second, buffer, place, (*path, 2)),
        )
    at = buffer.fields[path]
    if low.spelled == "nested":
        parts = "".join(f".{step}" for step in path)
        return Number(p.Name(f"{buffer.owner}@{place}{parts}", at.array.type))
    return Number(p.Load(at.array, at.place(code(low, place))))
