"""One record per compilation: every stage's text, how long it took, and what was decided.

Tests, `kernel.explain()`, the command line and `OPENWORK_DUMP` all read this one object.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Stage:
    """What one stage made: the name of its file, its text, its time in seconds."""

    name: str
    text: str
    seconds: float


@dataclass
class Trace:
    """The stages and decisions of one compilation, in order."""

    stages: list[Stage] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)
    dumps: bool = True  # whether its stages are written out when somebody asks for it

    def run(self, name: str, work: Callable[[], T], show: Callable[[T], str] = str) -> T:
        """Do `work`, keep its text under `name`, and write it out when a dump was asked for."""
        start = perf_counter()
        result = work()
        seconds = perf_counter() - start
        dump = os.environ.get("OPENWORK_DUMP") if self.dumps else None
        self.stages.append(Stage(name, show(result) if dump else "", seconds))
        if dump:
            folder = Path(dump)
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{len(self.stages):02d}-{name}"
            path.write_text(self.stages[-1].text + "\n", encoding="utf-8")
        return result

    def decide(self, sentence: str) -> None:
        """Note a decision for `explain()`."""
        if sentence not in self.decisions:
            self.decisions.append(sentence)
