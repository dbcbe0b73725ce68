"""`make bench`: every benchmark in one run, as Markdown, printed and kept in bench/results."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

import core
import costs
from measure import environment

RESULTS = Path(__file__).resolve().parent / "results"

PAGE = """\
# Core, {date}

{environment}
- quiet: {quiet}

Repeat with `make bench`, or `.venv/bin/python bench/run.py`.

All times are medians over turns in which every contestant runs once; a ratio is the median of the
ratios within a turn, and above 1 Openwork is the faster. "C by hand" is `bench/hand.c` on one
thread; "generated" beside it is the kernel's C function on one thread, compiled with the same flags
and called in the same way. The columns after it are whole calls that return a new result, as SciPy
does. Dense operands have {width} columns. SciPy has no SDDMM and no MTTKRP; in its column is what
one would write with NumPy and SciPy. Everything is float64 with 32-bit indices.

"room" says how much of a second core was free: how many times the counting of one thread two did,
just before and after the row. Where it is far below 2, others used the machine, and the columns for
2 threads say nothing about Openwork.

{kernels}

{costs}
"""


def main() -> None:
    """Measure, print, and keep the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small inputs; nothing is kept")
    quick = parser.parse_args().quick
    date = datetime.date.today().isoformat()
    facts = environment()
    kernels, quiet = core.table(quick)
    page = PAGE.format(
        date=date,
        environment=facts,
        quiet=quiet,
        width=core.WIDTH,
        kernels=kernels,
        costs=costs.table(quick),
    )
    print(page)
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"core-{date}.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
