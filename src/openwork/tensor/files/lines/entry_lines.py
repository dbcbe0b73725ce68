"""The entries of a text file, one per line, parsed by several threads into growing arrays.

The calling thread reads the file, decompresses it, and collects the entries of each block; the
others parse. So reading never runs far ahead of parsing, and memory stays bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from openwork.errors import DataError, InternalError
from openwork.format.levels.width import index_dtype
from openwork.frozen import frozen
from openwork.runtime.host.threads import thread_count
from openwork.runtime.memory import check_memory
from openwork.runtime.storage import Array
from openwork.tensor.files.lines.line_layout import Layout, LineError, is_entry, parse_line
from openwork.tensor.files.lines.parse_c import compiled_parser
from openwork.tensor.files.lines.parse_numpy import PlainParser
from openwork.tensor.files.lines.source import BLOCK, Source

_GROWTH = 1.5
_SPARE = 1.25  # arrays with more spare capacity than this are shrunk
_AHEAD = 2  # blocks that wait for each thread

Parser = Callable[[bytearray, int, Array, Array, int, int], tuple[int, int, int | None]]


@frozen
class _Parsed:
    """A block of lines and its entries, up to the first bad line."""

    block: bytearray
    length: int
    coords: Array
    values: Array
    count: int
    lines: int
    bad: int | None


def read_rows(
    source: Source, layout: Layout, promised: int | None = None, line: int = 0
) -> tuple[Array, Array]:
    """The coordinates, of shape (modes, entries), and the values of the rest of a file.

    Args:
        source: the file, read up to the first line that may hold an entry.
        layout: the layout of a line.
        promised: the stated number of entries; None if the file does not say.
        line: the line that states it.

    Raises:
        DataError: E506, with the number of the first bad line. Memory grows with the entries that
            are read, whatever the file claims.
    """
    dtype = index_dtype(max((*layout.limits, 1)) - 1)
    parse: Parser = compiled_parser(layout, dtype) or PlainParser(layout)
    if promised is not None and promised * layout.least_bytes > source.most_bytes + 1:
        raise source.fault(f"{promised} entries do not fit into the file", line)
    room = 0 if promised is None or source.packed else promised
    coords, values = _room_for(room, layout, dtype)
    used = 0
    for part in _parsed(source, layout, parse, dtype):
        end = used + part.count
        if promised is not None and end > promised:
            raise _excess(source, layout, part, promised - used, line)
        after = _after_last(layout, part) if end == promised else None
        if after is not None:
            reason = f"this is after the last of the {promised} entries that line {line} promises"
            raise source.fault(reason, _line_of(source, part, after))
        if part.bad is not None:
            raise _explained(source, layout, part, part.bad)
        if end > len(values):
            grown = max(end, int(_GROWTH * len(values)))
            grown = grown if promised is None else min(grown, promised)
            coords, values = _grown(coords, values, used, grown, layout)
        coords[:, used:end] = part.coords[:, : part.count]
        values[used:end] = part.values[: part.count]
        used = end
        source.line += part.lines
    if promised is not None and used < promised:
        reason = f"it ends after {used} entries, but line {line} promises {promised}"
        raise source.fault(reason, source.line)
    if len(values) > _SPARE * used:
        return coords[:, :used].copy(), values[:used].copy()
    return coords[:, :used], values[:used]


def _parsed(source: Source, layout: Layout, parse: Parser, dtype: Any) -> Iterator[_Parsed]:
    """The blocks of a file with their entries, in order, by as many threads as kernels have."""
    spare: list[tuple[Array, Array]] = []  # reused memory is still in the cache

    def entries(block: bytearray, length: int) -> _Parsed:
        most = length // layout.least_bytes + 1
        coords, values = spare.pop() if spare else _room_for(most, layout, dtype)
        if most > len(values):
            coords, values = _room_for(most, layout, dtype)
        used, lines, bad = parse(block, length, coords, values, 0, most)
        if layout.field == "pattern":
            values[:used] = 1
        return _Parsed(block, length, coords, values, used, lines, bad)

    threads = thread_count() if source.most_bytes > BLOCK else 1
    for part in _in_order(entries, source.blocks(), threads):
        yield part
        spare.append((part.coords, part.values))


def _in_order(
    parse: Callable[[bytearray, int], _Parsed],
    blocks: Iterator[tuple[bytearray, int]],
    threads: int,
) -> Iterator[_Parsed]:
    """The result of `parse` for each block, in order."""
    if threads == 1:
        yield from (parse(*block) for block in blocks)
        return
    waiting: deque[Future[_Parsed]] = deque()
    with ThreadPoolExecutor(max_workers=threads) as workers:
        for block in blocks:
            waiting.append(workers.submit(parse, *block))
            if len(waiting) > _AHEAD * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _room_for(count: int, layout: Layout, dtype: Any) -> tuple[Array, Array]:
    modes, width = len(layout.limits), np.dtype(dtype).itemsize
    check_memory(count * (modes * width + layout.dtype.itemsize), "the contents of the file")
    return np.empty((modes, count), dtype=dtype), np.empty(count, dtype=layout.dtype)


def _grown(
    coords: Array, values: Array, used: int, count: int, layout: Layout
) -> tuple[Array, Array]:
    """The arrays with room for `count` entries, of which the first `used` are kept."""
    more_coords, more_values = _room_for(count, layout, coords.dtype)
    more_coords[:, :used], more_values[:used] = coords[:, :used], values[:used]
    return more_coords, more_values


def _explained(source: Source, layout: Layout, part: _Parsed, bad: int) -> DataError:
    """The error for the line that begins at `bad`."""
    line = bytes(part.block[bad : part.block.index(b"\n", bad)])
    number = _line_of(source, part, bad)
    try:
        parse_line(line, layout)
    except LineError as error:
        return source.fault(error.reason, number, error.hint)
    raise InternalError(f"line {number} of {source.name} was refused, but it is valid")


def _after_last(layout: Layout, part: _Parsed) -> int | None:
    """The offset of the first line that is neither blank nor an entry of the block.

    The block has the last entry of the file, or comes after it.
    """
    if part.bad is not None or not layout.closed:
        return part.bad
    found, end = None, part.length
    while end > 0:
        start = part.block.rfind(b"\n", 0, end - 1) + 1
        line = bytes(part.block[start:end])
        if is_entry(line, layout):
            break
        found, end = start if line.strip(b" \t\r\n") else found, start
    return found


def _line_of(source: Source, part: _Parsed, offset: int) -> int:
    """The number of the line of a block that begins at `offset`."""
    return source.line + part.block.count(b"\n", 0, offset) + 1


def _excess(source: Source, layout: Layout, part: _Parsed, left: int, line: int) -> DataError:
    """The error for the first line beyond the `left` entries that were still expected."""
    lines = bytes(part.block[: part.length]).split(b"\n")
    entries = (n for n, line in enumerate(lines) if is_entry(line, layout))
    offset = next(n for count, n in enumerate(entries) if count == left)
    return source.fault(
        f"here are more entries than line {line} promises", source.line + offset + 1
    )
