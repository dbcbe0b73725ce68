"""Graph algorithms as GraphBLAS has them: products of sparse vectors and matrices in semirings.

A graph is its adjacency matrix, A(i,j) the weight of the edge from i to j.

    q(j) = f(i) * A(i,j)    min_first    BFS: who can be reached from the frontier f
    q(j) = f(i) * A(i,j)    min_plus     SSSP: distances by way of those that became shorter
    q(j) = B(j,i) * x(i)                 SSSP from all vertices, where B is A transposed
    q(j) = l(j) + B(j,i) * x(i)   min_second   BFS from all vertices: their levels l, and x = l + 1
    m(i) = A(i,j) * f(j)    min_second   components: the least label among the neighbours
    t = L(i,j) * L(i,k) * L(j,k)  plus_pair    triangles: each once, from its largest corner
    y(i) = A(j,i) * s(j)                 PageRank

    python examples/graphs.py            compares each with SciPy's or networkx's
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

import openwork as ow

Integers = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.floating[Any]]
VECTOR = ow.CSF(1)
# A frontier with more than this part of the edges is pulled into all vertices at once; so is every
# one of a graph with so few edges that all are read before a frontier has become a tensor.
MANY, FEW = 0.05, 500_000


def sparse_vector(places: Integers, values: Any, size: int) -> ow.Tensor:
    """A sparse vector of entries in ascending order."""
    return ow.from_arrays(VECTOR, (size,), [([0, len(places)], places)], values)


class Graph:
    """An adjacency matrix by rows, and the kernels that walk along its edges.

    `few`: a graph with fewer edges is always walked from all vertices.
    """

    def __init__(self, matrix: Any, few: int = FEW) -> None:
        self.few = few
        self.A = ow.tensor(matrix, format=ow.CSR, name="A")
        self.size = self.A.shape[0]
        self.degrees: Integers = np.diff(matrix.indptr)
        self.levels = np.int16 if self.size < 2**15 - 1 else np.int32  # of a vertex: below `size`
        self.kernels: dict[str, ow.Kernel[ow.Tensor]] = {}
        self.f = sparse_vector(np.zeros(1, np.int32), np.ones(1), self.size).rename("f")

    @cached_property
    def back(self) -> ow.Tensor:
        """The edges by where they end."""
        return self.A.T.to("CSR").rename("B")

    def along(self, semiring: str) -> ow.Kernel[ow.Tensor]:
        """From a sparse frontier along its edges."""
        if semiring not in self.kernels:
            q = ow.empty((self.size,), format=VECTOR, name="q")
            text = "q(j) = f(i) * A(i,j)"
            statement = ow.parse(text, q=q, f=self.f, A=self.A, semiring=semiring)
            self.kernels[semiring] = statement.compile()
        return self.kernels[semiring]

    def into(self, semiring: str, dtype: str = "float64") -> ow.Kernel[ow.Tensor]:
        """From all vertices, which have a number of some type, along their edges."""
        if f"into {semiring}" not in self.kernels:
            x = ow.tensor(np.zeros(self.size, dtype))
            q = ow.empty(self.size, dtype=dtype)
            statement = ow.parse("q(j) = B(j,i) * x(i)", q=q, B=self.back, x=x, semiring=semiring)
            self.kernels[f"into {semiring}"] = statement.compile()
        return self.kernels[f"into {semiring}"]

    @cached_property
    def steps(self) -> ow.Kernel[ow.Tensor]:
        """The least of every vertex's own number and those along its edges."""
        own, x, q = (ow.tensor(np.zeros(self.size, self.levels)) for _ in "lxq")
        text = "q(j) = l(j) + B(j,i) * x(i)"
        statement = ow.parse(text, q=q, l=own, B=self.back, x=x, semiring="min_second")
        return statement.compile()

    def pulls(self, frontier: Integers) -> bool:
        """Whether all vertices look back, rather than a frontier ahead."""
        edges = self.A.nnz
        return edges < self.few or bool(self.degrees[frontier].sum() > MANY * edges)


def bfs(graph: Graph, source: int) -> Integers:
    """How many edges are between `source` and each vertex; -1 for those that are not reached.

    The direction follows the frontier: its few edges are pushed along, or all vertices look for a
    neighbour that is nearer.
    """
    far = graph.size  # of vertices that are not reached; no other is so far
    level = np.full(graph.size, far, graph.levels)
    level[source] = 0
    frontier: Integers = np.array([source], np.int32)
    depth = 0
    while len(frontier):
        depth += 1
        if graph.pulls(frontier):
            nearer = graph.steps(l=level, x=level + 1).to_numpy()
            frontier, level = np.flatnonzero(nearer < level), nearer
        else:
            f = sparse_vector(frontier, np.ones(len(frontier)), graph.size)
            (places,), _ = graph.along("min_first")(f=f).to_coo()
            frontier = places[level[places] == far]
            level[frontier] = depth
    level[level == far] = -1
    return level


def sssp(graph: Graph, source: int) -> Floats:
    """The distances from `source`; infinite for vertices that are not reached.

    Only vertices whose distance became shorter are in the frontier.
    """
    distance = np.full(graph.size, np.inf)
    distance[source] = 0
    frontier = np.array([source], np.int32)
    while len(frontier):
        if graph.pulls(frontier):
            found = graph.into("min_plus")(x=distance).to_numpy()
            frontier = np.flatnonzero(found < distance).astype(np.int32)
            distance[frontier] = found[frontier]
        else:
            f = sparse_vector(frontier, distance[frontier], graph.size)
            (places,), found = graph.along("min_plus")(f=f).to_coo()
            shorter = found < distance[places]
            frontier = places[shorter]
            distance[frontier] = found[shorter]
    return distance


def components(graph: Graph) -> Integers:
    """The least vertex of each one's component, of a symmetric matrix.

    Every vertex takes the least label around it, and then the label's own label.
    """
    label = np.arange(graph.size, dtype=np.float64)
    while True:
        around = ow.compute("m(i) = A(i,j) * x(j)", A=graph.A, x=label, semiring="min_second")
        least = np.minimum(label, around.to_numpy())
        # A parent's label falls, too, so that trees of labels merge.
        np.minimum.at(least, label.astype(np.int64), least)
        least = least[least.astype(np.int64)]
        if np.array_equal(least, label):
            return label.astype(np.int64)
        label = least


def triangles(graph: Graph) -> int:
    """How many triangles a symmetric graph has.

    Vertices are numbered by degree, so that no row of the lower triangle is long.
    """
    order = np.argsort(graph.degrees, kind="stable")
    S = graph.A.to_scipy(share=True)[order][:, order]
    L = ow.tensor(sparse.csr_array(sparse.tril(S, -1)), name="L")
    found = ow.einsum("ij,ik,jk->", L, L, L, semiring="plus_pair")
    return int(found)


def pagerank(graph: Graph, damping: float = 0.85, tolerance: float = 1e-6) -> Floats:
    """How often a surfer is at each vertex who follows edges, and jumps with 1 - `damping`."""
    n = graph.size
    out = np.asarray(graph.A.sum(axis=1).to_numpy())
    share: Floats = np.divide(1.0, out, out=np.zeros(n), where=out > 0)
    rank, back = np.full(n, 1 / n), graph.back
    while True:
        lost = rank[out == 0].sum()
        new: Floats = damping * (back.matvec(rank * share) + lost / n) + (1 - damping) / n
        if np.abs(new - rank).sum() < n * tolerance:
            return new
        rank = new


def random_graph(size: int, degree: int, seed: int = 0) -> Any:
    """A symmetric matrix of positive weights, with a heavy tail of degrees."""
    rng = np.random.default_rng(seed)
    count = size * degree // 2
    ends = (size * rng.random((2, count)) ** [[2.0], [1.0]]).astype(np.int32)
    kept = ends[0] != ends[1]
    pattern = sparse.coo_array((np.ones(kept.sum()), tuple(ends[:, kept])), shape=(size, size))
    upper = sparse.csr_array(sparse.triu(pattern + pattern.T, 1))
    upper.data = rng.random(upper.nnz) + 0.01
    return sparse.csr_array(upper + upper.T)


def seconds(work: Callable[[], Any], times: int = 5) -> float:
    """The least time of some runs."""
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return min(spent)


def agree(*answers: bool) -> None:
    """Stop if an answer is another than theirs."""
    if not all(answers):
        raise SystemExit("the answers differ")


def main(size: int = 100_000, degree: int = 16) -> None:
    """Compare results and times."""
    S = random_graph(size, degree)
    ones = S.copy()
    ones.data[:] = 1
    graph, theirs = Graph(S), cast(Any, csgraph)
    print(f"{size} vertices, {S.nnz} entries")
    count, labels = theirs.connected_components(S, directed=False)
    agree(
        (bfs(graph, 0) >= 0).sum() == (labels == labels[0]).sum(),
        np.allclose(sssp(graph, 0), theirs.dijkstra(S, indices=0)),
        len(np.unique(np.stack([components(graph), labels]), axis=1).T) == count,
        triangles(graph) * 6 == round(float((ones @ ones).multiply(ones).sum())),
    )
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "BFS": (lambda: bfs(graph, 0), lambda: theirs.breadth_first_order(S, 0)),
        "SSSP": (lambda: sssp(graph, 0), lambda: theirs.dijkstra(S, indices=0)),
        "components": (
            lambda: components(graph),
            lambda: theirs.connected_components(S, directed=False),
        ),
        "triangles": (lambda: triangles(graph), lambda: (ones @ ones).multiply(ones).sum()),
    }
    if find_spec("networkx") is not None:
        networkx = import_module("networkx")
        directed = networkx.from_scipy_sparse_array(S, create_using=networkx.DiGraph)
        ranks = networkx.pagerank(directed)
        agree(np.allclose([ranks[n] for n in range(size)], pagerank(graph), atol=1e-6))
        pairs["PageRank"] = lambda: pagerank(graph), lambda: networkx.pagerank(directed)
    for name, (ours, others) in pairs.items():
        mine, other = seconds(ours), seconds(others, 2)
        print(f"{name:12}{1e3 * mine:8.1f} ms, theirs {1e3 * other:8.1f} ms: {mine / other:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
