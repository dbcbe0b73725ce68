"""Sparse results under runs of fused variables, which may end within a row: the next goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.random.interpreted import Interpreted, interpreting

import openwork as ow
from openwork.runtime.host import launch
from openwork.tensor.exchange.validate import validate

pytestmark = pytest.mark.needs_cc

SHAPES = {2: (19, 23), 3: (6, 5, 7)}
CHUNKS = {
    "pairs": "fuse(i,j,f), split(f,p0,p1,16)",
    "positions": "fuse(i,j,f), pos(f,p,A), split(p,p0,p1,5)",
    "on threads": "fuse(i,j,f), pos(f,p,A), split(p,p0,p1,5), parallelize(p0,CPUThread,NoRaces)",
    "counted": "fuse(i,j,f), pos(f,p,A), split(p,p0,p1,5), assemble(count)",
    "a number of runs": (
        "fuse(i,j,f), pos(f,p,A), divide(p,p0,p1,3), parallelize(p0,CPUThread,NoRaces)"
    ),
}
RUNS = {
    "rows": "divide(i,i0,i1,4), parallelize(i0,CPUThread,NoRaces)",
    "balanced rows": "divide(i,i0,i1,4,balance=nnz), parallelize(i0,CPUThread,NoRaces)",
    "counted rows": "divide(i,i0,i1,3), assemble(count)",
    "positions of rows": "pos(i,p,A), divide(p,p0,p1,4), parallelize(p0,CPUThread,NoRaces)",
}
CUBES = {
    "positions": "fuse(j,k,g), fuse(i,g,f), pos(f,p,A), split(p,p0,p1,5), "
    "parallelize(p0,CPUThread,NoRaces)",
    "pairs": "fuse(j,k,g), fuse(i,g,f), split(f,p0,p1,4)",
    "outer modes": "fuse(i,j,f), pos(f,p,A), split(p,p0,p1,3), assemble(count)",
    "inner modes": "fuse(j,k,f), split(f,p0,p1,5), assemble(count)",
}


@pytest.fixture(autouse=True)
def really_parallel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small kernels run on several threads too."""
    monkeypatch.setattr(launch, "SERIAL_BELOW", -1)
    ow.set_num_threads(3)
    yield
    ow.set_num_threads(None)


def _random(order: int, seed: int) -> Any:
    rng, shape = np.random.default_rng(seed), SHAPES[order]
    array = rng.integers(1, 9, shape) * (rng.random(shape) < 0.3)
    array[3] = 0
    return array.astype(float)


def _check(order: int, sign: str, formats: tuple[ow.Format, ow.Format], schedule: str) -> None:
    a, b = _random(order, 1), _random(order, 2)
    modes = "i,j" if order == 2 else "i,j,k"
    operand, result = formats
    A, B = ow.tensor(a, format=operand, name="A"), ow.tensor(b, format=ow.CSF(order), name="B")
    C = ow.empty(SHAPES[order], format=result, name="C")
    stmt = ow.parse(f"C({modes}) = A({modes}) {sign} B({modes})", A=A, B=B, C=C)
    stmt = stmt.schedule(schedule)
    found = stmt.compile()()
    validate(found.storage, "C")
    np.testing.assert_array_equal(found.to_numpy(), a + b if sign == "+" else a * b)
    with interpreting(Interpreted):  # which notices races
        again = stmt.compile(loader=lambda compiled: compiled)()
    np.testing.assert_array_equal(again.to_numpy(), found.to_numpy())


@pytest.mark.parametrize("name", CHUNKS)
@pytest.mark.parametrize("sign", ["+", "*"])
def test_rows_go_on_in_the_next_run(name: str, sign: str) -> None:
    for operand in (ow.CSR, ow.DCSR):
        _check(2, sign, (operand, ow.DCSR), CHUNKS[name])


@pytest.mark.parametrize("name", CUBES)
def test_fibres_go_on_in_the_next_run(name: str) -> None:
    _check(3, "+", (ow.CSF(3), ow.CSF(3)), CUBES[name])


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("result", [ow.CSR, ow.DCSR], ids=str)
def test_pieces_of_a_number_of_runs(name: str, result: ow.Format) -> None:
    _check(2, "+", (ow.CSR, result), RUNS[name])


def test_points_of_all_rows_cut_no_pieces() -> None:
    A, B, C = (ow.placeholder(name, order=2, format=ow.CSR) for name in "ABC")
    stmt = ow.parse("C(i,j) = A(i,j) + B(i,j)", A=A, B=B, C=C)
    cut = stmt.divide("i", "i0", "i1", 2, split_points=lambda tensors, parts: [0, 1, 2])
    with pytest.raises(ow.ScheduleError, match="from point to point") as caught:
        cut.assemble("append")
    assert caught.value.code == "E313"


def test_rows_with_blocks_below_are_not_continued() -> None:
    """Between the rows and the entries there is a full level, whose segments are closed at once."""
    levels = ow.Format([ow.Compressed, ow.Dense, ow.Compressed])
    A, B, C = (ow.placeholder(name, order=3, format=levels) for name in "ABC")
    stmt = ow.parse("C(i,j,k) = A(i,j,k) + B(i,j,k)", A=A, B=B, C=C).fuse("i", "j", "f")
    with pytest.raises(ow.ScheduleError, match="may leave a row and come back to it") as caught:
        stmt.split("f", "f0", "f1", 4)
    assert caught.value.code == "E312"
