"""Functions of elements are NumPy's, on dense and on sparse tensors, in every real type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.algebra.operators import BUILTIN

D = np.array([[0.0, 0.75, 0, -0.5], [0.25, 0, -1.0, 0], [0, 0, 0, 1.0]])
NEW = [op for op in BUILTIN.values() if op.real]


@pytest.mark.parametrize("op", NEW, ids=str)
def test_functions_of_c(op: Any) -> None:
    """In compiled code, over stored and absent entries; the types are NumPy's."""
    function = getattr(ow, op.name)
    given = D + 1 if op.name == "acosh" else D
    wide = [given, np.array([0.5, -2.0, 0.0, 3.0])][: op.arity]
    A = ow.tensor(given, format="CSR")
    with np.errstate(all="ignore"):
        made = function(A, *wide[1:])
        np.testing.assert_allclose(made.to_numpy(), op.typing(*wide), rtol=1e-13)
        assert made.to_numpy().dtype == op.typing(*wide).dtype
        assert op.typing(A, *wide[1:]).equals(made) or np.isnan(made.to_numpy()).any()
    with pytest.raises(ow.ParseError, match=f"E108: {op} is not defined for complex"):
        function(A * 1j, *wide[1:])


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "bool", "float32"])
@pytest.mark.parametrize("name", ["sign", "trunc", "round", "expm1"])
def test_functions_of_other_types(name: str, dtype: str) -> None:
    numpys = {"round": np.rint}.get(name) or getattr(np, name)
    x = np.array([0, 1, 3, 2]).astype(dtype)
    if dtype == "bool" and name == "sign":
        return  # NumPy has none
    made = getattr(ow, name)(ow.tensor(x, format="Compressed")).to_numpy()
    expected = numpys(x)
    if expected.dtype == np.float16:  # numbers.md
        expected = numpys(x.astype(np.float32))
    np.testing.assert_allclose(made, expected, rtol=1e-6)
    assert made.dtype == expected.dtype
