"""What a search finds on a CPU, against MKL after its inspector, and how soon it finds it.

    python bench/cpu_tuned.py [MATRIX ...] [--threads 2] [--budget 2] [--columns 0 32] [--spgemm]
    python bench/cpu_tuned.py [--threads 2] --curve 60 [--plot FILE] [MATRIX ...]

MKL's inspector gets the hint that products are repeated 1,000 times, the search `uses=1000`; the
conversions of both are not timed. Contestants take turns in a random order, and the median of each
counts. `--spgemm`: A @ A on one thread against SciPy.
`--curve N`: how much of the gain that N seconds reach is reached after 1, 5, 20 and N seconds, from
one search of each matrix.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import mkl
import numpy as np
from matrices import banded, blocks, collection, real_matrices, rmat, skewed, uniform
from measure import environment, geometric_mean

import openwork as ow

USES = 1000
WIDTH = 32
GENERATED: dict[str, Callable[[], Any]] = {
    "uniform": lambda: uniform(100_000, 10),
    "banded": lambda: banded(100_000, 27),
    "R-MAT": lambda: rmat(15, 16),
    "blocks": lambda: blocks(40_000, 4, 8),
    "short and wide": lambda: uniform(64, 10_000, columns=300_000),
    "skewed": lambda: skewed(20_000, 200_000, 1_000_000, 1.001),
}
REAL = ("net25", "copter2", "email-Enron", "pose2d_w10000_H", "mdual", "wave", "web-NotreDame")


def chosen(names: list[str]) -> Iterator[tuple[str, Any]]:
    for name, make in GENERATED.items():
        if not names or name in names:
            yield name, make()
    wanted = names or REAL
    yield from real_matrices(tuple(n for n in collection() if n in wanted))


def statement(matrix: Any, columns: int) -> tuple[Any, Any]:
    """A product with a matrix, and its dense operand."""
    rng = np.random.default_rng(0)
    shape = (matrix.shape[1], columns) if columns else (matrix.shape[1],)
    x = rng.random(shape)
    y = ow.empty((matrix.shape[0], *shape[1:]), name="y")
    text = "y(i,k) = A(i,j) * x(j,k)" if columns else "y(i) = A(i,j) * x(j)"
    A = ow.tensor(matrix, name="A")
    return ow.parse(text, y=y, A=A, x=ow.tensor(x, name="x")), x


def typical(contestants: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """The median milliseconds of each, in turns of six calls of which the first two are not timed.

    Whoever comes first in a turn finds caches that another has filled: the order is shuffled.
    """
    found: dict[str, list[float]] = {who: [] for who in contestants}
    order, rng = list(contestants), random.Random(0)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or not found[order[0]]:
        rng.shuffle(order)
        for who in order:
            for turn in range(6):
                start = time.perf_counter()
                contestants[who]()
                if turn > 1:
                    found[who].append(1e3 * (time.perf_counter() - start))
    return {who: statistics.median(times) for who, times in found.items()}


def against_mkl(
    name: str, matrix: Any, columns: int, library: Any, budget: float, seconds: float
) -> float:
    """Print a row; MKL's time over that of what was found."""
    stmt, x = statement(matrix, columns)
    best = ow.tune.search(stmt, budget=budget, uses=USES, again=True, progress=False)
    default = stmt.compile()
    theirs = mkl.Matrix(library, matrix).inspect(columns or 1).times_dense(x)
    want = matrix @ x
    for made in (best.kernel().to_numpy(), theirs()):
        assert np.allclose(made, want)
    ms = typical({"MKL": theirs, "default": default, "tuned": best.kernel}, seconds)
    choice = best.text.splitlines()[-1] if best.text else "the default"
    kernel = f"SpMM {columns}" if columns else "SpMV"
    choice = choice.removeprefix("stmt = stmt.")
    print(
        f"| {name} | {kernel} | {ms['MKL']:.3f} | {ms['default']:.3f} | {ms['tuned']:.3f} "
        f"| {ms['MKL'] / ms['default']:.2f} | {ms['MKL'] / ms['tuned']:.2f} | `{choice[:110]}` |",
        flush=True,
    )
    return ms["MKL"] / ms["tuned"]


def spgemm(name: str, matrix: Any, budget: float) -> float:
    """Print a row; SciPy's time over ours, A @ A on one thread."""
    A, C = ow.tensor(matrix, name="A"), ow.empty(matrix.shape, format=ow.CSR, name="C")
    i, j, k = ow.indices("i j k")
    kernel = ow.assign(C[i, k], A[i, j] * A[j, k]).compile()
    want = matrix @ matrix
    assert abs(kernel().to_scipy() - want).max() < 1e-12 * abs(want).max()
    ms = typical({"SciPy": lambda: matrix @ matrix, "ours": kernel}, budget)
    print(f"| {name} | {ms['SciPy']:.1f} | {ms['ours']:.1f} | {ms['SciPy'] / ms['ours']:.2f} |")
    return ms["SciPy"] / ms["ours"]


Steps = list[tuple[float, float]]


def curve(name: str, matrix: Any, columns: int, most: float) -> tuple[tuple[float, ...], Steps]:
    """Print a row: the gain after so many seconds, as a part of that at the end."""
    stmt, _ = statement(matrix, columns)
    best = ow.tune.search(stmt, budget=most, uses=USES, again=True, progress=False)
    gains = [*best.progress(), (most, best.speedup)]
    gains = [(at, min(gain, best.speedup)) for at, gain in gains]  # the last ones are measured best
    marks = tuple(dict.fromkeys((*(s for s in (1.0, 5.0, 20.0) if s < most), most)))
    after = [max((gain for at, gain in gains if at <= mark), default=1.0) for mark in marks]
    kernel = f"SpMM {columns}" if columns else "SpMV"
    told = " | ".join(f"{gain:.2f} ({gain / after[-1]:.0%})" for gain in after)
    tried = sum(bool(trial.samples) for trial in best.trials)
    choice = "; ".join(line.split(" = ", 1)[1] for line in best.text.splitlines()) or "the default"
    print(f"| {name} | {kernel} | {told} | {tried} | `{choice[:90]}` |", flush=True)
    return tuple(gain / after[-1] for gain in after), gains


def draw(curves: dict[str, Steps], file: str) -> None:
    """Draw the gains over the seconds of each search."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name, steps in curves.items():
        seconds, gains = zip(*steps, strict=True)
        axes.step(seconds, gains, where="post", label=name, linewidth=1.2)
    axes.set_xlabel("seconds of the search")
    axes.set_ylabel("gain over the default")
    axes.legend(fontsize=7, ncols=2)
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def summed(what: str, ratios: list[float]) -> None:
    print(f"\n{what}: {geometric_mean(ratios):.2f} in the mean, {min(ratios):.2f} at worst\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="MATRIX")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--budget", type=float, default=2.0)
    parser.add_argument("--seconds", type=float, default=1.5, help="of measuring, at the end")
    parser.add_argument("--columns", type=int, nargs="*", default=[0, WIDTH], help="0: a vector")
    parser.add_argument("--spgemm", action="store_true")
    parser.add_argument("--curve", type=float)
    parser.add_argument("--plot", help="a file for the drawing of --curve")
    args = parser.parse_args()
    ow.set_num_threads(1 if args.spgemm else args.threads)
    print(environment(), "\n", flush=True)
    found = list(chosen(args.names))
    if args.spgemm:
        print("| matrix | SciPy ms | ours ms | SciPy / ours |\n|---|---|---|---|")
        square = [each for each in found if each[1].shape[0] == each[1].shape[1]]
        summed("SpGEMM", [spgemm(name, matrix, args.budget) for name, matrix in square])
    elif args.curve:
        marks = [f"after {s:g} s" for s in (1.0, 5.0, 20.0) if s < args.curve]
        heads = ["matrix", "product", *marks, f"after {args.curve:g} s", "tried", "found"]
        print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
        curves, rows, regrets = dict[str, Steps](), [], []
        for name, matrix in found:
            for columns in args.columns:
                row, steps = curve(name, matrix, columns, args.curve)
                curves[f"{name}, {columns} columns" if columns else name] = steps
                rows.append(row)
                regrets.append(steps[-1][1])
        shares = [f"{geometric_mean(each):.2f}" for each in zip(*rows, strict=True)]
        print(f"\nshares of the best, geometric means: {', '.join(shares)}")
        regret = f"{geometric_mean(regrets):.2f} in the mean, {max(regrets):.2f} at worst"
        print(f"regret of the default: {regret}")
        if args.plot:
            draw(curves, args.plot)
    else:
        library = mkl.load(args.threads)
        print(mkl.version(library), "\n")
        print("| matrix | product | MKL ms | default | tuned | MKL / default | MKL / tuned | |")
        print("|---|---|---|---|---|---|---|---|")
        for columns in args.columns:
            how = columns, library, args.budget, args.seconds
            ratios = [against_mkl(name, matrix, *how) for name, matrix in found]
            summed(f"SpMM {columns}" if columns else "SpMV", ratios)


if __name__ == "__main__":
    main()
