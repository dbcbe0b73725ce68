"""The run-length level of docs/levels.md, in every statement, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.random.test_property import Batch
from tests.test_docs import examples
from tests.whole.test_formats_in_statements import STATEMENTS, operands

import openwork as ow
from openwork.tensor.convert.pack import from_dense, pack, to_dense, unpack
from openwork.tensor.exchange.validate import validate

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "levels.md"


@pytest.fixture(scope="module")
def level() -> ow.Level:
    code = next(e.code for e in examples(PAGE.read_text("utf-8")) if "class RunLength" in e.code)
    names: dict[str, Any] = {"np": np, "ow": ow, "__name__": "run_length"}
    exec(code, names)  # noqa: S102 - our own page
    made = names["RunLength"]
    assert isinstance(made, ow.Level)
    return made


def formats(level: ow.Level) -> list[ow.Format]:
    return [
        ow.Format([ow.Dense, level]),
        ow.Format([ow.Dense, level], order=(1, 0)),
        ow.Format([level, level]),
        ow.Format([level, ow.Dense]),
        ow.Format([ow.Dense, level, ow.Dense, ow.Dense], (0, 1, 0, 1), (2, 2)),
    ]


def test_it_packs_and_unpacks(level: ow.Level) -> None:
    rng = np.random.default_rng(0)
    for format in formats(level):
        for density in (0, 0.3, 0.8, 1):
            for shape in ((0, 4), (4, 0), (5, 7), (1, 300)):
                array = np.where(rng.random(shape) < density, rng.integers(1, 9, shape), 0)
                storage = from_dense(array, format)
                validate(storage, "A")
                np.testing.assert_array_equal(to_dense(storage), array)
                again = pack(*unpack(storage), shape, format)
                np.testing.assert_array_equal(to_dense(again), array)


@pytest.mark.needs_cc
@pytest.mark.parametrize("number", range(5))
def test_it_works_in_every_statement(level: ow.Level, number: int) -> None:
    format, batch, kernels = formats(level)[number], Batch(), []
    for seed, text in enumerate(STATEMENTS):
        tensors = operands(format, text, seed)
        kernels.append((text, tensors, ow.parse(text, **tensors).compile(loader=batch)))
    for text, tensors, kernel in kernels:
        result = kernel()
        validate(result.storage, text)
        expected = STATEMENTS[text]({name: t.to_numpy() for name, t in tensors.items()})
        np.testing.assert_allclose(result.to_numpy(), expected, rtol=1e-12, err_msg=text)


@pytest.mark.parametrize(
    ("changes", "piece"),
    [
        ({"shift": [8]}, "shift leads out of the extent"),
        ({"shift": [-1]}, "shift leads out of the extent"),
        ({"stretch": [0, 1]}, "stretch names a stretch that is not there"),
        ({"first": [1]}, "stretch names a stretch that is not there"),
        ({"first": [0, 0]}, "first has 2 entries"),
        ({"pos": [0, 3]}, "pos[1] is 3"),
        ({"shift": [1, 0], "stretch": [0, 1]}, "shift leads back"),
    ],
)
def test_wrong_arrays_are_refused(level: ow.Level, changes: Any, piece: str) -> None:
    arrays = {"pos": [0, 2], "first": [0], "shift": [2], "stretch": [0, 0]}
    format = ow.Format([ow.Dense, level])
    good = ow.from_arrays(format, (1, 9), [None, arrays], [1.0, 2.0], name="A")
    assert good.to_coo()[0].tolist() == [[0, 0], [2, 3]]
    with pytest.raises(ow.DataError) as caught:
        ow.from_arrays(format, (1, 9), [None, arrays | changes], [1.0, 2.0], name="A")
    assert piece in str(caught.value)


def test_a_missing_formula_is_told() -> None:
    class Unsaid(ow.Level):
        name = "Unsaid"

    with pytest.raises(ow.FormatError, match="E401: a level Unsaid has no formula `begin`"):
        Unsaid().begin(None, 0)
    assert ow.Format([Unsaid()]).type() == "[value]_run0"
