"""Lower triangular matrices and their kin: rows that grow, without any index array."""

from __future__ import annotations

import numpy as np
import pytest

import openwork as ow

MATRIX = np.tril(np.arange(1.0, 26).reshape(5, 5))
GROWING = {
    ow.lower_triangular: MATRIX,
    ow.Format([ow.Dense, ow.Growing(1, 0)]): np.tril(MATRIX, -1),
    ow.Format([ow.Dense, ow.Growing(2, 1)]): np.hstack([MATRIX, np.zeros((5, 4))]),
    ow.Format([ow.Dense, ow.Growing(0, 3)]): MATRIX[:, :3],
    ow.Format([ow.Dense, ow.Growing(1, 1)], order=(1, 0)): MATRIX.T,
}


@pytest.mark.parametrize("format", GROWING, ids=str)
def test_matrices(format: ow.Format) -> None:
    matrix = GROWING[format]
    A = ow.tensor(matrix, format=format, name="A")
    assert not any(A.storage.levels)
    np.testing.assert_array_equal(A.to_numpy(), matrix)
    np.testing.assert_array_equal(A.to(ow.CSR).to(format).to_numpy(), matrix)
    x = np.arange(1.0, matrix.shape[1] + 1)
    np.testing.assert_array_equal((A @ x).to_numpy(), matrix @ x)
    other = ow.tensor(np.ones_like(matrix), format=ow.CSR)
    np.testing.assert_array_equal((A + other).to_numpy(), matrix + 1)
    np.testing.assert_array_equal((other * A).to_numpy(), matrix)
    assert ow.Format(format.levels, format.order) == format
    assert ow.tensor(matrix, format=str(format)).format == format


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (MATRIX.T, "run 0 has the coordinates below 1, and 1 is none of them"),
        (np.tril(np.ones((3, 2))), "3 runs grow to 3 entries, and the extent is 2"),
    ],
)
def test_entries_that_do_not_fit(matrix: np.ndarray, message: str) -> None:
    with pytest.raises(ow.FormatError, match=message) as caught:
        ow.tensor(matrix, format=ow.lower_triangular)
    assert caught.value.code == "E406"


def test_arrays_from_outside() -> None:
    A = ow.from_arrays(ow.lower_triangular, (3, 3), [(), ()], np.arange(6.0))
    assert A.to_numpy().tolist() == [[0, 0, 0], [1, 2, 0], [3, 4, 5]]
    with pytest.raises(ow.OpenworkError):
        ow.from_arrays(ow.lower_triangular, (3, 2), [(), ()], np.arange(6.0))
    with pytest.raises(ow.OpenworkError):
        ow.from_arrays(ow.lower_triangular, (3, 3), [(), ()], np.arange(5.0))


@pytest.mark.parametrize("rise", [-1, True, 1.5])
def test_runs_do_not_shrink(rise: object) -> None:
    with pytest.raises(ow.FormatError, match="is not how runs grow"):
        ow.Growing(rise, 1)
