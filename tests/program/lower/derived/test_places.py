"""Loops along stored places: ELLPACK, slices, diagonals and bitmaps, padding skipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.random.unguarded import unguarded_updates

import openwork as ow
from openwork.runtime.host import launch

pytestmark = pytest.mark.needs_cc

FORMATS = {
    "ELL": ow.ELL,
    "ELL by columns": ow.Format([ow.Dense, ow.Padded], order=(1, 0)),
    "ELL of some rows": ow.Format([ow.Compressed, ow.Padded]),
    "SELL": ow.SELL(4),
    "SELL sorted": ow.SELL(4, 8),
    "DIA": ow.DIA,
    "bitmap": ow.bitmap,
    "bitmap of some rows": ow.Format([ow.Compressed, ow.Bitmap]),
    "banded": ow.banded,
}
CPU = (
    "split(p,p0,p1,5), parallelize(p0,CPUThread,Atomics)",
    "parallelize(p,CPUThread,Atomics)",
    "split(p,p0,p1,7), parallelize(p0,CPUThread,Temporary)",
    "divide(p,p0,p1,3), split(p1,p2,p3,2), parallelize(p0,CPUThread,Atomics)",
    "split(p,p0,p1,16), unroll(p1)",
)
GPU = (
    "split(p,p0,p1,32), parallelize(p0,GPUBlock,IgnoreRaces), parallelize(p1,GPUThread,Atomics)",
    "split(p,b,q,64), split(q,t,r,4), parallelize(b,GPUBlock,IgnoreRaces), "
    "parallelize(t,GPUThread,Atomics)",
)


@pytest.fixture(autouse=True)
def really_parallel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small kernels run on several threads too."""
    monkeypatch.setattr(launch, "SERIAL_BELOW", -1)
    ow.set_num_threads(3)
    yield
    ow.set_num_threads(None)


def _matrix() -> Any:
    rng = np.random.default_rng(3)
    matrix = rng.integers(1, 9, (19, 23)) * (rng.random((19, 23)) < 0.2)
    matrix[7] = 0
    return matrix.astype(float)


def _statements(format: ow.Format) -> Iterator[tuple[ow.Statement, str, Any]]:
    """Sums of rows, rows of columns, the operand's own pattern, and another sparse operand."""
    rng, matrix = np.random.default_rng(4), _matrix()
    A = ow.tensor(matrix, format=format, name="A")
    x, X, D = rng.random(23), rng.random((23, 5)), rng.random(matrix.shape)
    other = np.where(rng.random(matrix.shape) < 0.5, 2.0, 0.0)
    order = "i,j" if format.order == (0, 1) else "j,i"
    start = f"order({order}), fuse({order},f), pos(f,p,A), "
    y, Y = ow.empty(19), ow.empty((19, 5))
    yield ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=ow.tensor(x)), start, matrix @ x
    columns = start.replace(f"order({order})", f"order({order},k)")
    yield ow.parse("Y(i,k) = A(i,j) * X(j,k)", Y=Y, A=A, X=ow.tensor(X)), columns, matrix @ X
    S, Z = ow.empty(matrix.shape, format=format), ow.empty(matrix.shape)
    yield ow.parse("S(i,j) = A(i,j) * D(i,j)", S=S, A=A, D=ow.tensor(D)), start, matrix * D
    if order == "i,j":
        B = ow.tensor(other, format=ow.CSR)
        yield ow.parse("Z(i,j) = A(i,j) * B(i,j)", Z=Z, A=A, B=B), start, matrix * other


@pytest.mark.parametrize("name", FORMATS)
def test_chunks_of_places(name: str) -> None:
    for number, (stmt, start, want) in enumerate(_statements(FORMATS[name])):
        for end in CPU if number == 0 else (CPU[0], CPU[3 - number % 2]):
            commands = start + end
            if number > 1:  # each entry has a place of its own
                commands = commands.replace("Atomics", "NoRaces").replace("Temporary", "NoRaces")
            kernel = stmt.schedule(commands).compile()
            assert not unguarded_updates(kernel._launcher.compiled.program)
            np.testing.assert_allclose(kernel().to_numpy(), want, err_msg=commands)


@pytest.mark.parametrize("name", ["ELL", "SELL sorted", "DIA", "bitmap of some rows"])
def test_threads_of_a_gpu_take_places(name: str) -> None:
    pairs = zip(_statements(FORMATS[name]), (*GPU, GPU[0]), strict=False)
    for number, ((stmt, start, want), end) in enumerate(pairs):
        races = ("NoRaces", "NoRaces") if number > 1 else ("IgnoreRaces", "Atomics")
        end = end.replace("IgnoreRaces", races[0]).replace("Atomics", races[1])
        kernel = stmt.schedule(start + end).compile("cuda-emulated")
        np.testing.assert_allclose(kernel().to_numpy(), want, err_msg=end)


def test_nothing_is_searched_and_padding_is_skipped() -> None:
    A = ow.placeholder("A", order=2, format=ow.ELL)
    x, y = (ow.placeholder(name, order=1, format=ow.dense(1)) for name in "xy")
    spmv = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x)
    text = spmv.schedule("fuse(i,j,f), pos(f,p,A), split(p,p0,p1,64)").compile().source
    assert "pA1 = pA2 % i_size;" in text and "pA2_at < A_len2[pA1]" in text
    assert "last_at_most" not in text


@pytest.mark.parametrize("name", ["ELL", "SELL", "bitmap"])
def test_workspaces_over_places(name: str) -> None:
    stmt, start, want = next(_statements(FORMATS[name]))
    commands = f"{start}split(p,p0,p1,8), precompute(A(i,j) * x(j), p1, q), unroll(p1)"
    np.testing.assert_allclose(stmt.schedule(commands).compile()().to_numpy(), want)


@pytest.mark.parametrize(
    ("text", "result", "commands", "told"),
    [
        ("Z(i,j) = A(i,j) + D(i,j)", ow.dense(2), "", "also work where it has no entry"),
        ("Z(i,j) = A(i,j) * B(i,j)", ow.CSR, "", "appended to in order"),
        ("Z(i,j) = A(i,j) * D(i,j)", ow.dense(2), ", coord(p,c)", "goes back to them"),
    ],
)
def test_refused(text: str, result: ow.Format, commands: str, told: str) -> None:
    A, B, D = (
        ow.placeholder(name, order=2, format=format)
        for name, format in (("A", ow.ELL), ("B", ow.CSR), ("D", ow.dense(2)))
    )
    Z = ow.placeholder("Z", order=2, format=result)
    given = {name: t for name, t in {"A": A, "B": B, "D": D, "Z": Z}.items() if f"{name}(" in text}
    with pytest.raises(ow.ScheduleError, match=told) as caught:
        ow.parse(text, **given).schedule(f"fuse(i,j,f), pos(f,p,A){commands}")
    assert caught.value.code == "E305"
    assert ".to(ow.CSR)" in (caught.value.hint or "")


def test_slices_below_rows_that_are_searched() -> None:
    X = ow.placeholder("X", order=3, format=ow.Format([ow.Dense, ow.Compressed, ow.Padded]))
    y = ow.placeholder("y", order=1, format=ow.dense(1))
    stmt = ow.parse("y(i) = X(i,j,k)", y=y, X=X).fuse("j", "k", "g").fuse("i", "g", "f")
    with pytest.raises(ow.ScheduleError, match="do not come in the order of the level Compressed"):
        stmt.pos("f", "p", "X")


GROUPED = (
    "order(i,j), split(i,block,warp,128), pos(j,p,A(i,j)), split(p,p0,p1,2), "
    "order(block,warp,p1,p0), parallelize(block,GPUBlock,NoRaces), "
    "parallelize(warp,GPUWarp,NoRaces), "
    "parallelize(p1,GPUGroup,NoRaces,group_size=2,reduction=parallel)"
)


@pytest.mark.parametrize("format", ["ELL", "SELL(8)", "SELL(4, 20)", "DIA", "bitmap"])
@pytest.mark.parametrize(
    ("target", "schedule"),
    [("cpu", "pos(j,p,A), split(p,p0,p1,2), reorder(p1,p0)"), ("cuda-emulated", GROUPED)],
)
def test_positions_within_a_row_that_is_known(format: str, target: str, schedule: str) -> None:
    """Whether a place has an entry depends on its own row, whose loop is outside, not on row 0."""
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((20, 15)) < 0.3, rng.random((20, 15)), 0)
    dense[0] = 0
    A, x = ow.tensor(dense, format=format, name="A"), ow.tensor(rng.random(15), name="x")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(20), A=A, x=x).schedule(schedule)
    np.testing.assert_allclose(stmt.compile(target)().to_numpy(), dense @ x.to_numpy())
