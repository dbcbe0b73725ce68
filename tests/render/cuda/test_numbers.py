"""Operators of numbers in CUDA text: what NumPy gives, for every operator.

`OPENWORK_GPU_TARGET=cuda` runs them on a GPU instead of the emulator.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openwork as ow

TARGET = os.environ.get("OPENWORK_GPU_TARGET", "cuda-emulated")

INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b, "~": lambda a, b: ~a,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "-": lambda a, b: -a,
    "**": lambda a, b: a**3,
}  # fmt: skip
FLOATS = {sign: INTEGERS[sign] for sign in ("//", "%")}
COMPARED = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip
POWERS = {"**": lambda a, b: a**b}


def special(dtype: str) -> list[Any]:
    kind = np.dtype(dtype).kind
    if kind in "iu":
        ends = np.iinfo(dtype)
        signed = [-1, -2, -7] if kind == "i" else []
        return [0, 1, 2, 3, 7, 8 * np.dtype(dtype).itemsize, ends.min, ends.max, *signed]
    if kind == "c":
        return [0, 1, 2, -1, 0.5, 1j, 1 + 2j]
    return [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 7.25, float("inf"), float("nan"), 3.0]


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    ("left", "right", "operators"),
    [
        *((name, name, INTEGERS) for name in ("int8", "uint8", "int32", "uint32")),
        *((name, name, INTEGERS) for name in ("int64", "uint64")),
        *((name, name, FLOATS) for name in ("float32", "float64")),
        ("int64", "uint64", COMPARED),
        ("uint64", "int64", COMPARED),
        ("complex64", "complex64", {**POWERS, **COMPARED}),
        ("complex128", "complex128", POWERS),
    ],
)  # fmt: skip
def test_operators_as_cuda(
    left: str, right: str, operators: dict[str, Callable[[Any, Any], Any]]
) -> None:
    """One kernel has them all: a third operand picks the operator."""
    pairs = list(itertools.product(special(left), special(right)))
    arrays = [np.array([pair[n] for pair in pairs], dtype) for n, dtype in enumerate((left, right))]
    with np.errstate(all="ignore"):
        wanted = [function(*arrays) for function in operators.values()]
    i, n = ow.indices("i n")
    a, b = (ow.tensor(array, name=name) for array, name in zip(arrays, "ab", strict=True))
    term: Any = None
    for at, function in enumerate(operators.values()):
        made = function(a[i], b[i])
        term = made if term is None else ow.select(n == at, made, term)
    y = ow.empty((len(operators), len(pairs)), dtype=term.dtype, name="y")
    got = ow.assign(y[n, i], term).compile(TARGET)().to_numpy()
    for row, want, sign in zip(got, wanted, operators, strict=True):
        # What is not finite may be so in either part.
        there = np.isfinite(want) if want.dtype.kind == "c" else np.ones(len(want), bool)
        rtol = 1e-5 if want.dtype == np.complex64 else 1e-12 if want.dtype.kind == "c" else 0
        np.testing.assert_array_equal(np.isfinite(row), np.isfinite(want), err_msg=sign)
        np.testing.assert_allclose(row[there], want[there], rtol=rtol, atol=rtol, err_msg=sign)


def test_signed_exponents_are_refused() -> None:
    i = ow.index("i")
    a, y = ow.tensor([1, 2, 3], name="a"), ow.empty((3,), dtype="int64", name="y")
    with pytest.raises(ow.ParseError, match="E108: on a GPU") as caught:
        ow.assign(y[i], a[i] ** a[i]).compile(TARGET)
    assert "ow.cast('uint8', b)" in str(caught.value.hint)
    got = ow.assign(y[i], a[i] ** ow.cast("uint8", a[i])).compile(TARGET)()
    assert got.to_numpy().tolist() == [1, 4, 27]
