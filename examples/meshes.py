"""Matrices of blocks and quaternions, assembled from meshes.

Two operators: linear elasticity with linear elements on tetrahedra, whose entries are 3x3 blocks,
and D* D of the Dirac operator on triangles (Crane, Pinkall and Schröder, *Spin transformations of
discrete surfaces*, 2011), whose entries are quaternions.
"""

from __future__ import annotations

import gzip
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Mesh(NamedTuple):
    """Corners in space, and the corners of each triangle or tetrahedron."""

    corners: Array
    cells: Array


class Assembled(NamedTuple):
    """A square matrix by rows: `values` has the numbers of an entry in its last axes."""

    pos: Array
    crd: Array
    values: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, in entries."""
        return len(self.pos) - 1, len(self.pos) - 1


# -- meshes ---------------------------------------------------------------------------------------


def torus(around: int = 40, across: int = 24) -> Mesh:
    """The triangles of a torus."""
    u, v = np.meshgrid(np.arange(around), np.arange(across), indexing="ij")
    a, b = 2 * np.pi * u / around, 2 * np.pi * v / across
    ring = 2 + np.cos(b)
    corners = np.stack([ring * np.cos(a), ring * np.sin(a), np.sin(b)], axis=-1).reshape(-1, 3)

    def at(du: int, dv: int) -> Array:
        return ((u + du) % around * across + (v + dv) % across).reshape(-1)

    below = np.stack([at(0, 0), at(1, 0), at(1, 1)], axis=1)
    above = np.stack([at(0, 0), at(1, 1), at(0, 1)], axis=1)
    return Mesh(corners, np.concatenate([below, above]))


def box(side: int = 4) -> Mesh:
    """Tetrahedra of a unit cube: six in each of side**3 small cubes, around a diagonal."""
    grid = np.stack(np.meshgrid(*[np.arange(side + 1)] * 3, indexing="ij"), axis=-1)
    number = np.array([(side + 1) ** 2, side + 1, 1])
    first = grid[:-1, :-1, :-1].reshape(-1, 3) @ number
    cells = []
    for way in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        steps = np.cumsum([0, *number[list(way)]])
        cells.append(first[:, None] + steps)
    return Mesh(grid.reshape(-1, 3) / side, np.concatenate(cells))


def read_off(path: str | Path) -> Mesh:
    """The triangles of an OFF file, which may be gzipped."""
    words = _words(path)
    count, faces = int(words[1]), int(words[2])
    numbers = np.array(words[4:], dtype=float)
    corners = numbers[: 3 * count].reshape(count, 3)
    cells = numbers[3 * count : 3 * count + 4 * faces].reshape(faces, 4)
    return Mesh(corners, cells[:, 1:].astype(int))


def read_medit(path: str | Path) -> Mesh:
    """The tetrahedra of a Medit file, which may be gzipped."""
    words = _words(path)

    def table(name: bytes, width: int) -> Array:
        start = words.index(name) + 2
        count = int(words[start - 1])
        rows = np.array(words[start : start + count * width], dtype=float)
        return rows.reshape(count, width)[:, :-1]  # the last column is a label

    return Mesh(table(b"Vertices", 4), table(b"Tetrahedra", 5).astype(int) - 1)


def _words(path: str | Path) -> list[bytes]:
    data = Path(path).read_bytes()
    return (gzip.decompress(data) if str(path).endswith(".gz") else data).split()


def refined(mesh: Mesh) -> Mesh:
    """Each triangle as four, each tetrahedron as eight, with a corner more in each edge."""
    corners, cells = mesh
    count, sides = cells.shape[1], list(combinations(range(cells.shape[1]), 2))
    edges = np.sort(np.concatenate([cells[:, list(pair)] for pair in sides]), axis=1)
    keys, which = np.unique(edges[:, 0] * len(corners) + edges[:, 1], return_inverse=True)
    middle = (corners[keys // len(corners)] + corners[keys % len(corners)]) / 2
    number = dict(zip(sides, which.reshape(len(sides), -1) + len(corners), strict=True))
    at = {(n, n): cells[:, n] for n in range(count)} | number
    at |= {(b, a): new for (a, b), new in number.items()}
    made = [[at[n, m] for m in range(count)] for n in range(count)]
    if count == 3:
        made.append([at[0, 1], at[1, 2], at[0, 2]])
    else:  # the octahedron in the middle, around one of its diagonals
        one, other = at[0, 2], at[1, 3]
        for a, b in (((0, 1), (1, 2)), ((1, 2), (2, 3)), ((2, 3), (0, 3)), ((0, 3), (0, 1))):
            made.append([one, other, at[a], at[b]])
    new = np.concatenate([np.stack(cell, axis=1) for cell in made])
    return Mesh(np.concatenate([corners, middle]), new)


# -- operators ------------------------------------------------------------------------------------


def elasticity(mesh: Mesh, young: float = 1.0, poisson: float = 0.3) -> Assembled:
    """The stiffness matrix of linear elasticity in 3x3 blocks, without boundary conditions."""
    points = mesh.corners[mesh.cells]
    sides = points[:, 1:] - points[:, :1]
    volume = np.abs(np.linalg.det(sides)) / 6
    slopes = np.linalg.inv(sides).transpose(0, 2, 1)  # of the last three basis functions
    slopes = np.concatenate([-slopes.sum(axis=1, keepdims=True), slopes], axis=1)
    first = young * poisson / ((1 + poisson) * (1 - 2 * poisson))
    shear = young / (2 * (1 + poisson))

    def entry(a: int, b: int) -> Array:
        outer = slopes[:, a, :, None] * slopes[:, b, None, :]
        inner = np.einsum("cii->c", outer)[:, None, None] * np.eye(3)
        sheared = shear * (outer.transpose(0, 2, 1) + inner)
        made: Array = (first * outer + sheared) * volume[:, None, None]
        return made

    return _assembled(mesh, entry)


def rigid_motions(corners: Array) -> Array:
    """Three translations and three rotations, (corners, 3, 6): elasticity maps them to zero."""
    eye, zero = np.eye(3), np.zeros(len(corners))
    x, y, z = corners.T
    turns = np.stack(
        [np.stack(v, axis=1) for v in ((zero, -z, y), (z, zero, -x), (-y, x, zero))], axis=2
    )
    return np.concatenate([np.broadcast_to(eye, (len(corners), 3, 3)), turns], axis=2)


def dirac(mesh: Mesh, shift: float = 1.0) -> Assembled:
    """D* D as quaternions, with `shift` times the area of each corner added.

    A face has the imaginary quaternions -e / (2 area), where e is the edge opposite to a corner.
    """
    corners, cells = mesh
    edges = corners[np.roll(cells, 1, axis=1)] - corners[np.roll(cells, -1, axis=1)]
    area = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1) / 2

    def entry(a: int, b: int) -> Array:
        real = np.einsum("fi,fi->f", edges[:, a], edges[:, b])[:, None]
        imaginary = -np.cross(edges[:, a], edges[:, b])
        made: Array = np.concatenate([real, imaginary], axis=1) / (4 * area[:, None])
        if a == b:
            made[:, 0] += shift * area / 3
        return made

    return _assembled(mesh, entry)


def _assembled(mesh: Mesh, entry: Any) -> Assembled:
    """The sum of the cells' small matrices, with `entry(a, b)` between corners `a` and `b`."""
    corners, cells = mesh
    count, width = len(corners), cells.shape[1]
    pairs = [(a, b) for a in range(width) for b in range(width)]
    keys = np.concatenate([cells[:, a] * count + cells[:, b] for a, b in pairs])
    found, which = np.unique(keys, return_inverse=True)
    terms = np.concatenate([entry(a, b) for a, b in pairs])
    numbers = terms.reshape(len(terms), -1)
    sums = [np.bincount(which, column, len(found)) for column in numbers.T]
    values = np.stack(sums, axis=1).reshape(-1, *terms.shape[1:])
    pos = np.searchsorted(found, np.arange(count + 1) * count).astype(np.int32)
    return Assembled(pos, (found % count).astype(np.int32), values)
