"""A tensor's arrays drawn as text."""

from __future__ import annotations

from openwork.runtime.gpu.cuda import DeviceStorage
from openwork.runtime.storage import Storage
from openwork.tensor.draw.cells import Row, layout


def summary(storage: Storage) -> str:
    """Shape, element type, format and number of entries, on one line.

    >>> import numpy as np
    >>> from openwork.tensor.convert.pack import from_dense
    >>> from openwork.format.formats import CSR
    >>> summary(from_dense(np.eye(2, 3), CSR))
    '2x3 float64, ow.CSR, 2 stored'
    """
    size = "x".join(map(str, storage.shape)) or "scalar"
    fill = f", else {storage.fill}" if storage.fill != 0 and not storage.format.is_dense else ""
    where = ", on cuda" if isinstance(storage, DeviceStorage) else ""
    return f"{size} {storage.dtype}, {storage.format!r}, {storage.nnz} stored{fill}{where}"


def draw(storage: Storage, name: str) -> str:
    """The type, and the arrays of each level. Long arrays are cut short.

    A bar ends each run of children, or slice of runs; a colon the rows of a block, and the columns
    of a slice. A point is padding, which is never read.

    >>> import numpy as np
    >>> from openwork.tensor.convert.pack import from_dense
    >>> from openwork.format.formats import CSR
    >>> print(draw(from_dense(np.array([[5.0, 0, 6], [0, 0, 0], [0, 7, 8]]), CSR), "A"))
    A: 3x3 float64, ow.CSR, 4 stored
      type      ([i -> [int32]_(pos[i+1]-pos[i])]_3, [i -> [float64]_(pos[i+1]-pos[i])]_3)
      level 0: Dense, mode 0, extent 3
      level 1: Compressed, mode 1, extent 3
        pos     0 2 2 4
        crd     0 2 | | 1 2 |
      values    5. 6. | | 7. 8. |
    """
    lines = [f"{name}: {summary(storage)}", f"  type      {type_of(storage)}"]
    for part in layout(storage):
        lines += [f"  {part.title}"] if part.title else []
        for row in part.rows:
            label = f"    {row.name:<8}" if part.title else f"  {row.name:<10}"
            lines.append(f"{label}{_listed(row)}".rstrip())
    return "\n".join(lines)


def type_of(storage: Storage) -> str:
    """The dependent type of the storage, with its extents."""
    return storage.format.type(storage.dtype, storage.shape)


def _listed(row: Row) -> str:
    """The cells of a row, with a bar after each run."""
    parts: list[str] = []
    for n in range(len(row.cells) + 1):
        ends = row.runs.ends[n] if row.runs else 0
        parts += ["|"] * ends if ends < 5 else ["|", f"{ends - 2} empty", "|"]
        parts += [":"] if row.runs and n in row.runs.breaks else []
        parts += row.cells[n : n + 1]
    return " ".join(parts) + (f" ... {row.more} more" if row.more else "")
