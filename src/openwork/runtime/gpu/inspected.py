"""What inspectors find out about the pattern of an operand, kept with it as long as it lives.

Every kernel that asks the same of an operand then has it: the positions at which tiles begin, say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, ref

from openwork.runtime.storage import Storage

# By operand, device, and what the array holds.
_found: WeakKeyDictionary[Storage, dict[str, dict[str, Any]]] = WeakKeyDictionary()


@dataclass
class Kept:
    """What is known of the operands of one kernel, by their names in its code.

    `device`: where the arrays lie.
    """

    device: str = ""
    operands: Mapping[str, ref[Storage]] = field(default_factory=dict)

    def of(self, operand: str) -> dict[str, Any]:
        """The arrays that are kept with an operand, by what they hold; none once it is gone."""
        owner = self.operands[operand]() if operand in self.operands else None
        return {} if owner is None else _found.setdefault(owner, {}).setdefault(self.device, {})
