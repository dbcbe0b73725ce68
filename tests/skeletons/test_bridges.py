"""Programs of patterns as statements and back: meaning, not only form, is the same."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse
from tests.choices import in_pairs
from tests.skeletons import listings
from tests.skeletons.test_random import interpreted

import openwork as ow
from openwork import skeletons as sk

BOTH = "nFun n. fun A: [[double]_n]_n. fun B: [[double]_n]_n. "
WITH_X = BOTH + "fun x: [double]_n. "
ROWS = "zip(A, B) :>> map(fun(r => zip(zip(r.1, r.2), x) :>> map(fun(t => "
EACH = "zip(A, B) :>> map(fun(r => zip(r.1, r.2) :>> map("
DENSE: dict[str, tuple[str, Any]] = {
    "sum of products": (WITH_X + ROWS + "(t.1).1 * (t.1).2 * t.2)) :>> reduce(+, 0)))",
                        lambda A, B, x: (A * B) @ x),
    "product of a sum": (WITH_X + ROWS + "((t.1).1 - (t.1).2) * t.2)) :>> reduce(+, 0)))",
                         lambda A, B, x: (A - B) @ x),
    "sum with a dense term": (WITH_X + ROWS + "(t.1).1 + (t.1).2 * t.2 + t.2)) :>> reduce(+, 0)))",
                              lambda A, B, x: A.sum(1) + B @ x + x.sum()),
    "maximum": (WITH_X + ROWS + "(t.1).1 * t.2 - (t.1).2)) :>> reduce(max, -infinity)))",
                lambda A, B, x: (A * x - B).max(1)),
    "product": (BOTH + "A :>> map(fun(r => B :>> transpose :>> map(fun(c => "
                "zip(r, c) :>> map(*) :>> reduce(+, 0)))))", lambda A, B, x: A @ B),
    "add": (BOTH + EACH + "+)))", lambda A, B, x: A + B),
    "multiply": (BOTH + EACH + "*)))", lambda A, B, x: A * B),
    "cosine": (BOTH + EACH + "fun(t => t.1 * t.2 + cos(t.2)))))",
               lambda A, B, x: A * B + np.cos(B)),
}  # fmt: skip
FORMATS = [ow.CSR, ow.CSR.with_layout("packed"), ow.LIL, ow.LIL.with_layout("packed"),
           ow.BSR(2, 3), ow.ragged, ow.lower_triangular, ow.dense(2), ow.CSC,
           ow.CSC.with_layout("packed"), ow.ELL, ow.ELL.with_layout("packed"), ow.SELL(4), ow.DIA,
           ow.banded, ow.dense(2, order=(1, 0)),
           ow.Format([ow.Dense, ow.Lengths], order=(1, 0))]  # fmt: skip
MATRICES = ("product", "add", "multiply", "cosine")  # what these give
RESULTS = [None, ow.CSR, ow.LIL.with_layout("packed"), ow.CSC]
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


def test_csr_has_the_cuda_text_of_index_notation() -> None:
    bound = sk.parse(TEXTS["csr"]).compile("cuda-emulated").bind(**_data("csr", MATRIX))
    tensors = {
        "values": ow.tensor(MATRIX, name="values"), "xs": ow.tensor(X, name="xs"),
        "y": ow.empty(40, dtype="float32", name="y"),
    }  # fmt: skip
    theirs = ow.parse("y(i) = values(i,j) * xs(j)", **tensors).compile("cuda-emulated")
    assert "GPUBlock" in theirs.explain()
    assert bound.ready.source == theirs.source


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
def test_sums_of_naturals_and_numbers_as_parameters(target: str) -> None:
    made = sk.parse("nFun n. fun s: double. iota(n) :>> map(fun(e => e * s)) :>> reduce(+, 0)")
    assert made.compile(target)(n=11, s=0.5) == 27.5
    assert made.compile(target)(n=11, s=np.float64(0.5)) == 27.5


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
        # No parameter gives the variable an extent.
        "nFun n. iota(n) :>> map(fun(e => e % 2)) :>> reduce(+, 0)",
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


def test_a_product_is_read_back_as_a_statement() -> None:
    """Its variables have the names of others in the program."""
    sizes = {"A": (3, 4), "B": (4, 5), "C": (3, 5)}
    tensors = {name: ow.empty(shape, name=name) for name, shape in sizes.items()}
    program = sk.from_statement(ow.parse("C(i,k) = A(i,j) * B(j,k)", **tensors))
    assert str(program.to_statement()) == "y(i,j) = sum(k, A(i,k) * B(k,j))"


def test_a_maximum_counts_what_is_absent() -> None:
    """Of entries alone it would leave out the zeros: -4 instead of 0."""
    A = ow.tensor(np.array([[0, -2.0], [-1, -3]]), format=ow.CSR, name="A")
    y = ow.empty((2,), name="y")
    program = sk.from_statement(ow.parse("y(i) = max(j, A(i,j) * 2)", A=A, y=y))
    kernel = interpreted(program)
    kernel.origin = program._origin
    assert kernel(A=A).tolist() == [0, -2]


FORMAT_TYPES = {
    ow.dense(0): "float64",
    ow.dense(2): "[[float64]_n1]_n0",
    ow.lower_triangular: "[i -> [float64]_{i + 1}]_n0",
    ow.Format([ow.Dense, ow.Growing(3, 2)]): "[i -> [float64]_{3*i + 2}]_n0",
    ow.ragged: "[i -> [float64]_ROW]_n0",
    ow.CSR: "([i -> [int32]_ROW]_n0, [i -> [float64]_ROW]_n0)",
    ow.CSR.with_layout("packed"): "[i -> [(int32, float64)]_ROW]_n0",
    ow.LIL: "([i -> [int32]_{toNat(A_len@i)}]_n0, [i -> [float64]_{toNat(A_len@i)}]_n0)",
    ow.LIL.with_layout("packed"): "[i -> [(int32, float64)]_{toNat(A_len@i)}]_n0",
    ow.BSR(2, 3): "([i -> [int32]_ROW]_{((n0 + 1) / 2)}, "
    "[i -> [[[float64]_3]_2]_ROW]_{((n0 + 1) / 2)})",
    ow.COO(2): "([int32]_NNZ, ([int32]_NNZ, [float64]_NNZ))",
    ow.DCSR: None, ow.CSF(3): None, ow.BSR(1, 4): None, ow.CSF(4): None, ow.COO(4): None,
    ow.COO(2).with_layout("packed"): "([int32]_NNZ, [(int32, float64)]_NNZ)",
    ow.CSF(3).with_layout("packed"): None,
    ow.Format([ow.Dense, ow.Growing, ow.Dense]): "[i -> [[float64]_n2]_{i + 1}]_n0",
    ow.Format([ow.Dense, ow.Lengths, ow.Dense, ow.Dense], (0, 1, 0, 1), (2, 3)): None,
}  # fmt: skip


@pytest.mark.parametrize("format", FORMAT_TYPES, ids=repr)
def test_a_format_is_a_type(format: ow.Format) -> None:
    """And a type of the right shape is the format, whatever its arrays are called."""
    type = sk.type_of(format)
    row = "{toNat(A_pos@(i + 1)) - toNat(A_pos@i)}"
    expected = (FORMAT_TYPES[format] or str(type)).replace("ROW", row)
    assert str(type) == expected.replace("NNZ", "{toNat(A_pos@1)}")
    assert sk.format_of(type) == sk.format_of(str(type)) == format


def test_rows_of_pairs_of_arrays_are_pairs_of_arrays_of_rows() -> None:
    """They lie in memory as these do."""
    row = "{toNat(o@(i+1) - o@i)}"
    text = f"nFun n. fun o: [int]_{{n+1}}. fun A: [i -> ([int]_{row}, [float]_{row})]_n. A"
    assert sk.format_of(sk.parse(text).signature.types[1]) == ow.CSR


def test_the_text_of_a_type_that_no_format_has() -> None:
    with pytest.raises(ow.PatternError, match=re.escape("[i -> [float32]_{n - i}]_n is the type")):
        sk.format_of("[i ↦ [float]_{n-i}]_n")
    for wrong in ("[float", "[float]_n n", "[flaot]_n"):
        with pytest.raises(ow.PatternError, match="expected"):
            sk.format_of(wrong)


@pytest.mark.parametrize("format", [ow.bitmap, ow.CSB(8, 8)], ids=repr)
def test_formats_without_a_type(format: ow.Format) -> None:
    with pytest.raises(ow.PatternError, match="has no type"):
        sk.type_of(format)


def test_entries_that_lie_apart_are_flat_arrays() -> None:
    assert str(sk.type_of(ow.ELL)) == str(sk.type_of(ow.SELL(4))) == "([int32]_n_A, [float64]_n_A)"
    assert str(sk.type_of(ow.ELL.with_layout("packed"))) == "[(int32, float64)]_n_A"
    assert str(sk.type_of(ow.DIA)) == "[float64]_n_A"


def test_a_tensor_stored_otherwise_is_refused() -> None:
    """By columns it has the same type as by rows, and other coordinates in a band."""
    ragged = sk.parse("nFun n. fun A_pos: [int]_{n+1}. "
                      "fun A: [i -> [double]_{toNat(A_pos@(i+1) - A_pos@i)}]_n. "
                      "A :>> map(reduce(+, 0))")  # fmt: skip
    for format in (ow.CSC, ow.banded, ow.ELL):
        with pytest.raises(ow.ShapeError, match="stored as"):
            ragged(A=ow.tensor(np.eye(3), format=format))


@pytest.mark.parametrize(
    ("name", "one", "other", "result"), in_pairs(list(DENSE), FORMATS, FORMATS, RESULTS), ids=str
)
def test_sparse_programs_of_dense_ones(
    name: str, one: ow.Format, other: ow.Format, result: ow.Format | None
) -> None:
    text, meaning = DENSE[name]
    A, B, x = (np.where(RNG.random(s) < 0.4, RNG.integers(-3, 4, s), 0).astype(float)
               for s in ((7, 7), (7, 7), 7))  # fmt: skip
    A, B = (np.tril(m) if f == ow.lower_triangular else m for m, f in ((A, one), (B, other)))
    dense = sk.parse(text)
    if name not in MATRICES:
        result = None
    data = {"A": ow.tensor(A, format=one), "B": ow.tensor(B, format=other), "x": x}
    try:
        program = sk.sparsify(dense, result=result, A=one, B=other)
    except ow.PatternError as error:
        assert result is not None and "no operand has" in error.message, error
        return
    kernel = interpreted(program)
    kernel.origin = program._origin
    got = kernel(**{k: v for k, v in data.items() if k in program.signature.params})
    if result is not None:
        assert got.format == result
        got = got.to_numpy()
    np.testing.assert_allclose(np.reshape(got, np.shape(meaning(A, B, x))), meaning(A, B, x))


TRANSPOSED = {
    "transpose": ("A :>> transpose", lambda A: A.T),
    "symmetric part": ("zip(A, A :>> transpose) :>> map(fun(r => zip(r.1, r.2) :>> map(+)))",
                       lambda A: A + A.T),
}  # fmt: skip


@pytest.mark.parametrize("result", [ow.CSR, ow.CSC.with_layout("packed")], ids=repr)
@pytest.mark.parametrize("name", TRANSPOSED)
def test_a_result_has_the_pattern_of_a_transpose(name: str, result: ow.Format) -> None:
    """By columns that of CSR is as it is stored; and one tensor has one extent, however read."""
    text, meaning = TRANSPOSED[name]
    program = sk.sparsify(sk.parse(f"nFun n. fun A: [[double]_n]_n. {text}"), result, A=ow.CSR)
    A = np.where(RNG.random((5, 5)) < 0.4, RNG.integers(1, 9, (5, 5)), 0).astype(float)
    kernel = interpreted(program)
    kernel.origin = program._origin
    got = kernel(A=ow.tensor(A, format=ow.CSR))
    assert got.format == result
    np.testing.assert_array_equal(got.to_numpy(), meaning(A))


def test_a_transpose_is_read_as_it_is_stored() -> None:
    dense = sk.parse("nFun n. nFun m. fun A: [[double]_m]_n. A :>> transpose")
    program = sk.sparsify(dense, result=ow.CSC, A=ow.CSR)
    assert program.text.endswith("zip(A_crd@k, A@k) :>> map(fun(e => e.2))))")
    kernel = interpreted(program)
    kernel.origin = program._origin
    A = np.array([[0, 1.0, 0], [2, 0, 3]])
    np.testing.assert_array_equal(kernel(A=ow.tensor(A, format=ow.CSR)).to_numpy(), A.T)


COLUMN_SUMS = "nFun n. nFun m. fun A: [[double]_m]_n. fun x: [double]_n. A :>> transpose :>> map("
COLUMN_SUMS += "fun(c => zip(c, x) :>> map(*) :>> reduce(+, 0)))"
SPMV = "nFun n. nFun m. fun A: [[double]_m]_n. fun x: [double]_m. A :>> map("
SPMV += "fun(r => zip(r, x) :>> map(*) :>> reduce(+, 0)))"


@pytest.mark.parametrize(
    "format",
    [ow.CSC, ow.CSC.with_layout("packed"), ow.ELL, ow.SELL(4), ow.DIA, ow.banded],
    ids=repr,
)
def test_sparse_programs_run_on_a_gpu(format: ow.Format) -> None:
    A = np.where(RNG.random((9, 5)) < 0.4, RNG.integers(1, 5, (9, 5)), 0).astype(float)
    columns = format.order == (1, 0)
    program = sk.sparsify(sk.parse(COLUMN_SUMS if columns else SPMV), A=format)
    x = RNG.integers(0, 5, 9 if columns else 5).astype(float)
    got = program.compile("cuda-emulated")(A=ow.tensor(A, format=format), x=x)
    np.testing.assert_array_equal(got, x @ A if columns else A @ x)


def test_a_fold_along_columns_goes_through_stored_entries() -> None:
    program = sk.sparsify(sk.parse(COLUMN_SUMS), A=ow.CSC)
    assert "zip(A_crd@j, A@j) :>> map(" in program.text
    with pytest.raises(ow.ShapeError, match=r"stored as ow\.CSR") as caught:  # its type
        program(A=ow.tensor(np.eye(3), format=ow.CSR), x=np.ones(3))
    assert "A.to(ow.CSC)" in str(caught.value.hint)


def test_a_padded_row_ends_with_its_array() -> None:
    """Lengths from a user are tested in the kernel; below 0 a row has no entries."""
    program = sk.sparsify(sk.parse(SPMV), A=ow.ELL)
    arrays = {"A": np.ones(4), "A_crd": np.array([0, 1, 1, 0], "int32"), "x": np.array([1.0, 10])}
    kernel = interpreted(program)
    assert kernel(A_len=np.array([2, 1], "int32"), **arrays).tolist() == [11, 10]
    for lengths in ([3, 1], [2, 2147483647]):
        with pytest.raises(ow.DataError, match="lies outside its array"):
            kernel(A_len=np.array(lengths, "int32"), **arrays)
    assert kernel(A_len=np.array([-1, 1], "int32"), **arrays).tolist() == [0, 10]


@pytest.mark.parametrize(
    ("format", "why"),
    [(ow.DCSR, "only rows that have entries"), (ow.COO(2), "only rows that have entries"),
     (ow.bitmap, "whose rows are no arrays"), (ow.CSB(8, 8), "whose rows are no arrays")], ids=repr,
)  # fmt: skip
def test_formats_that_patterns_cannot_go_through(format: ow.Format, why: str) -> None:
    with pytest.raises(ow.PatternError, match=why) as caught:
        sk.sparsify(sk.parse(SPMV), A=format)
    assert caught.value.code == "E709"
    assert "A.to(ow.CSR)" in str(caught.value.hint)
    A, x = ow.tensor(np.eye(3), format=format), np.arange(3.0)
    kernel = interpreted(sk.sparsify(sk.parse(SPMV), A=ow.CSR))
    assert kernel(A=A.to(ow.CSR), x=x).tolist() == [0, 1, 2]  # the way out


def test_tensors_of_other_orders_have_no_rows() -> None:
    A = ow.placeholder("A", 3, format=ow.CSF(3))
    x, y = ow.empty((3,), name="x"), ow.empty((3,), name="y")
    statement = ow.parse("y(i) = A(i,j,k) * x(k)", A=A, x=x, y=y)
    with pytest.raises(ow.PatternError, match="A has 3 modes"):
        sk.from_statement(statement)
