"""The outcome of a search: the best candidate, ready to run, and all that was tried."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from os import PathLike
from typing import Any

from openwork.errors import DataError
from openwork.frozen import frozen
from openwork.tensor.buckets.buckets import BucketKernel, Buckets
from openwork.tensor.kernel.kernel import Kernel
from openwork.tensor.statement import Statement
from openwork.tune.trial import Trial


@frozen
class Best:
    """The best candidate of a search.

    Args:
        kernel: its kernel, over the converted operands.
        statement: the statement with its schedule, over the converted operands.
        formats: the formats of the operands that were converted, by name.
        speedup: the default's time over its time, conversions shared by `uses` calls.
        text: formats and schedule as Python, to be pasted into code.
        trials: all candidates, the default first.
        uses: how many calls the search was for.
        source: where the choice comes from: "measured", or a record.
        bandwidth: of the machine's memory, in bytes per second.
    """

    kernel: Kernel | BucketKernel
    statement: Statement | Buckets
    formats: dict[str, str]
    speedup: float
    text: str
    trials: Sequence[Trial]
    uses: float
    source: str = "measured"
    bandwidth: float = 0.0

    def table(self) -> str:
        """Every candidate: median and quartiles in milliseconds, bytes, and why it was dropped."""
        head = ("ms", "quartiles", "convert ms", "MB", "candidate", "")
        rows = [head]
        for trial in sorted(self.trials, key=lambda t: t.cost(self.uses)):
            low, high = trial.quartiles
            known, candidate = bool(trial.samples), trial.candidate
            rows.append(
                (
                    f"{1e3 * trial.seconds:.4f}" if known else "-",
                    f"{1e3 * low:.4f}-{1e3 * high:.4f}" if known else "-",
                    f"{1e3 * trial.conversion:.1f}" if trial.conversion else "",
                    f"{candidate.bytes / 1e6:.1f}" if candidate.bytes else "",
                    str(candidate),
                    trial.dropped,
                )
            )
        widths = [max(len(row[n]) for row in rows) for n in range(4)]
        lines = []
        for row in rows:
            numbers = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=False))
            lines.append(f"{numbers}  {row[4]}{f'  ({row[5]})' if row[5] else ''}".rstrip())
        return "\n".join(lines)

    @property
    def chosen(self) -> Trial:
        """The trial that won."""
        return next((t for t in self.trials if t.kernel is self.kernel), self.trials[0])

    def roofline(self) -> list[tuple[str, float, float]]:
        """The default and the best as points: operations per byte, and per second.

        Operations and bytes are the cost model's, seconds are measured. Memory allows at most
        `bandwidth` times the operations per byte, more where caches hold what is read again.
        """
        points = []
        for name, trial in (("default", self.trials[0]), ("best", self.chosen)):
            known = trial.estimate or self.trials[0].estimate
            if known is not None and trial.samples:
                points.append(
                    (name, known.operations / known.bytes, known.operations / trial.seconds)
                )
        return points

    def progress(self) -> list[tuple[float, float]]:
        """How the search went: seconds since it began, and the gain that was reached by then.

        The gain is the default's time over that of the best so far, as measured in the end.
        """
        default, points, least = self.trials[0], list[tuple[float, float]](), float("inf")
        for trial in sorted((t for t in self.trials if t.samples), key=lambda t: t.found):
            if trial.cost(self.uses) < least:
                least = trial.cost(self.uses)
                points.append((trial.found, default.cost(self.uses) / least))
        return points

    def plot(self, path: str | PathLike[str]) -> None:
        """Draw the candidates by time, how the search went, and the roofline.

        Raises:
            DataError: E510 if matplotlib is not installed.
        """
        plt = _pyplot()
        measured = sorted((t for t in self.trials if t.samples), key=lambda t: t.seconds)
        times = [1e3 * t.seconds for t in measured]
        spread = [[1e3 * abs(t.seconds - t.quartiles[n]) for t in measured] for n in (0, 1)]
        points = self.roofline()
        high = max(2.6 if points else 0.9, 0.9 + 0.28 * len(measured))
        wide = 3 if points else 2
        figure, (axes, over, *roof) = plt.subplots(
            1, wide, figsize=(4 + 4 * wide, high), width_ratios=(2, 1, 1)[:wide]
        )
        default = self.trials[0]
        colours = ["#c8553d" if t is default else "#3d85c8" for t in measured]
        places = range(len(measured))
        axes.barh(places, times, xerr=spread, color=colours, error_kw={"lw": 0.8})
        axes.set_yticks(places, [_short(str(t.candidate)) for t in measured], fontsize=7)
        axes.invert_yaxis()
        axes.set_xlabel("milliseconds per call (red: the default; bars: quartiles)")
        _draw_progress(over, self.progress(), max(t.found for t in self.trials))
        if points:
            _draw_roofline(roof[0], points, self.bandwidth)
        figure.tight_layout()
        figure.savefig(path, dpi=120)
        plt.close(figure)

    def __repr__(self) -> str:
        chosen = self.text.replace("\n", "; ") or "the default"
        tried = sum(bool(trial.samples) for trial in self.trials)
        return f"<Best: {self.speedup:.2f}x of the default, {tried} tried: {chosen}>"


def _draw_progress(axes: Any, points: Sequence[tuple[float, float]], end: float) -> None:
    """The gain over the default that was reached, over the seconds of the search."""
    seconds, gains = zip(*points, (end, points[-1][1]), strict=True)
    axes.step(seconds, gains, where="post", color="#3d85c8")
    axes.set_xlabel("seconds of the search")
    axes.set_ylabel("best so far, times the default")


def _draw_roofline(axes: Any, points: list[tuple[str, float, float]], bandwidth: float) -> None:
    """The roof of memory bandwidth, and the default and the best under it."""
    least, most = min(p[1] for p in points) / 4, max(p[1] for p in points) * 4
    axes.loglog((least, most), (least * bandwidth, most * bandwidth), color="#888888")
    for (name, dense, fast), colour in zip(points, ("#c8553d", "#3d85c8"), strict=False):
        axes.loglog((dense,), (fast,), "o", color=colour, label=name)
    axes.set_xlabel("operations per byte")
    axes.set_ylabel("operations per second")
    axes.set_title(f"memory: {bandwidth / 1e9:.0f} GB/s", fontsize=8)
    axes.legend(fontsize=7)


def _short(text: str, most: int = 90) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _pyplot() -> Any:
    """matplotlib, without a window."""
    try:
        matplotlib = import_module("matplotlib")
    except ImportError as error:
        raise DataError(
            "plots need matplotlib", code="E510", hint="pip install 'openwork[plot]'"
        ) from error
    matplotlib.use("Agg")
    return import_module("matplotlib.pyplot")
