"""Repeated launches as a CUDA graph, which the driver starts in half the time.

CuPy cannot change the arguments of a graph, so the driver is called directly. If that fails, there
is no graph, and only time is lost.
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
    """The driver is missing, or refuses."""


class Kernel(ctypes.Structure):
    """A launch as the driver takes it: CUDA_KERNEL_NODE_PARAMS, version 1."""

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
        launch: CuPy's function, which takes a graph and a stream.
        kernels: the launches; the memory of their arguments must stay valid.

    Raises:
        NoGraph: no graph can be created here.
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
        """Read the arguments again, for later launches; False if that is not possible."""
        return not any([change() for change in self._changes])

    def _do(self, name: str, *args: Any) -> None:
        if self._driver[name](*args) != 0:
            raise NoGraph

    def __del__(self) -> None:
        if getattr(self, "_made", None):  # a running graph is freed when it ends
            self._driver["cuGraphExecDestroy"](self._made)
        if getattr(self, "_graph", None):
            self._driver["cuGraphDestroy"](self._graph)
