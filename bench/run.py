"""`make bench`: every benchmark in one run, as Markdown and plots in bench/results."""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import against
import core
import costs
import plot
import report
import studies
from hand import room_for_two
from measure import environment

RESULTS = Path(__file__).resolve().parent / "results"
PARTS = ("core", "peers", "sparse", "studies")

CORE = """\
# Core, {date}

{environment}
- quiet: {quiet}

Repeat with `make bench-core`.

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

STUDIES = """\
# Studies of schedules, {date}

{environment}
- quiet: room for two threads {before:.1f} before, {after:.1f} after

Repeat with `make bench-studies`. Kernels are measured in turns, as on the other pages, and their
answers are compared with SciPy's first.

{sections}"""


@dataclass(frozen=True)
class Setting:
    """The options of a run."""

    date: str
    folder: Path
    threads: int
    quick: bool
    only: str

    def picture(self, page: str, name: str) -> Path | None:
        """The path of a plot; None without Matplotlib."""
        missing = plot.available()
        if missing is not None:
            print(missing, file=sys.stderr)
            return None
        return self.folder / f"{page}-{name}.png"

    def keep(self, name: str, page: str) -> None:
        """Print a page and write it to a file."""
        print(page)
        (self.folder / f"{name}.md").write_text(page, encoding="utf-8")


def run_core(setting: Setting) -> None:
    """The core kernels, and the overheads."""
    facts = environment()
    kernels, quiet = core.table(setting.quick)
    page = CORE.format(
        date=setting.date,
        environment=facts,
        quiet=quiet,
        width=core.WIDTH,
        kernels=kernels,
        costs=costs.table(setting.quick),
    )
    setting.keep(f"core-{setting.date}", page)


def run_peers(setting: Setting, new_pattern: bool = False) -> None:
    """Kernels x inputs x peers, for results with or without a new sparse pattern."""
    facts = environment()
    run = against.run(setting.threads, setting.quick, setting.only, new_pattern)
    part = "sparse" if new_pattern else "peers"
    page_name = f"{'sparse' if new_pattern else 'schedules'}-{setting.date}"
    images = ""
    for name, draw, says in (
        ("times", plot.times, "Time against entries"),
        ("ratios", plot.ratios, "Ratios to the peers"),
    ):
        path = setting.picture(page_name, name)
        if path is not None:
            draw(run, path)
            images += f"![{says}]({path.name})\n\n"
    page = report.page(run, setting.date, facts, images, part)
    setting.keep(page_name, page)


def run_studies(setting: Setting) -> None:
    """Locality, load balance, time to schedule."""
    facts, before = environment(), room_for_two()
    name = f"schedules-{setting.date}"
    sections = studies.sections(setting.threads, setting.quick, setting.picture(name, "balance"))
    page = STUDIES.format(
        date=setting.date,
        environment=facts,
        before=before,
        after=room_for_two(),
        sections=sections,
    )
    setting.keep(f"{name}-studies", page)


def main() -> None:
    """Measure the requested parts, print their pages, and save them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; or all")
    parser.add_argument("--quick", action="store_true", help="small inputs; nothing is kept")
    parser.add_argument("--threads", type=int, default=2, help="for us and for the peers")
    parser.add_argument("--only", default="", help="part of a row's name, such as 'SpMV on wave'")
    parser.add_argument("--into", type=Path, help="where to keep pages and pictures")
    given = parser.parse_args()
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}")
    date = datetime.date.today().isoformat()
    with tempfile.TemporaryDirectory() as nowhere:
        whole = not given.quick and not given.only
        folder = given.into or (RESULTS if whole else Path(nowhere))
        folder.mkdir(parents=True, exist_ok=True)
        setting = Setting(date, folder, given.threads, given.quick, given.only)
        run_part = {
            "core": run_core,
            "peers": run_peers,
            "sparse": partial(run_peers, new_pattern=True),
            "studies": run_studies,
        }
        for part in PARTS:
            if not given.parts or part in given.parts:
                run_part[part](setting)


if __name__ == "__main__":
    main()
