"""A file that is written sequentially: compressed on the fly, in chunks, by several threads."""

from __future__ import annotations

import gzip
import io
import os
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from openwork.runtime.host.threads import thread_count
from openwork.tensor.files.lines.progress import Progress
from openwork.tensor.files.lines.source import is_packed

_PIECE = 1 << 22  # bytes of a chunk; gzip reads concatenated chunks as one file
_EFFORT = 6  # 9 takes 1.6 to 7 times as long, for files that are hardly smaller


class Target(io.BufferedIOBase):
    """A file open for writing. It gets its name only when it is complete.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "text.gz")
    ...     with Target(file) as target:
    ...         _ = target.write(b"some text")
    ...     gzip.decompress(file.read_bytes())
    b'some text'
    """

    def __init__(self, file: Path) -> None:
        # Write to the target of a link, and leave the link as it is.
        self._file = Path(os.path.realpath(file))
        self._raw, self._unfinished = _opened(self._file)
        self._packer = _Packer(self._raw.write) if is_packed(file) else None
        self._progress = Progress(file.name, None)
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        text = memoryview(data).cast("B")  # type: ignore[arg-type]
        if self._packer is None:
            self._raw.write(text)
        else:
            self._packer.add(text)
        self._written += len(text)
        self._progress.reached(self._written)
        return len(text)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._abandon()

    def close(self) -> None:
        """Finish the file, which replaces an existing one."""
        if self.closed:
            return
        try:
            if self._packer is not None:
                self._packer.finish()
            self._raw.close()
            if self._unfinished is not None:
                self._unfinished.replace(self._file)
        except BaseException:
            self._abandon()
            raise
        self._progress.done()
        super().close()

    def _abandon(self) -> None:
        """Remove what was written."""
        self._progress.done()
        if self._packer is not None:
            self._packer.abandon()
        with suppress(OSError):  # the error that made us give up
            self._raw.close()
        if self._unfinished is not None:
            self._unfinished.unlink(missing_ok=True)
        super().close()


def _opened(file: Path) -> tuple[IO[bytes], Path | None]:
    """A temporary file next to `file` that replaces it when it is complete, and its name.

    Pipes and other special files, and files in read-only directories, are written to directly.
    """
    beside = file.with_name(f".{file.name}.{os.getpid()}-{time.monotonic_ns()}.part")
    if file.exists() and not file.is_file():
        return file.open("wb"), None
    try:
        stream = beside.open("xb")
    except PermissionError:
        return file.open("wb"), None
    with suppress(OSError):
        beside.chmod(file.stat().st_mode & 0o7777)
    return stream, beside


class _Packer:
    """Compresses chunks in parallel, and passes them on in order."""

    def __init__(self, hand_on: Callable[[bytes], object]) -> None:
        self._hand_on = hand_on
        self._threads = thread_count()
        self._pool = ThreadPoolExecutor(self._threads)
        self._rest = bytearray()
        self._waiting: deque[Future[bytes]] = deque()

    def add(self, text: memoryview) -> None:
        """Add text."""
        self._rest += text
        while len(self._rest) >= _PIECE:
            self._pack(bytes(self._rest[:_PIECE]))
            del self._rest[:_PIECE]

    def finish(self) -> None:
        """Compress the rest, and pass it on."""
        try:
            self._pack(bytes(self._rest))  # an empty file is one empty chunk
            while self._waiting:
                self._hand_on(self._waiting.popleft().result())
        finally:
            self._pool.shutdown(cancel_futures=True)

    def abandon(self) -> None:
        """Discard the rest."""
        self._pool.shutdown(cancel_futures=True)

    def _pack(self, piece: bytes) -> None:
        # No time stamp, so that the same tensor always gives the same file.
        self._waiting.append(self._pool.submit(gzip.compress, piece, _EFFORT, mtime=0))
        while len(self._waiting) > 2 * self._threads:
            self._hand_on(self._waiting.popleft().result())
