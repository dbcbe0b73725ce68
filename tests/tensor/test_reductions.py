"""Reductions against NumPy: operators, axes, formats, fills, element types, and what is absent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.choices import in_pairs

import openwork as ow

RNG = np.random.default_rng(5)
NAMES = ["sum", "prod", "min", "max", "any", "all", "mean", "var", "std", "argmin", "argmax"]
FORMATS = {"dense": ow.dense(2), "CSR": ow.CSR, "CSC": ow.CSC, "BSR": ow.BSR(2, 3)}
A0 = np.where(RNG.random((5, 7)) < 0.5, RNG.integers(-4, 5, (5, 7)), 0).astype(float)
A0[1], A0[2] = 0, 3


def agrees(found: Any, expected: Any) -> None:
    assert isinstance(found, ow.Tensor)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-6)


AXES = [(None,), (0,), (-1,), (1, True)]
FILLS = [0.0, 2.0, -np.inf, np.nan]


@pytest.mark.parametrize(
    ("format", "fill", "name", "how"), in_pairs(list(FORMATS), FILLS, NAMES, AXES)
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_methods(format: str, fill: float, name: str, how: tuple[Any, ...]) -> None:
    array = np.where(A0 == 0, fill, A0)
    A = ow.tensor(array, format=FORMATS[format], fill=fill)
    axis, keepdims = how[0], len(how) > 1
    expected = getattr(array, name)(axis, keepdims=keepdims)
    agrees(getattr(A, name)(axis, keepdims=keepdims), np.asarray(expected))


TYPES = ["bool", "int8", "uint16", "int64", "float32", "complex64"]
UNORDERED = ("min", "max", "argmin", "argmax")


def has_meaning(case: tuple[str, ...]) -> bool:
    return case[0] != "complex64" or case[1] not in UNORDERED


@pytest.mark.parametrize(("dtype", "name"), in_pairs(TYPES, NAMES, possible=has_meaning))
def test_element_types(dtype: str, name: str) -> None:
    array = A0.astype(dtype)
    format = ow.CSR if (TYPES.index(dtype) + NAMES.index(name)) % 2 else ow.dense(2)
    agrees(getattr(ow.tensor(array, format=format), name)(0), getattr(array, name)(0))


def test_functions_of_numpy() -> None:
    A = ow.tensor(A0, format=ow.CSR)
    for name in NAMES:
        agrees(getattr(np, name)(A, axis=1), getattr(np, name)(A0, axis=1))
    for ufunc in (np.add, np.multiply, np.minimum, np.maximum, np.logical_or, np.logical_and):
        agrees(ufunc.reduce(A, axis=1), ufunc.reduce(A0, axis=1))
    agrees(np.var(A, axis=0, ddof=1), np.var(A0, axis=0, ddof=1))
    agrees(A.sum(0, dtype="float32"), A0.sum(0, dtype="float32"))
    assert A.sum(axis=(0, 1)) == A0.sum()


def test_nothing_to_reduce() -> None:
    for format in (ow.dense(2), ow.CSR):
        A = ow.tensor(np.zeros((3, 0)), format=format)
        for name in ("sum", "prod", "any", "all"):
            agrees(getattr(A, name)(1), getattr(np.zeros((3, 0)), name)(1))
        for name in ("min", "max", "argmin"):
            with pytest.raises(ow.ShapeError, match="E204"):
                getattr(A, name)(1)
    with pytest.raises(ow.ParseError, match="no out="):
        A.sum(0, out=np.zeros(3))


def test_stored_entries_decide_the_time() -> None:
    """A dense walk over 10**12 elements would not end."""
    n = 1_000_000
    A = ow.tensor(([[0, 7], [5, 9]], [3.0, -2.0]), shape=(n, n), format=ow.DCSR)
    assert A.max() == 3
    assert A.min() == -2
    assert A.max(1)[7] == 0
    assert not A.all()
    assert A.any(0)[9]
    assert A.argmin(1)[7] == 9
    assert A.argmax(0)[9] == 0
    assert A.mean() == pytest.approx(1 / n**2)
    assert A.prod() == 0


def test_nan_is_the_extreme() -> None:
    array = np.array([[1.0, np.nan, 0.0], [0.0, 2.0, -1.0]])
    for format in (ow.dense(2), ow.CSR):
        A = ow.tensor(array, format=format)
        for name in ("min", "max", "argmin", "argmax"):
            agrees(getattr(A, name)(1), getattr(array, name)(1))
