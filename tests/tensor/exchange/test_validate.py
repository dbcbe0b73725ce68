"""Malformed arrays from outside: each is refused with the array, the index and the value."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import openwork as ow
from openwork.errors import DataError, FormatError, OpenworkError, ShapeError
from openwork.format.formats import CSB, CSC, CSF, CSR, DCSR, Format, dense
from openwork.format.levels import ArrayFact, Bitmap, Compressed, Dense, Level, Range
from openwork.runtime.storage import Storage
from openwork.tensor.create import empty, from_arrays, tensor
from openwork.tensor.exchange.validate import check_shape
from openwork.tensor.files import read
from openwork.tensor.tensor import Tensor

ONES = np.ones(3)
POS, CRD = [0, 2, 2, 3], [0, 3, 1]  # a 3x4 matrix with entries (0,0), (0,3), (2,1)

# (format, shape, levels, values, code, pieces of the message)
LEVEL_CASES: list[tuple[Any, ...]] = [
    # positions
    (CSR, (3, 4), [(), ([1, 2, 2, 3], CRD)], ONES, "E502", "A.levels[1].pos[0] is 1"),
    (CSR, (3, 4), [(), ([0, 2, 1, 3], CRD)], ONES, "E502", "A.levels[1].pos[2] is 1"),
    (CSR, (3, 4), [(), ([0, -1, 2, 3], CRD)], ONES, "E502", "A.levels[1].pos[1] is -1"),
    (CSR, (3, 4), [(), ([0, 2, 2, 4], CRD)], ONES, "E502", "A.levels[1].pos[3] is 4"),
    (CSR, (3, 4), [(), ([0, 2, 2, 2], CRD)], ONES, "E502", "A.levels[1].pos[3] is 2"),
    (CSR, (3, 4), [(), ([0, 2**40, 2, 3], CRD)], ONES, "E502", "pos[2] is 2, below"),
    (
        CSR,
        (3, 4),
        [(), ([0, 2, 3], CRD)],
        ONES,
        "E501",
        "A.levels[1].pos has 3 entries, but needs 4",
    ),
    (CSR, (3, 4), [(), ([0, 2, 2, 3, 3], CRD)], ONES, "E501", "pos has 5 entries, but needs 4"),
    (CSR, (3, 4), [(), ([], CRD)], ONES, "E501", "pos has 0 entries"),
    (DCSR, (3, 4), [([0, 1, 2], [0, 2]), ([0, 1, 2], [0, 1])], [1, 2], "E501", "levels[0].pos"),
    (DCSR, (3, 4), [([0, 2], [0, 2]), ([0, 2, 2, 3], CRD)], ONES, "E501", "levels[1].pos has 4"),
    # coordinates
    (CSR, (3, 4), [(), (POS, [0, 4, 1])], ONES, "E503", "A.levels[1].crd[1] is 4"),
    (CSR, (3, 4), [(), (POS, [0, 3, -1])], ONES, "E503", "A.levels[1].crd[2] is -1"),
    (CSR, (3, 4), [(), (POS, [0, 2**31, 1])], ONES, "E503", "crd[1] is 2147483648"),
    (CSC, (4, 3), [(), (POS, [0, 4, 1])], ONES, "E503", "extent 4"),
    (CSR, (3, 4), [(), (POS, [3, 0, 1])], ONES, "E504", "crd[1] is 0, below 3"),
    (CSR, (3, 4), [(), (POS, [3, 3, 1])], ONES, "E504", "crd[1] is 3, the same"),
    (DCSR, (3, 4), [([0, 2], [2, 0]), ([0, 1, 3], CRD)], ONES, "E504", "A.levels[0].crd[1] is 0"),
    (DCSR, (3, 4), [([0, 2], [0, 3]), ([0, 1, 3], CRD)], ONES, "E503", "A.levels[0].crd[1] is 3"),
    (CSR, (3, 4), [(), (POS, [0, 3])], ONES[:2], "E502", "pos[3] is 3"),
    (CSF(1), (4,), [([0, 3], [0, 2, 5])], ONES, "E503", "A.levels[0].crd[2] is 5"),
    # values
    (CSR, (3, 4), [(), (POS, CRD)], np.ones(2), "E505", "A.values has 2 elements"),
    (CSR, (3, 4), [(), (POS, CRD)], np.ones(4), "E505", "the levels have 3 entries"),
    (CSR, (3, 4), [(), (POS, CRD)], np.ones((3, 1)), "E505", "A.values has 3x1"),
    (dense(2), (3, 4), [(), ()], np.ones(11), "E505", "have 12 entries"),
    (dense(0), (), [], np.ones(0), "E505", "have 1 entries"),
    (Format([Compressed, Dense]), (3, 4), [([0, 1], [2]), ()], ONES, "E505", "have 4 entries"),
    # kinds of arrays
    (CSR, (3, 4), [(), ([[0, 2, 2, 3]], CRD)], ONES, "E501", "2 dimensions"),
    (CSR, (3, 4), [(), (POS, [0.0, 3.0, 1.0])], ONES, "E501", "crd has 1 dimensions of float64"),
    (CSR, (3, 4), [(), (POS, ["a", "b", "c"])], ONES, "E501", "of integers"),
    (CSR, (3, 4), [(), (POS, np.array([0, 2**63, 1], np.uint64))], ONES, "E503", "beyond 64"),
    (CSR, (3, 4), [(), (POS, [[0], [1, 2]])], ONES, "E501", "not an array"),
    # which arrays
    (CSR, (3, 4), [(), (POS,)], ONES, "E501", "(pos, crd), and 1"),
    (CSR, (3, 4), [(), {"pos": POS}], ONES, "E501", "crd, pos, but pos was given"),
    (CSR, (3, 4), [(POS, CRD), (POS, CRD)], ONES, "E501", "level 0, Dense"),
    (CSR, (3, 4), [(POS, CRD)], ONES, "E501", "arrays of 1 levels"),
    (CSR, (3, 4, 5), [(), (POS, CRD)], ONES, "E501", "the shape has 3 modes"),
]


@pytest.mark.parametrize("case", LEVEL_CASES, ids=lambda case: f"{case[4]}-{case[5]}")
def test_malformed_levels(case: tuple[Any, ...]) -> None:
    format, shape, levels, values, code, piece = case
    with pytest.raises(DataError) as caught:
        from_arrays(format, shape, levels, values, name="A")
    assert caught.value.code == code
    assert piece in str(caught.value)


def csr(pos: Any, crd: Any, data: Any, shape: tuple[int, int] = (3, 4), kind: str = "csr") -> Any:
    """A SciPy matrix with these very arrays, however wrong they are."""
    matrix = sparse.csr_array((3, 4)) if kind == "csr" else sparse.csc_array((3, 4))
    matrix.indptr, matrix.indices, matrix.data = (np.asarray(a) for a in (pos, crd, data))
    matrix._shape = shape
    return matrix


SCIPY_CASES: list[tuple[Any, str, str]] = [
    (csr(POS, [0, 9, 1], ONES), "E503", "A.indices[1] is 9"),
    (csr(POS, [0, -5, 1], ONES), "E503", "A.indices[1] is -5"),
    (csr(POS, [3, 0, 9], ONES), "E503", "A.indices[2] is 9"),  # out of order, and out of range
    (csr([0, 3, 2, 3], CRD, ONES), "E502", "A.indptr[2] is 2"),
    (csr([0, 2, 2, 9], CRD, ONES), "E502", "A.indptr[3] is 9"),
    (csr([2, 2, 2, 3], CRD, ONES), "E502", "A.indptr[0] is 2"),
    (csr([0, 2, 2, -1], CRD, ONES), "E502", "A.indptr[3] is -1"),
    (csr([0, 2, 3], CRD, ONES), "E501", "A.indptr has 3 entries"),
    (csr([], CRD, ONES), "E501", "A.indptr has 0 entries"),
    (csr(POS, CRD, ONES[:2]), "E505", "A.data has 2"),
    (csr([0, 2, 2, 3], np.array([0.0, 1.0, 2.0]), ONES), "E501", "A.indices"),
    (csr([0, 1, 2, 3, 3], [2, 3, 1], ONES, kind="csc"), "E503", "A.indices[1] is 3"),
]


@pytest.mark.parametrize("case", SCIPY_CASES, ids=lambda case: case[2])
def test_malformed_scipy_matrices(case: tuple[Any, str, str]) -> None:
    matrix, code, piece = case
    with pytest.raises(DataError) as caught:
        tensor(matrix, name="A")
    assert caught.value.code == code
    assert piece in str(caught.value)


def test_malformed_blocks_are_found_before_scipy_takes_them_apart() -> None:
    matrix = sparse.bsr_array(np.eye(4), blocksize=(2, 2))
    matrix.indices = np.array([0, 50], dtype=np.int32)
    with pytest.raises(DataError, match=r"E503: A.indices\[1\] is 50"):
        tensor(matrix, name="A")


def test_malformed_triplets_of_scipy() -> None:
    matrix = sparse.coo_array(np.eye(3))
    matrix.coords = (np.array([0, 1, 5]), np.array([0, 1, 2]))
    with pytest.raises(DataError, match=r"E503: coords\[0, 2\] is 5"):
        tensor(matrix)


COO_CASES: list[tuple[Any, Any, Any, str, str]] = [
    ([[0, 1], [0, 4]], [1, 2], (3, 4), "E503", "coords[1, 1] is 4, outside mode 1 of extent 4"),
    ([[0, -1], [0, 1]], [1, 2], (3, 4), "E503", "coords[0, 1] is -1"),
    ([[0, 1]], [1, 2], (3, 4), "E501", "coords has shape (1, 2)"),
    ([[0, 1, 2], [0, 1, 2]], [1, 2], (3, 4), "E501", "shape (2, 2)"),
    ([[0.0, 1.0], [0.0, 1.0]], [1, 2], (3, 4), "E501", "float64"),
    ([[0], [0, 1]], [1, 2], (3, 4), "E501", "coords is not an array"),
    ([[0], [0]], [[1.0]], (3, 4), "E505", "2 dimensions"),
    ([[0], [0]], [[1.0], [2.0, 3.0]], (3, 4), "E505", "values is not an array"),
    ([[0], [0]], [1.0], (0, 4), "E503", "outside mode 0 of extent 0"),
]


@pytest.mark.parametrize("case", COO_CASES, ids=lambda case: case[4])
def test_malformed_coordinates(case: tuple[Any, ...]) -> None:
    coords, values, shape, code, piece = case
    with pytest.raises(DataError) as caught:
        tensor((coords, values), shape=shape)
    assert caught.value.code == code
    assert piece in str(caught.value)


@pytest.mark.parametrize(
    "shape", [(-1,), (2.5,), (True, 3), ("3",), (2**63,), (2**62 + 1,), ((2,), 3), None], ids=str
)
def test_impossible_shapes(shape: Any) -> None:
    with pytest.raises(ShapeError) as caught:
        check_shape(shape)
    assert caught.value.code == "E205"
    with pytest.raises(OpenworkError):
        empty(shape)


def test_well_formed_arrays_are_shared_if_asked_for() -> None:
    pos, crd = np.array(POS, dtype=np.int64), np.array(CRD, dtype=np.int32)
    values = np.ones(3, dtype=np.float32)
    A = from_arrays(CSR, (3, 4), [None, {"crd": crd, "pos": pos}], values, share=True)
    arrays = A.storage.levels[1]
    assert arrays["pos"] is pos or np.shares_memory(arrays["pos"], pos)
    assert np.shares_memory(arrays["crd"], crd)
    assert np.shares_memory(A.storage.values, values)
    assert (arrays["pos"].dtype, arrays["crd"].dtype) == (np.int64, np.int32)


def test_other_integers_and_strides_are_converted() -> None:
    pos = np.array(POS, dtype=np.uint8)
    crd = np.array([0, 9, 3, 9, 1, 9], dtype=np.int16)[::2]
    A = from_arrays(CSR, (3, 4), [(), (pos, crd)], np.arange(6.0)[::2])
    assert A.storage.widths == ("int16", "int64")
    assert A.storage.values.flags.c_contiguous
    assert A.to_numpy().tolist() == [[0, 0, 0, 2], [0, 0, 0, 0], [0, 4, 0, 0]]


def test_values_of_a_type_that_we_do_not_have() -> None:
    with pytest.raises(FormatError, match="E402"):
        from_arrays(CSR, (3, 4), [(), (POS, CRD)], np.ones(3, dtype=np.longdouble))
    with pytest.raises(FormatError, match="E402"):
        tensor(np.array([object()]))


# -- blocks at the edge, levels without order, levels of a user's own ------------------------------

BLOCK = [(), ([0, 1, 2], [0, 0]), ([0, 1, 2], [0, 1]), ([0, 0],)]  # entries (0, 0) and (3, 0)


def test_sparse_blocks_do_not_reach_over_the_edge(tmp_path: Path) -> None:
    """Row 3 of 3: a kernel would write past the end of its result."""
    assert from_arrays(CSB(2, 3), (4, 1), BLOCK, np.ones(2)).nnz == 2
    with pytest.raises(DataError, match=r"E503: an entry of A is at 3 of mode 0.*over the edge"):
        from_arrays(CSB(2, 3), (3, 1), BLOCK, np.ones(2), name="A")
    names = [f"level{n}.{a.name}" for n, lv in enumerate(CSB(2, 3).levels) for a in lv.arrays]
    arrays = dict(zip(names, (np.array(a) for level in BLOCK for a in level), strict=True))
    common: dict[str, Any] = {"openwork": np.int64(1), "levels": np.array(str(CSB(2, 3)))}
    common |= {"shape": np.array([3, 1]), "fill": np.zeros(()), "values": np.ones(2)}
    np.savez(tmp_path / "crafted.npz", **common, **arrays)
    with pytest.raises(DataError, match="E503"):
        read(tmp_path / "crafted.npz")


@pytest.mark.parametrize(
    ("inner", "arrays", "good"),
    [
        (Compressed, [([0, 2, 3], [0, 1, 1])], False),
        (Compressed, [([0, 2, 3], [0, 1, 0])], True),
        (Range, [([0, 2, 4], [0, 0])], False),
        (Range, [([0, 2, 3], [0, 0])], True),
        (Bitmap, [([1, 1, 1, 1],)], False),
        (Bitmap, [([1, 1, 1, 0],)], True),
        (Dense, [()], True),  # what a dense block has beyond the edge is padding
    ],
)
def test_blocks_of_one_mode(inner: Level, arrays: Any, good: bool) -> None:
    """Three coordinates in blocks of two: the second of the last block is not there."""
    format = Format([Dense, inner], (0, 0), (2,))
    count = 4 if inner in (Dense, Bitmap) else int(arrays[0][0][-1])
    if good:
        assert from_arrays(format, (3,), [(), *arrays], np.ones(count)).nnz == 3
    else:
        with pytest.raises(DataError, match="E503"):
            from_arrays(format, (3,), [(), *arrays], np.ones(count))


def test_repeats_are_looked_for_where_the_order_is_free() -> None:
    format = Format([Dense, Compressed(ordered=False)])
    assert from_arrays(format, (2, 4), [(), ([0, 2, 3], [3, 0, 1])], ONES).nnz == 3
    with pytest.raises(DataError, match=r"E504: A.levels\[1\].crd\[1\] is 3, which repeats in its"):
        from_arrays(format, (2, 4), [(), ([0, 2, 3], [3, 3, 1])], ONES, name="A")


@pytest.mark.parametrize("door", ["pickle", "arrays"])
def test_a_pickle_is_no_way_around(door: str) -> None:
    bad = {"pos": np.array([0, 1, 2]), "crd": np.array([0, 10**9])}
    made = Tensor.of(Storage((2, 3), CSR, np.dtype("float64"), ({}, bad), np.ones(2)), "A")
    with pytest.raises(DataError, match="E503"):
        if door == "pickle":
            pickle.loads(pickle.dumps(made))  # noqa: S301 - our own
        else:
            from_arrays(CSR, (2, 3), [(), bad], np.ones(2))


def test_truth_values_are_0_or_1_in_memory() -> None:
    odd = np.array([0, 1, 2, 255], np.uint8).view(bool)
    for made in (
        tensor(odd),
        tensor(sparse.csr_array((odd, [0, 1, 2, 3], [0, 4]), shape=(1, 4))),
        tensor((np.arange(4)[None], odd), shape=(4,)),
        from_arrays(CSF(1), (4,), [([0, 4], [0, 1, 2, 3])], odd),
    ):
        assert set(made.storage.values.view(np.uint8).tolist()) <= {0, 1}
        assert made.to_numpy().reshape(-1).tolist() == [False, True, True, True]
    assert odd.view(np.uint8).tolist() == [0, 1, 2, 255]


@dataclass(frozen=True, repr=False)
class Shifted(Level):
    """A run of one entry whose coordinate lies in a table. Nothing is said about its arrays."""

    name = "Shifted"
    arrays = (ArrayFact("which", "parent", holds="numbers"), ArrayFact("table", "own"))
    wrong: str = ""

    def begin(self, a: Any, parent: Any) -> Any:
        return parent + (1 if self.wrong == "begin" else 0)

    def end(self, a: Any, parent: Any) -> Any:
        return parent + (2 if self.wrong in ("begin", "end") else 1)

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        return a.table[a.which[parent]]

    def place(self, a: Any, parent: Any, position: Any) -> Any:
        if self.wrong == "place":
            return position * 2
        return position * 0 if self.wrong == "one place" else position

    def children(self, a: Any, parents: Any) -> Any:
        return parents

    def parent(self, a: Any, position: Any) -> Any:
        return position + 1 if self.wrong == "parent" else position

    def lengths(self, a: Any, parents: int) -> Any:
        return {"table": len(a.table)}


@dataclass(frozen=True, repr=False)
class Found(Shifted):
    """The same, and its coordinate can be looked up."""

    finds = True

    def find(self, a: Any, parent: Any, coordinate: Any) -> Any:
        flag = a.table[a.which[parent]] == coordinate
        return parent + (1 if self.wrong == "found" else 0), flag if self.wrong != "all" else True


@pytest.mark.parametrize("kind", [Shifted, Found])
def test_a_level_that_says_nothing_is_tried_out(kind: type[Shifted]) -> None:
    format = Format([Dense, kind()])
    good = {"which": [1, 0, 1], "table": [3, 2]}
    A = from_arrays(format, (3, 4), [(), good], ONES)
    assert A.to_coo()[0].tolist() == [[0, 1, 2], [2, 3, 2]]
    for array, at, value, piece in [
        ("which", 0, 2, "reads entry 2"),
        ("which", 0, -1, "reads entry -1"),
        ("table", 0, 4, "outside its mode"),
        ("table", 1, -1, "outside its mode"),
        ("table", 1, 2**62, "outside its mode"),
    ]:
        bad = {key: list(numbers) for key, numbers in good.items()}
        bad[array][at] = value
        with pytest.raises(DataError, match=piece):
            from_arrays(format, (3, 4), [(), bad], ONES)


@pytest.mark.parametrize("wrong", ["begin", "end", "place", "one place", "parent", "found", "all"])
def test_formulas_that_lead_astray(wrong: str) -> None:
    arrays = {"which": [1, 0, 1], "table": [3, 2]}
    with pytest.raises(DataError, match="E50"):
        from_arrays(Format([Dense, Found(wrong)]), (3, 4), [(), arrays], ONES)


def test_wide_indices_of_scipy_become_narrow() -> None:
    """SciPy makes them of 64 bits where the coordinates had so many; kernels read half as much."""
    matrix = sparse.random_array((50, 40), density=0.2, format="csr", rng=np.random.default_rng(0))
    wide = matrix.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    made = tensor(wide)
    assert made.storage.widths == ("int32", "int32")
    np.testing.assert_array_equal(made.to_numpy(), matrix.toarray())
    assert not made.storage.levels[1]["crd"].flags.writeable
    assert tensor(wide, share=True).storage.widths == ("int64", "int64")
    wide.indices[3] = 2**32  # which must not turn into 0
    with pytest.raises(DataError, match="E503"):
        tensor(wide)


@pytest.mark.parametrize("below", [ow.Dense, ow.Bitmap])
def test_parents_of_looked_up_levels_are_there_once(below: ow.Level) -> None:
    """A coordinate is looked up below one parent: what another one has would be lost."""
    format = ow.Format([ow.Compressed(unique=False), below, ow.Compressed])
    flags = {"bit": np.ones(6, np.int8)} if below is ow.Bitmap else {}
    pos = np.array([0, 1, 1, 2, 2, 2, 3], np.int32)
    entries = {"pos": pos, "crd": np.array([0, 1, 2], np.int32)}
    for crd, sound in (([0, 1, 2], True), ([0, 0, 1], False)):
        parents = {"pos": np.array([0, 3], np.int32), "crd": np.array(crd, np.int32)}
        levels = [parents, flags, entries]
        if sound:
            assert ow.from_arrays(format, (3, 2, 3), levels, np.ones(3)).to_numpy().sum() == 3
            continue
        with pytest.raises(ow.DataError, match="E504"):
            ow.from_arrays(format, (3, 2, 3), levels, np.ones(3))
