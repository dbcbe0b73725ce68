"""What was learnt: records of all searches, for users to look at, share and forget."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from openwork.runtime import tuning_file
from openwork.runtime.tuning_file import TuningRecord


def records() -> tuple[TuningRecord, ...]:
    """All records, oldest first."""
    return tuning_file.records()


def export(path: str | PathLike[str]) -> int:
    """Write all records into a file, to `include` elsewhere; returns how many there are."""
    return tuning_file.export(Path(path))


def include(path: str | PathLike[str]) -> int:
    """Add the records of an exported file; returns how many are new.

    A file holds texts and numbers, no code: a schedule that is illegal is refused when it is used.

    Raises:
        DataError: E506 if the file has no records.
    """
    return tuning_file.include(Path(path))


def clear() -> None:
    """Forget all records."""
    tuning_file.clear()
