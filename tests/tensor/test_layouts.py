"""Layouts as parts of formats: their text, conversions, what goes in and out, refusals."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.choices import in_pairs

import openwork as ow
from openwork.format.formats import parse_format
from openwork.format.layouts import Apart, Grouped, Placement, Together, placement
from openwork.tensor.convert import relayout

Q = ow.entry.quaternion("float32")
LAYOUTS = ("AoS", "SoA", "AoSoA(4)", "packed")
FORMATS = (ow.CSR, ow.ELL, ow.SELL(4), ow.COO(2), ow.DCSR, ow.LIL, ow.CSC, ow.BSR(2, 2), ow.DIA)


def allowed(formats: tuple[ow.Format, ...] = FORMATS) -> list[ow.Format]:
    """The formats in all layouts that they have."""
    pairs = itertools.product(formats, LAYOUTS)
    return [f.with_layout(name) for f, name in pairs if name != "packed" or f.packed_array]


def matrix(format: ow.Format, dtype: object = Q, name: str = "A") -> ow.Tensor:
    rng = np.random.default_rng(7)
    coords = np.argwhere(rng.random((9, 7)) < 0.4).T
    axes = (4,) if dtype == Q else ()
    values = rng.integers(-6, 7, (coords.shape[1], *axes)) / 2.0
    return ow.tensor((coords, values), shape=(9, 7), dtype=dtype, format=format, name=name)


# -- formulas ----------------------------------------------------------------------------------

PLACEMENTS = [Together(4, 4), Together(4, 5, 1), Together(1, 2, 1), Apart(4), Grouped(4, 8)]


@pytest.mark.parametrize("where", PLACEMENTS, ids=repr)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 33])
def test_the_address_is_where_the_records_are(where: Placement, count: int) -> None:
    """The formula that kernels use agrees with the views that NumPy uses, and with nothing else."""
    numbers = np.zeros(where.room(count))
    records = 1.0 + np.arange(count * where.size).reshape(count, where.size)
    where.scatter(records, numbers)
    stride = where.stride(len(numbers))
    for place, number in itertools.product(range(count), range(where.size)):
        assert numbers[where.at(place, number, stride)] == records[place, number]
    np.testing.assert_array_equal(where.gathered(numbers, count), records)
    assert np.count_nonzero(numbers) == records.size


def test_packed_records_are_c_structures() -> None:
    for size, width, beside in itertools.product((1, 3, 4, 9), (1, 2, 4, 8, 16), (1, 2, 4, 8)):
        crd, number = f"V{beside}", f"V{width}"
        fields = np.dtype(
            {
                "names": ["crd", "numbers"],
                "formats": [crd, (number, size)],
                "offsets": [0, -(-beside // width) * width],
            }
        )
        where = placement("packed", size, width, beside)
        assert isinstance(where, Together)
        assert where.first * width == fields.fields["numbers"][1]
        most = max(width, beside)
        assert where.step * width == -(-fields.itemsize // most) * most


# -- text --------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", allowed(), ids=str)
def test_text_is_read_back(format: ow.Format) -> None:
    assert parse_format(str(format)) == format
    assert eval(repr(format), {"ow": ow}) == format  # noqa: S307
    assert pickle.loads(pickle.dumps(format)) == format  # noqa: S301


def test_formats_of_other_layouts_differ() -> None:
    formats = [ow.CSR.with_layout(name) for name in LAYOUTS]
    assert len(set(formats)) == len(LAYOUTS)
    assert [format.layout for format in formats] == list(LAYOUTS)
    assert ow.CSR.with_layout("SoA").with_layout("AoS") == ow.CSR
    assert parse_format("SELL(32); AoSoA( 8 )") == ow.SELL(32).with_layout("AoSoA(8)")
    assert ow.Format([ow.Dense], layout="SoA").layout == "SoA"


@pytest.mark.parametrize("text", ["aos", "AoSoA", "AoSoA(1)", "AoSoA(0)", "", "SoA(4)"])
def test_layouts_that_there_are_not(text: str) -> None:
    with pytest.raises(ow.FormatError, match="E403"):
        ow.CSR.with_layout(text)


@pytest.mark.parametrize(
    "format", [ow.dense(1), ow.BSR(2, 2), ow.DIA, ow.bitmap, ow.banded], ids=repr
)
def test_no_coordinates_to_pack(format: ow.Format) -> None:
    with pytest.raises(ow.FormatError, match="stores no coordinates"):
        format.with_layout("packed")


def test_numbers_have_no_numbers_to_separate() -> None:
    for name in ("SoA", "AoSoA(4)"):
        format = ow.CSR.with_layout(name)
        assert ow.tensor(np.eye(3), format=format).format == ow.CSR
        assert ow.placeholder("P", 2, format).format == ow.CSR
        assert ow.empty((3, 3), format=format).format == ow.CSR
        assert matrix(ow.CSR, "float64").to(format).format == ow.CSR
    assert ow.tensor(np.eye(3), format="CSR; packed").format.layout == "packed"


# -- conversions -------------------------------------------------------------------------------


@pytest.mark.parametrize("format", allowed(), ids=str)
@pytest.mark.parametrize("dtype", [Q, "float64", "float32", "int8", "complex128"], ids=str)
def test_elements_survive(format: ow.Format, dtype: object) -> None:
    A = matrix(ow.CSR, dtype)
    B = A.to(format)
    assert B.format == (
        format if dtype == Q or format.layout == "packed" else format.with_layout("AoS")
    )
    assert B.nnz == A.to(format.with_layout("AoS")).nnz
    for C in (B, B.copy(), pickle.loads(pickle.dumps(B)), B.to(format)):  # noqa: S301
        assert C.format == B.format
        np.testing.assert_array_equal(C.to_numpy(), A.to_numpy())
    np.testing.assert_array_equal(B.T.to_numpy(), A.T.to_numpy())
    coords, values = B.to_coo()
    again = ow.tensor((coords, values), shape=B.shape, dtype=A.dtype)
    np.testing.assert_array_equal(again.to_numpy(), A.to_numpy())
    for other in allowed((ow.CSR, ow.SELL(4))):
        np.testing.assert_array_equal(B.to(other).to_numpy(), A.to_numpy())


def test_wider_numbers() -> None:
    for format in allowed((ow.CSR, ow.ELL)):
        A = matrix(format)
        wide = A.astype(ow.entry.quaternion("float64"))
        assert wide.format == format
        np.testing.assert_array_equal(wide.to_numpy(), A.to_numpy())
    packed = matrix(ow.CSR.with_layout("packed"), "float32")
    wide = packed.astype("float64")
    assert (wide.format.layout, wide.storage.values.nbytes) == ("packed", 16 * wide.nnz)
    np.testing.assert_array_equal(wide.to_numpy(), packed.to_numpy())


@pytest.mark.parametrize("name", LAYOUTS[:3])
def test_dense_tensors(name: str) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.random((5, 3, 4)).astype("float32")
    for order in ((0, 1), (1, 0)):
        X = ow.tensor(numbers, dtype=Q, format=ow.dense(2, order).with_layout(name))
        np.testing.assert_array_equal(X.to_numpy(), numbers)
        np.testing.assert_array_equal(X.T.to_numpy(), numbers.swapaxes(0, 1))
        np.testing.assert_array_equal(np.from_dlpack(X), numbers)
    x = ow.tensor(numbers[0], dtype=Q, format=ow.dense(1).with_layout(name))
    np.testing.assert_array_equal(x.expand().to_numpy(), numbers[0].reshape(-1))


def test_arrays_of_an_soa_layout() -> None:
    numbers = np.arange(20, dtype="float32").reshape(5, 4)
    x = ow.tensor(numbers, dtype=Q, format=ow.dense(1).with_layout("SoA"))
    arrays = x.storage.values.reshape(4, -1)
    np.testing.assert_array_equal(arrays[:, :5], numbers.T)
    assert arrays.strides[0] % 16 == 0
    assert x.nnz == 5


def test_packed_coordinates_are_the_arrays_own() -> None:
    """One array: the coordinates that NumPy sees are the words between the values."""
    A = matrix(ow.CSR.with_layout("packed"), "float32")
    words = A.storage.values.view("int32").reshape(-1, 2)
    crd = A.storage.levels[1]["crd"]
    assert np.shares_memory(crd, A.storage.values)
    np.testing.assert_array_equal(words[:, 0], crd)
    assert not crd.flags.writeable


def test_from_arrays_takes_values_in_order() -> None:
    levels = [None, ([0, 2, 3], [0, 2, 1])]
    values = np.arange(12, dtype="float32").reshape(3, 4)
    records = np.ascontiguousarray(values).view(Q.dtype).reshape(-1)
    plain = ow.from_arrays(ow.CSR, (2, 3), levels, records)
    for name in LAYOUTS:
        made = ow.from_arrays(ow.CSR.with_layout(name), (2, 3), levels, records)
        assert made.format.layout == name
        np.testing.assert_array_equal(made.to_numpy(), plain.to_numpy())
        with pytest.raises(ow.DataError, match="E503"):
            ow.from_arrays(
                ow.CSR.with_layout(name), (2, 3), [None, ([0, 2, 3], [0, 3, 1])], records
            )
        with pytest.raises(ow.DataError, match="E505"):
            ow.from_arrays(ow.CSR.with_layout(name), (2, 3), levels, records[:2])


def test_to_scipy() -> None:
    kind = ow.entry.complex("float64")
    rng = np.random.default_rng(2)
    M = rng.random((4, 3, 2)) * (rng.random((4, 3, 1)) < 0.5)
    wanted = M[..., 0] + 1j * M[..., 1]
    for name in LAYOUTS:
        A = ow.tensor(M, dtype=kind, format=ow.CSR.with_layout(name))
        np.testing.assert_array_equal(A.to_scipy().toarray(), wanted)
    B = ow.tensor(M[..., 0], format="CSR; packed")
    np.testing.assert_array_equal(B.to_scipy(share=True).toarray(), M[..., 0])


def test_files_hold_records_in_order(tmp_path: Path) -> None:
    A = matrix(ow.CSR.with_layout("packed"), "float64")
    for ending in ("mtx", "npz"):
        ow.write(tmp_path / f"a.{ending}", A)
        np.testing.assert_array_equal(ow.read(tmp_path / f"a.{ending}").to_numpy(), A.to_numpy())


def test_drawings() -> None:
    A = matrix(ow.CSR.with_layout("SoA"))
    lines = A.draw().splitlines()
    assert "values: SoA" in lines[-5]
    assert [line.split()[0] for line in lines[-4:]] == ["w", "x", "y", "z"]
    assert "float32" in lines[1]
    assert A.draw("svg").startswith("<svg")


# -- calls -------------------------------------------------------------------------------------


def spmv(a: str, x: str, y: str) -> tuple[ow.Tensor, ow.Tensor, ow.Tensor]:
    A = matrix(ow.CSR.with_layout(a))
    numbers = np.random.default_rng(3).integers(-4, 5, (7, 4))
    X = ow.tensor(numbers, dtype=Q, format=ow.dense(1).with_layout(x), name="x")
    Y = ow.empty(9, dtype=Q, format=ow.dense(1).with_layout(y), name="y")
    return A, X, Y


@pytest.mark.needs_cc
@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
@pytest.mark.parametrize("name", LAYOUTS[:3])
def test_arguments_and_results(name: str, target: str) -> None:
    """Other layouts are converted on the way in, as other formats are; not on the way out."""
    A, x, y = spmv("SoA", name, name)
    kernel = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x).compile(target=target)
    wanted = kernel().to_numpy()
    for other in LAYOUTS:
        again = kernel(A=matrix(ow.SELL(4).with_layout(other)))
        np.testing.assert_array_equal(again.to_numpy(), wanted)
        assert again.format.layout == name
    for other in LAYOUTS[:3]:
        given = x.to(ow.dense(1).with_layout(other))
        np.testing.assert_array_equal(kernel(x=given).to_numpy(), wanted)
    np.testing.assert_array_equal(kernel(x=x.storage.elements).to_numpy(), wanted)
    out = ow.empty(9, dtype=Q, format=y.format)
    assert kernel(out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), wanted)
    results = [kernel() for _ in range(4)]  # which repeat the launches
    assert all(np.array_equal(each.to_numpy(), wanted) for each in results)
    with pytest.raises(ow.ShapeError, match="E202"):
        kernel(out=ow.empty(9, dtype=Q, format=ow.dense(1).with_layout("AoSoA(64)")))


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    ("operand", "result", "target"), in_pairs(LAYOUTS, LAYOUTS, ["cpu", "cuda-emulated"])
)
def test_sparse_results(operand: str, result: str, target: str) -> None:
    """Results that grow, that share a pattern, that are added to; and their patterns kept."""
    A = matrix(ow.CSR.with_layout(operand))
    B = matrix(ow.CSR, name="B").T.to(ow.CSR).rename("B")
    C = ow.empty((9, 9), dtype=Q, format=ow.CSR.with_layout(result), name="C")
    kernel = ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=A, B=B).compile(target=target)
    made = kernel()
    assert made.format.layout == result
    wanted = A.expand().to_numpy() @ B.expand().to_numpy()
    np.testing.assert_allclose(made.expand().to_numpy(), wanted)
    said = f"then laid out as {result}" in kernel.explain()
    assert said == (result != "AoS")
    np.testing.assert_allclose(kernel.symbolic(A=A)().expand().to_numpy(), wanted)
    D = ow.empty((9, 7), dtype=Q, format=ow.CSR.with_layout(result), name="D")
    kernel = ow.parse("D(i,j) = 2 * A(i,j)", D=D, A=A).compile(target=target)
    twice = kernel()
    assert ("laid out" in kernel.explain()) == (result == "packed")
    np.testing.assert_array_equal(twice.to_numpy(), 2 * A.to_numpy())
    for level in twice.storage.levels:  # a packed operand's coordinates are not a result's
        assert not any(np.shares_memory(a, A.storage.values) for a in level.values())
    added = ow.parse("D(i,j) += A(i,j)", D=twice.rename("D"), A=A).compile(target=target)()
    np.testing.assert_array_equal(added.to_numpy(), 3 * A.to_numpy())


@pytest.mark.needs_cc
@pytest.mark.parametrize("kind", ["quaternion", "block", "vector"])
@pytest.mark.parametrize("scalar", ["float32", "float64"])
def test_many_records_are_moved_in_c(
    kind: str, scalar: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From each layout to each other one, with the same result as NumPy's."""
    make = {"quaternion": ow.entry.quaternion, "block": lambda s: ow.entry.block(2, 3, s),
            "vector": lambda s: ow.entry.vector(5, s)}[kind]  # fmt: skip
    rng, dtype = np.random.default_rng(1), make(scalar)
    coords = np.argwhere(rng.random((40, 50)) < 0.4).T
    values = rng.random((coords.shape[1], *dtype.shape)).astype(scalar)
    names = [*LAYOUTS, "AoSoA(64)", "AoSoA(3)"]
    A = ow.tensor((coords, values), shape=(40, 50), dtype=dtype)
    by_numpy = [A.to(ow.CSR.with_layout(name)) for name in names]
    monkeypatch.setattr(relayout, "_MANY", 0)
    for first in by_numpy:
        for name, wanted in zip(names, by_numpy, strict=True):
            made = first.to(ow.CSR.with_layout(name))
            np.testing.assert_array_equal(made.storage.values, wanted.storage.values)
            np.testing.assert_array_equal(made.to_numpy(), A.to_numpy())


def test_a_record_is_an_item() -> None:
    made = ow.tensor([1.0, 2.0, 3.0, 4.0], dtype=Q, name="s")
    assert made.item() == (1.0, 2.0, 3.0, 4.0)
    assert "(1.0, 2.0, 3.0, 4.0)" in repr(made)
    assert made
    assert not ow.empty((), dtype=Q)
    with pytest.raises(TypeError):
        float(made)
    assert complex(ow.tensor(1 + 2j, dtype=ow.entry.complex())) == 1 + 2j


@pytest.mark.needs_cc
@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
@pytest.mark.parametrize("name", LAYOUTS[:3])
def test_accumulation_into_dense_results(name: str, target: str) -> None:
    A, x, y = spmv("AoSoA(4)", "SoA", name)
    start = np.arange(36, dtype="float32").reshape(9, 4)
    old = ow.tensor(start, dtype=Q, format=y.format, name="y")
    made = ow.parse("y(i) += A(i,j) * x(j)", y=old, A=A, x=x).compile(target=target)()
    fresh = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x).compile(target=target)()
    np.testing.assert_array_equal(made.to_numpy(), start + fresh.to_numpy())


@pytest.mark.needs_cc
@pytest.mark.parametrize("name", LAYOUTS)
def test_eager_operators(name: str) -> None:
    A, plain = matrix(ow.CSR.with_layout(name)), matrix(ow.CSR)
    x = ow.tensor(np.ones((7, 4)), dtype=Q)
    for made, wanted in [
        (A @ x, plain @ x), (A + A, 2 * plain), (-A, -plain), (A * A, plain * plain),
        (A.T @ A, plain.T @ plain), (A.sum(0), plain.sum(0)), (ow.conj(A), ow.conj(plain)),
    ]:  # fmt: skip
        np.testing.assert_array_equal(made.to_numpy(), wanted.to_numpy())
    B = matrix(ow.CSR.with_layout("packed"), "float64")
    np.testing.assert_array_equal((B @ np.ones(7)), B.to_numpy() @ np.ones(7))
    assert B.equals(matrix(ow.CSR, "float64"))


SCHEDULES = [
    "split(i,i0,i1,2), parallelize(i0,CPUThread,NoRaces)",
    "fuse(i,j,f), pos(f,p,A), split(p,p0,p1,3), parallelize(p0,CPUThread,Atomics)",
    "parallelize(j,CPUThread,Temporary)",
    "precompute(A(i,j) * x(j),j,jw)",
    "split(i,b,t,32), parallelize(b,GPUBlock), parallelize(t,GPUThread)",
    "fuse(i,j,f), pos(f,p,A), split(p,b,t,32), parallelize(b,GPUBlock,IgnoreRaces), "
    "parallelize(t,GPUThread,Atomics)",
    "split(i,b,w,4), split(j,r,l,32), order(b,w,l,r), parallelize(b,GPUBlock), "
    "parallelize(w,GPUWarp), parallelize(l,GPUThread,ParallelReduction)",
]


@pytest.mark.needs_cc
@pytest.mark.usefixtures("compared_with_the_reference")
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", LAYOUTS[1:])
def test_schedules(name: str, schedule: str) -> None:
    A, x, y = spmv(name, "SoA", "AoSoA(4)" if name == "packed" else "SoA")
    target = "cuda-emulated" if "GPU" in schedule else "cpu"
    ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x).schedule(schedule).compile(target=target)()


@pytest.mark.needs_cc
@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
@pytest.mark.parametrize("format", [ow.CSR, ow.DCSR, ow.COO(2), ow.CSF(2)], ids=repr)
def test_packed_coordinates_are_searched(format: ow.Format, target: str) -> None:
    """Intersections search and gallop through coordinates that do not lie side by side."""
    A = matrix(format.with_layout("packed"), "float32")
    x = ow.tensor([0.0, 2.0, 0.0, 3.0, 0.0, 0.0, 5.0], format="Compressed; packed", name="x")
    B = ow.tensor(matrix(ow.CSR, "float32").to_numpy().T[:, ::-1], format=ow.dense(2), name="B")
    y, s = ow.empty(9, dtype="float32", name="y"), ow.empty((), dtype="float32", name="s")
    made = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x).compile(target=target)()
    np.testing.assert_array_equal(made.to_numpy(), A.to_numpy() @ x.to_numpy())
    made = ow.parse("s = A(i,j) * B(j,i)", s=s, A=A, B=B).compile(target=target)()
    np.testing.assert_allclose(made.item(), (A.to_numpy() * B.to_numpy().T).sum(), 1e-6)
