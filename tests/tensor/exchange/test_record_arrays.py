"""Tensors of records as other libraries see them: arrays with the components last."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from tests.choices import in_turns

import openwork as ow
from openwork.algebra.entries import Entry

entry = ow.entry
KINDS = {
    "complex": entry.complex("float32"), "quaternion": entry.quaternion("float32"),
    "block": entry.block(2, 3), "vector": entry.vector(3, entry.dual()),
}  # fmt: skip
LAYOUTS = ["AoS", "SoA", "AoSoA(4)"]


class Foreign:
    """An array of another library, of which only DLPack's protocol is known."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def dense(kind: Entry, layout: str) -> tuple[Any, ow.Tensor]:
    """Numbers, and a tensor of them."""
    numbers = np.random.default_rng(0).random((6, 5, *kind.shape)).astype(kind.scalar)
    format = ow.dense(2).with_layout(layout)
    return numbers, ow.tensor(numbers, dtype=kind, format=format, name="x")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_dlpack_and_numpy(kind: str, layout: str) -> None:
    numbers, x = dense(KINDS[kind], layout)
    np.testing.assert_array_equal(np.from_dlpack(x), numbers)
    np.testing.assert_array_equal(np.asarray(x), numbers)
    assert ow.tensor(Foreign(numbers.copy()), dtype=KINDS[kind]).equals(x)
    if layout == "AoS":  # shared, not copied
        assert np.shares_memory(np.from_dlpack(x), x.storage.values)
        own = numbers.copy()
        assert np.shares_memory(ow.tensor(Foreign(own), dtype=KINDS[kind]).storage.values, own)


@pytest.mark.parametrize(("kind", "layout"), in_turns(list(KINDS), [*LAYOUTS, "packed"], 2))
def test_copies_updates_and_drawings(kind: str, layout: str) -> None:
    numbers, _ = dense(KINDS[kind], "AoS")
    numbers[::2] = 0
    format = ow.CSR.with_layout(layout)
    A = ow.tensor(numbers, dtype=KINDS[kind], format=format, name="A")
    assert (A.nnz, A.format.layout) == (15, layout)
    for other in (copy.copy(A), copy.deepcopy(A), A.to(ow.COO(2)).to(format)):
        assert other.equals(A)
        assert hash(other) != hash(A)
    assert (A == A).to_numpy().all()
    assert not (A != A).to_numpy().any()
    twice = A.copy()
    twice += A
    np.testing.assert_array_equal(twice.to_numpy(), 2 * numbers)
    np.testing.assert_array_equal(A.to_numpy(), numbers)
    assert not twice.equals(A)
    assert "values" in A.draw()
    assert A.draw("svg").startswith("<svg")


def test_a_kernel_takes_what_its_types_can_hold() -> None:
    """Encoded elements where it expects decoded ones, but no wider and no other ones."""
    unit, plain = entry.unit_quaternion("float32"), entry.quaternion("float32")
    A = ow.tensor(np.eye(4)[:, None, :], dtype=plain, format=ow.CSR, name="A")
    y = ow.empty(4, dtype=plain, name="y")
    kernel = ow.parse("y(i) = A(i,j) * 2", y=y, A=A).compile()
    made = kernel(A=A.astype(unit))
    np.testing.assert_array_equal(made.to_numpy(), kernel().to_numpy())
    for wrong in (A.astype(entry.quaternion()), A.to_numpy()[..., 0]):
        with pytest.raises(ow.OpenworkError, match="E202"):
            kernel(A=ow.tensor(wrong, format=ow.CSR))
    narrow = ow.parse("y(i) = A(i,j) * 2", y=y, A=A.astype(unit)).compile()
    with pytest.raises(ow.OpenworkError, match="E202"):
        narrow(A=A)
