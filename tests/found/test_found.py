"""Cases that were wrong once are right, and what cannot be is refused, by the code it says."""

from __future__ import annotations

from typing import Any

import pytest
from tests.found.cases import HERE, Found, cases, text_of
from tests.gpu.batch import Batch as EmulatedBatch
from tests.random.generate import assert_agrees
from tests.random.test_property import Batch, answer, several_threads

from openwork.errors import ScheduleError
from openwork.runtime.gpu.emulator import ORDERS
from openwork.runtime.reference import Masked

__all__ = ["several_threads"]  # the fixture

ON_CPU = [*cases("schedules.toml"), *cases("formats.toml")]
ON_GPU = cases("gpu.toml")
REFUSED = cases("refused.toml")

Kernels = dict[str, Any]


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    """The kernels of all cases, or what they end with; one call of the compiler makes all."""
    loader = Batch()
    return {case.name: _compiled(case, "cpu", loader) for case in ON_CPU}


@pytest.fixture(scope="module")
def emulated() -> Kernels:
    """The same for a GPU."""
    loader, made = EmulatedBatch(), {}
    for case in ON_GPU:
        made[case.name] = kernel = _compiled(case, "cuda-emulated", loader)
        if not isinstance(kernel, Exception):
            loader.expect(kernel._launcher.compiled)
    return made


def _compiled(case: Found, target: str, loader: Any) -> Any:
    try:
        return case.statement().schedule(case.schedule).compile(target, loader=loader)
    except Exception as error:
        return error


def _agrees(case: Found, result: Masked | Exception) -> None:
    if isinstance(result, Exception):
        raise result
    tensor = case.statement().assignment.lhs.tensor
    present = None if tensor.format.is_dense else result.present
    assert_agrees(result.values, present, case.expected(), tensor.dtype, atol=case.atol)


def _named(stored: list[Found]) -> Any:
    return pytest.mark.parametrize("case", stored, ids=[case.name for case in stored])


@pytest.mark.needs_cc
@pytest.mark.usefixtures("several_threads")
@_named(ON_CPU)
def test_what_was_wrong_is_right(case: Found, kernels: Kernels) -> None:
    stmt = case.statement().schedule(case.schedule)
    assert case.statement().schedule(stmt.commands).loops == stmt.loops  # text reads back
    kernel = kernels[case.name]
    _agrees(case, kernel if isinstance(kernel, Exception) else answer(kernel))


@pytest.mark.needs_cc
@_named(ON_GPU)
def test_what_was_wrong_on_a_gpu_is_right(case: Found, emulated: Kernels) -> None:
    kernel = emulated[case.name]
    if isinstance(kernel, Exception):
        raise kernel
    for kernel._launcher.device.order in range(ORDERS):
        _agrees(case, answer(kernel))


@_named(REFUSED)
def test_what_cannot_be_is_refused(case: Found) -> None:
    with pytest.raises(ScheduleError) as caught:
        case.statement().schedule(case.schedule)
    assert caught.value.code == case.refused


@pytest.mark.parametrize("file", sorted(file.name for file in HERE.glob("*.toml")))
def test_the_text_of_a_case_reads_back(file: str) -> None:
    stored, written = cases(file), (HERE / file).read_text(encoding="utf-8")
    assert len({case.name for case in stored}) == len(stored)
    for case in stored:
        stmt = case.statement()
        text = text_of(case.name, stmt, case.schedule, atol=case.atol, refused=case.refused)
        assert text in written, case.name
        assert bool(case.refused) == (file == "refused.toml")
