"""Sums of gathered products in masked vectors: by a stand-in for the instructions, and without."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import openwork as ow
from openwork.pipeline import Compiled
from openwork.runtime.host import launch
from openwork.runtime.host.library import load
from openwork.tensor.kernel import machine

pytestmark = pytest.mark.needs_cc
STAND_IN = Path(__file__).with_name("masked_lanes.h").read_text(encoding="utf-8")
LANES = {"float64": 8, "float32": 16}


@pytest.fixture
def fast_gathers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Defaults as on a processor that gathers fast."""
    monkeypatch.setattr(machine, "gathers_are_fast", lambda: True)
    machine.this_cpu.cache_clear()
    yield
    machine.this_cpu.cache_clear()


def with_stand_in(compiled: Compiled) -> Any:
    return load(STAND_IN + compiled.source).kernel


def rows_of_every_length(dtype: str) -> sparse.csr_array:
    """Rows of 0 to 40 entries, in this order and in another."""
    rng = np.random.default_rng(0)
    lengths = np.r_[np.arange(41), rng.permutation(41), 300]
    pos = np.r_[0, np.cumsum(lengths)].astype(np.int32)
    crd = np.concatenate([np.sort(rng.choice(500, n, replace=False)) for n in lengths])
    values = rng.standard_normal(len(crd)).astype(dtype)
    return sparse.csr_array((values, crd.astype(np.int32), pos), shape=(len(lengths), 500))


def with_slow_gathers(compiled: Compiled) -> Any:
    return load("#undef SLOW_GATHERS\n#define SLOW_GATHERS 1\n" + compiled.source).kernel


def with_fast_gathers(compiled: Compiled) -> Any:
    return load("#undef SLOW_GATHERS\n" + compiled.source).kernel


LOADERS = [
    pytest.param(None, id="as it is"),
    pytest.param(with_slow_gathers, id="slow"),
    pytest.param(with_fast_gathers, id="fast"),
    pytest.param(
        with_stand_in,
        id="stand-in",
        marks=pytest.mark.skipif(platform.machine() == "x86_64", reason="has its own instructions"),
    ),
]


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("dtype", LANES)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.usefixtures("fast_gathers")
def test_rows_of_every_length(loader: Any, dtype: str, threads: int) -> None:
    matrix, x = rows_of_every_length(dtype), np.linspace(1, 2, 500).astype(dtype)
    A, X = ow.tensor(matrix, name="A"), ow.tensor(x, name="x")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty((83,), dtype=dtype), A=A, x=X)
    kernel = stmt.compile(loader=loader)
    assert "parallelize(j,CPUVector,ParallelReduction)" in kernel.explain()
    assert f"pA2 += LANES_masked_{dtype}" in kernel.source
    ow.set_num_threads(threads)
    try:
        found = kernel().to_numpy()
    finally:
        ow.set_num_threads(None)
    expected, eps = matrix.astype(float) @ x.astype(float), float(np.finfo(dtype).eps)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1000 * eps)


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.usefixtures("fast_gathers")
def test_lanes_beyond_a_row_add_nothing(loader: Any) -> None:
    """Neither what follows a row in memory, nor what its coordinates name, is looked at."""
    matrix = sparse.csr_array(np.array([[1.0, 0, 0], [0, np.inf, np.nan]]))
    A, x = ow.tensor(matrix, name="A"), ow.tensor(np.array([2.0, np.nan, np.inf]), name="x")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty((2,)), A=A, x=x)
    np.testing.assert_array_equal(stmt.compile(loader=loader)().to_numpy(), [2, np.nan])


SUMS = {
    "y(i) = A(i,j) * x(j) + 1": lambda A, x, z: A @ x + 1,
    "y(i) = A(i,j) * x(j) * 2": lambda A, x, z: A @ x * 2,
    "y(i) = A(i,j) * x(j) * x(j)": lambda A, x, z: A @ (x * x),
    "y(i) = A(i,j) * x(j) * z(i)": lambda A, x, z: A @ x * z,
    "y(i) = A(i,j) * x(j) + z(i)": lambda A, x, z: A @ x + z,
    "y(i) = A(i,j)": lambda A, x, z: A.sum(axis=1),
    "s = A(i,j) * x(j) * z(i)": lambda A, x, z: z @ (A @ x),
}


@pytest.mark.parametrize("text", SUMS)
@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.usefixtures("fast_gathers")
def test_other_sums(text: str, loader: Any) -> None:
    matrix, x, z = rows_of_every_length("float64"), np.linspace(1, 2, 500), np.linspace(3, 4, 83)
    given = {"A": matrix, "x": x, "z": z}
    used = {name: ow.tensor(value) for name, value in given.items() if f"{name}(" in text}
    result = ow.empty((83,) if text[0] == "y" else ())
    kernel = ow.parse(text, **{text[0]: result}, **used).compile(loader=loader)
    np.testing.assert_allclose(kernel().to_numpy(), SUMS[text](matrix, x, z), rtol=1e-12)


@pytest.mark.parametrize(
    "format", [ow.CSR, ow.DCSR, ow.COO(2), ow.LIL, ow.SELL(4), ow.BSR(2, 2)], ids=repr
)
@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.usefixtures("fast_gathers")
def test_formats(format: ow.Format, loader: Any) -> None:
    matrix, x = rows_of_every_length("float64"), np.linspace(1, 2, 500)
    A = ow.tensor(matrix, name="A").to(format)
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty((83,)), A=A, x=ow.tensor(x))
    np.testing.assert_allclose(stmt.compile(loader=loader)().to_numpy(), matrix @ x, rtol=1e-12)


STATEMENTS = ["y(i) = A(i,j) * x(j)", "y(i) = A(i,j) * x(j) + z(i)"]


@pytest.mark.parametrize("format", [ow.CSR, ow.DCSR], ids=repr)
@pytest.mark.parametrize("text", STATEMENTS)
@pytest.mark.parametrize("dtype", LANES)
@pytest.mark.usefixtures("fast_gathers")
def test_sums_do_not_depend_on_the_number_of_threads(
    format: ow.Format, text: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are summed up in groups of eight, which begin elsewhere with other threads."""
    monkeypatch.setattr(launch, "SERIAL_BELOW", -1)
    matrix, x = rows_of_every_length(dtype), np.linspace(1, 2, 500).astype(dtype)
    A, X = ow.tensor(matrix, name="A").to(format), ow.tensor(x, name="x")
    operands = {"y": ow.empty((83,), dtype=dtype), "A": A, "x": X}
    z = np.arange(83.0).astype(dtype)
    if "z" in text:
        operands["z"] = ow.tensor(z, name="z")
    kernel = ow.parse(text, **operands).compile()
    merges = format == ow.DCSR and "z" in text
    assert merges or f"sum_rows_{dtype}(" in kernel.source
    found = []
    try:
        for threads in (1, 2, 3, 7):
            ow.set_num_threads(threads)
            found.append(kernel().to_numpy().tobytes())
    finally:
        ow.set_num_threads(None)
    assert len(set(found)) == 1
    expected = matrix.astype(float) @ x.astype(float) + (z if "z" in text else 0)
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(np.frombuffer(found[0], dtype), expected, rtol=0, atol=1000 * eps)


@pytest.mark.usefixtures("fast_gathers")
def test_fibres_of_a_tensor_are_summed_one_after_the_other() -> None:
    where = np.array([[0, 0, 1, 2], [1, 1, 0, 1], [0, 3, 2, 2]])
    X = ow.tensor((where, np.ones(4)), shape=(3, 2, 4), format=ow.CSF(3), name="X")
    b = ow.tensor(np.arange(4.0), name="b")
    kernel = ow.parse("y(i) = X(i,k,l) * b(l)", y=ow.empty(3), X=X, b=b).compile()
    assert "CPUVector" not in kernel.explain()
    np.testing.assert_array_equal(kernel().to_numpy(), [3, 2, 2])
