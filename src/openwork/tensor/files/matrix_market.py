"""Matrix Market files, .mtx: a banner, a line of sizes, then one entry per line.

Matrices and vectors; coordinate and array; all fields and symmetries, which are expanded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any

import numpy as np
import scipy
from scipy import sparse

from openwork.errors import FormatError
from openwork.frozen import frozen
from openwork.runtime.storage import Array
from openwork.tensor.exchange.validate import LARGEST_EXTENT
from openwork.tensor.files.entries import (
    Request,
    check_extents,
    from_entries,
    from_object,
)
from openwork.tensor.files.lines.entry_lines import read_rows
from openwork.tensor.files.lines.faults import shown
from openwork.tensor.files.lines.line_layout import FIELDS, TRIANGLES, Layout
from openwork.tensor.files.lines.source import Source
from openwork.tensor.files.symmetry import expanded, folded, mirrored_dense
from openwork.tensor.tensor import Tensor

_BANNER = "%%matrixmarket"
_OTHER_NAMES = {"double": "real", "skew": "skew-symmetric"}
_WORDS = (("object", ("matrix", "vector")), ("format", ("coordinate", "array")))
_MOST_DIGITS = 25


@frozen
class _Header:
    """The contents of the first lines of a file."""

    shape: tuple[int, ...]
    entries: int  # of the file: for a symmetric matrix, those of one triangle
    array: bool
    field: str
    symmetry: str
    line: int  # of the sizes


def read_market(source: Source, request: Request) -> Tensor:
    """The matrix or vector in a Matrix Market file."""
    header = _read_header(source)
    if header.array:
        layout = Layout((), header.field, closed=True)
        values = read_rows(source, layout, header.entries, header.line)[1]
        return from_object(_as_dense(values, header), request)
    check_extents(source, header.shape, request)
    layout = Layout(header.shape, header.field, header.symmetry, closed=True)
    coords, values = read_rows(source, layout, header.entries, header.line)
    coords, values = expanded(coords, values, header.symmetry)
    return from_entries(source, coords, values, header.shape, request)


def _read_header(source: Source) -> _Header:
    line = source.read_line()
    words = (line or b"").decode("ascii", "replace").lower().split()
    if not words or words[0].lstrip("%") != _BANNER.lstrip("%") or not words[0].startswith("%"):
        raise source.fault(
            f"it begins with {shown(line or b'')}, not with a banner",
            1,
            "the first line of a Matrix Market file is like "
            "%%MatrixMarket matrix coordinate real general",
        )
    kind, layout, field, symmetry = _check_banner(source, words[1:])
    return _read_sizes(source, kind, layout == "array", field, symmetry)


def _check_banner(source: Source, words: list[str]) -> list[str]:
    """The four words of the banner, checked."""
    named = [_OTHER_NAMES.get(word, word) for word in words]
    allowed = (*_WORDS, ("field", FIELDS), ("symmetry", TRIANGLES))
    for (what, known), word in zip(allowed, named, strict=False):
        if word not in known:
            reason = f"{shown(word.encode())} is not a known {what}"
            raise source.fault(reason, 1, f"it is one of {', '.join(known)}")
    if len(named) != len(allowed):
        raise source.fault(
            f"the banner has {len(named)} words after the first, but needs {len(allowed)}: "
            "object, format, field, symmetry",
            1,
        )
    kind, layout, field, symmetry = named
    wrong = None
    if field == "pattern" and layout == "array":
        wrong = "a pattern cannot be an array: it would have no values"
    elif field == "pattern" and symmetry in ("skew-symmetric", "hermitian"):
        wrong = f"a pattern cannot be {symmetry}: it has no values"
    elif field == "unsigned-integer" and symmetry == "skew-symmetric":
        wrong = "unsigned integers cannot be skew-symmetric"
    elif kind == "vector" and symmetry != "general":
        wrong = f"a vector cannot be {symmetry}"
    if wrong:
        raise source.fault(wrong, 1)
    return named


def _read_sizes(source: Source, kind: str, array: bool, field: str, symmetry: str) -> _Header:
    """The extents and the number of entries, from the first line that is no comment."""
    names = ["rows", "columns"] if kind == "matrix" else ["length"]
    names += [] if array else ["entries"]
    line = source.read_line()
    while line is not None and (not line.strip() or line.lstrip().startswith(b"%")):
        line = source.read_line()
    if line is None:
        raise source.fault("it ends before its sizes", source.line)
    words = line.split()
    if len(words) != len(names):
        raise source.fault(
            f"{shown(line)} is not a line of sizes, which has {', '.join(names)}", source.line
        )
    sizes = [_size(source, *pair) for pair in zip(words, names, strict=True)]
    shape = tuple(sizes) if array else tuple(sizes[:-1])
    if symmetry != "general" and shape[0] != shape[1]:
        raise source.fault(
            f"a {symmetry} matrix is square, but this one is {shape[0]}x{shape[1]}", source.line
        )
    entries = _array_entries(shape, symmetry) if array else sizes[-1]
    return _Header(shape, entries, array, field, symmetry, source.line)


def _size(source: Source, word: bytes, name: str) -> int:
    if not word.isdigit() or len(word) > _MOST_DIGITS:
        raise source.fault(f"the number of {name} is {shown(word)}", source.line)
    size = int(word)
    if size > LARGEST_EXTENT:
        raise source.fault(f"the number of {name}, {size}, is beyond 2^62", source.line)
    return size


def _array_entries(shape: tuple[int, ...], symmetry: str) -> int:
    rows, columns = shape[0], shape[-1] if len(shape) > 1 else 1
    if symmetry == "general":
        return rows * columns
    return rows * (rows - 1) // 2 if symmetry == "skew-symmetric" else rows * (rows + 1) // 2


def _as_dense(values: Array, header: _Header) -> Array:
    """A dense matrix from an array file: column by column; a triangle, from the diagonal on."""
    if len(header.shape) == 1:
        return values
    if header.symmetry == "general":
        return values.reshape(header.shape, order="F")
    matrix = np.zeros(header.shape, dtype=values.dtype)
    below = 1 if header.symmetry == "skew-symmetric" else 0
    columns, rows = np.triu_indices(len(matrix), below)
    matrix[rows, columns] = values
    return mirrored_dense(matrix, header.symmetry)


def write_market(source: Tensor, symmetry: str) -> Callable[[IO[bytes]], None]:
    """Check that a matrix can be written, and return its writer."""
    if symmetry not in TRIANGLES:
        raise FormatError(
            f"{symmetry!r} is not a symmetry", code="E404", hint=f"one of {', '.join(TRIANGLES)}"
        )
    whole = source.format.is_dense and source.order == 2 and symmetry == "general"
    matrix: Any = source.to_numpy() if whole else source.to_scipy()
    matrix = matrix.astype(_WRITTEN.get(matrix.dtype.name, matrix.dtype), copy=False)
    if not whole:
        matrix = folded(sparse.coo_array(matrix), symmetry, source.name)
    # SciPy loads scipy.io when it is first asked for, which importing Openwork should not.
    return lambda stream: scipy.io.mmwrite(stream, matrix, symmetry=symmetry)  # type: ignore[arg-type]


# A float32 is written as its exact value in double, so that it reads the same as either type.
_WRITTEN = {"bool": "int8", "float16": "float64", "float32": "float64", "complex64": "complex128"}
