"""Rutherford-Boeing and Harwell-Boeing files: a header of four or five lines, then columns.

Only one assembled matrix is read, no right-hand sides or element matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
from scipy import sparse

from openwork.errors import FormatError
from openwork.frozen import frozen
from openwork.runtime.storage import Array
from openwork.tensor.exchange.validate import LARGEST_EXTENT
from openwork.tensor.files.entries import Request, from_entries
from openwork.tensor.files.lines.faults import shown
from openwork.tensor.files.lines.fortran import Fields, parse_fields, read_fields
from openwork.tensor.files.lines.source import Source
from openwork.tensor.files.symmetry import expanded, folded
from openwork.tensor.tensor import Tensor

_FIELDS = {"r": "real", "c": "complex", "i": "integer", "p": "pattern", "q": "pattern"}
_SYMMETRIES = {"u": "general", "r": "general", "s": "symmetric"}
_SYMMETRIES |= {"z": "skew-symmetric", "h": "hermitian"}
ENDINGS = (".rb", ".hb", *(f".{a}{b}a" for a in "rcip" for b in _SYMMETRIES))
_CARD = 80  # characters of a line
_CHUNK = 1 << 13


@frozen
class _Header:
    field: str
    symmetry: str
    rows: int
    columns: int
    entries: int
    pointers: Fields
    indices: Fields
    values: Fields | None
    more: bool  # whether right-hand sides follow


def read_boeing(source: Source, request: Request) -> Tensor:
    """The matrix in a Rutherford-Boeing or Harwell-Boeing file."""
    header = _read_header(source)
    ends = _read_pointers(source, header)
    first = source.line + 1
    rows = read_fields(source, header.indices, header.entries, "row indices") - 1
    columns = np.repeat(np.arange(header.columns), np.diff(ends))
    _check_rows(source, header, rows, columns, first)
    values = _read_values(source, header, rows == columns)
    _check_end(source, header)
    coords, values = expanded(np.array([rows, columns]), values, header.symmetry)
    return from_entries(source, coords, values, (header.rows, header.columns), request)


def _read_pointers(source: Source, header: _Header) -> Array:
    """The one-based start of each column, and the end of the last one."""
    first, last = source.line + 1, header.entries + 1
    ends = read_fields(source, header.pointers, header.columns + 1, "pointers")
    bad = (ends < 1) | (ends > last)
    bad[1:] |= ends[1:] < ends[:-1]
    bad[0] |= ends[0] != 1
    bad[-1] |= ends[-1] != last
    if bad.any():
        n = int(bad.argmax())
        reason = f"pointer {n + 1} is {ends[n]}, but pointers rise from 1 to {last}"
        raise source.fault(reason, first + n // header.pointers.per_line)
    return ends


def _read_header(source: Source) -> _Header:
    title = _next(source)
    counts = _integers(source, _next(source).split(), 3)
    line = _next(source)
    kind = line[:3].decode("ascii", "replace").lower()
    if len(kind) < 3 or kind[0] not in _FIELDS or kind[1] not in _SYMMETRIES or kind[2] not in "ae":
        hint = "such as RUA: real, unsymmetric, assembled"
        raise source.fault(f"{shown(line[:3])} is not a matrix type", source.line, hint)
    if kind[2] == "e":
        raise source.fault("it holds element matrices, which are not assembled", source.line)
    rows, columns, entries = _integers(source, line[3:].split(), 3)[:3]
    field, symmetry = _FIELDS[kind[0]], _SYMMETRIES[kind[1]]
    if symmetry != "general" and rows != columns:
        raise source.fault(f"{symmetry}, but not square: {rows}x{columns}", source.line)
    if field == "pattern" and symmetry in ("skew-symmetric", "hermitian"):
        raise source.fault(f"a pattern cannot be {symmetry}: it has no values", source.line)
    pointers, indices, values = _read_formats(source, field)
    right = len(counts) > 4 and counts[4] > 0
    header = _Header(field, symmetry, rows, columns, entries, pointers, indices, values, right)
    if right:
        _next(source)
    _check_counts(source, header, counts, title)
    return header


def _read_formats(source: Source, field: str) -> tuple[Fields, Fields, Fields | None]:
    text = _next(source).decode("ascii", "replace")
    if field == "pattern":
        return parse_fields(source, text[:16]), parse_fields(source, text[16:32]), None
    columns = (text[:16], text[16:32], text[32:52])
    pointers, indices, values = (parse_fields(source, part) for part in columns)
    if values.real and field == "integer":
        raise source.fault("its values are integers, but their format is not", source.line)
    return pointers, indices, values


def _check_counts(source: Source, header: _Header, counts: list[int], title: bytes) -> None:
    """Check the lines of each part, as the second line states them, against the sizes."""
    parts = 2 if header.field == "complex" else 1
    takes = [
        header.pointers.lines(header.columns + 1),
        header.indices.lines(header.entries),
        header.values.lines(parts * header.entries) if header.values else 0,
    ]
    told = [*counts[1:4], 0, 0][:3]
    for name, wanted, count in zip(("pointers", "row indices", "values"), takes, told, strict=True):
        if wanted != count:
            raise source.fault(f"the {name} take {wanted} lines, but here it says {count}", 2)
    if sum(takes) > source.most_bytes:
        raise source.fault(f"{sum(takes)} lines do not fit into the file", 2)


def _next(source: Source) -> bytes:
    line = source.read_line()
    if line is None:
        raise source.fault("it ends within its header", source.line)
    return line


def _integers(source: Source, words: list[bytes], least: int) -> list[int]:
    for word in words:
        if not word.isdigit() or len(word) > 19 or int(word) >= LARGEST_EXTENT:
            raise source.fault(f"{shown(word)} is not a count", source.line)
    if len(words) < least:
        raise source.fault(f"{len(words)} counts, but at least {least} are needed", source.line)
    return [int(word) for word in words]


def _check_rows(source: Source, header: _Header, rows: Array, columns: Array, first: int) -> None:
    """Check that every row is in range, and in the triangle that a symmetric file holds."""
    bad = (rows < 0) | (rows >= header.rows)
    reason = f"outside 1 to {header.rows}"
    if not bad.any() and header.symmetry != "general":
        strict = header.symmetry == "skew-symmetric"
        bad = rows <= columns if strict else rows < columns
        reason = f"in column {{}}, but a {header.symmetry} file holds only what is below it"
    if bad.any():
        n = int(bad.argmax())
        place = first + n // header.indices.per_line
        raise source.fault(f"row {rows[n] + 1} is {reason.format(columns[n] + 1)}", place)


def _read_values(source: Source, header: _Header, diagonal: Array) -> Array:
    if header.values is None:
        return np.ones(header.entries)
    parts = 2 if header.field == "complex" else 1
    first = source.line + 1
    values = read_fields(source, header.values, parts * header.entries, "values")
    if parts == 1:
        return values
    made: Array = values.astype(np.float64).view(np.complex128)
    if header.symmetry == "hermitian" and made.imag[diagonal].any():
        n = int((diagonal & (made.imag != 0)).argmax())
        place = first + (2 * n + 1) // header.values.per_line
        raise source.fault("the diagonal of a hermitian matrix is real", place)
    return made


def _check_end(source: Source, header: _Header) -> None:
    while not header.more and (line := source.read_line()) is not None:
        if line.strip():
            raise source.fault(f"{shown(line)} follows the last value", source.line)


def write_boeing(source: Tensor, symmetry: str) -> Callable[[IO[bytes]], None]:
    """Check that a matrix can be written, and return its writer."""
    if symmetry not in _SYMMETRIES.values():
        raise FormatError(f"{symmetry!r} is not a symmetry", code="E404", hint="such as symmetric")
    if source.dtype == np.uint64:
        raise FormatError("Rutherford-Boeing has no uint64", code="E404", hint="use .mtx")
    matrix = folded(sparse.coo_array(source.to_scipy()), symmetry, source.name)
    return lambda stream: stream.writelines(_lines(matrix.tocsc(), symmetry, source.name))


def _lines(matrix: Any, symmetry: str, name: str) -> Iterator[bytes]:
    matrix.sort_indices()
    rows, columns = matrix.shape
    values, letter = matrix.data, {"f": "r", "c": "c"}.get(matrix.dtype.kind, "i")
    if letter == "i":
        values = values.astype(np.int64)
    elif letter == "c":
        values = values.astype(np.complex128).view(np.float64)
    longest = 25  # of a real number: -1.2345678901234567E-300
    if letter == "i":
        longest = max((len(str(n)) for n in (values.min(), values.max())) if len(values) else [1])
    widths = (len(str(matrix.nnz + 1)) + 1, len(str(rows)) + 1, longest + 1)
    parts = [matrix.indptr + 1, matrix.indices + 1, values]
    per_line = [_CARD // width for width in widths]
    takes = [-(-len(part) // per) for part, per in zip(parts, per_line, strict=True)]
    formats = [f"({per}I{width})" for per, width in zip(per_line, widths, strict=True)]
    if letter != "i":
        formats[2] = f"({per_line[2]}E{widths[2]}.16E3)"
    sign = "r" if rows != columns else next(k for k, v in _SYMMETRIES.items() if v == symmetry)
    yield f"{name[:72]:72}{'openwork':8}\n".encode("ascii", "replace")
    yield ("%14d" * 4 % (sum(takes), *takes)).encode() + b"\n"
    sizes = "%14d" * 4 % (rows, columns, matrix.nnz, 0)
    yield f"{letter}{sign}a{'':11}{sizes}\n".encode()
    yield f"{formats[0]:16}{formats[1]:16}{formats[2]:20}\n".encode()
    for part, per, width in zip(parts, per_line, widths, strict=True):
        one = f"%{width}.16E" if part.dtype.kind == "f" else f"%{width}d"
        for start in range(0, len(part), per * _CHUNK):
            numbers = part[start : start + per * _CHUNK].tolist()
            full = (one * per + "\n") * (len(numbers) // per)
            rest = one * (len(numbers) % per) + "\n" if len(numbers) % per else ""
            yield ((full + rest) % tuple(numbers)).encode()
