"""Kernels for readers: each is tidied, and takes only the arguments that it then needs."""

from __future__ import annotations

from openwork.program.device.kernels import each_kernel
from openwork.program.gpu_nodes import DeviceProgram
from openwork.program.simplify.tidy import tidy_kernel


def tidied(device: DeviceProgram) -> DeviceProgram:
    """`device` with tidied kernels."""
    return each_kernel(device, lambda kernel: tidy_kernel(kernel, device.program.sizes))
