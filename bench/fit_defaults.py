"""Fit the constants of a GPU's table to measured times, and say what the defaults lose.

    python bench/fit_defaults.py bench/results/gpu-space-*.jsonl.gz [--write h200]

The files are those of `gpu_space.py` and `gpu_hand.py`. Where two have the same product, times of
the later are scaled so that a schedule of both takes as long. Regret is the time of what a table
chooses over that of the best schedule that was measured: of the table that ships, of the fitted one
on what it was fitted to, and of tables on kinds of matrices that they were not fitted to. As the
shipped constants have seen all these matrices, the last figure is also that of fits that start from
constants which are wrong by random factors up to 3.

`--write NAME`: the table becomes that of the device.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import openwork as ow
from openwork.loops.schedule.machines import Gpu
from openwork.loops.schedule.statistics import Rows
from openwork.recipes.devices import tables
from openwork.recipes.products import Pick
from openwork.tune.defaults.fit import Case, Fit, Regret, shaken

KINDS = {
    "stencil": ("grid5_small", "grid5_11M", "grid7_1M", "grid27_16M", "band27_54M"),
    "planar": ("ak2010", "delaunay_n15", "usroads", "rgg_n_2_15_s0"),
    "mesh": ("copter2", "wave", "mdual"),
    "elements": ("bcsstk13", "bcsstk16", "ex15", "dirac_spot_4x4", "fem_wheelset_elastic", "net25"),
    "process": ("bayer10", "cage10", "pose2d_w10000_H"),
    "social": ("ca-CondMat", "email-Enron", "hubs_3M", "rmat18_4M", "rmat20_16M", "web-NotreDame"),
    "words": ("documents_5M", "ratings_4M", "pubmed"),
    "programs": ("lp_fit2p", "netlib_stocfor3", "netlib_pilot87", "mip_eilA101-2", "mip_sorrell3"),
    "dense rows": ("pruned_4096", "pruned_1024x8192", "few_rows_1M", "wide_100x100k", "beacxc"),
    "short rows": ("short_rows_2M", "tall_1Mx500", "bfly", "p2p-Gnutella31"),
    "uneven": ("lognormal_3M", "some_long_2M", "arrow_600k", "skew1.0005_40M"),
    "random": ("uniform_4M", "small_world_4M", "small_20k", "wide_rows_6M", "blocks3_5M"),
}
_STARTS = 1


def read(path: str) -> Iterator[Case]:
    """The cases of a file."""
    kinds = {name: kind for kind, names in KINDS.items() for name in names}
    with gzip.open(path, "rt") as file:
        for one in map(json.loads, file):
            times = one["times"] if "times" in one else one["ours"]
            yield Case(
                one["matrix"], kinds.get(one["matrix"], one["matrix"]), one["dtype"],
                one["columns"], one["shape"][1], one["entries"], Rows(**one["rows"]), times,
            )  # fmt: skip


def merged(cases: Iterator[Case]) -> list[Case]:
    """One case for each product, as if all was measured in one run."""
    found: dict[tuple[str, str, int], Case] = {}
    for case in cases:
        key = case.matrix, case.dtype, case.columns
        known = found.setdefault(key, case)
        both = [text for text in case.times if text in known.times]
        if known is not case and both:
            one = min(both, key=case.times.__getitem__)
            factor = known.times[one] / case.times[one]
            later = {text: time * factor for text, time in case.times.items()}
            found[key] = replace(case, times={**later, **known.times})
    return list(found.values())


@cache
def product(dtype: str, columns: int) -> Any:
    """A statement whose schedules have the texts of all others with so many columns."""
    matrix = sp.random_array((300, 300), density=0.03, format="csr", rng=np.random.default_rng(0))
    A = ow.tensor(matrix.astype(dtype), name="A")
    x = ow.tensor(np.ones((300, columns) if columns else 300, dtype), name="x")
    y = ow.placeholder("y", order=2 if columns else 1, dtype=dtype)
    text = "y(i,k) = A(i,j) * x(j,k)" if columns else "y(i) = A(i,j) * x(j)"
    return ow.parse(text, y=y, A=A, x=x)


@cache
def _text(pick: Pick, dtype: str, columns: int) -> str:
    try:
        return str(pick.applied(product(dtype, columns)).commands)
    except ow.ScheduleError:  # a wrong table may choose what does not apply
        return ""


def schedule(pick: Pick, case: Case) -> str:
    """The text of the schedule that a pick means."""
    return _text(pick, case.dtype, case.columns)


def by_product(fit: Fit, gpu: Gpu) -> dict[tuple[str, int], Regret]:
    """Regrets of each product and type."""
    groups = sorted({(case.dtype, case.columns) for case in fit.cases})
    return {
        each: Regret.of(fit.regret(c, gpu) for c in fit.cases if (c.dtype, c.columns) == each)
        for each in groups
    }


def report(fit: Fit, gpu: Gpu, what: str) -> None:
    """A table's regrets."""
    print(f"{what}: {Regret.of(fit.regret(c, gpu) for c in fit.cases)}")
    for (dtype, columns), regret in by_product(fit, gpu).items():
        print(f"  {f'SpMM {columns}' if columns else 'SpMV'}, {dtype}: {regret}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--table", default="h200", help="where the fit starts")
    parser.add_argument("--write", help="the device whose table is replaced")
    parser.add_argument("--no-validation", action="store_true")
    parser.add_argument("--no-fit", action="store_true", help="only what the table loses")
    args = parser.parse_args()
    cases = merged(case for path in args.files for case in read(path))
    start, every = tables.gpu_table(args.table), len(cases)
    cases = [case for case in cases if schedule(case.pick(start), case) in case.times]
    fit = Fit(cases, schedule)
    print(f"{len(cases)} cases of {len({c.kind for c in cases})} kinds")
    if len(cases) < every:
        print(f"without {every - len(cases)} whose default was not measured")
    report(fit, start, "as it ships")
    if args.no_fit:
        return
    found = fit.table(start)
    report(fit, found, "fitted to all")
    old, new = tables.constants(start), tables.constants(found)
    for name in (n for n in old if old[n] != new[n]):
        print(f"  {name}: {old[name]:g} -> {new[name]:g}")
    if not args.no_validation:
        left = fit.left_out(start)
        print(f"kinds left out, from it: {Regret.of(r for each in left.values() for r in each)}")
        for kind, regrets in left.items():
            print(f"  {kind}: {Regret.of(regrets)}")
        for seed in range(_STARTS):
            wrong = shaken(start, seed)
            before = Regret.of(fit.regret(c, wrong) for c in cases)
            left = fit.left_out(wrong)
            after = Regret.of(r for each in left.values() for r in each)
            print(f"kinds left out, from wrong constants {seed} ({before}): {after}")
    if args.write:
        said = f"to {len(cases)} products of {len({c.matrix for c in cases})} matrices"
        text = tables.write_table(found, "NVIDIA H200", f"{said}, {date.today().isoformat()}")
        path = Path(tables.__file__).with_name(f"{args.write}.json")
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
