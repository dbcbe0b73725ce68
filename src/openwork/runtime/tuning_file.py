"""The file of what tuning has measured: one JSON object a line, appended under a lock.

It lies beside the kernel cache, but clearing the cache keeps it. A file may come from strangers: a
line holds texts and numbers, which are checked here, and its texts are parsed as schedules and
formats. A line that is damaged, or of another version, is skipped.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import numpy as np

from openwork.errors import DataError, ToolchainError
from openwork.runtime import cache

try:
    import fcntl
except ImportError:  # not on Windows, where appends of a line are atomic enough
    fcntl = None  # type: ignore[assignment]

VERSION = 1
_LONGEST = 20_000  # characters of a line
_MOST = 64 << 20  # bytes of a file
_GREATEST = 1e18  # no size, and no time, is larger


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


_paths: dict[tuple[str | None, ...], Path] = {}


def path() -> Path:
    """Where the file is.

    A directory that is trusted once is not looked at again: every compilation may ask, and what
    is read is data. `append` makes it anew if it is gone.
    """
    named = tuple(map(os.environ.get, ("OPENWORK_CACHE_DIR", "XDG_CACHE_HOME")))
    known = _paths.get(named)
    if known is None:
        root = cache.directory()
        known = root / "tuning.jsonl"
        if root == cache.wanted_directory():
            _paths[named] = known
    return known


@dataclass(eq=False)
class _Contents:
    """The lines of a file, parsed as they are asked for."""

    stamp: tuple[int, int]
    text: str
    found: dict[tuple[str, str], tuple[TuningRecord, ...]] = field(default_factory=dict)
    logs: dict[tuple[object, ...], Any] = field(default_factory=dict)

    def about(self, statement: str, device: str) -> tuple[TuningRecord, ...]:
        """The records of a statement on a device; "" for all of them."""
        known = self.found.get((statement, device))
        if known is None:
            lines = self.lines_with(json.dumps(statement)) if statement else self.text.splitlines()
            parsed = _parsed(list(lines))
            known = tuple(
                record
                for record in parsed
                if statement in ("", record.statement) and device in ("", record.device)
            )
            self.found[statement, device] = known
        return known

    def near(
        self, statement: str, device: str, features: Mapping[str, float], most: float
    ) -> list[tuple[float, TuningRecord]]:
        """The records of a statement with features at most so far away, nearest first."""
        known = self.about(statement, device)
        if not known:
            return []
        key = statement, device, *features
        table = self.logs.get(key)
        if table is None:
            table = self.logs[key] = _logarithms(known, features)
        own = np.array([[math.log1p(value)] for value in features.values()])
        far = np.abs(table - own.reshape(-1, 1)).max(axis=0, initial=0.0)
        (chosen,) = (far <= most).nonzero()  # not those with other features, which are NaN
        order = sorted(chosen.tolist(), key=lambda n: (far[n], -n))
        return [(float(far[n]), known[n]) for n in order]

    def lines_with(self, part: str) -> Iterator[str]:
        """The lines that contain a text, as the file spells it."""
        at = self.text.find(part)
        while at >= 0:
            begin, end = self.text.rfind("\n", 0, at) + 1, self.text.find("\n", at)
            end = len(self.text) if end < 0 else end
            yield self.text[begin:end]
            at = self.text.find(part, end)


def _logarithms(records: Iterable[TuningRecord], features: Mapping[str, float]) -> Any:
    """A column for each record: logarithms of these features, NaN if it has others."""
    nothing = [np.nan] * len(features)
    rows = [
        [each.features[name] for name in features]
        if each.features.keys() == features.keys()
        else nothing
        for each in records
    ]
    table = np.log1p(np.array(rows, dtype=float).reshape(len(rows), len(features)))
    return np.ascontiguousarray(table.T)


_read: dict[Path, _Contents] = {}


def records(statement: str = "", device: str = "") -> tuple[TuningRecord, ...]:
    """The records of a statement on a device, or all, oldest first.

    The file is read again only if it has changed, and only lines that are asked for are parsed.
    """
    known = _contents()
    return () if known is None else known.about(statement, device)


def near(
    statement: str, device: str, features: Mapping[str, float], most: float
) -> list[tuple[float, TuningRecord]]:
    """The records of a statement on a device whose features are near, the nearest first.

    How far: the largest logarithm of a ratio of two features; the newest of equals comes first.
    """
    known = _contents()
    return [] if known is None else known.near(statement, device, features, most)


def _contents() -> _Contents | None:
    """The file as it is now; None if there is none."""
    file = path()
    try:
        status = file.stat()
    except OSError:
        return None
    stamp = (status.st_mtime_ns, status.st_size)
    known = _read.get(file)
    if known is None or known.stamp != stamp:
        known = _read[file] = _Contents(stamp, _text(file))
    return known


def append(new: Iterable[TuningRecord]) -> None:
    """Add records.

    Raises:
        ToolchainError: E603, if the file cannot be written.
    """
    lines = [json.dumps({"version": VERSION, **asdict(each)}) for each in new]
    if not lines:
        return
    if not path().parent.is_dir():
        _paths.clear()
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
    found = _Contents((0, 0), _text(source)).about("", "")
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


def _text(file: Path) -> str:
    """The text of a file of records."""
    if file.stat().st_size > _MOST:
        raise DataError(f"{file} is too large for tuning records", code="E506")
    return file.read_text(encoding="utf-8", errors="replace")


def _parsed(lines: list[str]) -> list[TuningRecord]:
    """The records of lines, without those that are damaged.

    All are decoded and checked together, which takes a third of the time; one by one if that fails.
    """
    if max(map(len, lines), default=0) > _LONGEST:
        lines = [line for line in lines if len(line) <= _LONGEST]
    try:
        found = _DECODER.decode(f"[{','.join(lines)}]")
    except (ValueError, RecursionError):
        found = []
    known = _records(found) if len(found) == len(lines) else None
    if known is None:
        each = (_records([_decoded(line)]) for line in lines)
        known = [record for some in each if some for record in some]
    return known


def _decoded(line: str) -> Any:
    """What a line says; None if it is no JSON."""
    try:
        return _DECODER.decode(line)
    except (ValueError, RecursionError):
        return None


def _refused(constant: str) -> object:
    raise ValueError(f"{constant} is no size")


_DECODER = json.JSONDecoder(parse_constant=_refused)  # without NaN, which compares with nothing
_SIZES, _TEXTS, _TABLES = frozenset({int, float}), frozenset({str}), frozenset({dict})
_KEYS = ("statement", "device", "features", "formats", "schedule", "seconds", "default", "day")
_facts = itemgetter("version", *_KEYS)


def _records(found: list[Any]) -> list[TuningRecord] | None:
    """The records of decoded lines; None unless all are of this version, with facts of their types.

    All facts of one kind are checked together.
    """
    if not found or not _TABLES.issuperset(map(type, found)):
        return None if found else []
    try:
        columns = list(zip(*map(_facts, found), strict=True))
    except KeyError:
        return None
    versions, statements, devices, features, formats, schedules, seconds, defaults, days = columns
    if versions.count(VERSION) != len(found):
        return None
    if not _TABLES.issuperset(map(type, chain(features, formats))):
        return None
    said = chain.from_iterable(map(dict.values, formats))
    sizes = chain.from_iterable(map(dict.values, features))
    sound = (
        _TEXTS.issuperset(map(type, chain(statements, devices, schedules, days, said)))
        and _are_sizes([*sizes, *seconds, *defaults])
        and all(seconds)
        and all(defaults)
    )
    return list(map(TuningRecord, *columns[1:])) if sound else None


def _are_sizes(values: list[Any]) -> bool:
    """Whether all are numbers from 0 on that are not absurd; bool is no number here."""
    return _SIZES.issuperset(map(type, values)) and min(values) >= 0 and max(values) <= _GREATEST


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
