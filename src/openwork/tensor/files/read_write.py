"""`read` and `write`: the kinds of files there are, told apart by the endings of their names."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openwork.errors import DataError, FormatError
from openwork.format.formats import Format
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


@dataclass(frozen=True)
class Kind:
    """A kind of file: the endings of its names, and who reads and writes it.

    The writer checks the tensor before a file is opened, and returns what fills it.
    """

    name: str
    endings: tuple[str, ...]
    read: Reader
    write: Writer


KINDS = (
    Kind("Matrix Market", (".mtx",), read_market, write_market),
    Kind("FROSTT", (".tns",), read_frostt, write_frostt),
    Kind("NumPy archive", (".npz",), read_archive, write_archive),
    Kind("Rutherford-Boeing", BOEING, read_boeing, write_boeing),
    Kind("binsparse", (".h5", ".hdf5"), read_binsparse, write_binsparse),
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
    """The tensor in a file, whose kind its ending tells; `.gz` after it says that it is packed.

    Args:
        path: the file.
        format: how to store the tensor; left out, CSR for matrices and CSF for more modes, and
            dense for a file that holds a dense matrix.
        name: what statements and messages call it; left out, T1, T2, ...
        dtype: the element type; left out, the file's.
        shape: the extents of a .tns file that does not tell; left out, the largest coordinates.

    Raises:
        DataError: E506 when the file is not there or not what its name says, with the number of the
            line at fault if it is text.
    """
    file = Path(path)
    kind = _BY_ENDING.get(_ending(file))
    if kind is None:
        raise DataError(
            f"{file.name} has no ending that Openwork reads",
            code="E506",
            hint=f"the endings are {_USUAL}, and .gz after each",
        )
    request = Request.of(format, name, dtype, shape)
    with explained(file.name), Source(file) as source:
        made = kind.read(source, request)
    if request.shape is not None and made.shape != request.shape:
        raise DataError(
            f"{file.name} holds a tensor of shape {made.shape}, not {request.shape}", code="E506"
        )
    return made


def write(path: str | os.PathLike[str], source: Tensor, symmetry: str = "general") -> None:
    """Write a tensor to a file of the kind that its ending tells; `.gz` after it packs the file.

    Args:
        path: the file; one that is there already is replaced.
        source: the tensor. A dense one leaves its zeros out of .tns and .npz.
        symmetry: for matrices in .mtx and .rb: "symmetric", "skew-symmetric" or "hermitian" writes
            only what is on and below the diagonal, if the rest follows from it.

    Raises:
        FormatError: E404 when that kind of file cannot hold the tensor.
        DataError: E506 when the file cannot be written.
    """
    file = Path(path)
    kind = _BY_ENDING.get(_ending(file))
    if kind is None:
        raise FormatError(
            f"{file.name} has no ending that Openwork writes",
            code="E404",
            hint=f"the endings are {_USUAL}, and .gz after each",
        )
    fill = kind.write(source, symmetry)
    with explained(file.name, "write"), Target(file) as target:
        fill(target)


def _ending(file: Path) -> str:
    endings = [ending.lower() for ending in file.suffixes]
    return endings[-2] if endings[-1:] == [".gz"] and len(endings) > 1 else "".join(endings[-1:])
