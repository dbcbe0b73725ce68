"""What a file of tuning records costs: to read it, and to look a statement up when it is compiled.

    python bench/tuning_records.py [COUNT]

The file is temporary. Figures are the least of many runs.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp


def least(call: Callable[[], Any], times: int) -> float:
    """The shortest of so many runs, in seconds."""
    found = []
    for _ in range(times):
        start = perf_counter()
        call()
        found.append(perf_counter() - start)
    return min(found)


def main(count: int) -> None:
    """Write `count` records, every other of one statement, and time reading and looking up."""
    import openwork as ow
    from openwork.runtime import tuning_file
    from openwork.tensor.kernel.targets import find_target
    from openwork.tensor.learnt import Signature
    from openwork.tensor.measure import statistics_of

    matrix = sp.random_array((300, 300), density=0.05, format="csr", rng=np.random.default_rng(0))
    A, x = ow.tensor(matrix, name="A"), ow.tensor(np.ones(300), name="x")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(300), A=A, x=x)
    machine = find_target("cpu").machine
    signature = Signature.of(stmt.assignment, statistics_of(stmt.assignment))
    features = dict(signature.features)
    schedule = "parallelize(v0,CPUThread,NoRaces,chunk=64)"
    measured = (1e-4, 2e-4, "2026-01-31", "over schedule", 9.0)
    one = tuning_file.TuningRecord(signature.text, machine, features, {}, schedule, *measured)

    def another(n: int) -> tuning_file.TuningRecord:
        text = signature.text if n % 2 else f"{signature.text} {n}"
        sizes = {name: size * (1 + n / 100) for name, size in features.items()}
        return one._replace(statement=text, features=sizes)

    tuning_file.append(map(another, range(count)))

    def fresh() -> None:
        tuning_file._read.clear()

    def read() -> None:
        fresh()
        assert len(tuning_file.records()) == count

    def look_up(assignment: Any = stmt.assignment) -> object:
        return next(Signature.of(assignment, statistics_of(assignment)).nearest(machine))

    def first() -> None:
        fresh()
        look_up()

    print(f"{count} records: all read in {1e3 * least(read, 50):.2f} ms")
    print(f"the first lookup of a process takes {1e3 * least(first, 50):.2f} ms")
    plain = least(lambda: ow.Statement(stmt.assignment)._draft, 200)
    asked = least(look_up, 200)
    copies = [replace(stmt.assignment) for _ in range(200)]
    new = least(lambda: look_up(copies.pop()), 200)
    print(f"a statement is looked up in {1e6 * new:.0f} us, again in {1e6 * asked:.0f} us")
    print(f"planning its loops takes {1e6 * plain:.0f} us")

    def compiled(tune: str | None = None, schedule: str = "") -> object:
        new = ow.Statement(stmt.assignment)
        return (new.schedule(schedule) if schedule else new).compile(tune=tune)

    by_hand = signature.own(schedule)
    usual = least(lambda: compiled(schedule=by_hand), 100)
    known = least(lambda: compiled("recorded"), 100)
    print(f"compile with the schedule given: {1e3 * usual:.2f} ms, recorded: {1e3 * known:.2f} ms")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        os.environ["OPENWORK_CACHE_DIR"] = directory
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
