"""A CUDA GPU, reached through CuPy: compiled by NVRTC, cached, launched on the current stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from openwork.errors import ToolchainError
from openwork.program.device import Kernel


class Cuda:
    """The current GPU."""

    name = "cuda"

    def load(self, source: str, kernels: Sequence[Kernel]) -> Any:
        raise ToolchainError(
            "CuPy is not installed", code="E607", hint="pip install 'openwork[cuda]'"
        )
