"""A page and pictures of what `skeletons.py` measured: figures 5 to 8 of the paper.

python bench/skeletons_page.py FOLDER OUT-STEM     reads skeletons-gpu.json and -cpu.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import plot

Rows = dict[str, dict[str, Any]]


def is_shape(name: str) -> bool:
    """Whether a kernel is one of figure 8: rows x lanes."""
    return name[0].isdigit()


def geometric(values: list[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


def ratios(rows: Rows, over: str, under: str) -> list[float]:
    """The time of `over` in units of that of `under`, per matrix."""
    return [row["seconds"][over] / row["seconds"][under] for row in rows.values()]


def best_shape(rows: Rows) -> str:
    """The shape with the least time on average over all matrices."""
    shapes = [name for name in next(iter(rows.values()))["seconds"] if is_shape(name)]
    return min(shapes, key=lambda s: geometric([row["seconds"][s] for row in rows.values()]))


def table(rows: Rows, gpu: bool) -> list[str]:
    """Microseconds, one line per matrix."""
    names = ["closed", "prefix", "loop", "packed", "lil", "index notation", "library"]
    names += ["same schedule", best_shape(rows)] if gpu else []
    heads = [*names, *(["best shape"] if gpu else [])]
    lines = [f"| matrix | rows | entries | {' | '.join(heads)} |", "|---" * (3 + len(heads)) + "|"]
    for name, row in rows.items():
        seconds = row["seconds"]
        cells = [f"{1e6 * seconds[k]:.1f}" for k in names]
        if gpu:
            shape = min((k for k in seconds if is_shape(k)), key=seconds.__getitem__)
            cells.append(f"{shape}: {1e6 * seconds[shape]:.1f}")
        lines.append(f"| {name} | {row['rows']} | {row['entries']} | {' | '.join(cells)} |")
    return lines


def summary(rows: Rows, gpu: bool) -> list[str]:
    """What the figures say, as geometric means."""
    said = [
        f"- figure 5: closed forms are {geometric(ratios(rows, 'loop', 'closed')):.0f} times as "
        f"fast as loops, and {geometric(ratios(rows, 'prefix', 'closed')):.2f} times as fast as "
        "prefix sums",
        f"- figure 6: pairs are {geometric(ratios(rows, 'closed', 'packed')):.2f} times as fast as "
        "two arrays",
        f"- figure 7: CSR is {geometric(ratios(rows, 'lil', 'closed')):.2f} times as fast as lists",
    ]
    if gpu:
        single = best_shape(rows)
        best = [
            row["seconds"]["library"] / min(v for k, v in row["seconds"].items() if is_shape(k))
            for row in rows.values()
        ]
        said += [
            f"- figure 8: against cuSPARSE (called through CuPy), {geometric(best):.2f} times as "
            f"fast with the best shape of each matrix, and "
            f"{geometric(ratios(rows, 'library', single)):.2f} times with {single} for all",
            "- against index notation with the same schedule: "
            f"{geometric(ratios(rows, 'same schedule', 'closed')):.2f} times as fast; with the "
            f"schedule that it chooses by the data: "
            f"{geometric(ratios(rows, 'index notation', 'closed')):.2f}",
        ]
    else:
        known = geometric(ratios(rows, "index notation", "closed"))
        said.append(f"- against index notation, whose loop is the same: {known:.2f} times as fast")
    return said


def pictures(rows: Rows, stem: Path) -> None:
    """Figures 5 to 8."""
    pyplot = plot.pyplot()
    figure, axes = pyplot.subplots(2, 2, figsize=(14, 10))
    places = np.arange(len(rows))
    drawn = (("loop", "closed", "5: closed forms against loops"),
             ("closed", "packed", "6: pairs against two arrays"),
             ("lil", "closed", "7: CSR against lists of lists"))  # fmt: skip
    for axis, (over, under, title) in zip(axes.flat, drawn, strict=False):
        axis.bar(places, ratios(rows, over, under))
        axis.set_title(f"figure {title}: speed-up")
        axis.axhline(1, color="gray", lw=0.8)
        if over == "loop":
            axis.set_yscale("log")
    axis = axes.flat[3]
    single = best_shape(rows)
    for k, (label, times) in enumerate((
        ("best shape", [min(v for n, v in row["seconds"].items() if is_shape(n))
                        for row in rows.values()]),
        (single, [row["seconds"][single] for row in rows.values()]),
        ("cuSPARSE", [row["seconds"]["library"] for row in rows.values()]),
    )):  # fmt: skip
        entries = [row["entries"] for row in rows.values()]
        axis.bar(places + 0.27 * k, np.divide(entries, times) / 1e9, 0.27, label=label)
    axis.set_title("figure 8: billions of entries per second")
    axis.legend()
    for axis in axes.flat:
        axis.set_xticks(places, list(rows), rotation=60, ha="right", fontsize=7)
    figure.tight_layout()
    figure.savefig(f"{stem}.png", dpi=plot.DPI)


def main() -> None:
    """Write the page, and the pictures if they can be drawn."""
    folder, stem = Path(sys.argv[1]), Path(sys.argv[2])
    lines = ["# Programs of patterns", "", "Microseconds, float32, medians of 100.", ""]
    for target, told in (("gpu", "H200"), ("cpu", "CPU of the same machine, 16 cores")):
        found = json.loads((folder / f"skeletons-{target}.json").read_text())
        rows: Rows = found["matrices"]
        gpu = target == "gpu"
        library = "`library` is cuSPARSE through CuPy." if gpu else "`library` is SciPy."
        lines += [f"## {told}", "", library, "", *table(rows, gpu), "", *summary(rows, gpu), ""]
        if gpu and plot.available() is None:
            pictures(rows, stem)
            lines += [f"![figures 5 to 8]({stem.name}.png)", ""]
        texts = ", ".join(f"{k} {v:.2f} s" for k, v in found["compile"].items())
        lines += [f"From text to a loaded C kernel without a cache: {texts}.", ""]
    Path(f"{stem}.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
