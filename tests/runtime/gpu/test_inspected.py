"""What an inspector finds about a pattern stays with the tensor, for all kernels that ask."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow
from openwork import recipes as r
from openwork.runtime.gpu import inspected
from openwork.runtime.gpu.emulator import Emulator

pytestmark = pytest.mark.needs_cc


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str]]:
    """What kernels write, in the order in which they are launched."""
    seen: list[frozenset[str]] = []
    launch = Emulator.launch

    def noted(self: Any, function: Any, grid: Any, kernel: Any, *more: Any) -> Any:
        seen.append(kernel.written)
        return launch(self, function, grid, kernel, *more)

    monkeypatch.setattr(Emulator, "launch", noted)
    return seen


def spmv(A: Any, x: Any, scale: str = "") -> Any:
    y = ow.empty((A.shape[0],), name="y")
    return r.position_split(ow.parse(f"y(i) = {scale}A(i,j) * x(j)", y=y, A=A, x=x), 4, 32)


def inspections(launched: list[frozenset[str]]) -> int:
    return sum(any("_tiles" in name for name in written) for written in launched)


def test_tile_starts_are_found_once_for_a_pattern(launched: list[frozenset[str]]) -> None:
    rng = np.random.default_rng(0)
    matrix = sp.random(300, 200, 0.1, format="csr", random_state=rng)
    A, vector = ow.tensor(matrix, name="A"), rng.random(200)
    x = ow.tensor(vector, name="x")
    for scale in ("", "2 * "):  # two kernels, each called twice
        kernel = spmv(A, x, scale).compile("cuda-emulated")
        for _ in range(2):
            factor = 2 if scale else 1
            np.testing.assert_allclose(kernel().to_numpy(), factor * (matrix @ vector))
    assert inspections(launched) == 1
    other = sp.random(300, 200, 0.1, format="csr", random_state=rng)
    made = kernel(A=ow.tensor(other, name="A"))
    np.testing.assert_allclose(made.to_numpy(), 2 * (other @ vector))
    assert inspections(launched) == 2


def test_they_go_with_the_tensor(launched: list[frozenset[str]]) -> None:
    gc.collect()
    before = len(inspected._found)
    A = ow.tensor(sp.random(300, 200, 0.1, format="csr", random_state=1), name="A")
    x = ow.tensor(np.ones(200), name="x")
    kernel = spmv(A, x).compile("cuda-emulated")
    kernel()
    assert len(inspected._found) == before + 1
    del A, x, kernel
    gc.collect()
    assert len(inspected._found) == before


def test_what_was_never_filled_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that ends before its inspector has run leaves nothing for the next one."""
    matrix = sp.random(300, 200, 0.1, format="csr", random_state=1)
    A, x = ow.tensor(matrix, name="A"), ow.tensor(np.ones(200), name="x")
    kernel, launch = spmv(A, x).compile("cuda-emulated"), Emulator.launch

    def interrupted(self: Any, function: Any, grid: Any, kernel: Any, *more: Any) -> Any:
        if any("_tiles" in name for name in kernel.written):
            raise KeyboardInterrupt
        return launch(self, function, grid, kernel, *more)

    monkeypatch.setattr(Emulator, "launch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kernel()
    monkeypatch.undo()
    np.testing.assert_allclose(kernel().to_numpy(), matrix @ np.ones(200))


def test_another_thread_does_not_read_it_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = sp.random(300, 200, 0.1, format="csr", random_state=2)
    A, x = ow.tensor(matrix, name="A"), ow.tensor(np.ones(200), name="x")
    first, second = (spmv(A, x, scale).compile("cuda-emulated") for scale in ("", "2 * "))
    launch, seen = Emulator.launch, []

    def overtaken(self: Any, function: Any, grid: Any, kernel: Any, *more: Any) -> Any:
        if not seen:  # before anything is launched, another kernel is called
            seen.append(kernel)
            with ThreadPoolExecutor(1) as pool:
                seen.append(pool.submit(second).result())
        return launch(self, function, grid, kernel, *more)

    monkeypatch.setattr(Emulator, "launch", overtaken)
    np.testing.assert_allclose(first().to_numpy(), matrix @ np.ones(200))
    np.testing.assert_allclose(seen[1].to_numpy(), 2 * (matrix @ np.ones(200)))


def test_a_graph_fills_it_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is launched while a graph is recorded runs later, if ever."""
    matrix = sp.random(300, 200, 0.1, format="csr", random_state=3)
    A, x = ow.tensor(matrix, name="A"), ow.tensor(np.ones(200), name="x")
    kernel, launch = spmv(A, x).compile("cuda-emulated"), Emulator.launch
    monkeypatch.setattr(Emulator, "is_recording", True)
    monkeypatch.setattr(Emulator, "launch", lambda *given: given[1:])
    kernel()
    monkeypatch.undo()
    assert Emulator.launch is launch
    np.testing.assert_allclose(kernel().to_numpy(), matrix @ np.ones(200))
