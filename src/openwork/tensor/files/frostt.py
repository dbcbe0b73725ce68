"""FROSTT files, .tns: one entry per line, one-based coordinates, the value last.

Files that begin with the number of modes and the extents, or with the word sptensor, are read too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import IO

import numpy as np

from openwork.errors import DataError, FormatError
from openwork.frozen import frozen
from openwork.tensor.exchange.validate import LARGEST_EXTENT
from openwork.tensor.files.entries import Request, from_entries
from openwork.tensor.files.lines.entry_lines import read_rows
from openwork.tensor.files.lines.faults import shown
from openwork.tensor.files.lines.line_layout import Layout
from openwork.tensor.files.lines.source import Source
from openwork.tensor.tensor import Tensor

_MOST_MODES = 64
_CHUNK = 1 << 16
_EXACT = {"int64": "integer", "uint64": "unsigned-integer"}
_SHAPE = re.compile(rb"#\s*shape:((?:\s+[0-9]{1,19})+)\s*\Z")


@frozen
class _Header:
    """The contents of the lines before the first entry."""

    modes: int | None
    shape: tuple[int, ...] | None = None
    entries: int | None = None
    line: int = 0


def read_frostt(source: Source, request: Request) -> Tensor:
    """The tensor in a FROSTT file; without a header its extents are the largest coordinates."""
    # Doubles do not hold every 64-bit integer; but integers may be written as 2.0.
    field = _EXACT.get(request.dtype.name) if request.dtype is not None else None
    if field is not None:
        try:
            return _read_as(field, source, request)
        except DataError:
            source.rewind()
    return _read_as("real", source, request)


def _read_as(field: str, source: Source, request: Request) -> Tensor:
    header = _read_header(source)
    shape = request.shape if request.shape is not None else header.shape
    modes = header.modes if header.modes is not None else shape and len(shape)
    if not modes:
        raise source.fault("it holds no entry", source.line, "pass its extents: shape=(...)")
    if shape is not None and len(shape) != modes:
        raise source.fault(f"it has {modes} modes, but the shape {len(shape)}", header.line)
    limits = shape if shape is not None else (LARGEST_EXTENT,) * modes
    layout = Layout(limits, field, comment="#")
    coords, values = read_rows(source, layout, header.entries, header.line)
    if shape is None:
        shape = tuple(int(column.max()) + 1 for column in coords)
    return from_entries(source, coords, values, shape, request)


def _read_header(source: Source) -> _Header:
    """The number of modes, and what else precedes the first entry."""
    shape: tuple[int, ...] | None = None
    named = 0
    while (line := source.read_line()) is not None:
        if told := _SHAPE.match(line.strip()):
            shape = _extents(source, told[1].split())
            named = source.line
        if line.strip() and not line.lstrip().startswith(b"#"):
            break
    if line is None:
        return _Header(None, shape, line=named)
    words = line.split()
    if words[0].lower() == b"sptensor":
        return _read_sptensor(source)
    if len(words) == 1:
        return _read_orders(source, words[0])
    source.unread(line)
    modes = len(words) - 1
    if modes > _MOST_MODES:
        reason = f"{modes} modes, but at most {_MOST_MODES} are supported"
        raise source.fault(reason, source.line + 1)
    return _Header(modes, shape, line=named)


def _read_orders(source: Source, word: bytes) -> _Header:
    """A line with the number of modes, then one with the extents."""
    modes = _count(source, word, "modes")
    if not 1 <= modes <= _MOST_MODES:
        raise source.fault(f"{modes} modes, but 1 to {_MOST_MODES} are supported", source.line)
    extents = _next_words(source, "extents")
    if len(extents) != modes:
        raise source.fault(f"{len(extents)} extents for {modes} modes", source.line)
    return _Header(modes, _extents(source, extents), line=source.line)


def _read_sptensor(source: Source) -> _Header:
    """The header of MATLAB's Tensor Toolbox: sptensor, modes, extents, entries."""
    header = _read_orders(source, b" ".join(_next_words(source, "number of modes")))
    entries = _count(source, b" ".join(_next_words(source, "number of entries")), "entries")
    return _Header(header.modes, header.shape, entries, source.line)


def _next_words(source: Source, what: str) -> list[bytes]:
    line = source.read_line()
    while line is not None and (not line.strip() or line.lstrip().startswith(b"#")):
        line = source.read_line()
    if line is None:
        raise source.fault(f"it ends before its {what}", source.line)
    return line.split()


def _extents(source: Source, words: list[bytes]) -> tuple[int, ...]:
    return tuple(_count(source, word, f"extent of mode {n + 1}") for n, word in enumerate(words))


def _count(source: Source, word: bytes, what: str) -> int:
    if not word.isdigit() or len(word) > 19 or int(word) > LARGEST_EXTENT:
        raise source.fault(f"{shown(word)} is not a number of {what}", source.line)
    return int(word)


def write_frostt(source: Tensor, symmetry: str) -> Callable[[IO[bytes]], None]:
    """Check that a tensor can be written, and return its writer."""
    if source.dtype.kind == "c":
        raise FormatError(".tns cannot hold complex numbers", code="E404", hint="use .mtx")
    if source.order == 0:
        raise FormatError(".tns cannot hold a tensor without modes", code="E404")
    if source.fill != 0 and not source.format.is_dense:
        raise FormatError(
            f"absent entries of {source.name} are {source.fill}, but in .tns they are 0",
            code="E404",
            hint="use .npz",
        )
    return lambda stream: stream.writelines(_lines(source))


def _lines(source: Tensor) -> Iterator[bytes]:
    """The shape as a comment, which other programs skip, then the entries."""
    coords, values = source.to_coo()
    if source.format.is_dense:
        kept = values != 0
        coords, values = coords[:, kept], values[kept]
    if values.dtype == bool:
        values = values.astype(np.int8)
    yield f"# shape: {' '.join(map(str, source.shape))}\n".encode()
    line = ("%d " * source.order + "%r\n").__mod__
    for start in range(0, len(values), _CHUNK):
        part = slice(start, start + _CHUNK)
        columns = [(column.astype(np.int64) + 1).tolist() for column in coords[:, part]]
        yield "".join(map(line, zip(*columns, values[part].tolist(), strict=True))).encode()
