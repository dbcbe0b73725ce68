"""The pool of threads: what callers may expect, races, forks, and the end of the process."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.runtime.host.programs import KINDS, check_program

from openwork.errors import InternalError
from openwork.runtime.host import pool
from openwork.runtime.host.library import load
from openwork.runtime.host.toolchain import Toolchain

pytestmark = pytest.mark.needs_cc


@pytest.mark.parametrize("kind", KINDS)
def test_callers_wait_only_for_workers_that_have_begun(
    kind: str, toolchain: Toolchain, tmp_path: Path
) -> None:
    check_program("pool_check.c", kind, toolchain, tmp_path, times=3)


PARTS = """
void parts(int count, int *numbers, int *teams) {
#pragma omp parallel for schedule(static, 1) num_threads(count) if (count > 1)
  for (int part = 0; part < count; part++) {
#pragma omp critical (openwork_update)
    numbers[part] += 1 + omp_get_thread_num(), teams[part] = omp_get_num_threads();
  }
}
"""
BESIDE_GNU = """
import ctypes, os, sys
from openwork.runtime.host import pool
from openwork.runtime.host.library import load

try:
    gnu = ctypes.CDLL("libgomp.so.1")
except OSError:
    sys.exit(77)
run = load(sys.argv[1]).parts

def threads_after(usual, count):
    gnu.omp_set_num_threads(usual)
    numbers, teams = ((ctypes.c_int * count)() for _ in range(2))
    run(count, numbers, teams)
    assert list(numbers) == list(range(1, count + 1)) and set(teams) == {count}
    return len(os.listdir("/proc/self/task"))

before = len(os.listdir("/proc/self/task"))
assert threads_after(4, 6) <= before + 3  # on its threads alone
child = os.fork()
if not child:  # which has none of them
    os._exit(0 if threads_after(4, 5) == 5 else 1)
assert os.waitpid(child, 0)[1] == 0
assert threads_after(4, 12) >= before + 11  # too many parts for them
"""
CHUNKS = """
void chunks(int count, long first, long limit, int *seen) {
#pragma omp parallel for schedule(dynamic, 4) num_threads(count) if (count > 1)
  for (long at = first; at < limit; at += 3) __atomic_fetch_add(&seen[at], 1, 0);
}
"""
DECLARED = "int omp_get_thread_num(void), omp_get_num_threads(void);\n"


def test_loops_share_the_threads_of_gnu_openmp(toolchain: Toolchain) -> None:
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("counts threads in /proc")
    given = [sys.executable, "-c", BESIDE_GNU, DECLARED + PARTS]
    done = subprocess.run(given, capture_output=True, text=True, timeout=60)
    if done.returncode == 77:
        pytest.skip("there is no GNU OpenMP")
    assert done.returncode == 0, done.stderr


def test_only_libraries_with_threads_bring_what_starts_them(toolchain: Toolchain) -> None:
    alone = load("void f(int *x) {\n#pragma omp simd\n  for (int i = 0; i < 9; i++) x[i] = i;\n}\n")
    assert not hasattr(alone, "openwork_run")
    assert hasattr(load(DECLARED + PARTS), "openwork_run")
    for line in ("#pragma omp atomic", "  #pragma omp critical (x)", '_Pragma("omp parallel for")'):
        assert pool.has_threads(f"{{\n{line}\n}}"), line
    assert not pool.has_threads("#pragma omp simd reduction(+ : sum)")


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_a_loop_has_all_its_parts_whoever_runs_them(count: int, toolchain: Toolchain) -> None:
    run = load(DECLARED + PARTS).parts
    numbers, teams = np.zeros(count, np.int32), np.zeros(count, np.int32)
    for call in range(1, 4):
        run(count, ctypes.c_void_p(numbers.ctypes.data), ctypes.c_void_p(teams.ctypes.data))
        np.testing.assert_array_equal(numbers, call * np.arange(1, count + 1))
        assert set(teams) == {count}


@pytest.mark.parametrize("count", [1, 2, 40])
@pytest.mark.parametrize("first, limit", [(0, 100), (5, 99), (7, 8), (4, 4), (4, 1)])
def test_a_dynamic_loop_has_all_its_chunks(
    count: int, first: int, limit: int, toolchain: Toolchain
) -> None:
    run, seen = load(CHUNKS).chunks, np.zeros(100, np.int32)
    run(count, ctypes.c_long(first), ctypes.c_long(limit), ctypes.c_void_p(seen.ctypes.data))
    assert np.flatnonzero(seen).tolist() == list(range(first, limit, 3))
    assert seen.max() <= 1


PROGRAM = """
import os, sys
import numpy as np
from openwork.runtime.host import support, threads
threads.set_num_threads(3)
crd = np.arange(1_000_000, dtype=np.int32)
before = len(os.listdir("/proc/self/task"))
def check():
    support.check_coordinates(crd, None, len(crd), array="crd")
    return len(os.listdir("/proc/self/task")) - before
"""
FORKS = """
assert check() == 2
child = os.fork()
if child == 0:
    before = len(os.listdir("/proc/self/task"))
    os._exit(0 if threads.thread_count() == 3 and check() == check() == 2 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert check() == 2
"""
ENDS = """
import atexit
def last():
    assert check() == 0, "threads are left, or start again"
    print("end")
# What is registered before the pool is called after it.
from openwork.runtime.host import library
assert library._common is None
atexit.register(last)
assert check() == 2
"""


REFUSED = """
import resource
support.support_library()
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
if os.getuid() == 0:
    os.setuid(65534)  # limits are not for the administrator
assert check() == 0
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not list threads")
@pytest.mark.parametrize(
    "program, says", [(FORKS, ""), (ENDS, "end\n"), (REFUSED, "")], ids=["fork", "end", "refused"]
)
def test_threads_of_the_process(program: str, says: str, toolchain: Toolchain) -> None:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM + program]
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # NumPy's threads come and go
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=alone)
    assert (done.returncode, done.stdout) == (0, says), done.stderr


MORE = """
void wait_for_all(int count, int *seen) {
#pragma omp parallel num_threads(count)
  {
    seen[0] = 1;
#pragma omp barrier
    seen[1] = 1;
  }
}
"""


def test_what_needs_all_threads_at_once_is_refused(toolchain: Toolchain) -> None:
    with pytest.raises(InternalError, match="calls more of OpenMP"):
        load(MORE)
