"""Cases in text files: what other libraries' tests of sparse arrays ask for, and of what.

`expand` reads the lines of a file, `Given` has the tensors, and the arrays, that they name.
"""

from __future__ import annotations

import itertools
import operator
import pickle
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

import openwork as ow

HERE = Path(__file__).parent
FILES = {"SciPy": "scipy_sparse.txt", "PyData/sparse": "pydata_sparse.txt"}
_LINE = re.compile(
    r"(?P<origin>.*?) :: (?P<ours>.*?)(?: => (?P<wanted>.*?))?(?: !! (?P<refused>\w+))?"
    r"(?: (?P<mark>--|\?\?) (?P<reason>.*))?$"
)
_LIST = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Case:
    """One case: `ours` has the value of `wanted`, or is refused."""

    line: int
    origin: str
    ours: str
    wanted: str
    refused: str | None
    missed: str | None  # the reason
    otherwise: str | None  # how it is asked for

    def __str__(self) -> str:
        return f"{self.origin}: {self.ours}"


def expand(library: str) -> Iterator[Case]:
    """The cases of a library; the same list of alternatives in a line is one choice."""
    for number, line in enumerate((HERE / FILES[library]).read_text().splitlines()):
        if not line or line.startswith("#"):
            continue
        lists = list(dict.fromkeys(_LIST.findall(line)))
        for chosen in itertools.product(*map(_alternatives, lists)):
            table = dict(zip(lists, chosen, strict=True))
            match = _LINE.match(_LIST.sub(lambda found, t=table: t[found[1]], line))  # type: ignore[misc]
            assert match, line
            mark, reason = match["mark"], match["reason"]
            yield Case(
                number,
                match["origin"],
                match["ours"],
                match["wanted"] or match["ours"],
                match["refused"],
                reason if mark == "??" else None,
                reason if mark == "--" else None,
            )


def _alternatives(text: str) -> list[str]:
    """The alternatives of a list; commas in brackets belong to one."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def assigned(array: Any, index: Any, value: Any) -> Any:
    """A copy with some elements assigned."""
    made = array.copy()
    made[index] = value
    return made


def saved(tensor: Any, suffix: str) -> Any:
    """What is read after a tensor was written."""
    if isinstance(tensor, np.ndarray):
        return tensor
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"saved{suffix}"
        ow.write(path, tensor)
        return ow.read(path)


def corrupted(suffix: str) -> Any:
    """Read a file that holds something else."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"saved{suffix}"
        path.write_bytes(b"not an archive")
        return ow.read(path)


def arrays() -> dict[str, Any]:
    """The dense arrays by name."""
    a = np.array([[0, 5.0, 0, -2], [3, 0, 0, 1], [0, 0, 7, 4]])
    t = np.array([[1.0, 5, 0, 0], [0, 0, -6, 1], [2, 0, 7, 0]])
    s = np.array([[4.0, 1, 0, 0], [0, 3, 0, -1], [2, 0, 5, 0], [0, 0, 1, 6]])
    n = np.zeros((2, 3, 4))
    n[0, 1], n[1, :, 2], n[1, 0, 0] = [1, 0, -3, 2], [4, 0, 5], 9
    return {
        "A": a, "C": a, "O": a, "T": t, "S": s, "N": n, "E": np.zeros((0, 4)),
        "Spd": s @ s.T, "Full": a + 10, "P": abs(a) / 10, "F": np.where(a == 0, 2.0, a),
        "I": a.astype(int), "J": t.astype(int), "B": a > 0, "Z": a + 1j * t,
        "H": a.astype("float16"), "v": np.array([0, 2.0, 0, -1]),
        "Nan": np.where(a == 3, np.nan, a),
    }  # fmt: skip


_FORMATS = {"C": ow.CSC, "O": ow.COO(2), "N": ow.CSF(3), "v": ow.CSF(1)}


def given() -> tuple[dict[str, Any], dict[str, Any]]:
    """What the names of cases stand for: tensors, and dense arrays."""
    dense = arrays()
    fills = {"F": 2.0}
    tensors = {
        name: ow.tensor(array, format=_FORMATS.get(name, ow.CSR), fill=fills[name], name=name)
        if name in fills
        else ow.tensor(array, format=_FORMATS.get(name, ow.CSR), name=name)
        for name, array in dense.items()
    }
    both = {
        "D": dense["T"], "w": np.array([1.0, -2, 0, 3]), "u": np.array([2.0, 0, -1]),
        "X": np.array([[1.0, 2], [0, -1], [3, 0], [1, 1]]), "np": np, "ow": ow, "sp": sparse,
        "linalg": linalg, "operator": operator, "pickle": pickle, "assigned": assigned,
        "saved": saved, "corrupted": corrupted,
    }  # fmt: skip
    return {**both, **tensors}, {**both, **dense}


def same(ours: Any, wanted: Any) -> bool:
    """Whether two results are alike: shapes, types and values."""
    if isinstance(wanted, (tuple, list)):
        pairs = zip(ours, wanted, strict=True)
        return all(same(one, other) for one, other in pairs)
    if isinstance(wanted, (str, bool, np.dtype, int)) or wanted is None:
        return bool(ours == wanted)
    one = np.asarray(ours.to_numpy() if isinstance(ours, ow.Tensor) else ours)
    other = np.asarray(wanted)
    if one.shape != other.shape or one.dtype.kind != other.dtype.kind:
        return False
    return np.allclose(one, other, rtol=1e-6, equal_nan=True)
