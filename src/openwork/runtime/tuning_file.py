"""The file of what tuning has measured: one JSON object a line, appended under a lock.

It lies beside the kernel cache, but clearing the cache keeps it. A file may come from strangers: a
line holds texts and numbers, which are checked here, and its texts are parsed as schedules and
formats. A line that is damaged, or of another version, is skipped.
"""

from __future__ import annotations

import json
import math
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np

from openwork.errors import DataError, ToolchainError
from openwork.runtime import cache

try:
    import fcntl
except ImportError:  # not on Windows, where appends of a line are atomic enough
    fcntl = None  # type: ignore[assignment]

VERSION = 2
T = TypeVar("T")
Features = tuple[tuple[str, float], ...]
_LONGEST = 20_000  # characters of a line
_MOST = 64 << 20  # bytes of a file
_ANSWERS = 1000  # lookups whose answers are kept
_GREATEST = 1e18  # no size, and no time, is larger


class TuningRecord(NamedTuple):
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
        asked: what the search was asked for; it answers only searches that are asked for the same.
        budget: the seconds that it had; it answers only searches with no more.
    """

    statement: str
    device: str
    features: dict[str, float]
    formats: dict[str, str]
    schedule: str
    seconds: float
    default: float
    day: str
    asked: str
    budget: float


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


class _Contents:
    """The lines of a file. What is not asked for is not decoded.

    A line is found by how it begins, which is as `append` writes it.
    """

    def __init__(self, stamp: tuple[int, int], data: bytes) -> None:
        self.stamp, self._data = stamp, b"\n" + data
        self._known: dict[tuple[str, str], _Similar] = {}

    @cached_property
    def records(self) -> tuple[TuningRecord, ...]:
        """All records."""
        return tuple(_parsed(self._data.decode("utf-8", "replace").splitlines()[1:]))

    def about(self, statement: str, device: str) -> _Similar:
        """The lines of a statement on a device."""
        key = statement, device
        known = self._known.get(key)
        if known is None:
            said = json.dumps({"version": VERSION, "statement": statement, "device": device})
            begin = f'\n{said[:-1]}, "features": '.encode()
            known = self._known[key] = _Similar(self._data, begin)
        return known


class _Similar:
    """The lines of one statement on one device: all features, and records as they are asked for."""

    def __init__(self, data: bytes, begin: bytes) -> None:
        features, self._places, self._data = list[bytes](), list[int](), data
        at = data.find(begin)
        while at >= 0:
            end = data.find(b"}", at) + 1
            features.append(data[at + len(begin) : end])
            self._places.append(at + 1)
            at = data.find(begin, end) if end else -1
        texts = [each.decode("utf-8", "replace") for each in features]
        self._features = [known or {} for known in _decoded(texts, _features)]
        self._tables: dict[tuple[str, ...], tuple[Any, list[float], Any]] = {}
        self._near: dict[tuple[Features, float], list[tuple[float, int]]] = {}
        self._records: dict[int, TuningRecord | None] = {}

    def near(self, features: Features, most: float) -> Iterator[tuple[float, TuningRecord]]:
        """The records with features at most so far away, nearest first, newest first of equals."""
        key = features, most
        if key not in self._near:
            if len(self._near) > _ANSWERS:
                self._near.clear()
            self._near[key] = self._nearest(features, most)
        for distance, line in self._near[key]:
            record = self._record(line)
            if record is not None:
                yield distance, record

    def _nearest(self, features: Features, most: float) -> list[tuple[float, int]]:
        """How far the lines that are near are, and their numbers."""
        lines, first, table = self._table(tuple(name for name, _ in features))
        own = [math.log1p(value) for _, value in features]
        begin, end = 0, len(lines)
        if own:  # the table is sorted by the first feature
            begin, end = bisect_left(first, own[0] - most), bisect_right(first, own[0] + most)
        if begin == end:
            return []
        far = abs(table[:, begin:end] - np.array(own)[:, None]).max(axis=0, initial=0.0)
        close = (far <= most).nonzero()[0]
        found, far = lines[begin + close], far[close]
        order = np.lexsort((-found, far))
        return [*zip(far[order].tolist(), found[order].tolist(), strict=True)]

    def _table(self, names: tuple[str, ...]) -> tuple[Any, list[float], Any]:
        """The lines with these features, sorted by the first; its logarithms, and those of all."""
        known = self._tables.get(names)
        if known is None:
            wanted = set(names)
            having = [n for n, each in enumerate(self._features) if each.keys() == wanted]
            sizes = [[self._features[n][name] for n in having] for name in names]
            table = np.log1p(np.array(sizes, dtype=float).reshape(len(names), len(having)))
            order = table[0].argsort(kind="stable") if names else np.arange(len(having))
            table = np.ascontiguousarray(table[:, order])
            first = table[0].tolist() if names else []
            known = self._tables[names] = np.array(having, dtype=int)[order], first, table
        return known

    def _record(self, line: int) -> TuningRecord | None:
        """The record of a line; None if it is damaged."""
        if line not in self._records:
            begin = self._places[line]
            end = self._data.find(b"\n", begin)
            text = self._data[begin : end if end >= 0 else None].decode("utf-8", "replace")
            self._records[line] = next(iter(_parsed([text])), None)
        return self._records[line]


_read: dict[Path, _Contents] = {}


def records() -> tuple[TuningRecord, ...]:
    """All records, oldest first. The file is read again only if it has changed."""
    known = _contents()
    return () if known is None else known.records


def near(
    statement: str, device: str, features: Features, most: float
) -> Iterator[tuple[float, TuningRecord]]:
    """The records of a statement on a device whose features are near, the nearest first.

    How far: the largest logarithm of a ratio of two features; the newest of equals comes first.
    """
    known = _contents()
    return iter(()) if known is None else known.about(statement, device).near(features, most)


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
        known = _read[file] = _Contents(stamp, _bytes(file))
    return known


def append(new: Iterable[TuningRecord]) -> None:
    """Add records.

    Raises:
        ToolchainError: E603, if the file cannot be written.
    """
    lines = [json.dumps({"version": VERSION, **each._asdict()}) for each in new]
    if not lines:
        return
    if not path().parent.is_dir():
        _paths.clear()
    with _locked(path()) as file:
        text = "".join(f"{line}\n" for line in lines)
        file.write(text if _ends_a_line(path()) else f"\n{text}")


def _ends_a_line(file: Path) -> bool:
    """Whether the last line is whole: a process may have been killed while it wrote."""
    with file.open("rb") as handle:
        if handle.seek(0, os.SEEK_END) == 0:
            return True
        handle.seek(-1, os.SEEK_END)
        return handle.read() == b"\n"


def export(to: Path) -> int:
    """Write all records into a file of their own; returns how many.

    Raises:
        DataError: E506 if it cannot be written.
    """
    known = records()
    lines = [json.dumps({"version": VERSION, **each._asdict()}) for each in known]
    try:
        to.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot write {to}: {error.strerror}", code="E506") from error
    return len(known)


def include(source: Path) -> int:
    """Add the records of a file that `export` wrote, perhaps elsewhere; returns how many are new.

    Raises:
        DataError: E506 if there is not one record in it, or it cannot be read.
    """
    found = _Contents((0, 0), _bytes(source)).records
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


def _bytes(file: Path) -> bytes:
    """What a file of records holds.

    Raises:
        DataError: E506 if it cannot be read, or is too large.
    """
    try:
        if file.stat().st_size > _MOST:
            raise DataError(f"{file} is too large for tuning records", code="E506")
        return file.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}", code="E506") from error


def _parsed(lines: list[str]) -> list[TuningRecord]:
    """The records of lines, without those that are damaged."""
    short = [line for line in lines if len(line) <= _LONGEST]
    return [record for record in _decoded(short, _records) if record is not None]


def _decoded(texts: list[str], checked: Callable[[list[Any]], list[T] | None]) -> list[T | None]:
    """What texts say; None for those that are damaged.

    All are decoded and checked together, which takes a third of the time; by halves if that fails.
    """
    try:
        found = _DECODER.decode(f"[{','.join(texts)}]")
    except (ValueError, RecursionError):
        found = []
    known = checked(found) if len(found) == len(texts) else None
    if known is not None:
        return [*known]
    if len(texts) == 1:
        return [None]
    middle = len(texts) // 2
    return _decoded(texts[:middle], checked) + _decoded(texts[middle:], checked)


def _refused(constant: str) -> object:
    raise ValueError(f"{constant} is no size")


_DECODER = json.JSONDecoder(parse_constant=_refused)  # without NaN, which compares with nothing
_SIZES, _TEXTS, _TABLES = frozenset({int, float}), frozenset({str}), frozenset({dict})
_facts = itemgetter("version", *TuningRecord._fields)


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
    versions, statements, devices, features, formats, schedules, *rest = columns
    seconds, defaults, days, asked, budgets = rest
    if versions.count(VERSION) != len(found):
        return None
    if not _TABLES.issuperset(map(type, chain(features, formats))):
        return None
    said = chain.from_iterable(map(dict.values, formats))
    sizes = chain.from_iterable(map(dict.values, features))
    sound = (
        _TEXTS.issuperset(map(type, chain(statements, devices, schedules, days, asked, said)))
        and _are_sizes([*sizes, *seconds, *defaults, *budgets])
        and all(seconds)
        and all(defaults)
    )
    return [*map(TuningRecord._make, zip(*columns[1:], strict=True))] if sound else None


def _features(found: list[Any]) -> list[dict[str, float]] | None:
    """Decoded features; None unless all are sizes by name."""
    if not _TABLES.issuperset(map(type, found)):
        return None
    sizes = [*chain.from_iterable(map(dict.values, found))]
    return found if not sizes or _are_sizes(sizes) else None


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
