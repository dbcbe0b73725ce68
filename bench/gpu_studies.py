"""`make study-gpu`: the studies of the thesis and of Sgap on a GPU, with plots.

The GPU machine needs no Matplotlib: `gpu_studies.py` measures and writes a JSON file, and
`gpu_studies.py FILE.json` turns it into a page with plots on any machine.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
OUT = Path(os.environ.get("OUT", "bench/out"))
SKEWS = (1.0, 1.0001, 1.0002, 1.0003, 1.0004, 1.0005, 1.0006)
GROUPS, COLUMNS = (4, 8, 16, 32), 4

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from gpu_schedules import (  # noqa: E402 - they stand in the examples
    SCHEDULES as EXAMPLES,
    entries_and_columns,
    entries_in_segments,
    parts_of_rows,
    rows_and_columns,
)

SCHEDULES = {
    "A.2, unrolled": EXAMPLES["A.2, entries, unrolled"],
    "A.11, not unrolled": EXAMPLES["A.11, entries"],
    "A.9, thread per row": EXAMPLES["A.9, thread per row"],
    "A.10, warp per row": EXAMPLES["A.10, warp per row"],
}


# -- measuring ----------------------------------------------------------------------------------


def measured() -> dict[str, Any]:
    """All studies, in milliseconds."""
    import cupy as cp
    import gpu_chunks
    from gpu_matrices import from_lengths, skewed

    import gpu

    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    found: dict[str, Any] = {"device": name, "skew": {}, "tables": {}, "listings": {}}
    for c in SKEWS:
        A = from_lengths(skewed(c, 40_000, 40_000_000), 100_000, np.float32)
        found["skew"][c] = _vector(gpu, A)
    found["wide"] = _vector(gpu, from_lengths(np.full(100, 10_000), 100_000, np.float32))
    found["random"] = _vector(gpu, from_lengths(np.full(400_000, 10), 400_000, np.float32))
    for name, A in _matrices():
        found["tables"][name] = _points(gpu, A)
        found["listings"][name] = _listings(gpu, A)
        print(name, flush=True)
    found["chunks"] = gpu_chunks.measured(_time, gpu)
    return found


def _vector(gpu: Any, A: Any) -> dict[str, float]:
    """SpMV under the schedules of the thesis, and by default."""
    import cupy as cp
    import gpu_thesis

    import openwork as ow
    from openwork import recipes

    x = cp.random.standard_normal(A.shape[1]).astype(A.dtype)
    y = ow.empty((A.shape[0],), dtype=A.dtype, name="y")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=ow.tensor(A, name="A"), x=ow.tensor(x))
    made = {name: stmt.schedule(text) for name, text in SCHEDULES.items()}
    made["staged segments"] = recipes.position_staged(stmt, 4, 32)
    made["default"] = stmt
    want = A @ x
    times = {name: _time(gpu, each, want) for name, each in made.items()}
    for name, run in gpu_thesis.kernels(A, x).items():
        _check(run(), want, name)
        times[name] = float(gpu.median(run, reps=7))
    return times


def _time(gpu: Any, stmt: Any, want: Any) -> float:
    run = stmt.compile(target="cuda")
    _check(run().storage.values.reshape(want.shape), want, stmt)
    return float(gpu.median(run, reps=7))


def _check(got: Any, want: Any, of: object) -> None:
    error = float(abs(got - want).max()) / (float(abs(want).max()) or 1.0)
    if not error < 1e-3:
        raise AssertionError(f"wrong by {error:.1e}: {of}")


def _matrices() -> list[tuple[str, Any]]:
    from gpu_matrices import from_lengths, rmat, skewed

    shape = {"uniform": np.full(100_000, 10), "long rows": np.full(4_000, 500)}
    made = [(name, from_lengths(rows, len(rows), np.float32)) for name, rows in shape.items()]
    made.append(("R-MAT 16", rmat(16, 16, np.float32)))
    made.append(("100 x 100k", from_lengths(np.full(100, 10_000), 100_000, np.float32)))
    uneven = from_lengths(skewed(1.0005, 20_000, 4_000_000), 50_000, np.float32)
    made.append(("skewed", uneven))
    made.append(("banded", from_lengths(np.full(200_000, 27), 200_000, np.float32, near=200)))
    return made


def _points(gpu: Any, A: Any) -> dict[str, float]:
    """Points of Sgap's space: {<x nnz or row, c col>, r} for four columns."""
    import cupy as cp

    import openwork as ow

    B = cp.random.standard_normal((A.shape[1], COLUMNS)).astype(A.dtype)
    C = ow.placeholder("C", order=2, dtype=A.dtype.name)
    text = "C(i,k) = A(i,j) * B(j,k)"
    stmt = ow.parse(text, C=C, A=ow.tensor(A, name="A"), B=ow.tensor(B))
    want = A @ B
    points: dict[str, dict[str, Any]] = {}
    for c in (1, 2, 4):
        for g in GROUPS:
            points[f"new 1/{g} row {c} {g}"] = {"row": 1 / g, "col": c, "group": g}
            points[f"new 1 nnz {c} {g}"] = {"nnz": 1, "col": c, "group": g}
            points[f"old {g} nnz {c} 1"] = {"nnz": g, "col": c}
        for r in (4, 8):
            points[f"new 1/32 row {c} {r}"] = {"row": 1 / 32, "col": c, "group": r}
        for x in (1, 2):
            points[f"old {x} row {c} 1"] = {"row": x, "col": c}
    times = {n: _time(gpu, ow.atomic_parallel(stmt, **p), want) for n, p in points.items()}
    return {**times, "default": _time(gpu, stmt, want)}


def _listings(gpu: Any, A: Any) -> dict[str, float]:
    """Sgap's listings with the numbers of its text, beside our default."""
    import cupy as cp

    import openwork as ow

    # As printed, listing 3 splits off 4 threads with 32 columns each.
    printed = entries_and_columns(16, 4, 128, 512).replace("thread,32), bound", "thread,4), bound")
    printed = printed.replace("dense_val,4,MaxExact", "dense_val,32,MaxExact")
    texts = {
        "3: <16 nnz, 4 col>, 1": (128, entries_and_columns(16, 4, 128, 512)),
        "3 as printed": (128, printed),
        "4: <1 row, 4 col>, 1": (128, rows_and_columns(1, 4, 128, 512)),
        "default, 128": (128, ""),
        "5: <1/32 row, 1 col>, 8": (4, parts_of_rows(32, 1, 8, 256)),
        "6: <1 nnz, 4 col>, 32": (4, entries_in_segments(4, 32, 4, 256)),
        "default, 4": (4, ""),
    }
    a, times = ow.tensor(A, name="A"), dict[str, float]()
    for name, (columns, text) in texts.items():
        B = cp.random.standard_normal((A.shape[1], columns)).astype(A.dtype)
        C = ow.empty((A.shape[0], columns), dtype=A.dtype.name, name="C")
        stmt = ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=a, B=ow.tensor(B))
        times[name] = _time(gpu, stmt.schedule(text) if text else stmt, A @ B)
    return times


DIFFERENT = """\
## What is different from the papers' GPUs

- **Unrolling** gains less in our code than in the thesis' own kernels, which gain here most of what
  they did on a V100: without a temporary, our loop over the entries of one row has no branches, so
  that its loads overlap. The thesis' rolled loop waits at each entry for the end of the row.
  Unrolled, our code takes the time of the thesis' kernel.
- **Balance.** A warp for each row loses little to skew, because rows are shuffled and the hardware
  gives a new block to a multiprocessor as soon as another ends. Positions win because all threads
  of a warp end in the same long row, and add to it once. When each thread added by itself, A.2 took
  1.8 to 2.4 times as long on these matrices, and the curves did not cross.
- **Threads for rows.** A thread for each row beats a warp where rows have 10 entries: 22 lanes of a
  warp would be idle, and the caches hide loads that are not coalesced.
- **Sgap, table 1.** Groups smaller than the threads of a row were twice as fast in the paper. Here
  the last steps of a shuffle are cheaper than more atomics, and a group of all 32 threads of a row
  is its only writer, and needs none.
- **Dynamic balance** pays where a block cannot be short: with a workspace in global memory for each
  resident block. Otherwise the hardware's own order of blocks is as good, and large chunks are
  worse."""


# -- plotting -----------------------------------------------------------------------------------


def show(found: dict[str, Any], base: Path) -> str:
    """A page, and its plots beside it."""
    lines = [
        f"# Studies on a GPU, {date.today().isoformat()}",
        "",
        f"{found['device']}, float32, medians of device times in ms; `bench/gpu_studies.py`.",
        "",
        "## Load balance (thesis, figure 8-7): 40M entries in 40,000 rows, row i has k c^i",
        "",
        f"![times over skew]({base.name}-skew.png)",
        "",
        *_table("c", found["skew"]),
        "",
        "Positions (A.2) against a warp for each row (A.10): "
        f"{_crossing(found['skew'], 'A.2, unrolled', 'A.10, warp per row')}; against a thread for "
        f"each row (A.9): {_crossing(found['skew'], 'A.2, unrolled', 'A.9, thread per row')}.",
        "",
        "## Parallelism (section 8.5): 100 x 100k, and unrolling (section 8.3): 4M random entries",
        "",
        f"![bars of all other studies]({base.name}-bars.png)",
        "",
        *_table("matrix", {"100 x 100k": found["wide"], "400k x 400k": found["random"]}),
        "",
        _said(found),
        "",
        *_groups(found["tables"]),
        "",
        "## Sgap's listings: 3 and 4 for 128 columns and 512 threads, 5 and 6 for 4 and 256",
        "",
        *_table("matrix", found["listings"]),
        "",
        *_chunks(found["chunks"]),
        DIFFERENT,
    ]
    _pictures(found, base)
    return "\n".join(lines) + "\n"


def _table(head: str, rows: dict[str, dict[str, float]]) -> list[str]:
    names = list(next(iter(rows.values())))
    return [
        f"| {head} | {' | '.join(names)} |",
        f"|---{'|---' * len(names)}|",
        *(f"| {row} | {' | '.join(f'{t[n]:.4f}' for n in names)} |" for row, t in rows.items()),
    ]


def _said(found: dict[str, Any]) -> str:
    wide, random = found["wide"], found["random"]
    parallel = wide["A.10, warp per row"] / wide["A.2, unrolled"]
    unrolled = random["A.11, not unrolled"] / random["A.2, unrolled"]
    rows = random["A.9, thread per row"] / random["A.10, warp per row"]
    thesis = random["thesis' text, rolled"] / random["thesis' text, unrolled"]
    return (
        f"Fused entries over a warp for each of 100 rows: {parallel:.1f}x (thesis: 4.5x). Unrolled "
        f"over not: {unrolled:.2f}x, and {thesis:.2f}x for the kernels as the thesis prints them "
        f"(1.36x). A warp for each row over a thread: {rows:.2f}x (6.9x for the schedule of a CPU)."
    )


def _crossing(skew: dict[str, dict[str, float]], one: str, other: str) -> str:
    """Where the two curves cross, by linear interpolation."""
    at = [(float(c), t[one] / t[other]) for c, t in skew.items()]
    for (a, left), (b, right) in pairwise(at):
        if (left < 1) != (right < 1):
            return f"they cross at c = {a + (b - a) * (1 - left) / (right - left):.5f}"
    return "they do not cross"


def _chunks(found: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    lines = ["## Dynamic balance: chunks of rows from a counter", ""]
    for what, rows in found.items():
        lines += [what, "", *_table("rows", rows), ""]
    return lines


Times = dict[str, float]


def _mean(tables: dict[str, Times], ratio: Callable[[Times], float], least: float = 0.0) -> float:
    return float(np.exp(np.mean([np.log(max(least, ratio(t))) for t in tables.values()])))


def _best(t: Times, start: str, within: str = "") -> float:
    return min(v for n, v in t.items() if n.startswith(start) and within in n)


def _whole(r: int) -> Callable[[Times], float]:
    """Speed-up of groups of `r` lanes over whole warps, where a row has 32 threads: over all c."""

    def ratio(t: Times) -> float:
        found = [t[f"new 1/32 row {c} 32"] / t[f"new 1/32 row {c} {r}"] for c in (1, 2, 4)]
        return float(np.exp(np.mean(np.log(found))))

    return ratio


def _segment(c: int, r: int) -> Callable[[Times], float]:
    """Speed-up of segment reductions in groups of `r` over the best group size per row."""
    return lambda t: _best(t, "new 1/", f"row {c} ") / t[f"new 1 nnz {c} {r}"]


def _kinds(t: Times) -> Times:
    """The best of each kind of algorithm."""
    old = {f"old {x}": _best(t, "old", f" {x[2:]} ") for x in ("g nnz", "x row")}
    new = {"new 1/g row": _best(t, "new 1/"), "new 1 nnz": _best(t, "new 1 nnz")}
    return {**new, **old, "default": t["default"]}


def _groups(tables: dict[str, Times]) -> list[str]:
    lines = [
        f"## Sgap: {COLUMNS} columns, geometric means over {', '.join(tables)}",
        "",
        "Table 1, groups smaller than the 32 threads of a row, {<1/32 row, c col>, r} over r = 32:",
        "",
        "| r = 8 | normalized | r = 4 | normalized |",
        "|---|---|---|---|",
        "| "
        + " | ".join(f"{_mean(tables, _whole(r), n):.2f}" for r in (8, 4) for n in (0, 1))
        + " |",
        "",
        "Table 2, segment reduction {<1 nnz, c col>, r} over the best {<1/g row, c col>, g}, "
        "normalized:",
        "",
        f"| c | {' | '.join(f'r = {r}' for r in GROUPS)} |",
        f"|---{'|---' * len(GROUPS)}|",
        *(
            f"| {c} | {' | '.join(f'{_mean(tables, _segment(c, r), 1):.2f}' for r in GROUPS)} |"
            for c in (1, 2, 4)
        ),
        "",
        "Table 3, the best of the new algorithms over the best of the old, normalized: "
        f"{_mean(tables, lambda t: _best(t, 'old') / _best(t, 'new'), 1):.2f}. Our default over "
        f"the best of all these: {_mean(tables, _over_all):.2f}.",
        "",
    ]
    return [*lines, *_table("matrix, best of each", {n: _kinds(t) for n, t in tables.items()})]


def _over_all(t: Times) -> float:
    return min(_best(t, "old"), _best(t, "new")) / t["default"]


def _pictures(found: dict[str, Any], base: Path) -> None:
    import plot

    if plot.available() is not None:
        print(plot.available())
        return
    plt = plot.pyplot()
    figure, axis = plt.subplots(figsize=(6, 4))
    _over_skew(axis, found["skew"])
    _save(figure, Path(f"{base}-skew.png"))
    figure, ((one, two), (three, four)) = plt.subplots(2, 2, figsize=(12, 8))
    one.set_title("100 x 100k (8.5), 4M random entries (8.3, unrolling)")
    _bars(one, {"100 x 100k": found["wide"], "400k x 400k": found["random"]}, "milliseconds")
    tables = found["tables"]
    two.set_title("Sgap, table 1: 32 threads for each row, in groups of r")
    sizes = {
        n: {f"r = {r}": t[f"new 1/32 row 1 {r}"] for r in (32, 8, 4)} for n, t in tables.items()
    }
    _bars(two, sizes, "milliseconds")
    three.set_title("Sgap, table 2: segment reduction over the best group for each row")
    for c in (1, 2, 4):
        gains = [_mean(tables, _segment(c, r), 1) for r in GROUPS]
        three.plot(GROUPS, gains, "o-", label=f"c = {c}")
    three.set(xlabel="r: lanes of a group", ylabel="times as fast, normalized", xticks=GROUPS)
    four.set_title("Sgap, table 3: new and old algorithms, the best of each")
    _bars(four, {n: _kinds(t) for n, t in tables.items()}, "milliseconds")
    for axis in (one, two, three, four):
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    _save(figure, Path(f"{base}-bars.png"))


def _over_skew(axis: Any, rows: dict[str, Times]) -> None:
    at = [float(c) for c in rows]
    for name in next(iter(rows.values())):
        axis.plot(at, [t[name] for t in rows.values()], "o-", label=name, markersize=4)
    axis.set(xlabel="c: row i has k c^i entries", ylabel="milliseconds", yscale="log")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)


def _bars(axis: Any, rows: dict[str, Times], unit: str) -> None:
    """Grouped bars, a group per row."""
    names = list(next(iter(rows.values())))
    wide = 0.8 / len(names)
    for n, name in enumerate(names):
        at = [row + (n - (len(names) - 1) / 2) * wide for row in range(len(rows))]
        axis.bar(at, [t[name] for t in rows.values()], wide, label=name)
    axis.set(ylabel=unit, yscale="log", xticks=range(len(rows)), xticklabels=list(rows))


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main() -> None:
    if len(sys.argv) > 1:
        base = RESULTS / f"gpu-studies-{date.today().isoformat()}"
        page = show(json.loads(Path(sys.argv[1]).read_text()), base)
        base.with_suffix(".md").write_text(page)
        print(page)
        return
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "studies.json").write_text(json.dumps(measured(), indent=1))


if __name__ == "__main__":
    main()
