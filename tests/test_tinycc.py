"""TinyCC compiles kernels of tests as gcc does, and leaves to gcc what it cannot."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from tests import tinycc

import openwork as ow
from openwork.runtime.host.library import load
from openwork.runtime.host.threads import set_num_threads

pytestmark = [
    pytest.mark.needs_cc,
]
HEAD = "typedef __INT32_TYPE__ int32_t;\ntypedef __INT64_TYPE__ int64_t;\n"
BEGIN = HEAD + "int32_t kernel(void **arrays, int64_t *sizes) {\n  double *y = arrays[0];\n"


@pytest.fixture(autouse=True)
def _compiled_by_tinycc() -> None:
    if tinycc.kernel(BEGIN + "return 0; }") is None:
        pytest.skip("TinyCC compiles no kernels here")


def call(source: str, threads: int = 1) -> float:
    """What a kernel stores to its first array, an element."""
    y = np.zeros(1)
    arrays, sizes = (ctypes.c_void_p * 1)(y.ctypes.data), (ctypes.c_int64 * 1)(threads)
    function = load(BEGIN + source + "\n  return 0;\n}").kernel
    function.restype = ctypes.c_int32
    assert function(arrays, sizes) == 0
    return float(y[0])


def test_kernels_are_compiled_by_tinycc() -> None:
    source = "#ifdef __TINYC__\n  *y = 1.0;\n#else\n  *y = 2.0;\n#endif"
    assert call(source) == 1.0


@pytest.mark.threads
def test_threads_are_left_to_gcc() -> None:
    assert call("*y = 1.0;\n#ifdef __TINYC__\n  *y = 2.0;\n#endif") == 1.0


@pytest.mark.parametrize(("threads", "order"), [(1, 0), (2, 10), (3, 102), (4, 1302)])
def test_odd_parts_run_before_even_ones(threads: int, order: int) -> None:
    loop = """const int64_t threads = sizes[0];
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
  for (int64_t part = 0; part < threads; part++) {
    *y = 10 * *y + part;
  }"""
    assert call(loop, threads) == order


@pytest.mark.parametrize(
    "source",
    [
        "typedef double two __attribute__((vector_size(16)));\n  two a = {1.0, 2.0}; *y = a[1];",
        "_Complex double z = 2.0; *y = __real__ z;",
        "__int128 wide = 2; *y = (double)wide;",
        "*y = __builtin_fma(2.0, 1.0, 0.0);",  # no function of that name
    ],
    ids=["vectors", "complex", "128 bits", "a function of gcc's"],
)
def test_what_it_lacks_is_left_to_gcc(source: str) -> None:
    assert call(source) == 2.0
    assert isinstance(load(BEGIN + source + "\n  return 0;\n}"), ctypes.CDLL)


def test_what_gcc_has_built_in() -> None:
    assert call("long long n = 5; __atomic_fetch_add(&n, 2, 0); *y = (double)n;") == 7.0
    assert call("*y = __builtin_ctzll(8) + 10.0 * __builtin_popcountll(7);") == 33.0
    assert np.isnan(call('*y = __builtin_nan("");'))
    assert call("*y = -__builtin_inf();") == -np.inf


@pytest.mark.parametrize("threads", [1, 3])
def test_statements_with_any_number_of_threads(threads: int) -> None:
    set_num_threads(threads)
    try:
        values = np.arange(3000.0) % 7
        x, y = ow.tensor(values, name="x"), ow.empty(3000, name="y")
        statement = ow.parse("y(i) = x(i) * x(i)", x=x, y=y)
        result = statement.schedule("parallelize(i,CPUThread,NoRaces)").compile()().to_numpy()
    finally:
        set_num_threads(None)
    np.testing.assert_array_equal(result, values * values)
