"""Finding a compiler, what it is asked, and what happens when it is missing or broken."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import pytest

from openwork.errors import InternalError, ToolchainError
from openwork.runtime import cache
from openwork.runtime.host import library, threads, toolchain
from openwork.runtime.host.toolchain import Toolchain, find_toolchain

pytestmark = pytest.mark.optimized

needs_cc = pytest.mark.needs_cc


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, and nothing remembered from other tests."""
    monkeypatch.setenv("OPENWORK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(toolchain, "_found", {})
    monkeypatch.setattr(toolchain, "_probes", {})
    monkeypatch.setattr(library, "_loaded", {})
    return tmp_path / "cache"


def wrapper(path: Path, body: str) -> Path:
    """A compiler that does `body` and then what the real one does."""
    real = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    path.write_text(f'#!/bin/sh\n{body}\nexec {real} "$@"\n')
    path.chmod(0o755)
    return path


def found() -> Toolchain:
    result = find_toolchain()
    assert result is not None
    return result


@needs_cc
def test_the_compiler_of_this_machine() -> None:
    first = found()
    assert first.kind in ("gcc", "clang", "zig")
    assert first.version.strip()
    assert len(first.cpu) == 64
    assert found() is first


@needs_cc
def test_flags() -> None:
    plain = found().flags()
    assert {"-std=gnu11", "-O3", "-fno-math-errno", "-fno-trapping-math", "-shared"} <= set(plain)
    assert "-fassociative-math" not in plain
    loose = found().flags(associative=True, optimize="-O1", sanitize=("address", "undefined"))
    assert {"-fassociative-math", "-fno-signed-zeros", "-O1"} <= set(loose)
    assert "-fsanitize=address,undefined" in loose
    forbidden = {"-ffast-math", "-Ofast", "-ffinite-math-only", "-funsafe-math-optimizations"}
    assert not forbidden & {*plain, *loose}


@needs_cc
@pytest.mark.parametrize("options", [{"optimize": "-Ofast"}, {"sanitize": ("address -o /x",)}])
def test_only_known_options_become_flags(options: dict[str, str]) -> None:
    with pytest.raises(InternalError, match="no such compiler option"):
        found().flags(**options)  # type: ignore[arg-type]


@needs_cc
def test_subnormal_numbers_survive_a_kernel() -> None:
    function = library.load("double same(double x) { return x * 1.0; }").same
    function.argtypes, function.restype = (ctypes.c_double,), ctypes.c_double
    tiny = 5e-324
    assert function(tiny) == tiny and tiny * 1.0 != 0.0


@pytest.mark.parametrize("program", ["/nowhere/cc", "no-such-compiler -v", "'unbalanced", "false"])
def test_a_named_compiler_that_is_broken_is_an_error(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENWORK_CC", program)
    with pytest.raises(ToolchainError, match="OPENWORK_CC=") as caught:
        find_toolchain()
    assert caught.value.code == "E601"
    assert "unset it" in str(caught.value)


def test_a_program_that_only_pretends_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENWORK_CC", str(wrapper(tmp_path / "cc", "exit 0")))
    with pytest.raises(ToolchainError, match="cannot build a library that loads"):
        find_toolchain()


def test_no_compiler_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENWORK_CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    assert find_toolchain() is None
    assert [c.name for c in toolchain.candidates()] == ["cc", "gcc", "clang", "ziglang"]
    with pytest.raises(ToolchainError, match="no C compiler was found") as caught:
        library.load("int f;")
    assert caught.value.code == "E601"


@needs_cc
def test_a_compiler_that_appears_is_used_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = wrapper(tmp_path / "good", "")
    (tmp_path / "bin").mkdir()
    monkeypatch.delenv("OPENWORK_CC", raising=False)
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    monkeypatch.setattr(toolchain, "_NAMES", ("cc", "openwork-test-cc"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "bin"), "/usr/bin", "/bin"]))
    wrapper(tmp_path / "bin" / "cc", "echo out of order >&2; exit 1")
    assert [c.problem for c in toolchain.candidates()] == [
        "out of order",
        "there is no such program",
        "the package is not installed",
    ]
    assert find_toolchain() is None
    good.rename(tmp_path / "bin" / "openwork-test-cc")
    assert found().command == (str(tmp_path / "bin" / "openwork-test-cc"),)


@needs_cc
def test_a_named_compiler_may_have_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = wrapper(tmp_path / "cc", "")
    monkeypatch.setenv("OPENWORK_CC", f"{program} -DANSWER=42")
    assert found().command == (str(program), "-DANSWER=42")
    assert library.load("int f(void) { return ANSWER; }").f() == 42


@needs_cc
@pytest.mark.parametrize(
    "flag", ["-fopenmp", "-fcx-fortran-rules", "-m*=native", "*-mbranches-within*"]
)
def test_what_a_compiler_does_not_accept_is_not_used(
    flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = found()
    refuse = f'for a in "$@"; do case "$a" in {flag}) echo bad $a >&2; exit 1;; esac; done'
    monkeypatch.setenv("OPENWORK_CC", str(wrapper(tmp_path / "cc", refuse)))
    less = found()
    assert (less.openmp, less.complex_fast, less.native) == (
        full.openmp and flag != "-fopenmp",
        full.complex_fast and flag != "-fcx-fortran-rules",
        tuple(each for each in full.native if not fnmatch(each, flag)),
    )
    assert library.load("int f(void) { return 42; }").f() == 42


PARALLEL = """
int count(int threads) {
  int seen = 0;
#pragma omp parallel for schedule(static, 1) num_threads(threads) reduction(| : seen)
  for (int part = 0; part < threads; part++) seen |= 1 << part;
  return seen;
}
"""


@needs_cc
def test_without_the_pool_loops_run_on_the_compilers_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not found().pooled:
        pytest.skip("there is no pool with this compiler")
    refuse = 'for a in "$@"; do case "$a" in -lpthread) exit 1;; esac; done'
    monkeypatch.setenv("OPENWORK_CC", str(wrapper(tmp_path / "cc", refuse)))
    monkeypatch.setattr(threads, "_by_the_compiler", False)
    less = found()
    assert (less.openmp, less.pooled) == (True, False)
    counted = library.load(PARALLEL).count(ctypes.c_int32(3))
    assert counted == 0b111
    monkeypatch.setattr(threads, "_forked", True)
    assert threads.thread_count() == 1  # in a child


@needs_cc
def test_jumps_are_aligned_where_the_processor_is_picky(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A compiler that takes the second spelling, whatever the one at hand takes.
    take = """n=$#; while [ $n -gt 0 ]; do a="$1"; shift; n=$((n - 1)); case "$a" in
      -mbranches-within-32B-boundaries) ;; -Wa,*) exit 1;; *) set -- "$@" "$a";; esac; done"""
    monkeypatch.setattr(toolchain, "jumps_are_picky", lambda: True)
    monkeypatch.setenv("OPENWORK_CC", str(wrapper(tmp_path / "cc", take)))
    assert "-mbranches-within-32B-boundaries" in found().native
    # What an earlier version noted about the same compiler does not count.
    monkeypatch.setattr(toolchain, "jumps_are_picky", lambda: False)
    toolchain._found.clear()
    assert "-mbranches-within-32B-boundaries" not in found().native


@needs_cc
@pytest.mark.parametrize("fast", [False, True])
def test_kernels_know_whether_gathers_are_slow(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "has_masked_gathers", lambda: True)
    monkeypatch.setattr(toolchain, "gathers_are_fast", lambda: fast)
    toolchain._found.clear()
    assert ("-DSLOW_GATHERS" in found().native) is not fast
    assert not (fast and any("gather" in flag for flag in found().native))


@needs_cc
@pytest.mark.parametrize("knows", ["*,^use_gather", "*,^use_gather_8parts", "none"])
def test_compilers_are_told_of_slow_gathers_as_they_understand(
    knows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = f"""n=$#; while [ $n -gt 0 ]; do a="$1"; shift; n=$((n - 1)); case "$a" in
      -mtune-ctrl={knows}) ;; -mtune-ctrl=*) exit 1;; *) set -- "$@" "$a";; esac; done"""
    monkeypatch.setattr(toolchain, "has_masked_gathers", lambda: True)
    monkeypatch.setattr(toolchain, "gathers_are_fast", lambda: False)
    monkeypatch.setenv("OPENWORK_CC", str(wrapper(tmp_path / "cc", take)))
    told = [flag for flag in found().native if flag.startswith("-mtune-ctrl")]
    assert [flag.endswith(knows[1:]) for flag in told] == ([] if knows == "none" else [True])
    assert "-DSLOW_GATHERS" in found().native


WARM = """
import ctypes
from openwork.runtime.host import library, support
print(library.load("int f(void) { return 42; }").f(), support.support_library() is not None)
"""


@needs_cc
def test_a_second_process_starts_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    program = wrapper(tmp_path / "cc", f'echo "$@" >> {log}')
    monkeypatch.setenv("OPENWORK_CC", str(program))

    def run() -> list[str]:
        command = [sys.executable, "-c", WARM]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        assert answer.stdout == "42 True\n"
        return log.read_text().splitlines()

    first = run()
    assert len(first) >= 5  # the probes and two libraries
    assert run() == first
    os.utime(program, (1, 1))  # as after an upgrade
    assert len(run()) > len(first)


@needs_cc
def test_the_environment_adds_no_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen"
    monkeypatch.setenv("OPENWORK_CC", str(wrapper(tmp_path / "cc", f"env >> {seen}")))
    for name in ("CFLAGS", "CPATH", "LIBRARY_PATH", "CCC_OVERRIDE_OPTIONS", "LANG"):
        monkeypatch.setenv(name, "/nowhere/sneaked-in")
    found()
    assert "PATH=" in seen.read_text()
    assert "sneaked-in" not in seen.read_text()


@needs_cc
def test_refused_code_is_kept_and_shown() -> None:
    source = "int f( {\n"
    with pytest.raises(ToolchainError, match="refused the generated code") as caught:
        library.load(source)
    assert caught.value.code == "E602"
    assert "source.c:1" in caught.value.message
    assert caught.value.hint is not None
    assert Path(caught.value.hint.split()[-1]).read_text().startswith(source)
    assert library.load("int f(void) { return 1; }").f() == 1


@needs_cc
def test_a_library_that_does_not_load_is_an_error() -> None:
    source = "int missing_symbol(void); int f(void) { return missing_symbol(); }"
    with pytest.raises(ToolchainError, match="missing_symbol") as caught:
        library.load(source)
    assert caught.value.code == "E604"


@needs_cc
def test_a_damaged_note_is_probed_again(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = found()
    (note,) = own_cache.glob("note-toolchain-*.json")
    good = note.read_bytes()
    for bad in (b"", b"{}", good[:-9], good.replace(b"true", b"false")):
        note.write_bytes(bad)
        monkeypatch.setattr(toolchain, "_found", {})
        monkeypatch.setattr(toolchain, "_probes", {})
        assert found() == first
    assert note.read_bytes() == good


@needs_cc
def test_threads_share_one_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    library.load("int with_the_pool_of_threads;")
    built: list[str] = []
    lookup = cache.lookup_or_build

    def counted(key: cache.CacheKey, build: Callable[[Path], None]) -> Path:
        built.append(key.source)
        return lookup(key, build)

    monkeypatch.setattr(cache, "lookup_or_build", counted)
    sources = [f"int f(void) {{ return {number}; }}" for number in range(3)]
    answers: list[int] = []
    start = threading.Barrier(12)

    def work(number: int) -> None:
        start.wait()
        answers.append(library.load(sources[number % 3]).f() - number % 3)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert answers == [0] * 12
    assert len(built) == 3
    assert all(text.startswith(source) for text, source in zip(sorted(built), sources, strict=True))
    assert library._locks == {}


@needs_cc
def test_options_make_different_libraries() -> None:
    source = "int f(void) { return 42; }"
    plain = library.load(source)
    assert library.load(source) is plain
    assert library.load(source, optimize="-O1") is not plain
    assert library.load(source, associative=True) is not plain
    assert len(cache.entries()) == 3
