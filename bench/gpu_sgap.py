"""Sgap's tables 4 and 5 from the points that `gpu_space.py --sgap` measured.

    python bench/gpu_sgap.py bench/results/gpu-sgap-*.jsonl.gz

Table 4: the best point of <groupSz, blockSz, tileSz, workerDimR> for each matrix over the original
implementation's, <32, 256, 32, 1>. Table 5: over the one point that is best for all matrices.
`workerDimR` is that part of the number of rows; `tileSz` is the threads of a row.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import defaultdict
from math import exp, log
from typing import Any

ORIGINAL = "<32, 256, 32, 1/1>"


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, values)) / len(values))


def line(columns: int, cases: list[dict[str, Any]]) -> str:
    """A row of both tables."""
    times = [{n: t for n, t in case["times"].items() if n != "default"} for case in cases]
    common = set.intersection(*map(set, times))
    best = [min(each[name] for name in common) for each in times]
    static = min(common, key=lambda name: mean([each[name] for each in times]))
    tuned = [each[ORIGINAL] / least for each, least in zip(times, best, strict=True)]
    chosen = [each[static] / least for each, least in zip(times, best, strict=True)]
    ours = [least / case["times"]["default"] for case, least in zip(cases, best, strict=True)]
    return (
        f"| {columns} | {len(cases)} | {mean(tuned):.2f} | {max(tuned):.2f} | `{static}` "
        f"| {mean(chosen):.2f} | {mean(ours):.2f} |"
    )


def main() -> None:
    found = defaultdict(list)
    for path in sys.argv[1:]:
        with gzip.open(path, "rt") as file:
            for case in map(json.loads, file):
                found[case["columns"]].append(case)
    print(
        "| N | matrices | table 4: best over original | at most | best static point "
        "| table 5: best over static | our default over the best of all points |\n"
        "|---|---|---|---|---|---|---|"
    )
    for columns in sorted(found):
        print(line(columns, found[columns]))


if __name__ == "__main__":
    main()
