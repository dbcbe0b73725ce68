"""Half precision, of numbers and in records: loaded as float32, computed in it, rounded once."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.choices import in_pairs

import openwork as ow
from openwork.algebra.entries import Entry
from openwork.render.c.dialect import C
from openwork.render.operator_helpers import operator_text
from openwork.runtime.host.library import load

pytestmark = pytest.mark.usefixtures("compared_with_the_reference")

entry = ow.entry
KINDS = {
    "complex": (entry.complex, entry.complex),
    "quaternion": (entry.quaternion, entry.quaternion),
    "dual": (entry.dual, entry.dual),
    "block": (lambda f: entry.block(3, 3, f), lambda f: entry.vector(3, f)),
    "complex block": (
        lambda f: entry.block(2, 2, entry.complex(f)), lambda f: entry.vector(2, entry.complex(f)),
    ),
}  # fmt: skip
LAYOUTS = ["AoS", "SoA", "AoSoA(4)", "packed"]
TARGETS = ["cpu", "cuda-emulated"]
C16, C32 = entry.complex("float16"), entry.complex("float32")


def matrix(kind: Any, name: str, format: ow.Format = ow.CSR) -> ow.Tensor:
    """Random multiples of a half, which are exact in half precision."""
    rng = np.random.default_rng(ord(name))
    coords = np.argwhere(rng.random((9, 8)) < 0.4).T
    axes = kind.shape if isinstance(kind, Entry) else ()
    values = rng.integers(-6, 7, (coords.shape[1], *axes)) / 2.0
    return ow.tensor((coords, values), shape=(9, 8), dtype=kind, format=format, name=name)


def vector(kind: Any, count: int, format: ow.Format | None = None) -> ow.Tensor:
    axes = kind.shape if isinstance(kind, Entry) else ()
    values = np.random.default_rng(3).integers(-6, 7, (count, *axes)) / 2.0
    return ow.tensor(values, dtype=kind, format=format, name="x")


def copied(source: Any, kind: Entry, to: Entry, target: str) -> Any:
    """Numbers that a kernel has converted."""
    x = ow.tensor(source, dtype=kind, name="x")
    y = ow.empty(len(source), dtype=to, name="y")
    return ow.parse("y(i) = x(i)", y=y, x=x).compile(target=target)().to_numpy()


@pytest.mark.needs_cc
@pytest.mark.parametrize("target", TARGETS)
def test_all_halves_are_widened_as_numpy_does(target: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(-1, 2)
    made = copied(every, C16, C32, target)
    np.testing.assert_array_equal(made, every.astype(np.float32))
    assert (np.signbit(made) == np.signbit(every))[~np.isnan(every)].all()


def nasty(scalar: str) -> Any:
    """Numbers in, near, and between half precision's, and beyond them."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(scalar)
    every = every[np.isfinite(every)]
    middles = (every[1:] + every[:-1]) / np.array(2, scalar)
    near = [np.nextafter(middles, to) for to in np.array([-np.inf, np.inf], scalar)]
    far = [65519, 65520, 65521, 1e10, 1e-10, 2.0**-25, 2.0**-24, np.inf, np.nan, 0.0, 1e-40]
    numbers = np.concatenate([every, middles, *near, far, -np.array(far)]).astype(scalar)
    return numbers[: len(numbers) // 2 * 2].reshape(-1, 2)


@pytest.mark.needs_cc
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scalar", ["float32", "float64"])
def test_what_is_stored_is_rounded_as_numpy_does(scalar: str, target: str) -> None:
    numbers = nasty(scalar)
    made = copied(numbers, entry.complex(scalar), C16, target)
    with np.errstate(over="ignore"):
        wanted = numbers.astype(np.float16)
    assert made.dtype == np.float16
    np.testing.assert_array_equal(made, wanted)
    assert (np.signbit(made) == np.signbit(wanted))[~np.isnan(wanted)].all()


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    ("kind", "layout", "target", "scalar"),
    in_pairs(list(KINDS), LAYOUTS, TARGETS, ["float16", "float32"]),
)
def test_products(kind: str, layout: str, target: str, scalar: str) -> None:
    left, right = KINDS[kind]
    dense = ow.dense(1).with_layout("AoS" if layout == "packed" else layout)
    A = matrix(left("float16"), "A", ow.SELL(4).with_layout(layout))
    wanted = A.astype(left("float32")) @ vector(right("float32"), 8)
    x = vector(right(scalar), 8, dense)
    for dtype in (wanted.dtype, wanted.dtype.over("float16")):
        y = ow.empty(9, dtype=dtype, name="y", format=dense)
        made = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x).compile(target=target)()
        assert made.dtype == dtype
        np.testing.assert_array_equal(made.to_numpy(), wanted.astype(dtype).to_numpy())


STATEMENTS = [
    "C(i,j) = A(i,j) + B(i,j)", "C(i,j) = 2 * A(i,j) - B(i,j)", "C(i,j) = A(i,j) * B(i,j)",
    "C(i,j) = A(i,j)", "C(i,j) = conj(A(i,j)) / 2",
]  # fmt: skip


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    ("text", "format", "target"),
    in_pairs(STATEMENTS, [ow.CSR, ow.DCSR, ow.COO(2), ow.dense(2)], TARGETS),
    ids=str,
)
def test_results_in_half_precision(text: str, format: ow.Format, target: str) -> None:
    kind = entry.quaternion("float16")
    wide = entry.quaternion("float32")
    tensors = {name: matrix(kind, name) for name in "AB" if f"{name}(" in text}
    C = ow.empty((9, 8), dtype=kind, format=format, name="C")
    made = ow.parse(text, C=C, **tensors).compile(target=target)()
    W = ow.empty((9, 8), dtype=wide, format=format, name="C")
    given = {name: each.astype(wide) for name, each in tensors.items()}
    wanted = ow.parse(text, C=W, **given).compile()().astype(kind)
    np.testing.assert_array_equal(made.to_numpy(), wanted.to_numpy())


@pytest.mark.needs_cc
def test_sums_are_rounded_once() -> None:
    """A thousand terms below the precision of the sum in half precision."""
    x = ow.tensor(np.full((1000, 2), 2.0**-11), dtype=C16, name="x")
    x.to_numpy()[0] = 1
    one = ow.tensor(np.ones((1000, 1000)), format=ow.CSR, name="A")
    want = np.float16(1 + 999 * 2.0**-11)
    for text in ("s = x(i)", "s(j) = A(i,j) * x(i)", "s(i) = A(i,j) * x(j)"):
        shape = () if text[1] != "(" else (1000,)
        s = ow.empty(shape, dtype=C16, name="s")
        tensors = {"x": x} | ({"A": one} if "A" in text else {})
        made = ow.parse(text, s=s, **tensors).compile()().to_numpy()
        np.testing.assert_array_equal(made, np.full_like(made, want))
    assert x.sum().dtype == C32


def test_in_and_out(tmp_path: Path) -> None:
    for make, _ in KINDS.values():
        A = matrix(make("float16"), "A")
        assert A.to_numpy().dtype == np.float16
        assert 2 * A.dtype.itemsize == make("float32").itemsize
        for format in (ow.CSC, ow.COO(2), ow.SELL(4), ow.BSR(2, 2), ow.dense(2), ow.DIA, ow.LIL):
            assert A.to(format).to(ow.CSR).equals(A)
        assert A.astype(make("float64")).astype(make("float16")).equals(A)
        assert make("float16").contract(A.expand()).equals(A)
        ow.write(tmp_path / "a.npz", A)
        assert ow.read(tmp_path / "a.npz").equals(A)
        ow.write(tmp_path / "a.mtx", A)
        assert ow.read(tmp_path / "a.mtx", dtype=A.dtype).equals(A)
    numbers = np.array([1 + 2j, -0.5j])
    z = ow.tensor(numbers, dtype=C16)
    np.testing.assert_array_equal(z.astype("complex128").to_numpy(), numbers)
    assert ow.tensor(numbers).astype(C16).equals(z)
    assert np.from_dlpack(z).dtype == np.float16


def test_many_records_of_few_bytes() -> None:
    """Records of six bytes were copied four at a time."""
    rng, kind = np.random.default_rng(0), entry.vector(3, "float16")
    coords = rng.integers(0, 3000, (2, 20_000))
    coords = np.unique(coords, axis=1)
    values = rng.random((coords.shape[1], 3)).astype(np.float16)
    A = ow.tensor((coords, values), shape=(3000, 3000), dtype=kind)
    for format in (ow.CSC, ow.COO(2), ow.SELL(32), ow.BSR(2, 2)):
        np.testing.assert_array_equal(A.to(format).to(ow.CSR).to_coo()[1], A.to_coo()[1])


def test_refused() -> None:
    with pytest.raises(ow.FormatError, match="no half precision"):
        entry.unit_quaternion("float16")


@pytest.mark.needs_cc
@pytest.mark.parametrize("target", TARGETS)
def test_what_is_stored_in_half_precision_can_be_updated(target: str) -> None:
    """As a new result that reads the old one: the sum is rounded once."""
    A = matrix("float64", "A")
    for kind in (C16, np.dtype("float16")):
        x, y = vector(kind, 8), ow.tensor(vector(kind, 9).to_numpy(), dtype=kind, name="y")
        y.to_numpy().flat[0] = 2048  # where half precision has even numbers only
        kernel = ow.parse("y(i) += A(i,j) * x(j)", y=y, A=A, x=x).compile(target=target)
        old, more = y.to_numpy().astype(float), A.to_scipy() @ x.to_numpy().astype(float)
        np.testing.assert_array_equal(kernel().to_numpy(), (old + more).astype(np.float16))
        once = (old + more).astype(np.float16)
        kernel(out=y)
        np.testing.assert_array_equal(y.to_numpy(), once)
        kernel(out=y)
        np.testing.assert_array_equal(y.to_numpy(), (once + more).astype(np.float16))


PLAIN = ("CSR", "CSC", "COO(2)", "DCSR", "ELL", "SELL(4)", "BSR(2,2)", "DIA", "LIL", "dense(2)",
         "CSR; packed", "Bitmap, Dense")  # fmt: skip
NUMBERS = ("y(i) = A(i,j) * x(j)", "y(i) = max(j, A(i,j) + x(j))", "C(i,j) = A(i,j) + B(i,j)",
           "C(i,j) = A(i,j)", "C(i,j) = select(A(i,j) > B(i,j), A(i,j), sqrt(abs(B(i,j))))",
           "C(i,j) = 0.1 * A(i,j) * B(i,j)")  # fmt: skip


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    ("text", "format", "target", "made"), in_pairs(NUMBERS, PLAIN, TARGETS, ["float16", "float32"])
)
def test_numbers(text: str, format: str, target: str, made: str) -> None:
    def result(scalar: str, type: str, target: str) -> ow.Tensor:
        tensors = {"A": matrix(scalar, "A").to(format), "B": matrix(scalar, "B")}
        tensors["x"] = vector(scalar, 8)
        given = {name: each for name, each in tensors.items() if f"{name}(" in text}
        given["y"] = ow.empty(9, dtype=type, name="y")
        given["C"] = ow.empty((9, 8), dtype=type, format=ow.CSR, name="C")
        return ow.parse(text, **given).compile(target=target)()  # type: ignore[no-any-return]

    found, wanted = result("float16", made, target), result("float32", "float32", "cpu")
    assert found.dtype == made
    np.testing.assert_array_equal(found.to_numpy(), wanted.to_numpy().astype(made))


def test_numbers_in_and_out(tmp_path: Path) -> None:
    A = matrix("float16", "A")
    array = A.to_numpy()
    assert array.dtype == A.to_coo()[1].dtype == np.float16
    for format in PLAIN:
        made = A.to(format)
        assert made.dtype == np.float16
        assert made.to(ow.CSR).equals(ow.tensor(array, format=ow.CSR))
    for dtype in ("float32", "float64", "complex64"):
        assert A.astype(dtype).astype("float16").equals(A)
    for name in ("a.npz", "a.h5"):
        ow.write(tmp_path / name, A)
        assert ow.read(tmp_path / name).dtype == np.float16
    for name in ("a.npz", "a.h5", "a.mtx", "a.tns", "a.rb"):
        ow.write(tmp_path / name, A)
        assert ow.read(tmp_path / name, dtype="float16").equals(A), name
    assert A.to_scipy().dtype == np.float32  # SciPy has no half precision
    np.testing.assert_array_equal(A.to_scipy().toarray(), array)
    assert np.from_dlpack(ow.tensor(array)).dtype == np.float16
    assert np.shares_memory(ow.tensor(array).to_numpy(), array)


def test_results_are_in_single_precision() -> None:
    """Unless the result is given: what nothing is computed of stays in half precision."""
    A = matrix("float16", "A")
    for same in (A.T, A[2:5], A.max(axis=0), np.concatenate([A, A]), A.reshape((8, 9)), A.copy()):
        assert same.dtype == np.float16
    for wide in (
        A + A,
        A @ A.T,
        2 * A,
        -A,
        abs(A),
        A.sum(),
        A.mean(),
        A / 2,
        ow.where(A > 0, A, A),
    ):
        assert wide.dtype == np.float32
    assert (A + matrix("int32", "B")).dtype == np.float64  # as NumPy has it
    assert ow.tensor(np.full(5000, 1, np.float16)).sum().to_numpy() == 5000
    twice = np.array([[0, 0, 0], [1, 1, 1]])  # 2048 + 1 + 1 is summed before it is rounded
    for format in (ow.CSR, ow.DCSR, ow.dense(2)):
        values = np.array([2048, 1, 1], np.float16)
        made = ow.tensor((twice, values), shape=(2, 2), format=format)
        assert made.to_numpy()[0, 1] == 2050


@pytest.mark.needs_cc
@pytest.mark.parametrize("scalar", ["float32", "float64"])
def test_compilers_without_the_type(scalar: str) -> None:
    """The conversions by bits, for which there are compilers that have nothing else."""
    ctype = {"float32": "float", "float64": "double"}[scalar]
    library = load(f"""\
#undef __FLT16_MAX__
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
{operator_text("widened", "float16", C)}
{operator_text("halved", scalar, C)}
void convert(const {ctype} *from, uint16_t *to, float *back, long count) {{
  for (long n = 0; n < count; n++) {{
    to[n] = halved_{scalar}(from[n]);
    back[n] = widened_float16(to[n]);
  }}
}}
""")
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(scalar)
    numbers = np.concatenate([nasty(scalar).reshape(-1), every])
    to, back = np.empty(len(numbers), np.float16), np.empty(len(numbers), np.float32)
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (numbers, to, back)]
    library.convert(*pointers, ctypes.c_long(len(numbers)))
    with np.errstate(over="ignore"):
        wanted = numbers.astype(np.float16)
    np.testing.assert_array_equal(to, wanted)
    np.testing.assert_array_equal(back, wanted.astype(np.float32))
    there = ~np.isnan(wanted)
    assert (np.signbit(to) == np.signbit(wanted))[there].all()
    assert (np.signbit(back) == np.signbit(wanted))[there].all()
