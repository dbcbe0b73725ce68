"""The space of formats and layouts: which an operand may have, and the memory that each takes.

Memory is computed from the coordinates before anything is converted, so that a format that pads too
much is dropped without being tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np

from openwork.algebra.entries import Entry
from openwork.format.formats import (
    BITMAP,
    BSR,
    COO,
    CSB,
    CSC,
    CSF,
    CSR,
    DCSR,
    DIA,
    ELL,
    SELL,
    Format,
    name_of,
)
from openwork.format.layouts import AOS, PACKED
from openwork.frozen import frozen
from openwork.runtime.memory import ALIGNED, LINE, at_line
from openwork.tensor.tensor import Tensor

_INDEX, _LOCAL = 4, 2  # bytes of a coordinate or a position, and of one within a block
_NEAR = 512  # rows that are sorted among themselves, so that neighbours stay close
_MODES = 4  # of the most whose orders are all tried


@frozen
class Choice:
    """A format, and the bytes it would take."""

    format: Format
    bytes: float

    @property
    def text(self) -> str:
        """The format as text that `to` takes."""
        return text_of(self.format)


def text_of(format: Format, layout: str | None = None) -> str:
    """A format's name, or its levels, and its layout unless that is the usual one.

    >>> text_of(CSR, "SoA"), text_of(CSR.with_layout("packed")), text_of(CSR)
    ('CSR; SoA', 'CSR; packed', 'CSR')
    """
    plain = format.with_layout(AOS)
    name = name_of(plain)
    text = name if name is not None and "order" not in name else str(plain)
    wanted = format.layout if layout is None else layout
    return text if wanted == AOS else f"{text}; {wanted}"


def layouts(tensor: Tensor) -> Iterator[str]:
    """The other layouts that a tensor's records could have; numbers can only be packed."""
    record = isinstance(tensor.dtype, Entry)
    for layout in (AOS, "SoA", "AoSoA(8)", "AoSoA(32)") if record else (AOS,):
        if layout != tensor.format.layout:
            yield layout
    if tensor.format.packed_array is not None and tensor.format.layout != PACKED:
        yield PACKED


def askew(tensor: Tensor) -> bool:
    """Whether rows of whole cache lines each lie in one line more, so that gathers load it, too.

    NumPy's arrays begin anywhere in a line; copies and results begin at one.
    """
    if not tensor.format.is_dense or tensor.ndim < 2 or tensor.device != "cpu":
        return False
    row = tensor.shape[tensor.format.order[-1]] * tensor.dtype.itemsize
    large = tensor.nbytes >= ALIGNED and row > 0 and row % LINE == 0
    return large and not at_line(tensor.storage.values)


def choices(tensor: Tensor) -> Iterator[Choice]:
    """The formats of a sparse tensor that are worth a thought, with what each would take."""
    coords, _ = tensor.to_coo()
    size = tensor.dtype.itemsize
    if tensor.ndim == 2:
        yield from _of_a_matrix(coords, tensor.shape, size)
    elif 2 < tensor.ndim <= _MODES:
        entries = coords.shape[1]
        for order in permutations(range(tensor.ndim)):
            yield Choice(CSF(tensor.ndim, order), entries * (size + tensor.ndim * _INDEX))
        yield Choice(COO(tensor.ndim), entries * (size + tensor.ndim * _INDEX))


def plain_bytes(tensor: Tensor) -> float:
    """What compressed rows, or coordinates, would take: the measure of others."""
    entries, size = tensor.nnz, tensor.dtype.itemsize
    if tensor.ndim == 2:
        return float(entries * (size + _INDEX) + (tensor.shape[0] + 1) * _INDEX)
    return float(entries * (size + tensor.ndim * _INDEX))


def _of_a_matrix(coords: Any, shape: tuple[int, int], size: int) -> Iterator[Choice]:
    rows, columns = shape
    row, column = (np.asarray(c, np.int64) for c in coords)
    entries = row.size
    each = size + _INDEX
    lengths = np.bincount(row, minlength=rows)
    yield Choice(CSR, entries * each + (rows + 1) * _INDEX)
    yield Choice(CSC, entries * each + (columns + 1) * _INDEX)
    yield Choice(COO(2), entries * (each + _INDEX))
    used = int(np.count_nonzero(lengths))
    if used < 0.8 * rows:
        yield Choice(DCSR, entries * each + 2 * used * _INDEX)
    yield Choice(ELL, rows * int(lengths.max(initial=0)) * each + rows * _INDEX)
    for height in (8, 32):
        yield Choice(SELL(height), _sliced(lengths, height) * each + rows * _INDEX)
        for window in (_NEAR, rows) if rows > _NEAR else (rows,):
            padded = _sliced(_longest_first(lengths, window), height) * each
            yield Choice(SELL(height, window), padded + 2 * rows * _INDEX)
    for tile in (2, 3, 4, 8):
        blocks = _different(row // tile * (columns // tile + 1) + column // tile)
        yield Choice(BSR(tile, tile), blocks * (tile * tile * size + _INDEX))
    for high, wide in ((256, 256), (2048, 2048), (2**15, 2**13)):
        blocks = _different(row // high * (columns // wide + 1) + column // wide)
        yield Choice(CSB(high, wide), entries * (size + 2 * _LOCAL) + blocks * _INDEX)
    diagonals = np.count_nonzero(np.bincount(column - row + rows))
    yield Choice(DIA, float(diagonals) * min(rows, columns) * size)
    yield Choice(BITMAP, float(rows) * columns * (size + 1))


def _different(keys: Any) -> int:
    """How many different keys there are; sorting finds it in a tenth of the time of hashing."""
    keys.sort()
    return int(np.count_nonzero(np.diff(keys)) + min(1, keys.size))


def _longest_first(lengths: Any, window: int) -> Any:
    """The lengths, sorted within windows of so many rows."""
    padded = np.pad(lengths, (0, -lengths.size % window))
    return -np.sort(-padded.reshape(-1, window), axis=1).reshape(-1)[: lengths.size]


def _sliced(lengths: Any, height: int) -> int:
    """The places of slices of so many rows, each as wide as its longest row."""
    padded = np.pad(lengths, (0, -lengths.size % height))
    return int(padded.reshape(-1, height).max(axis=1, initial=0).sum()) * height
