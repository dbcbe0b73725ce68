"""Kernels as functions of Python's: they find arrays' elements, and numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openwork.runtime.host.direct import MOST, direct
from openwork.runtime.host.library import load

pytestmark = pytest.mark.needs_cc

SOURCE = """
int kernel(void **arrays, long long *sizes) {
  double *const *of = (double *const *)(arrays + 1);
  for (long long n = 0; n < sizes[0]; n++) of[2][n] = of[0][n] + of[1][0];
  return *(const volatile int *)arrays[0] ? 2 : of[0][0] < 0 ? 7 : 0;
}
"""


@pytest.fixture(params=[1.0, 1e6], ids=["brief", "without the lock"])
def made(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """A function that adds an element, or a number, to an array."""
    kernel, sizes = load(SOURCE).kernel, (ctypes.c_int64 * 1)(3)

    def function(kind: str | None = None) -> Any:
        found = direct(kernel, sizes, (None, kind, None), request.param)
        assert found is not None
        held.append(found)
        return found[0]

    held: list[Any] = []
    return function


def test_it_finds_elements(made: Callable[..., Any]) -> None:
    whole, out = np.arange(10.0), np.zeros(3)
    assert made()(whole[4:7], whole[9:], out) == 0
    assert out.tolist() == [13, 14, 15]


def test_numbers_stand_for_arrays(made: Callable[..., Any]) -> None:
    out = np.zeros(3)
    for number in (2.5, 3, True, -1, -1.0):
        assert made("float64")(np.arange(3.0), number, out) == 0
        assert out.tolist() == (np.arange(3.0) + number).tolist()
    with pytest.raises(OverflowError):
        made("float64")(np.arange(3.0), 10**400, out)


def test_it_says_what_the_kernel_says(made: Callable[..., Any]) -> None:
    arrays = -np.ones(3), np.ones(1), np.ones(3)
    assert made()(*arrays) == 7
    assert made()(*arrays[:2]) == -1


def test_more_arrays_than_it_can_take() -> None:
    assert direct(load(SOURCE).kernel, (ctypes.c_int64 * 1)(3), (None,) * (MOST + 1), 1.0) is None
