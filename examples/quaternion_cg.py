"""Conjugate gradients on quaternions: the Dirac operator of a triangle mesh.

The operator is that of Crane, Pinkall and Schröder, *Spin transformations of discrete surfaces*
(2011): a face has the quaternions -e / (2 area) for its corners, where e is the edge opposite to a
corner, as an imaginary quaternion. D* D is Hermitian; its null space is the constants, which a
multiple of the corners' areas removes. The only products of a solver are statements:

    q(i) = A(i,j) * p(j)                          the product
    s = real(conj(p(i)) * q(i))                   dots and squared norms, which are real
    x(i) = y(i) + up / down * p(i)                axpby, with a quotient of two dots

They fuse. `b(i) - A(i,j) * x(j)` is an axpby in the loop over the rows of the product, and its norm
needs no vector at all: each row's residual is in registers, and its square is added. A schedule
says who adds: threads share the rows, or the blocks of a grid of constant size stride over them.

    python examples/quaternion_cg.py              a torus
    python examples/quaternion_cg.py spot.off.gz  a mesh
    python examples/quaternion_cg.py torus cuda   on a GPU; cuda-emulated without one
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse.linalg as linalg
from meshes import Mesh, read_off, torus

import openwork as ow

Q = ow.entry.quaternion("float64")
SHIFT = 1.0
TOLERANCE = 1e-8
ADDED_UP = {
    "cpu": "parallelize(i,CPUThread,ParallelReduction)",
    "cuda": """split(i,tile,row,128), divide(tile,turn,t1,264,assign=stride),
        parallelize(turn,GPUBlock,Atomics,threads=128,blocks_per_sm=2),
        parallelize(row,GPUThread,ParallelReduction)""",
}

# -- the operator ---------------------------------------------------------------------------------


def dirac(mesh: Mesh, shift: float = SHIFT) -> ow.Tensor:
    """D* D as a sparse matrix of quaternions, with `shift` times the area of each corner added."""
    corners, faces = mesh
    count = len(corners)
    edges = corners[np.roll(faces, 1, axis=1)] - corners[np.roll(faces, -1, axis=1)]
    areas = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1) / 2
    values = np.zeros((faces.size, 4))
    values[:, 1:] = (-edges / (2 * areas[:, None, None])).reshape(-1, 3)
    coords = np.array([np.repeat(np.arange(len(faces)), 3), faces.reshape(-1)])
    shape = (len(faces), count)
    D = ow.tensor((coords, values), shape=shape, dtype=Q, format=ow.CSR, name="D")
    squares = ow.parse(
        "S(i,j) = conj(D(f,i)) * w(f) * D(f,j)",
        S=ow.empty((count, count), dtype=Q, format=ow.CSR, name="S"),
        D=D,
        w=ow.tensor(areas, name="w"),
    ).compile()()
    mass = np.bincount(faces.reshape(-1), np.repeat(areas / 3, 3), minlength=count)
    diagonal = np.zeros((count, 4))
    diagonal[:, 0] = shift * mass
    where = np.array([np.arange(count)] * 2)
    M = ow.tensor((where, diagonal), shape=(count, count), dtype=Q, format=ow.CSR)
    made: ow.Tensor = (squares + M).rename("A")
    return made


# -- the solver -----------------------------------------------------------------------------------


@dataclass
class Kernels:
    """The statements of conjugate gradients for one matrix, compiled for a target."""

    A: ow.Tensor
    target: str

    def __post_init__(self) -> None:
        rows = self.A.shape[0]
        vector = {name: ow.placeholder(name, order=1, dtype=Q) for name in "bpqxy"}
        number = {name: ow.placeholder(name, order=0) for name in ("up", "down")}
        s, new = ow.empty((), name="s"), ow.empty(rows, dtype=Q, name="new")

        def compiled(text: str, schedule: str = "") -> Callable[..., ow.Tensor]:
            known = {"A": self.A, "s": s, "new": new, **vector, **number}
            used: dict[str, Any] = {
                name: each for name, each in known.items() if _names(text, name)
            }
            statement = ow.parse(text, **used)
            statement = statement.schedule(schedule) if schedule else statement
            return statement.compile(target=self.target)

        self.times = compiled("new(i) = A(i,j) * p(j)")
        added_up = ADDED_UP[self.target.removesuffix("-emulated")]
        self.dot = compiled("s = real(conj(p(i)) * q(i))", added_up)
        self.plus = compiled("new(i) = y(i) + up / down * p(i)")
        self.minus = compiled("new(i) = y(i) - up / down * p(i)")
        self.residual = compiled("new(i) = b(i) - A(i,j) * x(j)")
        difference = "(b(i) - sum(j, A(i,j) * x(j)))"
        self.missing = compiled(f"s = real(conj{difference} * {difference})", added_up)

    def on_device(self, array: np.ndarray[Any, Any]) -> ow.Tensor:
        """A vector of quaternions where the kernels run."""
        made = ow.tensor(array, dtype=Q)
        return made.to("cuda") if self.target == "cuda" else made


def _names(text: str, name: str) -> bool:
    return name in text.replace("(", " ").replace(")", " ").replace(",", " ").split()


def solve(
    kernels: Kernels, b: ow.Tensor, tolerance: float = TOLERANCE
) -> tuple[ow.Tensor, int, float]:
    """The solution of A x = b, the number of iterations, and how small |b - A x| / |b| is.

    The scalars of an iteration stay where the vectors are; the host reads one to know when to stop.
    """
    x = kernels.on_device(np.zeros((b.shape[0], 4)))
    r = kernels.residual(b=b, x=x)
    p, up = r, kernels.dot(p=r, q=r)
    first = float(up.to_numpy())
    count = 0
    while float(up.to_numpy()) > tolerance**2 * first and count < 10 * b.shape[0]:
        count += 1
        q = kernels.times(p=p)
        down = kernels.dot(p=p, q=q)
        x = kernels.plus(y=x, p=p, up=up, down=down)
        r = kernels.minus(y=r, p=q, up=up, down=down)
        before, up = up, kernels.dot(p=r, q=r)
        p = kernels.plus(y=r, p=p, up=up, down=before)
    missing = float(kernels.missing(b=b, x=x).to_numpy())
    return x, count, (missing / first) ** 0.5 if first else 0.0


def operator(kernels: Kernels) -> linalg.LinearOperator:
    """The matrix as SciPy's solvers take it: on the vector of all numbers."""
    size = 4 * kernels.A.shape[0]

    def product(v: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return kernels.times(p=kernels.on_device(v.reshape(-1, 4))).to_numpy().reshape(-1)

    return linalg.LinearOperator((size, size), matvec=product, rmatvec=product, dtype="float64")


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "torus"
    target = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    A = dirac(torus() if name == "torus" else read_off(name))
    kernels = Kernels(A, target)
    numbers = np.random.default_rng(1).standard_normal((A.shape[0], 4))
    x, count, missing = solve(kernels, kernels.on_device(numbers))
    print(f"{A}\nconjugate gradients: {count} iterations, |b - A x| / |b| = {missing:.1e}")

    seen: list[None] = []
    whole = operator(kernels), numbers.reshape(-1)
    found, _ = linalg.cg(*whole, rtol=TOLERANCE, callback=lambda _: seen.append(None))
    apart = abs(found.reshape(-1, 4) - x.to_numpy()).max() / abs(found).max()
    print(f"scipy.sparse.linalg.cg: {len(seen)} iterations, the solutions differ by {apart:.1e}")
    if not (missing < 10 * TOLERANCE and apart < 1e-6):
        raise SystemExit("the answer is wrong")


if __name__ == "__main__":
    main()
