"""`einsum` against NumPy's."""

from __future__ import annotations

import random
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse
from tests.choices import in_turns
from tests.random.generate import unusual_format

from openwork.algebra.operators import MIN_PLUS
from openwork.errors import FormatError, OpenworkError, ParseError, ShapeError
from openwork.format.formats import CSC, CSF, CSR, DCSR, Format, dense
from openwork.tensor.create import tensor
from openwork.tensor.functions.einsum import einsum, parse_subscripts
from openwork.tensor.tensor import Tensor

RNG = np.random.default_rng(3)
EXTENT = dict(zip("ijklmnIJ", (3, 4, 2, 5, 3, 2, 4, 3), strict=True))


def numbers(*shape: int) -> Any:
    return np.where(RNG.random(shape) < 0.5, RNG.integers(1, 6, shape), 0).astype(float)


CASES = [
    *("ij,jk->ik", "ij,jk", "ij,j->i", "ij,ij->ij", "ij->ji", "ij->i", "ij->j", "ij->", "ij"),
    *("ji", "ii", "ii->i", "iij->j", "iij->ij", "i,j->ij", "i,i->", "i,i", "i->i", "->", ",->"),
    *("ij,jk,kl->il", "ijk,kl->ijl", "ijk,jl,kl->il", "ijk,k->ij", "ijk->kij", "ijkl->lkji"),
    *("ij,ik,ij->jk", ",ij->ij", "i,,i->i", " i j , j k -> i k ", "Ij,jJ->IJ", "Ii", "ijk,ijk->"),
    *("ijklm,m->ijkl", "ijklmn->n", "ij,ij,ij,ij->ij", "ii,ii->i", "iii->i", "ij,kl->ijkl"),
]


def operands(subscripts: str) -> list[Any]:
    terms = subscripts.replace(" ", "").split("->")[0].split(",")
    same = {} if "ii" not in subscripts else {"j": 4}
    return [numbers(*(same.get(c, EXTENT[c]) for c in term)) for term in terms]


@pytest.mark.parametrize(
    ("subscripts", "storage"),
    in_turns(list(CASES), ["sparse", "dense", "mixed", "columns", "any"], 3),
)
def test_numpys_einsum(subscripts: str, storage: str) -> None:
    """The format of the result follows from those of the operands, whatever they are."""
    arrays = operands(subscripts)
    rng = random.Random(f"{subscripts} {storage}")

    def drawn(array: Any, _: int) -> Format:
        return unusual_format(rng.sample(range(array.ndim), array.ndim), rng)

    formats = {
        "sparse": lambda a, n: CSF(a.ndim) if a.ndim != 2 else CSR,
        "dense": lambda a, n: dense(a.ndim),
        "mixed": lambda a, n: dense(a.ndim) if n % 2 else CSF(a.ndim),
        "columns": lambda a, n: CSF(a.ndim, range(a.ndim)[::-1]) if a.ndim != 2 else CSC,
    }.get(storage, drawn)
    tensors = [tensor(a, format=formats(a, n)) for n, a in enumerate(arrays)]
    result = einsum(subscripts, *tensors)
    expected = np.einsum(subscripts, *arrays)
    assert isinstance(result, Tensor)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.to_numpy(), expected)


@settings(max_examples=60)
@given(st.data())
def test_random_subscripts(data: Any) -> None:
    terms = data.draw(st.lists(st.text("ijk", max_size=3), min_size=1, max_size=3))
    letters = sorted(set("".join(terms)))
    output = "".join(data.draw(st.permutations(letters)))[: data.draw(st.integers(0, 3))]
    text = ",".join(terms) + "->" + output
    extent = {c: data.draw(st.integers(0, 3)) for c in "ijk"}
    arrays = [numbers(*(extent[c] for c in term)) for term in terms]
    tensors = [
        tensor(a, format=data.draw(st.sampled_from([CSF(a.ndim), dense(a.ndim)]))) for a in arrays
    ]
    np.testing.assert_allclose(einsum(text, *tensors).to_numpy(), np.einsum(text, *arrays))


def test_ellipses() -> None:
    P, Q = numbers(2, 3, 4), numbers(2, 4, 5)
    for text, left, right in [
        ("...ij,...jk->...ik", P, Q),
        ("...ij,...jk", P, Q),
        ("...ij,jk->...ik", P, Q[0]),
        ("i...,i->...", P, numbers(2)),
        ("...,...->", P, P),
    ]:
        if text.endswith("->"):
            with pytest.raises(ParseError, match="no place for the modes"):
                einsum(text, left, right)
            continue
        result = einsum(text, tensor(left, format=CSF(left.ndim)), right)
        np.testing.assert_allclose(result.to_numpy(), np.einsum(text, left, right))


def test_foreign_operands() -> None:
    A = numbers(3, 4)
    x = numbers(4)
    for matrix in (A, sparse.csr_array(A), sparse.coo_matrix(A), A.tolist(), tensor(A)):
        np.testing.assert_allclose(einsum("ij,j->i", matrix, x).to_numpy(), A @ x)
    np.testing.assert_allclose(einsum("ij,->ij", sparse.csr_array(A), 2).to_numpy(), 2 * A)


def test_format_of_the_result() -> None:
    A, B = tensor(numbers(3, 4), format=CSR), tensor(numbers(4, 2), format=CSR)
    assert einsum("ij,jk->ik", A, B).format == CSR
    assert einsum("ij,jk->ik", A, B, format=DCSR).format == DCSR
    assert einsum("ij,jk->ik", A, B, format="CSC").format == CSC
    assert einsum("ij,jk->ik", A, B, format=dense(2)).format == dense(2)
    assert einsum("ij->ji", A).format == CSC
    with pytest.raises(FormatError, match="E401"):
        einsum("ij,jk->ik", A, B, format=CSF(3))


def test_element_types() -> None:
    small = np.full((2, 3), 100, dtype=np.int8)
    A = tensor(small, format=CSR)
    assert einsum("ij->i", A).dtype == np.int8
    wide = einsum("ij,ij->i", A, A, dtype="int64")
    assert (wide.dtype, wide.to_numpy().tolist()) == (np.int64, [30000, 30000])
    assert einsum("ij,ij->i", A, A.astype("float32")).dtype == np.float32
    truth = tensor(np.eye(3, dtype=bool), format=CSR)
    assert einsum("ij,jk->ik", truth, truth).dtype == bool


def test_semirings() -> None:
    inf = np.inf
    array = np.array([[0.0, 4.0, 1.0], [inf, 0.0, inf], [inf, 2.0, 0.0]])
    d = np.array([0.0, 7.0, 5.0])
    A = tensor(array, format=CSR, fill=inf)
    expected = np.min(array + d, axis=1)
    for semiring in ("min_plus", MIN_PLUS):
        result = einsum("ij,j->i", A, d, semiring=semiring)
        np.testing.assert_allclose(result.to_numpy(), expected)
    squared = einsum("ij,jk->ik", A, A, semiring="min_plus")
    assert (squared.format, squared.fill) == (CSR, inf)
    best = np.min(array[:, :, None] + array[None, :, :], axis=1)
    np.testing.assert_allclose(squared.to_numpy(), best)
    graph = tensor(np.array([[0, 1], [0, 0]], dtype=bool), format=CSR)
    assert einsum("ij,jk->ik", graph, graph, semiring="or_and").to_numpy().tolist() == [
        *([False, False], [False, False])
    ]
    with pytest.raises(ParseError, match="E111"):
        einsum("ij,j->i", A, d, semiring="plus_nothing")


@pytest.mark.parametrize(
    ("subscripts", "shapes", "piece"),
    [
        ("ij,jk->ik", [(2, 3)], "have 2 operands, but 1 was given"),
        ("ij", [(2, 3), (3,)], "have 1 operand, but 2 were given"),
        ("ijk", [(2, 3)], "'ijk' does not fit an operand of 2 modes"),
        ("i", [(2, 3)], "of 2 modes"),
        ("", [(2,)], "'' does not fit an operand of 1 modes"),
        ("ij->ik", [(2, 3)], "k is in the result, but in no operand"),
        ("ij->ii", [(2, 3)], "i is in the result twice"),
        ("i1", [(2, 3)], "'1' has no meaning"),
        ("ij->i->j", [(2, 3)], "has no meaning"),
        ("i;j", [(2, 3)], "';' has no meaning"),
        ("i.j", [(2, 3)], "'.' has no meaning"),
        ("ij->i,j", [(2, 3)], "the result has a comma"),
        ("......", [(2, 3)], "occurs twice"),
        ("é", [(2,)], "has no meaning"),
        (3, [(2, 3)], "must be a string"),
        ([0, 1], [(2, 3)], "must be a string"),
    ],
)
def test_subscripts_that_do_not_fit(subscripts: Any, shapes: Any, piece: str) -> None:
    with pytest.raises(ParseError) as caught:
        einsum(subscripts, *[np.ones(shape) for shape in shapes])
    assert caught.value.code == "E110"
    assert piece in str(caught.value)


def test_extents_that_disagree() -> None:
    with pytest.raises(ShapeError, match="E201: j has extent 3, but 4 in mode 0 of B"):
        einsum("ij,jk->ik", np.ones((2, 3)), tensor(np.ones((4, 2)), name="B"))
    with pytest.raises(ShapeError, match="E201"):
        einsum("ii->i", np.ones((2, 3)))


def test_no_operands() -> None:
    with pytest.raises(OpenworkError):
        einsum("ij")
    assert parse_subscripts("->", (0,)).result == ()


def test_one_tensor_may_come_twice() -> None:
    A = tensor(numbers(3, 3), format=CSR)
    np.testing.assert_allclose(einsum("ij,jk->ik", A, A).to_numpy(), A.to_numpy() @ A.to_numpy())


@pytest.mark.needs_cc
def test_a_second_call_costs_little() -> None:
    A, x = tensor(numbers(3, 4), format=CSR), tensor(numbers(4))
    einsum("ij,j->i", A, x)
    times = []
    for _ in range(200):
        start = perf_counter()
        einsum("ij,j->i", A, x)
        times.append(perf_counter() - start)
    assert sorted(times)[10] < 500e-6  # generous, for machines that do other things too
