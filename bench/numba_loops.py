"""The loops of hand.c in Python, for Numba; imported only if Numba is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

compiled = njit(parallel=True, cache=True)


@compiled
def spmv(pos: Any, crd: Any, vals: Any, x: Any) -> Any:
    """y = A x"""
    y = np.empty(pos.size - 1)
    for i in prange(pos.size - 1):
        total = 0.0
        for p in range(pos[i], pos[i + 1]):
            total += vals[p] * x[crd[p]]
        y[i] = total
    return y


@compiled
def spmm(pos: Any, crd: Any, vals: Any, x: Any) -> Any:
    """Y = A X"""
    width = x.shape[1]
    y = np.empty((pos.size - 1, width))
    for i in prange(pos.size - 1):
        for k in range(width):
            y[i, k] = 0.0
        for p in range(pos[i], pos[i + 1]):
            a, j = vals[p], crd[p]
            for k in range(width):
                y[i, k] += a * x[j, k]
    return y


@compiled
def sddmm(pos: Any, crd: Any, vals: Any, u: Any, v: Any) -> Any:
    """A .* (U V^T), at the entries of A"""
    out = np.empty(vals.size)
    for i in prange(pos.size - 1):
        for p in range(pos[i], pos[i + 1]):
            j, total = crd[p], 0.0
            for k in range(u.shape[1]):
                total += u[i, k] * v[j, k]
            out[p] = vals[p] * total
    return out


@njit(cache=True)
def _sum_leaves(begin: Any, end: Any, crd: Any, vals: Any, factor: Any, into: Any) -> None:
    """into = sum of vals[p] * factor[crd[p]]"""
    for j in range(into.size):
        into[j] = 0.0
    for p in range(begin, end):
        t, row = vals[p], crd[p]
        for j in range(into.size):
            into[j] += t * factor[row, j]


@njit(cache=True)
def _add_product(below: Any, factor: Any, row: Any, into: Any) -> None:
    """into += below * factor[row]"""
    for j in range(into.size):
        into[j] += below[j] * factor[row, j]


@compiled
def mttkrp3(
    rows: int, pos1: Any, crd1: Any, pos2: Any, crd2: Any, pos3: Any, crd3: Any, vals: Any,
    c: Any, d: Any,
) -> Any:  # fmt: skip
    """Order 3, a partial sum per level."""
    m = np.zeros((rows, c.shape[1]))
    for p1 in prange(pos1[1]):
        total = np.empty(c.shape[1])
        for p2 in range(pos2[p1], pos2[p1 + 1]):
            _sum_leaves(pos3[p2], pos3[p2 + 1], crd3, vals, d, total)
            _add_product(total, c, crd2[p2], m[crd1[p1]])
    return m


@compiled
def mttkrp4(
    rows: int, pos1: Any, crd1: Any, pos2: Any, crd2: Any, pos3: Any, crd3: Any, pos4: Any,
    crd4: Any, vals: Any, c: Any, d: Any, e: Any,
) -> Any:  # fmt: skip
    """Order 4, a partial sum per level."""
    m = np.zeros((rows, c.shape[1]))
    for p1 in prange(pos1[1]):
        total2, total3 = np.empty(c.shape[1]), np.empty(c.shape[1])
        for p2 in range(pos2[p1], pos2[p1 + 1]):
            total2[:] = 0.0
            for p3 in range(pos3[p2], pos3[p2 + 1]):
                _sum_leaves(pos4[p3], pos4[p3 + 1], crd4, vals, e, total3)
                _add_product(total3, d, crd3[p3], total2)
            _add_product(total2, c, crd2[p2], m[crd1[p1]])
    return m


@compiled
def mttkrp5(
    rows: int, pos1: Any, crd1: Any, pos2: Any, crd2: Any, pos3: Any, crd3: Any, pos4: Any,
    crd4: Any, pos5: Any, crd5: Any, vals: Any, c: Any, d: Any, e: Any, f: Any,
) -> Any:  # fmt: skip
    """Order 5, a partial sum per level."""
    m = np.zeros((rows, c.shape[1]))
    for p1 in prange(pos1[1]):
        width = c.shape[1]
        total2, total3, total4 = np.empty(width), np.empty(width), np.empty(width)
        for p2 in range(pos2[p1], pos2[p1 + 1]):
            total2[:] = 0.0
            for p3 in range(pos3[p2], pos3[p2 + 1]):
                total3[:] = 0.0
                for p4 in range(pos4[p3], pos4[p3 + 1]):
                    _sum_leaves(pos5[p4], pos5[p4 + 1], crd5, vals, f, total4)
                    _add_product(total4, e, crd4[p4], total3)
                _add_product(total3, d, crd3[p3], total2)
            _add_product(total2, c, crd2[p2], m[crd1[p1]])
    return m
