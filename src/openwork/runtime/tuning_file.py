"""The file of what tuning has measured: one JSON object a line, appended under a lock.

It lies beside the kernel cache, but clearing the cache keeps it. A file may come from strangers: a
line holds texts and numbers, which are checked here, and its texts are parsed as schedules and
formats. A line that is damaged, or of another version, is skipped.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any

from openwork.errors import DataError, ToolchainError
from openwork.runtime import cache

try:
    import fcntl
except ImportError:  # not on Windows, where appends of a line are atomic enough
    fcntl = None  # type: ignore[assignment]

VERSION = 1
_LONGEST = 20_000  # characters of a line
_MOST = 64 << 20  # bytes of a file


@dataclass(frozen=True)
class TuningRecord:
    """What was measured for one statement on one device.

    Names in texts are canonical: tensors t0, t1, ... and variables v0, v1, ... in the order in
    which the statement mentions them.

    Args:
        statement: the statement, with formats and element types of its tensors.
        device: the target and the machine.
        features: extents, and statistics of sparse operands, by name.
        formats: the formats of operands that the best candidate converts, by name.
        schedule: its schedule; "" for the default.
        seconds: the time of a call.
        default: the time of the default.
        day: when it was measured, as 2026-01-31.
    """

    statement: str
    device: str
    features: dict[str, float]
    formats: dict[str, str]
    schedule: str
    seconds: float
    default: float
    day: str


def path() -> Path:
    """Where the file is."""
    return cache.directory() / "tuning.jsonl"


_read: dict[Path, tuple[tuple[int, int], tuple[TuningRecord, ...]]] = {}


def records() -> tuple[TuningRecord, ...]:
    """All records, oldest first; read again only if the file has changed."""
    file = path()
    try:
        status = file.stat()
    except OSError:
        return ()
    stamp = (status.st_mtime_ns, status.st_size)
    known = _read.get(file)
    if known is None or known[0] != stamp:
        known = _read[file] = (stamp, tuple(_parsed(file)))
    return known[1]


def append(new: Iterable[TuningRecord]) -> None:
    """Add records.

    Raises:
        ToolchainError: E603, if the file cannot be written.
    """
    lines = [json.dumps({"version": VERSION, **asdict(each)}) for each in new]
    if not lines:
        return
    with _locked(path()) as file:
        file.write("".join(f"{line}\n" for line in lines))


def export(to: Path) -> int:
    """Write all records into a file of their own; returns how many."""
    known = records()
    lines = [json.dumps({"version": VERSION, **asdict(each)}) for each in known]
    to.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return len(known)


def include(source: Path) -> int:
    """Add the records of a file that `export` wrote, perhaps elsewhere; returns how many are new.

    Raises:
        DataError: E506 if there is not one record in it.
    """
    found = list(_parsed(source))
    if not found:
        raise DataError(
            f"{source} has no tuning records of version {VERSION}",
            code="E506",
            hint="give it a file that ow.tune.export wrote",
        )
    known = records()
    new = [each for each in found if each not in known]
    append(new)
    return len(new)


def clear() -> None:
    """Forget everything."""
    with suppress(FileNotFoundError):
        path().unlink()


def _parsed(file: Path) -> Iterator[TuningRecord]:
    """The sound records of a file."""
    if file.stat().st_size > _MOST:
        raise DataError(f"{file} is too large for tuning records", code="E506")
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            record = _record(line) if len(line) <= _LONGEST else None
            if record is not None:
                yield record


def _record(line: str) -> TuningRecord | None:
    """The record of a line; None unless each fact has its type."""
    try:
        facts = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(facts, dict) or facts.get("version") != VERSION:
        return None
    found: dict[str, Any] = {}
    for field in fields(TuningRecord):
        value = facts.get(field.name)
        match field.name:
            case "features":
                sound = isinstance(value, dict) and all(map(_is_size, value.values()))
            case "formats":
                sound = isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
            case "seconds" | "default":
                sound = _is_size(value) and float(value or 0) > 0
            case _:
                sound = isinstance(value, str)
        if not sound:
            return None
        found[field.name] = value
    return TuningRecord(**found)


def _is_size(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(float(str(value))) and float(str(value)) >= 0


@contextmanager
def _locked(file: Path) -> Iterator[IO[str]]:
    """The file, to append to, while no other process does."""
    try:
        with file.open("a", encoding="utf-8") as handle:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
    except OSError as error:
        raise ToolchainError(
            f"tuning records cannot be kept in {file}: {error.strerror or error}",
            code="E603",
            hint="set OPENWORK_CACHE_DIR to a directory that you can write to",
        ) from error
