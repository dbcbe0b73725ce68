"""Launches that are repeated, with a driver that only looks at what it is given."""

from __future__ import annotations

import copy
import ctypes
import threading
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.runtime.gpu import stand_in

from openwork.runtime.gpu import graph
from openwork.runtime.gpu.cuda import Cuda, DeviceStorage
from openwork.runtime.gpu.relaunch import Ready, Relaunch, Slices


class Refused(Exception):
    """What the driver raises in a thread that has no context."""


class Driver:
    """Reads the arguments of a launch as a GPU would: an address for each of them."""

    def __init__(self, kinds: list[Any], slow: bool = False) -> None:
        self.kinds, self.slow, self.refuses = kinds, slow, False
        self.launches: list[tuple[Any, ...]] = []

    def launchKernel(self, function: int, *rest: Any) -> None:
        if self.refuses:
            raise Refused
        *shape, stream, arguments, extra = rest
        assert extra == 0
        if self.slow:
            time.sleep(0.001)  # for others to change what is not theirs
        places = (ctypes.c_void_p * len(self.kinds)).from_address(arguments)
        values = [
            kind.from_address(place).value for kind, place in zip(self.kinds, places, strict=True)
        ]
        self.launches.append((function, tuple(shape), stream, values))


class Function:
    """CuPy's function, called in CuPy's way."""

    ptr = 4711

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, grid: Any, block: Any, args: Any) -> None:
        self.calls.append((grid, block, args))


def place(address: int) -> Any:
    return SimpleNamespace(ptr=address)


def array(address: int) -> Any:
    return SimpleNamespace(data=place(address))


KINDS = [ctypes.c_int32, ctypes.c_int64, ctypes.c_int8, *[ctypes.c_uint64] * 4]


def made(slow: bool = False) -> tuple[Driver, Function, Any, Any, Relaunch]:
    """A launch of a kernel whose result is its fourth and its sixth argument."""
    driver, function = Driver(KINDS, slow), Function()
    cp = SimpleNamespace(cuda=SimpleNamespace(driver=driver))
    result, operand = array(2**40), array(2**63 + 8)
    scalars = [np.int32(-3), np.int64(2**35), np.bool_(True)]
    args = [*scalars, result, operand, result, np.uint64(0)]
    return driver, function, result, operand, Relaunch(cp, function, (70000, 2), 96, args)


def do(action: Any) -> Any:
    return action()


def test_the_result_is_replaced_and_nothing_else() -> None:
    driver, function, result, operand, launched = made()
    ready = Ready([launched], result, place(7), do)
    for address in (512, 1024):
        ready.into(place(address))
        ready.go()
        expected = [-3, 2**35, 1, address, 2**63 + 8, address, 0]
        assert driver.launches.pop() == (4711, (70000, 2, 1, 96, 1, 1, 0), 7, expected)
    other = Ready([launched, launched], operand, place(0), do)
    other.into(place(64))
    other.go()
    for _ in range(2):
        assert driver.launches.pop()[3][3:6] == [2**40, 64, 2**40]
    assert not function.calls


def test_threads_do_not_see_the_results_of_others() -> None:
    driver, _, result, _, launched = made(slow=True)

    def many(first: int) -> None:
        ready = Ready([launched], result, place(first), do)
        for n in range(10):
            ready.into(place(first + n))
            ready.go()

    threads = [threading.Thread(target=many, args=(1000 * n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(driver.launches) == 40
    for _, _, stream, values in driver.launches:
        assert values[3] == values[5] and values[3] // 1000 * 1000 == stream


def test_what_the_driver_refuses_goes_through_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, function, result, operand, launched = made()
    monkeypatch.setattr(Cuda, "_tried", lambda self, action: action())
    ready = object.__new__(Cuda).ready([launched], result, place(3))
    ready.into(place(256))
    driver.refuses = True
    ready.go()
    ((grid, block, args),) = function.calls
    assert (grid, block) == ((70000, 2, 1), (96, 1, 1))
    assert args[3] == args[5] == np.uint64(256) and args[4] is operand
    driver.refuses = False
    ready.go()
    assert len(function.calls) == 1 and driver.launches[-1][3][3] == 256


def test_a_cupy_without_a_driver_to_call_is_no_hindrance() -> None:
    function, result = Function(), array(8)
    cp = SimpleNamespace(cuda=SimpleNamespace(driver=SimpleNamespace()))
    ready = Ready([Relaunch(cp, function, (1, 1), 32, [result])], result, place(0), do)
    ready.into(place(16))
    ready.go()
    assert function.calls == [((1, 1, 1), (32, 1, 1), (np.uint64(16),))]


class Graphs:
    """CUDA's graphs, as far as they are called: what is launched, and what stays."""

    def __init__(self, driver: Driver, refused: str = "") -> None:
        self.driver, self.refused = driver, refused
        self.nodes: list[Any] = []
        self.alive: list[int] = []
        self.asked: list[str] = []

    def functions(self) -> dict[str, Any]:
        return {name: partial(self.call, name) for name in graph._NAMES}

    def call(self, name: str, *args: Any) -> int:
        self.asked.append(name)
        if name == self.refused:
            return 801  # not supported
        match name:
            case "cuGraphCreate":
                args[0]._obj.value = 11
                self.alive.append(11)
            case "cuGraphAddKernelNode":
                place, made, before, count, kernel = args
                assert made.value == 11 and count.value == len(self.nodes[-1:])
                assert before[0] == (len(self.nodes) + 100 - 1 if self.nodes else None)
                place._obj.value = len(self.nodes) + 100
                self.nodes.append(self.read(kernel._obj))
            case "cuGraphInstantiateWithFlags":
                args[0]._obj.value = 12
                self.alive.append(12)
            case "cuGraphExecKernelNodeSetParams":
                assert args[0].value == 12
                self.nodes[args[1].value - 100] = self.read(args[2]._obj)
            case "cuGraphExecDestroy" | "cuGraphDestroy":
                self.alive.remove(args[0].value)
        return 0

    def read(self, kernel: graph.Kernel) -> tuple[Any, ...]:
        """What a launch would do now: the driver copies arguments."""
        shape = (*kernel.grid, *kernel.block, kernel.shared)
        self.driver.launchKernel(kernel.function, *shape, 0, kernel.arguments, 0)
        return self.driver.launches.pop()

    def launch(self, made: int, stream: int) -> None:
        assert (made, stream) == (12, 0)
        if self.driver.refuses:
            raise Refused
        self.driver.launches += self.nodes


def with_graphs(
    monkeypatch: pytest.MonkeyPatch, refused: str = "", kernels: int = 1
) -> tuple[Driver, Function, Graphs, Ready]:
    driver, function, result, _, launched = made()
    graphs = Graphs(driver, refused)
    monkeypatch.setattr(graph, "_driver", graphs.functions)
    launched.launch_graph = graphs.launch
    return driver, function, graphs, Ready([launched] * kernels, result, place(0), do)


@pytest.mark.parametrize("kernels", [1, 3])
def test_on_the_default_stream_launches_become_a_graph(
    monkeypatch: pytest.MonkeyPatch, kernels: int
) -> None:
    driver, function, graphs, ready = with_graphs(monkeypatch, kernels=kernels)
    for number, address in enumerate((512, 1024, 256)):
        ready.into(place(address))
        assert bool(graphs.asked) == bool(number)  # many launches are made only once
        ready.go()
        expected = [-3, 2**35, 1, address, 2**63 + 8, address, 0]
        launch = (4711, (70000, 2, 1, 96, 1, 1, 0), 0, expected)
        assert driver.launches == [launch] * kernels
        driver.launches.clear()
    driver.refuses = True
    ready.go()
    assert len(function.calls) == kernels and function.calls[0][2][3] == np.uint64(256)
    assert graphs.alive == [11, 12]
    del ready
    assert not graphs.alive  # at once, not when somebody looks for cycles


@pytest.mark.parametrize("refused", [*graph._NAMES[:1], *graph._NAMES[2:5]])
def test_without_graphs_there_are_launches(monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    driver, _, graphs, ready = with_graphs(monkeypatch, refused)
    for address in (512, 1024, 256, 128):
        ready.into(place(address))
        ready.go()
        assert driver.launches.pop()[3][3] == address and not driver.launches
    assert graphs.asked.count(refused) == 1  # and not again at every call
    del ready
    assert not graphs.alive  # at once, not when somebody looks for cycles


def test_other_streams_have_no_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    *_, graphs, _ = with_graphs(monkeypatch)
    *_, result, _, launched = made()
    ready = Ready([launched], result, place(7), do)
    for address in (512, 1024, 256):
        ready.into(place(address))
        ready.go()
    assert not graphs.asked


def test_nothing_to_launch_is_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a matrix without rows, say."""
    *_, graphs, ready = with_graphs(monkeypatch, kernels=0)
    for address in (512, 1024, 256):
        ready.into(place(address))
        ready.go()
    assert not graphs.asked


@pytest.mark.parametrize("count", [0, 1, 64, 1000, 10**6])
def test_memory_of_small_results_is_their_own(count: int) -> None:
    """Whoever holds one; and several threads may ask at once."""
    cp = SimpleNamespace(ndarray=stand_in.ndarray)
    another = Slices(cp, np.empty(count, np.float32), stand_in.alloc)
    made: list[Any] = []

    def take() -> None:
        for _ in range(12):
            made.append(another.array(another()))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, array in enumerate(made):
        assert array.shape == (count,)
        assert array.dtype == np.float32
        array[...] = number
    assert all((array == number).all() for number, array in enumerate(made))


def test_an_array_is_made_when_somebody_asks_for_it() -> None:
    asked: list[str] = []

    def array(place: str) -> str:
        asked.append(place)
        return f"array at {place}"

    storage = DeviceStorage.later({"shape": (3,), "fill": 0}, array, "home")
    assert storage.shape == (3,) and not asked
    assert storage.values == storage.values == "array at home" and asked == ["home"]
    with pytest.raises(AttributeError, match="'DeviceStorage' object has no attribute 'value'"):
        storage.value  # noqa: B018
    with pytest.raises(AttributeError):
        copy.copy(DeviceStorage.__new__(DeviceStorage)).values  # noqa: B018
