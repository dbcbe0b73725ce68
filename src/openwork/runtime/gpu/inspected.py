"""What inspectors find out about the pattern of an operand, kept with it as long as it lives.

Every kernel that asks the same of an operand then has it: positions at which tiles begin, say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, ref

from openwork.runtime.storage import Storage

_found: WeakKeyDictionary[Storage, dict[tuple[str, str], Any]] = WeakKeyDictionary()


@dataclass
class Kept:
    """The arrays of one kernel by name: `A_tiles1_of2_64` belongs to the operand called A there.

    `device`: where they lie.
    """

    device: str = ""
    operands: Mapping[str, ref[Storage]] = field(default_factory=dict)

    def _place(self, name: str) -> tuple[dict[tuple[str, str], Any], tuple[str, str]]:
        operand, _, what = name.partition("_")
        owner = self.operands[operand]() if operand in self.operands else None
        return _found.setdefault(owner, {}) if owner is not None else {}, (self.device, what)

    def __contains__(self, name: str) -> bool:
        found, what = self._place(name)
        return what in found

    def __getitem__(self, name: str) -> Any:
        found, what = self._place(name)
        return found[what]

    def __setitem__(self, name: str, array: Any) -> None:
        found, what = self._place(name)
        found[what] = array
