"""The laws of the built-in operators hold for every element type that they are defined for."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest

from openwork.algebra import operators as ops
from openwork.algebra.operators import BUILTIN, Op
from openwork.algebra.types import NAMES, DType, as_dtype, number
from openwork.errors import ParseError

LAWFUL = [op for op in BUILTIN.values() if op.arity == 2]


def elements(dtype: DType) -> Any:
    """Elements of a type, its ends among them; what is not finite obeys no law but its own."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return np.unique(np.array([ends.min, ends.max, ends.max // 2, 0, 1, 2, 7], dtype))
    return np.array([0, 1, 2, 0.5, 3], dtype)


@pytest.mark.parametrize(("op", "name"), list(product(LAWFUL, NAMES)), ids=str)
def test_laws_hold_for_every_type(op: Op, name: str) -> None:
    dtype = as_dtype(name)
    try:
        to, result = op.argument_type((dtype, dtype), 0), op.result((dtype, dtype))
    except ParseError:
        return  # not defined, so nobody relies on it
    x = elements(to)

    def apply(a: Any, b: Any) -> Any:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(op.ufunc(a, b)).astype(result)

    def constant(law: Any) -> Any:
        return np.full_like(x, number(law, to))

    # An absent 0 stays absent whatever it is divided by; as a number it is divided by no 0.
    divisors = x[x != 0] if op in (ops.DIV, ops.FLOOR_DIVIDE, ops.REMAINDER) else x
    if op.identity is not None:
        np.testing.assert_array_equal(apply(x, constant(op.identity)), x.astype(result))
        np.testing.assert_array_equal(apply(constant(op.identity), x), x.astype(result))
    if op.right_identity is not None:
        np.testing.assert_array_equal(apply(x, constant(op.right_identity)), x.astype(result))
    if op.annihilator is not None:
        gone = constant(op.annihilator).astype(result)
        np.testing.assert_array_equal(apply(x, constant(op.annihilator)), gone)
        np.testing.assert_array_equal(apply(constant(op.annihilator), x), gone)
    if op.left_annihilator is not None:
        zero = constant(op.left_annihilator)[: len(divisors)]
        np.testing.assert_array_equal(apply(zero, divisors), zero.astype(result))
    a, b, c = (axis.ravel() for axis in np.meshgrid(x, x, x))
    if op.commutes:
        np.testing.assert_array_equal(apply(a, b), apply(b, a))
    if op.associates and result == to and to.kind in "biu":
        np.testing.assert_array_equal(apply(apply(a, b), c), apply(a, apply(b, c)))


@pytest.mark.parametrize("op", [op for op in LAWFUL if op.compares], ids=str)
def test_comparisons_know_their_mirror_image(op: Op) -> None:
    for a, b in product((1, 2, 3), repeat=2):
        assert op.ufunc(a, b) == op.mirrored.ufunc(b, a)
    assert op.ufunc(1, 2) == op.when_less
    assert op.mirrored.mirrored is op


def test_logic_of_semirings_stays_logical() -> None:
    """Over numbers, too: 2 and 4 are both true, though they have no bit in common."""
    assert (ops.OR_AND.add, ops.OR_AND.mul) == (ops.OR, ops.AND)
    assert ops.AND(np.int64(2), np.int64(4)) and not ops.BITWISE_AND(np.int64(2), np.int64(4))


@pytest.mark.parametrize(
    "name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "invert"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_floats_have_no_bits(name: str, dtype: str) -> None:
    op = BUILTIN["left_shift" if name == "<<" else name]
    with pytest.raises(ParseError, match=f"E108: {op} is not defined for {dtype}") as caught:
        op.result((as_dtype(dtype),) * op.arity)
    assert "only integers and bools have bits" in str(caught.value.hint)


def test_int64_and_uint64_have_no_bits_in_common() -> None:
    with pytest.raises(ParseError, match="E108"):
        ops.BITWISE_AND.result((as_dtype("int64"), as_dtype("uint64")))
    kinds = as_dtype("int64"), as_dtype("uint64")
    assert [ops.LT.argument_type(kinds, n) for n in range(2)] == list(kinds)
