"""A file that is read sequentially: decompressed on the fly, in blocks of whole lines."""

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
_MOST_SHRUNK = 1032  # the best compression ratio of deflate


def is_packed(file: Path) -> bool:
    """Whether the name says that the file is compressed by gzip."""
    return file.suffix.lower() == ".gz"


class Source:
    """An open file, and the number of the last line read.

    `with Source(path) as source:` closes it, and reports the last line of a compressed file that
    is truncated or damaged.
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
        """An upper bound on the decompressed size of the file."""
        return self.size * (_MOST_SHRUNK if self.packed else 1)

    def fault(self, reason: str, line: int | None = None, hint: str | None = None) -> DataError:
        """The error that this file is invalid."""
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
        """Put back the last line read."""
        self._rest = line + b"\n" + self._rest
        self.line -= 1

    def rewind(self) -> None:
        """Start again at the first line."""
        self._stream.seek(0)
        self._rest, self.line = b"", 0

    def seekable(self) -> IO[bytes]:
        """The file with random access: itself, or its decompressed contents."""
        return BytesIO(self._whole()) if self.packed else self._raw

    def _whole(self) -> bytes:
        made = bytearray(self._rest)
        while more := self._stream.read(BLOCK):
            check_memory(2 * (len(made) + len(more)), f"{self.name}, decompressed,")
            made += more
            self._progress.reached(self._raw.tell())
        return bytes(made)

    def blocks(self) -> Iterator[tuple[bytearray, int]]:
        """(buffer, length): the rest of the file, in blocks of whole lines.

        The last line gets a newline if it has none. A buffer is a little longer than its contents.
        The caller adds the lines of a block to `line` after parsing them.
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
        """Fill `buffer` with `start` and the next bytes of the file; returns the length."""
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
