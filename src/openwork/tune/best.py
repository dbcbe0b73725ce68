"""The outcome of a search: the best candidate, ready to run, and all that was tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from typing import Any

from openwork.errors import DataError
from openwork.tensor.kernel.kernel import Kernel
from openwork.tensor.statement import Statement
from openwork.tune.trial import Trial


@dataclass(frozen=True)
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
    """

    kernel: Kernel
    statement: Statement
    formats: dict[str, str]
    speedup: float
    text: str
    trials: Sequence[Trial]
    uses: float
    source: str = "measured"

    def table(self) -> str:
        """Every candidate: median and quartiles in milliseconds, bytes, and why it was dropped."""
        head = ("ms", "quartiles", "convert ms", "MB", "candidate", "")
        rows = [head]
        for trial in sorted(self.trials, key=lambda t: t.cost(self.uses)):
            low, high = trial.quartiles
            known = bool(trial.samples)
            rows.append(
                (
                    f"{1e3 * trial.seconds:.4f}" if known else "-",
                    f"{1e3 * low:.4f}-{1e3 * high:.4f}" if known else "-",
                    f"{1e3 * trial.conversion:.1f}" if trial.conversion else "",
                    f"{trial.bytes / 1e6:.1f}" if trial.bytes else "",
                    str(trial.candidate),
                    trial.dropped,
                )
            )
        widths = [max(len(row[n]) for row in rows) for n in range(4)]
        lines = []
        for row in rows:
            numbers = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=False))
            lines.append(f"{numbers}  {row[4]}{f'  ({row[5]})' if row[5] else ''}".rstrip())
        return "\n".join(lines)

    def plot(self, path: str | PathLike[str]) -> None:
        """Draw the candidates by time, fastest first, with the default marked.

        Raises:
            DataError: E510 if matplotlib is not installed.
        """
        plt = _pyplot()
        measured = sorted((t for t in self.trials if t.samples), key=lambda t: t.seconds)
        times = [1e3 * t.seconds for t in measured]
        spread = [[1e3 * abs(t.seconds - t.quartiles[n]) for t in measured] for n in (0, 1)]
        figure, axes = plt.subplots(figsize=(8, 0.9 + 0.28 * len(measured)))
        default = self.trials[0]
        colours = ["#c8553d" if t is default else "#3d85c8" for t in measured]
        places = range(len(measured))
        axes.barh(places, times, xerr=spread, color=colours, error_kw={"lw": 0.8})
        axes.set_yticks(places, [_short(str(t.candidate)) for t in measured], fontsize=7)
        axes.invert_yaxis()
        axes.set_xlabel("milliseconds per call (red: the default; bars: quartiles)")
        figure.tight_layout()
        figure.savefig(path, dpi=120)
        plt.close(figure)

    def __repr__(self) -> str:
        chosen = self.text.replace("\n", "; ") or "the default"
        return f"<Best: {self.speedup:.2f}x of the default, {len(self.trials)} tried: {chosen}>"


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
