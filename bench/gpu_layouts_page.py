"""A page, and pictures where Matplotlib is, of what gpu_layouts.py measured: `... JSON NAME`.

python bench/gpu_layouts_page.py out/layouts.json bench/results/gpu-layouts-2026-11-19
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plot

Row = dict[str, Any]
NATURAL = "CSR-AoS-AoS"
TITLES = {"complex": "Complex numbers", "quaternion": "Quaternions", "block 3x3": "3x3 blocks"}
HEAD = """# Layouts of records on a GPU, {day}

`bench/gpu_layouts.py` on one {gpu}; copy bandwidth {bandwidth:.0f} GB/s. Medians of 7 device times
in ms. A triple is the format of A, the layout of A, and that of x and y: all 16 of the paper, and
six further ones. Each has a thread per row; CSR also groups of 2, 4 and 8 threads (g2, g4, g8), of
which the fastest counts. `gain` is the time of {natural} with its best schedule, the default and
grids of a constant size included, over that of the best triple. `cuSPARSE` is its time over the
best triple's: BSR of the expansion for quaternions, BSR for blocks, CSR for complex numbers. `bw`
is the share of the copy bandwidth, with each record, coordinate, position and vector element
counted once; above 100 % they come from the cache.
"""
GRIDS = """
## Grids

Times over that with as many blocks as there are rows for; the better of 256 threads with 4 blocks
on a multiprocessor, and 128 with 8.
"""
ROWS = """
## Rows

The width of a row is from its first column to its last, of all columns.
"""


def triple_of(key: str) -> str:
    return key.split(" ")[0]


def triples(row: Row) -> dict[str, tuple[float, str]]:
    """The time of each triple with its fastest schedule, and which that is."""
    found: dict[str, tuple[float, str]] = {}
    for key, spent in row["times"].items():
        triple, way = key.split(" ")
        found[triple] = min(found.get(triple, (math.inf, "")), (spent, way))
    return found


def natural(row: Row) -> tuple[float, str]:
    """The fastest schedule of CSR with records one after another."""
    every = {**row["times"], **row["grids"]}
    mine = [(t, k.split(" ", 1)[1]) for k, t in every.items() if triple_of(k) == NATURAL]
    return min(mine)


def best(row: Row) -> tuple[float, str, str]:
    """The best triple, its time, and its schedule."""
    return min((spent, triple, way) for triple, (spent, way) in triples(row).items())


def over(number: float | None, spent: float) -> str:
    return "-" if number is None else f"{number / spent:.2f}"


def best_table(rows: list[Row], bandwidth: float) -> Iterator[str]:
    yield (
        "| matrix | rows | entries | best | schedule | ms | gain | cuSPARSE "
        "| CSR-AoS alone | bw |\n" + "|---" * 10 + "|"
    )
    for row in rows:
        spent, triple, way = best(row)
        plain, _ = natural(row)
        share = row["bytes"] / spent / 1e6 / bandwidth
        cells = (
            row["matrix"], row["rows"], row["entries"], triple, way, f"{spent:.4f}",
            f"{plain / spent:.2f}", over(row["library"], spent), over(row["library"], plain),
            f"{share:.0%}",
        )  # fmt: skip
        yield "| " + " | ".join(map(str, cells)) + " |"


def all_table(rows: list[Row]) -> Iterator[str]:
    names = list(dict.fromkeys(triple for row in rows for triple in triples(row)))
    yield "| triple | " + " | ".join(row["matrix"] for row in rows) + " |"
    yield "|---" * (len(rows) + 1) + "|"
    for name in names:
        found = [triples(row).get(name) for row in rows]
        least = [best(row)[1] for row in rows]
        cells = [
            "" if one is None else f"**{one[0]:.4f}**" if name == win else f"{one[0]:.4f}"
            for one, win in zip(found, least, strict=True)
        ]
        yield f"| {name} | " + " | ".join(cells) + " |"


def grid_table(rows: list[Row]) -> Iterator[str]:
    yield (
        "| matrix | records of | numbers | triple | schedule | as many blocks as needed | stride "
        "| dynamic |\n" + "|---" * 8 + "|"
    )
    for row in rows:
        for triple in dict.fromkeys(triple_of(key) for key in row["grids"]):
            mine = {k: t for k, t in row["grids"].items() if triple_of(k) == triple}
            way = next(iter(mine)).split(" ")[1]
            static = row["times"][f"{triple} {way}"]
            ratios = []
            for kind in ("stride", "dynamic"):
                found = [(t, k.split(" ")[3]) for k, t in mine.items() if f" {kind} " in k]
                ratios.append(f"{min(found)[0] / static:.2f} ({min(found)[1]})" if found else "")
            head = (row["matrix"], row["family"], row["scalar"], triple, way, f"{static:.4f}")
            yield "| " + " | ".join((*head, *ratios)) + " |"


def wide_table(rows: list[Row], bandwidth: float) -> Iterator[str]:
    head = "matrix", "records of", "numbers", "best", "ms", "default ms"
    yield f"| {' | '.join(head)} | cuSPARSE / best | / default | bw |"
    yield "|---" * 9 + "|"
    for row in rows:
        if not row["wide"]:
            continue
        spent, key = min((t, k) for k, t in row["wide"].items())
        default = row["wide"].get("CSR-AoS default", math.nan)
        share = row["bytes_wide"] / spent / 1e6 / bandwidth
        cells = (
            row["matrix"], row["family"], row["scalar"], key, f"{spent:.4f}", f"{default:.4f}",
            over(row["library_wide"], spent), over(row["library_wide"], default), f"{share:.0%}",
        )  # fmt: skip
        yield "| " + " | ".join(cells) + " |"


def shape_table(rows: list[Row]) -> Iterator[str]:
    yield "| matrix | shortest row | quartiles | longest | width of a row, median | widest |"
    yield "|---" * 6 + "|"
    for row in {row["matrix"]: row for row in rows}.values():
        low, first, middle, third, high = row["lengths"]
        cells = f"{low:.0f} | {first:.0f} {middle:.0f} {third:.0f} | {high:.0f}"
        widths = f"{row['widths'][2]:.2%} | {row['widths'][4]:.2%}"
        yield f"| {row['matrix']} | {cells} | {widths} |"


def verdict(rows: list[Row]) -> Iterator[str]:
    """Which triples won, which came within a tenth, and which never did."""
    won = Counter(best(row)[1] for row in rows)
    every = list(dict.fromkeys(triple for row in rows for triple in triples(row)))
    near = Counter(
        triple
        for row in rows
        for triple, (spent, _) in triples(row).items()
        if spent <= 1.1 * best(row)[0]
    )
    yield "Won: " + ", ".join(f"{triple} {count}" for triple, count in won.most_common()) + "."
    yield "Within 10 % of the best, of " + f"{len(rows)}: " + ", ".join(
        f"{triple} {near[triple]}" for triple in sorted(every, key=lambda t: -near[t])
    ) + "."  # fmt: skip
    yield "Never won: " + ", ".join(t for t in every if t not in won) + "."


def page(found: dict[str, Any], name: str, pictures: list[str]) -> str:
    rows, bandwidth = found["rows"], found["bandwidth"]
    text = [HEAD.format(**found, natural=NATURAL)]
    text += [f"![{picture}]({name}-{picture}.png)" for picture in pictures]
    number = 0
    for family, title in TITLES.items():
        for scalar in ("float32", "float64"):
            mine = [r for r in rows if (r["family"], r["scalar"]) == (family, scalar)]
            number += 1
            if not mine:
                continue
            text += [f"\n## Table {number}. {title}, {scalar}\n", *best_table(mine, bandwidth)]
            text += ["\nAll triples, ms:\n", *all_table(mine)]
    text += ["\n## What paid\n", *verdict(rows)]
    text += [
        "\n## Grids\n",
        "Times over that with as many blocks as there are rows for; the best of",
    ]
    text += ["256 threads with 4 blocks on a multiprocessor, and 128 with 8.\n", *grid_table(rows)]
    text += ["\n## Times a dense matrix of 8 columns\n", *wide_table(rows, bandwidth)]
    text += [
        "\n## Rows\n",
        "The width of a row is from its first column to its last, of all columns.",
    ]
    text += ["", *shape_table(rows)]
    gone = [f"{r['matrix']}, {r['scalar']}: {each}" for r in rows for each in r["left_out"]]
    text += ["\n## Left out\n", *(f"- {each}" for each in gone[:60])] if gone else []
    return "\n".join(text) + "\n"


def draw(rows: list[Row], base: Path) -> list[str]:
    """Speed-ups over cuSPARSE with and without layouts, and the rows of the matrices."""
    if plot.available() is not None:
        return []
    plt, made = plot.pyplot(), []
    for scalar in ("float32", "float64"):
        mine = [r for r in rows if r["scalar"] == scalar and r["library"]]
        figure, axis = plt.subplots(figsize=(10, 4))
        at = range(len(mine))
        tuned = [r["library"] / best(r)[0] for r in mine]
        plain = [r["library"] / natural(r)[0] for r in mine]
        axis.bar([n - 0.2 for n in at], plain, 0.4, label="schedules alone", color="lightsteelblue")
        axis.bar([n + 0.2 for n in at], tuned, 0.4, label="and layouts", color="navy")
        axis.axhline(1, color="grey", lw=0.8)
        axis.set_xticks(list(at), [r["matrix"] for r in mine], rotation=45, ha="right")
        axis.set(ylabel="speed over cuSPARSE", title=scalar)
        axis.legend()
        made.append(f"speed-{scalar}")
        _save(plt, figure, base, made[-1])
    shapes = list({r["matrix"]: r for r in rows}.values())
    for what, name in (
        ("lengths", "entries in a row"),
        ("widths", "width of a row, of all columns"),
    ):
        figure, axis = plt.subplots(figsize=(10, 4))
        boxes = [
            {
                "whislo": v[0],
                "q1": v[1],
                "med": v[2],
                "q3": v[3],
                "whishi": v[4],
                "label": r["matrix"],
            }
            for r in shapes
            for v in [r[what]]
        ]
        axis.bxp(boxes, showfliers=False)
        axis.tick_params(axis="x", rotation=45)
        axis.set(ylabel=name, yscale="log" if what == "lengths" else "linear")
        made.append(what)
        _save(plt, figure, base, what)
    return made


def _save(plt: Any, figure: Any, base: Path, name: str) -> None:
    figure.tight_layout()
    figure.savefig(f"{base}-{name}.png", dpi=plot.DPI)
    plt.close(figure)


def main(source: str, target: str) -> None:
    """Write the page and its pictures."""
    found, base = json.loads(Path(source).read_text()), Path(target)
    pictures = draw(found["rows"], base)
    kept = sorted(base.parent.glob(f"{base.name}-*.png"))  # drawn elsewhere
    pictures = pictures or [path.stem.removeprefix(f"{base.name}-") for path in kept]
    Path(f"{base}.md").write_text(page(found, base.name, pictures), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:3])
