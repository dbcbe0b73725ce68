"""Units of a GPU take the elements of an array that is reduced."""

from __future__ import annotations

import numpy as np
import pytest

import openwork.skeletons as sk
from openwork.errors import PatternError

REDUCED = {
    "reduce(+, 0)": np.sum,
    "reduce(max, -9)": lambda sums: max(-9, sums.max(initial=-9)),
    "reduce(min, 9) :>> fun(s => s * 2)": lambda sums: 2 * min(9, sums.min(initial=9)),
}


@pytest.mark.parametrize(
    "count", [0, 1, 5, 300]
)  # rows: none, one thread's, a block's, two blocks'
@pytest.mark.parametrize("unit", ["mapGlobal", "mapWorkgroup", "mapLocal"])
@pytest.mark.parametrize("reduced", REDUCED)
def test_their_results_are_combined(reduced: str, unit: str, count: int) -> None:
    """A thread stored what it had itself."""
    made = sk.parse(
        f"nFun n. fun(x : [int64]_(3 * n) => x :>> split(3) :>> {unit}(reduce(+, 0)) :>> {reduced})"
    )
    x = np.random.default_rng(count).integers(-9, 9, 3 * count)
    expected = REDUCED[reduced](x.reshape(count, 3).sum(axis=1))
    assert made.compile("cuda-emulated")(x=x) == expected


@pytest.mark.parametrize("unit", ["mapGlobal", "mapWorkgroup", "mapLocal"])
def test_what_is_taken_in_order_has_no_units(unit: str) -> None:
    made = sk.parse(
        f"nFun n. fun(x : [int64]_n => x :>> {unit}(fun(e => e + 1)) "
        ":>> reduce(fun(a => fun(b => a * 2 + b)), 0))"
    )
    with pytest.raises(PatternError, match="E708"):
        made.compile("cuda-emulated")
