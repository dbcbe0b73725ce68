"""Memory that was allocated but not written to yet.

The system assigns a page at its first write; until then it counts as free, and the next result
would count it again. So large arrays are remembered while they live, and their pages that are not
assigned yet are subtracted.
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
Span = tuple[int, int]  # the first address, and the one past the end

_SMAPS = Path("/proc/self/smaps")
# A writable mapping: "ffff8a000000-ffff8a021000 rw-p ...", then lines about it, among them
# "Rss:   132 kB", and last its flags.
_AREA = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) rw.*\n(?:[A-QS-Z].*\n)*Rss:\s+([0-9]+) kB", re.MULTILINE
)
_numbers = count()
_spans: dict[int, Span] = {}  # of all live large arrays, each under its own number


def remember(array: Array) -> Array:
    """Remember `array` for as long as it lives."""
    begin = int(array.__array_interface__["data"][0])
    number = next(_numbers)
    _spans[number] = begin, begin + array.nbytes
    weakref.finalize(array, _spans.pop, number, None).atexit = False
    return array


def promised() -> int:
    """The bytes of all remembered arrays, written or not."""
    return sum(end - begin for begin, end in list(_spans.values()))


def unwritten(smaps: Path = _SMAPS) -> int:
    """How many bytes of remembered arrays have no page yet; 0 where the system does not say."""
    spans = list(_spans.values())
    try:
        text = smaps.read_text()
    except OSError:
        return 0
    return sum(min(absent, _shared(area, spans)) for area, absent in _areas(text))


def _areas(smaps: str) -> Iterator[tuple[Span, int]]:
    """The writable mappings, and how many bytes of each have no page."""
    for begin, end, pages in _AREA.findall(smaps):
        area = int(begin, 16), int(end, 16)
        yield area, area[1] - area[0] - 1024 * int(pages)


def _shared(area: Span, spans: Iterable[Span]) -> int:
    return sum(max(0, min(area[1], end) - max(area[0], begin)) for begin, end in spans)
