"""Many emulated kernels from one call of the compiler."""

from __future__ import annotations

from typing import Any

from openwork.pipeline import CompiledCuda
from openwork.runtime.gpu.emulator import emulated_source, load_emulated


class Batch:
    """A loader that compiles the CUDA texts of a whole chunk in one go."""

    def __init__(self) -> None:
        self.waiting: dict[str, CompiledCuda] = {}
        self.ready: dict[str, dict[str, Any]] = {}

    def __call__(self, compiled: CompiledCuda) -> Any:
        """The functions of a text, by name, once they are asked for."""
        if compiled.source not in self.ready:
            self.waiting.setdefault(compiled.source, compiled)
            self._compile()
        return self.ready[compiled.source]

    def expect(self, compiled: CompiledCuda) -> None:
        """A text that will be asked for."""
        if compiled.source not in self.ready:
            self.waiting.setdefault(compiled.source, compiled)

    def _compile(self) -> None:
        texts = list(self.waiting.values())
        source = emulated_source([(c.source, c.device.kernels) for c in texts])
        library = load_emulated(source)
        for n, compiled in enumerate(texts):
            self.ready[compiled.source] = {
                k.name: (library, getattr(library, f"enter_{n}_{k.name}"))
                for k in compiled.device.kernels
            }
        self.waiting.clear()
