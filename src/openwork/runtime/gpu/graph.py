"""Launches that were made before as a graph of CUDA's, which the driver starts in half the time.

CuPy has no way to change the arguments of a graph, so that the driver is called itself. Where it
cannot be, or refuses, there is no graph, and nothing is lost but the time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

_NAMES = (
    "cuGraphCreate",
    "cuGraphDestroy",
    "cuGraphAddKernelNode",
    "cuGraphInstantiateWithFlags",
    "cuGraphExecKernelNodeSetParams",
    "cuGraphExecDestroy",
)


class NoGraph(Exception):
    """The driver is not there, or does not want to."""


class Kernel(ctypes.Structure):
    """A launch as the driver wants it: CUDA_KERNEL_NODE_PARAMS, in its first version."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
    )


@cache
def _driver() -> Any:
    try:
        found = ctypes.CDLL("libcuda.so.1")
        return {name: getattr(found, name) for name in _NAMES}
    except (OSError, AttributeError):
        return None


class Graph:
    """Kernels one after the other, on the default stream.

    Args:
        launch: CuPy's, which takes a graph and a stream.
        kernels: with their arguments in memory that stays.

    Raises:
        NoGraph: it cannot be made here.
    """

    def __init__(self, launch: Callable[[int, int], None], kernels: Sequence[Kernel]) -> None:
        driver = self._driver = _driver()
        if driver is None:
            raise NoGraph
        self._graph, self._made = ctypes.c_void_p(), ctypes.c_void_p()
        self._do("cuGraphCreate", ctypes.byref(self._graph), 0)
        nodes: list[Any] = []
        for kernel in kernels:
            before = (ctypes.c_void_p * 1)(*nodes[-1:])
            node = ctypes.c_void_p()
            given = (before, ctypes.c_size_t(len(nodes[-1:])), ctypes.byref(kernel))
            self._do("cuGraphAddKernelNode", ctypes.byref(node), self._graph, *given)
            nodes.append(node)
        made = ctypes.byref(self._made)
        self._do("cuGraphInstantiateWithFlags", made, self._graph, ctypes.c_ulonglong(0))
        change = driver["cuGraphExecKernelNodeSetParams"]
        self._changes = [
            partial(change, self._made, node, ctypes.byref(kernel))
            for node, kernel in zip(nodes, kernels, strict=True)
        ]
        self.launch = partial(launch, self._made.value or 0, 0)

    def changed(self) -> bool:
        """Read the arguments again, for the launches from now on; False: that is not possible."""
        return not any([change() for change in self._changes])

    def _do(self, name: str, *args: Any) -> None:
        if self._driver[name](*args) != 0:
            raise NoGraph

    def __del__(self) -> None:
        if getattr(self, "_made", None):  # one that is running is freed when it is done
            self._driver["cuGraphExecDestroy"](self._made)
        if getattr(self, "_graph", None):
            self._driver["cuGraphDestroy"](self._graph)
