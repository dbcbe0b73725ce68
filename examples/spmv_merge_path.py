"""SpMV along the merge path, with cuts from a user function.

An empty row has a cost, too, so neither rows nor entries alone measure the work. Merrill and
Garland (SC 2016) merge the list of row ends with the list of entries. The merge path has one step
per row and one per entry, and tiles with equal numbers of steps balance the load for any matrix.

            entries ->
            0   1   2   3   4
    rows  0 +---+---+       |      row 0 ends after 2 entries
      |   1         +       |      row 1 is empty
      v   2         +---+   |      row 2 has one entry
          3             +---+

`split_points` returns the first entry of each tile: where the path crosses the diagonal of the
tile's first step. The compiler knows nothing of merge paths; the thesis proposes this extension in
its last chapter. The search is one line of NumPy, and runs before the kernel.
"""

from collections.abc import Mapping

import numpy as np
from common import compare, matrix

import openwork as ow

PARTS = 64


def merge_path(row_ends: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and entries before each cut of the merge path, for `parts` equal parts."""
    rows, entries = row_ends.size, int(row_ends[-1]) if row_ends.size else 0
    diagonals = np.arange(parts + 1) * (rows + entries) // parts
    # The path passes the end of row r in step row_ends[r] + r, counted from 0.
    before = np.searchsorted(row_ends + np.arange(rows), diagonals, side="left")
    return before, diagonals - before


def entry_cuts(tensors: Mapping[str, ow.Tensor], parts: int) -> np.ndarray:
    """Where to cut the entries of A."""
    return merge_path(tensors["A"].to_scipy().indptr[1:].astype(np.int64), parts)[1]


def row_cuts(tensors: Mapping[str, ow.Tensor], parts: int) -> np.ndarray:
    """Where to cut A between rows."""
    return merge_path(tensors["A"].to_scipy().indptr[1:].astype(np.int64), parts)[0]


def main() -> None:
    A = matrix(skewed=True)
    x = ow.tensor(np.random.default_rng(1).random(A.shape[1]), name="x")
    y = ow.empty(A.shape[0], name="y")
    i, j, f, p, p0, p1, i0, i1 = ow.indices("i j f p p0 p1 i0 i1")

    statement = ow.assign(y[i], A[i, j] * x[j])
    scheduled = (
        statement.fuse(i, j, f)
        .pos(f, p, A[i, j])
        .divide(p, p0, p1, PARTS, split_points=entry_cuts)
        .parallelize(p0, "CPUThread", "Atomics")
    )
    whole_rows = statement.divide(i, i0, i1, PARTS, split_points=row_cuts).parallelize(
        i0, "CPUThread", "NoRaces"
    )
    compare(statement, scheduled, A.to_scipy() @ x.to_numpy(), whole_rows=whole_rows)


if __name__ == "__main__":
    main()
