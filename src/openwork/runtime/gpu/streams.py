"""On whose stream a GPU works: CuPy's current one, or torch's where the arrays are torch's."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any


def callers_stream(of_torch: bool) -> AbstractContextManager[Any]:
    """A block in which CuPy's current stream is the one that the caller works on.

    Who gives tensors of torch works on torch's current stream, unless CuPy was told of another.
    Memory for results is taken on that stream, too, and is given back to it.
    """
    if not of_torch:
        return nullcontext()
    cuda, number = sys.modules["cupy"].cuda, torch_stream()
    if number == 0 or cuda.get_current_stream().ptr != 0:
        return nullcontext()
    take = getattr(getattr(cuda, "Stream", None), "from_external", None)  # since CuPy 14
    made: AbstractContextManager[Any]
    made = take(_Handle(number)) if take else cuda.ExternalStream(number)
    return made


@dataclass(frozen=True)
class _Handle:
    """A stream, as libraries hand them to each other."""

    number: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.number  # the version of the protocol comes first


def torch_stream() -> int:
    """The handle of torch's current stream; 0 for the one that CuPy begins with as well."""
    torch = sys.modules.get("torch")
    return 0 if torch is None else int(torch.cuda.current_stream().cuda_stream)
