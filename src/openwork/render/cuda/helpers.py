"""The helpers of CUDA: the shared ones, and its own for cooperating threads."""

from __future__ import annotations

from openwork.render.cuda.dialect import CUDA
from openwork.render.cuda.groups import GROUP_HELPERS, GROUP_NEEDS
from openwork.render.cuda.tables import TABLE_HELPERS, TABLE_NEEDS
from openwork.render.helpers import Library, helper_text

_OWN = {**GROUP_HELPERS, **TABLE_HELPERS}


def _text(name: str, type: str) -> str:
    """The CUDA text of a helper for arrays or values of an element type."""
    return _OWN[name] if name in _OWN else helper_text(name, type, CUDA)


LIBRARY = Library(_text, needs={**GROUP_NEEDS, **TABLE_NEEDS})
