"""Why a file cannot be read or written: one error, which names the file and the line."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from openwork.errors import DataError, OpenworkError, UserError

_LONGEST_SHOWN = 40
# What NumPy, SciPy, h5py and the standard library's decompressors raise for invalid files.
_FOREIGN = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, OverflowError, RuntimeError),
    *(IndexError, AttributeError, zlib.error, zipfile.BadZipFile, RecursionError),
)


def broken(
    name: str,
    reason: str,
    line: int | None = None,
    hint: str | None = None,
    verb: str = "read",
) -> DataError:
    """The error that `name` cannot be read (or written), for `reason`, at `line` if it is text.

    >>> print(broken("a.mtx", "it ends too early", line=7))
    E506: cannot read a.mtx, line 7: it ends too early
    """
    place = "" if line is None else f", line {line}"
    return DataError(f"cannot {verb} {name}{place}: {reason}", code="E506", hint=hint)


@contextmanager
def explained(name: str, verb: str = "read") -> Iterator[None]:
    """Turn a library's error about a file into one that names the file."""
    try:
        yield
    except UserError as error:
        if name in error.message or error.code == "E510":
            raise
        # Validation of arrays raises errors that do not know the file.
        told = f"{error.message} (in {name})"
        raise type(error)(told, code=error.code, span=error.span, hint=error.hint) from error
    except (OpenworkError, MemoryError):
        raise
    except _FOREIGN as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise broken(name, reason or type(error).__name__, verb=verb) from error


def shown(text: bytes) -> str:
    """An excerpt of a file in quotes, escaped, and truncated if it is long.

    >>> shown(b"caf\\xe9"), shown(b"x" * 99)
    ("'caf\\\\xe9'", "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'")
    """
    quoted = ascii(text[:_LONGEST_SHOWN])[1:]
    return quoted if len(text) <= _LONGEST_SHOWN else f"{quoted[:-1]}...{quoted[-1]}"
