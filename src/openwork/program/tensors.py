"""The names that tensors, their arrays and index variables have in generated code.

A user's names never reach the code: the result is R, operands are A, B, C, ..., temporaries W,
and loop variables i, j, k, ... from the outermost in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace

from openwork.index.nodes import Access, IndexVar, TensorVar
from openwork.program.nodes import Array, Expr, Name, Value

Widths = Mapping[tuple[str, int, str], str]  # (tensor, level, array) -> element type


def _letters(letters: str) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield from (letter if number == 1 else f"{letter}{number}x" for letter in letters)


@dataclass(frozen=True)
class Names:
    """The naming of one kernel."""

    result: TensorVar
    operands: tuple[TensorVar, ...]
    temporaries: tuple[TensorVar, ...]
    loops: Sequence[IndexVar]
    widths: Widths

    @cached_property
    def tensors(self) -> dict[str, str]:
        """Each tensor's name in the code."""
        table = {self.result.name: "R"}
        table |= dict(
            zip((t.name for t in self.operands), _letters("ABCDEFGHKLMNPQSTUV"), strict=False)
        )
        table |= dict(zip((t.name for t in self.temporaries), _letters("WXYZ"), strict=False))
        return table

    @cached_property
    def variables(self) -> dict[IndexVar, str]:
        """Each loop variable's name in the code."""
        return dict(zip(self.loops, _letters("ijklmnopqrst"), strict=False))

    def of(self, tensor: TensorVar) -> str:
        """The name of `tensor` in the code."""
        return self.tensors[tensor.name]

    def extent(self, var: IndexVar) -> Name:
        """The extent of the modes that `var` runs over."""
        return Name(f"{self.variables[var]}_size")

    def values(self, tensor: TensorVar) -> Array:
        """The values of `tensor`."""
        return Array(f"{self.of(tensor)}_vals", tensor.dtype.name)

    def array(self, tensor: TensorVar, level: int, name: str) -> Array:
        """An index array of `tensor`."""
        width = self.widths.get((tensor.name, level, name), "int32")
        return Array(f"{self.of(tensor)}_{name}{level + 1}", width)

    def view(self, access: Access, level: int) -> SimpleNamespace:
        """What the formulas of a level are evaluated over."""
        facts = access.tensor.format.levels[level].arrays
        arrays = {f.name: self.array(access.tensor, level, f.name) for f in facts}
        return SimpleNamespace(extent=self.extent(access.level_vars[level]), **arrays)

    def size(self, variables: Sequence[IndexVar]) -> Expr:
        """The product of the extents of `variables`."""
        product: Expr = Value(1)
        for var in variables:
            product = product * self.extent(var)
        return product
