"""Results: values are stored where the type of the result has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from openwork.program import nodes as p
from openwork.program.elements import converted
from openwork.skeletons.language.nodes import ArrayType, Nat, PairType, Type
from openwork.skeletons.lower.context import Evaluator
from openwork.skeletons.lower.loops import each
from openwork.skeletons.lower.memory import Buffer, Path, is_record
from openwork.skeletons.lower.naturals import Chain, code, place_of
from openwork.skeletons.lower.values import Two, Value, View


def write(
    low: Evaluator, value: Value, type: Type, chain: Chain, path: Path,
    places: Mapping[Path, Buffer],
) -> None:  # fmt: skip
    """Store a value where the result has it."""
    if is_record(type):
        return store(low, value, type, places[path], place_of(low.context, chain, path), ())
    if isinstance(type, PairType):
        both = cast(Two, value)
        write(low, both.first, type.first, chain, (*path, 1), places)
        write(low, both.second, type.second, chain, (*path, 2), places)
        return None
    array, view = cast(ArrayType, type), cast(View, value)
    return each(
        low.context,
        view,
        lambda i, v: write(low, v, array.at(i), [*chain, (array, i, path)], path, places),
    )


def store(low: Evaluator, value: Value, type: Type, buffer: Buffer, place: Nat, path: Path) -> None:
    if isinstance(type, PairType):
        both = low.pair(value)
        store(low, both.first, type.first, buffer, place, (*path, 1))
        store(low, both.second, type.second, buffer, place, (*path, 2))
        return
    at = buffer.fields[path]
    stored = converted(low.number(value).expr, at.array.type)
    low.context.out.append(p.Store(at.array, at.place(code(low.context, place)), stored))
