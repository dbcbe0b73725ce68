"""Data of a call: arrays as buffers, and the naturals that follow from their shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from openwork.errors import DataError, ShapeError
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import ArrayType, Nat, Type
from openwork.skeletons.lower.memory import Buffer, is_record

Array = np.ndarray[Any, Any]
Equation = tuple[str, Nat, int]  # whose length this is, the length, and its value


def leading(type: Type, path: tuple[int, ...]) -> tuple[list[Nat], bool]:
    """The lengths of the arrays around the records of a buffer, and whether they are regular."""
    lengths, regular = list[Nat](), True
    while not is_record(type):
        if isinstance(type, n.PairType):
            type, path = (type.first if path[0] == 1 else type.second), path[1:]
        else:
            array = cast(ArrayType, type)
            lengths.append(array.length)
            regular = regular and not array.var
            type = array.element
    return lengths, regular


def as_buffers(
    name: str, value: object, type: Type, buffers: Sequence[Buffer]
) -> tuple[list[Array], list[Equation]]:
    """The buffers of an argument, and what its shape says about lengths."""
    found: list[Array] = []
    equations: list[Equation] = []
    for buffer in buffers:
        part: Any = value
        for step in buffer.path:
            if not isinstance(part, tuple | list) or len(part) != 2:
                raise ShapeError(
                    f"{name} has the type {type}, so it is a pair of arrays", code="E202",
                    hint=f"{name}=(first, second)",
                )  # fmt: skip
            part = part[step - 1]
        array, lengths = _flat(name, part, type, buffer)
        found.append(array)
        equations += [(name, length, count) for length, count in lengths]
    return found, equations


def _flat(
    name: str, value: object, type: Type, buffer: Buffer
) -> tuple[Array, list[tuple[Nat, int]]]:
    """One buffer, and the lengths that its shape gives."""
    lengths, regular = leading(type, buffer.path)
    if isinstance(value, list) and len(lengths) > 1 and not _is_rectangle(value):
        rows = [np.asarray(row, buffer.dtype).reshape(-1) for row in value]
        flat = np.concatenate(rows) if rows else np.empty(0, buffer.dtype)
        return flat, [(lengths[0], len(rows))] if len(lengths) > 1 else []
    try:
        array = _of_type(name, value, buffer)
    except (TypeError, ValueError) as error:
        raise ShapeError(
            f"{name} has the type {type}, and {_kind(value)} cannot become that: {error}",
            code="E202",
        ) from error
    if array.ndim == len(lengths) and regular:
        return array.reshape(-1), list(zip(lengths, array.shape, strict=True))
    if array.ndim == 1 and lengths:
        return array, []
    raise ShapeError(
        f"{name} has the type {type}, and the array has {array.ndim} dimensions", code="E202",
        hint="rows of different lengths are given one after the other, in a flat array",
    )  # fmt: skip


def _is_rectangle(value: list[Any]) -> bool:
    sizes = {len(row) if hasattr(row, "__len__") else -1 for row in value}
    return len(sizes) == 1 and bool(value) and not isinstance(value[0], tuple)


def _kind(value: object) -> str:
    return f"{value.dtype} data" if isinstance(value, np.ndarray) else type(value).__name__


def _of_type(name: str, value: object, buffer: Buffer) -> Array:
    """An array of the buffer's type; integers may change their width, where they fit."""
    wanted = buffer.dtype
    if not isinstance(value, np.ndarray):
        if wanted.names and isinstance(value, list):
            value = [_tuples(each) for each in value]
        return (
            np.ascontiguousarray(np.asarray(value, wanted)).reshape(len(cast(list[Any], value)))
            if (wanted.names)
            else np.require(np.asarray(value, wanted), requirements=["C", "A"])
        )
    if value.dtype == wanted:
        return np.require(value, requirements=["C", "A"])
    if value.dtype.kind in "iu" and wanted.kind == "i":
        limits = np.iinfo(wanted)
        if value.size and (value.min() < limits.min or value.max() > limits.max):
            raise ValueError(f"its numbers do not fit {wanted}")
        return np.ascontiguousarray(value.astype(wanted))
    raise ShapeError(
        f"{name} holds {value.dtype}, and its type says {wanted}", code="E202",
        hint=f"{name}.astype({str(wanted)!r})" if not wanted.names else
        "sk.pairs(first, second) makes an array of pairs",
    )  # fmt: skip


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def solved(names: Sequence[str], given: Mapping[str, int], equations: list[Equation]) -> dict[
    str, int
]:  # fmt: skip
    """The naturals of a call, from the lengths of its arrays.

    Raises:
        ShapeError: E204 if lengths contradict each other, E203 if a natural is not determined.
    """
    known = dict(given)
    waiting = list(equations)
    while True:
        left: list[Equation] = []
        for equation in waiting:
            owner, length, value = equation
            free = {a.name for a in n.walk_all(length) if isinstance(a, n.Named)} - known.keys()
            single = [(m, t) for m, t in length.terms if any(isinstance(a, n.Named) and
                      a.name in free for a in m)]  # fmt: skip
            if any(isinstance(a, n.ToNat) for a in n.walk_all(length)):
                continue
            if len(free) == 1 and len(single) == 1 and len(single[0][0]) == 1:
                (name,), times = free, single[0][1]
                rest = value - _value(length - Nat((single[0],)), known)
                if rest % times or rest // times < 0:
                    raise ShapeError(
                        f"{owner} has a length of {value}, which no {length} is", code="E204"
                    )
                known[name] = rest // times
            else:
                left.append(equation)
        if len(left) == len(waiting):
            break
        waiting = left
    for name in names:
        if name not in known:
            raise ShapeError(
                f"nothing tells what {name} is", code="E203", hint=f"give it as {name}=..."
            )
    for owner, length, value in equations:
        if any(isinstance(a, n.ToNat) for a in n.walk_all(length)):
            continue
        if _value(length, known) != value:
            told = ", ".join(f"{k} is {v}" for k, v in known.items() if k in n.names_of(length))
            raise ShapeError(
                f"{owner} has a length of {value} where its type says {length}, and {told}",
                code="E204",
            )
    return known


def _value(value: Nat, known: Mapping[str, int]) -> int:
    done = n.substituted(value, {name: n.nat(v) for name, v in known.items()})
    number = cast(Nat, done).constant
    if number is None:
        raise ShapeError(f"{value} is not known before the call", code="E203")
    return number


def pairs(first: object, second: object) -> Array:
    """An array of pairs from two arrays.

    >>> pairs(np.array([1, 2], "int32"), np.array([0.5, 0.25])).tolist()
    [(1, 0.5), (2, 0.25)]
    """
    one, other = np.asarray(first), np.asarray(second)
    if one.shape != other.shape:
        raise ShapeError(
            f"arrays of shapes {one.shape} and {other.shape} make no pairs", code="E204"
        )
    made = np.empty(
        one.shape, np.dtype([("first", one.dtype), ("second", other.dtype)], align=True)
    )
    made["first"], made["second"] = one, other
    return made


def wrong_count(name: str, type: Type, has: int, wanted: int) -> DataError:
    """The error for a buffer that is too short, or too long."""
    return DataError(
        f"{name} has {has} elements, and the lengths in its type {type} add up to {wanted}",
        code="E516", hint="the rows of an array lie one after the other, without gaps",
    )  # fmt: skip
