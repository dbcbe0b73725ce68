"""Ternary layouts: -1, 0 and 1 in the first two bits of the coordinates."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from tests.choices import in_pairs

import openwork as ow
from openwork import skeletons as sk
from openwork.format.formats import parse_format
from openwork.format.layouts import Bits

pytestmark = [pytest.mark.needs_cc, pytest.mark.usefixtures("compared_with_the_reference")]

FORMATS = {
    "CSR": ow.CSR, "CSC": ow.CSC, "ELL": ow.ELL, "SELL(4)": ow.SELL(4), "COO": ow.COO(2),
    "DCSR": ow.DCSR, "LIL": ow.LIL,
}  # fmt: skip
STATEMENTS = {
    "SpMV": ("y(i) = A(i,j) * x(j)", (9,)),
    "SpMM": ("C(i,k) = A(i,j) * D(j,k)", (9, 3)),
    "A+B": ("S(i,j) = A(i,j) + B(i,j)", (9, 7)),
    "A.*B": ("S(i,j) = A(i,j) * B(i,j)", (9, 7)),
    "at entries": ("S(i,j) = A(i,j) * D(j,0) * B(i,j)", (9, 7)),
    "row": ("y(j) = A(3,j)", (7,)),
}


def signs(format: ow.Format, dtype: str = "float32", name: str = "A", zeros: bool = True) -> Any:
    """A matrix with stored signs and, if wanted, zeros."""
    rng = np.random.default_rng(ord(name))
    coords = np.argwhere(rng.random((9, 7)) < 0.4).T
    values = rng.choice([-1, 0, 1] if zeros else [-1, 1], coords.shape[1]).astype(dtype)
    format = format.with_layout("ternary")
    return ow.tensor((coords, values), shape=(9, 7), format=format, name=name)


@pytest.mark.parametrize(
    ("statement", "format", "dtype", "target"),
    in_pairs(
        list(STATEMENTS), list(FORMATS), ["float32", "float64", "int8", "float16"],
        ["cpu", "cuda-emulated"],
    ),
)  # fmt: skip
def test_statements(statement: str, format: str, dtype: str, target: str) -> None:
    text, shape = STATEMENTS[statement]
    A, B = (signs(FORMATS[format], dtype, name) for name in "AB")
    D = ow.tensor(np.random.default_rng(1).integers(-4, 5, (7, 3)).astype(dtype), name="D")
    x = ow.tensor(D.to_numpy()[:, 0], name="x")
    sparse_result = text.startswith("S")
    stored = ow.CSR if sparse_result else ow.dense(len(shape))
    result = ow.empty(shape, dtype=dtype, format=stored, name=text[0])
    given = {n: t for n, t in {"A": A, "B": B, "D": D, "x": x}.items() if f"{n}(" in text[4:]}
    made = ow.parse(text, **{text[0]: result}, **given).compile(target=target)()
    plain = {n: t.to(t.format.with_layout("AoS")) for n, t in given.items()}
    wanted = ow.parse(text, **{text[0]: result}, **plain).compile()()
    np.testing.assert_array_equal(made.to_numpy(), wanted.to_numpy())
    assert made.nnz == wanted.nnz


@pytest.mark.parametrize("format", FORMATS)
def test_what_goes_in_comes_out(format: str, tmp_path: Path) -> None:
    A = signs(FORMATS[format])
    plain = A.to(A.format.with_layout("AoS"))
    assert A.format.layout == "ternary"
    assert A.nnz == plain.nnz  # explicit zeros stay
    assert A.storage.values.dtype == np.int32
    for B in (
        A.copy(), copy.copy(A), copy.deepcopy(A), A.to(ow.CSR).to(A.format),
        A.astype("float64").astype("float32"), A.to(ow.COO(2).with_layout("packed")).to(A.format),
    ):  # fmt: skip
        assert B.format == A.format
        assert B.equals(A)
    np.testing.assert_array_equal(A.T.to_numpy(), plain.to_numpy().T)
    np.testing.assert_array_equal(A.to_scipy().toarray(), plain.to_numpy())
    for name in ("a.npz", "a.mtx", "a.bsp.h5"):
        ow.write(tmp_path / name, A)
        assert ow.read(tmp_path / name, format=A.format).equals(A)
    assert parse_format(str(A.format)) == A.format
    assert eval(repr(A.format), {"ow": ow}) == A.format  # noqa: S307


@pytest.mark.parametrize("kind", ["float64", "int32", "bool", "complex128", "uint8"])
def test_entry_type(kind: str, tmp_path: Path) -> None:
    given = np.random.default_rng(2).integers(0 if kind in ("bool", "uint8") else -1, 2, (7, 5))
    T = ow.entry.ternary("float32")
    A = ow.tensor(given.astype(kind), "CSC", dtype=T, name="A")
    assert (A.dtype, A.format) == (np.float32, ow.CSC.with_layout("ternary"))
    np.testing.assert_array_equal((A @ np.arange(5)).to_numpy(), given @ np.arange(5))
    B = ow.tensor(sparse.csr_array(given)).astype(ow.entry.ternary("int8"))
    assert (B.dtype, B.format) == (np.int8, ow.CSR.with_layout("ternary"))
    ow.write(tmp_path / "a.mtx", A)
    assert ow.read(tmp_path / "a.mtx", format="CSC", dtype=T).equals(A)
    for made in (
        ow.empty((7, 5), T, ow.CSR), ow.placeholder("P", 2, ow.CSR, T), A.to(ow.CSR).astype(T)
    ):  # fmt: skip
        assert (made.dtype, made.format) == (np.float32, ow.CSR.with_layout("ternary"))


@pytest.mark.parametrize("layout", ["AoS", "packed"])
def test_entry_type_refuses_other_numbers_before_rounding(layout: str) -> None:
    A = ow.tensor([[0.5, 1.0]], ow.CSR.with_layout(layout))
    with pytest.raises(ow.DataError, match="E505"):
        A.astype(ow.entry.ternary("int8"))
    with pytest.raises(ow.FormatError, match=r"E401.*no coordinates"):
        ow.tensor(np.eye(2), dtype=ow.entry.ternary())
    for scalar in ("uint8", "complex64", ow.entry.dual()):
        with pytest.raises(ow.FormatError, match="E402"):
            ow.entry.ternary(scalar)


def test_three_modes(tmp_path: Path) -> None:
    given = np.random.default_rng(0).integers(-1, 2, (4, 5, 6)).astype("float64")
    X = ow.tensor(given, format=ow.CSF(3).with_layout("ternary"), name="X")
    v = ow.tensor(np.arange(6.0), name="v")
    made = ow.compute("Y(i,j) = X(i,j,k) * v(k)", X=X, v=v)
    np.testing.assert_array_equal(made.to_numpy(), given @ np.arange(6.0))
    ow.write(tmp_path / "x.npz", X)
    back = ow.read(tmp_path / "x.npz")
    assert (back.dtype, back.equals(X)) == (X.dtype, True)


def test_results_are_checked() -> None:
    A = signs(ow.CSR, "float64")
    result = ow.empty((9, 7), format=A.format, name="S")
    made = ow.parse("S(i,j) = A(i,j) * A(i,j)", S=result, A=A).compile()()
    assert made.format == A.format
    np.testing.assert_array_equal(made.to_numpy(), A.to_numpy() ** 2)
    twice = ow.parse("S(i,j) = A(i,j) + A(i,j)", S=result, A=A).compile()
    with pytest.raises(ow.DataError, match="E505"):
        twice()
    assert (A + A).format == ow.CSR


def test_an_other_pattern_in_the_same_kernel() -> None:
    A, x = signs(ow.CSR, "float64"), ow.tensor(np.arange(7.0), name="x")
    kernel = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(9, name="y"), A=A, x=x).compile()
    B = signs(ow.CSR, "float64", "B")
    np.testing.assert_array_equal(kernel(A=B).to_numpy(), B.to_numpy() @ np.arange(7.0))
    plain = B.to(ow.DCSR)
    np.testing.assert_array_equal(kernel(A=plain).to_numpy(), B.to_numpy() @ np.arange(7.0))


def test_long_rows_have_wide_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENWORK_CHECK")  # the reference would need a dense array
    extent = (1 << 30) + 9
    coords = np.array([[0, 1, 1], [3, 1 << 30, extent - 1]])
    A = ow.tensor(
        (coords, [1.0, -1.0, 1.0]),
        shape=(2, extent),
        format=ow.CSR.with_layout("ternary"),
        name="A",
    )
    assert A.storage.values.dtype == np.int64
    made = ow.compute("y(i) = A(i,j) * (j + 0)", A=A)
    np.testing.assert_array_equal(made.to_numpy(), [3, extent - 1 - (1 << 30)])
    np.testing.assert_array_equal(A.to_coo()[0], coords)


def test_programs_of_patterns_take_them() -> None:
    A, x = signs(ow.CSR, "float64"), ow.tensor(np.arange(7.0), name="x")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(9, name="y"), A=A, x=x)
    made = sk.from_statement(stmt).compile()(A=A, x=x)
    np.testing.assert_array_equal(np.asarray(made), A.to_numpy() @ np.arange(7.0))


def test_products_with_records() -> None:
    A, Q = signs(ow.CSR), ow.entry.quaternion("float32")
    q = ow.tensor(np.random.default_rng(2).integers(-3, 4, (7, 4)), dtype=Q, name="q")
    wanted = np.einsum("ij,jc->ic", A.to_numpy(), q.to_numpy())
    np.testing.assert_array_equal((A @ q).to_numpy(), wanted)


def test_bits() -> None:
    for words, shift in (("int32", 30), ("int64", 62)):
        where = Bits(1, words)
        assert (where.shift, where.mask) == (shift, (1 << shift) - 1)
        for number in (-1, 0, 1):
            word = np.array(number, words) << shift | np.array(where.mask, words)
            assert (word >> shift, word & where.mask) == (number, where.mask)


REFUSED = [
    (lambda: ow.tensor(np.full((2, 2), 2.0), format="CSR; ternary"), "E505", "-1, 0 and 1"),
    (lambda: ow.tensor([[np.nan, 1]], format="CSR; ternary"), "E505", "-1, 0 and 1"),
    (lambda: ow.dense(2).with_layout("ternary"), "E401", "stores no coordinates"),
    (lambda: ow.BSR(2, 2).with_layout("ternary"), "E401", "stores no coordinates"),
    (
        lambda: ow.empty((2, 2), dtype=ow.entry.complex(), format="CSR; ternary"),
        "E401", "has no ternary layout",
    ),
    (
        lambda: ow.tensor(sparse.eye_array(3, dtype=bool), format="CSR; ternary"),
        "E401", "bool has no ternary layout",
    ),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused(number: int) -> None:
    wrong, code, text = REFUSED[number]
    with pytest.raises(ow.OpenworkError) as error:
        wrong()
    assert code in str(error.value)
    assert text in str(error.value)
