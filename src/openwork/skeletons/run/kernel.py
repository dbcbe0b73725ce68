"""Compiled programs of patterns: arguments are checked, then the kernel is called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openwork.errors import DataError, ShapeError
from openwork.skeletons.language.check import MOST
from openwork.skeletons.language.nodes import Nat, Signature, Type
from openwork.skeletons.lower.lowered import Lowered
from openwork.skeletons.lower.memory import Buffer
from openwork.skeletons.run.data import Array, Given, as_buffers, leading, solved, wrong_count
from openwork.skeletons.run.host import Host, facts_in
from openwork.skeletons.run.tensors import Origin, unpacked
from openwork.tensor.tensor import Tensor
from openwork.trace import Trace


class Bound:
    """A kernel with its data, checked and kept: calls cost microseconds.

    Integer arrays that lengths or indices depend on are copied, so that nobody can change what was
    checked; other arrays may change between calls.
    """

    def __init__(self, kernel: Kernel, inputs: list[Array], host: Host, extra: list[Array]) -> None:
        self.kernel, self.inputs, self.host, self.extra = kernel, inputs, host, extra
        host.possible(kernel.facts)
        self.sizes = [int(host.sizes[name]) for name in kernel.signature.nats]
        self.counts = [
            host.count(kernel.result, b.path, "the result") for b in kernel.lowered.outputs
        ]
        self.shapes = [kernel.shape(b, host) for b in kernel.lowered.outputs]
        self.ready = kernel.prepared(self)

    def __call__(self) -> Any:
        """The result."""
        return self.kernel.run(self)

    def launch(self) -> Any:
        """Run the kernel, and leave the result where the device has it."""
        return self.kernel.launch(self)

    def explain(self) -> str:
        """The decisions that were made, those that depend on the data included."""
        return self.kernel.explained(self)


class Kernel(ABC):
    """A compiled program of patterns."""

    def __init__(
        self, signature: Signature, result: Type, lowered: Lowered, source: str, trace: Trace
    ) -> None:
        self.signature, self.result, self.lowered = signature, result, lowered
        self.source, self.trace = source, trace
        self.origin = Origin()
        self.facts = facts_in(signature)

    def __call__(self, /, **data: Any) -> Any:
        """The result for these arguments, by name; naturals follow from the shapes of arrays.

        Rows of different lengths are given one after the other in a flat array, or as a tensor;
        arrays of pairs as structured arrays (`sk.pairs`), or as tensors in a packed layout.
        A sparse result is a tensor where the operands with its pattern are tensors.

        Raises:
            ShapeError: E202 to E204 if arguments do not fit their types.
            DataError: E516 if data breaks what the types assume.
        """
        return self.origin.made(self._bound(data, keep=False)(), data)

    def bind(self, /, **data: Any) -> Bound:
        """The kernel with its data, which is checked once; call it without arguments."""
        return self._bound(data, keep=True)

    def _bound(self, data: Mapping[str, Any], keep: bool) -> Bound:
        inputs, host = self._checked(data, keep)
        extra = [host.prefix(prefix) for prefix in self.lowered.prefixes]
        return Bound(self, inputs, host, extra)

    def explain(self) -> str:
        """The decisions that were made, in order."""
        return "\n".join(["decisions:", *(f"  {each}" for each in self.trace.decisions)])

    def explained(self, bound: Bound) -> str:
        """The decisions for a call."""
        return self.explain()

    def decide(self, told: str) -> None:
        """Add a decision."""
        self.trace.decide(told)

    def _checked(self, data: Mapping[str, Any], keep: bool) -> tuple[list[Array], Host]:
        s, names = self.signature, (*self.signature.params, *self.signature.nats)
        for name in data:
            if name not in names:
                raise ShapeError(
                    f"there is no parameter {name}", code="E203",
                    hint=f"there are {', '.join(names)}",
                )  # fmt: skip
        whole = self.origin.with_pattern(data)
        given = unpacked(s, {k: v for k, v in whole.items() if k in s.params}, self.origin.formats)
        parts: list[Given] = []
        equations: list[tuple[str, Nat, int]] = []
        for name, type in zip(s.params, s.types, strict=True):
            if name not in given:
                raise ShapeError(
                    f"the argument {name} is missing", code="E203",
                    hint="a tensor A fills what the lengths of its rows refer to, and A_crd"
                    if any(isinstance(v, Tensor) for v in data.values()) else None,
                )  # fmt: skip
            mine = [b for b in self.lowered.inputs if b.owner == name]
            found = as_buffers(name, given[name], type, mine)
            facts = [(name, length, count) for part in found for length, count in part.lengths]
            for buffer, part in zip(mine, found, strict=True):
                lengths, _ = leading(type, buffer.path)
                if len(lengths) == 1 and not facts:
                    facts.append((name, lengths[0], part.array.size))
            parts += found
            equations += facts
        told = {k: _natural(k, v) for k, v in data.items() if k in s.nats}
        sizes = {**self.origin.naturals(data), **told}
        host = Host(solved(s.nats, sizes, equations), {})
        return self._safe(parts, host, keep), host

    def _safe(self, parts: Sequence[Given], host: Host, keep: bool) -> list[Array]:
        """The buffers, after checks of what loops rely on: nothing else in the data can lead a
        kernel astray."""
        low, inputs = self.lowered, [part.array for part in parts]
        buffers = low.inputs
        kept = {fact.buffer for fact in low.indices} | {
            b.name for b in buffers if b.dtype.kind == "i" and not b.path
        }
        for k, b in enumerate(buffers):
            if keep and b.name in kept:
                inputs[k] = inputs[k].copy()
        host.data = {b.owner: a for b, a in zip(buffers, inputs, strict=True) if not b.path}
        types = dict(zip(self.signature.params, self.signature.types, strict=True))
        for b, array, part in zip(buffers, inputs, parts, strict=True):
            wanted = host.count(types[b.owner], b.path, b.owner, part.rows)
            if wanted != array.size:
                raise wrong_count(b.owner, types[b.owner], array.size, wanted)
        for name in sorted(low.offsets):
            host.begins_at_zero(name)
        named = {b.name: (b, a) for b, a in zip(buffers, inputs, strict=True)}
        for fact in low.indices:
            host.in_range(fact, *named[fact.buffer])
        return inputs

    def shape(self, buffer: Buffer, host: Host) -> tuple[int, ...] | None:
        """The shape of an array of the result; None for rows of different lengths."""
        lengths, regular = leading(self.result, buffer.path)
        return tuple(int(host.nat(length)) for length in lengths) if regular else None

    @abstractmethod
    def prepared(self, bound: Bound) -> Any:
        """What calls of a bound kernel share."""

    @abstractmethod
    def run(self, bound: Bound) -> Any:
        """The result of a call."""

    def launch(self, bound: Bound) -> Any:
        """The same, where the device has it."""
        return self.run(bound)


def shaped(arrays: Sequence[Array], shapes: Sequence[tuple[int, ...] | None]) -> Any:
    """The result as the user gets it: arrays of these shapes, flat ones where there is none."""
    made: list[Any] = []
    for shape, array in zip(shapes, arrays, strict=True):
        if shape is None or len(shape) == 1:
            made.append(array)
        else:
            made.append(array.reshape(shape) if shape else array[0])
    return made[0] if len(made) == 1 else tuple(made)


def out_of_range() -> DataError:
    """The error of a kernel that stopped at an index."""
    return DataError(
        "an index that the program computes lies outside its array", code="E516",
        hint="the program stopped there; no memory outside of its arrays was read",
    )  # fmt: skip


def _natural(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise ShapeError(f"{name} is a natural number, not {value!r}", code="E205")
    if value > MOST:
        raise ShapeError(f"{name} is {value}, and no array is so large", code="E205")
    return int(value)
