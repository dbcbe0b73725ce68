"""Races that are put in, and what must not be taken for one; `make tsan` looks at C itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.random.interpreted import Interpreted, interpreting
from tests.random.unguarded import unguarded_updates
from tests.tsan import clang
from tests.tsan.__main__ import verdict
from tests.tsan.cases import POSITIONS, RACES, STATEMENTS, planted, strategies, threaded
from tests.tsan.record import record, record_all, write_driver

import openwork as ow
from openwork.errors import InternalError
from openwork.loops.nodes import OutputRaceStrategy
from openwork.runtime.host.toolchain import find_toolchain

# The statements that race when nobody keeps the threads apart, before a loop is given to threads.
CUT = {"SpMV by columns": "", "SpMV": POSITIONS + "split(p,p0,p1,8)"}


def interpret(stmt: ow.Statement) -> None:
    """Run the kernel of `stmt` by the interpreter, which notices races."""
    with interpreting(Interpreted):
        stmt.compile(loader=lambda compiled: compiled)()


@pytest.mark.parametrize("name", RACES)
def test_a_planted_race_is_noticed(name: str) -> None:
    tensors, schedule = RACES[name]
    with pytest.raises(InternalError, match=r"R_vals\[\d+\] is (written by two|read by one)"):
        interpret(tensors.statement().schedule(schedule))


@pytest.mark.parametrize("race", ["Atomics", "Temporary", "ParallelReduction"])
@pytest.mark.parametrize("n", [8, 9])
def test_threads_in_a_run_that_is_written_out_are_kept_apart(race: str, n: int) -> None:
    """Which of them it is was taken for a place of its own in the result."""
    A = ow.tensor(np.arange(2.0 * n).reshape(n, 2), name="A")
    stmt = ow.parse("y(i) = A(j,i)", y=ow.empty((2,), name="y"), A=A)
    stmt = stmt.schedule(f"split(j,j0,j1,4), unroll(j1), parallelize(j1,CPUThread,{race})")
    interpret(stmt)
    kernel = stmt.compile()
    assert not unguarded_updates(kernel._launcher.compiled.program)
    np.testing.assert_array_equal(kernel().to_numpy(), A.to_numpy().sum(axis=0))


def test_a_planted_race_is_seen_in_the_program() -> None:
    A = ow.tensor(np.ones((6, 2)), name="A")
    stmt = ow.parse("y(i) = A(j,i)", y=ow.empty((2,), name="y"), A=A).order("j", "i")
    for race, seen in (("IgnoreRaces", True), ("Atomics", False), ("Temporary", False)):
        program = stmt.parallelize("j", "CPUThread", race).compile()._launcher.compiled.program
        assert bool(unguarded_updates(program)) == seen


@pytest.mark.parametrize("name", CUT)
def test_threads_that_are_kept_apart_do_not_race(name: str) -> None:
    stmt, seen = STATEMENTS[name].statement(), set()
    stmt = stmt.schedule(CUT[name]) if CUT[name] else stmt
    for command in threaded(stmt):
        scheduled = stmt.schedule(command)
        seen |= strategies(scheduled)
        interpret(scheduled)
    assert seen >= {
        OutputRaceStrategy.Atomics,
        OutputRaceStrategy.Temporary,
        OutputRaceStrategy.ParallelReduction,
    }


# --- What `make tsan` is made of ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "output", "races", "words"),
    [
        (0, "", False, ""),
        (clang.RACES, "WARNING: ThreadSanitizer: data race", True, ""),
        (clang.RACES, "WARNING: ThreadSanitizer: data race", False, "a data race"),
        (0, "", True, "the planted race was not seen"),
        (clang.RACES, "no words about it", True, "the planted race was not seen"),
        (-11, "", False, "ended with status -11"),
        (-11, "", True, "the planted race was not seen"),
    ],
)
def test_verdicts(status: int, output: str, races: bool, words: str) -> None:
    found = verdict(subprocess.CompletedProcess([], status, "", output), races)
    assert words in found
    assert bool(words) == bool(found)


def test_without_clang_it_says_what_to_install() -> None:
    with pytest.raises(clang.Missing, match="apt-get install clang-14 libomp-14-dev"):
        clang.find("no-such-clang")


def test_a_serial_kernel_is_not_called() -> None:
    race = next(iter(planted()))
    assert record(race) is not None
    serial = STATEMENTS["SpMV by columns"].statement().order("j", "i")
    assert record(type(race)("serial", serial.unroll("i", 2))) is None


@pytest.mark.needs_cc
@pytest.mark.parametrize("mode", [[], ["fail"]], ids=["enough memory", "no memory"])
def test_the_driver_calls_kernels(tmp_path: Path, mode: list[str]) -> None:
    toolchain = find_toolchain()
    if toolchain is None or not toolchain.openmp:
        pytest.skip("no compiler with OpenMP")
    calls = record_all(planted())
    source = write_driver(calls, tmp_path)
    program = source.with_suffix("")
    flags = ("-std=gnu11", "-O0", "-fopenmp", "-w")
    command = (*toolchain.command, *flags, str(source), "-o", str(program), "-lm")
    subprocess.run(command, check=True, timeout=60)
    for number, call in enumerate(calls):
        call.write(tmp_path / "arguments")
        arguments = (str(number), str(tmp_path / "arguments"), *mode)
        assert subprocess.run((str(program), *arguments), timeout=60).returncode == 0
