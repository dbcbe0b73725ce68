"""Files: Matrix Market (.mtx), FROSTT (.tns) and SciPy's .npz, each also compressed as .gz."""

from __future__ import annotations

import gzip
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import io, sparse

from openwork.algebra.types import INT64, Number
from openwork.errors import DataError, FormatError, OpenworkError
from openwork.format.formats import Format
from openwork.runtime.storage import Array
from openwork.tensor.create import tensor
from openwork.tensor.tensor import Tensor
from openwork.tensor.validate import check_shape

# An entry of a text file takes at least four bytes, and deflate shrinks text at most so much.
_LEAST_BYTES, _MOST_SHRUNK = 4, 1032
_LARGEST_EXACT = 2**53  # coordinates are read as doubles


def read(
    path: str | os.PathLike[str],
    format: Format | str | None = None,
    name: str | None = None,
    dtype: object = None,
    shape: object = None,
) -> Tensor:
    """The tensor in a file, whose kind its ending tells: .mtx, .tns, .npz, or .gz of each.

    Args:
        path: the file.
        format: how to store the tensor; left out, CSR for matrices and CSF for more modes, and
            dense for a file that holds a dense matrix.
        name: what statements and messages call it; left out, T1, T2, ...
        dtype: the element type; left out, the file's.
        shape: the extents of a .tns file, which holds none; left out, the largest coordinates.

    Raises:
        DataError: E506 when the file is not there or not what its name says.
    """
    file = Path(path)
    reader = _READERS.get(_ending(file))
    if reader is None:
        raise DataError(
            f"{file.name} has no ending that Openwork reads",
            code="E506",
            hint=f"the endings are {', '.join(_READERS)}, and .gz after each",
        )
    with _explained(file), _opened(file, "rb") as stream:
        made = reader(stream, file, None if shape is None else check_shape(shape))
        return tensor(made[0], format, name, dtype, shape=made[1])


def write(path: str | os.PathLike[str], source: Tensor) -> None:
    """Write a tensor to a file, as its ending tells: .mtx, .tns, .npz, or .gz of each.

    Matrices go into .mtx and .npz, tensors with any number of modes into .tns; a dense tensor
    leaves its zeros out of .tns and .npz.
    """
    file = Path(path)
    writer = _WRITERS.get(_ending(file))
    if writer is None:
        raise FormatError(
            f"{file.name} has no ending that Openwork writes",
            code="E404",
            hint=f"the endings are {', '.join(_WRITERS)}, and .gz after each",
        )
    with _explained(file, "write"), _opened(file, "wb") as stream:
        writer(stream, source)


def _ending(file: Path) -> str:
    endings = [ending.lower() for ending in file.suffixes]
    return endings[-2] if endings[-1:] == [".gz"] and len(endings) > 1 else "".join(endings[-1:])


def _opened(file: Path, mode: str) -> IO[Any]:
    opener: Callable[..., Any] = gzip.open if file.suffix.lower() == ".gz" else open
    return opener(file, mode)  # type: ignore[no-any-return]


@contextmanager
def _explained(file: Path, verb: str = "read") -> Iterator[None]:
    """Every way of failing becomes one error that says which file and why."""
    foreign = (OSError, EOFError, ValueError, KeyError, TypeError, OverflowError, zlib.error)
    try:
        yield
    except OpenworkError:
        raise
    except (*foreign, zipfile.BadZipFile, NotImplementedError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(f"cannot {verb} {file.name}: {reason}", code="E506") from error


# Matrix Market


def _read_mtx(stream: IO[bytes], file: Path, shape: object) -> tuple[Any, None]:
    """SciPy reads it, once the header has been seen not to promise more than the file can hold."""
    header = stream.readline().decode("ascii", "replace").lower().split()
    size = stream.readline()
    while size.lstrip().startswith(b"%") or (size and not size.strip()):
        size = stream.readline()
    numbers = [int(word) for word in size.split()]
    if header[:1] != ["%%matrixmarket"] or len(numbers) < 2:
        raise ValueError("it has no Matrix Market header")
    entries = numbers[2] if "coordinate" in header else numbers[0] * numbers[1]
    least = _LEAST_BYTES if "coordinate" in header else 2
    room = file.stat().st_size * (_MOST_SHRUNK if file.suffix.lower() == ".gz" else 1)
    if entries * least > room + least:
        raise ValueError(f"its header promises {entries} entries, for which it is too short")
    stream.seek(0)
    matrix = io.mmread(stream, spmatrix=False)
    return matrix, None


def _write_mtx(stream: IO[bytes], source: Tensor) -> None:
    whole = source.format.is_dense and source.order == 2
    matrix = source.to_numpy() if whole else source.to_scipy()
    if matrix.dtype == bool:
        matrix = matrix.astype(np.int8)
    io.mmwrite(stream, matrix, symmetry="general")


# FROSTT: a line per entry, coordinates counted from 1, the value last


def _read_tns(stream: IO[bytes], file: Path, shape: Any) -> tuple[Any, tuple[int, ...]]:
    lines = (line for line in stream if line.strip() and not line.lstrip().startswith(b"#"))
    table = _table(lines)
    if table is None:
        if shape is None:
            raise ValueError("it holds no entry, so its shape must be given: shape=(...)")
        return (np.zeros((len(shape), 0), dtype=INT64), np.zeros(0)), shape
    positions = table[:, :-1]
    if (positions != np.floor(positions)).any() or (np.abs(positions) >= _LARGEST_EXACT).any():
        line = int((positions != np.floor(positions)).any(axis=1).argmax())
        raise ValueError(f"entry {line} has a coordinate that is no integer")
    coords = positions.T.astype(INT64) - 1
    if (coords < 0).any():
        raise ValueError(f"entry {int((coords < 0).any(axis=0).argmax())} has a coordinate below 1")
    inferred = tuple(int(column.max()) + 1 for column in coords)
    return (coords, np.ascontiguousarray(table[:, -1])), inferred if shape is None else shape


def _table(lines: Iterator[bytes]) -> Array | None:
    first = next(lines, None)
    if first is None:
        return None

    def all_lines() -> Iterator[str]:
        yield first.decode("ascii")
        for line in lines:
            yield line.decode("ascii")

    return np.loadtxt(all_lines(), dtype=np.float64, comments="#", ndmin=2)


def _write_tns(stream: IO[bytes], source: Tensor) -> None:
    if source.dtype.kind == "c":
        raise FormatError(".tns has no place for complex numbers", code="E404", hint="use .mtx")
    coords, values = source.to_coo()
    if source.format.is_dense:
        kept = values != 0
        coords, values = coords[:, kept], values[kept]
    plain: list[Number] = values.astype(np.int8).tolist() if values.dtype == bool else []
    for entry, value in zip((coords.T + 1).tolist(), plain or values.tolist(), strict=True):
        stream.write(" ".join([*map(str, entry), repr(value)]).encode() + b"\n")


# NumPy's archive, in SciPy's layout


def _read_npz(stream: IO[bytes], file: Path, shape: object) -> tuple[Any, None]:
    return sparse.load_npz(stream), None


def _write_npz(stream: IO[bytes], source: Tensor) -> None:
    archive = BytesIO()  # an archive is written back and forth, which a .gz stream cannot do
    sparse.save_npz(archive, source.to_scipy())
    stream.write(archive.getbuffer())


_READERS: dict[str, Callable[[IO[bytes], Path, Any], tuple[Any, tuple[int, ...] | None]]] = {
    ".mtx": _read_mtx,
    ".tns": _read_tns,
    ".npz": _read_npz,
}
_WRITERS: dict[str, Callable[[IO[bytes], Tensor], None]] = {
    ".mtx": _write_mtx,
    ".tns": _write_tns,
    ".npz": _write_npz,
}
