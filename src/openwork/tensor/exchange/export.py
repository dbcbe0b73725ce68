"""Export to other libraries: SciPy and CuPy matrices, arrays, torch tensors.

Arrays are shared if the caller asks for it, or if no change to them can break a tensor: the values
of dense ones.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from scipy import sparse

from openwork.algebra.entries import Complex, Entry
from openwork.algebra.types import FLOAT16, FLOAT32, as_numbers, copied
from openwork.errors import FormatError
from openwork.format.formats import BSR, CSC, CSR, DIA, Format, dense
from openwork.format.layouts import AOS
from openwork.format.levels import Compressed, Dense
from openwork.format.levels.width import index_dtype
from openwork.runtime.gpu.cuda import DeviceStorage
from openwork.runtime.storage import Storage, as_complex
from openwork.tensor.convert.convert import convert
from openwork.tensor.convert.pack import differs, to_dense, to_numbers, unpack
from openwork.tensor.exchange.records import records_to_scipy
from openwork.tensor.exchange.scipy import to_bsr, to_dia
from openwork.tensor.exchange.torch import dense_to_torch, sparse_to_torch

_UNSORTED = tuple(
    Format([Dense, Compressed(ordered=False)], order) for order in (CSR.order, CSC.order)
)


def to_array(storage: Storage) -> Any:
    """A dense tensor as a NumPy array, or a CuPy array on a GPU; shared if the layout allows."""
    storage = storage.laid_out(AOS)
    if isinstance(storage, DeviceStorage) and not storage.format.plain:
        storage = convert(storage, dense(storage.format.ndim), exact=True)
    return to_numbers(storage)


def to_scipy(storage: Storage, name: str, share: bool = False) -> Any:
    """`storage` as a SciPy array of the same kind: CSR, CSC, sorted or not, BSR (with blocks that
    divide the shape), DIA; any other matrix as COO. SciPy's methods work in place, so the arrays
    are copies unless `share`. SciPy has no half precision: such elements become float32."""
    storage = storage.laid_out(AOS)
    if storage.dtype == FLOAT16:
        storage = storage.astype(FLOAT32)
    if isinstance(storage.dtype, Complex):
        storage = storage.astype(as_complex(storage.dtype))
    if len(storage.shape) != 2:
        raise FormatError(
            f"{name} has {len(storage.shape)} modes, but SciPy matrices have two",
            code="E404",
            hint="coords, values = tensor.to_coo(), or tensor.to_numpy()",
        )
    if not storage.format.is_dense and storage.fill != 0:
        raise FormatError(
            f"absent entries of {name} are {storage.fill}, but SciPy's are 0",
            code="E404",
            hint="coords, values = tensor.to_coo(), or tensor.to_numpy()",
        )
    if isinstance(storage.dtype, Entry):
        return records_to_scipy(storage if share else storage.copy(), name)
    if storage.format == DIA:
        return to_dia(storage)
    own = storage if share or storage.format.is_dense else storage.copy()
    if storage.format in (CSR, CSC, *_UNSORTED):
        arrays = own.levels[1]
        make = sparse.csr_array if storage.format.order == CSR.order else sparse.csc_array
        matrix = make((own.values, arrays["crd"], arrays["pos"]), shape=storage.shape)
        if storage.format not in _UNSORTED:
            matrix.has_canonical_format = True
        return matrix
    if _is_bsr(storage):
        return to_bsr(own)
    if storage.format.is_dense:
        array = to_dense(storage)
        kept = np.nonzero(differs(array, 0))
        return sparse.coo_array((array[kept], kept), shape=storage.shape)
    coords, values = unpack(own)
    return sparse.coo_array((values, tuple(coords)), shape=storage.shape)


def _is_bsr(storage: Storage) -> bool:
    """Whether SciPy and torch have such blocks: theirs never reach beyond the shape."""
    tiles = storage.format.tiles
    blocks = len(tiles) == 2 and all(tiles) and storage.format == BSR(*tiles)
    return blocks and not storage.overhangs


def to_cupy(storage: Storage, name: str, share: bool) -> Any:
    """A CuPy array, or a CuPy CSR or CSC matrix, on the current GPU."""
    there = DeviceStorage.of(storage).laid_out(AOS)
    if storage.format.is_dense:
        return to_array(there)
    return _cupy_matrix(there if share else there.copy(), name)


def _cupy_matrix(storage: DeviceStorage, name: str) -> Any:
    """CSR and CSC as CuPy matrices over the arrays of `storage`."""
    if storage.format not in (CSR, CSC) or storage.fill != 0:
        raise FormatError(
            f"{name} is {storage.format!r}, but CuPy's matrices are CSR or CSC with absent zeros",
            code="E404",
            hint="convert it: .to(ow.CSR)",
        )
    arrays = storage.levels[1]
    cupy_sparse = importlib.import_module("cupyx.scipy.sparse")
    make = cupy_sparse.csr_matrix if storage.format == CSR else cupy_sparse.csc_matrix
    try:
        return make((storage.values, arrays["crd"], arrays["pos"]), shape=storage.shape)
    except ValueError as error:
        raise FormatError(
            f"{name} cannot become a CuPy matrix: {error}",
            code="E404",
            hint="CuPy has bool, float32, float64, complex64 and complex128: use .astype(...)",
        ) from None


def to_torch(storage: Storage, name: str, share: bool) -> Any:
    """A torch tensor on the device of `storage`."""
    storage = storage.laid_out(AOS)
    if storage.format.is_dense:
        return dense_to_torch(to_array(storage), name)
    if storage.fill != 0:
        raise FormatError(
            f"absent entries of {name} are {storage.fill}, but torch's are 0",
            code="E404",
            hint="coords, values = tensor.to_coo(), or tensor.to_numpy()",
        )
    if isinstance(storage, DeviceStorage):
        return sparse_to_torch(storage if share else storage.copy(), None, name)
    if storage.format in (CSR, CSC) or _is_bsr(storage):
        return sparse_to_torch(storage, to_scipy(storage, name, share), name)
    return sparse_to_torch(storage, to_coo(storage), name)


def to_coo(storage: Storage) -> tuple[Any, Any]:
    """The coordinates and values of all stored entries, copied."""
    storage = storage.laid_out(AOS)
    if storage.format in (CSR, CSC, *_UNSORTED):  # in a third of the time
        (row, column), arrays = storage.format.order, storage.levels[1]
        dtype = index_dtype(max((*storage.shape, 1)) - 1)
        coords = np.empty((2, storage.places), dtype)
        coords[row] = np.repeat(np.arange(storage.shape[row], dtype=dtype), np.diff(arrays["pos"]))
        coords[column] = arrays["crd"]
        return coords, as_numbers(copied(storage.elements))
    coords, values = unpack(storage)
    shared = np.may_share_memory(values, storage.values)
    return coords, as_numbers(copied(values) if shared else values)
