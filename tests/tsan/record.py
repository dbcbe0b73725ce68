"""Calls of kernels put on record: the program, and its arguments just before it would run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.random.interpreted import Interpreted, interpreting
from tests.tsan.cases import Prepared

from openwork.program import nodes as p
from openwork.render.c.allocation import may_fail
from openwork.render.c.c import render, render_all
from openwork.runtime.storage import Array
from openwork.tree import walk

THREADS = 4
DRIVER = Path(__file__).with_name("driver.c")


@dataclass(frozen=True)
class Call:
    """A kernel with arguments; an array that it makes is None."""

    prepared: Prepared
    program: p.Program
    arrays: tuple[Array | None, ...]
    sizes: tuple[int, ...]

    @property
    def allocates(self) -> bool:
        """Whether threads ask for memory of their own."""
        loops = parallel_loops(self.program)
        return any(f.copies or any(map(may_fail, (*f.private, f.body))) for f in loops)

    def write(self, file: Path) -> None:
        """The arguments as driver.c reads them."""
        parts = [_words(len(self.sizes), *self.sizes, len(self.arrays))]
        for array in self.arrays:
            data = None if array is None else np.ascontiguousarray(array).tobytes()
            parts += [_words(-1)] if data is None else [_words(len(data)), data]
        file.write_bytes(b"".join(parts))


class Reached(Exception):
    """A kernel would run now."""


class Recorder(Interpreted):
    """Stands in for an executable, and never runs."""

    def run(
        self,
        arrays: Sequence[Any],
        extents: Sequence[int],
        work: float,
        room: int,
        tight: bool = False,
        steps: float | None = None,
    ) -> list[Array]:
        made = [each for each in self.program.arguments if each.role == "made"]
        given = [self.results[a] if isinstance(a, int) else a for a in arrays]
        sizes = (THREADS, room, *extents, *(0 for _ in made))
        raise Reached(self.program, (*given, *(None for _ in made)), sizes)


def record(prepared: Prepared) -> Call | None:
    """The call that `prepared` makes; None if no loop of its program is left to threads."""
    try:
        with interpreting(Recorder):
            prepared.statement.compile(loader=lambda compiled: compiled)()
    except Reached as reached:
        program, arrays, sizes = reached.args
        if parallel_loops(program):
            return Call(prepared, program, arrays, sizes)
    return None


def parallel_loops(program: p.Program) -> list[p.For]:
    """The loops that threads share."""
    loops = (node for node in walk(program) if isinstance(node, p.For))
    return [loop for loop in loops if isinstance(loop.by, p.Threads)]


def record_all(cases: Iterable[Prepared]) -> list[Call]:
    """The calls of `cases`, without those whose C is the same as of one before."""
    calls: dict[str, Call] = {}
    for prepared in cases:
        call = record(prepared)
        if call is not None:
            code = re.sub(r"//.*", "", render(call.program))
            calls.setdefault(code, call)
    return list(calls.values())


def write_driver(calls: Sequence[Call], folder: Path) -> Path:
    """A C file with a main function that makes any of `calls`; returns its path."""
    programs = {f"kernel_{n}": call.program for n, call in enumerate(calls)}
    # The driver has stdint.h; a second definition of the same types is legal.
    table = "static int32_t (*const kernels[])(void **, int64_t *) = {" + ", ".join(programs) + "};"
    (folder / "kernels.c").write_text(f"{render_all(programs)}\n{table}\n")
    driver = folder / DRIVER.name
    driver.write_text(DRIVER.read_text())
    return driver


def _words(*numbers: int) -> bytes:
    return np.array(numbers, np.int64).tobytes()
