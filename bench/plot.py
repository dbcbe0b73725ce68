"""Plots: time against entries, bars of speed-ups, and the lines of a study.

Matplotlib is optional; without it the pages have tables only.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from against import OURS, Run

DPI = 80


def available() -> str | None:
    """None if Matplotlib is installed, else a hint."""
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        return "no pictures: matplotlib is not installed; `pip install matplotlib`"
    return None


def pyplot() -> Any:
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    return importlib.import_module("matplotlib.pyplot")


def _colours(run: Run) -> dict[str, Any]:
    """A colour per peer, the same in every plot; Openwork is black."""
    others = [peer.name for peer in run.peers if peer.name != OURS]
    return {OURS: "black", **{name: f"C{n}" for n, name in enumerate(others)}}


def times(run: Run, path: Path) -> None:
    """A panel per kernel: time against the number of entries, both logarithmic."""
    plt, kernels, colours = pyplot(), run.kernels(), _colours(run)
    columns = min(4, len(kernels))
    lines = math.ceil(len(kernels) / columns)
    figure, axes = plt.subplots(lines, columns, figsize=(3.6 * columns, 3.2 * lines), squeeze=False)
    for axis in axes.flat[len(kernels) :]:
        axis.set_visible(False)
    for kernel, axis in zip(kernels, axes.flat, strict=False):
        rows = sorted(run.of(kernel), key=lambda row: row.nnz)
        axis.plot([r.nnz for r in rows], [1e3 * r.bound for r in rows], "_", color="grey")
        for name, colour in reversed(colours.items()):
            dots = [(r.nnz, 1e3 * r.turns.median(name)) for r in rows if name in r.turns.seconds]
            if dots:
                axis.plot(*zip(*dots, strict=True), "o", color=colour, markersize=3.5)
        axis.set(title=kernel, xscale="log", yscale="log")
        axis.grid(alpha=0.3)
    figure.supxlabel("stored entries")
    figure.supylabel(f"milliseconds, {run.threads} threads")
    handles = [
        plt.Line2D([], [], color=c, marker="o", ls="none", label=n) for n, c in colours.items()
    ]
    handles.append(plt.Line2D([], [], color="grey", marker="_", ls="none", label="bound by memory"))
    _save(plt, figure, path, handles)


def ratios(run: Run, path: Path) -> None:
    """A bar per kernel and peer: the geometric mean of Openwork's speed-up."""
    plt, kernels, colours = pyplot(), run.kernels(), _colours(run)
    rivals = [name for name in colours if name != OURS]
    figure, axis = plt.subplots(figsize=(1.3 * len(kernels) + 2, 4))
    for at, kernel in enumerate(kernels):
        means = {name: run.mean(kernel, name) for name in rivals}
        bars = [(name, mean) for name, mean in means.items() if mean is not None]
        width = 0.8 / max(len(bars), 1)
        for n, (name, mean) in enumerate(bars):
            place = at + (n - (len(bars) - 1) / 2) * width
            axis.bar(place, mean - 1, width, bottom=1, color=colours[name])
            text = f"{mean:.2g}" if mean < 10 else f"{mean:.0f}"
            side = "bottom" if mean >= 1 else "top"
            axis.text(place, mean, text, ha="center", va=side, fontsize=7)
    axis.axhline(1, color="black", lw=1)
    axis.set(yscale="log", ylabel="times as fast as the peer")
    axis.set_xticks(range(len(kernels)), kernels)
    axis.grid(axis="y", alpha=0.3)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colours[name], label=name) for name in rivals]
    _save(plt, figure, path, handles)


def lines(
    x: Sequence[float], series: Mapping[str, Sequence[float]], path: Path, *, across: str, up: str
) -> None:
    """Lines over `x`, evenly spaced."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6, 3.8))
    handles = [
        axis.plot(range(len(x)), values, marker="o", label=name)[0]
        for name, values in series.items()
    ]
    axis.set_xticks(range(len(x)), [f"{number:g}" for number in x])
    axis.set(xlabel=across, ylabel=up, ylim=(0, None))
    axis.grid(alpha=0.3)
    _save(plt, figure, path, handles)


def _save(plt: Any, figure: Any, path: Path, handles: list[Any]) -> None:
    columns = min(int(figure.get_figwidth() / 2), len(handles))
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, frameon=False)
    figure.set_layout_engine("constrained")
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    plt.close(figure)
