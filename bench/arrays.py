"""What NumPy and SciPy users call, beside NumPy, SciPy and networkx: one row a line of the issue.

    python bench/arrays.py [part ...] [--only text] [--keep times.json] [--before times.json]

Parts: orders, calls, reductions, functions, small, lists, solvers, graphs; all if none is named.
Each figure is the least of many short runs, in turns with the other side's, on one thread, BLAS
included. `--only` takes the lines with some text, `--keep` adds the ratios to a file; `--before`
shows those of such a file, too.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph, linalg
from small_dense import OPERATIONS

import openwork as ow

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import graphs

Call = Callable[[], Any]


class Row(NamedTuple):
    """One measurement: our call, another that does the same, and the most it should take.

    `most` is a factor of the other's time, or, with `extra`, microseconds more than that.
    """

    line: str
    ours: Call
    other: Call
    most: float | None
    extra: bool = False


def times(calls: list[Call], seconds: float = 0.4) -> list[float]:
    """The least microseconds of each call, in turns."""
    numbers = []
    for call in calls:
        call()
        start = perf_counter()
        call()
        numbers.append(max(1, int(2e-4 / (perf_counter() - start))))
    least = [float("inf")] * len(calls)
    turns, end = 0, perf_counter() + seconds
    while turns < 5 or perf_counter() < end:
        for n, call in enumerate(calls):
            start = perf_counter()
            for _ in range(numbers[n]):
                call()
            least[n] = min(least[n], 1e6 * (perf_counter() - start) / numbers[n])
        turns += 1
    return least


def grid(side: int) -> Any:
    """The five-point Laplacian of a square grid, a little more than singular."""
    line = sparse.diags_array([-1.0, 2.0, -1.0], offsets=(-1, 0, 1), shape=(side, side))
    one = sparse.eye_array(side)
    return (
        sparse.kron(line, one) + sparse.kron(one, line) + 0.01 * sparse.eye_array(side**2)
    ).tocsr()


def orders() -> Iterator[Row]:
    """Products of several operands, against the best order by hand."""
    rng = np.random.default_rng(0)
    dense = [rng.random((200, 200)) for _ in range(4)]
    tensors = [ow.tensor(each) for each in dense]
    yield Row(
        "einsum of four dense 200x200, NumPy by hand",
        lambda: ow.einsum("ij,jk,kl,lm->im", *tensors),
        lambda: np.linalg.multi_dot(dense),
        1.3,
    )
    A = ow.random((20_000, 20_000), 20 / 20_000, rng=0, format="CSR")
    x = ow.tensor(rng.random(20_000))
    At = A.T
    for name, left in (("A(i,j)", A), ("A(j,i)", At)):
        text = f"y(i) = {name} * B(j,k) * x(k)"
        y = ow.empty(20_000)
        kernel = ow.parse(text, y=y, A=A.rename("A"), B=A, x=x).compile()
        by_steps = partial(lambda left: left @ (A @ x), left)
        yield Row(f"`{text}`, in two products", kernel, by_steps, 1.3)
    core = ow.random((300, 300, 300), 100_000 / 300**3, rng=0, format="CSF(3)")
    U, V, W = (ow.tensor(rng.random((300, width))) for width in (10, 12, 8))

    def by_hand() -> Any:
        by_k = ow.einsum("ijk,kc->ijc", core, W)
        by_j = ow.einsum("ijc,jb->ibc", by_k, V)
        return ow.einsum("ibc,ia->abc", by_j, U)

    yield Row("Tucker core of 100,000 entries, in three products",
              lambda: ow.einsum("ijk,ia,jb,kc->abc", core, U, V, W), by_hand, 1.3)  # fmt: skip
    C, D = (rng.random((300, 300)) for _ in range(2))
    c, d = ow.tensor(C), ow.tensor(D)
    R = ow.empty((300, 300))
    statement = ow.parse("R(i,k) = A(i,j) * B(j,k)", R=R, A=c, B=d).compile()
    yield Row("statement of a dense product 300x300, NumPy", statement, lambda: C @ D, 1.3)


def calls() -> Iterator[Row]:
    """Other operands at each call."""
    rng = np.random.default_rng(0)
    for size, entries in ((100, 1_000), (3600, 18_000)):
        S = grid(60) if size == 3600 else sparse.random_array(
            (size, size), density=entries / size**2, rng=0, format="csr")  # fmt: skip
        A, v, w = ow.tensor(S, name="A"), rng.random(size), rng.random(size)
        kernel = ow.parse("y(i) = A(i,j) * x(j)", A=A, x=ow.tensor(v)).compile()
        kernel()
        named = f"{size:,} rows, {S.nnz:,} entries"
        yield Row(f"`kernel(x=v)` over `kernel()`, {named}", partial(kernel, x=w), kernel, 3, True)
        yield Row(f"`A @ v` over SciPy's, {named}", partial(lambda A, v: A @ v, A, v),
                  partial(lambda S, v: S @ v, S, v), 11, True)  # fmt: skip


def reductions() -> Iterator[Row]:
    """Reductions whose else is not the identity, against one whose else is."""
    n = 10_000
    A = ow.random((n, n), 20 / n, rng=0, format="CSR")
    labels = ow.tensor(np.arange(float(n)), name="l")
    texts = [f"y(i) = min(j, select(A(i,j) > 0, l(j), {other}))" for other in ("7", "inf")]
    counted, identity = (ow.parse(text, A=A, l=labels).compile() for text in texts)
    yield Row("min(j, select(A(i,j) > 0, l(j), 7)), with inf for 7", counted, identity, 2)
    whole = ow.parse("y = max(i, max(j, A(i,j)))", A=A).compile()
    S = A.to_scipy()
    yield Row("max(i, max(j, A(i,j))), `S.max()`", whole, S.max, 2)


def functions() -> Iterator[Row]:
    """Functions of dense elements, against NumPy's."""
    rng = np.random.default_rng(0)
    for type in (np.float64, np.float32):
        a = (3 * rng.standard_normal(100_000)).astype(type)
        for name in ("exp", "log", "sin", "cos", "tanh", "expm1"):
            call = getattr(np, name)
            array = np.exp(a) if name == "log" else a
            named = f"`np.{name}(a)` of 100,000 {np.dtype(type).name}"
            yield Row(named, partial(call, ow.tensor(array)), partial(call, array), 2)


def small() -> Iterator[Row]:
    """Small dense operations, against NumPy's."""
    rng = np.random.default_rng(0)
    for text, operation in OPERATIONS.items():
        for size in (10, 1_000, 100_000):
            side = int(size**0.5)
            arrays = [rng.random(shape) for shape in (size, size, (side, side), side)]
            tensors = [ow.tensor(array) for array in arrays]
            yield Row(f"`{text}`, {size:,} elements", partial(operation, *tensors),
                      partial(operation, *arrays), 2 if size > 10 else None)  # fmt: skip


def lists() -> Iterator[Row]:
    """Entries as lists, and sums, against SciPy's."""
    for size, each in ((3_600, 5), (100_000, 10)):
        S = sparse.random_array((size, size), density=each / size, rng=0, format="csr")
        A = ow.tensor(S)
        yield Row(
            f"`A.to_coo()` of {S.nnz:,} entries", A.to_coo, lambda S=S: S.tocoo(copy=True), 1.2
        )
        for axis in (None, 0, 1):
            yield Row(f"`A.sum({'' if axis is None else axis})` of {S.nnz:,} entries",
                      partial(A.sum, axis), partial(S.sum, axis), 1.2)  # fmt: skip


def solvers() -> Iterator[Row]:
    """SciPy's solvers with a tensor, against its own matrix."""
    S = grid(60)
    A, n = ow.tensor(S), S.shape[0]
    rng = np.random.default_rng(0)
    b, start, block = rng.random(n), rng.random(n), rng.random((n, 4))
    solve: dict[str, Callable[[Any], Any]] = {
        "cg": lambda M: linalg.cg(M, b, rtol=1e-8),
        "gmres": lambda M: linalg.gmres(M, b, rtol=1e-6, restart=30, maxiter=5),
        "minres": lambda M: linalg.minres(M, b, rtol=1e-8),
        "eigsh": lambda M: linalg.eigsh(M, k=4, v0=start, tol=1e-4),
        "svds": lambda M: linalg.svds(M, k=4, v0=start, tol=1e-4),
        "lobpcg": lambda M: linalg.lobpcg(M, block.copy(), largest=True, maxiter=30, tol=1e-3),
    }
    for name, call in solve.items():
        yield Row(f"`{name}`, {S.nnz:,} entries", partial(call, A), partial(call, S), 1.3)
    exp = linalg.expm_multiply
    yield Row(f"`expm_multiply(A.to_scipy(share=True), b)`, {S.nnz:,} entries",
              lambda: exp(A.to_scipy(share=True), b), lambda: exp(S, b), 1.3)  # fmt: skip
    operator, trace = linalg.aslinearoperator(A), float(A.trace())
    theirs = linalg.aslinearoperator(S)
    yield Row(f"`expm_multiply(aslinearoperator(A), b, traceA)`, {S.nnz:,} entries",
              lambda: exp(operator, b, traceA=trace), lambda: exp(S, b), None)  # fmt: skip
    as_operator = partial(exp, operator, b, traceA=trace)
    yield Row("the same, beside SciPy's matrix as an operator", as_operator,
              partial(exp, theirs, b, traceA=trace), 1.3)  # fmt: skip


def walks() -> Iterator[Row]:
    """The algorithms of examples/graphs.py, against SciPy's and networkx's."""
    networkx = import_module("networkx") if find_spec("networkx") else None
    theirs: Any = csgraph
    for size, degree in ((1_000, 8), (10_000, 16), (100_000, 16)):
        S = graphs.random_graph(size, degree)
        ones = sparse.csr_array((np.ones(S.nnz), S.indices, S.indptr), S.shape)
        graph, named = graphs.Graph(S), f"{size:,} vertices, {S.nnz:,} edges"
        pairs = {
            "BFS": (partial(graphs.bfs, graph, 0), partial(theirs.breadth_first_order, S, 0)),
            "SSSP": (partial(graphs.sssp, graph, 0), partial(theirs.dijkstra, S, indices=0)),
            "components": (
                partial(graphs.components, graph),
                partial(theirs.connected_components, S, directed=False),
            ),
            "triangles": (partial(graphs.triangles, graph), partial(wedges, ones)),
        }
        if networkx is not None and size <= 10_000:  # its graphs take long to make
            net = networkx.from_scipy_sparse_array(S, create_using=networkx.DiGraph)
            pairs["PageRank"] = partial(graphs.pagerank, graph), partial(networkx.pagerank, net)
        for name, (ours, other) in pairs.items():
            yield Row(f"{name}, {named}", ours, other, 2)


def wedges(ones: Any) -> float:
    """Six times the triangles of a symmetric graph, as SciPy has them."""
    return float((ones @ ones).multiply(ones).sum())


PARTS = {
    "orders": orders, "calls": calls, "reductions": reductions, "functions": functions,
    "small": small, "lists": lists, "solvers": solvers, "graphs": walks,
}  # fmt: skip


def measured(row: Row) -> tuple[float, float]:
    """Microseconds of both sides."""
    ours, other = times([row.ours, row.other])
    return ours, other


def shown(microseconds: float) -> str:
    """A time with three digits."""
    unit, scale = ("ms", 1e3) if microseconds >= 1e3 else ("µs", 1.0)
    return (
        f"{microseconds / scale:.3g} {unit}"
        if microseconds < 1e6
        else f"{microseconds / 1e3:,.0f} ms"
    )


def main(words: list[str]) -> None:
    ow.set_num_threads(1)
    named = dict(pairwise(words))
    before: dict[str, str] = {}
    if "--before" in words:
        before = json.loads(Path(named["--before"]).read_text())
    chosen = [word for word in words if word in PARTS] or list(PARTS)
    kept: dict[str, str] = {}
    head = "| line, and what it is compared with | ours | theirs | " + "before | " * bool(before)
    print(f"{head}now | at most |\n|---|---|---|---|---|{'---|' * bool(before)}")
    for part in chosen:
        for row in PARTS[part]():
            if named.get("--only", "") not in row.line:
                continue
            ours, other = measured(row)
            ratio = f"{ours - other:+.1f} µs" if row.extra else f"{ours / other:.2f}x"
            most = (
                "" if row.most is None else f"{row.most:+g} µs" if row.extra else f"{row.most:g}x"
            )
            over = row.most is not None and (ours - other if row.extra else ours / other) > row.most
            kept[row.line] = ratio
            was = f"{before.get(row.line, '')} | " if before else ""
            now = f"**{ratio}**" if over else ratio
            print(
                f"| {row.line} | {shown(ours)} | {shown(other)} | {was}{now} | {most} |", flush=True
            )
    if "--keep" in words:
        path = Path(named["--keep"])
        old = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(old | kept, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # libraries read it when they are loaded
        alone = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **alone})  # noqa: S606
    main(sys.argv[1:])
