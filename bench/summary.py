"""The figure and the table of README: measured ratios, read from the pages in bench/results.

`python bench/summary.py` draws docs/speedup.svg and prints the table. It measures nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plot import pyplot

REPO = Path(__file__).resolve().parent.parent
RESULTS = REPO / "bench" / "results"
PICTURE = REPO / "docs" / "speedup.svg"

PEERS = "schedules-2026-11-17-avx512.md"  # SpMV, SpMM, SDDMM, MTTKRP against CPU libraries
SPARSE = "formats-2026-11-17-avx512.md"  # sparse results against SciPy and MKL
GPU = "gpu-defaults-2026-11-18.md"  # products on a GPU
ASSEMBLED = "gpu-2026-11-18.md"  # sparse results on a GPU
HELD_OUT = "## Matrices that no choice was fitted to"  # what the GPU columns are taken from

# A grey that is legible on white and on black.
TEXT, BARS = "#7d7d7d", ("#c8553d", "#3d85c8", "#5a9a3c", "#8fbf6f")
COLUMNS = (
    "SciPy, one thread",
    "MKL",
    "cuSPARSE through CuPy or torch",
    "cuSPARSE, best algorithm",
)


@dataclass(frozen=True)
class Line:
    """A kernel and its speed-up over each library; None where the library has no such kernel."""

    kernel: str
    ratios: tuple[float | None, ...]


def rows(page: str, after: str, key: str) -> list[list[str]]:
    """The cells of all rows that begin with `key`, below the line that begins with `after`."""
    text = (RESULTS / page).read_text(encoding="utf-8")
    text = text[text.index("\n" + after) :]
    found = re.findall(rf"^\| {re.escape(key)} \|.*\|$", text, re.M)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found]


def summary() -> list[Line]:
    """Geometric means over the inputs of each page, float64."""
    lines = []
    for kernel, peers, gpu in (
        ("SpMV", "SpMV", "spmv"),
        ("SpMM, 4 columns", "SpMM 4", "spmm4"),
        ("SpMM, 32 columns", "SpMM 32", "spmm32"),
        ("SpMM, 128 columns", "SpMM 128", "spmm128"),
    ):
        _, _, scipy, _, _, mkl, *_ = rows(PEERS, "## Ratios", peers)[0]
        lines.append(Line(kernel, (float(scipy), float(mkl), *_on_gpu(gpu))))
    gathered = float(rows(PEERS, "## Ratios", "SDDMM")[0][3])
    lines.append(Line("SDDMM, 32 columns", (gathered, None, *_on_gpu("sddmm32"))))
    scipy = float(rows(PEERS, "## Ratios", "MTTKRP 3")[0][2])
    lines.append(Line("MTTKRP, 3 modes", (scipy, None, None, None)))
    for kernel, name, gpu in (("A @ A, sparse", "**A*A**", "spgemm"), ("A + B", "**A+B**", "add")):
        *_, scipy, _, mkl = rows(SPARSE, "## Sparse results", name)[0]
        lines.append(Line(kernel, (float(scipy), float(mkl), _assembled(gpu), None)))
    return lines


def _on_gpu(kernel: str) -> tuple[float, float | None]:
    """Against cuSPARSE through CuPy and torch, and against its best algorithm, preprocessed."""
    cells = next(r for r in rows(GPU, HELD_OUT, kernel) if r[1] == "float64")
    return float(cells[2]), float(cells[6]) if cells[6] else None


def _assembled(kernel: str) -> float:
    """The geometric mean over the matrices of the section on sparse results."""
    text = (RESULTS / ASSEMBLED).read_text(encoding="utf-8")
    section = text[text.index("## Sparse results") : text.index("## Conversions")]
    found = re.findall(rf"^\| \S+ \| {kernel} \| float64 \|.*\| ([\d.]+) \|$", section, re.M)
    return math.exp(sum(math.log(float(ratio)) for ratio in found) / len(found))


def table(lines: list[Line]) -> str:
    head = ["| speed-up over | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    cells = [
        " | ".join("" if r is None else f"{r:.2f}" if r < 10 else f"{r:.0f}" for r in line.ratios)
        for line in lines
    ]
    return "\n".join(
        [*head, *(f"| {line.kernel} | {c} |" for line, c in zip(lines, cells, strict=True))]
    )


def draw(lines: list[Line], path: Path) -> None:
    """Bars from a line at 1.0, on a logarithmic axis, a panel for each machine."""
    plt = pyplot()
    plt.rcParams.update(
        {"svg.fonttype": "none", "svg.hashsalt": "openwork", "font.family": "sans-serif"}
    )
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.3), sharey=True, layout="constrained")
    places = range(len(lines))
    titles = "2 CPU cores, AVX-512", "NVIDIA H200"
    for axis, columns, title in zip(axes, ((0, 1), (2, 3)), titles, strict=True):
        for n, column in enumerate(columns):
            for at, line in zip(places, lines, strict=True):
                ratio = line.ratios[column]
                if ratio is None:
                    continue
                y = at + (n - 0.5) * 0.36
                axis.barh(y, ratio - 1, 0.34, left=1, color=BARS[column])
                axis.annotate(
                    _short(ratio),
                    (max(ratio, 1), y),
                    (3, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=7.5,
                    color=TEXT,
                )
        _dress(plt, axis, [COLUMNS[c] for c in columns], [BARS[c] for c in columns], title)
    axes[0].set_yticks(places, [line.kernel for line in lines])
    axes[0].invert_yaxis()
    figure.supxlabel("times as fast as the library (1.0: equal)", color=TEXT, fontsize=9)
    figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": None})
    plt.close(figure)


def _short(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 1 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"


def _dress(plt: Any, axis: Any, names: Sequence[str], colours: Sequence[str], title: str) -> None:
    """The line at 1.0, ticks, and a legend; no frame."""
    axis.set_axisbelow(True)
    axis.axvline(1, color=TEXT, lw=1.2)
    axis.set(xscale="log", xlim=(0.8, 45))
    axis.set_xticks([1, 2, 5, 10, 20], ["1.0", "2", "5", "10", "20"])
    axis.minorticks_off()
    axis.set_title(title, color=TEXT, fontsize=10)
    axis.tick_params(colors=TEXT, labelsize=8.5, length=0)
    axis.grid(axis="x", color=TEXT, alpha=0.25)
    for side in axis.spines.values():
        side.set_visible(False)
    handles = [
        plt.Rectangle((0, 0), 1, 1, color=c, label=n) for n, c in zip(names, colours, strict=True)
    ]
    axis.legend(handles=handles, loc="lower right", frameon=False, fontsize=8, labelcolor=TEXT)


if __name__ == "__main__":
    found = summary()
    draw(found, PICTURE)
    print(table(found))
