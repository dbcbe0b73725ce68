"""Which stream kernels run on: CuPy's current one, or torch's if the arrays are torch's."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from openwork.frozen import frozen


def callers_stream(of_torch: bool) -> AbstractContextManager[Any]:
    """A block in which CuPy's current stream is the caller's.

    For torch tensors that is torch's current stream, unless CuPy has another than its default.
    Memory for results is allocated and freed on that stream, too.
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


@frozen
class _Handle:
    """A stream in the form that libraries exchange."""

    number: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.number  # the version of the protocol comes first


def torch_stream() -> int:
    """The handle of torch's current stream; 0 for the default stream, as in CuPy."""
    torch = sys.modules.get("torch")
    return 0 if torch is None else int(torch.cuda.current_stream().cuda_stream)
