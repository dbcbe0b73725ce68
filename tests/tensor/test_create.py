"""Tensors from and to NumPy, SciPy, lists and coordinates; copies only where they must be."""

from __future__ import annotations

import copy
import gc
import weakref
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from openwork.algebra.types import NAMES
from openwork.errors import FormatError, ParseError, ShapeError
from openwork.format.formats import BSR, CSC, CSF, CSR, DCSR, DIA, LIL, Format, dense
from openwork.format.levels import Compressed, Dense
from openwork.format.levels.width import INT32_LIMIT
from openwork.index.build import indices
from openwork.index.nodes import Access
from openwork.tensor.create import empty, from_arrays, placeholder, tensor
from openwork.tensor.tensor import Tensor

MATRIX = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0], [4.0, 0.0, 5.0]])
KINDS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")


# NumPy


def test_row_major_and_column_major_arrays_are_shared() -> None:
    array = MATRIX.copy()
    A = tensor(array, name="A")
    assert A.format == dense(2)
    assert np.shares_memory(A.storage.values, array)
    assert np.shares_memory(A.to_numpy(), array)
    F = tensor(np.asfortranarray(array))
    assert F.format == dense(2, (1, 0))
    T = tensor(array.T)
    assert T.format == dense(2, (1, 0))
    assert np.shares_memory(T.storage.values, array)
    np.testing.assert_array_equal(T.to_numpy(), array.T)


def test_other_layouts_are_copied() -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    for view in (array[:, ::2], array.transpose(1, 0, 2), array[..., ::-1]):
        A = tensor(view)
        assert A.storage.values.flags.c_contiguous
        np.testing.assert_array_equal(A.to_numpy(), view)
    swapped = array.astype(">f8")
    assert tensor(swapped).dtype == np.float64
    np.testing.assert_array_equal(tensor(swapped).to_numpy(), array)


def test_read_only_arrays_and_subclasses_are_taken() -> None:
    array = MATRIX.copy()
    array.flags.writeable = False
    assert np.shares_memory(tensor(array).storage.values, array)
    subclass = MATRIX.view(np.recarray)
    assert type(tensor(subclass).to_numpy()) is np.ndarray
    np.testing.assert_array_equal(tensor(subclass).to_numpy(), MATRIX)


@pytest.mark.parametrize("name", NAMES)
def test_every_element_type(name: str) -> None:
    array = np.array([[0, 1], [1, 0]]).astype(name)
    for format in (None, "CSR", "CSC", "Compressed, Dense"):
        A = tensor(array, format=format)
        assert A.dtype == name
        np.testing.assert_array_equal(A.to_numpy(), array)
    if name != "float16":  # which SciPy has not
        assert tensor(sparse.csr_array(array)).dtype == name


def test_a_sparse_format_drops_zeros_but_no_nan() -> None:
    A = tensor(np.array([[0.0, np.nan], [-0.0, 3.0]]), format=CSR)
    assert A.nnz == 2
    assert np.isnan(A.to_numpy()[0, 1])
    full = tensor(np.array([np.inf, 1.0]), format=CSF(1), fill=np.inf)
    assert (full.nnz, full.fill) == (1, np.inf)
    assert full.to_numpy().tolist() == [np.inf, 1.0]


def test_numbers_and_lists() -> None:
    assert tensor(3).dtype == np.int64
    assert tensor(2.5).item() == 2.5
    assert tensor(True).item() is True
    assert tensor(1j).item() == 1j
    assert tensor(np.float32(2)).dtype == np.float32
    assert tensor(Fraction(1, 2)).item() == 0.5
    assert tensor([]).shape == (0,)
    assert tensor([[1, 2], [3, 4]]).to_numpy().tolist() == [[1, 2], [3, 4]]
    assert tensor(((1, 2), (3, 4)), dtype="float32").dtype == np.float32
    assert tensor(range(3)).shape == (3,)


@pytest.mark.parametrize(
    "thing",
    [
        *("text", {1: 2}, {1}, None, object(), lambda: 0, [[1], [2, 3]], ["a"], [None], 2**70),
        np.ma.masked_array([1.0, 2.0], mask=[True, False]),
        (np.zeros((2, 3), dtype=int), np.ones(3)),  # coordinates need a shape
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_what_cannot_be_a_tensor(thing: Any) -> None:
    with pytest.raises(FormatError) as caught:
        tensor(thing)
    assert caught.value.code == "E405"
    assert caught.value.hint


def test_what_numpy_can_view() -> None:
    class Interface:
        def __init__(self, array: Any) -> None:
            self.kept = array
            self.__array_interface__ = array.__array_interface__

    class Capsule:
        def __init__(self, array: Any) -> None:
            self.kept = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.kept.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.kept.__dlpack_device__()

    class Holder:
        def to_scipy(self) -> Any:
            return sparse.csr_array(MATRIX)

    array = MATRIX.copy()
    for obj in (Interface(array), Capsule(array)):
        assert np.shares_memory(tensor(obj).storage.values, array)
    assert tensor(Holder()).format == CSR


def test_formats_must_fit() -> None:
    with pytest.raises(FormatError, match="E401"):
        tensor(MATRIX, format=CSF(3))
    with pytest.raises(FormatError, match="E403"):
        tensor(MATRIX, format="Squeezed(0)")
    with pytest.raises(FormatError, match="E402"):
        tensor(MATRIX, dtype="float128")
    with pytest.raises(FormatError, match="E405"):
        tensor(MATRIX, shape=(3, 4))


# SciPy


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cls", ["array", "matrix"])
def test_every_scipy_class(kind: str, cls: str) -> None:
    matrix = getattr(sparse, f"{kind}_{cls}")(MATRIX)
    A = tensor(matrix, name="A")
    kept = {"csc": CSC, "bsr": BSR(1, 1), "dia": DIA, "lil": LIL}
    assert A.format == kept.get(kind, CSR)
    np.testing.assert_array_equal(A.to_numpy(), MATRIX)
    np.testing.assert_array_equal(tensor(matrix, format=DCSR).to_numpy(), MATRIX)


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("width", [np.int32, np.int64])
def test_csr_and_csc_are_shared_if_asked_for(kind: str, width: Any) -> None:
    matrix = getattr(sparse, f"{kind}_array")(MATRIX)
    matrix.indptr, matrix.indices = matrix.indptr.astype(width), matrix.indices.astype(width)
    for share in (False, True):
        A = tensor(matrix, share=share)
        assert np.shares_memory(A.storage.values, matrix.data)
        for mine, theirs in [("pos", matrix.indptr), ("crd", matrix.indices)]:
            assert np.shares_memory(A.storage.levels[1][mine], theirs) == share
    back = A.to_scipy(share=True)
    assert type(back) is type(matrix)
    assert np.shares_memory(back.data, matrix.data)
    if width is np.int32:
        assert np.shares_memory(back.indices, matrix.indices)
        assert np.shares_memory(back.indptr, matrix.indptr)


def test_arrays_of_two_widths_stay_as_they_are() -> None:
    matrix = sparse.csr_array(MATRIX)
    matrix.indptr = matrix.indptr.astype(np.int64)
    A = tensor(matrix, share=True)
    assert A.storage.widths == ("int32", "int64")  # crd, pos
    back = A.to_scipy()
    assert back.indices.dtype == back.indptr.dtype
    np.testing.assert_array_equal(back.toarray(), MATRIX)


def test_unsorted_and_repeated_columns_leave_the_caller_alone() -> None:
    pos, crd = np.array([0, 3, 4], dtype=np.int32), np.array([2, 0, 2, 1], dtype=np.int32)
    data = np.array([1.0, 2.0, 4.0, 8.0])
    matrix = sparse.csr_array((data, crd, pos), shape=(2, 3))
    kept = [pos.copy(), crd.copy(), data.copy()]
    A = tensor(matrix)
    assert A.nnz == 3
    assert A.to_numpy().tolist() == [[2.0, 0.0, 5.0], [0.0, 8.0, 0.0]]
    for array, copied in zip((pos, crd, data), kept, strict=True):
        np.testing.assert_array_equal(array, copied)
    assert matrix.nnz == 4
    columns = sparse.csc_array((data, crd, pos), shape=(3, 2))
    assert tensor(columns).format == CSC
    np.testing.assert_array_equal(tensor(columns).to_numpy(), columns.toarray())


def test_spare_room_behind_the_entries_is_left_out() -> None:
    matrix = sparse.csr_array(MATRIX)
    matrix.data = np.append(matrix.data, [9.0, 9.0])
    matrix.indices = np.append(matrix.indices, np.array([7, 7], dtype=np.int32))
    A = tensor(matrix)
    assert A.nnz == 5
    assert np.shares_memory(A.storage.values, matrix.data)


def test_vectors_and_more_modes_of_scipy() -> None:
    vector = sparse.coo_array(np.array([0.0, 3.0, 0.0]))
    assert tensor(vector).format == CSF(1)
    assert tensor(vector.tocsr()).to_numpy().tolist() == [0.0, 3.0, 0.0]
    cube = np.zeros((2, 3, 2))
    cube[1, 2, 0] = 5
    A = tensor(sparse.coo_array(cube))
    assert A.format == CSF(3)
    np.testing.assert_array_equal(A.to_numpy(), cube)


def test_to_scipy_of_other_formats() -> None:
    for format in (DCSR, dense(2), Format([Compressed, Dense]), CSF(2, (1, 0))):
        back = tensor(MATRIX, format=format).to_scipy()
        assert isinstance(back, sparse.coo_array)
        np.testing.assert_array_equal(back.toarray(), MATRIX)
    for wrong in (tensor([1.0], format=CSF(1)), tensor(1.0), tensor(MATRIX, "CSR", fill=2.0)):
        with pytest.raises(FormatError, match="E404") as caught:
            wrong.to_scipy()
        assert "to_coo" in str(caught.value)


def test_empty_matrices_and_extents_of_zero() -> None:
    for shape in [(0, 0), (0, 3), (3, 0), (4, 5)]:
        for kind in ("csr", "csc", "coo"):
            A = tensor(getattr(sparse, f"{kind}_array")(shape))
            assert (A.shape, A.nnz) == (shape, 0)
            assert A.to_numpy().shape == shape
            assert A.to_scipy().shape == shape
        for format in ("CSR", "DCSR", "Compressed, Dense", None):
            assert tensor(np.zeros(shape), format=format).to_numpy().shape == shape


def test_widths_of_converted_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(INT32_LIMIT, "value", 100)
    matrix = sparse.random_array(
        (120, 130), density=0.02, format="coo", rng=np.random.default_rng(0)
    )
    A = tensor(matrix)
    assert A.storage.widths == ("int64", "int64")
    assert tensor(matrix.tocsr()).storage.widths == ("int32", "int32")  # the caller's
    np.testing.assert_array_equal(A.to(CSC).to_scipy().toarray(), matrix.toarray())


# Coordinates


def test_coordinates_and_values() -> None:
    A = tensor(([[0, 1, 0], [2, 0, 2]], [1.0, 0.0, 4.0]), shape=(2, 3))
    assert A.format == CSR
    assert A.nnz == 2  # the zero stays, the two at (0, 2) are one
    assert A.to_numpy().tolist() == [[0.0, 0.0, 5.0], [0.0, 0.0, 0.0]]
    coords, values = A.to_coo()
    assert coords.shape == (2, 2)
    np.testing.assert_array_equal(tensor((coords, values), shape=(2, 3)).to_numpy(), A.to_numpy())
    assert tensor((([0, 1], [2, 0]), [1, 2]), shape=(2, 3)).dtype == np.int64
    assert tensor(([1, 3], [1.0, 2.0]), shape=(5,)).format == CSF(1)
    assert tensor((np.zeros((0, 2), int), [1.0, 2.0]), shape=()).item() == 3.0
    unsigned = np.array([[0, 1], [1, 0]], dtype=np.uint64)
    assert tensor((unsigned, [1.0, 2.0]), shape=(2, 2)).nnz == 2


@pytest.mark.parametrize("order", range(8))
def test_any_number_of_modes(order: int) -> None:
    rng = np.random.default_rng(order)
    shape = tuple(rng.integers(1, 4, order).tolist())
    array = rng.integers(0, 2, shape).astype(float)
    for format in (None, CSF(order), CSF(order, range(order)[::-1])):
        A = tensor(array, format=format)
        assert (A.order, A.ndim, A.shape) == (order, order, shape)
        np.testing.assert_array_equal(A.to_numpy(), array)
        again = tensor(A.to_coo(), shape=shape)
        np.testing.assert_array_equal(again.to_numpy(), array)


# The class itself


def test_tensors_from_tensors() -> None:
    A = tensor(MATRIX, format=CSR, name="A")
    assert tensor(A).storage is A.storage
    assert tensor(A, format=CSC).format == CSC
    assert tensor(A, dtype="float32").dtype == np.float32
    assert A.to("CSR") is A
    assert A.astype("float64") is A
    assert A.astype("int8").storage.levels is A.storage.levels
    assert tensor(A, fill=7.0).to_numpy()[1, 1] == 7.0
    duplicate = A.copy()
    assert not np.shares_memory(duplicate.storage.values, A.storage.values)


def test_empty_tensors() -> None:
    y = empty((2, 3), name="y")
    assert (y.to_numpy() == 0).all()
    assert y.to_numpy().flags.writeable
    assert (empty((2,), fill=np.inf).to_numpy() == np.inf).all()
    assert empty((), dtype="int32").item() == 0
    C = empty((2, 3), "float32", CSC, "C")
    assert (C.nnz, C.dtype, C.format, C.name) == (0, np.float32, CSC, "C")
    assert empty(3).shape == (3,)
    with pytest.raises(FormatError, match="E401"):
        empty((2, 3), format=CSF(3))


def test_placeholders() -> None:
    P = placeholder("P", order=2, format=CSR, dtype="float32")
    assert (P.shape, P.order, P.dtype, P.name) == ((None, None), 2, np.float32, "P")
    assert placeholder("Q", 2, shape=(3, None)).T.shape == (None, 3)
    with pytest.raises(ShapeError, match="E203: P is a placeholder"):
        _ = P.nnz
    with pytest.raises(ShapeError, match="E203"):
        tensor(P)
    with pytest.raises(FormatError, match="E401"):
        placeholder("P", order=3, format=CSR)


def test_names() -> None:
    first, second = tensor(1.0), tensor(1.0)
    assert first.name != second.name
    assert first.name.startswith("T")
    hostile = tensor(1.0, name='x; system("*/")')
    assert hostile.name == 'x; system("*/")'
    for wrong in ("", 3):
        with pytest.raises(FormatError, match="E405"):
            tensor(1.0, name=wrong)  # type: ignore[arg-type]


def test_fills_are_numbers() -> None:
    assert tensor([1.0], CSF(1), fill=np.float32(2)).fill == 2.0
    assert tensor([1], CSF(1), fill=np.inf).fill == np.iinfo(np.int64).max
    for make in (lambda f: tensor([1.0], fill=f), lambda f: empty(2, fill=f)):
        with pytest.raises(FormatError, match="E405"):
            make("zero")


def test_transposing_moves_nothing() -> None:
    A = tensor(MATRIX, format=CSR)
    assert A.T.format == CSC
    assert A.T.storage.values is A.storage.values
    np.testing.assert_array_equal(A.T.to_numpy(), MATRIX.T)
    cube = np.arange(24.0).reshape(2, 3, 4)
    B = tensor(cube, format=CSF(3))
    np.testing.assert_array_equal(B.transpose((2, 0, 1)).to_numpy(), cube.transpose(2, 0, 1))
    np.testing.assert_array_equal(B.T.to_numpy(), cube.T)
    with pytest.raises(ShapeError, match="E204"):
        B.transpose((0, 1))
    with pytest.raises(ShapeError, match="E204"):
        B.transpose((0, 0, 1))


def test_numbers_from_tensors_without_modes() -> None:
    s = tensor(2.5)
    assert (float(s), int(s), complex(s), bool(s), s.item()) == (2.5, 2, 2.5 + 0j, True, 2.5)
    assert "= 2.5" in repr(s)
    vector = tensor([1.0])
    assert vector.item() == tensor([[1.0]], format=CSR).item() == 1
    with pytest.raises(ShapeError, match="2 elements"):
        tensor([1.0, 2.0]).item()
    for convert in (float, int, complex):
        with pytest.raises(ShapeError, match="E204"):
            convert(vector)
    with pytest.raises(ParseError, match="E112"):
        bool(vector)


def test_numpy_gets_dense_tensors_only() -> None:
    np.testing.assert_array_equal(np.asarray(tensor(MATRIX)), MATRIX)
    assert np.asarray(tensor(MATRIX), dtype=np.float32).dtype == np.float32
    with pytest.raises(TypeError, match=r"\.to_numpy\(\)"):
        np.asarray(tensor(MATRIX, format=CSR))


def test_accesses() -> None:
    i, j = indices("i j")
    A = tensor(MATRIX, format=CSR, name="A")
    access = A[i, j]
    assert isinstance(access.node, Access)
    assert access.node.tensor.source is A
    assert access.node == A[i, j].node
    assert A.tensor_var == A.tensor_var
    for wrong in ((i,), (i, j, i)):
        with pytest.raises(ParseError, match="E104"):
            A[wrong]
    for wrong in ((slice(None), i), (i, ...), (i, 1.5)):
        with pytest.raises(ParseError, match="E112"):
            A[wrong]
    s = tensor(2.0, name="s")
    assert str(s[()]) == "s[]"
    assert (s * A[i, j]).node == (s[()] * A[i, j]).node
    assert (A[i, j] * s).node == (A[i, j] * s[()]).node
    with pytest.raises(ParseError, match="E104"):
        _ = A * A[i, j]


def test_recorded_statements() -> None:
    i, j = indices("i j")
    A, x, y = tensor(MATRIX, name="A"), tensor(MATRIX[0], name="x"), empty((4,), name="y")
    with pytest.raises(ParseError, match="E102: nothing has been assigned to y"):
        _ = y.statement
    y[i] = A[i, j] * x[j]
    assert y.statement is not None
    y[i] += A[i, j]
    assert str(y.statement) == "y(i) += A(i,j)"


def test_tensors_are_freed_at_once() -> None:
    (i,) = indices("i")
    x = tensor([1.0, 2.0], name="x")
    y = empty((2,), name="y")
    y[i] = x[i]
    gone = [weakref.ref(x), weakref.ref(y)]
    gc.disable()
    try:
        del x, y
        assert [ref() for ref in gone] == [None, None]
    finally:
        gc.enable()


def test_copies_keep_their_arrays_apart() -> None:
    A = tensor(MATRIX, format=CSR, name="A")
    _ = A.storage.pointers  # addresses must not survive a copy
    B = copy.deepcopy(A)
    assert B.storage.pointers != A.storage.pointers
    assert (B.name, B.format) == ("A", CSR)
    np.testing.assert_array_equal(B.to_numpy(), MATRIX)
    P = copy.deepcopy(placeholder("P", 2, CSR))
    assert P.name == "P"


def test_what_kernels_ask_of_tensors() -> None:
    template = placeholder("A", 2, CSR)
    A = tensor(MATRIX, format=CSR)
    assert template.__openwork_coerce__(A) is A
    for foreign in (sparse.csr_array(MATRIX), MATRIX, sparse.coo_matrix(MATRIX), A.to(CSC)):
        made = template.__openwork_coerce__(foreign)
        assert (made.format, made.dtype) == (CSR, np.float64)
        np.testing.assert_array_equal(made.to_numpy(), MATRIX)
    assert template.__openwork_coerce__(A.astype("int8")).dtype == np.float64
    vector = placeholder("x", 1)
    for wrong, at in [
        (A.astype("complex64"), template),
        (np.ones(3), template),
        (A, placeholder("D", 2)),
        (tensor(MATRIX, CSR, fill=1.0), template),
        (A.astype("float64"), placeholder("F", 2, CSR, "float32")),
        (1.0, vector),
    ]:
        with pytest.raises(ShapeError, match="E202") as caught:
            at.__openwork_coerce__(wrong)
        assert caught.value.hint
    result = template.__openwork_result__(A.storage)
    assert (result.name, result.storage) == ("A", A.storage)
    C = empty((4, 3), format=CSR)
    C.__openwork_store__(A.storage)
    np.testing.assert_array_equal(C.to_numpy(), MATRIX)


def test_repr_is_short() -> None:
    assert repr(tensor(MATRIX, CSR, "A")) == "<Tensor A: 4x3 float64, ow.CSR, 5 stored>"
    assert repr(tensor([1], name="x")) == str(tensor([1], name="x"))
    assert "else inf" in repr(tensor(MATRIX, CSR, fill=np.inf))
    assert isinstance(from_arrays(dense(1), (2,), [()], [1.0, 2.0]), Tensor)
    assert repr(placeholder("P", 1)) == "<Tensor P: ? float64, ow.dense(1), no data>"


def test_drawing() -> None:
    drawn = tensor(MATRIX, format=CSR, name="A").draw().splitlines()
    assert drawn == [
        "A: 4x3 float64, ow.CSR, 5 stored",
        "  type      ([i -> [int32]_(pos[i+1]-pos[i])]_4, [i -> [float64]_(pos[i+1]-pos[i])]_4)",
        "  level 0: Dense, mode 0, extent 4",
        "  level 1: Compressed, mode 1, extent 3",
        "    pos     0 2 2 3 5",
        "    crd     0 2 | | 1 | 0 2 |",
        "  values    1. 2. | | 3. | 4. 5. |",
    ]
    scalar = ["s: scalar int64, ow.dense(0), 1 stored", "  type      int64", "  values    3"]
    assert tensor(3, name="s").draw().splitlines() == scalar
    cube = tensor(np.ones((1, 2, 2), dtype=bool), format=Format([Compressed, Dense, Compressed]))
    assert "crd     0 1 | 0 1 |" in cube.draw()
    long = tensor(np.arange(1000), format=CSF(1)).draw()
    assert "... 975 more" in long
    assert max(map(len, long.splitlines())) < 120
    assert "0 stored" in empty((0, 3), format="DCSR").draw()


def test_half_of_dlpack_is_refused_in_words() -> None:
    class Odd:
        def __dlpack__(self, **more: object) -> object:
            raise RuntimeError("nothing to give")

    with pytest.raises(FormatError, match="E405"):
        tensor(Odd())
