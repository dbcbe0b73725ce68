"""The page of a run against the peers, as Markdown."""

from __future__ import annotations

import statistics

from against import OURS, QUIET, SETTLE, TRIES, Run
from targets import BEST, FLOOR, below_floor, verdicts

PAGE = """\
# Kernels, inputs, peers, {date}

{environment}
- threads: {threads}, for all multithreaded peers
- bandwidth: {bandwidth}
- quiet: room for two threads {room:.1f} in the median, {worst_room:.1f} at worst
- peers: {peers}
{absent}
Repeat with `make bench-{part}`.

Contestants take turns, in a changing order. Times are medians over turns; a ratio is the median of
the ratios within a turn, and above 1 Openwork is faster. Each contestant warms up for {settle:.0f}
ms before it is timed, so that its data is in cache and no other thread pool spins. A call returns
a new result; conversion to a library's own format is not timed. Every answer was compared with
SciPy's or NumPy's first. Everything is float64 with 32-bit indices; Openwork uses its default
schedules. SDDMM and MTTKRP have 32 columns. SpMM is omitted where X and Y together exceed 400 MB.
"room" says how much of a second core was free: far below 2, others used the machine. A row with
room below {quiet} is measured up to {tries} times, and the try with the most room is kept,
regardless of its times; that happened to {again} of {rows} rows.

"bound" is the memory roofline: the time to read every operand once and write the result once, at
the larger of the two measured bandwidths. A shorter time means that the operands were in cache.

{images}## Targets

{warning}Geometric means over the inputs.

{targets}

{floor}

## Ratios

Geometric means over the inputs: speed-up of Openwork over the peer.

{ratios}

## Times

In milliseconds; the column "of bound" is the bound over Openwork's time.

{times}
"""


BUSY = """\
**The machine was busy: in most rows one of the two cores was not free. Threads that wait for each
other then lose far more than half of their speed, which favours single-threaded peers. Measure
again.**

"""


def page(run: Run, date: str, environment: str, images: str, part: str) -> str:
    """The page of a run; `make bench-{part}` repeats it."""
    absent = "".join(f"- absent: {name}: {why}\n" for name, why in run.absent.items())
    rooms = [row.room for row in run.rows]
    return PAGE.format(
        date=date,
        part=part,
        environment=environment,
        threads=run.threads,
        bandwidth=", ".join(f"{name} {b / 1e9:.1f} GB/s" for name, b in run.bandwidth.items()),
        room=statistics.median(rooms),
        worst_room=min(rooms),
        peers=", ".join(_described(run)),
        absent=absent,
        settle=1e3 * SETTLE,
        quiet=QUIET,
        tries=TRIES,
        again=sum(row.tries > 1 for row in run.rows),
        rows=len(run.rows),
        images=images,
        warning=BUSY if statistics.median(rooms) < QUIET else "",
        targets=_targets(run),
        floor=_floor(run),
        ratios=_ratios(run),
        times=_times(run),
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def milliseconds(seconds: float) -> str:
    """Milliseconds with three significant digits."""
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"


def _described(run: Run) -> list[str]:
    for_each = []
    for peer in run.peers:
        note = f" ({peer.note})" if peer.note else ""
        for_each.append(f"{peer.name} {peer.version}".rstrip() + note)
    return for_each


def _targets(run: Run) -> str:
    rows = []
    for verdict in verdicts(run):
        if verdict.mean is None or verdict.worst is None:
            why = "absent" if verdict.rival in run.absent else "not measured"
            rows.append([verdict.kernel, verdict.rival, f"{verdict.least:g}", why, "", ""])
            continue
        worst = f"{verdict.worst_ratio:.2f} on {verdict.worst.data}"
        met = "yes" if verdict.met else "**no**"
        mean = f"{verdict.mean:.2f}"
        rows.append([verdict.kernel, verdict.rival, f"{verdict.least:g}", mean, met, worst])
    return table(["kernel", "peer", "at least", "measured", "met", "lowest"], rows)


def _floor(run: Run) -> str:
    low = below_floor(run)
    if not low:
        return f"No kernel is below {FLOOR} of {BEST} on any input."
    rows = [
        [row.kernel, row.data, row.best, f"{ratio:.2f}", f"{row.room:.1f}"] for row, ratio in low
    ]
    head = ["kernel", "input", "best peer", "ratio", "room"]
    return f"Below {FLOOR} of {BEST}, on {len(low)} of {len(run.rows)} rows:\n\n{table(head, rows)}"


def _ratios(run: Run) -> str:
    names = [peer.name for peer in run.peers if peer.name != OURS]
    rows = []
    for kernel in run.kernels():
        means = [run.mean(kernel, name) for name in names]
        rows.append([kernel, *("" if mean is None else f"{mean:.2f}" for mean in means)])
    return table(["kernel", *names], rows)


def _times(run: Run) -> str:
    names = [peer.name for peer in run.peers]
    rows = []
    for row in run.rows:
        seconds = {name: row.turns.median(name) for name in row.turns.seconds}
        share = f"{100 * row.bound / seconds[OURS]:.0f}%"
        cells = [milliseconds(seconds[name]) if name in seconds else "" for name in names]
        bound = milliseconds(row.bound)
        rows.append([row.kernel, row.data, f"{row.nnz}", bound, share, *cells, f"{row.room:.1f}"])
    return table(["kernel", "input", "entries", "bound", "of bound", *names, "room"], rows)
