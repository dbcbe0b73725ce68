"""Results in steps: every order gives the result of one kernel."""

from __future__ import annotations

import os
import pickle
import random
from functools import reduce
from typing import Any

import numpy as np
import pytest
from bench.contractions import forced, statement, trees
from tests.random.generate import unusual_format

import openwork as ow

RNG = np.random.default_rng(8)
EXTENT = dict(zip("ijklm", (3, 4, 2, 5, 3), strict=True))
CASES = [
    *("ij,jk,k->i", "ji,jk,kl->il", "ij,jk,ki->", "ijk,il,jm->klm", "ij,kj,lj->ik", "i,ij,kj->ik"),
    *("ijk,jl,kl->il", "ii,ij,jk->k", "ij,kl,lj->ik"),
]


def numbers(shape: Any) -> Any:
    return np.where(RNG.random(shape) < 0.6, RNG.integers(1, 5, shape), 0).astype(float)


def operands(subscripts: str, rng: random.Random) -> tuple[list[Any], list[Any]]:
    terms = subscripts.split("->")[0].split(",")
    same = {"i": 4} if "ii" in subscripts else {}
    arrays = [numbers([same.get(c, EXTENT[c]) for c in term]) for term in terms]
    formats = [
        ow.dense(a.ndim) if rng.random() < 0.3 else unusual_format(range(a.ndim), rng)
        for a in arrays
    ]
    return arrays, [ow.tensor(a, format=f) for a, f in zip(arrays, formats, strict=True)]


def compare(subscripts: str, seed: int, count: int) -> None:
    rng = random.Random(f"{subscripts} {seed}")
    arrays, tensors = operands(subscripts, rng)
    made = statement(subscripts, tensors)
    expected = np.einsum(subscripts, *arrays)
    every = trees(made)
    for tree in rng.sample(every, min(count, len(every))):
        result = forced(made, tree)()
        np.testing.assert_allclose(result.to_numpy(), expected, err_msg=f"{made} {tree}")


@pytest.mark.fuzz
def test_orders() -> None:
    for case in range(int(os.environ.get("OPENWORK_FUZZ_CASES", "0")) or len(CASES)):
        compare(CASES[case % len(CASES)], case, 1 if case < len(CASES) else 100)


def chain(**names: Any) -> Any:
    return ow.parse("y(i) = A(i,j) * A(j,k) * x(k)", **names)


A = ow.random((500, 500), 0.05, rng=2)
S = A.to_scipy()
X, Y = RNG.random(500), RNG.random(500)


def test_a_kernel_in_steps_is_a_kernel() -> None:
    kernel = chain(A=A, x=ow.tensor(X)).compile()
    assert repr(kernel) == "<Kernel y(i) = A(i,j) * A(j,k) * x(k), in 2 steps>"
    np.testing.assert_allclose(kernel().to_numpy(), S @ (S @ X))
    np.testing.assert_allclose(kernel(x=Y).to_numpy(), S @ (S @ Y))
    np.testing.assert_allclose(kernel(A=2 * A).to_numpy(), 4 * (S @ (S @ X)))
    out = ow.empty(500)
    assert kernel(out=out) is out
    np.testing.assert_allclose(out.to_numpy(), S @ (S @ X))
    np.testing.assert_allclose(kernel.symbolic()(x=Y).to_numpy(), S @ (S @ Y))
    again = pickle.loads(pickle.dumps(kernel))  # noqa: S301
    assert repr(again) == repr(kernel)
    np.testing.assert_allclose(again(x=Y).to_numpy(), S @ (S @ Y))
    text = kernel.explain()
    assert "steps: A(i,j) * (A(j,k) * x(k))" in text
    assert "in one kernel" in text
    assert "step1(j) = sum(k, A(j,k) * x(k))" in text
    assert kernel.source.count("of 2: ") == 2
    assert str(kernel.loops).count("forall") == 4
    with pytest.raises(ow.ShapeError, match="no operand step1"):
        kernel(step1=X)
    with pytest.raises(ow.ShapeError, match="E201"):
        kernel(x=Y[:10])


def test_accumulation_and_further_terms() -> None:
    y = ow.tensor(Y.copy(), name="y")
    kernel = ow.parse("y(i) += A(i,j) * A(j,k) * x(k) + x(i)", y=y, A=A, x=ow.tensor(X)).compile()
    assert "2 steps" in repr(kernel)
    np.testing.assert_allclose(kernel().to_numpy(), Y + S @ (S @ X) + X)


def test_emulated_gpu() -> None:
    kernel = chain(A=A, x=ow.tensor(X)).compile("cuda-emulated")
    assert "2 steps" in repr(kernel)
    np.testing.assert_allclose(kernel().to_numpy(), S @ (S @ X))


def test_semirings() -> None:
    names = {"A": A, "x": X}
    text = "y(i) = A(i,j) * A(j,k) * x(k)"
    for semiring in ("min_plus", "max_plus", "max_times", "or_and"):
        whole = ow.compute(text, semiring=semiring, optimize=False, **names)
        steps = ow.compute(text, semiring=semiring, **names)
        np.testing.assert_allclose(steps.to_numpy(), whole.to_numpy(), err_msg=semiring)


def test_records_keep_their_order() -> None:
    """Products of quaternions do not commute."""
    Q = ow.entry.quaternion("float64")
    at = np.unique(RNG.integers(0, 200, (2, 4000)), axis=1)
    left, right = (ow.tensor((at, RNG.random((at.shape[1], 4))), shape=(200, 200), dtype=Q,
                             format="CSR") for _ in range(2))  # fmt: skip
    x = ow.tensor(RNG.random((200, 4)), dtype=Q)
    stmt = ow.parse("y(i) = B(j,k) * A(i,j) * x(k)", y=ow.empty(200, dtype=Q), A=left, B=right, x=x)
    plain = ow.parse(
        "y(i) = A(i,j) * B(j,k) * x(k)", y=ow.empty(200, dtype=Q), A=left, B=right, x=x
    )
    assert "2 steps" in repr(plain.compile())
    for each in (stmt, plain):
        one, steps = each.compile(optimize=False)(), each.compile()()
        np.testing.assert_allclose(steps.to_numpy(), one.to_numpy())


def test_the_pattern_of_a_sparse_result() -> None:
    """It has no entries that one kernel would not have."""
    B = ow.random((500, 40), 0.3, rng=3, format="CSR")
    C = ow.random((40, 40), 0.3, rng=4, format="CSR")
    stmt = ow.parse("R(i,l) = A(i,j) * B(j,k) * C(k,l)", A=A, B=B, C=C)
    assert stmt.compile()().nnz == stmt.compile(optimize=False)().nnz


def test_dense_matrices_go_to_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    B, C = RNG.random((90, 80)), RNG.random((80, 70))
    names = {"B": ow.tensor(B), "C": ow.tensor(C)}
    kernel = ow.parse("D(i,k) = B(i,j) * C(j,k)", **names).compile()
    assert "BLAS" in kernel.explain()
    np.testing.assert_allclose(kernel().to_numpy(), B @ C)
    turned = ow.parse("D(k,i) = B(i,j) * C(j,k)", **names).compile()
    np.testing.assert_allclose(turned().to_numpy(), (B @ C).T)
    out = ow.empty((90, 70))
    kernel(out=out)
    np.testing.assert_allclose(out.to_numpy(), B @ C)
    np.testing.assert_allclose(kernel(B=B[:2]).to_numpy(), B[:2] @ C)  # small: by the kernel
    with pytest.raises(ow.ShapeError, match="E201"):
        kernel(C=C[:5])
    stacks = RNG.random((3, 64, 70)), RNG.random((70, 3, 65))
    found = ow.einsum("bij,jbk->kbi", *stacks).to_numpy()
    np.testing.assert_allclose(found, np.einsum("bij,jbk->kbi", *stacks))
    monkeypatch.setenv("OPENWORK_CHECK", "1")
    checked = ow.parse("D(i,k) = B(i,j) * C(j,k)", **names).compile()
    np.testing.assert_allclose(checked().to_numpy(), B @ C)
    many = [RNG.random((64, 64)) for _ in range(5)]
    found = ow.einsum("ab,bc,cd,de,ef->af", *many).to_numpy()
    np.testing.assert_allclose(found, reduce(np.matmul, many))
