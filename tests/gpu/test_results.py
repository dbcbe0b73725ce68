"""Sparse results on a GPU, counted and filled by its units: the entries of the CPU's, in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.assembly.test_strategies import CASES, statement
from tests.gpu.batch import Batch

import openwork as ow
from openwork.loops.result import Append
from openwork.runtime.emulator import ORDERS
from openwork.tensor.validate import validate

pytestmark = pytest.mark.needs_cc


@pytest.fixture(scope="module")
def kernels() -> dict[str, Any]:
    """All cases, compiled in one go."""
    batch, found = Batch(), {}
    for name in CASES:
        kernel = statement(name).compile("cuda-emulated", loader=batch)
        batch.expect(kernel._compiled)
        found[name] = kernel
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_that_of_a_cpu(kernels: dict[str, Any], name: str) -> None:
    stmt, kernel = statement(name), kernels[name]
    expected = stmt.compile()().storage
    for order in range(ORDERS):
        kernel._device.order = order
        made = kernel().storage
        validate(made, "the result")
        for ours, theirs in zip(made.levels, expected.levels, strict=True):
            for array in theirs:
                np.testing.assert_array_equal(ours[array], theirs[array])
        np.testing.assert_allclose(made.values, expected.values, rtol=1e-14)


@pytest.mark.parametrize("name", CASES)
def test_no_result_is_left_to_one_thread(kernels: dict[str, Any], name: str) -> None:
    assembly = kernels[name]._plan.assembly
    assert not isinstance(assembly, Append) or assembly.lanes > 0, kernels[name].explain()


def test_one_thread_appends_where_the_schedule_has_it_so() -> None:
    kernel = statement("sum").assemble("serial").compile("cuda-emulated")
    assert "one thread appends to it, slowly: the schedule has it so" in kernel.explain()
    np.testing.assert_array_equal(kernel().to_numpy(), statement("sum").compile()().to_numpy())


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (1, 1)])
def test_no_rows_and_no_entries(shape: tuple[int, int]) -> None:
    A = ow.tensor(np.zeros(shape), format=ow.CSR, name="A")
    C = ow.empty(shape, format=ow.CSR, name="C")
    kernel = ow.parse("C(i,j) = A(i,j) + B(i,j)", A=A, B=A, C=C).compile("cuda-emulated")
    assert kernel().nnz == 0
