"""Cases that were found once, stored as text: statement, formats, schedule and data.

    [[case]]
    name = "runs of runs of positions"
    statement = "Y(i) = A(i,j) * x(j)"
    schedule = "pos(j,jp,A(i,j)), divide(jp,jp0,jp1,2)"
    tensors.A = { format = "CSR", dtype = "float64", shape = [2, 3], entries = '''
    0 1  2.5
    1 0  -1.0
    ''' }

`entries` has a line for each stored entry: its coordinates and its value. Where every element is
stored, `elements` has all of them in row-major order instead; the numbers of a record have commas
between them. A result needs neither, unless the statement adds to it.

`refused` is the code of the error that a schedule ends in. `atol` bounds by how much two right
answers differ. `text_of` writes a case; random tests print it for the cases that fail.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.random.entries import element_type, stored

import openwork as ow
from openwork.algebra.entries import Entry
from openwork.algebra.types import SUPPORTED, DType
from openwork.index.checks import check, extents
from openwork.index.einstein import explicit
from openwork.index.nodes import TensorVar
from openwork.index.show import show
from openwork.runtime.reference import Masked, evaluate, to_masked
from openwork.tree import walk

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Found:
    """A statement over tensors, and the schedule under which it was wrong."""

    name: str
    text: str
    schedule: str
    tensors: dict[str, dict[str, Any]]
    atol: float = 0.0
    refused: str = ""

    def statement(self) -> ow.Statement:
        """The statement, without its schedule."""
        made = {name: _tensor(name, told) for name, told in self.tensors.items()}
        return ow.parse(self.text, **made)

    def expected(self) -> Masked:
        """What the reference makes of it."""
        return reference(self.statement())


def cases(file: str) -> list[Found]:
    """The cases of a file beside this module."""
    with (HERE / file).open("rb") as stream:
        told = tomllib.load(stream)["case"]
    return [
        Found(
            each["name"], each["statement"], each.get("schedule", ""), each["tensors"],
            each.get("atol", 0.0), each.get("refused", ""),
        )
        for each in told
    ]  # fmt: skip


def reference(stmt: ow.Statement) -> Masked:
    """What the reference makes of a statement over tensors with data."""
    assignment = stmt.assignment
    held = {n.name: n.source for n in walk(assignment) if isinstance(n, TensorVar)}
    data = {name: to_masked(tensor.storage) for name, tensor in held.items()}
    known = {v: n for v, n in extents(assignment).items() if n is not None}
    written_out = explicit(check(assignment))
    return evaluate(written_out, data, known, data[assignment.lhs.tensor.name])


def _tensor(name: str, told: dict[str, Any]) -> ow.Tensor:
    dtype, shape = element_type(told["dtype"]), tuple(told["shape"])
    if "elements" in told:
        values = np.array(
            [_number(word, dtype) for word in told["elements"].split()], stored(dtype)
        )
        coords = np.indices(shape).reshape(len(shape), values.size)
    else:
        lines = [line.split() for line in told.get("entries", "").strip().splitlines()]
        coords = np.array([[int(word) for word in line[:-1]] for line in lines], int)
        coords = coords.reshape(len(lines), len(shape)).T
        values = np.array([_number(line[-1], dtype) for line in lines], stored(dtype))
    kind = SUPPORTED["float64"] if isinstance(dtype, Entry) else dtype
    fill = _number(str(told.get("fill", 0)), kind)
    keywords = {"shape": shape, "format": told["format"], "dtype": dtype, "fill": fill}
    return ow.tensor((coords, values), name=name, **keywords)


def _number(word: str, dtype: DType) -> Any:
    if isinstance(dtype, Entry):
        return tuple(map(float, word.split(",")))
    if dtype.kind == "b":
        return word in ("True", "true", "1")
    if dtype.kind in "iu":
        return int(word)
    return complex(word) if dtype.kind == "c" else float(word)


# -- writing ------------------------------------------------------------------------------------


def text_of(
    name: str, stmt: ow.Statement, schedule: str = "", *, atol: float = 0.0, refused: str = ""
) -> str:
    """`stmt` and its data as a case, under `schedule`."""
    assignment = stmt.assignment
    held = {n.name: n.source for n in walk(assignment) if isinstance(n, TensorVar)}
    lines = ["[[case]]", f'name = "{name}"', f'statement = "{show(assignment)}"']
    lines += [f'schedule = "{schedule}"'] if schedule else []
    lines += [f'refused = "{refused}"'] if refused else []
    lines += [f"atol = {atol!r}"] if atol else []
    for each, tensor in held.items():
        written = each == assignment.lhs.tensor.name
        lines += _lines_of(each, tensor, empty=written and assignment.op is None)
    return "\n".join(lines) + "\n"


def _lines_of(name: str, tensor: ow.Tensor, empty: bool) -> Iterator[str]:
    shape = f"[{', '.join(map(str, tensor.shape))}]"
    data = to_masked(tensor.storage)
    fill = str(tensor.storage.fill)
    told = "" if fill in ("0", "0.0", "0j", "False") else f', fill = "{fill}"'
    head = f'tensors.{name} = {{ format = "{tensor.format}", dtype = "{tensor.dtype}"'
    head += f", shape = {shape}{told}"
    if empty or data.values.size == 0 or not data.present.any():
        yield f"{head} }}"
        return
    if data.present.all():
        rows = data.values.reshape(-1, tensor.shape[-1] if tensor.shape else 1)
        yield f"{head}, elements = '''"
        yield from (" ".join(map(_word, row)) for row in rows)
    else:
        yield f"{head}, entries = '''"
        for at in np.argwhere(data.present):
            yield f"{' '.join(map(str, at))}  {_word(data.values[tuple(at)])}"
    yield "''' }"


def _word(value: Any) -> str:
    if isinstance(value, np.void):
        return ",".join(map(str, value.item()))
    return str(value.item()).strip("()")
