"""Matrices of records from meshes and circuits: what mathematics says of them, and of products.

Elasticity has 3x3 blocks, the Dirac operator of a surface quaternions; others are complex.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from examples.meshes import (
    Assembled,
    Mesh,
    box,
    dirac,
    elasticity,
    read_medit,
    read_off,
    refined,
    rigid_motions,
    torus,
)
from scipy.sparse import linalg

import openwork as ow

pytestmark = [pytest.mark.needs_cc, pytest.mark.optimized]

Find = Callable[[str], Path]
BLOCK, VECTOR, QUATERNION = ow.entry.block(3, 3), ow.entry.vector(3), ow.entry.quaternion()
LAYOUTS = ("AoS", "SoA", "AoSoA(8)", "packed")
GENERATED = {"box": lambda: box(3), "torus": lambda: torus(12, 9)}
REAL = {"wheelset": "wheelset_tet.mesh.gz", "aneurysm": "aneurysm_tet.mesh.gz"}
REAL |= {"spot": "spot.off.gz"}


def mesh_of(name: str, find: Callable[[], Find]) -> Mesh:
    if name in GENERATED:
        return GENERATED[name]()
    path = find()(REAL[name])
    return read_off(path) if ".off" in path.name else read_medit(path)


@pytest.fixture
def mesh(request: pytest.FixtureRequest) -> Mesh:
    return mesh_of(request.param, lambda: request.getfixturevalue("data_file"))


def solids(function: Any) -> Any:
    names = ["box", *(pytest.param(n, marks=pytest.mark.needs_data) for n in REAL if n != "spot")]
    return pytest.mark.parametrize("mesh", names, indirect=True)(function)


def surfaces(function: Any) -> Any:
    names = ["torus", pytest.param("spot", marks=pytest.mark.needs_data)]
    return pytest.mark.parametrize("mesh", names, indirect=True)(function)


def tensor(made: Assembled, kind: Any, scale: float = 1.0) -> ow.Tensor:
    arrays = [None, (made.pos, made.crd)]
    return ow.from_arrays(ow.CSR, made.shape, arrays, kind.records(made.values * scale), name="A")


def largest(made: Assembled) -> float:
    return float(np.abs(made.values).max())


def products(A: ow.Tensor, x: np.ndarray[Any, Any], kind: Any) -> Any:
    """A x by every format and layout, (rows, ...)."""
    for format in (ow.CSR, ow.ELL, ow.SELL(16), ow.DCSR, ow.CSC):
        for layout in LAYOUTS if format in (ow.CSR, ow.SELL(16)) else ("AoS",):
            vector = ow.tensor(x, dtype=kind, name="x")
            yield (A.to(format.with_layout(layout)) @ vector).to_numpy()


# -- elasticity -----------------------------------------------------------------------------------


@solids
def test_no_force_resists_rigid_motions(mesh: Mesh) -> None:
    """Translations and rotations, and nothing else, are the null space without supports."""
    made = elasticity(mesh)
    A, motions = tensor(made, BLOCK), rigid_motions(mesh.corners)
    for turn in range(6):
        x = motions[:, :, turn]
        scale = largest(made) * np.abs(x).max()
        for y in products(A, x, VECTOR):
            assert np.abs(y).max() < 1e-10 * scale
    stretched = A @ ow.tensor(mesh.corners, dtype=VECTOR)
    assert np.abs(stretched.to_numpy()).max() > 1e-3 * largest(made)


@solids
def test_elasticity_is_symmetric(mesh: Mesh) -> None:
    """The block at (j, i) is the transpose of that at (i, j), and so is every product."""
    made = elasticity(mesh)
    A = tensor(made, BLOCK)
    apart = (ow.conj(A).T - A).to_coo()[1]
    assert np.abs(apart).max() < 1e-12 * largest(made)
    rng = np.random.default_rng(0)
    u, v = (ow.tensor(rng.standard_normal((A.shape[0], 3)), dtype=VECTOR) for _ in "uv")
    one, other = ((a.to_numpy() * (A @ b).to_numpy()).sum() for a, b in ((u, v), (v, u)))
    assert np.isclose(one, other, rtol=1e-9, atol=1e-9 * largest(made))


def test_eigenvalues_of_elasticity_are_those_of_the_expansion() -> None:
    A = tensor(elasticity(box(2)), BLOCK)
    values = np.linalg.eigvalsh(A.expand().to_numpy())
    assert (np.abs(values[:6]) < 1e-12).all() and values[6] > 1e-3
    size = 3 * A.shape[0]

    def times(x: Any) -> Any:
        return (A @ ow.tensor(x.reshape(-1, 3), dtype=VECTOR)).to_numpy().reshape(-1)

    operator = linalg.LinearOperator((size, size), matvec=times, dtype="float64")
    found = linalg.eigsh(operator, 1, which="LA", return_eigenvectors=False)
    np.testing.assert_allclose(found, values[-1:], rtol=1e-8)


@pytest.mark.needs_data
def test_elasticity_agrees_with_the_expanded_matrix_in_the_data(data_file: Find) -> None:
    """An independent assembly, up to the constants of the material."""
    made = elasticity(read_medit(data_file("wheelset_tet.mesh.gz")))
    other = ow.read(data_file("fem_wheelset_elastic.mtx.gz")).to("CSR").to_scipy().tobsr((3, 3))
    np.testing.assert_array_equal(made.pos, other.indptr)
    np.testing.assert_array_equal(made.crd, other.indices)
    ratio = other.data[0, 0, 0] / made.values[0, 0, 0]
    apart = np.abs(made.values * ratio - other.data).max()
    assert apart < 1e-9 * np.abs(other.data).max()


# -- the Dirac operator ---------------------------------------------------------------------------


@surfaces
def test_the_dirac_operator_is_hermitian_and_vanishes_on_constants(mesh: Mesh) -> None:
    made = dirac(mesh, 0.0)
    A = tensor(made, QUATERNION)
    apart = (ow.conj(A).T - A).to_coo()[1]
    assert np.abs(apart).max() < 1e-12 * largest(made)
    constant = np.tile([1.0, -2.0, 0.5, 3.0], (len(mesh.corners), 1))
    for y in products(A, constant, QUATERNION):
        assert np.abs(y).max() < 1e-10 * largest(made)


def test_eigenvalues_of_the_dirac_operator_are_those_of_the_expansion() -> None:
    A = tensor(dirac(torus(7, 6)), QUATERNION)
    values = np.linalg.eigvalsh(A.expand().to_numpy())
    assert values[0] > 0
    np.testing.assert_allclose(values[::4], values[3::4])  # each belongs to a quaternion
    size = 4 * A.shape[0]

    def times(x: Any) -> Any:
        return (A @ ow.tensor(x.reshape(-1, 4), dtype=QUATERNION)).to_numpy().reshape(-1)

    operator = linalg.LinearOperator((size, size), matvec=times, dtype="float64")
    found = linalg.eigsh(operator, 1, which="LA", return_eigenvectors=False)
    np.testing.assert_allclose(found, values[-1:], rtol=1e-8)


@pytest.mark.needs_data
def test_the_dirac_operator_agrees_with_the_expanded_matrix_in_the_data(data_file: Find) -> None:
    """An independent assembly of D* D, whose order of components and scale are its own."""
    made = dirac(read_off(data_file("spot.off.gz")), 0.0)
    other = ow.read(data_file("dirac_spot_4x4.mtx.gz")).to("CSR").to_scipy().tobsr((4, 4))
    np.testing.assert_array_equal(made.pos, other.indptr)
    np.testing.assert_array_equal(made.crd, other.indices)
    norms = np.linalg.norm(made.values, axis=1)
    others = np.linalg.norm(other.data[:, 0], axis=1)
    off = np.repeat(np.arange(len(made.pos) - 1), np.diff(made.pos)) != made.crd
    ratio = (others[off] * norms[off]).sum() / (norms[off] ** 2).sum()
    assert np.abs(others[off] - ratio * norms[off]).max() < 1e-9 * others.max()


def test_a_square_as_a_statement() -> None:
    """D* D by the compiler is what the sum over faces gives."""
    corners, faces = torus(9, 6)
    made = dirac(Mesh(corners, faces), 0.0)
    edges = corners[np.roll(faces, 1, axis=1)] - corners[np.roll(faces, -1, axis=1)]
    areas = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1) / 2
    values = np.zeros((faces.size, 4))
    values[:, 1:] = (-edges / (2 * areas[:, None, None])).reshape(-1, 3)
    coords = np.array([np.repeat(np.arange(len(faces)), 3), faces.reshape(-1)])
    D = ow.tensor((coords, values), shape=(len(faces), len(corners)), dtype=QUATERNION, name="D")
    S = ow.empty((len(corners),) * 2, dtype=QUATERNION, format=ow.CSR, name="S")
    w = ow.tensor(areas, name="w")
    found = ow.parse("S(i,j) = conj(D(f,i)) * w(f) * D(f,j)", S=S, D=D, w=w).compile()()
    where, numbers = found.to_coo()
    np.testing.assert_array_equal(where[1], made.crd)
    np.testing.assert_allclose(numbers, made.values, atol=1e-12)


# -- meshes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GENERATED)
def test_refinement_keeps_volume_and_area(name: str) -> None:
    mesh = GENERATED[name]()
    finer = refined(mesh)
    kind = mesh.cells.shape[1]
    assert len(finer.cells) == len(mesh.cells) * (4 if kind == 3 else 8)
    assert len(np.unique(finer.cells)) == len(finer.corners)

    def size(of: Mesh) -> float:
        sides = of.corners[of.cells[:, 1:]] - of.corners[of.cells[:, :1]]
        return float(np.sqrt(np.linalg.det(sides @ sides.transpose(0, 2, 1))).sum())

    assert np.isclose(size(finer), size(mesh), rtol=1e-12)


# -- complex numbers ------------------------------------------------------------------------------


@pytest.mark.needs_data
@pytest.mark.parametrize("name", ["qc324", "mhd1280a", "mhd1280b", "ybus_ACTIVSg25k"])
@pytest.mark.parametrize("layout", ["AoS", "SoA"])
def test_complex_matrices_as_records(name: str, layout: str, data_file: Find) -> None:
    """Products as NumPy's complex numbers give them, and the symmetries in the manifest."""
    kind = ow.entry.complex()
    plain = ow.read(data_file(f"{name}.mtx.gz")).to("CSR").to_scipy()
    arrays = [None, (plain.indptr, plain.indices)]
    values = kind.records(plain.data.view(float).reshape(-1, 2))
    A = ow.from_arrays(ow.CSR, plain.shape, arrays, values).to(ow.CSR.with_layout(layout))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((plain.shape[1], 2))
    y = (A @ ow.tensor(x, dtype=kind)).to_numpy().view(complex).reshape(-1)
    wanted = plain @ x.view(complex).reshape(-1)
    scale = (abs(plain) @ abs(x.view(complex)).reshape(-1)).max()
    assert np.abs(y - wanted).max() < 1e-13 * scale
    if name in ("mhd1280b", "qc324"):
        flipped = (ow.conj(A) if name == "mhd1280b" else A).T.to(ow.CSR).to_scipy()
        assert abs(sp.csr_array(flipped) - plain).max() <= 1e-15 * abs(plain).max()
