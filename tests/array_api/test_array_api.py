"""The array API standard, function by function, beside the reference implementation of it.

`make array-api` installs that, array-api-strict, apart from everything else. Every function of the
standard is in the table, or among those that are left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openwork as ow
import openwork.array_api as xp

strict = pytest.importorskip("array_api_strict", reason="`make array-api` installs it")

# What docs/arrays.md gives reasons for.
LEFT_OUT = {"nextafter"}
LEFT_OUT_OF_LINALG = {
    *("cholesky", "cross", "det", "eigh", "eigvalsh", "inv", "matrix_rank", "pinv", "qr"),
    *("slogdet", "solve", "svd", "svdvals"),
}
CONSTANTS = {"e", "inf", "nan", "newaxis", "pi"}
EXTENSIONS = {"linalg", "fft"}
OF_THE_STRICT = {  # settings of the reference itself
    *("ArrayAPIStrictFlagsWarning", "Device", "__version__", "get_array_api_strict_flags"),
    *("reset_array_api_strict_flags", "set_array_api_strict_flags", "ArrayAPIStrictFlags"),
}

F = np.array([[0.0, 0.75, 0, -0.5], [0.25, 0, -1.0, 0], [0, 0, 0, 1.0]])
N = np.array([[0, 3, 0, 1], [4, 0, -5, 0], [0, 0, 0, 2]])
B = N > 1
Make = Callable[[Any], Any]
Case = Callable[[Any, Make], Any]


def unary(name: str, *arrays: Any) -> list[Case]:
    return [lambda s, of, a=a: getattr(s, name)(of(a)) for a in arrays]


def binary(name: str, *pairs: Any) -> list[Case]:
    return [lambda s, of, p=p: getattr(s, name)(of(p[0]), of(p[1])) for p in pairs]


FLOATS = (
    "acos",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "log1p",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "log",
    "log2",
    "log10",
    "isnan",
    "isinf",
    "isfinite",
)
NUMBERS = ("abs", "ceil", "floor", "trunc", "round", "sign", "square", "negative", "positive")
SPECIAL = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 2.5, -3.5])
CASES: dict[str, list[Case]] = {
    **{name: unary(name, F, F[0], SPECIAL) for name in FLOATS},
    **{name: unary(name, F, N, SPECIAL) for name in NUMBERS},
    # -0.0 equals the fill of a sparse tensor, and so is not stored.
    "signbit": unary("signbit", F, SPECIAL[[0, 1, 3, 5, 6]]),
    "acosh": unary("acosh", F + 1),
    "reciprocal": unary("reciprocal", F),
    "conj": unary("conj", F * 1j + 1), "real": unary("real", F * 1j + 1),
    "imag": unary("imag", F * 1j + 1),
    "logical_not": unary("logical_not", B),
    "bitwise_invert": unary("bitwise_invert", N, B),
    **{name: binary(name, (N, N[0]), (B, ~B)) for name in
       ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{name: binary(name, (N, np.abs(N))) for name in
       ("bitwise_left_shift", "bitwise_right_shift")},
    **{name: binary(name, (B, B[:, :1])) for name in ("logical_and", "logical_or", "logical_xor")},
    **{name: binary(name, (F, F + 1), (N, N[:, :1]), (F[0], F)) for name in
       ("add", "subtract", "multiply", "equal", "not_equal", "less", "less_equal", "greater",
        "greater_equal", "maximum", "minimum")},
    "divide": binary("divide", (F, F + 2)),
    "floor_divide": binary("floor_divide", (F, F + 2), (N, N * 0 + 2)),
    "remainder": binary("remainder", (F, F + 2), (N, N * 0 + 2)),
    "pow": binary("pow", (F, F * 0 + 2), (N, N * 0 + 2)),
    **{name: binary(name, (F, F[0] + 0.5)) for name in
       ("atan2", "copysign", "hypot", "logaddexp")},
    "clip": [lambda s, of: s.clip(of(F), 0.0, 0.5), lambda s, of: s.clip(of(N), max=2)],
    # creation
    "arange": [lambda s, of: s.arange(5), lambda s, of: s.arange(1.0, 3, 0.5)],
    "asarray": [lambda s, of: s.asarray([1.5, 2]), lambda s, of: s.asarray(of(N), copy=True)],
    "from_dlpack": [lambda s, of: s.from_dlpack(s.asarray([1.5, 2]))],
    "empty": [lambda s, of: s.empty((2, 3)) * 0],
    "empty_like": [lambda s, of: s.empty_like(of(N)) * 0],
    "eye": [lambda s, of: s.eye(3), lambda s, of: s.eye(2, 4, k=1, dtype=s.int64)],
    "full": [lambda s, of: s.full((2, 3), 7), lambda s, of: s.full(3, 1.5)],
    "full_like": [lambda s, of: s.full_like(of(N), 7)],
    "linspace": [lambda s, of: s.linspace(0, 1, 5),
                 lambda s, of: s.linspace(0, 1, 4, endpoint=False)],
    "meshgrid": [lambda s, of, n=n: s.meshgrid(of(F[0]), of(F[1, :3]))[n] for n in (0, 1)]
    + [lambda s, of: s.meshgrid(of(F[0]), of(F[1]), indexing="ij")[1]],
    "ones": [lambda s, of: s.ones((2, 3))], "ones_like": [lambda s, of: s.ones_like(of(F))],
    "zeros": [lambda s, of: s.zeros((2, 3), dtype=s.int32)],
    "zeros_like": [lambda s, of: s.zeros_like(of(F))],
    "tril": [lambda s, of: s.tril(of(F), k=1)], "triu": [lambda s, of: s.triu(of(F), k=-1)],
    # types
    "astype": [lambda s, of: s.astype(of(F), s.float32), lambda s, of: s.astype(of(N), s.bool)],
    "can_cast": [lambda s, of: s.can_cast(s.int8, s.int16),
                 lambda s, of: s.can_cast(of(N), s.int8)],
    "finfo": [lambda s, of: s.finfo(s.float32).max], "iinfo": [lambda s, of: s.iinfo(of(N)).max],
    "isdtype": [lambda s, of: s.isdtype(s.float32, "real floating")],
    "result_type": [lambda s, of: s.result_type(of(F), s.float32) == s.float64],
    # shapes
    "broadcast_arrays": [lambda s, of: s.broadcast_arrays(of(F), of(F[0]))[1]],
    "broadcast_to": [lambda s, of: s.broadcast_to(of(F), (2, 3, 4))],
    "concat": [lambda s, of: s.concat([of(F), of(F)], axis=1),
               lambda s, of: s.concat([of(F), of(F)], axis=None)],
    "expand_dims": [lambda s, of: s.expand_dims(of(F), axis=1)],
    "flip": [lambda s, of: s.flip(of(F)), lambda s, of: s.flip(of(F), axis=0)],
    "moveaxis": [lambda s, of: s.moveaxis(of(F), 0, 1)],
    "permute_dims": [lambda s, of: s.permute_dims(of(F), (1, 0))],
    "repeat": [lambda s, of: s.repeat(of(F), 2), lambda s, of: s.repeat(of(F), 2, axis=1)],
    "reshape": [lambda s, of: s.reshape(of(F), (2, -1))],
    "roll": [lambda s, of: s.roll(of(F), 1), lambda s, of: s.roll(of(F), (1, 2), axis=(0, 1))],
    "squeeze": [lambda s, of: s.squeeze(of(F[:1]), 0)],
    "stack": [lambda s, of: s.stack([of(F), of(F)], axis=-1)],
    "tile": [lambda s, of: s.tile(of(F), (2, 1))],
    "unstack": [lambda s, of: s.unstack(of(F), axis=1)[3]],
    # elements
    "take": [lambda s, of: s.take(of(F), s.asarray([2, 0, 2]), axis=0)],
    "take_along_axis": [lambda s, of: s.take_along_axis(of(F), s.asarray([[3, 0]] * 3), axis=1)],
    "isin": [lambda s, of: s.isin(of(N), s.asarray([3, 4]))],
    "broadcast_shapes": [lambda s, of: s.broadcast_shapes((3, 1), (4,))],
    "argmax": [lambda s, of: s.argmax(of(F)),
               lambda s, of: s.argmax(of(F), axis=1, keepdims=True)],
    "argmin": [lambda s, of: s.argmin(of(F)), lambda s, of: s.argmin(of(N), axis=0)],
    "count_nonzero": [lambda s, of: s.count_nonzero(of(F)),
                      lambda s, of: s.count_nonzero(of(N), axis=0)],
    "nonzero": [lambda s, of: s.nonzero(of(F))[0], lambda s, of: s.nonzero(of(F))[1]],
    "searchsorted": [lambda s, of: s.searchsorted(s.asarray([0.0, 1, 2]), s.asarray([0.5, 1.0]))],
    "where": [lambda s, of: s.where(of(B), of(F), of(F * 0))],
    **{name: [lambda s, of, n=name, k=k: getattr(s, n)(of(N))[k] for k in range(many)]
       for name, many in (("unique_all", 4), ("unique_counts", 2), ("unique_inverse", 2))},
    "unique_values": [lambda s, of: s.unique_values(of(N))],
    "sort": [lambda s, of: s.sort(of(F)), lambda s, of: s.sort(of(N), axis=0, descending=True)],
    "argsort": [lambda s, of: s.argsort(of(F)),
                lambda s, of: s.argsort(of(F), axis=0, descending=True)],
    # reductions
    **{name: [lambda s, of, n=name: getattr(s, n)(of(F)),
              lambda s, of, n=name: getattr(s, n)(of(F), axis=1, keepdims=True),
              lambda s, of, n=name: getattr(s, n)(of(F), axis=(0, 1))]
       for name in ("max", "min", "prod", "sum", "all", "any", "mean", "std", "var")},
    "cumulative_sum": [lambda s, of: s.cumulative_sum(of(F), axis=1, include_initial=True)],
    "cumulative_prod": [lambda s, of: s.cumulative_prod(of(F), axis=0)],
    "diff": [lambda s, of: s.diff(of(F)), lambda s, of: s.diff(of(F), axis=0, n=2)],
    # linear algebra
    "matmul": [lambda s, of: s.matmul(of(F), of(F.T)), lambda s, of: s.matmul(of(F), of(F[0]))],
    "matrix_transpose": [lambda s, of: s.matrix_transpose(of(F))],
    "tensordot": [lambda s, of: s.tensordot(of(F), of(F), axes=((1,), (1,)))],
    "vecdot": [lambda s, of: s.vecdot(of(F), of(F))],
    "__array_namespace_info__": [
        lambda s, of: len(s.__array_namespace_info__().dtypes(kind="real floating"))
    ],
}  # fmt: skip
LINALG: dict[str, list[Case]] = {
    "diagonal": [lambda s, of: s.linalg.diagonal(of(F), offset=1)],
    "matmul": CASES["matmul"], "matrix_transpose": CASES["matrix_transpose"],
    "matrix_norm": [lambda s, of: s.linalg.matrix_norm(of(F)),
                    lambda s, of: s.linalg.matrix_norm(of(F), ord=1, keepdims=True)],
    "matrix_power": [lambda s, of: s.linalg.matrix_power(of(F[:, :3]), 3)],
    "outer": [lambda s, of: s.linalg.outer(of(F[0]), of(F[1]))],
    "tensordot": CASES["tensordot"], "vecdot": CASES["vecdot"],
    "trace": [lambda s, of: s.linalg.trace(of(F[:, :3]))],
    "vector_norm": [lambda s, of: s.linalg.vector_norm(of(F), axis=1),
                    lambda s, of: s.linalg.vector_norm(of(F), ord=1)],
}  # fmt: skip
FORMATS = {1: ("Dense", "Compressed"), 2: ("dense(2)", "CSR"), 3: ("dense(3)", "CSF(3)")}


def plain(value: Any) -> Any:
    return value.to_numpy() if isinstance(value, ow.Tensor) else np.asarray(value)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", [*CASES, *(f"linalg.{name}" for name in LINALG)])
@pytest.mark.filterwarnings("ignore")
def test_as_the_reference_has_it(name: str, sparse: bool) -> None:
    def of(array: Any) -> Any:
        return ow.tensor(array, format=FORMATS[array.ndim][sparse])

    head, _, rest = name.partition(".")
    for case in LINALG[rest] if rest else CASES[head]:
        expected, made = plain(case(strict, strict.asarray)), plain(case(xp, of))
        np.testing.assert_allclose(made, expected, rtol=1e-12, atol=1e-15)
        assert made.dtype == expected.dtype


def test_nothing_of_the_standard_is_forgotten() -> None:
    types = {"bool", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)),
             "float32", "float64", "complex64", "complex128"}  # fmt: skip
    names = {name for name in strict.__all__ if not name.startswith("__array_api")}
    wanted = names - OF_THE_STRICT - types - CONSTANTS - EXTENSIONS
    assert wanted == set(CASES) | LEFT_OUT
    assert set(strict.linalg.__all__) == set(LINALG) | LEFT_OUT_OF_LINALG
    for name in types | CONSTANTS:
        assert hasattr(xp, name)


@pytest.mark.parametrize("name", sorted(CASES))
def test_arguments_have_the_names_of_the_standard(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(each, name)) for each in (xp, strict))
    by_name = {n for n, p in theirs.parameters.items() if p.kind == p.KEYWORD_ONLY}
    assert by_name <= set(ours.parameters)
