"""Every format as an operand, and as a result, of statements of every shape, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.choices import EVERY
from tests.random.test_property import Batch

import openwork as ow
from openwork.tensor.exchange.validate import validate

pytestmark = pytest.mark.needs_cc

FORMATS = [
    ow.CSR,
    ow.CSC,
    ow.DCSR,
    ow.COO(2),
    ow.COO(2, order=(1, 0)),
    ow.SELL(4),
    ow.SELL(4, 8),
    ow.ELL,
    ow.DIA,
    ow.LIL,
    ow.banded,
    ow.ragged,
    ow.bitmap,
    ow.BSR(3, 2),
    ow.BSR(2, 2),
    ow.CSB(4, 8),
    ow.Format([ow.Compressed(bits=16), ow.Dense]),
    ow.Format([ow.Compressed(bits=8), ow.Lengths]),
    ow.Format([ow.Compressed, ow.Bitmap]),
    ow.Format([ow.Bitmap, ow.Compressed]),
    ow.Format([ow.Compressed, ow.Padded]),
    ow.Format([ow.Compressed, ow.Sliced(2)], order=(1, 0)),
    ow.Format([ow.Permuted(4), ow.Compressed]),
    ow.Format([ow.Permuted(4), ow.Dense]),
    ow.Format([ow.Range, ow.Range]),
    ow.Format([ow.Dense] * 4, (0, 1, 0, 1), (2, 3)),
    ow.Format([ow.Compressed, ow.Dense, ow.Compressed], (0, 1, 0), (3, 0)),
]

# A is in the format, and so is R; B, E and C are CSR, D is dense. E is square.
Answer = Callable[[dict[str, Any]], Any]
STATEMENTS: dict[str, Answer] = {
    "y(i) = A(i,j) * x(j)": lambda t: t["A"] @ t["x"],
    "y(i) = A(i,j) * x(j) + w(i)": lambda t: t["A"] @ t["x"] + t["w"],
    "y(i) = A(i,j)": lambda t: t["A"].sum(axis=1),
    "v(j) = A(i,j) * w(i)": lambda t: t["w"] @ t["A"],
    "s = A(i,j) * A(i,j)": lambda t: (t["A"] ** 2).sum(),
    "C(i,j) = A(i,j) + B(i,j)": lambda t: t["A"] + t["B"],
    "C(i,j) = A(i,j) * B(i,j)": lambda t: t["A"] * t["B"],
    "C(i,j) = A(i,j) * i + B(i,j)": lambda t: t["A"] * np.arange(len(t["A"]))[:, None] + t["B"],
    "D(i,j) = A(i,j) * B(i,j)": lambda t: t["A"] * t["B"],
    "D(i,j) = 2 * A(i,j)": lambda t: 2 * t["A"],
    "D(i,j) = A(i,j) + A(i,j) * x(j)": lambda t: t["A"] + t["A"] * t["x"],
    "R(i,j) = 2 * A(i,j)": lambda t: 2 * t["A"],
    "R(i,j) = A(i,j) * x(j)": lambda t: t["A"] * t["x"],
    "R(i,j) = A(i,j) + B(i,j)": lambda t: t["A"] + t["B"],
    "R(i,j) = B(i,j)": lambda t: t["B"],
    "C(i,k) = A(i,j) * E(j,k)": lambda t: t["A"] @ t["E"],
    "C(i,k) = E(i,j) * A(j,k)": lambda t: t["E"] @ t["A"],
    "C(i,j) = A(j,i) + E(i,j)": lambda t: t["A"].T + t["E"],
    "y(i) = A(i,i) + E(i,i)": lambda t: np.diag(t["A"]) + np.diag(t["E"]),
}


def operands(format: ow.Format, text: str, seed: int) -> dict[str, ow.Tensor]:
    """The tensors that a statement names."""
    rng = np.random.default_rng(seed)
    m, n = (7, 7) if "E(" in text else (7, 6)

    def matrix(name: str, stored: ow.Format) -> ow.Tensor:
        drawn = np.where(rng.random((m, n)) < 0.35, rng.integers(1, 9, (m, n)), 0)
        return ow.tensor(drawn.astype(float), format=stored, name=name)

    made = {
        "A": matrix("A", format),
        "B": matrix("B", ow.CSR),
        "E": matrix("E", ow.CSR),
        "x": ow.tensor(rng.random(n), name="x"),
        "w": ow.tensor(rng.random(m), name="w"),
        "y": ow.empty(m, name="y"),
        "v": ow.empty(n, name="v"),
        "s": ow.empty((), name="s"),
        "C": ow.empty((m, n), format=ow.CSR, name="C"),
        "D": ow.empty((m, n), name="D"),
        "R": ow.empty((m, n), format=format, name="R"),
    }
    return {name: made[name] for name in made if f"{name}(" in text or text.startswith(f"{name} ")}


@pytest.mark.parametrize("format", FORMATS, ids=repr)
def test_every_statement(format: ow.Format) -> None:
    batch, kernels = Batch(), []
    for seed, text in enumerate(STATEMENTS):
        if seed % 2 == FORMATS.index(format) % 2 and not EVERY:
            continue  # which the formats beside this one take
        tensors = operands(format, text, seed)
        kernels.append((text, tensors, ow.parse(text, **tensors).compile(loader=batch)))
    for text, tensors, kernel in kernels:
        result = kernel()
        assert result.format == tensors[text[0]].format, text
        validate(result.storage, text)
        given = {name: tensor.to_numpy() for name, tensor in tensors.items()}
        expected = STATEMENTS[text](given)
        np.testing.assert_allclose(result.to_numpy(), expected, rtol=1e-12, err_msg=text)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (1, 1), (9, 2)])
def test_extents_that_are_small(shape: tuple[int, int]) -> None:
    batch, kernels = Batch(), []
    array = np.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape)
    for format in FORMATS:
        A = ow.tensor(array, format=format, name="A")
        x, y = ow.tensor(np.ones(shape[1]), name="x"), ow.empty(shape[0], name="y")
        statement = ow.parse("y(i) = A(i,j) * x(j)", A=A, x=x, y=y)
        kernels.append((format, statement.compile(loader=batch)))
    for format, kernel in kernels:
        answer = kernel().to_numpy()
        np.testing.assert_allclose(answer, array.sum(axis=1), err_msg=repr(format))


def test_a_flag_is_the_condition_under_which_its_entry_is_used() -> None:
    A = ow.placeholder("A", order=2, format=ow.CSR)
    m = ow.placeholder("m", order=1, format=ow.Format([ow.Bitmap]))
    source = ow.parse("y(i) = A(i,j) * m(j)", A=A, m=m).compile().source
    assert "if (B_bit1[pB1] > 0) {" in source
    assert "pB1 = -1" not in source
