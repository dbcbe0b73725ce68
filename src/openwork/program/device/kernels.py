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
from openwork.program.nodes import Array, Name
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
    nodes = list(walk(body))
    declared = {
        n.name.name if isinstance(n, p.Declare) else n.var.name
        for n in nodes
        if isinstance(n, (p.Declare, p.For))
    }
    own = {n.array for n in nodes if isinstance(n, (p.Local, Shared))}
    own |= {n.vector for n in nodes if isinstance(n, (LoadVector, MakeVector))}
    names = dict.fromkeys(n for n in nodes if isinstance(n, Name))
    for scratch in kernel.scratch:
        names |= dict.fromkeys(n for n in walk(scratch.count) if isinstance(n, Name))
    scalars = [n for n in names if n.name not in declared and n.name not in BUILTIN]
    arrays = dict.fromkeys(n for n in nodes if isinstance(n, Array) and n not in own)
    written = {n.array.name for n in nodes if isinstance(n, (p.Store, Combine, StoreVector))}
    written |= {s.array.name for s in kernel.scratch} | changed_by_helpers(body)
    return replace(
        kernel,
        body=body,
        scalars=tuple(scalars),
        arrays=tuple(arrays),
        written=frozenset(written),
    )
