"""A page and pictures of what `skeletons.py` measured: figures 5 to 8 of the paper.

python bench/skeletons_page.py FOLDER OUT-STEM [GPU CPU]     what was measured on these machines
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


def _direct(rows: Rows) -> list[str]:
    """cuSPARSE called directly, where it was measured."""
    return ["direct"] if all("direct" in row["seconds"] for row in rows.values()) else []


def table(rows: Rows, gpu: bool) -> list[str]:
    """Microseconds, one line per matrix."""
    names = ["default"] if gpu else []
    names += ["closed", "prefix", "loop", "packed", "lil", "index notation", "library"]
    names += [*_direct(rows), "same schedule", best_shape(rows)] if gpu else []
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
        for name in ("library", *_direct(rows)):
            best = [
                row["seconds"][name] / min(v for k, v in row["seconds"].items() if is_shape(k))
                for row in rows.values()
            ]
            how = "called directly" if name == "direct" else "called through CuPy"
            said.append(
                f"- figure 8: against cuSPARSE ({how}), {geometric(best):.2f} times as fast with "
                f"the best shape of each matrix, {geometric(ratios(rows, name, single)):.2f} times "
                f"with {single} for all, and {geometric(ratios(rows, name, 'default')):.2f} times "
                "without units"
            )
        said += [
            "- against index notation with the same schedule: "
            f"{geometric(ratios(rows, 'same schedule', 'closed')):.2f} times as fast; a program "
            "without units, which gets the schedule that index notation chooses by the data: "
            f"{geometric(ratios(rows, 'index notation', 'default')):.2f}",
        ]
    else:
        known = geometric(ratios(rows, "index notation", "closed"))
        said.append(f"- against index notation, whose loop is the same: {known:.2f} times as fast")
    return said


def pictures(rows: Rows, file: str, gpu: bool) -> None:
    """Figures 5 to 8; 8 compares shapes of a GPU."""
    pyplot = plot.pyplot()
    figure, grid = pyplot.subplots(2, 2, figsize=(14, 10))
    axes = list(grid.flat)
    places = np.arange(len(rows))
    drawn = (("loop", "closed", "5: closed forms against loops"),
             ("closed", "packed", "6: pairs against two arrays"),
             ("lil", "closed", "7: CSR against lists of lists"))  # fmt: skip
    for axis, (over, under, title) in zip(axes, drawn, strict=False):
        axis.bar(places, ratios(rows, over, under))
        axis.set_title(f"figure {title}: speed-up")
        axis.axhline(1, color="gray", lw=0.8)
        if over == "loop":
            axis.set_yscale("log")
    entries = [row["entries"] for row in rows.values()]
    bars = [(name, [row["seconds"][name] for row in rows.values()])
            for name in ("closed", "index notation", "library")]  # fmt: skip
    if gpu:
        single = best_shape(rows)
        least = [min(v for n, v in row["seconds"].items() if is_shape(n)) for row in rows.values()]
        every = [row["seconds"][single] for row in rows.values()]
        bars = [("best shape", least), (single, every), (bars[2][0], bars[2][1])]
    for k, (label, times) in enumerate(bars):
        axes[3].bar(places + 0.27 * k, np.divide(entries, times) / 1e9, 0.27, label=label)
    axes[3].set_title(f"{'figure 8: ' if gpu else ''}billions of entries per second")
    axes[3].legend()
    for axis in axes:
        axis.set_xticks(places, list(rows), rotation=60, ha="right", fontsize=7)
    figure.tight_layout()
    figure.savefig(file, dpi=plot.DPI)


def _compiled(seconds: dict[str, float], kind: str) -> str:
    texts = ", ".join(f"{k} {v:.2f} s" for k, v in seconds.items() if k != "first")
    return (
        f"From text to a loaded {kind} kernel, in a new process with an empty cache, after a "
        f"first kernel for which the compiler is looked for ({seconds['first']:.2f} s): {texts}."
    )


def main() -> None:
    """Write the page of what was measured, and the pictures if they can be drawn."""
    folder, stem = Path(sys.argv[1]), Path(sys.argv[2])
    machine = dict(zip(("gpu", "cpu"), sys.argv[3:], strict=False))
    medians = "medians of 100 calls; of 2, if a call takes more than 20 ms, as some `loop`s do."
    lines = ["# Programs of patterns", "", f"Microseconds, float32, {medians}", ""]
    for target, usual in (("gpu", "H200"), ("cpu", "CPU of the same machine, 16 cores")):
        file = folder / f"skeletons-{target}.json"
        if not file.exists():
            continue
        found = json.loads(file.read_text())
        rows: Rows = found["matrices"]
        gpu = target == "gpu"
        library = (
            "`library` is cuSPARSE through CuPy, `direct` its fastest algorithm."
            if gpu
            else "`library` is SciPy."
        )
        lines += [f"## {machine.get(target, usual)}", "", library, ""]
        lines += [*table(rows, gpu), "", *summary(rows, gpu), ""]
        if plot.available() is None:
            pictures(rows, f"{stem}-{target}.png", gpu)
            lines += [f"![figures 5 to 8]({stem.name}-{target}.png)", ""]
        if found["compile"]:
            lines += [_compiled(found["compile"], "CUDA" if gpu else "C"), ""]
    Path(f"{stem}.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
