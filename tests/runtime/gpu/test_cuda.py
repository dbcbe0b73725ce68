"""The runtime for a GPU, with a stand-in for CuPy: what stays on the GPU, and what comes back."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.choices import in_turns
from tests.runtime.gpu.stand_in import Emulated, module, modules
from tests.skeletons import listings

import openwork as ow
from openwork.runtime.gpu.cuda import Cuda, DeviceStorage
from openwork.tensor.convert import convert as conversion, rows
from openwork.tensor.eager import KERNELS
from openwork.tensor.exchange.validate import validate

pytestmark = pytest.mark.needs_cc
MATRIX = sp.random(40, 30, 0.2, format="csr", random_state=np.random.default_rng(0))
VECTOR = np.random.default_rng(1).random(30)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    cupy = module()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    for each in modules():
        monkeypatch.setitem(sys.modules, each.__name__, each)
    for name in ("load", "launch", "ready", "numbers", "fill"):
        monkeypatch.setattr(Cuda, name, getattr(Emulated, name))
    monkeypatch.setattr(Cuda, "blocks", property(lambda self: 3))
    yield cupy


def test_without_cupy_the_text_is_there_and_running_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    kernel = spmv(ow.tensor(MATRIX, name="A"), ow.tensor(VECTOR, name="x")).compile(target="cuda")
    assert 'extern "C" __global__' in kernel.source
    with pytest.raises(ow.ToolchainError, match=r"openwork\[cuda\]") as caught:
        kernel()
    assert caught.value.code == "E607"
    with pytest.raises(ow.ToolchainError, match="E607"):
        ow.tensor(VECTOR).to("cuda")


def spmv(A: ow.Tensor, x: ow.Tensor) -> ow.Statement:
    return ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty((40,), name="y"), A=A, x=x)


def test_operands_in_main_memory_give_a_result_there(gpu: Any) -> None:
    kernel = spmv(ow.tensor(MATRIX, name="A"), ow.tensor(VECTOR, name="x")).compile(target="cuda")
    for _ in range(2):
        y = kernel()
        assert y.device == "cpu"
        np.testing.assert_allclose(y.to_numpy(), MATRIX @ VECTOR)


def test_operands_on_the_gpu_give_a_result_there(gpu: Any) -> None:
    A, x = ow.tensor(MATRIX, name="A").to("cuda"), ow.tensor(gpu.asarray(VECTOR), name="x")
    assert (A.device, x.device) == ("cuda", "cuda")
    kernel = spmv(A, x).compile(target="cuda")
    for _ in range(3):
        y = kernel()
        assert y.device == "cuda"
        np.testing.assert_allclose(y.to_cupy().get(), MATRIX @ VECTOR)
    np.testing.assert_allclose(y.to_numpy(), MATRIX @ VECTOR)
    assert A.to("cpu").device == "cpu"
    np.testing.assert_allclose(A.to("cpu").to_scipy().toarray(), MATRIX.toarray())


def test_values_that_change_are_seen(gpu: Any) -> None:
    x = VECTOR.copy()
    kernel = spmv(ow.tensor(MATRIX, name="A"), ow.tensor(x, name="x")).compile(target="cuda")
    kernel()
    x *= 2
    np.testing.assert_allclose(kernel().to_numpy(), MATRIX @ x)


def test_a_result_with_a_pattern_of_its_own(gpu: Any) -> None:
    A = ow.tensor(MATRIX, name="A").to("cuda")
    B = ow.tensor(MATRIX * 2, name="B").to("cuda")
    C = ow.empty((40, 30), format=ow.CSR, name="C")
    kernel = ow.parse("C(i,j) = A(i,j) + B(i,j)", A=A, B=B, C=C).compile(target="cuda")
    got = kernel()
    assert got.device == "cuda"
    np.testing.assert_allclose(got.to_numpy(), 3 * MATRIX.toarray())


def test_operands_and_results_are_converted_on_the_gpu(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are transposed there; the code of a CPU must not see arrays of a GPU."""

    def refuse(*args: Any) -> None:
        raise AssertionError("arrays of a GPU were given to the code of a CPU")

    monkeypatch.setattr(rows, "transposed", refuse)
    A = ow.tensor(MATRIX, name="A").to("cuda")
    for text, shape, expected in (
        ("C(i,j) = A(j,i)", (30, 40), MATRIX.T),
        ("C(i,j) = A(i,k) * A(j,k)", (40, 40), MATRIX @ MATRIX.T),
        ("C(i,j) = A(k,i) * A(k,j)", (30, 30), MATRIX.T @ MATRIX),
    ):
        C = ow.empty(shape, format=ow.CSR, name="C")
        made = ow.parse(text, A=A, C=C).compile(target="cuda")()
        assert isinstance(made.storage, DeviceStorage)
        validate(made.storage.host(), "the result")
        np.testing.assert_allclose(made.to("cpu").to_numpy(), expected.toarray(), rtol=1e-13)
    turned = A.to(ow.CSC)
    assert isinstance(turned.storage, DeviceStorage)
    np.testing.assert_array_equal(turned.to("cpu").to_numpy(), MATRIX.toarray())
    empty = ow.tensor(sp.csr_array((3, 4)), name="E").to("cuda").to(ow.CSC)
    assert empty.to("cpu").nnz == 0


@pytest.mark.parametrize(
    "kind", [ow.entry.quaternion("float32"), ow.entry.block(2, 3), ow.entry.complex()], ids=str
)
def test_records_are_converted_on_the_gpu(
    gpu: Any, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = np.random.default_rng(0).standard_normal((MATRIX.nnz, *kind.shape))
    coords = np.array(MATRIX.tocoo().coords)
    plain = ow.tensor((coords, numbers), shape=MATRIX.shape, dtype=kind, format=ow.CSR)
    A, dense = plain.to("cuda"), ow.tensor(plain.to_numpy(), dtype=kind).to("cuda")
    with monkeypatch.context() as patched:
        patched.setattr(DeviceStorage, "host", None)
        made = [
            A.to(ow.CSC), A.to(ow.CSC).to(ow.CSR), A.to(ow.COO(2)), A.to(ow.COO(2)).to(ow.CSR),
            A.to(ow.CSC.with_layout("SoA")), dense.to(ow.CSR), dense.to(ow.COO(2)),
        ]  # fmt: skip
    for each in made:
        assert isinstance(each.storage, DeviceStorage)
        assert each.to("cpu").nnz == plain.nnz
        np.testing.assert_array_equal(each.to("cpu").to_numpy(), plain.to_numpy())


def test_ternary_layouts_are_made_on_the_gpu(gpu: Any) -> None:
    signs = MATRIX.copy()
    signs.data = np.sign(signs.data - signs.data.mean())
    A = ow.tensor(signs, name="A").to("cuda").to(ow.CSR.with_layout("ternary"))
    x = ow.tensor(np.arange(30.0), name="x").to("cuda")
    kernel = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(40, name="y"), A=A, x=x)
    made = kernel.compile(target="cuda")()
    np.testing.assert_allclose(made.to("cpu").to_numpy(), signs @ np.arange(30.0))
    assert A.to("cpu").equals(A.to(ow.CSR).to("cpu"))


TREE = np.random.default_rng(3).integers(0, [[9], [8], [7]], (3, 60))
FORMATS = [
    ow.dense(2), ow.dense(2, order=(1, 0)), ow.CSR, ow.CSC, ow.DCSR, ow.DCSC, ow.COO(2),
    ow.COO(2, order=(1, 0)), ow.LIL, ow.ELL, ow.DIA, ow.BSR(2, 5),
]  # fmt: skip


HOW = {
    "generated": (0, "float64"),
    "few entries": (1 << 18, "float64"),
    "whole numbers": (1 << 18, "int16"),  # which cuSPARSE does not know
}


@pytest.mark.parametrize(("source", "how"), in_turns(FORMATS, list(HOW), 2), ids=str)
def test_conversions(
    gpu: Any, monkeypatch: pytest.MonkeyPatch, source: ow.Format, how: str
) -> None:
    least, dtype = HOW[how]
    monkeypatch.setattr(conversion, "LEAST_ENTRIES", least)
    matrix = (100 * MATRIX).astype(dtype)
    A = ow.tensor(matrix, name="A").to(source)
    for format in FORMATS:
        made, wanted = A.to("cuda").to(format), A.to(format)
        assert made.format == format and isinstance(made.storage, DeviceStorage)
        assert made.nnz == wanted.nnz and "stored, on cuda" in repr(made)
        host = made.to("cpu")
        validate(host.storage, "the result")
        np.testing.assert_array_equal(host.to_numpy(), matrix.toarray())
        assert host.nnz == wanted.nnz


def test_conversions_between_rows_lists_and_trees_stay_on_the_gpu(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "LEAST_ENTRIES", 0)
    made = [ow.tensor(MATRIX, name="A").to(f).to("cuda") for f in (ow.CSR, ow.DCSC, ow.COO(2))]
    tree = ow.tensor((TREE, np.ones(60)), shape=(9, 8, 7), format=ow.COO(3)).to("cuda")

    def refuse(self: Any) -> None:
        raise AssertionError("through main memory")

    with monkeypatch.context() as patch:
        patch.setattr(DeviceStorage, "host", refuse)
        for matrix in made:
            for format in (ow.dense(2), ow.CSR, ow.CSC):
                matrix.to(format)
        assert made[0].to(ow.COO(2)).format == ow.COO(2)
        assert tree.to(ow.CSF(3)).format == ow.CSF(3)
        full = tree.to(ow.dense(3))
        back = [full.to(format) for format in (ow.COO(3), ow.CSF(3), ow.COO(3, order=(2, 0, 1)))]
        vector = ow.tensor(np.array([0.0, 2, 0, 3])).to("cuda").to(ow.CSF(1))
    for other in back:
        validate(other.storage.host(), "the result")
        np.testing.assert_array_equal(other.to_numpy(), full.to_numpy())
    assert vector.to_numpy().tolist() == [0, 2, 0, 3]


@pytest.mark.parametrize("format", FORMATS, ids=repr)
def test_tensors_on_the_gpu_are_copied_drawn_and_written(
    gpu: Any, format: ow.Format, tmp_path: Path
) -> None:
    A = ow.tensor(MATRIX, name="A").to(format).to("cuda")
    for other in (copy.deepcopy(A), copy.copy(A), A.copy()):
        assert isinstance(other.storage, DeviceStorage) and (other.nnz, other.name) == (A.nnz, "A")
        np.testing.assert_array_equal(other.to_numpy(), MATRIX.toarray())
    assert "level 0" in A.draw() and "<svg" in A.draw("svg")
    ow.write(tmp_path / "A.mtx", A)
    np.testing.assert_allclose(ow.read(tmp_path / "A.mtx").to_numpy(), MATRIX.toarray())


def test_a_kernel_for_the_cpu_refuses_what_is_on_the_gpu(gpu: Any) -> None:
    A = ow.tensor(MATRIX, name="A").to("cuda")
    with pytest.raises(ow.DataError, match="E511"):
        spmv(A, ow.tensor(VECTOR, name="x")).compile()()


def test_several_gpus(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel is made anew for another one, which must have all of its operands."""
    loaded, current = [], [0]
    monkeypatch.setattr(gpu.cuda.runtime, "getDeviceCount", lambda: 2)
    monkeypatch.setattr(gpu.cuda.runtime, "getDevice", lambda: current[0])

    def load(self: Any, source: str, kernels: Any) -> Any:
        loaded.append(current[0])
        return Emulated.load(self, source, kernels)

    monkeypatch.setattr(Cuda, "load", load)

    def on(number: int) -> ow.Tensor:
        array = gpu.asarray(VECTOR)
        array.gpu = number
        return ow.tensor(array, name="x")

    kernel = spmv(ow.tensor(MATRIX, name="A"), on(0)).compile(target="cuda")
    for current[0] in (0, 0, 1, 1, 0):
        for _ in range(2):
            made = kernel(x=on(current[0]))
            np.testing.assert_allclose(made.to_numpy(), MATRIX @ VECTOR)
        with pytest.raises(ow.DataError, match=f"is on GPU {1 - current[0]}") as caught:
            kernel(x=on(1 - current[0]))
        assert caught.value.code == "E511" and "cupy.cuda.Device" in str(caught.value)
    assert loaded == [0, 1]  # what a GPU has loaded, it keeps


def test_out_is_written_in_place(gpu: Any) -> None:
    A, x = ow.tensor(MATRIX, name="A").to("cuda"), ow.tensor(VECTOR, name="x").to("cuda")
    out = ow.empty((40,), name="out").to("cuda")
    memory = out.storage.values
    result = spmv(A, x).compile(target="cuda")(out=out)
    assert result is out and result.storage.values is memory
    np.testing.assert_allclose(out.to_numpy(), MATRIX @ VECTOR)


def test_recorded_statements_run_where_their_operands_are(gpu: Any) -> None:
    i, j = ow.indices("i j")
    A, x = ow.tensor(MATRIX, name="A").to("cuda"), ow.tensor(VECTOR, name="x").to("cuda")
    y = ow.empty(MATRIX.shape[0], name="y").to("cuda")
    y[i] = A[i, j] * x[j]
    y[i] += A[i, j] * x[j]
    assert y.device == "cuda"
    np.testing.assert_allclose(y.to_numpy(), 2 * (MATRIX @ VECTOR))
    np.testing.assert_allclose((2 * y).to_numpy(), 4 * (MATRIX @ VECTOR))
    kernel = y.statement.compile("cuda")
    np.testing.assert_allclose(kernel(out=y).to_numpy(), 3 * (MATRIX @ VECTOR))
    np.testing.assert_allclose(kernel(out=y).to_numpy(), 4 * (MATRIX @ VECTOR))


def test_comparisons_copies_and_extents_of_1_on_the_gpu(gpu: Any) -> None:
    x, A = ow.tensor(VECTOR, name="x").to("cuda"), ow.tensor(MATRIX, name="A").to("cuda")
    np.testing.assert_array_equal((x > 0.5).to_numpy(), VECTOR > 0.5)
    assert x.equals(VECTOR)
    assert A.equals(MATRIX)
    assert not x.equals(2 * VECTOR)
    made = copy.copy(x)
    assert (made.device, made.equals(x)) == ("cuda", True)
    row = ow.tensor(VECTOR[None, :], format=ow.BSR(2, 2)).to("cuda")
    np.testing.assert_allclose((row * np.ones((3, 1))).to_numpy(), np.ones((3, 1)) * VECTOR)


def test_einsum_gets_the_recipe_that_the_operator_gets(gpu: Any) -> None:
    A, x = ow.tensor(MATRIX, name="A").to("cuda"), ow.tensor(VECTOR, name="x").to("cuda")
    decisions = []
    for compute in (lambda: A @ x, lambda: ow.einsum("ij,j->i", A, x)):
        KERNELS.clear()
        compute()
        (kernel,) = KERNELS._kernels.values()
        said = kernel.explain().replace("i0", "i").replace("i1", "j")  # an operator's variables
        decisions.append([line for line in said.splitlines() if "schedule:" in line])
        assert all(template._storage is None for template in kernel._templates.values())
    assert decisions[0] == decisions[1] != []


def test_a_bound_program_of_patterns_leaves_its_data_on_the_gpu(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call of one that is a statement took its data there again."""
    made = ow.skeletons.parse(listings.CSR).compile("cuda")
    matrix, x = MATRIX.astype("float32"), VECTOR.astype("float32")
    parts = {"offset": matrix.indptr, "col_indices": matrix.indices, "values": matrix.data}
    bound = made.bind(**parts, xs=x)
    np.testing.assert_allclose(bound(), matrix @ x, rtol=1e-5)
    monkeypatch.delattr(Cuda, "upload")
    np.testing.assert_allclose(bound(), matrix @ x, rtol=1e-5)
    assert "schedule" in bound.explain()


def test_operators_on_tensors_of_the_gpu(gpu: Any) -> None:
    A, x = ow.tensor(MATRIX, name="A").to("cuda"), ow.tensor(VECTOR, name="x").to("cuda")
    B = ow.tensor(np.random.default_rng(2).random((30, 4)), name="B").to("cuda")
    for _ in range(2):
        y, C = A @ x, A @ B
        assert (y.device, C.device) == ("cuda", "cuda")
        np.testing.assert_allclose(y.to_numpy(), MATRIX @ VECTOR)
        np.testing.assert_allclose(C.to_numpy(), MATRIX @ B.to_numpy())
    np.testing.assert_allclose(ow.einsum("ij,j->i", A, x).to_numpy(), MATRIX @ VECTOR)
    np.testing.assert_allclose((2 * x + x).to_numpy(), 3 * VECTOR)
    np.testing.assert_allclose((A.T @ y).to_numpy(), MATRIX.T @ (MATRIX @ VECTOR))


@pytest.mark.parametrize(
    ("format", "layout"),
    in_turns([ow.CSR, ow.SELL(4), ow.ELL, ow.DCSR], ["SoA", "AoSoA(4)", "packed"], 2),
    ids=str,
)
def test_layouts_are_made_and_used_on_the_gpu(gpu: Any, format: ow.Format, layout: str) -> None:
    kind = ow.entry.quaternion("float32")
    numbers = np.random.default_rng(2).integers(-4, 5, (MATRIX.nnz, 4))
    coords = np.array(MATRIX.tocoo().coords)
    plain = ow.tensor((coords, numbers), shape=(40, 30), dtype=kind, format=format, name="A")
    there = plain.to("cuda")
    A = there.to(format.with_layout(layout))
    assert (A.device, A.nnz) == ("cuda", plain.nnz)
    for each in (A, A.copy(), plain.to(A.format).to("cuda"), A.to("cpu")):
        assert each.format == A.format
        np.testing.assert_array_equal(each.to_numpy(), plain.to_numpy())
    assert A.to(format).device == "cuda"
    np.testing.assert_array_equal(A.to(format).to_numpy(), plain.to_numpy())
    vector = "SoA" if layout == "packed" else layout
    x = ow.tensor(numbers[:30], dtype=kind, name="x")
    dense = ow.dense(1).with_layout(vector)
    y = ow.empty(40, dtype=kind, format=dense, name="y")
    wanted = (plain @ x).to_numpy()
    for given in (x.to("cuda").to(dense), x.to(dense), x.to("cuda")):
        u = given.rename("x")
        kernel = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=u).compile(target="cuda")
        results = [kernel() for _ in range(3)]  # the last ones repeat the launches
        assert {each.device for each in results} == {"cuda"}
        for each in results:
            np.testing.assert_array_equal(each.to_numpy(), wanted)
    C = ow.empty((40, 30), dtype=kind, format=ow.CSR.with_layout(layout), name="C")
    made = ow.parse("C(i,j) = A(i,j) + A(i,j)", C=C, A=A).compile(target="cuda")()
    assert (made.device, made.format) == ("cuda", C.format)
    np.testing.assert_array_equal(made.to_numpy(), 2 * plain.to_numpy())


def test_packed_numbers_on_the_gpu(gpu: Any) -> None:
    A = ow.tensor(MATRIX, name="A").to("cuda").to("CSR; packed")
    kernel = spmv(A, ow.tensor(VECTOR, name="x")).compile(target="cuda")
    np.testing.assert_allclose(kernel().to_numpy(), MATRIX @ VECTOR)
    np.testing.assert_allclose(A.to_cupy().toarray(), MATRIX.toarray())
    np.testing.assert_allclose((A.T @ A).to_numpy(), (MATRIX.T @ MATRIX).toarray())
