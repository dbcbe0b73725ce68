"""Other libraries' arrays, frames and graphs in and out; each test where its library is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse as scipy_sparse

import openwork as ow
from openwork.tensor.exchange import libraries

D = np.array([[0.0, 3, 0, 1], [4, 0, 5, 0], [0, 0, 0, 2], [0, 6, 0, 0]])


def test_pydata_sparse() -> None:
    sparse = pytest.importorskip("sparse")
    for shape in ((4, 5), (3, 4, 5)):
        S = sparse.random(shape, density=0.3, random_state=1)
        A = ow.tensor(S)
        assert A.nnz == S.nnz and not A.format.is_dense
        np.testing.assert_array_equal(A.to_numpy(), S.todense())
        np.testing.assert_array_equal(A.to_pydata().todense(), S.todense())
    far = sparse.COO.from_numpy(np.where(D == 0, np.inf, D), fill_value=np.inf)
    A = ow.tensor(far, format="CSR")
    assert (A.fill, A.nnz, A.to_pydata().fill_value) == (np.inf, 6, np.inf)
    np.testing.assert_array_equal(A[sparse.COO.from_numpy(D > 2)].to_numpy(), D[D > 2])
    rows = sparse.GCXS.from_numpy(D)
    np.testing.assert_array_equal(ow.tensor(rows, format="CSC").to_numpy(), D)
    np.testing.assert_array_equal(ow.compute("y(i) = A(i,j)", A=rows).to_numpy(), D.sum(1))


def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame.sparse.from_spmatrix(scipy_sparse.csr_array(D))
    A = ow.tensor(frame)
    assert (A.nnz, A.format) == (6, ow.CSR)
    np.testing.assert_array_equal(A.to_numpy(), D)
    np.testing.assert_array_equal(A.to_pandas().to_numpy(), D)
    assert A.to_pandas().sparse.density == 6 / 16
    series = pandas.Series(pandas.arrays.SparseArray(D[1], fill_value=0.0))
    x = ow.tensor(series, format="Compressed")
    assert x.nnz == 2 and x.to_pandas().equals(series)
    far = ow.tensor(np.where(D == 0, np.inf, D), format="CSC", fill=np.inf)
    assert far.to_pandas().sparse.density == 6 / 16
    np.testing.assert_array_equal(far.to_pandas().to_numpy(), far.to_numpy())
    plain = pandas.DataFrame(D)
    np.testing.assert_array_equal(ow.tensor(plain, format="CSR").to_numpy(), D)
    np.testing.assert_array_equal((A @ pandas.Series(np.ones(4))).to_numpy(), D.sum(1))


def test_pandas_beside_tensors() -> None:
    pandas = pytest.importorskip("pandas")
    frame, A = pandas.DataFrame(D), ow.tensor(D, format="CSR")
    for made, expected in (
        (frame + A, D + D), (A - frame, D - D), (frame * A, D * D), (frame > A, D > D),
        (frame[0] * A[:, 1], D[:, 0] * D[:, 1]),
    ):  # fmt: skip
        assert isinstance(made, ow.Tensor)
        np.testing.assert_array_equal(made.to_numpy(), expected)
    # pandas calls what can be called: a matrix times the frame has the same shape as a column.
    sums = A.sum(axis=1)
    np.testing.assert_array_equal(frame.assign(z=sums)["z"], D.sum(1))
    np.testing.assert_array_equal(frame[sums > 5], D[D.sum(1) > 5])


def test_networkx() -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.gnp_random_graph(20, 0.2, seed=3, directed=True)
    A = ow.tensor(graph, name="A")
    assert A.format == ow.CSR and A.nnz == graph.number_of_edges()
    again = A.to_networkx()
    assert set(again.edges) == set(graph.edges)
    assert not (A + A.T).to_networkx(directed=False).is_directed()
    assert ow.tensor(networkx.Graph()).shape == (0, 0)
    np.testing.assert_array_equal((A @ graph).to_numpy(), (graph @ A).to_numpy())
    named = networkx.Graph()
    named.add_edge(0, 1, weight="far")
    with pytest.raises(ow.FormatError, match="E405: a Graph cannot become a tensor"):
        ow.tensor(named)
    with pytest.raises(ow.FormatError, match=r"E404: .* is no graph"):
        A[:3].to_networkx()


def test_xarray() -> None:
    xarray = pytest.importorskip("xarray")
    A = ow.tensor(D, format="CSR")
    held = xarray.DataArray(A, dims=("row", "column"))
    assert held.data is A
    made = (2 * held + held).sum("column")
    assert isinstance(made.data, ow.Tensor)
    np.testing.assert_array_equal(made.data.to_numpy(), 3 * D.sum(1))
    np.testing.assert_array_equal(held.isel(row=1).data.to_numpy(), D[1])
    np.testing.assert_array_equal(held.transpose().data.to_numpy(), D.T)
    for name in ("mean", "std", "var", "max"):
        found, expected = getattr(held, name)("row"), getattr(xarray.DataArray(D), name)("dim_0")
        np.testing.assert_allclose(found.data.to_numpy(), expected.data)
    for made, expected in (
        (held.argmax("row"), D.argmax(0)), (held.cumsum("row"), D.cumsum(0)),
        (held.pad(row=1, constant_values=0), np.pad(D, ((1, 1), (0, 0)))),
        (held.shift(row=1, fill_value=0), np.vstack([0 * D[:1], D[:-1]])),
    ):  # fmt: skip
        np.testing.assert_array_equal(made.data.to_numpy(), expected)
    other = xarray.DataArray(A.T, dims=("column", "other"))
    np.testing.assert_allclose(held.dot(other).data.to_numpy(), D @ D.T)
    assert ow.tensor(held).equals(A)
    np.testing.assert_array_equal(ow.tensor(xarray.DataArray(D)).to_numpy(), D)


def test_dask() -> None:
    dask = pytest.importorskip("dask.array")
    A = ow.tensor(D, format="CSR")
    held = dask.from_array(A, chunks=(2, 2), asarray=False)
    made = (held * 2 + held).compute(scheduler="synchronous")
    assert isinstance(made, ow.Tensor) and not made.format.is_dense
    np.testing.assert_array_equal(made.to_numpy(), 3 * D)
    sums = held.sum(axis=0).compute(scheduler="synchronous")
    np.testing.assert_array_equal(np.asarray(sums), D.sum(0))
    np.testing.assert_array_equal(ow.tensor(held).to_numpy(), D)
    for made, expected in (
        (held.rechunk(3), D), (held[[1, 0, 3]], D[[1, 0, 3]]),
        (dask.roll(held, 2, 0), np.roll(D, 2, 0)),
        (dask.stack([held, held]), [D, D]), (held.swapaxes(0, 1), D.T),
        (dask.einsum("ij,kj->ik", held, held), D @ D.T),
    ):  # fmt: skip
        np.testing.assert_array_equal(made.compute(scheduler="synchronous").to_numpy(), expected)

    def changed() -> Any:
        copy = held.copy()
        copy[:1] = 0
        return copy

    for made, expected in (
        (held.cumsum(axis=0), D.cumsum(0)), (held.cumprod(axis=1), D.cumprod(1)),
        (held.argmax(axis=1), D.argmax(1)), (held.argmin(), D.argmin()),
        (dask.pad(held, 1), np.pad(D, 1)), (dask.tril(held), np.tril(D)),
        (dask.topk(held, 2, axis=1), -np.sort(-D, 1)[:, :2]),
        (changed(), D * [[0], [1], [1], [1]]),
    ):  # fmt: skip
        made = made.compute(scheduler="synchronous")
        assert isinstance(made, ow.Tensor)
        np.testing.assert_array_equal(made.to_numpy(), expected)
    squared = (held @ held.T).compute(scheduler="synchronous")
    np.testing.assert_array_equal(squared.to_numpy(), D @ D.T)


def test_a_library_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(libraries.importlib, "import_module", missing)
    with pytest.raises(ow.DataError, match="E510: this needs the package networkx"):
        ow.tensor(D, format="CSR").to_networkx()
