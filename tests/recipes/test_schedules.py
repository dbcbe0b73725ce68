"""The GPU schedules of the papers, and the recipes, under the emulator against NumPy.

All texts of this file are compiled in one go; each kernel runs with blocks and threads forwards,
backwards and shuffled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import scipy.sparse as sp
from examples import gpu_schedules as examples
from tests.gpu.batch import Batch
from tests.gpu.nvrtc import compile_text, library, registers

import openwork as ow
from openwork import recipes as r
from openwork.pipeline import CompiledCuda
from openwork.recipes.devices.tables import H200
from openwork.tensor.kernel.gpu import GpuTarget

pytestmark = pytest.mark.needs_cc
rng = np.random.default_rng(0)
MATRIX = sp.random(90, 70, 0.08, format="csr", random_state=rng)
VECTOR = rng.random(70)
DENSE = rng.random((70, 128))
COORDS = rng.integers(0, [[20], [30], [25]], (3, 400))
A, x = ow.tensor(MATRIX, name="A"), ow.tensor(VECTOR, name="x")
X = ow.tensor((COORDS, rng.random(400)), shape=(20, 30, 25), format=ow.CSF(3), name="X")
F, G = (ow.tensor(rng.random((n, 32)), name=name) for n, name in ((30, "F"), (25, "G")))
S, Q = rng.random((90, 32)), rng.random((70, 32))
COORDS4 = rng.integers(0, [[20], [30], [25], [30]], (4, 500))
ROWS_OF_TREES = ow.Format([ow.Dense, *[ow.Compressed] * 3])
X4 = ow.tensor((COORDS4, rng.random(500)), shape=(20, 30, 25, 30), name="Y")


def spmv() -> Any:
    return ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty((90,), name="y"), A=A, x=x)


def spmm(columns: int = 128) -> Any:
    B = ow.tensor(DENSE[:, :columns].copy(), name="B")
    C = ow.empty((90, columns), name="C")
    return ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=A, B=B)


def spmm_float32(columns: int) -> Any:
    narrow = ow.tensor(MATRIX.astype("float32"), name="A")
    B = ow.tensor(DENSE[:, :columns].astype("float32"), name="B")
    C = ow.empty((90, columns), dtype="float32", name="C")
    return ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=narrow, B=B)


def mttkrp() -> Any:
    M = ow.empty((20, 32), name="M")
    return ow.parse("M(i,j) = X(i,k,l) * F(k,j) * G(l,j)", M=M, X=X, F=F, G=G)


def mttkrp4(format: Any = None) -> Any:
    N, Y = ow.empty((20, 32), name="N"), X4.to(format or ow.CSF(4))
    text = "N(i,j) = Y(i,k,l,m) * F(k,j) * G(l,j) * F(m,j)"
    return ow.parse(text, N=N, Y=Y.rename("Y"), F=F, G=G)


def sddmm() -> Any:
    D = ow.empty((90, 70), format=ow.CSR, name="D")
    P, R = ow.tensor(S, name="P"), ow.tensor(Q, name="Q")
    return ow.parse("D(i,k) = A(i,k) * P(i,j) * Q(k,j)", D=D, A=A, P=P, Q=R)


def ttv() -> Any:
    v = ow.tensor(G.to_numpy()[:, 0].copy(), name="v")
    return ow.parse("V(i,j) = X(i,j,k) * v(k)", V=ow.empty((20, 30), name="V"), X=X, v=v)


def ttm() -> Any:
    return ow.parse("T(i,j,l) = X(i,j,k) * G(k,l)", T=ow.empty((20, 30, 32), name="T"), X=X, G=G)


def outer() -> Any:
    """A product without a sum: rows have no loop inside of their columns."""
    u = ow.tensor(DENSE[:, 0] * (DENSE[:, 0] > 0.5), format=ow.Format([ow.Compressed]), name="u")
    O, v = ow.empty((len(DENSE), 32), name="O"), ow.tensor(DENSE[0, :32].copy(), name="v")
    return ow.parse("O(i,k) = u(i) * v(k)", O=O, u=u, v=v)


APPENDIX = {
    **{name: (spmv, text) for name, text in examples.SCHEDULES.items()},
    **{name: (mttkrp, text) for name, text in examples.MTTKRP.items()},
    **{name: (lambda n=n: spmm(n), text) for (name, n), text in examples.SPMM.items()},
    "Sgap 3, <4 nnz, 2 col>": (lambda: spmm(8), examples.entries_and_columns(4, 2, 8, 64)),
    "Sgap 4, <2 row, 4 col>": (spmm, examples.rows_and_columns(2, 4, 128, 512)),
    "Sgap 5, <1/8 row, 2 col>, 8": (lambda: spmm(4), examples.parts_of_rows(8, 2, 8, 256)),
    **{
        f"{what} in several rounds": (
            spmv,
            f"""fuse(i,j,f), pos(f,p,A), split(p,b,q,4096), split(q,t,n,2),
                parallelize(b,GPUBlock,IgnoreRaces), parallelize(t,{how})""",
        )
        for what, how in (
            ("threads", "GPUThread,Atomics"),
            ("groups", "GPUGroup,group_size=16,reduction=segment"),
        )
    },
    "Sgap 6, <1 nnz, 1 col>, 16": (lambda: spmm(4), examples.entries_in_segments(1, 16, 4, 256)),
}
RECIPES = {
    "thread per row": lambda: r.thread_per_row(spmv()),
    "warp per row": lambda: r.warp_per_row(spmv()),
    "group per row": lambda: r.group_per_row(spmv(), 4),
    "group per row, four entries in flight": lambda: r.group_per_row(spmv(), 8, unroll=4),
    "block per row": lambda: r.group_per_row(spmv(), 64, unroll=4),
    "position split": lambda: r.position_split(spmv(), 5),
    "segments": lambda: r.position_segments(spmv()),
    "segments of runs": lambda: r.position_segments(spmv(), 3, 8),
    "staged": lambda: r.position_staged(spmv(), 2, 8, 64),  # rows span tiles
    "staged TTV": lambda: r.position_staged(ttv(), 1, 4),
    "TTV": lambda: r.position_split(ttv()),
    "SpMM rows": lambda: r.spmm_rows(spmm(32)),
    "rows of an outer product": lambda: r.spmm_rows(outer()),
    "SpMM shared rows": lambda: r.spmm_rows(spmm_float32(32), unroll=8, threads=64, at_once=4),
    "SpMM shared rows, odd columns": lambda: r.spmm_rows(spmm(5), unroll=4, threads=96, at_once=4),
    "SpMM shared rows, narrow tiles": lambda: r.spmm_rows(
        spmm_float32(128), unroll=8, threads=64, at_once=4, lanes=8
    ),
    "SpMM narrow tiles": lambda: r.spmm_rows(spmm_float32(128), lanes=8),
    "float32 positions, narrow tiles": lambda: r.spmm_positions(spmm_float32(128), 16, lanes=8),
    "SpMM shared by threads": lambda: r.spmm_rows(spmm_float32(4), at_once=8),
    "SpMM strips": lambda: r.spmm_rows(spmm(128)),
    "SpMM odd columns": lambda: r.spmm_rows(spmm(5)),
    "SpMM positions": lambda: r.spmm_positions(spmm(32), 16),
    "SpMM tiles": lambda: r.spmm_tiles(spmm(32), 16),
    "SpMM tiles, strips": lambda: r.spmm_tiles(spmm(128), 7, threads=96),
    "SpMM tiles, 5 columns": lambda: r.spmm_tiles(spmm(5), 32),
    "float32 tiles": lambda: r.spmm_tiles(spmm_float32(128), 16),
    "float32 positions": lambda: r.spmm_positions(spmm_float32(32), 16),
    "float32 positions, pairs": lambda: r.spmm_positions(spmm_float32(6), 4),
    "float32 positions, 8 each": lambda: r.spmm_positions(spmm_float32(32), 4, vector=8),
    "float32 positions, 6 each": lambda: r.spmm_positions(spmm_float32(96), 4, vector=6),
    "float32 staged": lambda: r.spmm_staged(spmm_float32(4), 2, 8, resident=512),
    "SpMM staged": lambda: r.spmm_staged(spmm(4), 2, 8),
    "SpMM staged, 5 columns": lambda: r.spmm_staged(spmm(5), 1, 2),
    "MTTKRP": lambda: r.spmm_positions(mttkrp()),
    "MTTKRP rows": lambda: r.spmm_rows(mttkrp()),
    "MTTKRP of order 4": lambda: r.spmm_positions(mttkrp4()),
    "MTTKRP of order 4, rows": lambda: r.spmm_rows(mttkrp4()),
    "MTTKRP of order 4, dense rows": lambda: r.spmm_rows(
        mttkrp4(ow.Format([ow.Dense, *[ow.Compressed] * 3]))
    ),
    "TTM": lambda: r.spmm_positions(ttm()),
    "TTM rows": lambda: r.spmm_rows(ttm()),
    "SDDMM": lambda: r.sddmm(sddmm(), 4),
    "16 nnz, 4 col": lambda: r.atomic_parallel(spmm(4), nnz=16, col=4),
    "1 nnz, 4 col, 32": lambda: r.atomic_parallel(spmm(4), nnz=1, col=4, group=32),
    "2 row, 2 col": lambda: r.atomic_parallel(spmm(4), row=2, col=2),
    "1/8 row, 4 col, 8": lambda: r.atomic_parallel(spmm(4), row=1 / 8, col=4, group=8),
    "default SpMV": spmv,
    "default SpMM": lambda: spmm(32),
    "default SDDMM": sddmm,
    "default MTTKRP": mttkrp,
}


def expected(stmt: Any) -> Any:
    """What a statement gives, by NumPy."""
    name = stmt.assignment.lhs.tensor.name
    dense, f, g = X.to_numpy(), F.to_numpy(), G.to_numpy()
    if name == "C":
        return MATRIX @ DENSE[:, : stmt.assignment.lhs.tensor.shape[1]]
    return {
        "y": lambda: MATRIX @ VECTOR,
        "M": lambda: np.einsum("ikl,kj,lj->ij", dense, f, g),
        "N": lambda: np.einsum("iklm,kj,lj,mj->ij", X4.to_numpy(), f, g, f, optimize=True),
        "D": lambda: MATRIX.toarray() * (S @ Q.T),
        "V": lambda: np.einsum("ijk,k->ij", dense, g[:, 0]),
        "O": lambda: np.outer(DENSE[:, 0] * (DENSE[:, 0] > 0.5), DENSE[0, :32]),
        "T": lambda: np.einsum("ijk,kl->ijl", dense, g),
    }[name]()


@pytest.fixture(scope="module")
def kernels() -> dict[str, tuple[Any, Any]]:
    batch, made = Batch(), {}
    statements = {name: make().schedule(text) for name, (make, text) in APPENDIX.items()}
    statements |= {name: make() for name, make in RECIPES.items()}
    for name, stmt in statements.items():
        kernel = stmt.compile("cuda-emulated", loader=batch)
        batch.expect(cast(CompiledCuda, kernel._launcher.compiled))
        made[name] = (stmt, kernel)
    return made


@pytest.mark.parametrize("name", [*APPENDIX, *RECIPES])
def test_agrees_with_numpy(kernels: dict[str, tuple[Any, Any]], name: str) -> None:
    stmt, kernel = kernels[name]
    near = 1e-5 if stmt.assignment.lhs.dtype == "float32" else 1e-7
    for order in range(3):
        kernel._launcher.device.order = order
        np.testing.assert_allclose(
            kernel().to_numpy(), expected(stmt), rtol=near, err_msg=kernel.source
        )


@pytest.mark.skipif(library() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc")
@pytest.mark.parametrize("name", [*APPENDIX, *RECIPES])
def test_compiles_for_a_gpu_and_spills_little(
    kernels: dict[str, tuple[Any, Any]], name: str
) -> None:
    _, kernel = kernels[name]
    used = registers(compile_text(kernel.source))
    assert used
    most = 85 if "768 threads resident" in kernel.source else 64
    for count, stack in used.values():
        # A.2 keeps the products of an incomplete run in local memory.
        assert count <= most and stack <= (56 if name.startswith("A.2") else 16), used


def test_texts_say_what_the_schedule_asks_for(kernels: dict[str, tuple[Any, Any]]) -> None:
    def source(name: str) -> str:
        return str(kernels[name][1].source)

    assert "__shared__" in source("staged") and "__syncthreads();" in source("staged")
    assert "Vector<double, 2>" in source("SpMM rows")
    assert "of_segment" in source("segments") and "of_lanes" in source("group per row")
    assert "atomicAdd" not in source("group per row")
    assert "_tiles1_" in source("position split")  # an inspector found where tiles begin
    assert "typedef int index_t;" in source("SpMM rows")
    assert "__launch_bounds__(256, 2)" in source("float32 staged")
    assert "__launch_bounds__(256)" in source("SpMM staged")


def test_neighbours_are_added_to_at_once(kernels: dict[str, tuple[Any, Any]]) -> None:
    """Where the GPU can: several numbers of one type, in its memory."""
    for name, (_, kernel) in kernels.items():
        if name.startswith("float32"):
            assert "add_vector(&R_vals[" in kernel.source, name
            assert "atomicAdd(&R_vals[" not in kernel.source, name
        else:
            assert "add_vector" not in kernel.source, name


def test_neighbours_in_shared_memory_are_added_to_one_by_one() -> None:
    text = """bound(k,column,4,MaxExact), order(i,j,column), pos(j,place,A),
        precompute(A(i,j) * B(j,k),column,sums), unroll(sums),
        parallelize(i,GPUBlock,NoRaces), parallelize(place,GPUThread,Atomics)"""
    kernel = spmm_float32(4).schedule(text).compile("cuda-emulated")
    assert "__shared__" in kernel.source and "atomicAdd(&W_vals[" in kernel.source
    assert "add_vector" not in kernel.source
    np.testing.assert_allclose(kernel().to_numpy(), expected(spmm(4)), rtol=1e-5)


ILLEGAL = [
    ("parallelize(i,GPUThread,NoRaces), parallelize(j,GPUBlock,Atomics)", "E315", "not inside"),
    ("split(i,a,b,4), parallelize(a,GPUBlock,NoRaces), parallelize(b,CPUThread,NoRaces)", "E315",
     "CPU or on a GPU"),
    ("parallelize(j,GPUThread,NoRaces)", "E307", "same entries"),
    ("parallelize(j,GPUBlock,ParallelReduction)", "E307", "blocks cannot synchronize"),
    ("parallelize(i,GPUGroup,group_size=8,reduction=parallel)", "E307", "nothing to combine"),
    ("fuse(i,j,f), pos(f,p,A), split(p,b,t,32), "
     "parallelize(t,GPUGroup,group_size=8,reduction=parallel)", "E307", "reduction=segment"),
    ("parallelize(j,GPUGroup,group_size=7)", "E303", "a group cannot have 7 threads"),
    ("parallelize(j,GPUGroup,group_size=8,reduction=tree)", "E303", "parallel and segment"),
    ("parallelize(i,GPUThread,NoRaces,group_size=8)", "E303", "GPUGroup"),
    ("parallelize(i,GPUThread,NoRaces,chunk=8)", "E303", "no chunks"),
    ("parallelize(i,GPUThread,NoRaces,resident=512)", "E303", "which has no launch bounds"),
    ("parallelize(i,GPUBlock,NoRaces,resident=16)", "E303", "16 threads cannot be resident"),
    ("parallelize(i,CPUThread,NoRaces,resident=512)", "E303", "which has no launch bounds"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "words"), ILLEGAL)
def test_illegal_schedules(text: str, code: str, words: str) -> None:
    with pytest.raises(ow.ScheduleError, match=words) as caught:
        spmv().schedule(text)
    assert caught.value.code == code and caught.value.hint


def test_a_nest_for_a_gpu_is_not_compiled_for_a_cpu() -> None:
    with pytest.raises(ow.ScheduleError, match="E315"):
        r.thread_per_row(spmv()).compile()


@pytest.mark.parametrize(
    "point",
    [
        {"nnz": 0.5, "col": 4}, {"nnz": 4, "col": 0.5}, {"row": 1 / 8, "group": 16},
        {"row": 1 / 8, "col": 0.5, "group": 8}, {"row": 1, "group": 8}, {"nnz": 1, "row": 1},
        {"nnz": 1, "group": 3}, {"row": 0.3, "group": 32}, {},
    ],
)  # fmt: skip
def test_illegal_points_of_atomic_parallelism(point: dict[str, Any]) -> None:
    with pytest.raises(ow.ScheduleError, match="E316"):
        r.atomic_parallel(spmm(4), **point)


def test_too_many_columns_to_stage() -> None:
    with pytest.raises(ow.ScheduleError, match="shared memory") as caught:
        r.spmm_staged(spmm(64))
    assert "E316" in str(caught.value)


def test_tiles_are_for_a_matrix_in_rows() -> None:
    B = ow.tensor(DENSE[:90].copy(), name="B")
    across = ow.parse("C(j,k) = A(i,j) * B(i,k)", C=ow.empty((70, 128)), A=A, B=B)
    for stmt in (mttkrp(), across):
        with pytest.raises(ow.ScheduleError, match="stored by rows of the result") as caught:
            r.spmm_tiles(stmt)
        assert caught.value.code == "E316"


def test_what_is_read_once_passes_the_cache_by() -> None:
    """In a complete tile, without a guard; not where neighbours take parts of a line."""
    staged = r.position_staged(spmv(), 4, 2).compile(target="cuda").source
    assert "__ldcs(&A_crd2[p])" in staged
    assert "p1_2_at < 1024; p1_2_at += 256" in staged
    assert "__ldcs" not in r.group_per_row(spmv(), 4).compile(target="cuda").source


def test_schedules_read_back() -> None:
    for stmt in (
        r.group_per_row(spmv(), 8),
        r.spmm_positions(spmm(32)),
        r.spmm_tiles(spmm(32)),
        r.spmm_rows(mttkrp()),
        r.sddmm(sddmm()),
    ):
        base = type(stmt)(stmt.assignment)
        assert str(base.schedule(stmt.commands).loops) == str(stmt.loops)


def test_which_recipe_a_tensor_gets() -> None:
    """Rows that are alike are walked by a few threads each; along others, threads share entries."""
    rows = np.repeat(np.arange(20_000), 60)
    for lengths, walks in ((rows, False), (rows // 200, True)):
        coords = np.stack([lengths, *rng.integers(0, [[30], [25]], (2, len(rows)))])
        many = ow.tensor((coords, rng.random(len(rows))), shape=(20_000, 30, 25), name="X")
        M = ow.empty((20_000, 32), name="M")
        stmt = ow.parse("M(i,j) = X(i,k,l) * F(k,j) * G(l,j)", M=M, X=many.to(ow.CSF(3)), F=F, G=G)
        source = stmt.compile(target="cuda").source
        assert ("GPUThread, Atomics" in source) == walks


@pytest.mark.parametrize(
    ("rows", "share", "dtype", "tiled"),
    [(40, 0.1, "float32", True), (40, 0.1, "float64", False), (40, 0.25, "float64", True),
     (40, 0.05, "float32", False), (1100, 0.1, "float32", False)],
)  # fmt: skip
def test_few_rows_that_fill_tiles_get_them(
    rows: int, share: float, dtype: str, tiled: bool
) -> None:
    length = int(60_000 * share)
    pattern = np.tile(np.arange(length) * (60_000 // length), (rows, 1))
    pattern[0] = np.arange(length)
    indptr = np.arange(rows + 1) * length
    values = np.ones(rows * length, dtype)
    wide = sp.csr_matrix((values, pattern.ravel(), indptr), shape=(rows, 60_000))
    stmt = ow.parse(
        "C(i,k) = A(i,j) * B(j,k)",
        C=ow.placeholder("C", order=2, dtype=dtype),
        A=ow.tensor(wide, name="A"),
        B=ow.tensor(np.zeros((60_000, 128), dtype)),
    )
    source = str(stmt.compile(target="cuda").source)
    assert ("divide(" in source) == tiled


KINDS = {
    "y(j) = A(i,j) * u(i)": "split(tile, entry, thread, 256)",
    "S(i,j) = A(i,j) * x(j)": "split(tile, entry, thread, 256)",
    "D(i,j) = A(i,j) * x(j)": "split(tile, entry, thread, 256)",
    "s() = A(i,j)": "ParallelReduction",
    "C(j,k) = A(i,j) * B(i,k)": "fuse(i, j, fused)",
    "T(i,j,k) = A(i,j) * B(i,k)": "GPUThread, NoRaces",
    "D(i,j) = E(i,j) * x(j)": "fuse(i, j, element)",
    "y(i) = E(i,j) * x(j)": "GPUGroup of 32, parallel reduction",
    "s() = E(i,j)": "ParallelReduction",
}


@pytest.mark.parametrize("text", KINDS)
def test_statements_other_than_products_have_recipes(text: str) -> None:
    """Threads side by side find entries, or elements, side by side."""
    numbers = np.random.default_rng(0)
    pattern = sp.random(90, 70, 0.2, format="csr", random_state=numbers)
    uneven = sp.vstack([pattern, sp.csr_matrix(np.ones((1, 70)))]).tocsr()
    arrays = {"u": numbers.random(91), "x": numbers.random(70), "B": numbers.random((91, 8))}
    arrays["E"] = numbers.random((91, 70))
    operands = {name: ow.tensor(a, name=name) for name, a in arrays.items() if f"{name}(" in text}
    if "A(" in text:
        operands["A"] = ow.tensor(uneven, name="A")
    name, order = text.partition("(")[0], text.partition(")")[0].count(",") + ("()" not in text)
    format = ow.CSR if name == "S" else ow.dense(order)
    stmt = ow.parse(text, **{name: ow.placeholder(name, order=order, format=format)}, **operands)
    kernel = stmt.compile(target="cuda-emulated")
    assert KINDS[text] in kernel.source
    result = kernel()
    assert result.format == format
    np.testing.assert_allclose(result.to_numpy(), stmt.compile()().to_numpy(), rtol=1e-12)


def test_long_rows_that_are_alike_are_walked_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they reach further than a cache; not where they are near the diagonal, or differ."""
    load, caches = replace(H200.load, much=0), replace(H200.caches, reused=0.2)
    monkeypatch.setattr(GpuTarget, "table", replace(H200, load=load, caches=caches))
    for reaches, longest, groups in ((60_000, 60, True), (300, 60, False), (60_000, 6_000, False)):
        lengths = np.full(600, 60)
        lengths[0] = longest
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        columns = [np.linspace(0, max(reaches, n) - 1, n).astype(np.int32) for n in lengths]
        values = np.ones(indptr[-1])
        wide = sp.csr_matrix((values, np.concatenate(columns), indptr), shape=(600, 60_000))
        vector = ow.tensor(np.ones(60_000), name="x")
        y = ow.empty((600,), name="y")
        stmt = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=ow.tensor(wide, name="A"), x=vector)
        assert ("parallel reduction" in stmt.compile(target="cuda").source) == groups


def _chosen(lengths: Any, columns: int, dtype: str, wide: int = 200_000) -> str:
    """The schedule that a matrix with rows of these lengths gets, times so many columns."""
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(indptr[-1]) - np.repeat(indptr[:-1], lengths)
    stride = np.repeat(wide // np.maximum(lengths, 1), lengths)
    arrays = np.ones(indptr[-1], dtype), (within * stride).astype(np.int32), indptr
    A = ow.tensor(sp.csr_matrix(arrays, shape=(len(lengths), wide)), name="A")
    shape = (wide, columns) if columns else (wide,)
    B = ow.tensor(np.zeros(shape, dtype), name="B")
    text = "C(i,k) = A(i,j) * B(j,k)" if columns else "C(i) = A(i,j) * B(j)"
    C = ow.placeholder("C", order=len(shape), dtype=dtype)
    source = str(ow.parse(text, C=C, A=A, B=B).compile(target="cuda").source)
    return source[source.index("// forall") : source.index('extern "C"')]


def test_a_row_that_many_add_to_is_added_up_before() -> None:
    """In shared memory, or by units that take more entries; as long as most rows have few."""
    lengths = np.full(100_000, 2)
    few, crowded = lengths.copy(), lengths.copy()
    few[0], crowded[0] = 2_500, 200_000
    assert "segment reduction" in _chosen(few, 0, "float64")
    assert "where" not in _chosen(few, 0, "float64")
    assert "where" in _chosen(crowded, 0, "float64")
    for lengths in (few, crowded):  # atomics of float32 are cheaper than that
        assert "GPUThread, Atomics" in _chosen(lengths, 0, "float32")
    assert "where" not in _chosen(few, 4, "float64")
    assert "where" in _chosen(crowded, 4, "float64")
    assert "split(tile, warp, entry, 4)" in _chosen(few, 32, "float32")
    assert "split(tile, warp, entry, 32)" in _chosen(crowded, 32, "float32")


def test_many_short_rows_have_a_thread_each() -> None:
    """Or one for each column, where rows are longer and find in the cache what others loaded."""
    short, longer = (_chosen(np.full(200_000, n), 4, "float64", 4_000) for n in (5, 20))
    for chosen in (short, longer):
        assert "fuse" not in chosen
        assert "GPUThread, NoRaces" in chosen
    assert "split(column, unit, part, 2)" in short
    assert "split(column, unit, part, 1)" in longer
    uneven = np.full(200_000, 5)
    assert "GPUThread, NoRaces" in _chosen(uneven, 0, "float64", 4_000)
    uneven[0] = 1_000
    assert "fuse" in _chosen(uneven, 4, "float64", 4_000)
    assert "fuse" in _chosen(uneven, 0, "float64", 4_000)


@pytest.mark.parametrize("group", [0, -1, 48, 512])
@pytest.mark.parametrize("recipe", [r.group_per_row, r.position_staged, r.grid_rows])
def test_groups_that_a_block_does_not_have_are_refused(recipe: Any, group: int) -> None:
    """By the recipe, or where it makes a group of a loop; 0 stood for the usual size there."""
    with pytest.raises(ow.ScheduleError) as caught:
        recipe(spmv(), group=group)
    assert caught.value.code in ("E303", "E316")
