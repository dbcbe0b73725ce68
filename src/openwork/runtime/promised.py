"""Memory that was handed out and not written to yet.

Systems give a page when it is first written to; until then it counts as free for everybody, and
would be counted again for the next result. So large arrays are remembered while they live, and
what of them has no page yet is counted off.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Span = tuple[int, int]  # from an address, up to another

_SMAPS = Path("/proc/self/smaps")
# An area of memory that may be written to: "ffff8a000000-ffff8a021000 rw-p ...", lines about it,
# among them "Rss:   132 kB", and at last its flags.
_AREA = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) rw.*\n(?:[A-QS-Z].*\n)*Rss:\s+([0-9]+) kB", re.MULTILINE
)
_numbers = count()
_spans: dict[int, Span] = {}  # of all large arrays that are alive, by a number for each


def remember(array: Array) -> Array:
    """Count `array` among what was promised, for as long as it lives."""
    begin = int(array.__array_interface__["data"][0])
    number = next(_numbers)
    _spans[number] = begin, begin + array.nbytes
    weakref.finalize(array, _spans.pop, number, None).atexit = False
    return array


def promised() -> int:
    """The bytes of all that is remembered, written to or not."""
    return sum(end - begin for begin, end in list(_spans.values()))


def unwritten(smaps: Path = _SMAPS) -> int:
    """How many bytes of what is remembered have no page yet; 0 where the system does not say."""
    spans = list(_spans.values())
    try:
        text = smaps.read_text()
    except OSError:
        return 0
    return sum(min(absent, _shared(area, spans)) for area, absent in _areas(text))


def _areas(smaps: str) -> Iterator[tuple[Span, int]]:
    """The writable areas of memory, and how many bytes of each have no page."""
    for begin, end, pages in _AREA.findall(smaps):
        area = int(begin, 16), int(end, 16)
        yield area, area[1] - area[0] - 1024 * int(pages)


def _shared(area: Span, spans: Iterable[Span]) -> int:
    return sum(max(0, min(area[1], end) - max(area[0], begin)) for begin, end in spans)
