"""Passes over GPU kernels: the arguments of a kernel follow from what its body uses."""

from __future__ import annotations

from collections.abc import Callable

from openwork.program import nodes as p
from openwork.program.effects import changed_by_helpers
from openwork.program.gpu_nodes import (
    BUILTIN,
    Combine,
    DeviceProgram,
    Kernel,
    LoadVector,
    MakeVector,
    Shared,
    StoreVector,
)
from openwork.program.nodes import Array, Name, statements
from openwork.tree import replace, walk


def each_kernel(device: DeviceProgram, change: Callable[[Kernel], p.Block]) -> DeviceProgram:
    """`device` with the bodies of its kernels rewritten by `change`; itself if none changes."""
    bodies = [change(kernel) for kernel in device.kernels]
    if all(body is k.body for body, k in zip(bodies, device.kernels, strict=True)):
        return device
    pairs = zip(device.kernels, bodies, strict=True)
    return replace(device, kernels=tuple(with_body(k, body) for k, body in pairs))


def with_body(kernel: Kernel, body: p.Block) -> Kernel:
    """`kernel` with another body, and the arguments that the body needs."""
    declared = set(BUILTIN)
    own: set[Array] = set()
    written = {s.array.name for s in kernel.scratch} | changed_by_helpers(body)
    for s in statements(body):
        match s:
            case p.Declare(name=name) | p.For(var=name):
                declared.add(name.name)
            case p.Store(array=array) | Combine(array=array) | StoreVector(array=array):
                written.add(array.name)
            case p.Local(array=array) | Shared(array=array):
                own.add(array)
            case LoadVector(vector=array) | MakeVector(vector=array):
                own.add(array)
    names: dict[str, Name] = {}
    arrays: dict[Array, None] = {}
    for part in (body, *(scratch.count for scratch in kernel.scratch)):
        for n in walk(part):
            if isinstance(n, Name):
                names.setdefault(n.name, n)
            elif isinstance(n, Array) and part is body:
                arrays[n] = None
    scalars = [n for name, n in names.items() if name not in declared]
    arrays = dict.fromkeys(n for n in arrays if n not in own)
    return replace(
        kernel,
        body=body,
        scalars=tuple(scalars),
        arrays=tuple(arrays),
        written=frozenset(written),
    )
