"""The recipes that tests go through, with numbers of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openwork import recipes as r

Recipe = Callable[[Any], Any]

SPMV: dict[str, Recipe] = {
    "default": lambda s: s,
    "thread": r.thread_per_row,
    **{f"group{g}": (lambda s, g=g: r.group_per_row(s, g)) for g in (2, 4, 8, 16, 32)},
    "four in flight": lambda s: r.group_per_row(s, 8, unroll=4),
    "block": lambda s: r.group_per_row(s, 64, unroll=4),
    **{f"split{n}": (lambda s, n=n: r.position_split(s, n)) for n in (1, 7)},
    **{f"batch{n}": (lambda s, n=n: r.position_split(s, n, unroll=4)) for n in (4, 7, 16)},
    **{f"staged{n}": (lambda s, n=n: r.position_staged(s, n, 4)) for n in (1, 8)},
    **{f"segments{n}": (lambda s, n=n: r.position_segments(s, n, 16)) for n in (1, 4)},
    "strided": r.position_strided,
    "grid": lambda s: r.grid_rows(s, 1, 512),
    "dynamic grid": lambda s: r.grid_rows(s, 3, 96, 4, chunk=2),
}
SPMM: dict[str, Recipe] = {
    "default": lambda s: s,
    "rows": r.spmm_rows,
    "positions": r.spmm_positions,
    "batches": lambda s: r.spmm_positions(s, 16, unroll=8, resident=1024),
    "single positions": lambda s: r.spmm_positions(s, 8, unroll=1),
    "narrow tiles": lambda s: r.spmm_rows(s, lanes=2, unroll=4),
    "narrow tiles of positions": lambda s: r.spmm_positions(s, 16, lanes=2),
    "tiles": lambda s: r.spmm_tiles(s, 100),
    "nnz16": lambda s: r.atomic_parallel(s, nnz=16, col=2),
    "segment": lambda s: r.atomic_parallel(s, nnz=1, col=4, group=32),
    "eighth": lambda s: r.atomic_parallel(s, row=1 / 8, col=2, group=8),
}
# Statements about a matrix other than its products, by their einsum and format of the result, with
# the recipes that they may get beside the default.
OTHERS: dict[str, tuple[str, bool, tuple[Recipe, ...]]] = {
    "y(j) = A(i,j) * u(i)": ("ij,i->j", False, (r.position_strided, r.group_per_row)),
    "S(i,j) = A(i,j) * u(i)": ("ij,i->ij", True, (r.position_strided,)),
    "D(i,j) = A(i,j) * v(j)": ("ij,j->ij", False, (r.position_strided,)),
    "s() = A(i,j) * v(j)": ("ij,j->", False, (r.position_strided,)),
    "C(j,k) = A(i,j) * W(i,k)": ("ij,ik->jk", False, (r.spmm_positions,)),
    "D(i,k) = U(i,k) * w(k)": ("ik,k->ik", False, (r.elements,)),
    "y(i) = U(i,k) * w(k)": ("ik,k->i", False, (r.element_sums, r.elements)),
    "y(k) = U(i,k) * u(i)": ("ik,i->k", False, (r.element_shares, r.elements)),
    "s() = U(i,k) * w(k)": ("ik,k->", False, (r.element_total,)),
}
