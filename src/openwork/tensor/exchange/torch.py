"""torch tensors, dense and sparse, to NumPy arrays and SciPy matrices, and back, without copies."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
from scipy import sparse

from openwork.errors import FormatError, ToolchainError
from openwork.format.formats import CSC, CSR
from openwork.runtime.storage import Storage

_COMPRESSED = {
    "sparse_csr": ("crow_indices", "col_indices", sparse.csr_array),
    "sparse_csc": ("ccol_indices", "row_indices", sparse.csc_array),
    "sparse_bsr": ("crow_indices", "col_indices", sparse.bsr_array),
}


def is_torch(obj: object) -> bool:
    """Whether `obj` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, getattr(torch, "Tensor", ()))


def plain(tensor: Any) -> Any:
    """`tensor` with conjugation and negation resolved.

    Raises:
        FormatError: E405 if it requires a gradient, which would be lost.
    """
    if tensor.requires_grad:
        raise FormatError(
            "a torch tensor requires a gradient, which Openwork would lose",
            code="E405",
            hint="pass x.detach()",
        )
    return tensor.resolve_conj().resolve_neg()


def layout_of(tensor: Any) -> str:
    """`"strided"`, `"sparse_csr"` and so on."""
    return str(tensor.layout).removeprefix("torch.")


def as_known(obj: Any) -> Any:
    """A tensor in main memory as a NumPy array, a SciPy matrix, or coordinates and values.

    Raises:
        TypeError, ValueError: for what neither of them can hold.
    """
    tensor, layout = plain(obj), layout_of(obj)
    if layout == "strided":
        return tensor.numpy()
    if tensor.dense_dim():
        raise ValueError(f"its entries have {tensor.dense_dim()} modes of their own")
    if layout == "sparse_coo":
        tensor = tensor.coalesce()
        return tensor.indices().numpy(), tensor.values().numpy()
    if layout not in _COMPRESSED or tensor.ndim != 2:
        raise ValueError(f"it is a batch, or {layout}")
    pos, crd, make = _COMPRESSED[layout]
    arrays = tensor.values(), getattr(tensor, crd)(), getattr(tensor, pos)()
    return make(tuple(a.numpy() for a in arrays), shape=tuple(tensor.shape))


# -- back ---------------------------------------------------------------------------------------


def torch_module() -> Any:
    """torch.

    Raises:
        ToolchainError: E609 if it is not installed.
    """
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise ToolchainError(
            "torch is not installed", code="E609", hint="pip install 'openwork[torch]'"
        ) from None


def dense_to_torch(array: Any, name: str) -> Any:
    """A NumPy or CuPy array as a torch tensor that shares its memory."""
    torch = torch_module()
    try:
        if not isinstance(array, np.ndarray):
            return torch.as_tensor(array, device="cuda")
        return torch.from_numpy(array if array.flags.writeable else array.copy())
    except (TypeError, ValueError) as error:
        raise _not_held(name, str(error)) from None


def sparse_to_torch(storage: Storage, matrix: Any, name: str) -> Any:
    """A sparse tensor as torch's CSR, CSC or BSR with the same arrays, or else as COO.

    `matrix`: the SciPy matrix, or coordinates and values; None on a GPU.
    """
    torch = torch_module()
    if matrix is None:
        if storage.format not in (CSR, CSC):
            hint = "convert it first: .to(ow.CSR), or .to('cpu')"
            raise _not_held(name, f"on a GPU, torch has no {storage.format!r}", hint)
        arrays = storage.levels[1]["pos"], storage.levels[1]["crd"], storage.values
        kind = "csr" if storage.format == CSR else "csc"
    elif isinstance(matrix, tuple):
        coords, values = (dense_to_torch(np.asarray(a), name) for a in matrix)
        made = torch.sparse_coo_tensor(coords, values, storage.shape, check_invariants=False)
        try:
            return made.coalesce()  # entries are in the order of the format
        except RuntimeError as error:
            raise _not_held(name, str(error)) from None
    else:
        values = matrix.data.astype(storage.values.dtype, copy=False)  # SciPy has no half precision
        arrays, kind = (matrix.indptr, matrix.indices, values), matrix.format
    make = getattr(torch, f"sparse_{kind}_tensor")
    parts = [dense_to_torch(a, name) for a in arrays]
    return make(*parts, size=storage.shape, check_invariants=False)


def _not_held(name: str, reason: str, hint: str | None = None) -> FormatError:
    return FormatError(f"{name} cannot become a torch tensor: {reason}", code="E404", hint=hint)
