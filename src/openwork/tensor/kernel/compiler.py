"""Specializes a plan for its operands: a source for each choice of index widths and sizes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from openwork.errors import InternalError
from openwork.format.levels.width import index_dtype
from openwork.index.nodes import IndexVar
from openwork.loops.nodes import Where, relations_of, written
from openwork.loops.plan.assembly import Append, accesses_of
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.pipeline import Compiled
from openwork.program.lower.base.specialization import Specialization, Width
from openwork.runtime.storage import Storage
from openwork.trace import Trace
from openwork.tree import walk

Extents = Mapping[IndexVar, int]


class Compiler(ABC):
    """Generates the kernels of one plan for a target, each when operands first need it.

    `operands`: the tensors that the loops read. `wide`: the positions of a result once overflowed
    int32, and are int64 from then on.
    """

    def __init__(self, plan: Plan, trace: Trace) -> None:
        self._plan, self._trace = plan, trace
        self.operands = tuple(dict.fromkeys(a.tensor for a in accesses_of(plan.assignment.rhs)))
        self.wide = False
        self._texts: dict[object, Compiled] = {}
        self._found: dict[object, Compiled] = {}  # by widths, facts and variant
        self._keyed = [  # workspaces whose keys are linearised coordinates
            (
                node.temporary.name,
                Provenance(relations_of(plan.loops)).roots_of(written(node.producer).vars),
            )
            for node in walk(plan.loops)
            if isinstance(node, Where) and not node.temporary.format.is_dense
        ]

    @abstractmethod
    def _variant(self, operands: Sequence[Storage | None], extents: Extents | None) -> Hashable:
        """What the target's source depends on besides the element types of arrays.

        Without `extents` there was no call yet, and operands may have no data.
        """

    @abstractmethod
    def _written(self, facts: Specialization, variant: Hashable) -> Compiled:
        """The kernel for data with these facts."""

    def before_calls(self, operands: tuple[Storage | None, ...]) -> Compiled:
        """The kernel before any call; index arrays of absent operands are assumed to be int32."""
        known = {block.var: block.extent for block in self._plan.blocks}
        facts = Specialization(self._result_widths(None), whole=self._whole_blocks(known))
        return self._text(operands, facts, self._variant(operands, None))

    def kernel(self, operands: tuple[Storage, ...], extents: Extents) -> Compiled:
        """The kernel for these operands."""
        facts = (
            self._result_widths(extents),
            self._wide_keys(extents),
            self._whole_blocks(extents),
        )
        variant = self._variant(operands, extents)
        key = (tuple([storage.widths for storage in operands]), facts, variant)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._text(operands, Specialization(*facts), variant)
        return found

    def widen(self, overflowed: bool) -> None:
        """From now on, use 64-bit positions for results.

        `overflowed`: a call failed because 32 bits were too few.
        """
        if overflowed:
            raise InternalError("64-bit positions overflowed")
        self.wide = True

    def _text(
        self, operands: tuple[Storage | None, ...], facts: Specialization, variant: Hashable
    ) -> Compiled:
        """The kernel, after adding the operands' index widths to `facts`."""
        widths = list(facts.widths)
        for var, storage in zip(self.operands, operands, strict=True):
            for level, kind in enumerate(var.format.levels):
                for n in (fact.name for fact in kind.arrays):
                    array = None if storage is None else storage.levels[level].get(n)
                    usual = f"int{kind.bits or 32}"
                    width = usual if array is None else array.dtype.name
                    widths.append(((var.name, level, n), width))
        facts = replace(facts, widths=tuple(widths))
        key = (facts, variant)
        if key not in self._texts:
            self._texts[key] = self._written(facts, variant)
        return self._texts[key]

    def _whole_blocks(self, extents: Mapping[IndexVar, int | None]) -> frozenset[IndexVar]:
        """The modes whose extent the block size divides, so that no block needs a guard."""
        return frozenset(
            block.var
            for block in self._plan.blocks
            if (extents.get(block.var) or 1) % block.size == 0
        )

    def _wide_keys(self, extents: Extents) -> frozenset[str]:
        """The workspaces with more keys than 64 bits hold."""
        return frozenset(
            name
            for name, variables in self._keyed
            if math.prod(extents.get(v, 1) for v in variables) >= 2**63
        )

    def _result_widths(self, extents: Extents | None) -> tuple[Width, ...]:
        """The element types of the index arrays that the kernel allocates."""
        if not isinstance(self._plan.assembly, Append):
            return ()
        found: list[Width] = []
        lhs = self._plan.assignment.lhs
        for level, kind in enumerate(lhs.tensor.format.levels):
            extent = 0 if extents is None else extents[lhs.level_vars[level]]
            for fact in kind.arrays:
                if fact.holds == "positions":
                    width = "int64" if self.wide else "int32"
                else:
                    width = index_dtype(extent - 1).name
                found.append(((lhs.tensor.name, level, fact.name), width))
        return tuple(found)
