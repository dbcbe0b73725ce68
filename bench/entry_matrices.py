"""Matrices whose entries are records: from meshes, circuits and physics, and generated ones.

Quaternions: D* D of the Dirac operator of a surface. 3x3 blocks: linear elasticity, and a graph of
poses in the plane. Complex: a power grid, magnetohydrodynamics, a molecule. `~8` and the like:
refined until there are about so many times as many rows.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import openwork as ow

sys.path.append(str(Path(__file__).parent.parent / "examples"))
meshes = importlib.import_module("meshes")

Array = np.ndarray[Any, Any]
SCALARS = ("float32", "float64")


class Matrix(NamedTuple):
    """A square matrix by rows; `values` has the numbers of an entry in its last axes."""

    name: str
    family: str
    pos: Array
    crd: Array
    values: Array

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.pos) - 1, len(self.pos) - 1

    @property
    def nnz(self) -> int:
        return len(self.crd)


def kinds(family: str, scalar: str) -> tuple[Any, Any]:
    """The types of a matrix and a vector."""
    entry = ow.entry
    if family == "block 3x3":
        return entry.block(3, 3, scalar), entry.vector(3, scalar)
    one = entry.quaternion(scalar) if family == "quaternion" else entry.complex(scalar)
    return one, one


def expanded(matrix: Matrix, scalar: str) -> Any:
    """The matrix for SciPy: BSR of real blocks, or complex CSR."""
    kind, _ = kinds(matrix.family, scalar)
    records = kind.records(matrix.values.astype(scalar))
    if matrix.family == "complex":
        values = matrix.values.astype(scalar).view(np.result_type(scalar, "complex64")).reshape(-1)
        return sp.csr_array((values, matrix.crd, matrix.pos), shape=matrix.shape)
    blocks = np.ascontiguousarray(kind.matrices(records))
    shape = tuple(n * blocks.shape[1] for n in matrix.shape)
    return sp.bsr_array((blocks, matrix.crd, matrix.pos), shape=shape)


def _surface(file: str, times: int) -> Callable[[Path], Any]:
    return lambda folder: meshes.dirac(_refined(meshes.read_off(folder / file), times))


def _solid(file: str, times: int) -> Callable[[Path], Any]:
    return lambda folder: meshes.elasticity(_refined(meshes.read_medit(folder / file), times))


def _refined(mesh: Any, times: int) -> Any:
    for _ in range(times):
        mesh = meshes.refined(mesh)
    return mesh


def _read(file: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        made = ow.read(folder / file).to("CSR").to_scipy()
        numbers = np.ascontiguousarray(made.data, complex).view(float).reshape(-1, 2)
        return meshes.Assembled(made.indptr, made.indices, numbers)

    return read


def _poses(folder: Path) -> Any:
    made = ow.read(folder / "pose2d_w10000_H.mtx.gz").to("CSR").to_scipy().tobsr((3, 3))
    return meshes.Assembled(made.indptr, made.indices, made.data)


def near(rows: int, each: int, *numbers: int, within: int = 40) -> Any:
    """`each` entries in a row, within so many of the diagonal, of random numbers."""
    rng = np.random.default_rng(0)
    row = np.repeat(np.arange(rows), each)
    column = np.clip(row + rng.integers(-within, within + 1, len(row)), 0, rows - 1)
    made = sp.csr_array((np.ones(len(row)), (row, column)), shape=(rows, rows))
    made.sum_duplicates()
    return meshes.Assembled(made.indptr, made.indices, rng.standard_normal((made.nnz, *numbers)))


MATRICES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "lucy ~16": ("quaternion", _surface("lucy.off.gz", 2)),
    "wheelset ~50": ("block 3x3", _solid("wheelset_tet.mesh.gz", 2)),
    "near, complex": ("complex", lambda folder: near(400_000, 15, 2)),
    "lucy ~4": ("quaternion", _surface("lucy.off.gz", 1)),
    "aneurysm ~8": ("block 3x3", _solid("aneurysm_tet.mesh.gz", 1)),
    "wheelset ~7": ("block 3x3", _solid("wheelset_tet.mesh.gz", 1)),
    "lucy": ("quaternion", _surface("lucy.off.gz", 0)),
    "spot ~4": ("quaternion", _surface("spot.off.gz", 1)),
    "spot": ("quaternion", _surface("spot.off.gz", 0)),
    "aneurysm": ("block 3x3", _solid("aneurysm_tet.mesh.gz", 0)),
    "wheelset": ("block 3x3", _solid("wheelset_tet.mesh.gz", 0)),
    "pose2d_w10000": ("block 3x3", _poses),
    "ybus_ACTIVSg25k": ("complex", _read("ybus_ACTIVSg25k.mtx.gz")),
    "mhd1280a": ("complex", _read("mhd1280a.mtx.gz")),
    "mhd1280b": ("complex", _read("mhd1280b.mtx.gz")),
    "qc324": ("complex", _read("qc324.mtx.gz")),
    "near, quaternions": ("quaternion", lambda folder: near(400_000, 15, 4)),
    "near, blocks": ("block 3x3", lambda folder: near(400_000, 15, 3, 3)),
    # Small ones without data, for checks.
    "torus": ("quaternion", lambda folder: meshes.dirac(meshes.torus(10, 7))),
    "box": ("block 3x3", lambda folder: meshes.elasticity(meshes.box(3))),
    "few, complex": ("complex", lambda folder: near(90, 6, 2)),
    "another torus": ("quaternion", lambda folder: meshes.dirac(meshes.torus(9, 12))),
}
CHECKED = ("torus", "box", "few, complex", "another torus")


def matrix(name: str, folder: Path) -> Matrix:
    """A matrix by its name, from the files in `folder`."""
    family, make = MATRICES[name]
    made = make(folder)
    narrow = (np.ascontiguousarray(a, np.int32) for a in (made.pos, made.crd))
    return Matrix(name, family, *narrow, made.values)
