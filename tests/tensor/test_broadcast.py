"""Which modes meet, and modes of extent 1 that go away."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from openwork.errors import ShapeError
from openwork.format.formats import (
    BANDED,
    BITMAP,
    BSR,
    COO,
    CSB,
    CSC,
    CSR,
    DCSR,
    DIA,
    ELL,
    LIL,
    SELL,
    Format,
    dense,
)  # fmt: skip
from openwork.format.levels import Compressed, Dense, Hashed, Permuted, Singleton
from openwork.tensor.convert.pack import from_dense, to_dense
from openwork.tensor.create import tensor
from openwork.tensor.exchange.validate import validate
from openwork.tensor.rearrange.broadcast import broadcast, check_axes, matmul_layout, squeeze

SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@given(SHAPES, SHAPES)
def test_broadcasting_is_numpys(left: Any, right: Any) -> None:
    try:
        expected = np.broadcast_shapes(left, right)
    except ValueError:
        with pytest.raises(ShapeError, match="E204: add cannot broadcast A of shape"):
            broadcast((left, right), "AB", "add")
        return
    layout = broadcast((left, right), "AB", "add")
    assert layout.result == tuple(range(len(expected)))
    for shape, variables, dropped in zip(
        (left, right), layout.operands, layout.dropped, strict=True
    ):
        kept = [n for mode, n in enumerate(shape) if mode not in dropped]
        assert all(shape[mode] == 1 for mode in dropped)
        assert [expected[v] for v in variables] == kept


@given(SHAPES, SHAPES)
def test_matrix_products_are_numpys(left: Any, right: Any) -> None:
    try:
        expected = np.matmul(np.zeros(left), np.zeros(right)).shape
    except ValueError:
        with pytest.raises(ShapeError, match="E204"):
            matmul_layout((left, right), ("A", "B"))
        return
    layout = matmul_layout((left, right), ("A", "B"))
    extents: dict[int, int] = {}
    for shape, variables, dropped in zip(
        (left, right), layout.operands, layout.dropped, strict=True
    ):
        kept = [n for mode, n in enumerate(shape) if mode not in dropped]
        for variable, extent in zip(variables, kept, strict=True):
            assert extents.setdefault(variable, extent) == extent
    assert tuple(extents.get(v, 1) for v in layout.result) == expected


def test_messages_name_the_tensors() -> None:
    with pytest.raises(ShapeError, match=r"A of shape \(3, 4\) and B of shape \(5, 4\)"):
        matmul_layout(((3, 4), (5, 4)), ("A", "B"))
    with pytest.raises(ShapeError, match="4 columns, but 5 rows"):
        matmul_layout(((3, 4), (5, 4)), ("A", "B"))
    with pytest.raises(ShapeError, match="s is a scalar"):
        matmul_layout(((), (5, 4)), ("s", "B"))


@pytest.mark.parametrize(
    ("axis", "expected"), [(None, (0, 1, 2)), (0, (0,)), (-1, (2,)), ((0, 2), (0, 2)), ([], ())]
)
def test_axes(axis: Any, expected: tuple[int, ...]) -> None:
    assert check_axes(axis, 3, "A") == expected


@pytest.mark.parametrize("axis", [3, -4, (0, 0), (0, -3), 1.5, "0", ("a",)])
def test_wrong_axes(axis: Any) -> None:
    with pytest.raises(ShapeError, match="E204"):
        check_axes(axis, 3, "A")


@pytest.mark.parametrize("levels", list(product((Dense, Compressed), repeat=3)), ids=str)
def test_squeezing_in_every_format(levels: Any) -> None:
    rng = np.random.default_rng(0)
    for order, gone in product(permutations(range(3)), [(0,), (1,), (2,), (0, 2), (0, 1, 2)]):
        shape = tuple(1 if mode in gone else 4 for mode in range(3))
        for array in (rng.integers(0, 2, shape), np.zeros(shape, dtype=int)):
            storage = squeeze(from_dense(array, Format(levels, order)), gone)
            validate(storage, "A")
            np.testing.assert_array_equal(to_dense(storage), array.squeeze(gone))


BLOCKS = {
    "rows of blocks": Format([Dense, Dense, Compressed], (0, 0, 1), (2, 0)),
    "blocks of columns": Format([Dense, Compressed, Compressed], (0, 1, 1), (0, 2)),
    "a list of blocks": Format(
        [Compressed(unique=False), Singleton, Dense, Dense], (0, 1, 0, 1), (2, 2)
    ),
    "hashed": Format([Dense, Hashed]),
    "sorted": Format([Permuted(4), Dense]),
}
EVERY = {
    repr(f): f
    for f in (COO(2), COO(2, (1, 0)), CSR, CSC, DCSR, BSR(3, 2), BSR(1, 1), CSB(4, 4), ELL, SELL(4),
              SELL(2, 4), DIA, LIL, BANDED, BITMAP, dense(2), dense(2, (1, 0)))
} | BLOCKS  # fmt: skip
MATRIX = np.array([[1.0, 0, 2, 0, 3], [0, 0, 0, 4, 0], [5, 0, 0, 6, 7], [0, 8, 0, 0, 9]])


@pytest.mark.parametrize("shape", [(1, 5), (4, 1), (1, 1)], ids=str)
@pytest.mark.parametrize("format", EVERY.values(), ids=EVERY)
def test_operands_of_extent_1_in_every_format(format: Format, shape: Any) -> None:
    some = np.arange(float(shape[0] * shape[1])).reshape(shape) % 3
    for array in (some, some + 1, 0 * some):
        A, B = tensor(array, format=format), tensor(MATRIX, format=CSR)
        np.testing.assert_array_equal((A * B).to_numpy(), array * MATRIX)
        np.testing.assert_array_equal((B + A).to_numpy(), MATRIX + array)
        np.testing.assert_array_equal((A > B).to_numpy(), array > MATRIX)


@pytest.mark.parametrize("format", EVERY.values(), ids=EVERY)
def test_squeezing_keeps_valid_arrays(format: Format) -> None:
    for shape, modes in (((1, 5), (0,)), ((4, 1), (1,)), ((1, 1), (0, 1)), ((1, 1), (1,))):
        array = np.arange(float(shape[0] * shape[1])).reshape(shape) % 3
        storage = squeeze(from_dense(array, format), modes)
        validate(storage, "A")
        np.testing.assert_array_equal(to_dense(storage), array.squeeze(modes))


def test_absent_rows_stay_absent() -> None:
    """A column of rows keeps those that are absent apart from those that are zero."""
    column = tensor(([[0, 1], [0, 0]], [2.0, 0.0]), shape=(3, 1), format=CSR)
    found = (column * np.full((3, 2), np.nan)).to_numpy()
    np.testing.assert_array_equal(found, [[np.nan] * 2, [np.nan] * 2, [0.0] * 2])
