"""One record per compilation: every stage's text, how long it took, and what was decided.

Tests, `kernel.explain()`, the command line and `OPENWORK_DUMP` all read this one object.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Self, TypeVar

from openwork.frozen import frozen

T = TypeVar("T")


@frozen
class Stage:
    """The output of one stage: its file name, its text, and its time in seconds."""

    name: str
    text: str
    seconds: float


@dataclass
class Trace:
    """The stages and decisions of one compilation, in order."""

    stages: list[Stage] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)
    dumps: bool = True  # whether OPENWORK_DUMP writes its stages to files

    @classmethod
    def after(cls, stages: Iterable[Stage], decisions: Iterable[str]) -> Self:
        """A record that continues another; a dump includes the earlier stages."""
        trace = cls(decisions=list(dict.fromkeys(decisions)))
        for stage in stages:
            trace._add(stage)
        return trace

    def run(self, name: str, work: Callable[[], T], show: Callable[[T], str] = str) -> T:
        """Run `work`, record its text under `name`, and dump it if `OPENWORK_DUMP` is set."""
        start = perf_counter()
        result = work()
        seconds = perf_counter() - start
        text = show(result) if os.environ.get("OPENWORK_DUMP") else ""
        self._add(Stage(name, text, seconds))
        return result

    def _add(self, stage: Stage) -> None:
        self.stages.append(stage)
        dump = os.environ.get("OPENWORK_DUMP") if self.dumps else None
        if dump:
            folder = Path(dump)
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{len(self.stages):02d}-{stage.name}"
            path.write_text(stage.text + "\n", encoding="utf-8")

    def decide(self, sentence: str) -> None:
        """Record a decision for `explain()`."""
        if sentence not in self.decisions:
            self.decisions.append(sentence)
