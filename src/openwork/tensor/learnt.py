"""What tuning has learnt about statements like this one: found by form, device and statistics.

Records are written by `openwork.tune`, and read here, where statements are compiled: the lookup
measures nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from openwork.format.formats import Format
from openwork.frozen import frozen
from openwork.index.nodes import Access, Assignment, TensorVar
from openwork.index.show import show
from openwork.loops.schedule.statistics import Statistics
from openwork.runtime.tuning_file import TuningRecord, near
from openwork.tree import walk

NEAR = math.log(2)  # features that differ by no more than twice: the same choice is likely to fit
_WORD = re.compile(r"[A-Za-z_]\w*")


@frozen
class Form:
    """What a statement alone says: with canonical names, formats and types, without data."""

    text: str
    names: tuple[tuple[str, str], ...]  # the user's and the canonical one
    extents: tuple[tuple[str, float], ...]
    sparse: tuple[tuple[str, str], ...]  # tensors whose entries are counted: both names

    @classmethod
    def of(cls, assignment: Assignment) -> Form:
        """The form of a statement, kept with it as trees keep their hashes."""
        known: Form | None = assignment.__dict__.get("_form")
        if known is None:
            known = assignment.__dict__["_form"] = cls._found(assignment)
        return known

    @classmethod
    def _found(cls, assignment: Assignment) -> Form:
        tensors: dict[str, TensorVar] = {}
        variables: dict[str, str] = {}
        extents: dict[str, float] = {}
        for access in walk(assignment):
            if not isinstance(access, Access):
                continue
            tensors.setdefault(access.tensor.name, access.tensor)
            for mode, var in enumerate(access.vars):
                name = variables.setdefault(var.name, f"v{len(variables)}")
                extent = None if access.tensor.shape is None else access.tensor.shape[mode]
                if extent is not None:
                    extents[name] = float(extent)
        called = {name: f"t{n}" for n, name in enumerate(tensors)}
        facts = [f"{called[n]}: {_stored_as(t.format, t.dtype)}" for n, t in tensors.items()]
        sparse = tuple((n, called[n]) for n, t in tensors.items() if not t.format.is_dense)
        names = (*called.items(), *variables.items())
        text = "; ".join((_renamed(show(assignment), names), *facts))
        return cls(text, names, tuple(extents.items()), sparse)


@frozen
class Signature:
    """A statement as records know it: without the user's names, which `names` has."""

    text: str
    names: tuple[tuple[str, str], ...]
    features: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, assignment: Assignment, statistics: Mapping[str, Statistics]) -> Signature:
        """The signature of a statement whose operands have these statistics."""
        form = Form.of(assignment)
        features = [*form.extents]
        for name, short in form.sparse:
            known = statistics.get(name)
            if known is not None:
                features.append((f"{short} entries", float(known.entries)))
                if known.rows is not None:
                    features.append((f"{short} longest", float(known.rows.longest)))
                    features.append((f"{short} reach", float(known.rows.reach)))
        return cls(form.text, form.names, tuple(features))

    def canonical(self, text: str) -> str:
        """A schedule with canonical names in place of the user's."""
        return _renamed(text, self.names)

    def own(self, text: str) -> str:
        """A schedule of a record with the user's names."""
        return _renamed(text, tuple((canonical, name) for name, canonical in self.names))

    def tensor(self, canonical: str) -> str:
        """The user's name of a tensor of a record."""
        return {c: name for name, c in self.names}.get(canonical, canonical)

    def nearest(self, device: str) -> Iterator[tuple[float, TuningRecord]]:
        """The records of this statement on a device that are near, nearest first."""
        return near(self.text, device, self.features, NEAR)


@lru_cache(maxsize=1024)
def _stored_as(format: Format, dtype: Any) -> str:
    return f"{format} of {dtype}"


@lru_cache(maxsize=1024)
def _renamed(text: str, names: tuple[tuple[str, str], ...]) -> str:
    table = dict(names)
    return _WORD.sub(lambda word: table.get(word[0], word[0]), text)


def compared_schedules(record: TuningRecord) -> bool:
    """Whether the search behind a record measured schedules: its default is then a choice."""
    over = record.asked.partition(";")[0]
    return record.budget > 0 and "schedule" in over


def said_of(record: TuningRecord, distance: float) -> str:
    """Where a choice comes from, for `explain()`."""
    times = f"{math.exp(distance):.2f}x"
    near = "the same statistics" if distance == 0 else f"statistics within {times}"
    if not record.schedule and not record.formats:
        return f"the default schedule did best in a record of {record.day}, {near}"
    gain = record.default / record.seconds
    return f"schedule from a record of {record.day}, {near}: {gain:.2f}x of the default there"
