"""Programs of patterns as statements and back: meaning, not only form, is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse
from tests.skeletons import listings

import openwork as ow
from openwork import skeletons as sk

RNG = np.random.default_rng(1)
MATRIX = sparse.random(40, 30, 0.2, format="csr", random_state=3, dtype=np.float32)
X = RNG.random(30, dtype=np.float32)
B = RNG.random((30, 3), dtype=np.float32)
OFFSETS = "fun o: [int]_{n+1}. fun v: [i -> [(int, float)]_{toNat(o@(i+1) - o@i)}]_n."
TEXTS = {
    "csr": listings.CSR.replace("offset", "o"), "lil": listings.LIL, "packed": listings.PACKED,
    "spmm": listings.SPMM, "dense": listings.DENSE,
}  # fmt: skip


def _data(name: str, matrix: Any) -> dict[str, Any]:
    pairs = sk.pairs(matrix.indices, matrix.data)
    flat = {"o": matrix.indptr, "col_indices": matrix.indices, "values": matrix.data, "xs": X}
    lengths = np.diff(matrix.indptr).astype("int32")
    return {
        "csr": flat, "lil": {"lengths": lengths, **{k: v for k, v in flat.items() if k != "o"}},
        "packed": {"offset": matrix.indptr, "values": pairs, "xs": X},
        "spmm": {"offset": matrix.indptr, "values": pairs, "B": B},
        "dense": {"mat": matrix.toarray(), "xs": X},
    }[name]  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_gpu_takes_the_schedule_of_index_notation(name: str) -> None:
    bound = sk.parse(TEXTS[name]).compile("cuda-emulated").bind(**_data(name, MATRIX))
    expected = MATRIX @ (B if name == "spmm" else X)
    np.testing.assert_allclose(bound(), expected, rtol=2e-5)
    assert "statement: y(i" in bound.explain()
    assert "GPUBlock" in bound.explain()


def test_entries_out_of_order_run_as_patterns() -> None:
    """A statement's matrix has each coordinate once; rows of patterns may repeat it."""
    kernel = sk.parse(TEXTS["csr"]).compile("cuda-emulated")
    wrong = MATRIX.copy()
    wrong.indices[wrong.indptr[:-1][np.diff(wrong.indptr) > 1]] = 29
    bound = kernel.bind(**_data("csr", wrong))
    np.testing.assert_allclose(bound(), wrong @ X, rtol=2e-5)
    assert "statement:" not in bound.explain()


@pytest.mark.parametrize(
    "text",
    [
        # A variable of a statement goes over whole arrays.
        "nFun n. fun x: [float]_{n+1}. generate(n, nFun(i => x@i))",
        "nFun n. fun x: [float]_{n+1}. fun y: [float]_n. generate(n, nFun(i => x@i + y@i))",
        # Where there is no entry, a sum over all coordinates has a term, too.
        f"nFun n. {OFFSETS} v :>> map(fun(r => r :>> map(fun(e => e.2 + 1.0)) :>> reduce(+, 0)))",
        f"nFun n. {OFFSETS} v :>> map(fun(r => r :>> map(fun(e => e.2)) :>> reduce(max, -9.0)))",
        f"nFun n. {OFFSETS} v :>> map(fun(r => r :>> map(fun(e => neg(e.2))) :>> reduce(min, 9)))",
        f"nFun n. {OFFSETS} v :>> map(fun(r => r :>> map(fun(e => e.1)) :>> reduce(+, 0)))",
        # Positions are no coordinates, and entries of two matrices have their own.
        f"nFun n. {OFFSETS} v :>> map(map(fun(e => e.2 * 2)))",
        f"nFun n. {OFFSETS} o :>> map(fun(e => e + 1))",
        f"nFun n. {OFFSETS} fun c: [i -> [int]_{{toNat(o@(i+1) - o@i)}}]_n. "
        "zip(c, v) :>> map(fun(t => zip(t.1, t.2) :>> map(fun(e => (e.2).2)) :>> reduce(+, 0)))",
    ],
)
def test_programs_that_are_no_statements(text: str) -> None:
    with pytest.raises(ow.PatternError) as caught:
        sk.parse(text).to_statement()
    assert caught.value.code == "E709"


def test_a_maximum_counts_what_is_absent() -> None:
    """Of entries alone it would leave out the zeros: -4 instead of 0."""
    A = ow.tensor(np.array([[0, -2.0], [-1, -3]]), format=ow.CSR, name="A")
    y = ow.empty((2,), name="y")
    with pytest.raises(ow.PatternError, match="more than nothing"):
        sk.from_statement(ow.parse("y(i) = max(j, A(i,j) * 2)", A=A, y=y))
