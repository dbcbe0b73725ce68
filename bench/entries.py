"""Products with entries that are records, on a CPU, against SciPy (and MKL, where it is installed).

    python bench/entries.py ../shared/data [--threads 1 2] [--check]

Quaternions against SciPy's BSR of the expansion to real 4x4 blocks, 3x3 blocks against its BSR,
complex numbers against its CSR; MKL likewise, by its BSR with 4x4 and 3x3 blocks. `records` is CSR
of records; `BSR` the same blocks as plain numbers in `ow.BSR`. All calls of a row take turns, so
that a busy machine slows all of them down; each has its own copy of the matrix, or one would find
in the caches what another has read. With one thread the time is that of the CPU, which
other processes do not share; with more it is that of the clock, and the fastest quarter counts.
Ratios have their quartiles, turn by turn, beside them. Every result is compared with SciPy's first.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mkl
import numpy as np
from entry_matrices import CHECKED, SCALARS, Array, Matrix, expanded, kinds, matrix
from hand import address

import openwork as ow

NAMES = (
    "lucy ~4", "lucy", "spot ~4", "wheelset ~7", "aneurysm", "pose2d_w10000", "near, complex",
    "ybus_ACTIVSg25k", "mhd1280a",
)  # fmt: skip
TURNS, SECONDS = 25, 2.5
COLUMNS = 8
Call = Callable[[], Any]


def calls(m: Matrix, scalar: str, columns: int, library: Any) -> tuple[dict[str, Call], int]:
    """The contestants, the first of them SciPy, and the bytes of a product."""
    kind, other = kinds(m.family, scalar)
    rng = np.random.default_rng(0)
    shape = (m.shape[1], *((columns,) if columns else ()), *other.shape)
    x = rng.standard_normal(shape).astype(scalar)
    records = kind.records(m.values.astype(scalar))
    A = ow.from_arrays(ow.CSR, m.shape, [None, (m.pos, m.crd)], records)
    X = ow.tensor(x, dtype=other)
    Y = ow.empty((m.shape[0], *shape[1 : 1 + bool(columns)]), dtype=other, name="Y")
    text = "Y(i,k) = A(i,j) * X(j,k)" if columns else "Y(i) = A(i,j) * X(j)"
    ours = ow.parse(text, Y=Y, A=A.rename("A"), X=X.rename("X")).compile()
    made, flat = expanded(m, scalar), _flat(m, x)
    wanted = made @ flat
    found: dict[str, Call] = {"SciPy": lambda: made @ flat, "records": ours}
    agrees(_flat(m, ours().to_numpy()), wanted, scalar, f"{m.name}, records")
    if m.family != "complex":
        side = made.blocksize[0]
        B = ow.tensor(made.copy(), name="A").to(ow.BSR(side, side))
        Yb = ow.empty(wanted.shape, dtype=scalar, name="Y")
        plain = ow.parse(text, Y=Yb, A=B, X=ow.tensor(flat, name="X")).compile()
        agrees(plain().to_numpy(), wanted, scalar, f"{m.name}, BSR")
        found["BSR"] = plain
        if library is not None:
            found["MKL"] = mkl_bsr(library, made, flat)
            agrees(found["MKL"](), wanted, scalar, f"{m.name}, MKL")
    vectors = (m.shape[0] + m.shape[1]) * other.itemsize * max(1, columns)
    return found, m.nnz * (kind.itemsize + 4) + 4 * m.shape[0] + vectors


def _flat(m: Matrix, x: Array) -> Array:
    """Records as a library has them: (rows,) or (rows, columns)."""
    axes = len(kinds(m.family, "float64")[1].shape)
    if m.family == "complex":
        return np.ascontiguousarray(x).view(np.result_type(x.dtype, "complex64"))[..., 0]
    wide = x.ndim - axes == 2
    return np.ascontiguousarray(x.transpose(0, 2, 1)).reshape(-1, x.shape[1]) if wide else x.ravel()


def mkl_bsr(library: Any, made: Any, x: Array) -> Call:
    """MKL's product of a BSR matrix, after its inspector."""
    letter, number = ("s", ctypes.c_float) if made.dtype == "float32" else ("d", ctypes.c_double)
    arrays = [a.copy() for a in (made.indptr, made.indices, made.data)]
    first, rest, values = (address(a) for a in arrays)
    handle, side = ctypes.c_void_p(), made.blocksize[0]
    sizes = [n // side for n in made.shape]
    last = ctypes.c_void_p(first.value + 4)
    given = (ctypes.byref(handle), 0, mkl.ROW_MAJOR, *sizes, side, first, last, rest, values)
    created = getattr(library, f"mkl_sparse_{letter}_create_bsr")(*given)
    library.mkl_sparse_set_mv_hint(handle, mkl.NO_TRANSPOSE, mkl.PLAIN, mkl.MANY)
    library.mkl_sparse_optimize(handle)
    X, one, zero = np.ascontiguousarray(x), number(1), number(0)
    start = (mkl.NO_TRANSPOSE, one, handle, mkl.PLAIN)

    def call() -> Array:
        y = np.empty((made.shape[0], *x.shape[1:]), x.dtype)
        if x.ndim == 1:
            done = getattr(library, f"mkl_sparse_{letter}_mv")(*start, address(X), zero, address(y))
        else:
            wide = x.shape[1]
            rest = (mkl.ROW_MAJOR, address(X), wide, wide, zero, address(y), wide)
            done = getattr(library, f"mkl_sparse_{letter}_mm")(*start, *rest)
        if created or done:
            raise RuntimeError(f"MKL gave {created or done}")
        return y

    call.kept = arrays  # type: ignore[attr-defined]
    return call


def agrees(found: Array, wanted: Array, scalar: str, what: str) -> None:
    """Raise unless a result is SciPy's."""
    error = abs(found - wanted).max() / abs(wanted).max()
    if not error < (1e-4 if scalar == "float32" else 1e-11):
        raise SystemExit(f"{what}: the answer is wrong by {error}")


def in_turns(found: dict[str, Call], seconds: float, threads: int) -> dict[str, Array]:
    """Seconds of each call, turn by turn."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    spent: dict[str, list[float]] = {name: [] for name in found}
    for call in found.values():
        call()
    begun = time.perf_counter()
    for turn in range(TURNS):
        for name, call in found.items():
            start = clock()
            call()
            spent[name].append(clock() - start)
        if turn > 4 and time.perf_counter() - begun > seconds:
            break
    return {name: np.array(each) for name, each in spent.items()}


def row(m: Matrix, scalar: str, columns: int, library: Any, seconds: float, threads: int) -> str:
    """A row of the table."""
    found, size = calls(m, scalar, columns, library)
    spent = in_turns(found, seconds, threads)
    peer, share = spent["SciPy"], 50 if threads == 1 else 25

    def typical(each: Array) -> float:
        return float(np.percentile(each, share))

    cells = [m.name, m.family, scalar, f"{1e3 * typical(peer):.3f}"]
    for name in ("records", "BSR", "MKL"):
        if name not in spent:
            cells += [""] * (2 if name != "MKL" else 1)
            continue
        cells.append(f"{1e3 * typical(spent[name]):.3f}")
        if name != "MKL":
            low, high = np.percentile(peer / spent[name], (25, 75))
            cells.append(f"{typical(peer) / typical(spent[name]):.2f} ({low:.2f}-{high:.2f})")
    cells.append(f"{size / typical(spent['records']) / 1e9:.1f}")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder of the meshes and matrices")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--matrices", nargs="*", default=NAMES)
    parser.add_argument("--check", action="store_true", help="small matrices, a turn or so")
    given = parser.parse_args()
    names, seconds = (CHECKED, 0.0) if given.check else (given.matrices, SECONDS)
    made = [matrix(name, given.data) for name in names]
    for threads in given.threads:
        ow.set_num_threads(threads)
        try:
            library = mkl.load(threads)
        except OSError:
            library = None
        for columns in (0, COLUMNS):
            times = f"times {columns} columns" if columns else "times a vector"
            print(f"\n{times}, {threads} threads; SciPy has one\n")
            print("| matrix | entries | type | SciPy ms | records ms | SciPy / records | BSR ms "
                  "| SciPy / BSR | MKL ms | records GB/s |\n" + "|---" * 10 + "|")  # fmt: skip
            for m in made:
                for scalar in SCALARS:
                    print(row(m, scalar, columns, library, seconds, threads), flush=True)


if __name__ == "__main__":
    main()
