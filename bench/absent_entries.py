"""Reductions in which absent entries take part: counted, against a visit of every coordinate.

    python bench/absent_entries.py [rows]

On one thread. A second operand that is stored in full, and that absent entries take up, makes every
coordinate count: that is the time of a visit.
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any

import numpy as np

import openwork as ow

STATEMENTS = {
    "y = max(i, max(j, A(i,j)))": "y = max(i, max(j, A(i,j) + z(j)))",
    "y(i) = min(j, select(A(i,j) > 0, l(j), 7))": "y(i) = min(j, select(A(i,j) > 0, l(j), s(j)))",
    "y(i) = sum(j, A(i,j) + 1)": "y(i) = sum(j, A(i,j) + s(j))",
}


def best(text: str, names: dict[str, Any], repeats: int) -> float:
    """Milliseconds of a repeated call."""
    used = {name: each for name, each in names.items() if f"{name}(" in text.split("=", 1)[1]}
    kernel, times = ow.parse(text, **used).compile(), []
    kernel()
    for _ in range(repeats):
        start = perf_counter()
        kernel()
        times.append(perf_counter() - start)
    return 1e3 * min(times)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    ow.set_num_threads(1)
    A = ow.random((rows, rows), 20 / rows, rng=0, format="CSR")
    vectors = {"z": np.zeros(rows), "l": np.arange(float(rows)), "s": np.full(rows, 7.0)}
    dense = {name: ow.tensor(array, name=name) for name, array in vectors.items()}
    print(f"| {rows:,} rows of 20 | format | counted, ms | visited, ms |\n|---|---|---|---|")
    for text, visiting in STATEMENTS.items():
        for format in ("CSR", "DCSR", "COO(2)"):
            names = {"A": A.to(format).rename("A"), **dense}
            counted, visited = best(text, names, 20), best(visiting, names, 1)
            print(f"| `{text}` | {format} | {counted:.2f} | {visited:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
