"""`Temporary` across blocks: each has a copy of what it adds to, and a kernel combines them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow
from openwork.runtime.gpu import steps
from openwork.runtime.gpu.emulator import ORDERS

pytestmark = pytest.mark.needs_cc
rng = np.random.default_rng(4)
VECTOR, MATRIX = rng.random(1000), sp.random(300, 50, 0.2, format="csr", random_state=rng)
x, A = ow.tensor(VECTOR, name="x"), ow.tensor(MATRIX, name="A")
THREADS = "parallelize(t,GPUThread,ParallelReduction)"
CASES: dict[str, tuple[str, tuple[int, ...], str, Any]] = {
    "a sum": ("y = x(i)", (), f"split(i,b,t,64), {THREADS}", VECTOR.sum()),
    "a largest": ("y = max(i, x(i))", (), f"split(i,b,t,2), {THREADS}", VECTOR.max()),
    "sums of columns": ("y(j) = A(i,j)", (50,), "split(i,b,t,16)", MATRIX.sum(axis=0)),
    "columns by threads": (
        "y(j) = A(i,j)", (50,), "split(i,b,t,1), parallelize(j,GPUThread,NoRaces)",
        MATRIX.sum(axis=0),
    ),
    "a sum of all": ("y = A(i,j)", (), "split(i,b,t,16)", MATRIX.sum()),
    "more runs than blocks": ("y = x(i)", (), "split(i,b,t,1)", VECTOR.sum()),
    "a sum on top": ("y += x(i)", (), "split(i,b,t,64)", VECTOR.sum()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_blocks_combine_what_they_have(name: str) -> None:
    text, shape, schedule, expected = CASES[name]
    tensors = {"x": x} if "x(" in text else {"A": A}
    stmt = ow.parse(text, y=ow.empty(shape, name="y"), **tensors)
    stmt = stmt.schedule(f"{schedule}, parallelize(b,GPUBlock,Temporary)")
    kernel = stmt.compile("cuda-emulated", deterministic=True)
    assert "atomic" not in kernel.source
    found = []
    for order in range(ORDERS):
        kernel._launcher.device.order = order
        found.append(kernel().to_numpy())
        np.testing.assert_allclose(found[-1], np.ravel(expected) if shape else expected, rtol=1e-12)
    assert all(f.tobytes() == found[0].tobytes() for f in found)


def test_blocks_inside_of_others_do_not_meet() -> None:
    stmt = ow.parse("y(j) = A(i,j)", y=ow.empty((50,), name="y"), A=A)
    with pytest.raises(
        ow.ScheduleError, match="only those of an outermost loop have copies"
    ) as caught:
        stmt.schedule(
            "split(i,b,t,16), parallelize(b,GPUBlock,Atomics), parallelize(t,GPUBlock,Temporary)"
        )
    assert caught.value.code == "E307"


def test_copies_that_32_bits_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be more than the elements of all operands and of the result."""
    stmt = ow.parse("y(j) = A(i,j)", y=ow.empty((50,), name="y"), A=A)
    stmt = stmt.schedule("split(i,b,t,16), parallelize(b,GPUBlock,Temporary)")
    kernel = stmt.compile("cuda-emulated")
    narrow = kernel().to_numpy()
    assert "typedef int index_t;" in kernel.source
    monkeypatch.setattr(steps, "_NARROW", 50)
    widths = []
    load = kernel._launcher.device.load

    def loaded(source: str, kernels: Any) -> Any:
        widths.append("typedef long long index_t;" in source)
        return load(source, kernels)

    monkeypatch.setattr(kernel._launcher.device, "load", loaded)
    np.testing.assert_array_equal(kernel().to_numpy(), narrow)
    assert widths == [True]
