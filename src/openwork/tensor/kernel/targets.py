"""All targets, by their names in `compile(target=...)`."""

from __future__ import annotations

from openwork.errors import ToolchainError
from openwork.tensor.kernel.cpu import CPU
from openwork.tensor.kernel.gpu import CUDA, EMULATED
from openwork.tensor.kernel.target import Target

TARGETS: dict[str, Target] = {target.name: target for target in (CPU, CUDA, EMULATED)}


def find_target(name: str) -> Target:
    """The target of this name.

    Raises:
        ToolchainError: E606 if there is none.
    """
    found = TARGETS.get(name)
    if found is None:
        raise ToolchainError(
            f"there is no target {name!r}",
            code="E606",
            hint=f"the targets are: {', '.join(TARGETS)}",
        )
    return found
