"""A choice of buckets as text, as searches and records have it: `bucket(i,8=ELL,64)`."""

from __future__ import annotations

import re

from openwork.errors import ScheduleError
from openwork.frozen import frozen

_PATTERN = re.compile(r"bucket\((\w+)((?:,\d{1,9}(?:=\w+)?)+)\)")


@frozen
class BucketChoice:
    """The arguments of `Statement.bucket`, as text.

    >>> chosen = BucketChoice.read("bucket(i,8=ELL,64)")
    >>> print(chosen.call)
    bucket("i", bounds=(8, 64), formats=('ELL', None, None))
    >>> BucketChoice.read("split(i,i0,i1,8)") is None
    True
    """

    var: str
    bounds: tuple[int, ...]
    formats: tuple[str | None, ...] | None  # None: rows stay where they are

    @classmethod
    def read(cls, text: str) -> BucketChoice | None:
        """The choice that a text says; None for a schedule.

        Raises:
            ScheduleError: E303 for buckets that nobody can make.
        """
        if not text.startswith("bucket("):
            return None
        match = _PATTERN.fullmatch(text)
        if match is None:
            raise ScheduleError(f"{text!r} is not a choice of buckets", code="E303")
        parts = [each.partition("=") for each in match[2][1:].split(",")]
        formats = (*(format or None for _, _, format in parts), None)
        bounds = tuple(int(bound) for bound, _, _ in parts)
        return cls(match[1], bounds, formats if any(formats) else None)

    @property
    def call(self) -> str:
        """The call of `bucket` as Python."""
        more = f", formats={self.formats}" if self.formats else ""
        return f'bucket("{self.var}", bounds={self.bounds}{more})'
