"""A progress bar for reading and writing large files."""

from __future__ import annotations

import sys
import time

SHOWN_FROM = 50_000_000  # bytes; smaller files are read quickly
_EVERY = 0.1  # seconds
_WIDTH = 30


class Progress:
    """The part of a file that has been read, shown on a terminal.

    Nothing is shown for small files, or if stderr is no terminal. Without a `size` the file is
    being written, and its final size is unknown.
    """

    def __init__(self, name: str, size: int | None) -> None:
        self._name, self._size = name, size
        large = size is None or size > SHOWN_FROM
        self._shown = large and sys.stderr is not None and sys.stderr.isatty()
        self._next = 0.0
        self._drawn = 0

    def reached(self, position: int) -> None:
        """Show that `position` bytes are done."""
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        self._next = now + _EVERY
        if self._size is None:
            if position < SHOWN_FROM:
                return
            text = f"writing {self._name}: {position / 1e6:,.0f} MB"
        else:
            share = min(1.0, position / self._size)
            bar = ("#" * round(_WIDTH * share)).ljust(_WIDTH, ".")
            text = f"reading {self._name} [{bar}] {share:4.0%}"
        sys.stderr.write("\r" + text.ljust(self._drawn))
        sys.stderr.flush()
        self._drawn = len(text)

    def done(self) -> None:
        """Erase the line."""
        if self._drawn:
            sys.stderr.write("\r" + " " * self._drawn + "\r")
            sys.stderr.flush()
            self._drawn = 0
