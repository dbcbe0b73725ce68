"""`read` and `write`: the file types, by file name extension."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openwork.algebra.encodings import Ternary
from openwork.algebra.entries import Complex, Entry
from openwork.errors import DataError, FormatError
from openwork.format.formats import Format
from openwork.format.layouts import AOS
from openwork.frozen import frozen
from openwork.runtime.storage import as_complex
from openwork.tensor.files.archive import read_archive, write_archive
from openwork.tensor.files.binsparse import read_binsparse, write_binsparse
from openwork.tensor.files.entries import Request
from openwork.tensor.files.frostt import read_frostt, write_frostt
from openwork.tensor.files.lines.faults import explained
from openwork.tensor.files.lines.source import Source
from openwork.tensor.files.lines.target import Target
from openwork.tensor.files.matrix_market import read_market, write_market
from openwork.tensor.files.rutherford_boeing import ENDINGS as BOEING, read_boeing, write_boeing
from openwork.tensor.tensor import Tensor

Reader = Callable[[Source, Request], Tensor]
Writer = Callable[[Tensor, str], Callable[[Any], None]]


@frozen
class Kind:
    """A file type: its extensions, reader and writer.

    The writer checks the tensor before a file is opened, and returns a function that fills it.
    `records`: whether it holds elements that are records; other types hold their expansion.
    """

    name: str
    endings: tuple[str, ...]
    read: Reader
    write: Writer
    records: bool = False


KINDS = (
    Kind("Matrix Market", (".mtx",), read_market, write_market),
    Kind("FROSTT", (".tns",), read_frostt, write_frostt),
    Kind("NumPy archive", (".npz",), read_archive, write_archive, records=True),
    Kind("Rutherford-Boeing", BOEING, read_boeing, write_boeing),
    Kind("binsparse", (".h5", ".hdf5"), read_binsparse, write_binsparse, True),
)
_BY_ENDING = {ending: kind for kind in KINDS for ending in kind.endings}
_USUAL = ", ".join(kind.endings[0] for kind in KINDS)


def read(
    path: str | os.PathLike[str],
    format: Format | str | None = None,
    name: str | None = None,
    dtype: object = None,
    shape: object = None,
) -> Tensor:
    """Read a tensor from a file; the extension says the type, and `.gz` that it is compressed.

    Args:
        path: the file.
        format: how to store the tensor; by default CSR for matrices and CSF for more modes, and
            dense for a file that holds a dense matrix.
        name: the name in statements and messages; by default T1, T2, ...
        dtype: the element type; by default the file's. Records are contracted from the real or
            complex tensor that text files hold.
        shape: the extents, for a .tns file without them; by default the largest coordinates.

    Raises:
        DataError: E506 when the file does not exist or is invalid, with the number of the line at
            fault if it is text; E505 if it is not the expansion of a tensor of records.
    """
    file = Path(path)
    kind = _BY_ENDING.get(_ending(file))
    if kind is None:
        raise DataError(
            f"{file.name} has no extension that Openwork reads",
            code="E506",
            hint=f"the extensions are {_USUAL}, each also with .gz",
        )
    if isinstance(dtype, Ternary):
        return read(path, format, name, None, shape).astype(dtype)
    request = Request.of(format, name, dtype, shape)
    entry = request.dtype
    expanded = isinstance(entry, Entry) and not kind.records
    wanted = Request(name=request.name) if expanded else request
    with explained(file.name), Source(file) as source:
        made = kind.read(source, wanted)
    if isinstance(entry, Entry) and expanded:
        made = entry.contract(made).rename(request.name)
        made = made if request.format is None else made.to(request.format)
    if request.shape is not None and made.shape != request.shape:
        raise DataError(
            f"{file.name} holds a tensor of shape {made.shape}, not {request.shape}", code="E506"
        )
    return made


def write(path: str | os.PathLike[str], source: Tensor, symmetry: str = "general") -> None:
    """Write a tensor to a file; the extension says the type, and `.gz` compresses it.

    Args:
        path: the file; an existing one is replaced.
        source: the tensor. In .tns and .npz the zeros of a dense one are omitted.
        symmetry: for matrices in .mtx and .rb: "symmetric", "skew-symmetric" or "hermitian" writes
            only the entries on and below the diagonal, if the rest follows from them.

    Records are written as such to .npz and binsparse files. Other types of files get the real
    matrix that `source.expand()` gives, or complex numbers, and `dtype=` reads records from it.

    Raises:
        FormatError: E404 when that type of file cannot hold the tensor.
        DataError: E506 when the file cannot be written.
    """
    if not isinstance(source, Tensor):
        raise FormatError(
            f"a file holds a tensor, not {type(source).__name__}",
            code="E404",
            hint="ow.write(path, A), with A = ow.tensor(...)",
        )
    file = Path(path)
    kind = _BY_ENDING.get(_ending(file))
    if kind is None:
        raise FormatError(
            f"{file.name} has no extension that Openwork writes",
            code="E404",
            hint=f"the extensions are {_USUAL}, each also with .gz",
        )
    plain = source.to(source.format.with_layout(AOS))
    fill = kind.write(plain if kind.records else _of_numbers(plain, kind), symmetry)
    with explained(file.name, "write"), Target(file) as target:
        fill(target)


def _of_numbers(source: Tensor, kind: Kind) -> Tensor:
    """The expansion of a tensor of records; one of numbers as it is."""
    if not isinstance(source.dtype, Entry):
        return source
    if isinstance(source.dtype, Complex):
        return source.astype(as_complex(source.dtype))
    try:
        return source.expand()
    except FormatError as error:
        raise FormatError(
            f"{kind.name} files hold no {source.dtype}, and {error.message}",
            code="E404",
            hint="use .npz",
        ) from error


def _ending(file: Path) -> str:
    endings = [ending.lower() for ending in file.suffixes]
    return endings[-2] if endings[-1:] == [".gz"] and len(endings) > 1 else "".join(endings[-1:])
