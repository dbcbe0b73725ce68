"""The numbers of records as a tensor of numbers, with one mode more."""

from __future__ import annotations

from openwork.algebra.entries import Entry
from openwork.algebra.types import SUPPORTED
from openwork.errors import FormatError
from openwork.format.formats import Format, dense
from openwork.format.layouts import AOS
from openwork.format.levels import Dense
from openwork.runtime.storage import Storage
from openwork.tensor.convert.convert import convert
from openwork.tensor.exchange.interop import usual


def components(storage: Storage) -> Storage:
    """The numbers of each element along a last mode, in the pattern of the elements.

    Where absent elements are not all zeros, the result is dense.
    """
    entry = storage.dtype
    if not isinstance(entry, Entry):
        raise FormatError(f"elements of {entry} have no components", code="E402")
    entry = entry.decoded
    storage = storage.host().laid_out(AOS).astype(entry)
    if storage.fill or any(entry.zero):
        storage = convert(storage, dense(len(storage.shape)))
    elif storage.format.tiled:
        storage = convert(storage, usual(storage.shape, storage.values.size))
    levels, order = storage.format.levels, storage.format.order
    format = Format([*levels, Dense], (*order, len(order)))
    shape = (*storage.shape, entry.size)
    return Storage(shape, format, SUPPORTED[entry.scalar], (*storage.levels, {}), storage.values)
