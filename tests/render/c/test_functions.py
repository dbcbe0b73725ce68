"""Functions that compilers vectorize: errors, special values, and one result for a number."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.render.c.dialect import FORMULAS
from openwork.render.c.writer import ANGLES

pytestmark = pytest.mark.optimized

_COUNT = 20_011  # no whole number of vectors
_SPECIAL = (0, 1, np.inf, np.nan, 0.5, 0.34657359, 1.4142135, 1.4142137, 88.72283, 88.72285, 5, 22)
_FAR = (709.782712893384, 709.782712893385, 708.396, 745.13, 745.14, 37.4, 103.97, 103.98, 87.33)


def _elements(name: str, type: str, rng: np.random.Generator) -> Any:
    """Numbers of all sizes, whose function is finite for most, and those at the edges."""
    info = np.finfo(type)
    edges = [*_SPECIAL, *_FAR, info.tiny, info.smallest_subnormal, info.max, info.eps]
    usual = 3 * rng.standard_normal(_COUNT // 3)
    small = rng.standard_normal(_COUNT // 3) * 10.0 ** rng.integers(-12, 1, _COUNT // 3)
    far = rng.uniform(*((-745, 710) if type == "float64" else (-104, 89)), _COUNT // 3)
    found = np.concatenate([edges, np.negative(edges), usual, small, far]).astype(type)
    if name in ANGLES:  # where results are small, far from 0
        return np.concatenate([found, (np.arange(1, 63_000, 7) * (np.pi / 2)).astype(type)])
    if name == "log":
        near = np.exp(small).astype(type)
        found = np.concatenate([found, near, np.exp2(far * 0.9).astype(type)])
    return found


@cache
def _kernel(name: str, type: str) -> ow.Kernel[ow.Tensor]:
    y, a = ow.empty(9, dtype=type), ow.tensor(np.ones(9, type))
    return ow.parse(f"y(i) = {name}(a(i))", y=y, a=a).compile()


def _computed(name: str, elements: Any) -> Any:
    """A kernel's results: `np.expm1` of a dense tensor is NumPy's own."""
    return _kernel(name, elements.dtype.name)(a=elements).to_numpy()


def _units(made: Any, exact: Any, rounded: Any) -> Any:
    """The errors in units in the last place of the exact results."""
    finite = np.isfinite(rounded) & np.isfinite(made)
    unit = np.spacing(np.abs(rounded[finite])).astype(np.longdouble)
    return np.abs(made[finite].astype(np.longdouble) - exact[finite]) / unit


@pytest.mark.parametrize(("name", "type"), sorted(FORMULAS))
def test_functions_err_by_less_than_nine_tenths_of_a_unit(name: str, type: str) -> None:
    elements = _elements(name, type, np.random.default_rng(0))
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(elements.astype(np.longdouble))
        made = _computed(name, elements)
        rounded = exact.astype(type)
    assert made.dtype == type
    assert _units(made, exact, rounded).max() < 0.9
    np.testing.assert_array_equal(np.isnan(made), np.isnan(rounded))
    infinite = np.isinf(rounded)
    np.testing.assert_array_equal(made[infinite], rounded[infinite])
    number = ~np.isnan(rounded)
    np.testing.assert_array_equal(np.signbit(made[number]), np.signbit(rounded[number]))


@pytest.mark.parametrize(("name", "type"), sorted(FORMULAS))
def test_a_number_has_one_result_wherever_it_stands(name: str, type: str) -> None:
    elements = np.abs(_elements(name, type, np.random.default_rng(1))[50:371])
    whole = _computed(name, elements)
    for begin, end in ((1, 321), (3, 6), (5, 22), (320, 321)):
        part = _computed(name, elements[begin:end].copy())
        np.testing.assert_array_equal(part, whole[begin:end])
    beside_far = _computed(name, np.append(elements, elements.dtype.type(1e6)))
    np.testing.assert_array_equal(beside_far[:-1], whole)


@pytest.mark.parametrize(("name", "type"), [("expm1", "float64"), ("tanh", "float32")])
def test_a_number_has_one_result_in_loops_without_vectors(name: str, type: str) -> None:
    elements = _elements(name, type, np.random.default_rng(1))[50:371]
    places = np.arange(0, 642, 2)
    sparse = ow.tensor((places[None], elements), "Compressed", shape=(642,))
    y = ow.empty(642, dtype=type)
    made = ow.parse(
        f"y(i) = {name}(a(i)) * x(i)", y=y, a=sparse, x=ow.tensor(np.ones(642, type))
    ).compile()()
    whole = _computed(name, elements)
    np.testing.assert_array_equal(made.to_numpy()[places], whole)


def test_angles_are_near_in_vectors_only() -> None:
    a, b = (ow.tensor(np.ones(9)) for _ in "ab")
    source = ow.parse("y(i) = sin(a(i)) * b(i) + cos(2 * a(i))", a=a, b=b).compile().source
    assert "|= __builtin_fabs(A_vals[i]) >= 100000;" in source
    assert "|= __builtin_fabs(2.0 * A_vals[i]) >= 100000;" in source
    assert "near_sin_float64(A_vals[i]) * B_vals[i] + near_cos_float64(2.0 * A_vals[i])" in source
    nested = ow.parse("y(i) = sin(cos(a(i)))", a=a).compile()
    assert "_far" not in nested.source
    guarded = ow.parse("y(i) = select(a(i) > 0, sin(a(i)), 0)", a=a).compile()  # perhaps not there
    assert "_far" not in guarded.source
    np.testing.assert_allclose(nested().to_numpy(), np.sin(np.cos(np.ones(9))), rtol=1e-15)


def test_wide_vectors_where_functions_are_computed() -> None:
    source = ow.parse("y(i) = tanh(a(i))", a=ow.tensor(np.ones(9, "float32"))).compile().source
    assert "#pragma omp simd simdlen(16)" in source
    assert "tanh_float32(A_vals[i])" in source
