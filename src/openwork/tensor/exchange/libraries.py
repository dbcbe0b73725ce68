"""PyData/sparse, pandas, networkx, xarray and dask: their objects as ours, and ours as theirs.

None of them is imported before the user asks for one of its objects, or hands one over.
"""

from __future__ import annotations

import importlib
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from openwork.errors import DataError, FormatError
from openwork.runtime.storage import Storage
from openwork.tensor.exchange.export import to_coo, to_scipy

_KNOWN = ("sparse", "pandas", "networkx", "xarray", "dask")


def library_of(obj: Any) -> str | None:
    """The library that an object is from, if it is one of these."""
    root = type(obj).__module__.partition(".")[0]
    if root in _KNOWN:
        return root
    graph = hasattr(obj, "adjacency") and hasattr(obj, "is_directed")  # a subclass of a user's
    return "networkx" if graph else None


def plain(obj: Any) -> Any:
    """An object of these libraries as one that is known: an array, SciPy's matrix, a tensor.

    A triple is coordinates, values and what absent entries are; None means that it is none of the
    kinds that are read.
    """
    match library_of(obj):
        case "sparse":
            return _from_pydata(obj)
        case "pandas":
            return _from_pandas(obj)
        case "networkx":
            if not len(obj):  # networkx refuses a graph without nodes
                return sparse.csr_array((0, 0))
            return _from_networkx(obj)
        case "xarray":
            return obj.data if hasattr(obj, "data") and hasattr(obj, "dims") else None
        case "dask":
            return obj.compute() if hasattr(obj, "compute") else None
    return None


def _from_networkx(graph: Any) -> Any:
    try:
        return _needed("networkx").to_scipy_sparse_array(graph, format="csr")
    except (TypeError, ValueError) as error:
        raise FormatError(
            f"a {type(graph).__name__} cannot become a tensor: {error}",
            code="E405",
            hint="weights are numbers; "
            'nx.to_scipy_sparse_array(graph, weight="name") takes another attribute',
        ) from error


def _from_pydata(obj: Any) -> Any:
    """COO, GCXS and DOK."""
    entries = obj if hasattr(obj, "coords") else obj.asformat("coo")
    return entries.coords, entries.data, entries.fill_value


def _from_pandas(obj: Any) -> Any:
    """Sparse columns by their entries, if all have the same fill; everything else as an array."""
    if getattr(obj, "ndim", 0) == 2:
        kinds = list(obj.dtypes)
        fills = {kind.fill_value for kind in kinds if hasattr(kind, "fill_value")}
        if len(fills) != 1 or not all(hasattr(kind, "fill_value") for kind in kinds):
            return obj.to_numpy()
        columns = [obj.iloc[:, n].array for n in range(len(kinds))]
        rows = [each.sp_index.indices for each in columns]
        places = np.repeat(np.arange(len(columns)), [len(each) for each in rows])
        values = np.concatenate([each.sp_values for each in columns])
        return np.stack([np.concatenate(rows), places]), values, fills.pop()
    array = getattr(obj, "array", obj)
    if hasattr(array, "sp_index"):
        return array.sp_index.indices[None], array.sp_values, array.fill_value
    return obj.to_numpy() if hasattr(obj, "to_numpy") else None


def to_pydata(storage: Storage) -> Any:
    """A `sparse.COO`."""
    coords, values = to_coo(storage)
    make = _needed("sparse").COO
    return make(coords, values, shape=storage.shape, fill_value=values.dtype.type(storage.fill))


def to_pandas(storage: Storage, name: str) -> Any:
    """A frame of sparse columns for a matrix, a sparse series for a vector."""
    pandas = _needed("pandas")
    if len(storage.shape) == 1:
        (places,), values = to_coo(storage)
        one = sparse.coo_array((values, (places, 0 * places)), shape=(*storage.shape, 1))
        return pandas.DataFrame.sparse.from_spmatrix(one)[0].rename(None)
    if not storage.fill:
        return pandas.DataFrame.sparse.from_spmatrix(to_scipy(storage, name))
    kept = to_scipy(replace(storage, fill=0), name).tocsc()
    columns = []
    for start, stop in itertools.pairwise(kept.indptr):  # by columns: all at once would be dense
        column = np.full(kept.shape[0], storage.fill, kept.dtype)
        column[kept.indices[start:stop]] = kept.data[start:stop]
        columns.append(
            pandas.arrays.SparseArray(column, fill_value=column.dtype.type(storage.fill))
        )
    return pandas.DataFrame(dict(enumerate(columns)))


def to_networkx(storage: Storage, name: str, directed: bool) -> Any:
    """A graph with an edge for each stored entry of a square matrix, and its value as weight."""
    networkx = _needed("networkx")
    if len(storage.shape) != 2 or storage.shape[0] != storage.shape[1]:
        raise FormatError(
            f"{name} of shape {storage.shape} is no graph: its matrix is square", code="E404"
        )
    kind = networkx.DiGraph if directed else networkx.Graph
    return networkx.from_scipy_sparse_array(to_scipy(storage, name), create_using=kind)


def _needed(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise DataError(
            f"this needs the package {package}, which is not installed",
            code="E510",
            hint=f"pip install {package}",
        ) from error
