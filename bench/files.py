"""Reading a 100 MB Matrix Market file: Openwork to CSR, peers to COO or CSR."""

from __future__ import annotations

import argparse
import datetime
import gzip
import importlib.util
import math
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.io as sio
import scipy.sparse as sp
from hand import room_for_two
from measure import Turns, environment, interleave

import openwork as ow

RESULTS = Path(__file__).resolve().parent / "results"
ENTRIES, ROWS = 2_900_000, 300_000  # 100 MB of text: 35 bytes per entry
RUNS = 7
OLD = "SciPy's older reader"
FMM, FMM_CSR, OURS = "fast_matrix_market", "fast_matrix_market, then CSR", "Openwork, CSR"

PAGE = """\
# Reading files, {date}

{environment}
- quiet: room for two threads {before:.1f} before, {after:.1f} after
- fast_matrix_market {version}

Repeat with `.venv/bin/python bench/files.py`.

Seconds to read a file of {size:.0f} MB with {entries} entries at random places of a square
matrix of {rows} rows, values with all their digits. Medians over turns in which every contestant
runs once; a ratio is the median of the ratios within a turn, and above 1 Openwork is the faster.
Openwork returns CSR, rows in order and checked; the peers return coordinates as they stand in the
file, so the second ratio, with their conversion to CSR, compares like with like.

{table}

The same on one thread in seconds of CPU time, the least of {runs} runs: what is left when others
who use the machine are not counted.

{cpu}

The older reader of SciPy (`scipy.io._mmio`, in Python, one thread) takes {old:.1f} s for the file
by rows: Openwork is {faster:.0f}x as fast on one thread.
"""


def make_files(folder: Path, entries: int) -> dict[str, Path]:
    """The same matrix with entries by rows, by columns, unsorted; and by rows, gzipped."""
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, ROWS, (2, entries), dtype=np.int32)
    csr = sp.coo_array((rng.random(entries), (rows, columns)), shape=(ROWS, ROWS)).tocsr()
    by_rows = csr.tocoo()
    order = rng.permutation(by_rows.nnz)
    mixed = sp.coo_array(
        (by_rows.data[order], (by_rows.row[order], by_rows.col[order])), shape=csr.shape
    )
    made = {}
    for name, matrix in {
        "by rows": by_rows,
        "by columns": csr.tocsc().tocoo(),
        "in no order": mixed,
    }.items():
        made[name] = folder / f"{name.replace(' ', '_')}.mtx"
        sio.mmwrite(made[name], matrix, symmetry="general")
    made["by rows, .gz"] = folder / "rows.mtx.gz"
    with made["by rows"].open("rb") as plain, gzip.open(made["by rows, .gz"], "wb", 6) as packed:
        shutil.copyfileobj(plain, packed)
    return made


def contestants(file: Path, threads: int) -> dict[str, Callable[[], object]]:
    """The readers."""
    import fast_matrix_market as fmm

    ow.set_num_threads(threads)
    return {
        OURS: lambda: ow.read(file),
        FMM: lambda: fmm.mmread(file, parallelism=threads),
        FMM_CSR: lambda: fmm.mmread(file, parallelism=threads).tocsr(),
    }


def check(file: Path) -> None:
    """Check that all answers agree, before any is timed."""
    ours, theirs = ow.read(file).to_scipy(), sio.mmread(file).tocsr()
    theirs.sum_duplicates()
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), (file, name)


def row(name: str, threads: int, turns: Turns) -> str:
    times = " | ".join(f"{turns.median(who):.3f}" for who in (OURS, FMM, FMM_CSR))
    ratios = " | ".join(f"{turns.speed(OURS, who):.2f}" for who in (FMM, FMM_CSR))
    return f"| {name} | {threads} | {times} | {ratios} |"


def cpu_row(name: str, file: Path) -> str:
    """The minimum CPU time of each contestant on one thread."""
    least = dict.fromkeys((OURS, FMM, FMM_CSR), math.inf)
    calls = contestants(file, 1)
    for _ in range(RUNS):
        for who, call in calls.items():
            start = time.process_time()
            call()
            least[who] = min(least[who], time.process_time() - start)
    times = " | ".join(f"{seconds:.3f}" for seconds in least.values())
    ratios = " | ".join(f"{least[who] / least[OURS]:.2f}" for who in (FMM, FMM_CSR))
    return f"| {name} | {times} | {ratios} |"


def measure(quick: bool) -> str:
    """The page."""
    import fast_matrix_market as fmm
    from scipy.io import _mmio

    lines = [
        f"| file | threads | {OURS} | {FMM} | {FMM_CSR} | x {FMM} | x {FMM_CSR} |",
        "|---|---|---|---|---|---|---|",
    ]
    cpu = [
        f"| file | {OURS} | {FMM} | {FMM_CSR} | x {FMM} | x {FMM_CSR} |",
        "|---|---|---|---|---|---|",
    ]
    before = room_for_two()
    with tempfile.TemporaryDirectory() as folder:
        files = make_files(Path(folder), ENTRIES // 20 if quick else ENTRIES)
        size, entries = files["by rows"].stat().st_size / 1e6, ow.read(files["by rows"]).nnz
        for name, file in files.items():
            check(file)
            for threads in (1, 2):
                turns = interleave(contestants(file, threads), 2 if quick else 12)
                lines.append(row(name, threads, turns))
            cpu.append(cpu_row(name, file))
        ow.set_num_threads(1)
        pair = {OURS: lambda: ow.read(files["by rows"])}
        pair[OLD] = lambda: _mmio.MMFile().read(str(files["by rows"]))
        slow = interleave(pair, 1)  # the minimum number of turns
        ow.set_num_threads(None)
    return PAGE.format(
        date=datetime.date.today().isoformat(),
        environment=environment(),
        before=before,
        after=room_for_two(),
        version=fmm.__version__,
        size=size,
        entries=entries,
        rows=ROWS,
        table="\n".join(lines),
        cpu="\n".join(cpu),
        runs=RUNS,
        old=slow.median(OLD),
        faster=slow.speed(OURS, OLD),
    )


def main() -> None:
    """Measure, print the page, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small files; nothing is kept")
    given = parser.parse_args()
    if importlib.util.find_spec("fast_matrix_market") is None:
        parser.error("this compares with fast_matrix_market: pip install -e '.[bench]'")
    page = measure(given.quick)
    print(page)
    if not given.quick:
        date = datetime.date.today().isoformat()
        (RESULTS / f"files-{date}.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
