"""Entry types that take fewer numbers in memory than they are computed with: unit quaternions."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.choices import in_pairs
from tests.random.entries import PATH

import openwork as ow

pytestmark = pytest.mark.usefixtures("compared_with_the_reference")

entry = ow.entry
SCALARS = ["float32", "float64"]
LAYOUTS = ["AoS", "SoA", "AoSoA(4)", "packed"]
SPECIAL = [
    [1, 0, 0, 0], [-1, 0, 0, 0], [0, 1, 0, 0], [0, -1, 0, 0], [0, 0, 0, -1], [0, 0, 0, 0],
    [0.5, 0.5, -0.5, 0.5], [-0.5, 0.5, 0.5, 0.5], [1, 0, 1e-12, 0], [-1, 0, 0, 1e-12],
]  # fmt: skip


def units(count: int, scalar: str, seed: int = 0) -> Any:
    """Random quaternions of length one."""
    q = np.random.default_rng(seed).standard_normal((count, 4))
    return (q / np.linalg.norm(q, axis=1, keepdims=True)).astype(scalar)


def near_zero(count: int, scalar: str) -> Any:
    """The same with small w, of all sizes and both signs."""
    q, rng = units(count, "float64", 1), np.random.default_rng(2)
    q[:, 0] = 10.0 ** -rng.uniform(0, 20, count) * rng.choice([-1, 1], count)
    q[:, 1:] *= np.sqrt((1 - q[:, :1] ** 2) / (q[:, 1:] ** 2).sum(axis=1, keepdims=True))
    return q.astype(scalar)


def matrix(scalar: str, layout: str = "AoS", name: str = "A") -> ow.Tensor:
    coords = np.argwhere(np.random.default_rng(ord(name)).random((9, 8)) < 0.4).T
    kind, format = entry.unit_quaternion(scalar), ow.SELL(4).with_layout(layout)
    values = units(coords.shape[1], scalar, ord(name))
    return ow.tensor((coords, values), shape=(9, 8), dtype=kind, format=format, name=name)


@pytest.mark.parametrize("scalar", SCALARS)
def test_what_is_kept(scalar: str) -> None:
    """x, y and z are exact; the error of w grows as w shrinks, up to the root of the precision."""
    eps = float(np.finfo(scalar).eps)
    for q in (units(100_000, scalar), near_zero(100_000, scalar)):
        made = ow.tensor(q, dtype=entry.unit_quaternion(scalar)).to_numpy()
        np.testing.assert_array_equal(made[:, 1:], q[:, 1:])
        error = np.abs(made[:, 0] - q[:, 0])
        bound = np.minimum(4 * eps / np.maximum(np.abs(q[:, 0]), eps), 3 * eps**0.5)
        assert (error <= bound).all()
        told = np.abs(q[:, 0]) > 4 * eps**0.5
        assert (np.sign(made[told, 0]) == np.sign(q[told, 0])).all()


@pytest.mark.parametrize("scalar", SCALARS)
def test_special_elements(scalar: str) -> None:
    kind, special = entry.unit_quaternion(scalar), np.array(SPECIAL, scalar)
    made = ow.tensor(special, dtype=kind)
    np.testing.assert_array_equal(made.to_numpy(), special)
    tiny = ow.tensor(np.array([[-1, 1e-30, 0, 0], [1, 0, -1e-30, 0]]), dtype=kind).to_numpy()
    np.testing.assert_array_equal(tiny, [[-1, 0, 0, 0], [1, 0, 0, 0]])
    for value, first in ((0, 0), (1, 1), (-1, -1)):
        full = ow.tensor(([[0]], special[:1]), shape=(3,), dtype=kind, fill=value).to_numpy()
        np.testing.assert_array_equal(full[2], [first, 0, 0, 0])
    assert kind.itemsize == 3 * np.dtype(scalar).itemsize
    assert np.isnan(ow.tensor(np.full((1, 4), np.nan), dtype=kind).to_numpy()).all()


@pytest.mark.parametrize("scalar", SCALARS)
def test_conversions(scalar: str) -> None:
    unit, plain = entry.unit_quaternion(scalar), entry.quaternion(scalar)
    for layout in LAYOUTS:
        A = matrix(scalar, layout)
        assert A.astype(plain).format == A.format
        np.testing.assert_array_equal(A.astype(plain).to_numpy(), A.to_numpy())
        np.testing.assert_allclose(
            A.astype(plain).astype(unit).to_numpy(), A.to_numpy(), 1e-3, 1e-3
        )
        for format in (ow.CSR, ow.CSC, ow.COO(2), ow.BSR(2, 2), ow.dense(2), ow.DIA):
            np.testing.assert_array_equal(A.to(format).to_numpy(), A.to_numpy())
        other = entry.unit_quaternion("float64" if scalar == "float32" else "float32")
        np.testing.assert_allclose(A.astype(other).to_numpy(), A.to_numpy(), 1e-3, 1e-3)
        assert pickle.loads(pickle.dumps(A)).equals(A)  # noqa: S301
        assert copy.deepcopy(A).equals(A)
        np.testing.assert_array_equal(A.T.to_numpy(), A.to_numpy().swapaxes(0, 1))


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    ("scalar", "layout", "target"), in_pairs(SCALARS, LAYOUTS, ["cpu", "cuda-emulated"])
)
def test_products_are_those_of_quaternions(scalar: str, layout: str, target: str) -> None:
    A, plain = matrix(scalar, layout), entry.quaternion(scalar)
    dense = ow.dense(1).with_layout("AoS" if layout == "packed" else layout)
    q = units(8, scalar, 5)
    for kind in (plain, entry.unit_quaternion(scalar)):
        x = ow.tensor(q, dtype=kind, name="x", format=dense)
        y = ow.empty(9, dtype=plain, name="y", format=dense)
        made = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x).compile(target=target)()
        wanted = A.astype(plain).to(ow.CSR).expand().to_numpy() @ x.to_numpy().reshape(-1)
        np.testing.assert_allclose(made.to_numpy().reshape(-1), wanted, 1e-4, 1e-5)
        unit = ow.empty(9, dtype=entry.unit_quaternion(scalar), name="y", format=dense)
        turned = ow.parse("y(i) = A(i,j) * x(j)", y=unit, A=A, x=x).compile(target=target)()
        length = np.linalg.norm(made.to_numpy(), axis=1, keepdims=True)
        scaled = made.to_numpy() / np.where(length == 0, 1, length)
        np.testing.assert_allclose(turned.to_numpy(), scaled, 0, 2e-3)


@pytest.mark.needs_cc
def test_results_are_quaternions() -> None:
    A, plain = matrix("float64"), entry.quaternion()
    P = A.astype(plain)
    for made, wanted in [
        (A + A, P + P), (2 * A, 2 * P), (A - P, P - P), (-A, -P), (ow.conj(A), ow.conj(P)),
        (A.sum(0), P.sum(0)), (A * A, P * P), (A.T @ A, P.T @ P), (A / A, P / P),
        (ow.einsum("ij->i", A), ow.einsum("ij->i", P)), (A.expand(), P.expand()),
    ]:  # fmt: skip
        assert made.dtype == wanted.dtype
        np.testing.assert_array_equal(made.to_numpy(), wanted.to_numpy())
    back = A.dtype.contract(A.expand())
    assert back.dtype == A.dtype
    np.testing.assert_allclose(back.to_numpy(), A.to_numpy(), 0, 1e-7)


def test_duplicates_are_summed_as_the_type_says() -> None:
    """Those of a user's own sum were once added number by number."""
    coords, q = np.array([[0, 0, 0, 1]]), units(4, "float64")
    A = ow.tensor((coords, q), shape=(2,), dtype=entry.unit_quaternion(), format=ow.CSF(1))
    total = q[:3].sum(axis=0)
    np.testing.assert_allclose(A.to_numpy()[0], total / np.linalg.norm(total), 1e-7)
    B = ow.tensor((coords, [[5, 1], [2, 7], [2, 3], [4, 4]]), shape=(2,), dtype=PATH)
    np.testing.assert_array_equal(B.to_numpy(), [[2, 3], [4, 4]])


def test_files(tmp_path: Path) -> None:
    A = matrix("float32").to(ow.CSR)
    ow.write(tmp_path / "a.npz", A)
    back = ow.read(tmp_path / "a.npz")
    assert back.dtype == A.dtype
    assert back.equals(A)
    ow.write(tmp_path / "a.mtx", A)
    read = ow.read(tmp_path / "a.mtx", dtype=A.dtype)
    np.testing.assert_allclose(read.to_numpy(), A.to_numpy(), 0, 1e-3)


REFUSED = [
    (lambda A: ow.tensor(np.ones((3, 4)), dtype=A.dtype), "E505", "length must be one"),
    (lambda A: entry.block(2, 2, A.dtype), "E402", "no part of records"),
    (
        lambda A: ow.parse("y(i) = A(i,j)", y=ow.empty(9, name="y"), A=A).compile(),
        "E108",
        "y holds float64",
    ),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused(number: int) -> None:
    wrong, code, text = REFUSED[number]
    with pytest.raises(ow.OpenworkError) as error:
        wrong(matrix("float64"))
    assert code in str(error.value)
    assert text in str(error.value)


@pytest.mark.parametrize("fill", [2, -0.5, 1j, np.inf])
def test_absent_entries_are_elements_of_the_type(fill: complex) -> None:
    kind, format = entry.unit_quaternion("float64"), ow.CSF(1)
    at, one = np.array([[1]]), np.zeros(1, kind.dtype)
    for make in (
        lambda: ow.empty((3,), dtype=kind, format=format, fill=fill),
        lambda: ow.placeholder("P", 1, dtype=kind, format=format, fill=fill),
        lambda: ow.tensor((at, np.eye(1, 4)), format, dtype=kind, shape=(3,), fill=fill),
        lambda: ow.from_arrays(format, (3,), [([0, 1], [1])], one, fill=fill),
    ):
        with pytest.raises(ow.FormatError, match=r"E402: .* is no unit quaternion"):
            make()
    assert ow.empty((2,), kind, format, fill=-1).to_numpy().tolist() == [[-1.0, 0, 0, 0]] * 2
