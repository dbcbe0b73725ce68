"""Orders of products of three and more operands: the order that is chosen against all others.

    python bench/contractions.py [part of a name ...]

For each contraction: the time of the steps that are chosen, of one kernel, and of the best of all
trees of steps with two operands each. Trees that would take more than a second, or forty times the
best by estimate, are left out. All on one thread, BLAS included, so that neighbours of a busy
machine have less of a say.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

import openwork as ow
from openwork.tensor.contraction.kernel import Stepwise
from openwork.tensor.contraction.order import Search, Tree
from openwork.tensor.contraction.steps import Cutting
from openwork.tensor.measure import stored_in
from openwork.tensor.operand import Operand
from openwork.tensor.result_format import result_format
from openwork.tensor.statement import Statement

RNG = np.random.default_rng(5)
_MOST_SECONDS, _MOST_TIMES = 1.0, 40.0


def dense(*shape: int) -> Any:
    return ow.tensor(RNG.random(shape))


def matrix(rows: int, columns: int, per_row: float) -> Any:
    return ow.random((rows, columns), per_row / columns, rng=RNG, format="CSR")


def cube(extent: int, entries: int) -> Any:
    return ow.random((extent,) * 3, entries / extent**3, rng=RNG, format="CSF(3)")


def skewed(size: int, entries: int) -> Any:
    """A matrix whose rows and columns have very different numbers of entries."""
    at = (size * RNG.random((2, entries)) ** 3).astype(np.int64)
    at = np.unique(at, axis=1)
    return ow.tensor((at, RNG.random(at.shape[1])), "CSR", shape=(size, size))


def cases() -> dict[str, Callable[[], tuple[str, list[Any]]]]:
    """Contractions, by name: subscripts and operands."""
    N = 20_000
    return {
        "chain A A x": lambda: ("ij,jk,k->i", [A := matrix(N, N, 20), A, dense(N)]),
        "chain At A x": lambda: ("ji,jk,k->i", [A := matrix(N, N, 20), A, dense(N)]),
        "chain A A A x": lambda: ("ij,jk,kl,l->i", [(A := matrix(N, N, 10)), A, A, dense(N)]),
        "chain x A A": lambda: ("i,ij,jk->k", [dense(N), A := matrix(N, N, 20), A]),
        "chain x A y": lambda: ("i,ij,j->", [dense(N), matrix(N, N, 20), dense(N)]),
        "chain skewed": lambda: ("ij,jk,k->i", [A := skewed(N, 400_000), A, dense(N)]),
        "chain A B dense": lambda: ("ij,jk,kl->il", [matrix(N, N, 10), dense(N, 64), dense(64, 8)]),
        "chain dense A A": lambda: ("ai,ij,jk->ak", [dense(8, N), A := matrix(N, N, 10), A]),
        "chain sparse 3": lambda: ("ij,jk,kl->il", [matrix(3000, 3000, 5) for _ in range(3)]),
        "chain thin": lambda: (
            "ij,jk,kl->il", [matrix(5000, 5000, 8), matrix(5000, 300, 3), matrix(300, 40, 5)]),
        "dense chain 3": lambda: ("ij,jk,kl->il", [dense(300, 20), dense(20, 300), dense(300, 30)]),
        "dense chain 4": lambda: (
            "ij,jk,kl,lm->im", [dense(*s) for s in ((200, 200),) * 4]),
        "dense chain x": lambda: (
            "ij,jk,kl,l->i", [dense(400, 400), dense(400, 400), dense(400, 400), dense(400)]),
        "dense uneven": lambda: (
            "ij,jk,kl,lm->im", [dense(10, 500), dense(500, 20), dense(20, 500), dense(500, 30)]),
        "dense star": lambda: ("ia,ib,ic->abc", [dense(400, 20), dense(400, 30), dense(400, 10)]),
        "star scaled": lambda: ("i,ij,j->ij", [dense(N), matrix(N, N, 20), dense(N)]),
        "star masked": lambda: (
            "ij,ik,jk->ij", [matrix(3000, 3000, 20), dense(3000, 64), dense(3000, 64)]),
        "star private": lambda: ("ij,kj->i", [matrix(N, 500, 10), dense(300, 500)]),
        "triangles": lambda: ("ij,jk,ik->", [A := matrix(4000, 4000, 15), A, A]),
        "Tucker sparse": lambda: (
            "ijk,ia,jb,kc->abc",
            [cube(300, 100_000), dense(300, 10), dense(300, 12), dense(300, 8)]),
        "Tucker dense": lambda: (
            "ijk,ia,jb,kc->abc", [dense(60, 60, 60), dense(60, 8), dense(60, 8), dense(60, 8)]),
        "TTM chain": lambda: (
            "ijk,ja,kb->iab", [cube(300, 100_000), dense(300, 10), dense(300, 10)]),
        "Tucker back": lambda: (
            "abc,ia,jb,kc->ijk", [dense(8, 8, 8), dense(60, 8), dense(60, 8), dense(60, 8)]),
        "CP MTTKRP": lambda: (
            "ijk,jr,kr->ir", [cube(500, 200_000), dense(500, 16), dense(500, 16)]),
        "CP MTTKRP dense": lambda: (
            "ijk,jr,kr->ir", [dense(80, 80, 80), dense(80, 16), dense(80, 16)]),
        "CP inner": lambda: (
            "ijk,ir,jr,kr->r", [cube(400, 100_000), *(dense(400, 16) for _ in range(3))]),
        "CP full": lambda: ("ir,jr,kr->ijk", [dense(80, 12), dense(80, 12), dense(80, 12)]),
        "network ring": lambda: (
            "abi,bcj,cak->ijk", [dense(16, 16, 8), dense(16, 16, 8), dense(16, 16, 8)]),
        "network MPS": lambda: (
            "ai,aib,bjc,cj->", [dense(40, 4), dense(40, 4, 40), dense(40, 4, 40), dense(40, 4)]),
        "network tree": lambda: (
            "iab,ajk,blm->ijklm", [dense(6, 20, 20), dense(20, 6, 6), dense(20, 6, 6)]),
    }  # fmt: skip


def seconds(call: Callable[[], Any]) -> float:
    """The best of some calls: at least three, for a tenth of a second."""
    call()
    best, until, count = inf, perf_counter() + 0.1, 0
    while count < 3 or (perf_counter() < until and count < 50):
        start = perf_counter()
        call()
        best, count = min(best, perf_counter() - start), count + 1
        if best > _MOST_SECONDS:
            break
    return best


def statement(subscripts: str, operands: list[Any]) -> Statement:
    inputs, result = subscripts.split("->")
    names = [chr(ord("A") + n) for n in range(len(operands))]
    same: dict[int, str] = {}
    given = [same.setdefault(id(o), n) for o, n in zip(operands, names, strict=True)]
    factors = [
        f"{name}({','.join(term)})" for name, term in zip(given, inputs.split(","), strict=True)
    ]
    left = f"R({','.join(result)})" if result else "R"
    text = f"{left} = {' * '.join(factors)}"
    return ow.parse(text, **{n: o for n, o in zip(given, operands, strict=True)})


def forced(made: Statement, tree: Tree) -> Any:
    """The kernel of a statement that takes the steps of `tree`."""
    assignment = made.assignment
    cutting = Cutting(
        assignment, stored_in(assignment), result_format, Operand, choose=lambda _: tree
    )
    steps = cutting.steps()
    if steps is None:
        return made.compile(optimize=False)
    *before, last = [Statement(each) for each in steps.assignments]
    kernels = [(s.assignment.lhs.tensor.name, s.compile()) for s in before]
    one = partial(made.compile, optimize=False)
    return Stepwise(assignment, steps.decisions, kernels, last.compile(), one)


def trees(made: Statement) -> list[Tree]:
    """All trees of a statement's product."""
    found: list[Tree] = []

    def every(search: Search) -> Tree:
        found.extend(search.all_trees())
        return found[0]

    assignment = made.assignment
    Cutting(assignment, stored_in(assignment), result_format, Operand, choose=every).steps()
    return found


def chosen_tree(made: Statement) -> Tree:
    """The tree that a statement's product is computed by."""
    found: list[Tree] = []

    def cheapest(search: Search) -> Tree:
        found.append(search.best())
        return search.one_kernel()

    assignment = made.assignment
    Cutting(assignment, stored_in(assignment), result_format, Operand, choose=cheapest).steps()
    return found[0] if found else Tree((), 0.0)


def main(words: list[str]) -> None:
    print(f"{'contraction':18} {'chosen':>9} {'one':>9} {'best':>9}  chosen/best  trees")
    ratios = []
    for name, case in cases().items():
        if words and not any(word in name for word in words):
            continue
        made = statement(*case())
        kernel = made.compile()
        mine = seconds(kernel)
        every = trees(made) or [Tree((), 0.0)]  # without a sum, there is nothing to cut
        most = min(_MOST_TIMES * min(tree.cost for tree in every), _MOST_SECONDS * 1e9)
        tried, best, shown = 0, mine, "the chosen"
        chosen = chosen_tree(made)
        for tree in every[1:]:
            if tree.parts != chosen.parts and tree.cost < most:
                took = seconds(forced(made, tree))
                tried += 1
                if took < best:
                    best, shown = took, str(tree)
        one = seconds(made.compile(optimize=False)) if every[0].cost < 3e9 else inf
        if one < best:
            best, shown = one, "one kernel"
        mine = min(mine, seconds(kernel))
        best = min(best, mine)
        ratios.append(mine / best)
        print(
            f"{name:18} {mine * 1e3:9.3f} {one * 1e3:9.3f} {best * 1e3:9.3f} {mine / best:8.2f}"
            f"     {tried + 1}/{len(every)}  {shown}",
            flush=True,
        )
    if ratios:
        print(
            f"mean {np.mean(ratios):.2f}, worst {max(ratios):.2f}, within 1.3: "
            f"{sum(r <= 1.3 for r in ratios)} of {len(ratios)}"
        )


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # libraries read it when they are loaded
        alone = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **alone})  # noqa: S606
    main(sys.argv[1:])
