"""GPU kernels of programs without units: the schedule follows from the data, as in index notation.

A program that is a statement is scheduled as one, by the same recipes and statistics. What is no
statement, or has rows whose coordinates do not rise, runs as its patterns say.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from openwork.errors import DataError
from openwork.format.formats import CSR, LIL, dense
from openwork.format.layouts import AOS
from openwork.skeletons.formulas import Formula
from openwork.skeletons.language.nodes import Type
from openwork.skeletons.matrices import Matrix
from openwork.skeletons.run.data import Array, leading
from openwork.skeletons.run.gpu import GpuKernel
from openwork.skeletons.run.kernel import Bound, Kernel, shaped
from openwork.tensor.create import from_arrays
from openwork.tensor.kernel.kernel import Kernel as StatementKernel
from openwork.tensor.tensor import Tensor


class ByData(Kernel):
    """A program that is a statement; `usual`: its patterns as a kernel."""

    def __init__(self, usual: GpuKernel, formula: Formula, target: str) -> None:
        self.usual, self._formula, self._target = usual, formula, target
        told = formula.statement({})
        usual.decide(f"it is {told}, whose schedule follows from the data: see bind(...).explain()")
        super().__init__(
            usual.signature, usual.result, usual.lowered, usual.source, usual.trace
        )  # fmt: skip
        self.origin = usual.origin

    def prepared(self, bound: Bound) -> Any:
        chosen = self._chosen(bound)
        return self.usual.prepared(bound) if chosen is None else chosen

    def _chosen(self, bound: Bound) -> Any:
        """The statement as a kernel for this data; None where entries are out of order."""
        data = {
            (b.owner, b.path): a
            for b, a in zip(self.lowered.inputs, bound.inputs, strict=True)
        }  # fmt: skip
        formula, types = self._formula, self._types
        inside = {p for m in formula.matrices.values() for p in (m.coordinates, m.lengths)}
        tensors: dict[str, Tensor] = {}
        try:
            for name, matrix in formula.matrices.items():
                tensors[name] = self._matrix(matrix, data, bound)
        except DataError:
            return None
        for name, type in types.items():
            if name not in tensors and name not in inside:
                tensors[name] = _dense(name, type, data[name, ()], bound)
        if self._target == "cuda":  # here, so that calls need not
            tensors = {name: tensor.to("cuda") for name, tensor in tensors.items()}
        (shape,) = bound.shapes
        return formula.statement(tensors, shape).compile(self._target)

    @property
    def _types(self) -> dict[str, Type]:
        return dict(zip(self.signature.params, self.signature.types, strict=True))

    def _matrix(self, matrix: Matrix, data: dict[Any, Array], bound: Bound) -> Tensor:
        values = data[matrix.name, ()]
        if matrix.coordinates:
            columns = data[matrix.coordinates, ()]
        else:
            columns, values = values["first"], np.ascontiguousarray(values["second"])
        offsets = data[matrix.lengths, ()]
        if matrix.format.with_layout(AOS) == LIL:
            offsets = np.concatenate([[0], np.cumsum(offsets)])
        count = self._formula.columns[matrix.name]
        shape = (len(offsets) - 1, int(bound.host.nat(count)))
        levels = [None, {"pos": offsets, "crd": columns}]
        return from_arrays(CSR, shape, levels, values, name=matrix.name, share=True)

    def launch(self, bound: Bound) -> Any:
        """Run the kernel; the result, where the device has it."""
        chosen = isinstance(bound.ready, StatementKernel)
        return bound.ready() if chosen else self.usual.launch(bound)

    def run(self, bound: Bound) -> Any:
        if not isinstance(bound.ready, StatementKernel):
            return self.usual.run(bound)
        return shaped([np.ravel(bound.ready().to_numpy())], bound.shapes)

    def explained(self, bound: Bound) -> str:
        chosen = bound.ready
        return chosen.explain() if isinstance(chosen, StatementKernel) else self.explain()


def _dense(name: str, type: Type, values: Array, bound: Bound) -> Tensor:
    lengths, _ = leading(type, ())
    shape = tuple(int(bound.host.nat(length)) for length in lengths)
    return from_arrays(dense(len(shape)), shape, [None] * len(shape), values, name=name)
