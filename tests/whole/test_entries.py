"""Entries that are records: every type, in every format, on both targets, against the definition.

The kernels are compared with the reference evaluator, which is compared with dense NumPy on the
real matrices of the elements.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.choices import in_turns

import openwork as ow
from openwork.algebra.entries import Entry, product
from openwork.algebra.operators import CONJ, MUL

entry = ow.entry
pytestmark = [pytest.mark.needs_cc, pytest.mark.usefixtures("compared_with_the_reference")]

OWN = entry.define(
    "affine",
    ["linear", "constant"],
    one=(1, 0),
    commutative=True,
    mul=lambda a, b: (a.linear * b.linear, a.linear * b.constant + a.constant * b.linear),
)
# A type of the matrix, and one of the vector that it multiplies.
TYPES = {
    "complex": (entry.complex(), entry.complex()),
    "quaternion": (entry.quaternion("float32"), entry.quaternion("float32")),
    "dual": (entry.dual(), entry.dual()),
    "block": (entry.block(3, 3), entry.vector(3)),
    "wide block": (entry.block(2, 3, "float32"), entry.vector(3, "float32")),
    "complex block": (entry.block(2, 2, entry.complex()), entry.vector(2, entry.complex())),
    "quaternion block": (
        entry.block(2, 2, entry.quaternion()), entry.vector(2, entry.quaternion()),
    ),
    "two precisions": (entry.quaternion("float32"), entry.quaternion("float64")),
    "a user's": (OWN, OWN),
}  # fmt: skip
FORMATS = {
    "CSR": ow.CSR, "DCSR": ow.DCSR, "COO": ow.COO(2), "ELL": ow.ELL, "SELL": ow.SELL(4),
    "CSC": ow.CSC, "LIL": ow.LIL, "DIA": ow.DIA, "BSR": ow.BSR(2, 2),
    "bitmap": ow.Format([ow.Dense, ow.Bitmap]), "dense": ow.dense(2),
}  # fmt: skip


def matrix(
    kind: Entry, shape: tuple[int, ...], name: str, format: Any = ow.CSR, density: float = 0.4
) -> ow.Tensor:
    """Random elements, multiples of a half, at random places."""
    rng = np.random.default_rng(sum(map(ord, name)))
    coords = np.argwhere(rng.random(shape) < density).T
    values = rng.integers(-6, 7, (coords.shape[1], *kind.shape)) / 2.0
    return ow.tensor((coords, values), shape=shape, dtype=kind, format=format, name=name)


def vector(kind: Entry, length: int, name: str) -> ow.Tensor:
    """Random elements at all places."""
    rng = np.random.default_rng(ord(name[0]))
    return ow.tensor(rng.integers(-6, 7, (length, *kind.shape)) / 2.0, dtype=kind, name=name)


def compute(text: str, target: str = "cpu", schedule: str = "", **tensors: ow.Tensor) -> ow.Tensor:
    """The result of a statement, checked against the reference evaluator."""
    stmt = ow.parse(text, **tensors)
    made: ow.Tensor = stmt.schedule(schedule).compile(target=target)()
    return made


def of_product(left: Entry, right: Entry) -> Entry:
    """The type of a product."""
    made = product(left, right)
    assert made is not None
    return made.result


ON_CPU = [(*each, "cpu") for each in in_turns(list(TYPES), list(FORMATS), 4)]
ON_GPU = in_turns(list(TYPES)[:4], ["CSR", "SELL", "COO"], 2)


@pytest.mark.parametrize(
    ("kind", "format", "target"), ON_CPU + [(*each, "cuda-emulated") for each in ON_GPU]
)
def test_matrix_times_vector(kind: str, format: str, target: str) -> None:
    left, right = TYPES[kind]
    A, x = matrix(left, (7, 6), "A", FORMATS[format]), vector(right, 6, "x")
    y = ow.empty(7, dtype=of_product(left, right), name="y")
    made = compute("y(i) = A(i,j) * x(j)", target, y=y, A=A, x=x)
    wanted = A.expand().to_numpy() @ x.expand().to_numpy()
    np.testing.assert_allclose(made.expand().to_numpy(), wanted, 1e-5)


STATEMENTS: dict[str, Callable[[Entry, Entry], dict[str, ow.Tensor]]] = {
    "Y(i,k) = A(i,j) * X(j,k)": lambda a, x: {
        "Y": ow.empty((5, 3), dtype=of_product(a, x)), "A": matrix(a, (5, 6), "A"),
        "X": matrix(x, (6, 3), "X", ow.dense(2), 1.0),
    },
    "C(i,j) = A(i,j) + B(i,j)": lambda a, x: {
        "C": ow.empty((5, 6), dtype=a, format=ow.CSR), "A": matrix(a, (5, 6), "A"),
        "B": matrix(a, (5, 6), "B"),
    },
    "C(i,j) = 2 * A(i,j) - B(i,j)": lambda a, x: {
        "C": ow.empty((5, 6), dtype=a, format=ow.DCSR), "A": matrix(a, (5, 6), "A", ow.DCSR),
        "B": matrix(a, (5, 6), "B", ow.COO(2)),
    },
    "C(j,i) = A(i,j)": lambda a, x: {
        "C": ow.empty((6, 5), dtype=a, format=ow.CSR), "A": matrix(a, (5, 6), "A"),
    },
    "C(i,j) = conj(A(i,j))": lambda a, x: {
        "C": ow.empty((5, 6), dtype=CONJ.result((a,)), format=ow.CSR), "A": matrix(a, (5, 6), "A"),
    },
    "y(i) = A(i,j) * x(j) + z(i)": lambda a, x: {
        "y": ow.empty(5, dtype=of_product(a, x)), "A": matrix(a, (5, 6), "A"),
        "x": vector(x, 6, "x"), "z": vector(of_product(a, x), 5, "z"),
    },
    "y(j) = A(i,j) / 2 * x(j)": lambda a, x: {
        "y": ow.empty(6, dtype=of_product(a, x)), "A": matrix(a, (5, 6), "A"),
        "x": vector(x, 6, "x"),
    },
    "s = conj(x(i)) * x(i)": lambda a, x: {
        "s": ow.empty((), dtype=MUL.result((CONJ.result((x,)), x))), "x": vector(x, 6, "x"),
    },
}  # fmt: skip


STATED = [(*each, "cpu") for each in in_turns(list(TYPES), list(STATEMENTS), 4)]
STATED += [
    (kind, text, "cuda-emulated")
    for text, kind in in_turns(list(STATEMENTS), ["quaternion", "block"], 1)
]


@pytest.mark.parametrize(("kind", "text", "target"), STATED)
def test_statements(kind: str, text: str, target: str) -> None:
    compute(text, target, **STATEMENTS[text](*TYPES[kind]))


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
@pytest.mark.parametrize("kind", ["quaternion", "block", "complex block", "a user's"])
def test_sparse_products(kind: str, target: str) -> None:
    left, _ = TYPES[kind]
    A, B = matrix(left, (5, 6), "A"), matrix(left, (6, 4), "B")
    C = ow.empty((5, 4), dtype=left, format=ow.CSR, name="C")
    made = compute("C(i,k) = A(i,j) * B(j,k)", target, C=C, A=A, B=B)
    wanted = A.expand().to_numpy() @ B.expand().to_numpy()
    np.testing.assert_allclose(made.expand().to_numpy(), wanted, 1e-5)


SCHEDULES = [
    "split(i,i0,i1,2), parallelize(i0,CPUThread,NoRaces)",
    "fuse(i,j,f), pos(f,p,A), split(p,p0,p1,3), parallelize(p0,CPUThread,Atomics)",
    "pos(j,p,A), split(p,p0,p1,4), unroll(p1)",
    "precompute(A(i,j) * x(j),j,jw)",
    "parallelize(j,CPUThread,Temporary)",
    "split(i,b,t,32), parallelize(b,GPUBlock), parallelize(t,GPUThread)",
    "fuse(i,j,f), pos(f,p,A), split(p,b,t,32), parallelize(b,GPUBlock,IgnoreRaces), "
    "parallelize(t,GPUThread,Atomics)",
    "split(i,b,w,4), split(j,r,l,32), order(b,w,l,r), parallelize(b,GPUBlock), "
    "parallelize(w,GPUWarp), parallelize(l,GPUThread,ParallelReduction)",
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kind", ["quaternion", "block", "a user's"])
def test_schedules(kind: str, schedule: str) -> None:
    left, right = TYPES[kind]
    A, x = matrix(left, (7, 6), "A"), vector(right, 6, "x")
    y = ow.empty(7, dtype=of_product(left, right), name="y")
    target = "cuda-emulated" if "GPU" in schedule else "cpu"
    compute("y(i) = A(i,j) * x(j)", target, schedule, y=y, A=A, x=x)


# Factors keep their order, whatever a sum does not depend on, and whatever is computed first.
ORDERS = [
    ("y(i) = a(i) * A(i,j) * b(i) * x(j)", ""),
    ("y(i) = A(i,j) * a(i) * x(j)", ""),
    ("y(i) = A(i,j) * x(j) * a(i)", "precompute(A(i,j) * x(j),j,jw)"),
    ("y(i) = a(i) * A(i,j) * x(j)", "precompute(A(i,j) * x(j),j,jw)"),
    ("y(i) = A(i,j) * B(j,k) * x(k)", ""),
    ("y(i) = B(j,k) * A(i,j) * x(k)", ""),
    ("y(i) = x(k) * A(i,j) * B(j,k)", ""),
]


@pytest.mark.parametrize(("text", "schedule"), ORDERS)
def test_factors_keep_their_order(text: str, schedule: str) -> None:
    kind = entry.quaternion()
    tensors = {
        "y": ow.empty(5, dtype=kind), "A": matrix(kind, (5, 6), "A"),
        "B": matrix(kind, (6, 4), "B"), "x": vector(kind, 4 if "x(k)" in text else 6, "x"),
        "a": vector(kind, 5, "a"), "b": vector(kind, 5, "b"),
    }  # fmt: skip
    compute(text, "cpu", schedule, **{n: t for n, t in tensors.items() if f"{n}(" in text})


def test_precompute_does_not_change_the_order_of_factors() -> None:
    kind = entry.quaternion()
    tensors = {n: matrix(kind, (5, 6), n) for n in "AB"} | {"x": vector(kind, 6, "x")}
    stmt = ow.parse("y(i) = A(i,j) * B(i,j) * x(j)", y=ow.empty(5, dtype=kind, name="y"), **tensors)
    with pytest.raises(ow.ScheduleError, match="not part of the statement"):
        stmt.schedule("precompute(A(i,j) * x(j),j,jw)")


def test_complex_numbers_are_numpys() -> None:
    rng = np.random.default_rng(0)
    M = sp.random_array((20, 15), density=0.3, format="csr", rng=rng)
    M = M + 1j * sp.random_array((20, 15), density=0.3, format="csr", rng=rng)
    x = rng.random(15) + 1j * rng.random(15)
    A, y = ow.tensor(M, dtype=entry.complex()), ow.tensor(x, dtype=entry.complex())
    np.testing.assert_allclose((A @ y).to_numpy() @ [1, 1j], M @ x)
    np.testing.assert_array_equal(ow.imag(y).to_numpy(), x.imag)
    np.testing.assert_array_equal(ow.real(A).to_numpy(), M.real.toarray())
    assert abs(A.to_scipy() - M).max() == 0


def test_blocks_are_scipys() -> None:
    M = sp.random(12, 9, 0.3, format="csr", random_state=1).tobsr((3, 3))
    A, x = ow.tensor(M, dtype=entry.block(3, 3)), np.random.default_rng(1).random((3, 3))
    assert (A.shape, A.format) == ((4, 3), ow.CSR)
    product = A @ ow.tensor(x, dtype=entry.vector(3))
    np.testing.assert_allclose(product.to_numpy().reshape(-1), M @ x.reshape(-1))
    assert abs(A.to_scipy() - M).max() == 0


@pytest.mark.parametrize("kind", TYPES)
def test_expansions_come_back(kind: str) -> None:
    left, right = TYPES[kind]
    A, x = matrix(left, (5, 6), "A"), vector(right, 6, "x")
    if kind != "a user's":
        assert left.contract(A.expand()).equals(A)
    assert right.contract(x.expand()).equals(x)
    with pytest.raises(ow.DataError, match="E505"):
        left.contract(ow.tensor(np.ones((7, 11)), format=ow.CSR))


def test_a_matrix_that_is_no_expansion() -> None:
    with pytest.raises(ow.DataError, match="no matrices of such elements"):
        entry.complex().contract(ow.tensor(np.ones((4, 4)), format=ow.CSR))


@pytest.mark.parametrize("kind", TYPES)
def test_elements_survive(kind: str) -> None:
    left, _ = TYPES[kind]
    A = matrix(left, (5, 6), "A")
    assert pickle.loads(pickle.dumps(A)).equals(A)  # noqa: S301
    for format in FORMATS.values():
        assert A.to(format).to(ow.CSR).equals(A), format
    coords, values = A.to_coo()
    assert ow.tensor((coords, values), shape=A.shape, dtype=left).equals(A)
    assert ow.tensor(A.to_numpy(), dtype=left, format=ow.CSR).equals(A)
    wide = left.over("float64")
    assert A.astype(wide).astype(left).equals(A)


def test_duplicates_are_summed() -> None:
    values = np.array([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]])
    coords = np.array([[0, 0], [1, 1]])
    A = ow.tensor((coords, values), shape=(2, 2), dtype=entry.quaternion())
    np.testing.assert_array_equal(A.to_numpy()[0, 1], [11, 22, 33, 44])


def test_eager_operators() -> None:
    kind = entry.quaternion()
    A, x = matrix(kind, (6, 6), "A"), vector(kind, 6, "x")
    assert (A + A).equals(2 * A)
    np.testing.assert_allclose((A @ x).to_numpy(), ow.einsum("ij,j->i", A, x).to_numpy())
    np.testing.assert_allclose(A.sum(0).to_numpy(), A.to_numpy().sum(0))
    np.testing.assert_allclose((-x).to_numpy(), -x.to_numpy())
    norm = ow.parse("s = real(conj(x(i)) * x(i))", s=ow.empty(()), x=x).compile()()
    assert math.isclose(norm.item(), (x.to_numpy() ** 2).sum())


@pytest.mark.parametrize(
    "kind",
    [
        entry.quaternion(),
        entry.complex("float32"),
        entry.vector(3),
        entry.vector(2, entry.complex()),
    ],
    ids=str,
)
def test_norms_are_those_of_all_numbers(kind: Any) -> None:
    A, x = matrix(kind, (6, 5), "A"), vector(kind, 6, "x")
    for each in (A, x):
        numbers = each.to_numpy()
        assert math.isclose(np.linalg.norm(each), np.linalg.norm(numbers.ravel()), rel_tol=1e-6)
    lengths = np.linalg.norm(x.to_numpy().reshape(6, -1), axis=1)
    assert math.isclose(np.linalg.norm(x, np.inf), lengths.max(), rel_tol=1e-6)


@pytest.mark.parametrize("kind", [entry.dual(), entry.block(2, 2)], ids=str)
def test_no_norm_of_other_records(kind: Any) -> None:
    with pytest.raises(ow.ParseError, match="E108: no norm is defined"):
        np.linalg.norm(vector(kind, 6, "x"))


def test_repeated_calls_and_kept_patterns() -> None:
    kind = entry.block(2, 2, "float32")
    A = matrix(kind, (5, 5), "A")
    C = ow.empty((5, 5), dtype=kind, format=ow.CSR, name="C")
    kernel = ow.parse("C(i,k) = A(i,j) * A(j,k)", C=C, A=A).compile()
    first = kernel()
    assert all(kernel().equals(first) for _ in range(3))
    assert kernel.symbolic(A=A)().equals(first)
    y, x = ow.empty(5, dtype=entry.vector(2, "float32"), name="y"), vector(entry.vector(2), 5, "x")
    spmv = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x.astype(entry.vector(2, "float32")))
    kernel = spmv.compile()
    results = [kernel() for _ in range(3)]
    assert all(each.equals(results[0]) for each in results)
    assert kernel(out=y) is y
    assert y.equals(results[0])


INVERTED = entry.define(
    "turn", ["c", "s"], one=(1, 0), commutative=True,
    mul=lambda a, b: (a.c * b.c - a.s * b.s, a.c * b.s + a.s * b.c),
    inverse=lambda a: (a.c / (a.c * a.c + a.s * a.s), -a.s / (a.c * a.c + a.s * a.s)),
)  # fmt: skip
QUOTIENTS = {
    "complex": (entry.complex(), entry.complex()),
    "quaternion": (entry.quaternion("float32"), entry.quaternion()),
    "dual": (entry.dual(), entry.dual()),
    "block": (entry.block(2, 3, entry.complex()), entry.complex()),
    "vector": (entry.vector(3, entry.quaternion()), entry.quaternion()),
    "number": (np.dtype("float64"), entry.quaternion()),
    "a user's": (INVERTED, INVERTED),
}


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
@pytest.mark.parametrize("kind", QUOTIENTS)
def test_quotients(kind: str, target: str) -> None:
    """Quotients times the divisor are the dividend, whatever its size."""
    left, right = QUOTIENTS[kind]
    rng = np.random.default_rng(0)
    shape = left.shape if isinstance(left, Entry) else ()
    a = ow.tensor(rng.standard_normal((6, *shape)), dtype=left, name="a")
    scale = 10.0 ** np.array([0, 5, -5, 150, -150, 1])
    size = 1.0 if kind == "a user's" else scale[:, None]  # its formula squares what it is given
    b = ow.tensor(rng.standard_normal((6, *right.shape)) * size, dtype=right, name="b")
    q = ow.empty(6, dtype=MUL.result((a.dtype, b.dtype)), name="q")
    q = compute("q(i) = a(i) / b(i)", target, q=q, a=a, b=b).rename("q")
    back = compute("r(i) = q(i) * b(i)", r=ow.empty(6, dtype=q.dtype, name="r"), q=q, b=b)
    wanted = a.to_numpy() if shape else a.to_numpy()[:, None] * np.eye(4)[0]
    np.testing.assert_allclose(back.to_numpy(), wanted, 1e-6, 1e-13)


def test_quotients_of_sparse_matrices() -> None:
    """An absent dividend stays absent; an absent divisor is zero, and no number comes of it."""
    kind = entry.complex()
    A, x = matrix(kind, (4, 3), "A"), ow.tensor(np.full((3, 2), 2.0), dtype=kind, name="x")
    R = ow.empty((4, 3), dtype=kind, format=ow.CSR, name="R")
    made = compute("R(i,j) = A(i,j) / x(j)", R=R, A=A, x=x)
    assert made.nnz == A.nnz
    np.testing.assert_allclose((A / ow.tensor(2.0)).to_numpy(), A.to_numpy() / 2)
    D = ow.empty((4, 3), dtype=kind, name="D")
    made = compute("D(i,j) = x(j) / A(i,j)", D=D, A=A, x=x)
    there = (A.to_numpy() != 0).any(axis=-1)
    assert np.isnan(made.to_numpy()[~there]).all()
    assert np.isfinite(made.to_numpy()[there]).all()


def test_transposes_do_not_conjugate() -> None:
    for kind in (entry.complex(), entry.quaternion(), entry.block(2, 2, entry.complex())):
        A = matrix(kind, (4, 3), "A")
        np.testing.assert_array_equal(A.T.to_numpy(), A.to_numpy().swapaxes(0, 1))
        np.testing.assert_array_equal(A.T.T.to_numpy(), A.to_numpy())
        # The adjoint is asked for; its real matrix is the transpose of the matrix's.
        adjoint = ow.conj(A.T)
        np.testing.assert_array_equal(adjoint.expand().to_numpy(), A.expand().to_numpy().T)
        R = ow.empty((3, 4), dtype=kind, name="R")
        np.testing.assert_array_equal(
            compute("R(j,i) = A(i,j)", R=R, A=A).to_numpy(), A.T.to_numpy()
        )


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
def test_semirings_of_users_over_records(target: str) -> None:
    """Hermitian products: the left factor is conjugated, and sums are an operator, too."""
    adjoint = ow.operator("adjoint", lambda a, b: ow.conj(a) * b, annihilator=0)
    plus = ow.operator("plus", lambda a, b: a + b, identity=0, associative=True, commutative=True)
    kind = entry.quaternion("float32")
    A, x, y = matrix(kind, (5, 5), "A"), vector(kind, 5, "x"), ow.empty(5, dtype=kind, name="y")
    stmt = ow.parse("y(i) = sum(j, adjoint(A(i,j), x(j)))", y=y, A=A, x=x, adjoint=adjoint)
    wanted = compute("y(i) = conj(A(i,j)) * x(j)", y=y, A=A, x=x)
    assert stmt.compile(target=target)().equals(wanted)
    hermitian = ow.semiring("hermitian", plus, adjoint, 0)
    assert ow.einsum("ij,j->i", A, x, semiring=hermitian).equals(wanted)
    squares = ow.einsum("ij,jk->ik", A, A, semiring=hermitian)
    assert squares.equals(A.conj() @ A)
    assert ow.einsum("ij->i", A, semiring=hermitian).equals(A.sum(1))
    assert adjoint(A, A).equals(A.conj() * A)


def test_complex_numbers_become_records_and_back() -> None:
    kind, rng = entry.complex("float32"), np.random.default_rng(3)
    M = sp.random_array((5, 4), density=0.5, rng=rng) + 1j * sp.random_array((5, 4), rng=rng)
    for format in (ow.CSR, ow.COO(2), ow.DIA, ow.BSR(2, 2), ow.dense(2)):
        plain = ow.tensor(M, dtype="complex64").to(format)
        A = plain.astype(kind)
        assert A.dtype == kind
        assert A.astype("complex64").equals(plain)
        assert A.astype(entry.complex()).astype("complex128").equals(plain.astype("complex128"))
        assert abs((A.to_scipy() - plain.to_scipy()).toarray()).max() == 0
        if not format.is_dense:
            laid = A.to(format.with_layout("SoA"))
            assert laid.astype("complex64").equals(plain)
    assert kind.contract(plain).equals(A)


def dual() -> ow.Tensor:
    """A matrix of another type than quaternions."""
    return matrix(entry.dual(), (3, 3), "D")


OWN = entry.define(
    "own",
    ["c"],
    mul=lambda x, y: x.c * y.c,
    products={(entry.vector(1), True): (None, lambda x, v: x.c * v.r0c0)},
)
REFUSED = [
    (
        lambda q, b: q * q.astype(entry.quaternion()) * dual(),
        "E108",
        "quaternion<float64> and dual",
    ),
    (lambda q, b: q + b, "E108", "sums and differences need two entries of one type"),
    (lambda q, b: q + 1, "E108", "add is not defined for quaternion<float64> and int"),
    (
        lambda q, b: q.astype(entry.quaternion()) * np.full((3, 3), 1j),
        "E108",
        "become records by A.astype(ow.entry.complex())",
    ),
    (lambda q, b: q / b, "E108", "div is not defined for quaternion<float64> and block"),
    (lambda q, b: b / b, "E108", "quotients: everything by numbers"),
    (lambda q, b: b * ow.tensor(np.ones((3, 3, 2)), dtype=entry.vector(2)), "E108", "products:"),
    (
        lambda q, b: entry.define(
            "a", ["c"], one=(1,), mul=lambda x, y: x.c * y.c, inverse=lambda x: x.c
        ),
        "E111",
        "times its inverse is one",
    ),
    (lambda q, b: entry.define("a", ["c"], inverse=lambda x: x.c), "E111", "no product"),
    (lambda q, b: ow.exp(q), "E108", "exp is not defined for quaternion<float64>"),
    (lambda q, b: q < q, "E108", "lt is not defined"),
    (lambda q, b: ow.tensor(np.ones((3, 3)), dtype=entry.quaternion()), "E402", "(..., 4)"),
    (lambda q, b: ow.tensor(sp.eye_array(3), dtype=entry.quaternion()), "E402", "cannot become"),
    (lambda q, b: q.astype("float64"), "E402", "cannot become float64"),
    (lambda q, b: q.to_scipy(), "E404", "SciPy does not have"),
    (lambda q, b: entry.block(30, 30), "E402", "too large"),
    (lambda q, b: entry.quaternion("int32"), "E402", "float16, float32, float64"),
    (lambda q, b: entry.define("a b", ["c"]), "E402", "not a name"),
    (lambda q, b: entry.define("a", ["c"], mul=lambda x, y: x), "E112", "cannot stand"),
    (lambda q, b: entry.define("a", ["c"], mul=lambda x, y: (x.c, y.c)), "E112", "2 fields"),
    (lambda q, b: entry.define("a", ["c"], mul=lambda x, y: x.d), "E112", "the fields are c"),
    (
        lambda q, b: entry.define("a", ["c"], mul=lambda x, y: np.spacing(x.c)),
        "E112",
        "ow.operator",
    ),
    (
        lambda q, b: entry.define("a", ["c"], mul=lambda x, y: x.c - y.c),
        "E111",
        "(1.0,) is not (",
    ),
    (lambda q, b: q * ow.tensor(np.ones((3, 3, 1)), dtype=OWN), "E108", "here own<float64> * own<"),
    (lambda q, b: entry.define("a", ["c"], mul=lambda x, y: x.c * y.c + 1), "E111", "annihilates"),
    (
        lambda q, b: entry.define(
            "a", ["c"], products={(entry.vector(2), False): (None, lambda v, x: x.c * v.r0c0 + 1)}
        ),
        "E111",
        "the product vector 2<float64> * a<float64> distributes",
    ),
    (lambda q, b: entry.define("a", ["c"], add=lambda x, y: x.c - y.c), "E111", "commutative"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused(number: int) -> None:
    wrong, code, text = REFUSED[number]
    q, b = matrix(entry.quaternion(), (3, 3), "Q"), matrix(entry.block(3, 3), (3, 3), "B")
    with pytest.raises(ow.OpenworkError) as error:
        wrong(q, b)
    assert code in str(error.value)
    assert text in str(error.value)


def test_names_of_users_do_not_reach_the_code() -> None:
    kind = entry.define("secret", ["hidden"], one=(1,), mul=lambda a, b: (a.hidden * b.hidden,))
    A, x = matrix(kind, (4, 4), "A"), vector(kind.over("float32"), 4, "x")
    y = ow.empty(4, dtype=kind, name="y")
    kernel = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x).compile()
    kernel()
    assert "secret" not in kernel.source
    assert "hidden" not in kernel.source


def test_a_sum_that_mixes_the_numbers_of_a_record() -> None:
    """The shortest of two paths, and over which of them it goes: (min, +) with a label."""

    def nearer(a: Any, b: Any) -> tuple[Any, Any]:
        nearest = ow.minimum(a.length, b.length)
        tie = ow.maximum(a.label, b.label)
        return nearest, ow.select(
            a.length < b.length, a.label, ow.select(b.length < a.length, b.label, tie)
        )

    kind = entry.define(
        "path", ["length", "label"], add=nearer, zero=(np.inf, -np.inf),
        mul=lambda a, b: (a.length + b.length, a.label + b.label),
    )  # fmt: skip
    A, x = matrix(kind, (7, 6), "A"), vector(kind, 6, "x")
    y = ow.empty(7, dtype=kind, name="y")
    made = compute("y(i) = A(i,j) * x(j)", y=y, A=A, x=x).to_numpy()
    present = np.zeros(A.shape, bool)
    present[tuple(A.to_coo()[0])] = True
    lengths = np.where(present, A.to_numpy()[..., 0] + x.to_numpy()[:, 0], np.inf)
    np.testing.assert_array_equal(made[:, 0], lengths.min(axis=1))
    with pytest.raises(ow.ScheduleError, match="mixes the numbers"):
        compute(
            "y(i) = A(i,j) * x(j)", schedule=SCHEDULES[1], y=y, A=A, x=x
        )  # an atomic update is of one number


@pytest.mark.parametrize(
    ("kind", "text", "alone"),
    [
        (ow.entry.complex("float32"), "y(i) = A(i,j) * x(j)", True),
        (ow.entry.complex("float64"), "y(i) = A(i,j) * x(j)", False),
        (ow.entry.quaternion("float32"), "y(i) = A(i,j) * x(j)", False),
        (ow.entry.complex("float32"), "y(i) = 2 * x(i)", False),
    ],
)
def test_sums_of_short_records_leave_vectors_to_the_numbers_of_one(
    kind: Any, text: str, alone: bool
) -> None:
    rng = np.random.default_rng(0)
    A = (rng.random((9, 9)) < 0.4)[..., None] * rng.standard_normal((9, 9, 4))[..., : kind.size]
    x = rng.standard_normal((9, kind.size))
    given = {"A": ow.tensor(A, dtype=kind, format=ow.CSR), "x": ow.tensor(x, dtype=kind)}
    used = {name: given[name] for name in given if f"{name}(" in text}
    kernel = ow.parse(text, y=ow.empty(9, dtype=kind), **used).compile()
    assert ('__asm__("")' in kernel.source) == alone
    assert '__asm__("")' not in ow.parse(text, y=ow.empty(9, dtype=kind), **used).compile(
        target="cuda-emulated"
    ).source  # fmt: skip
    numbers = given["x"].expand().to_numpy()
    wanted = given["A"].expand().to_numpy() @ numbers if "A" in used else 2 * numbers
    np.testing.assert_allclose(kernel().to_numpy().reshape(-1), wanted, rtol=1e-4, atol=1e-4)
