"""A page of what `make bench-gpu` measured on another machine: `gpu_page.py FOLDER NAME NOTES`.

The GPU machine has little installed; this script runs anywhere, on the files it wrote.
"""

from __future__ import annotations

import csv
import math
import sys
from datetime import date
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
HEAD = """# Generated CUDA kernels on a GPU, {day}

`make bench-gpu` (bench/gpu.py): device events, medians of 7 to 11, launches queued behind a
waiting kernel, so that times are of the GPU alone. `lib` is the better of CuPy's and torch's
cuSPARSE (SpMV), torch's row-major product (SpMM) and `sampled_addmm` (SDDMM), or torch's gather
and `index_add` (MTTKRP), and CuPy's for `spmv_t` and `spmm_t32`, products with the transposed
matrix. `direct` is cuSPARSE called by itself: every algorithm that it has for rows, prepared ahead
of what is timed, the fastest of them; CuPy and torch take one of them and prepare nothing.
`default` is the statement without a schedule; `best` the best recipe of a sweep. `bw` is the
fraction of the copy bandwidth, for the bytes that must move, that the best recipe reaches.

{notes}
"""
SUMMARY = """
Geometric means over the matrices.

| kernel | dtype | lib / default | worst | lib / best | worst | direct / default | worst |
|---|---|---|---|---|---|---|---|
"""


def mean(ratios: list[float]) -> float:
    return math.exp(sum(math.log(r) for r in ratios) / len(ratios))


def products(rows: list[dict[str, str]], title: str) -> str:
    """The means of each kernel, and all measurements."""
    text = f"\n## {title}\n{SUMMARY}"
    for kernel, dtype in sorted({(r["kernel"], r["dtype"]) for r in rows}):
        mine = [r for r in rows if (r["kernel"], r["dtype"]) == (kernel, dtype)]
        ours, best = ([float(r[k]) for r in mine] for k in ("default_x", "best_x"))
        text += f"| {kernel} | {dtype} | {mean(ours):.2f} | {min(ours):.2f} "
        direct = [float(r["direct_x"]) for r in mine if r["direct_x"] != "nan"]
        text += f"| {mean(best):.2f} | {min(best):.2f} "
        text += f"| {mean(direct):.2f} | {min(direct):.2f} |\n" if direct else "| | |\n"
    text += "\n| matrix | kernel | dtype | lib ms | default ms | lib / default "
    text += "| best recipe | best ms | lib / best | bw | direct ms | direct / default |\n"
    text += "|---" * 12 + "|\n"
    for r in rows:
        text += f"| {r['matrix']} | {r['kernel']} | {r['dtype']} | {float(r['lib_ms']):.4f} "
        text += f"| {float(r['default_ms']):.4f} | {float(r['default_x']):.2f} | {r['best']} "
        text += f"| {float(r['best_ms']):.4f} | {float(r['best_x']):.2f} "
        text += f"| {100 * float(r['bw']):.0f} % "
        known = r["direct_ms"] != "nan"
        text += (
            f"| {float(r['direct_ms']):.4f} | {float(r['direct_x']):.2f} |\n"
            if known
            else "| | |\n"
        )
    return text


def results(rows: list[dict[str, str]]) -> str:
    """Sparse results, against CuPy."""
    text = "\n## Sparse results (bench/gpu_results.py), against CuPy\n\n"
    text += "| matrix | kernel | dtype | entries | CuPy ms | ms | ratio |\n" + "|---" * 7 + "|\n"
    for r in rows:
        text += f"| {r['matrix']} | {r['kernel']} | {r['dtype']} | {int(r['entries']):,} "
        text += f"| {float(r['cupy_ms']):.3f} | {float(r['openwork_ms']):.3f} "
        text += f"| {float(r['ratio']):.2f} |\n"
    return text


def moves(rows: list[dict[str, str]]) -> str:
    """Conversions, against CuPy's."""
    text = "\n## Conversions (bench/gpu_moves.py), against CuPy\n\n"
    text += "| matrix | move | dtype | entries | CuPy ms | ms | ratio |\n" + "|---" * 7 + "|\n"
    return text + "".join(
        f"| {r['matrix']} | {r['move']} | {r['dtype']} | {int(r['entries']):,} "
        f"| {float(r['cupy_ms']):.3f} | {float(r['openwork_ms']):.3f} | {float(r['ratio']):.2f} |\n"
        for r in rows
    )


def table(path: Path) -> list[dict[str, str]]:
    """The rows of a file; none if it does not exist."""
    if not path.exists():
        return []
    return list(csv.DictReader(path.open(), delimiter="\t" if path.suffix == ".tsv" else ","))


def main() -> None:
    folder, name, notes = Path(sys.argv[1]), sys.argv[2], " ".join(sys.argv[3:])
    text = HEAD.format(day=date.today().isoformat(), notes=notes)
    text += products(table(folder / "gpu.tsv"), "Products and dense statements")
    if held_out := table(folder / "gpu_held_out.tsv"):
        text += products(held_out, "Matrices that no choice was fitted to (`--held-out`)")
    if rows := table(folder / "gpu_results.csv"):
        text += results(rows)
    if rows := table(folder / "gpu_moves.csv"):
        text += moves(rows)
    path = RESULTS / f"{name}-{date.today().isoformat()}.md"
    path.write_text(text)
    print(path)


if __name__ == "__main__":
    main()
