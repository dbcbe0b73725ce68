"""Studies of schedules: locality (8.6 of the thesis), load balance (8.4), and time to schedule."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import appendix
import numpy as np
import plot
from matrices import skewed, uniform
from measure import Turns, interleave
from report import milliseconds, table

import openwork as ow

NEEDS = "skipped: `ow.Statement` has no method `schedule` yet"
TILES = (4, 8, 16, 32)
FACTORS = (1.0, 1.001, 1.003, 1.01, 1.03, 1.1, 1.3)
LONGEST = 0.050

Contestants = dict[str, Callable[[], Any]]


def can_schedule() -> bool:
    """Whether statements can be scheduled at all."""
    return hasattr(ow.Statement, "schedule")


def compiled(
    statement: ow.Statement, schedules: Mapping[str, str], expected: Any
) -> tuple[Contestants, list[str]]:
    """A checked kernel per schedule ("" is the default), and a line for each that failed."""
    contestants: Contestants = {}
    refused = []
    for name, text in schedules.items():
        try:
            chosen = statement.schedule(text) if text else statement
            kernel = chosen.compile()
            found = kernel().to_numpy()
        except ow.OpenworkError as error:
            refused.append(f"- {name}, `{text}`: {_problem(error)}")
            print(refused[-1], file=sys.stderr, flush=True)
            continue
        np.testing.assert_allclose(found, expected, 1e-9, 1e-12, err_msg=text)
        contestants[name] = kernel
    return contestants, refused


def _with_refusals(text: str, refused: list[str]) -> str:
    return "\n\n".join([text, *(["\n".join(refused)] if refused else [])])


def _problem(error: ow.OpenworkError) -> str:
    """One line: why a schedule is refused, or that Openwork itself failed."""
    kind = "**internal fault**" if isinstance(error, ow.InternalError) else "refused"
    return f"{kind}: {str(error).splitlines()[0]}"


# -- locality -----------------------------------------------------------------------------------

LOCALITY = """\
## Locality: SpMM tiled and untiled (section 8.6)

{facts}. One thread, as in the thesis, which reports 2.1 for 100,000 rows of 1000 entries and does
not name its tile. Untiled is A.13, `{untiled}`; tiled is A.12, `{tiled}`; the default is what
`compile` does without a schedule.

{table}
"""


def locality(quick: bool) -> str:
    """Tiled over untiled SpMM, schedules A.12 and A.13."""
    rows, per_row, width = (10_000, 30, 32) if quick else (100_000, 100, 32)
    a = uniform(rows, per_row)
    b = np.random.default_rng(7).random((rows, width))
    tensors: dict[str, Any] = {"A": ow.tensor(a), "B": ow.tensor(b), "C": ow.empty((rows, width))}
    statement = ow.parse(appendix.SPMM, **tensors)
    schedules = {"untiled": appendix.UNTILED_SPMM, "default": ""}
    schedules |= {f"tiled, {tile}": appendix.tiled_spmm(tile) for tile in TILES}
    ow.set_num_threads(1)
    contestants, refused = compiled(statement, schedules, a @ b)
    turns = interleave(contestants, 1.0 if quick else 20.0)
    return LOCALITY.format(
        facts=f"{rows} x {rows} with {per_row} entries a row, times {rows} x {width}",
        untiled=appendix.UNTILED_SPMM,
        tiled=appendix.tiled_spmm(8),
        table=_with_refusals(_against(turns, "untiled"), refused),
    )


def _against(turns: Turns, base: str) -> str:
    """Times, and speed-ups over one of the contestants."""
    rows = []
    for name in turns.seconds:
        speed = f"{turns.speed(name, base):.2f}" if base in turns.seconds else ""
        rows.append([name, milliseconds(turns.median(name)), speed])
    return table(["schedule", "ms", f"times as fast as {base}"], rows)


# -- load balance -------------------------------------------------------------------------------

BALANCE = """\
## Load balance: SpMV as skew grows (section 8.4)

{facts}; row i has k c^i entries, k such that their number stays, and the rows are shuffled
(figure 8-7). {threads} threads. Milliseconds:

{schedules}

{image}{table}
"""


def balance_schedules(threads: int) -> dict[str, str]:
    """Schedules that distribute rows or entries over threads."""
    parallel = "parallelize(i0,CPUThread,NoRaces)"
    return {
        "equal rows": f"divide(i,i0,i1,{threads}), {parallel}",
        "row split": f"split(i,i0,i1,32), order(i0,i1,j), {parallel}",
        "nnz-balanced": f"divide(i,i0,i1,{threads},balance=nnz), {parallel}",
        "position split": "fuse(i,j,f), pos(f,p,A), split(p,p0,p1,4096), "
        "parallelize(p0,CPUThread,Atomics)",
        "default": "",
    }


def balance(threads: int, quick: bool, picture: Path | None) -> str:
    """SpMV under these schedules as skew grows."""
    shape, entries = ((2_000, 100_000), 200_000) if quick else ((20_000, 1_000_000), 4_000_000)
    x = np.random.default_rng(8).random(shape[1])
    schedules = balance_schedules(threads)
    ow.set_num_threads(threads)
    lines: dict[str, list[float]] = {name: [] for name in schedules}
    refusals: dict[str, None] = {}
    for factor in FACTORS:
        a = skewed(*shape, entries, factor)
        y = ow.empty(shape[:1])
        statement = ow.parse(appendix.SPMV, A=ow.tensor(a), x=ow.tensor(x), y=y)
        contestants, refused = compiled(statement, schedules, a @ x)
        refusals |= dict.fromkeys(refused)
        turns = interleave(contestants, 0.2 if quick else 3.0)
        for name, times in lines.items():
            times.append(turns.median(name) if name in contestants else float("nan"))
        print(f"load balance: c = {factor:g}", file=sys.stderr, flush=True)
    if picture is not None:
        shown = {name: [1e3 * t for t in times] for name, times in lines.items()}
        plot.lines(FACTORS, shown, picture, across="skew c", up=f"ms, {threads} threads")
    rows = [[name, *map(_or_blank, times)] for name, times in lines.items()]
    return BALANCE.format(
        facts=f"{shape[0]} x {shape[1]} with {entries} entries",
        threads=threads,
        schedules="\n".join(f"- {name}: `{text or 'none'}`" for name, text in schedules.items()),
        image=f"![SpMV as skew grows]({picture.name})\n\n" if picture is not None else "",
        table=_with_refusals(table(["c", *(f"{c:g}" for c in FACTORS)], rows), list(refusals)),
    )


def _or_blank(seconds: float) -> str:
    return "" if np.isnan(seconds) else milliseconds(seconds)


# -- time to schedule ---------------------------------------------------------------------------

SCHEDULING = """\
## Time to schedule and lower

From the statement to the text of the kernel, without the C compiler: `schedule`, lowering,
simplification, rendering; the median of {repeats}. At most {longest:.0f} ms for the largest.

{table}
"""


def scheduling(quick: bool) -> str:
    """The compile time, without the C compiler, of the schedules of the appendix."""
    repeats = 5 if quick else 25
    rows = []
    for case in (*appendix.CPU, *appendix.CUDA):
        seconds = []
        try:
            for _ in range(repeats):
                statement = case.unscheduled()
                start = time.perf_counter()
                scheduled = statement.schedule(case.schedule)
                scheduled.compile(case.target, loader=lambda kernel: None)
                seconds.append(time.perf_counter() - start)
        except ow.OpenworkError as error:
            rows.append([case.name, case.what, case.target, _problem(error), ""])
            continue
        middle = statistics.median(seconds)
        met = "yes" if middle < LONGEST else "**no**"
        rows.append([case.name, case.what, case.target, milliseconds(middle), met])
    head = ["appendix", "kernel", "target", "ms", f"under {1e3 * LONGEST:.0f} ms"]
    return SCHEDULING.format(repeats=repeats, longest=1e3 * LONGEST, table=table(head, rows))


def sections(threads: int, quick: bool, picture: Path | None) -> str:
    """All studies, as Markdown."""
    if not can_schedule():
        print(f"studies {NEEDS}", file=sys.stderr, flush=True)
        return f"All studies were {NEEDS}.\n"
    parts = [locality(quick), balance(threads, quick, picture), scheduling(quick)]
    ow.set_num_threads(None)
    return "\n".join(parts)
