"""A file that is read from front to back: unpacked on the way, in blocks of whole lines."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from openwork.errors import DataError
from openwork.runtime.memory import check_memory
from openwork.tensor.files.lines.faults import broken
from openwork.tensor.files.lines.progress import Progress

BLOCK = 1 << 20
PAD = 64  # the compiled parser looks eight characters ahead
LONGEST_LINE = 1 << 19  # of characters
_HEADER_BYTES = 1 << 16
_MOST_SHRUNK = 1032  # deflate packs no text more tightly than this


def is_packed(file: Path) -> bool:
    """Whether the name says that gzip has packed the file."""
    return file.suffix.lower() == ".gz"


class Source:
    """An open file, and the number of the line that was read last.

    `with Source(path) as source:` closes it, and says which line was the last before the end of a
    packed file that is cut off or damaged.
    """

    def __init__(self, file: Path) -> None:
        self.name = file.name
        self.line = 0
        self._raw = file.open("rb")
        self.size = file.stat().st_size
        self.packed = is_packed(file)
        self._stream: IO[bytes] = self._raw
        if self.packed:
            self._stream = gzip.GzipFile(fileobj=self._raw)  # type: ignore[assignment]
        self._rest = b""
        self._progress = Progress(self.name, self.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.done()
        self._stream.close()
        self._raw.close()
        if self.packed and isinstance(error, EOFError | gzip.BadGzipFile | zlib.error):
            reason = "it ends too early" if isinstance(error, EOFError) else f"damaged: {error}"
            raise self.fault(f"as a .gz file, {reason}", self.line + 1) from error

    @property
    def most_bytes(self) -> int:
        """No more than this can come out of the file."""
        return self.size * (_MOST_SHRUNK if self.packed else 1)

    def fault(self, reason: str, line: int | None = None, hint: str | None = None) -> DataError:
        """The error that this file is not what it should be."""
        return broken(self.name, reason, line, hint)

    def read_line(self) -> bytes | None:
        """The next line without its end, or None at the end of the file; for headers."""
        while b"\n" not in self._rest:
            more = self._stream.read(_HEADER_BYTES)
            if not more:
                break
            self._rest += more
            if len(self._rest) > LONGEST_LINE and b"\n" not in self._rest:
                raise self._endless(self.line + 1)
        if not self._rest:
            return None
        line, _, self._rest = self._rest.partition(b"\n")
        self.line += 1
        return line.rstrip(b"\r")

    def unread(self, line: bytes) -> None:
        """Put back the line that was read last."""
        self._rest = line + b"\n" + self._rest
        self.line -= 1

    def rewind(self) -> None:
        """Begin again with the first line."""
        self._stream.seek(0)
        self._rest, self.line = b"", 0

    def seekable(self) -> IO[bytes]:
        """The file for kinds that are read back and forth: itself, or what it unpacks to."""
        return BytesIO(self._whole()) if self.packed else self._raw

    def _whole(self) -> bytes:
        made = bytearray(self._rest)
        while more := self._stream.read(BLOCK):
            check_memory(2 * (len(made) + len(more)), f"{self.name}, unpacked,")
            made += more
            self._progress.reached(self._raw.tell())
        return bytes(made)

    def blocks(self) -> Iterator[tuple[bytearray, int]]:
        """(buffer, length): what is left of the file, in blocks of whole lines.

        The last line gets its newline if it has none. A buffer is a little longer than what it
        holds. Who takes a block adds its lines to `line`, once they have been looked at.
        """
        start, self._rest = self._rest, b""
        full = True
        while full:
            buffer = bytearray(max(BLOCK, 2 * len(start)) + PAD)
            length = self._fill(buffer, start)
            full = length >= len(buffer) - PAD
            end = buffer.rfind(b"\n", 0, length) + 1 if full else length
            start = bytes(buffer[end:length])
            if len(start) > LONGEST_LINE:
                raise self._endless(self.line + buffer.count(b"\n", 0, end) + 1)
            if not full and length and buffer[length - 1] != ord("\n"):
                buffer[length] = ord("\n")
                end += 1
            if end:
                yield buffer, end
            self._progress.reached(self._raw.tell())

    def _fill(self, buffer: bytearray, start: bytes) -> int:
        """Put `start` and what follows in the file into `buffer`; how much that is."""
        length, most = len(start), len(buffer) - PAD
        buffer[:length] = start
        with memoryview(buffer) as view:
            while length < most:
                count = self._stream.readinto(view[length:most])  # type: ignore[attr-defined]
                if not count:
                    break
                length += count
        return length

    def _endless(self, line: int) -> DataError:
        return self.fault(f"a line of more than {LONGEST_LINE} characters", line)
