"""Recipes on a real GPU, over matrices of many shapes and element types, against SciPy.

`make test-gpu` runs these; without CuPy and a GPU they are skipped.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.gpu import tiers
from tests.recipes.recipe_table import OTHERS, SPMM, SPMV

import openwork as ow
from openwork import recipes as r
from openwork.runtime.gpu.cuda import DeviceStorage
from openwork.tensor.convert import convert as conversion

cp = pytest.importorskip("cupy", reason="needs CuPy and a GPU")
try:
    cp.cuda.runtime.getDeviceCount()
except Exception as error:
    pytest.skip(f"no GPU: {error}", allow_module_level=True)

if os.environ.get("OPENWORK_PLAIN_MEMORY"):  # what compute-sanitizer can tell apart
    cp.cuda.set_allocator(None)
rng = np.random.default_rng(0)


def _skewed() -> Any:
    lengths = np.minimum(2000, (3000 / (1 + np.arange(700))).astype(int))
    rows = np.repeat(np.arange(700), lengths)
    columns = rng.integers(0, 2000, rows.size)
    return sp.csr_array((rng.standard_normal(rows.size), (rows, columns)), shape=(700, 2000))


MATRICES: dict[str, Any] = {
    "random": sp.random_array((1000, 900), density=0.02, rng=rng, format="csr"),
    "skewed": _skewed(),
    "wide": sp.random_array((5, 20000), density=0.1, rng=rng, format="csr"),
    "tall": sp.random_array((30000, 7), density=0.05, rng=rng, format="csr"),
    "one": sp.csr_array(np.array([[2.0]])),
    "empty": sp.csr_array((50, 60)),
    "banded": sp.diags_array([np.full(5000, float(k)) for k in (1, 2, 3)], offsets=(-1, 0, 1),
                             shape=(5000, 5000), format="csr"),
}  # fmt: skip
DTYPES = ("float32", "float64", "complex64", "complex128", "int32", "int64")


def cast(matrix: Any, dtype: str) -> Any:
    whole = np.dtype(dtype).kind == "i"
    return (matrix * 10).astype(dtype) if whole else matrix.astype(dtype)


def agrees(got: Any, want: Any, dtype: str, terms: Any = None) -> None:
    """`terms`: the sum of what is added up, without signs, where terms may cancel."""
    if np.dtype(dtype).kind == "i":
        np.testing.assert_array_equal(got, want)
    else:
        single = dtype in ("float32", "complex64")
        scale = float(np.abs(want if terms is None else terms).max(initial=1e-30))
        np.testing.assert_allclose(got, want, rtol=0, atol=scale * (1e-4 if single else 1e-11))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("recipe", SPMV)
@pytest.mark.parametrize("name", MATRICES)
def test_spmv(name: str, recipe: str, dtype: str) -> None:
    A = cast(MATRICES[name], dtype)
    x = cast(rng.standard_normal(A.shape[1]), dtype)
    a, b = ow.tensor(A, name="A").to("cuda"), ow.tensor(cp.asarray(x), name="x")
    y = ow.empty((A.shape[0],), dtype=dtype, name="y")
    kernel = SPMV[recipe](ow.parse("y(i) = A(i,j) * x(j)", y=y, A=a, x=b)).compile(target="cuda")
    for _ in range(2):
        agrees(cp.asnumpy(kernel().to_cupy()), A @ x, dtype)


# Points of Sgap's space that these numbers of columns do not have.
OUTSIDE = {("eighth", 1), ("eighth", 5), ("segment", 130)}


@pytest.mark.parametrize("columns", [1, 4, 5, 32, 130])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("recipe", SPMM)
@pytest.mark.parametrize("name", MATRICES)
def test_spmm(name: str, recipe: str, dtype: str, columns: int) -> None:
    A = cast(MATRICES[name], dtype)
    B = cast(rng.standard_normal((A.shape[1], columns)), dtype)
    C = ow.empty((A.shape[0], columns), dtype=dtype, name="C")
    a, b = ow.tensor(A, name="A").to("cuda"), ow.tensor(cp.asarray(B), name="B")
    stmt = ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=a, B=b)
    if (recipe, columns) in OUTSIDE:
        with pytest.raises(ow.ScheduleError, match="E316"):
            SPMM[recipe](stmt)
        return
    stmt = SPMM[recipe](stmt)
    agrees(cp.asnumpy(stmt.compile(target="cuda")().to_cupy()), A @ B, dtype)


@pytest.mark.parametrize("columns", [1, 4, 7])
@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize("name", MATRICES)
def test_spmm_staged(name: str, each: int, columns: int) -> None:
    A = cast(MATRICES[name], "float32")
    B = cast(rng.standard_normal((A.shape[1], columns)), "float32")
    C = ow.empty((A.shape[0], columns), dtype="float32", name="C")
    a, b = ow.tensor(A, name="A").to("cuda"), ow.tensor(cp.asarray(B), name="B")
    stmt = r.spmm_staged(ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=a, B=b), each, 4)
    agrees(cp.asnumpy(stmt.compile(target="cuda")().to_cupy()), A @ B, "float32")


@pytest.mark.parametrize("inner", [3, 32, 40])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MATRICES)
def test_sddmm(name: str, dtype: str, inner: int) -> None:
    S = cast(MATRICES[name], dtype)
    P, Q = (cast(rng.standard_normal((n, inner)), dtype) for n in S.shape)
    D = ow.empty(S.shape, format=ow.CSR, dtype=dtype, name="D")
    s = ow.tensor(S, name="S").to("cuda")
    p, q = ow.tensor(cp.asarray(P), name="P"), ow.tensor(cp.asarray(Q), name="Q")
    stmt = r.sddmm(ow.parse("D(i,k) = S(i,k) * P(i,j) * Q(k,j)", D=D, S=s, P=p, Q=q))
    got = stmt.compile(target="cuda")()
    assert got.device == "cuda"
    agrees(got.to_numpy(), S.toarray() * (P @ Q.T), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex64"])
@pytest.mark.parametrize("text", OTHERS)
@pytest.mark.parametrize("name", MATRICES)
def test_others(name: str, text: str, dtype: str) -> None:
    A = cast(MATRICES[name], dtype)
    (m, n), (path, sparse, recipes) = A.shape, OTHERS[text]
    shapes = {"u": (m,), "v": (n,), "w": (9,), "W": (m, 9), "U": (m, 9)}
    arrays = {k: cast(rng.standard_normal(s), dtype) for k, s in shapes.items() if f"{k}(" in text}
    operands = {k: ow.tensor(cp.asarray(a), name=k) for k, a in arrays.items()}
    if "A(" in text:
        operands["A"] = ow.tensor(A, name="A").to("cuda")
    names = [part.partition("(")[0].strip() for part in text.partition("=")[2].split("*")]
    dense = [A.toarray() if k == "A" else arrays[k] for k in names]
    result, order = text.partition("(")[0], len(path.partition("->")[2])
    made = ow.placeholder(result, order=order, dtype=dtype, format=ow.CSR if sparse else None)
    stmt = ow.parse(text, **{result: made}, **operands)
    want, terms = (np.einsum(path, *each) for each in (dense, [np.abs(a) for a in dense]))
    for recipe in (lambda s: s, *recipes):
        kernel = recipe(stmt).compile(target="cuda")
        for _ in range(3):
            agrees(kernel().to_numpy(), want, dtype, terms)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors(dtype: str) -> None:
    shape = (40, 50, 30)
    coords = np.stack([rng.integers(0, n, 5000) for n in shape])
    X = ow.tensor((coords, rng.standard_normal(5000).astype(dtype)), shape=shape, name="X")
    dense = X.to_numpy()
    F, G = (rng.standard_normal((n, 32)).astype(dtype) for n in shape[1:])
    x, f, g = X.to("cuda"), ow.tensor(cp.asarray(F), name="F"), ow.tensor(cp.asarray(G), name="G")
    M = ow.empty((40, 32), dtype=dtype, name="M")
    for mttkrp in (r.spmm_positions, r.spmm_rows):
        stmt = mttkrp(ow.parse("M(i,j) = X(i,k,l) * F(k,j) * G(l,j)", M=M, X=x, F=f, G=g))
        got = stmt.compile(target="cuda")().to_numpy()
        agrees(got, np.einsum("ikl,kj,lj->ij", dense, F, G), dtype)
    T = ow.empty((40, 50, 32), dtype=dtype, name="T")
    ttm = r.spmm_positions(ow.parse("T(i,j,l) = X(i,j,k) * G(k,l)", T=T, X=x, G=g))
    agrees(ttm.compile(target="cuda")().to_numpy(), np.einsum("ijk,kl->ijl", dense, G), dtype)
    v = ow.tensor(cp.asarray(G[:, 0].copy()), name="v")
    V = ow.empty((40, 50), dtype=dtype, name="V")
    for recipe in (r.position_split, r.position_segments):
        ttv = recipe(ow.parse("V(i,j) = X(i,j,k) * v(k)", V=V, X=x, v=v))
        got = ttv.compile(target="cuda")().to_numpy()
        agrees(got, np.einsum("ijk,k->ij", dense, G[:, 0]), dtype)


def test_objects_of_cupy_and_torch_are_shared() -> None:
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    A = sparse.csr_matrix(sp.csr_matrix(MATRICES["random"]))
    t = ow.tensor(A, name="A")
    assert t.device == "cuda"
    assert t.storage.values.data.ptr == A.data.data.ptr
    torch = pytest.importorskip("torch")
    x = torch.ones(A.shape[1], device="cuda", dtype=torch.float64)
    b = ow.tensor(x, name="x")
    assert b.storage.values.data.ptr == x.data_ptr()
    y = ow.empty((A.shape[0],), name="y")
    kernel = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=t, x=b).compile(target="cuda")
    back = torch.as_tensor(kernel().to_cupy(), device="cuda")
    np.testing.assert_allclose(back.cpu().numpy(), MATRICES["random"].sum(axis=1))


def test_a_matrix_of_cupy_may_be_changed_afterwards() -> None:
    """A kernel that reads wild coordinates would end the whole process's use of the GPU."""
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    x, expected = np.ones(MATRICES["random"].shape[1]), MATRICES["random"].sum(axis=1)
    A = sparse.csr_matrix(sp.csr_matrix(MATRICES["random"]))
    t, doubled = ow.tensor(A), ow.einsum("ij,j->ij", A, 2 * cp.asarray(x))
    given = doubled.to_cupy()
    for matrix in (A, given):
        matrix.indices[...] = 10**9
        matrix.indptr[...] = 10**9
    np.testing.assert_allclose((t @ cp.asarray(x)).to_numpy(), expected)
    np.testing.assert_allclose((doubled @ cp.asarray(x)).to_numpy(), 2 * expected)
    with pytest.raises(ow.DataError):
        ow.tensor(A)


@pytest.mark.filterwarnings("ignore:Sparse")  # what torch says of all of its sparse tensors
def test_results_in_the_library_of_the_caller() -> None:
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    torch = pytest.importorskip("torch")
    dense = sp.csr_matrix(MATRICES["random"])
    t = torch.sparse_csr_tensor(
        *(torch.as_tensor(a, device="cuda") for a in (dense.indptr, dense.indices, dense.data)),
        size=dense.shape,
        check_invariants=True,
    )
    x = torch.ones(dense.shape[1], device="cuda", dtype=torch.float64)
    for matrix in (t, t.to_sparse_coo(), t.to_sparse_csc()):
        y = ow.einsum("ij,j->i", matrix, x)
        for there in (y.to_torch(), torch.from_dlpack(y), torch.as_tensor(y, device="cuda")):
            assert there.is_cuda and there.data_ptr() == y.storage.values.data.ptr
            np.testing.assert_allclose(there.cpu().numpy(), dense @ np.ones(dense.shape[1]))
        assert cp.asarray(y).data.ptr == y.storage.values.data.ptr
    square = ow.tensor(t) @ ow.tensor(t).T
    expected = (dense @ dense.T).toarray()
    back, matrix = square.to_torch(share=True), square.to_cupy(share=True)
    for own in (square.to_torch().values().data_ptr(), square.to_cupy().data.data.ptr):
        assert own != matrix.data.data.ptr
    assert back.layout == torch.sparse_csr and isinstance(matrix, sparse.csr_matrix)
    assert back.values().data_ptr() == matrix.data.data.ptr
    np.testing.assert_allclose(back.to_dense().cpu().numpy(), expected)
    np.testing.assert_allclose(matrix.toarray().get(), expected)
    with pytest.raises(ow.FormatError, match="requires a gradient"):
        ow.tensor(x.requires_grad_())


def test_a_stream_of_torch_is_used_for_its_tensors() -> None:
    """What torch does before and after, on a stream that waits for nobody, is in order with it."""
    torch = pytest.importorskip("torch")
    A, x = MATRICES["random"], torch.zeros(900, device="cuda", dtype=torch.float64)
    a = ow.tensor(A, name="A").to("cuda")
    y = ow.empty((1000,), name="y")
    kernel = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=a, x=ow.tensor(x, name="x"))
    kernel = kernel.compile(target="cuda")
    expected = A.sum(axis=1)
    cp.cuda.Device().synchronize()
    for number in range(20):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)  # some ms, in which others would be too early
            x.fill_(number)
            got = kernel().to_torch() * 2
            np.testing.assert_allclose(got.cpu().numpy(), 2 * number * expected, rtol=1e-12)
        stream.synchronize()


@pytest.mark.parametrize("source", [ow.CSR, ow.CSC, ow.DCSR, ow.COO(2), ow.ELL, ow.BSR(2, 2)])
def test_conversions(monkeypatch: pytest.MonkeyPatch, source: ow.Format) -> None:
    monkeypatch.setattr(conversion, "LEAST_ENTRIES", 0)
    A = ow.tensor(MATRICES["random"], name="A").to(source)
    for format in (ow.dense(2), ow.CSR, ow.CSC, ow.DCSR, ow.COO(2), ow.ELL):
        made = A.to("cuda").to(format)
        assert (made.format, made.device) == (format, "cuda")
        np.testing.assert_array_equal(made.to_numpy(), A.to_numpy())
        assert made.to("cpu").nnz == A.to(format).nnz


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_conversions_of_large_matrices(dtype: str) -> None:
    """Rows times entries are more than 32 bits count."""
    lengths = rng.integers(0, 60, 60_000)
    lengths[::7] = 0
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    columns = np.concatenate([np.sort(rng.choice(500, n, replace=False)) for n in lengths])
    values = rng.integers(1, 100, indptr[-1]).astype(dtype)
    matrix = sp.csr_array((values, columns, indptr), shape=(60_000, 500))
    A = ow.tensor(matrix, name="A").to("cuda")
    ways = [[ow.CSC, ow.CSR], [ow.COO(2), ow.CSR], [ow.DCSR, ow.CSR], [ow.dense(2), ow.CSR]]
    ways += [[ow.COO(2), ow.DCSR, ow.CSR], [ow.CSC, ow.COO(2, order=(1, 0)), ow.CSC, ow.CSR]]
    ways += [[ow.dense(2, order=(1, 0)), ow.COO(2), ow.CSR], [ow.dense(2), ow.CSC, ow.CSR]]
    for way in ways:
        made = A
        for format in way:
            made = made.to(format)
            assert (made.format, made.device) == (format, "cuda")
        back = made.to("cpu").to_scipy()
        np.testing.assert_array_equal(back.indptr, indptr)
        np.testing.assert_array_equal(back.indices, columns)
        np.testing.assert_array_equal(back.data, values)


def test_the_current_stream_is_used() -> None:
    A, x = ow.tensor(MATRICES["random"], name="A").to("cuda"), cp.ones(900)
    y = ow.empty((1000,), name="y")
    kernel = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=ow.tensor(x, name="x"))
    kernel = kernel.compile(target="cuda")
    with cp.cuda.Stream(non_blocking=True) as stream:
        got = kernel()
        stream.synchronize()
        np.testing.assert_allclose(got.to_numpy(), MATRICES["random"].sum(axis=1))


@pytest.mark.parametrize("recipe", [None, r.position_split], ids=["default", "positions"])
def test_repeated_calls_become_a_graph(recipe: Any) -> None:
    """Each has a result of its own, reads what operands hold by then, and minds other streams."""
    A, x = MATRICES["random"], cp.ones(900)
    y = ow.empty((1000,), name="y")
    stmt = ow.parse(
        "y(i) = A(i,j) * x(j)", y=y, A=ow.tensor(A, name="A").to("cuda"), x=ow.tensor(x, name="x")
    )
    kernel = (stmt if recipe is None else recipe(stmt)).compile(target="cuda")
    expected, made = A.sum(axis=1), []
    for number in range(100):
        x[...] = number
        if number % 10 == 7:
            cp.cuda.Stream.null.synchronize()
            with cp.cuda.Stream(non_blocking=True) as stream:
                made.append(kernel())
                stream.synchronize()
        else:
            made.append(kernel())
    for number, each in enumerate(made):
        np.testing.assert_allclose(each.to_numpy(), number * expected, rtol=1e-12)
    assert any(ready._graph is not None for ready in kernel._warm._ready)


def test_threads_have_graphs_of_their_own() -> None:
    A, x = MATRICES["random"], cp.ones(900)
    y = ow.empty((1000,), name="y")
    kernel = ow.parse(
        "y(i) = A(i,j) * x(j)", y=y, A=ow.tensor(A, name="A").to("cuda"), x=ow.tensor(x, name="x")
    ).compile(target="cuda")
    kernel()

    def many(_: int) -> list[Any]:
        return [kernel() for _ in range(100)]

    with ThreadPoolExecutor(4) as pool:
        made = [each for results in pool.map(many, range(4)) for each in results]
    for each in made:
        np.testing.assert_allclose(each.to_numpy(), A.sum(axis=1), rtol=1e-12)


def test_too_much_memory_is_an_error_and_later_calls_work() -> None:
    n = 1 << 21
    a = ow.tensor(cp.ones(n, dtype=np.float32), name="a")
    b = ow.tensor(cp.ones(n, dtype=np.float32), name="b")
    C = ow.placeholder("C", order=2, dtype="float32")
    kernel = ow.parse("C(i,j) = a(i) * b(j)", C=C, a=a, b=b).compile(target="cuda")
    with pytest.raises(MemoryError):
        kernel()
    c = ow.tensor(cp.ones(3, dtype=np.float32), name="a")
    assert kernel(a=c, b=c).to_numpy().sum() == 9


def test_rows_without_atomics_are_bit_identical() -> None:
    A = MATRICES["skewed"].astype("float32")
    x = cp.asarray(rng.standard_normal(A.shape[1]).astype("float32"))
    y = ow.empty((A.shape[0],), dtype="float32", name="y")
    stmt = ow.parse(
        "y(i) = A(i,j) * x(j)", y=y, A=ow.tensor(A, name="A").to("cuda"), x=ow.tensor(x, name="x")
    )
    kernel = r.group_per_row(stmt, 8).compile(target="cuda")
    first = cp.asnumpy(kernel().to_cupy()).tobytes()
    assert all(cp.asnumpy(kernel().to_cupy()).tobytes() == first for _ in range(200))


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("what", ["spmv", "spmm", "spgemm"])
def test_deterministic_kernels_are_bit_identical(name: str, what: str) -> None:
    A = MATRICES[name].astype("float32")
    a = ow.tensor(A, name="A").to("cuda")
    if what == "spgemm":
        B = A.T.tocsr()
        b, C = (
            ow.tensor(B, name="B").to("cuda"),
            ow.empty((A.shape[0],) * 2, format=ow.CSR, dtype="float32", name="C"),
        )
        stmt = ow.parse("C(i,k) = A(i,j) * B(j,k)", A=a, B=b, C=C)
    else:
        columns = () if what == "spmv" else (8,)
        dense = cp.asarray(rng.standard_normal((A.shape[1], *columns)).astype("float32"))
        text = "C(i) = A(i,j) * B(j)" if what == "spmv" else "C(i,k) = A(i,j) * B(j,k)"
        C = ow.empty((A.shape[0], *columns), dtype="float32", name="C")
        stmt = ow.parse(text, A=a, B=ow.tensor(dense, name="B"), C=C)
    kernel = stmt.compile(target="cuda", deterministic=True)
    first = kernel().storage.values.view(cp.uint32)
    assert all(bool((kernel().storage.values.view(cp.uint32) == first).all()) for _ in range(200))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("text", ["A(i,j) * B(j,k)", "A(i,k) + B(i,k)", "A(i,k) * B(i,k)"])
def test_sparse_results(name: str, text: str, dtype: str) -> None:
    A = cast(MATRICES[name], dtype)
    if "j" in text:
        B = A.T.tocsr()
        expected = sp.csr_array(A @ B)
    else:
        B = A[::-1].tocsr()
        expected = sp.csr_array(A + B if "+" in text else A * B)
    shape = expected.shape
    a, b = (ow.tensor(m, name=n).to("cuda") for m, n in ((A, "A"), (B, "B")))
    C = ow.empty(shape, format=ow.CSR, dtype=expected.dtype, name="C")
    kernel = ow.parse(f"C(i,k) = {text}", A=a, B=b, C=C).compile(target="cuda")
    for _ in range(2):
        made = kernel().to("cpu").to_scipy()
        assert made.has_sorted_indices
        difference = abs(made - expected)
        scale = abs(expected).max() if expected.nnz else 1
        limit = 1e-4 if dtype in ("float32", "complex64") else 1e-11
        assert (difference.max() if difference.nnz else 0) <= limit * scale


@pytest.mark.parametrize("exact", [False, True], ids=["atomic", "exact"])
@pytest.mark.parametrize("tier", tiers.TIERS)
@pytest.mark.parametrize("dtype", [*DTYPES, "int8"])
def test_products_that_no_near_table_holds(
    dtype: str, tier: str, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiers.make_all(tier, monkeypatch)
    A = cast(MATRICES["skewed"], dtype)
    B = A.T.tocsr()
    a, b = (ow.tensor(m, name=n).to("cuda") for m, n in ((A, "A"), (B, "B")))
    C = ow.empty((700, 700), format=ow.CSR, dtype=dtype, name="C")
    stmt = ow.parse("C(i,k) = A(i,j) * B(j,k)", A=a, B=b, C=C)
    kernel = stmt.compile(target="cuda", deterministic=exact)
    for _ in range(2):
        made = kernel().to("cpu").to_scipy()
        assert made.has_sorted_indices
        agrees(made.toarray(), (A @ B).toarray(), dtype)


RECORDS = [ow.entry.quaternion("float32"), ow.entry.block(3, 3), ow.entry.complex()]


@pytest.mark.parametrize("kind", RECORDS, ids=str)
def test_records_are_converted_on_the_gpu(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between rows, columns and lists, and from dense arrays, without the host."""
    M = MATRICES["random"].tocoo()
    numbers = rng.standard_normal((M.nnz, *kind.shape))
    plain = ow.tensor((np.array(M.coords), numbers), shape=M.shape, dtype=kind, format=ow.CSR)
    A = plain.to("cuda")
    monkeypatch.setattr(DeviceStorage, "host", None)
    made = [A.to(ow.CSC), A.to(ow.COO(2)), A.to(ow.CSC).to(ow.CSR), A.to(ow.COO(2)).to(ow.CSR)]
    soa = A.to(ow.CSC.with_layout("SoA"))
    dense = ow.tensor(plain.to_numpy(), dtype=kind).to("cuda")
    made += [soa, dense.to(ow.CSR), dense.to(ow.COO(2))]
    monkeypatch.undo()
    for each in made:
        assert each.device == "cuda"
        np.testing.assert_array_equal(each.to("cpu").to_numpy(), plain.to_numpy())


@pytest.mark.parametrize("assign", ["stride", "dynamic", "dynamic,chunk=3"])
@pytest.mark.parametrize("kind", RECORDS[:1], ids=str)
def test_constant_grids_of_records_again_and_again(kind: Any, assign: str) -> None:
    """The counter of a dynamic grid begins anew in each launch, also in those that are replayed."""
    M = MATRICES["random"].tocoo()
    numbers = rng.standard_normal((M.nnz, *kind.shape))
    A = ow.tensor((np.array(M.coords), numbers), shape=M.shape, dtype=kind, name="A", format=ow.CSR)
    x = ow.tensor(rng.standard_normal((M.shape[1], *kind.shape)), dtype=kind, name="x")
    y = ow.empty(M.shape[0], dtype=kind, name="y")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A.to("cuda"), x=x.to("cuda"))
    text = f"""split(i,tile,row,64), divide(tile,turn,t1,4,assign={assign}),
        parallelize(turn,GPUBlock), parallelize(row,GPUThread)"""
    kernel = stmt.schedule(text).compile(target="cuda")
    for turn in range(12):
        other = x.to_numpy() * (turn + 1)
        got = kernel(x=ow.tensor(other, dtype=kind, name="x").to("cuda")) if turn % 3 else kernel()
        wanted = (A @ x).to_numpy() * (turn + 1 if turn % 3 else 1)
        np.testing.assert_allclose(got.to_numpy(), wanted, 1e-3, 1e-2)


@pytest.mark.parametrize("format", [ow.CSR, ow.SELL(32), ow.DCSR, ow.COO(2)], ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ternary_layouts(format: ow.Format, dtype: str) -> None:
    M = MATRICES["random"].copy()
    M.data = rng.choice([-1.0, 1.0], M.nnz)
    A = ow.tensor(M, format=format, dtype=dtype, name="A").to("cuda")
    signs = A.to(format.with_layout("ternary"))
    assert (signs.device, signs.format.layout) == ("cuda", "ternary")
    x = ow.tensor(rng.standard_normal(M.shape[1]).astype(dtype), name="x")
    y = ow.empty(M.shape[0], dtype=dtype, name="y")
    kernel = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=signs, x=x.to("cuda")).compile(target="cuda")
    for _ in range(3):
        np.testing.assert_allclose(kernel().to_numpy(), M @ x.to_numpy(), 1e-4, 1e-4)
    assert signs.to("cpu").equals(A.to("cpu"))


@pytest.mark.parametrize("layout", ["AoS", "SoA", "AoSoA(32)", "packed"])
@pytest.mark.parametrize("format", [ow.CSR, ow.ELL, ow.SELL(16), ow.SELL(32), ow.DCSR], ids=repr)
@pytest.mark.parametrize(
    ("kind", "other"),
    [
        (ow.entry.quaternion("float32"), ow.entry.quaternion("float32")),
        (ow.entry.block(3, 3), ow.entry.vector(3)),
        (ow.entry.complex("float32"), ow.entry.complex("float32")),
    ],
    ids=str,
)
def test_layouts(kind: Any, other: Any, format: ow.Format, layout: str) -> None:
    """Laid out on the GPU, multiplied in every layout of the vectors, and added."""
    M = MATRICES["random"].tocoo()
    numbers = rng.standard_normal((M.nnz, *kind.shape))
    coords = np.array(M.coords)
    plain = ow.tensor((coords, numbers), shape=M.shape, dtype=kind, format=format, name="A")
    A = plain.to("cuda").to(format.with_layout(layout))
    x = ow.tensor(rng.standard_normal((M.shape[1], *other.shape)), dtype=other, name="x")
    wanted = (plain @ x).to_numpy()
    for vector in ("AoS", "SoA", "AoSoA(32)"):
        dense = ow.dense(1).with_layout(vector)
        y = ow.empty(M.shape[0], dtype=other, format=dense, name="y")
        u = x.to("cuda").to(dense)
        kernel = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=u).compile(target="cuda")
        for _ in range(3):
            got = kernel()
            assert (got.device, got.format) == ("cuda", dense)
            np.testing.assert_allclose(got.to_numpy(), wanted, 1e-3, 1e-3)
    np.testing.assert_allclose((A + A).to_numpy(), 2 * plain.to_numpy(), 1e-6)
    assert A.to("cpu").equals(plain)
