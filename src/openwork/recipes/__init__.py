"""Schedules as functions, and how one is chosen: statement and statistics in, commands out."""

from openwork.recipes.cpu import (
    balanced_rows,
    cache_tiles,
    merge_path,
    position_chunks,
    register_tiles,
)
from openwork.recipes.dense import element_shares, element_sums, element_total, elements
from openwork.recipes.grids import grid_rows, launch_bounds
from openwork.recipes.sgap import atomic_parallel
from openwork.recipes.sparse import (
    group_per_row,
    position_segments,
    position_split,
    position_staged,
    position_strided,
    sddmm,
    spmm_positions,
    spmm_rows,
    spmm_staged,
    spmm_tiles,
    thread_per_row,
    warp_per_row,
)

__all__ = [
    "atomic_parallel",
    "balanced_rows",
    "cache_tiles",
    "element_shares",
    "element_sums",
    "element_total",
    "elements",
    "grid_rows",
    "group_per_row",
    "launch_bounds",
    "merge_path",
    "position_chunks",
    "position_segments",
    "position_split",
    "position_staged",
    "position_strided",
    "register_tiles",
    "sddmm",
    "spmm_positions",
    "spmm_rows",
    "spmm_staged",
    "spmm_tiles",
    "thread_per_row",
    "warp_per_row",
]
