"""A drawing in text of what a tensor's arrays hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openwork.runtime.storage import Array, Storage

_MOST_ITEMS = 24


def summary(storage: Storage) -> str:
    """Shape, element type, format and number of entries, on one line.

    >>> from openwork.tensor.pack import from_dense
    >>> from openwork.format.formats import CSR
    >>> summary(from_dense(np.eye(2, 3), CSR))
    '2x3 float64, ow.CSR, 2 stored'
    """
    size = "x".join(map(str, storage.shape)) or "scalar"
    fill = f", else {storage.fill}" if storage.fill != 0 and not storage.format.is_dense else ""
    return f"{size} {storage.dtype}, {storage.format!r}, {storage.nnz} stored{fill}"


def draw(storage: Storage, name: str) -> str:
    """The arrays of each level; a bar ends the children of each parent. Long arrays are cut short.

    >>> from openwork.tensor.pack import from_dense
    >>> from openwork.format.formats import CSR
    >>> print(draw(from_dense(np.array([[5.0, 0, 6], [0, 0, 0], [0, 7, 8]]), CSR), "A"))
    A: 3x3 float64, ow.CSR, 4 stored
      level 0: Dense, mode 0, extent 3
      level 1: Compressed, mode 1, extent 3
        pos     0 2 2 4
        crd     0 2 | | 1 2 |
      values    5. 6. | | 7. 8. |
    """
    lines = [f"{name}: {summary(storage)}"]
    parents = 1
    ends: Array = np.ones(1, dtype=np.int64)
    for n, (level, mode) in enumerate(
        zip(storage.format.levels, storage.format.order, strict=True)
    ):
        view = storage.level_view(n)
        lines.append(f"  level {n}: {level}, mode {mode}, extent {view.extent}")
        shown = min(parents, _MOST_ITEMS + 1)
        ends = np.asarray(level.end(view, np.arange(shown)), dtype=np.int64)
        for fact in level.arrays:
            array = storage.levels[n][fact.name]
            runs = ends if fact.per == "child" else ()
            lines.append(f"    {fact.name:<8}{_listed(_texts(array), array.size, runs)}")
        parents = storage.positions(n)
    values = storage.values
    lines.append(f"  values    {_listed(_texts(values), values.size, ends if lines[1:] else ())}")
    return "\n".join(lines)


def _texts(array: Array) -> list[str]:
    """The first elements as NumPy would write them, in a common precision."""
    head = array[:_MOST_ITEMS]
    if head.dtype.kind in "fc":
        return [np.array2string(element, precision=4) for element in head]
    return [str(element) for element in head]


def _listed(texts: Sequence[str], size: int, ends: Sequence[int] | Array) -> str:
    """The elements in a row, with a bar after each run that ends among them."""
    parts: list[str] = []
    for n in range(len(texts) + 1):
        parts += ["|"] * int(np.count_nonzero(np.asarray(ends) == n))
        parts += texts[n : n + 1]
    more = size - len(texts)
    return " ".join(parts) + (f" ... {more} more" if more else "")
