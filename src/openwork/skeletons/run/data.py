"""Data of a call: arrays as buffers, and the naturals that follow from their shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from openwork.errors import DataError, ShapeError
from openwork.frozen import frozen
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import ArrayType, Nat, Type
from openwork.skeletons.lower.memory import Buffer, is_record
from openwork.skeletons.run.host import Host

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


@frozen
class Given:
    """One buffer of an argument, and what its shape says about lengths.

    `rows`: of nested lists, the lengths of all rows, for each level below the outermost.
    """

    array: Array
    lengths: Sequence[tuple[Nat, int]] = ()
    rows: Sequence[list[int]] = ()


def as_buffers(name: str, value: object, type: Type, buffers: Sequence[Buffer]) -> list[Given]:
    """The buffers of an argument."""
    found: list[Given] = []
    for buffer in buffers:
        part: Any = value
        for step in buffer.path:
            if not isinstance(part, tuple | list) or len(part) != 2:
                raise ShapeError(
                    f"{name} has the type {type}, so it is a pair of arrays", code="E202",
                    hint=f"{name}=(first, second)",
                )  # fmt: skip
            part = part[step - 1]
        found.append(_given(name, part, type, buffer))
    return found


def _given(name: str, value: object, type: Type, buffer: Buffer) -> Given:
    lengths, regular = leading(type, buffer.path)
    rows = list[list[int]]()
    nested = isinstance(value, list) and len(lengths) > 1
    if nested and not (regular and _is_rectangle(cast(list[Any], value), len(lengths))):
        value = cast(list[Any], value)
        count = len(value)
        for _ in lengths[1:]:
            inner = [_row(name, row, type) for row in value]
            rows.append([len(row) for row in inner])
            value = [each for row in inner for each in row]
        array = _of_type(name, value, type, buffer)
        return Given(_one_dimension(name, array, type), [(lengths[0], count)], rows)
    array = _of_type(name, value, type, buffer)
    if array.ndim == len(lengths) and regular:
        return Given(array.reshape(-1), list(zip(lengths, array.shape, strict=True)))
    return Given(_one_dimension(name, array, type) if lengths else _refused(name, array, type))


def _one_dimension(name: str, array: Array, type: Type) -> Array:
    return array if array.ndim == 1 else _refused(name, array, type)


def _refused(name: str, array: Array, type: Type) -> NoReturn:
    raise ShapeError(
        f"{name} has the type {type}, and the array has {array.ndim} dimensions", code="E202",
        hint="rows of different lengths are lists, or lie one after the other in a flat array",
    )  # fmt: skip


def _row(name: str, row: object, type: Type) -> list[Any]:
    if isinstance(row, np.ndarray):
        return list(row)
    if not isinstance(row, list):
        raise ShapeError(f"{name} has the type {type}, and {row!r} is no row of it", code="E202")
    return row


def _is_rectangle(value: list[Any], depth: int) -> bool:
    """Whether so many levels of lists are those of an array."""
    for _ in range(depth - 1):
        sizes = {len(row) if isinstance(row, list | np.ndarray) else -1 for row in value}
        if len(sizes) != 1 or sizes == {-1}:
            return False
        value = [each for row in value for each in row]
    return True


def _kind(value: object) -> str:
    return f"{value.dtype} data" if isinstance(value, np.ndarray) else type(value).__name__


def _of_type(name: str, value: object, type: Type, buffer: Buffer) -> Array:
    """An array of the buffer's type; integers may change their width, where they fit."""
    if hasattr(value, "tocsr"):
        raise ShapeError(
            f"{name} is a matrix of SciPy, and its type is {type}", code="E202",
            hint=f"{name}=ow.tensor(matrix), or its indptr, indices and data",
        )  # fmt: skip
    if isinstance(value, np.ma.MaskedArray):
        raise ShapeError(f"{name} has a mask, which would be ignored", code="E202",
                         hint=f"{name}.filled(0), or {name}.data")  # fmt: skip
    try:
        return _converted(name, value, buffer.dtype)
    except ShapeError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise ShapeError(
            f"{name} has the type {type}, and {_kind(value)} cannot become that: {error}",
            code="E202",
        ) from error


def _converted(name: str, value: object, wanted: np.dtype[Any]) -> Array:
    if not isinstance(value, np.ndarray):
        given = _records(value, wanted) if wanted.names else value
        made = np.asarray(given, wanted)
        if wanted.names is None:
            _keeps_its_numbers(np.asarray(given), made)
        return np.require(made, requirements=["C", "A"])
    if value.dtype == wanted:
        return np.require(value, requirements=["C", "A"])
    if value.dtype.kind in "iu" and wanted.kind == "i":
        limits = np.iinfo(wanted)
        if value.size and (value.min() < limits.min or value.max() > limits.max):
            raise ValueError(f"its numbers do not fit {wanted}")
        return np.ascontiguousarray(value.astype(wanted))
    raise ShapeError(
        f"{name} holds {_spelled(value.dtype)}, and its type says {_spelled(wanted)}", code="E202",
        hint=f"{name}.astype({str(wanted)!r})" if not wanted.names else
        "sk.pairs(first, second) makes an array of pairs from arrays of these types",
    )  # fmt: skip


def _spelled(type: np.dtype[Any]) -> str:
    """A NumPy type, with the names of the fields of a record."""
    if type.fields is None:
        return str(type)
    fields = (f"{_spelled(part[0])} {name}" for name, part in type.fields.items())
    return f"({', '.join(fields)})"


def _keeps_its_numbers(given: Array, made: Array) -> None:
    """Lists of other numbers are no data: `astype` would cut them, or read strings."""
    if given.size and given.dtype.kind not in "biufcO":
        raise ValueError("it holds no numbers")
    if given.dtype.kind == "O" and any(each is None for each in given.flat):
        raise ValueError("None is no number")
    if given.dtype.kind == "f" and made.dtype.kind == "i" and (given != made).any():
        raise ValueError("it has fractions")


def _records(value: Any, wanted: np.dtype[Any]) -> Any:
    """Lists of pairs, as NumPy wants them: a tuple is a pair, and so is a list of two numbers."""
    if isinstance(value, list) and not _is_pair(value, wanted):
        return [_records(each, wanted) for each in value]
    return _pair(value, wanted)


def _is_pair(value: object, wanted: np.dtype[Any]) -> bool:
    if not wanted.fields or not isinstance(value, list | tuple) or len(value) != 2:
        return wanted.fields is None and not isinstance(value, list | tuple)
    fields = (wanted.fields["first"][0], wanted.fields["second"][0])
    return all(_is_pair(part, field) for part, field in zip(value, fields, strict=True))


def _pair(value: Any, wanted: np.dtype[Any]) -> Any:
    if not wanted.fields:
        if wanted.kind == "i" and isinstance(value, float) and not value.is_integer():
            raise ValueError(f"{value!r} is no integer")
        return value
    if isinstance(value, np.void):
        return value
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{value!r} is no pair")
    parts = zip(("first", "second"), value, strict=True)
    return tuple(_pair(part, wanted.fields[name][0]) for name, part in parts)


def solved(names: Sequence[str], given: Mapping[str, int], equations: list[Equation]) -> dict[
    str, int
]:  # fmt: skip
    """The naturals of a call, from the lengths of its arrays.

    Raises:
        ShapeError: E204 if lengths contradict each other, E203 if a natural is not determined.
    """
    known = dict(given)
    equations = [e for e in equations if not any(isinstance(a, n.ToNat) for a in n.walk_all(e[1]))]
    waiting = equations
    while True:
        left = list[Equation]()
        for owner, length, value in waiting:
            found = _linear(length, names, known)
            if found is None:
                left.append((owner, length, value))
                continue
            name, times, rest = found
            if (value - rest) % times or (value - rest) // times < 0:
                raise ShapeError(
                    f"{owner} has a length of {value}, which no {length} is", code="E204"
                )
            known[name] = (value - rest) // times
        if len(left) == len(waiting):
            break
        waiting = left
    for name in names:
        if name not in known:
            raise ShapeError(
                f"nothing tells what {name} is", code="E203", hint=f"give it as {name}=..."
            )
    host = Host(known, {})
    for owner, length, value in equations:
        if host.nat(length) != value:
            told = ", ".join(f"{k} is {v}" for k, v in known.items() if k in n.names_of(length))
            raise ShapeError(
                f"{owner} has a length of {value} where its type says {length}, and {told}",
                code="E204",
            )
    return known


def _linear(
    length: Nat, names: Sequence[str], known: Mapping[str, int]
) -> tuple[str, int, int] | None:
    """A length of `times * name + rest`, where one natural is not known yet; None for others."""
    done = cast(Nat, n.substituted(length, {name: n.nat(v) for name, v in known.items()}))
    left = n.names_of(done) & {*names}
    for monomial, times in done.terms:
        match monomial:
            case (n.Named(name=name),) if left == {name}:
                rest = done - Nat(((monomial, times),))
                if name not in n.names_of(rest):
                    return name, times, int(Host(known, {}).nat(rest))
    return None


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
