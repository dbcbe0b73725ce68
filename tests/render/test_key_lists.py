"""Sorting the keys of a workspace: dense ones, few ones, and many that are far apart."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from openwork.render.c.helpers import LIBRARY
from openwork.runtime.host.library import load

TYPES = "".join(
    f"typedef __{name.upper()}_TYPE__ {name}_t;\n"
    for name in ("int32", "int64", "uint32", "uint64")
)
CALL = """
int32_t kernel(void **arrays, int64_t *sizes) {
  order_keys_TYPE(arrays[0], sizes[0], arrays[1]);
  return 0;
}
"""


@pytest.mark.parametrize("type", ["int32", "int64"])
@pytest.mark.parametrize("optimize", ["-O0", "-O3"])
def test_keys_are_sorted(type: str, optimize: str) -> None:
    text = TYPES + LIBRARY.text("order_keys", type) + CALL.replace("TYPE", type)
    function = load(text, optimize=optimize).kernel
    rng = np.random.default_rng(0)
    counts = (0, 1, 2, 3, 8, 9, 12, 31, 32, 33, 48, 49, 64, 65, 96, 97, 200, 511, 512, 700, 3000)
    for count in counts:
        for spread in (1, 3, 6, 8, 9, 12, 20, 60, 66, 150, 3000, 100_000):
            extent = min(count * spread + 1, 2**31 - 1)
            keys = np.full(extent + 200, -7, type)  # a kernel has extent + 1
            found = np.unique(rng.integers(0, extent, count))
            size = len(found)
            keys[:size] = rng.permutation(found)
            marks = np.zeros(extent // 64 + 1, "uint64")
            arrays = (ctypes.c_void_p * 2)(keys.ctypes.data, marks.ctypes.data)
            assert function(arrays, (ctypes.c_int64 * 1)(size)) == 0
            assert np.array_equal(keys[:size], found), (count, spread)
            assert not marks.any()
            assert (keys[extent + 1 :] == -7).all()
