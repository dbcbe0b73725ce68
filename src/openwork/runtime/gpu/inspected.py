"""Results of inspectors, kept as long as the operand lives whose pattern they describe.

All kernels share them: the positions at which tiles begin, for example.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, ref

from openwork.runtime.storage import Storage

# By operand, device, and content of the array.
_found: WeakKeyDictionary[Storage, dict[str, dict[str, Any]]] = WeakKeyDictionary()


@dataclass
class Kept:
    """Inspector results for the operands of one kernel, by their names in its code.

    `device`: where the arrays are.
    """

    device: str = ""
    operands: Mapping[str, ref[Storage]] = field(default_factory=dict)

    def of(self, operand: str) -> dict[str, Any]:
        """The arrays kept with an operand, by content; none once it is gone."""
        owner = self.operands[operand]() if operand in self.operands else None
        return {} if owner is None else _found.setdefault(owner, {}).setdefault(self.device, {})
