"""Find a C compiler, probe its features, and run it.

Features are probed, never guessed from a name: the flag for this CPU, an OpenMP program that links
and loads, the faster rules for complex products. The kernel cache notes the answers, so that a
second process runs no compiler to find them again.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from itertools import chain, product
from pathlib import Path
from typing import Literal, cast

from openwork.errors import InternalError, ToolchainError
from openwork.frozen import frozen
from openwork.runtime import cache
from openwork.runtime.host import kept, pool
from openwork.runtime.host.cpu import (
    cpu_identity,
    gathers_are_fast,
    has_masked_gathers,
    jumps_are_picky,
)

Kind = Literal["gcc", "clang", "zig"]

OPTIMIZE = ("-O0", "-O1", "-O2", "-O3", "-Os", "-Og")
SANITIZERS = ("address", "undefined", "thread", "leak")
HOW_TO_GET_ONE = "install gcc or clang, or `pip install openwork[zig]`"

_NAMES = ("cc", "gcc", "clang")
_BASE = ("-std=gnu11", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
_OPENMP = "-fopenmp"
_IF_NEEDED = "-Wl,--as-needed"  # gcc links OpenMP's library whether it is asked for or not
_COMPLEX = "-fcx-fortran-rules"
_SECONDS = 300.0
_SHOWN_LINES = 12

# Environment variables that a compiler gets. Those that add flags, headers or libraries (CFLAGS,
# CPATH, LIBRARY_PATH, LD_PRELOAD, ...) would change the compiled file without changing its key,
# so they are not passed on.
_PASSED = (
    *("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("SDKROOT", "DEVELOPER_DIR", "MACOSX_DEPLOYMENT_TARGET", "CONDA_BUILD_SYSROOT"),
    *("XDG_CACHE_HOME", "ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"),
)

# A compiler's messages when the source is right, but the output cannot be written.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)

_PROBE = """
int openwork_probe(int n) {
  int sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
  for (int i = 0; i < n; i++) sum += i;
  return sum;
}
"""


@frozen
class Toolchain:
    """A working C compiler, and what it accepts."""

    command: tuple[str, ...]
    kind: Kind
    version: str  # the whole output of `--version`
    cpu: str  # a digest of the features that the native flag turns on
    native: tuple[str, ...]  # the flags for this CPU, or nothing
    openmp: bool
    pooled: bool  # its parallel loops run on our threads, see pool.py; else on its OpenMP's
    complex_fast: bool

    def flags(
        self, *, optimize: str = "-O3", associative: bool = False, sanitize: tuple[str, ...] = ()
    ) -> tuple[str, ...]:
        """The flags for one kernel.

        Args:
            optimize: `-O3` for users; less for tests that compile much.
            associative: whether sums may be reassociated. NaN and Inf keep their meaning.
            sanitize: names of sanitizers; a finding ends the process.
        """
        if optimize not in OPTIMIZE or not set(sanitize) <= set(SANITIZERS):
            raise InternalError(f"no such compiler option: {optimize} {sanitize}")
        alone = () if sanitize else _alone(self.kind)  # sanitizers are libraries
        flags = [*_BASE, *_extra(self.kind), *alone, optimize, *self.native]
        if self.openmp:
            flags.append(_OPENMP)
        if self.pooled:
            flags.append(_IF_NEEDED)
        if self.complex_fast:
            flags.append(_COMPLEX)
        if associative:
            flags += ["-fassociative-math", "-fno-signed-zeros"]
        if sanitize:
            flags += [f"-fsanitize={','.join(sanitize)}", "-fno-sanitize-recover=all", "-g"]
        return tuple(flags)

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries to link, after the source."""
        return _libraries(self.kind, self.openmp and not self.pooled)

    def compile(
        self, folder: Path, flags: tuple[str, ...], libraries: tuple[str, ...] | None = None
    ) -> None:
        """Compile `source.c` to `kernel.so`, both in `folder`; `libraries` if not the usual ones.

        Raises:
            ToolchainError: E602, with the compiler's first lines and where the source is kept.
        """
        linked = self.libraries if libraries is None else libraries
        problem = _compile(self.command, folder, flags, linked)
        if problem is None:
            if self.pooled and _needs_openmp(folder / cache.LIBRARY):
                raise InternalError("a loop calls more of OpenMP's library than parallel.c has")
            return
        kept = cache.keep_failed((folder / cache.SOURCE).read_text())
        raise ToolchainError(
            f"{' '.join(self.command)} refused the generated code:\n{problem}",
            code="E602",
            hint=f"please report this, with the source kept in {kept}" if kept else None,
        )


@frozen
class Candidate:
    """One place where a compiler may be, and what was found: a compiler or a problem."""

    name: str
    toolchain: Toolchain | None = None
    problem: str = ""


def find_toolchain() -> Toolchain | None:
    """The compiler to use: `$OPENWORK_CC`, else cc, gcc, clang, else the ziglang package.

    None if there is none; results then come from the reference evaluator.

    Raises:
        ToolchainError: E601, when `OPENWORK_CC` names something that is not a usable compiler.
    """
    asked = (os.environ.get("OPENWORK_CC", ""), os.environ.get("PATH", ""))
    found = _found.get(asked)
    if found is not None:
        return found
    for candidate in candidates():
        if candidate.toolchain is not None:
            _found[asked] = candidate.toolchain
            return candidate.toolchain
        if asked[0]:
            raise ToolchainError(
                f"OPENWORK_CC={asked[0]} is not a usable C compiler: {candidate.problem}",
                code="E601",
                hint="correct OPENWORK_CC, or unset it to let Openwork look for a compiler",
            )
    return None


def candidates() -> Iterator[Candidate]:
    """Every place where a compiler may be, in order; each is probed when it is reached."""
    asked = os.environ.get("OPENWORK_CC")
    if asked:
        yield _candidate(asked, _named_command(asked))
        return
    if os.name != "posix":
        return
    for name in _NAMES:
        path = shutil.which(name)
        yield _candidate(name, (path,) if path else None)
    zig = _ziglang()
    if zig is None:
        yield Candidate("ziglang", problem="the package is not installed")
    else:
        yield _candidate("ziglang", zig)


def no_toolchain() -> ToolchainError:
    """The error for a caller that needs a compiler."""
    return ToolchainError("no C compiler was found", code="E601", hint=HOW_TO_GET_ONE)


# In-process caches. `_found` is keyed by the environment's request, `_probes` by the compiler's
# files; a failure is cached as its text, and only until the file changes.
_found: dict[tuple[str, str], Toolchain] = {}
_probes: dict[str, Toolchain | str] = {}


def _named_command(asked: str) -> tuple[str, ...] | None:
    """The argument list for the text of OPENWORK_CC: one path, or a command with arguments."""
    try:
        words = [asked] if os.path.isfile(asked) else shlex.split(asked)
    except ValueError:
        return None
    path = shutil.which(words[0]) if words else None
    return (path, *words[1:]) if path else None


def _ziglang() -> tuple[str, ...] | None:
    """The compiler of the ziglang package: its binary, without the Python wrapper."""
    spec = find_spec("ziglang")
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).with_name("zig")
    if program.is_file():
        return (str(program), "cc")
    return (sys.executable, "-m", "ziglang", "cc")


def _candidate(name: str, command: tuple[str, ...] | None) -> Candidate:
    if command is None:
        return Candidate(name, problem="there is no such program")
    mark = _fingerprint(command)
    result = _probes.get(mark)
    if result is None:
        result = _probes[mark] = _recall(command, mark) or _probe(command, mark)
    if isinstance(result, str):
        return Candidate(name, problem=result)
    return Candidate(name, result)


def _fingerprint(command: tuple[str, ...]) -> str:
    """A digest that changes when the compiler, the CPU or our requirements change."""
    tried = (_BASE, _alone("gcc"), _native_flags(), _gather_flags(), _jump_flags())
    probes = (_OPENMP, _COMPLEX, _PROBE, _pooled_probe())
    facts: list[object] = [cache.ABI, cpu_identity(), command, tried, probes]
    for path in map(shutil.which, command):
        if path is not None:
            status = os.stat(path)
            facts.append((os.path.realpath(path), status.st_size, status.st_mtime_ns))
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def _recall(command: tuple[str, ...], mark: str) -> Toolchain | None:
    """What an earlier process noted about this compiler."""
    facts = cache.read_note(f"toolchain-{mark}")
    if facts is None:
        return None
    try:
        # The command is not taken from the file: a note must not decide what we run.
        return Toolchain(
            command=command,
            kind=cast(Kind, str(facts["kind"])),
            version=str(facts["version"]),
            cpu=str(facts["cpu"]),
            native=tuple(map(str, cast(list[object], facts["native"]))),
            openmp=bool(facts["openmp"]),
            pooled=bool(facts["pooled"]),
            complex_fast=bool(facts["complex_fast"]),
        )
    except (LookupError, TypeError):
        return None


def _probe(command: tuple[str, ...], mark: str) -> Toolchain | str:
    """Probe `command`; what it can do, or why it cannot be used."""
    version = _run((*command, "--version"))
    if isinstance(version, str):
        return version
    macros = ""
    for native in _native_flags():
        answer = _run((*command, *native, "-E", "-dM", "-x", "c", os.devnull))
        if not isinstance(answer, str):
            macros = answer.stdout
            break
    else:
        return f"it cannot preprocess an empty file: {answer}"
    kind = _kind(command, macros)
    for tuned in product(_jump_flags(), _gather_flags()):
        more = tuple(chain(*tuned))
        extras = _accepted(command, kind, (*native, *more))
        if not isinstance(extras, str):
            break
    if isinstance(extras, str):
        return extras
    features = f"{macros}\n{cpu_identity()}"
    found = Toolchain(
        command=command,
        kind=kind,
        version=version.stdout,
        cpu=hashlib.sha256(features.encode()).hexdigest(),
        native=(*native, *more),
        openmp=_OPENMP in extras,
        pooled=_OPENMP in extras and _pooled(command, kind, (*native, *more, *extras)),
        complex_fast=_COMPLEX in extras,
    )
    facts = asdict(found)
    del facts["command"]
    cache.write_note(f"toolchain-{mark}", {**facts, "native": list(found.native)})
    return found


def _native_flags() -> tuple[tuple[str, ...], ...]:
    """Spellings of "for this CPU", the best first: on Arm only -mcpu also tunes for it."""
    names = ("-march=native", "-mcpu=native")
    arm = platform.machine().lower() in ("aarch64", "arm64")
    return (*((name,) for name in (reversed(names) if arm else names)), ())


def _jump_flags() -> tuple[tuple[str, ...], ...]:
    """Spellings of "no jump across a 32-byte boundary", where that matters."""
    name = "-mbranches-within-32B-boundaries"
    return ((f"-Wa,{name}",), (name,), ()) if jumps_are_picky() else ((),)


def _gather_flags() -> tuple[tuple[str, ...], ...]:
    """What makes vectors of elements that are loaded one by one, where that is faster.

    gcc takes gathers for such vectors unless it is told that they are slow; the names of what it is
    told changed with version 13.
    """
    if gathers_are_fast() or not has_masked_gathers():
        return ((),)
    ours, parts = "-DSLOW_GATHERS", "^use_gather_2parts,^use_gather_4parts"
    return (
        (ours, f"-mtune-ctrl={parts},^use_gather"),
        (ours, f"-mtune-ctrl={parts},^use_gather_8parts"),
        (ours,),
    )


def _kind(command: tuple[str, ...], macros: str) -> Kind:
    if any(Path(word).name in ("zig", "ziglang") for word in command):
        return "zig"
    return "clang" if "#define __clang__ " in macros else "gcc"


def _accepted(
    command: tuple[str, ...], kind: Kind, native: tuple[str, ...]
) -> tuple[str, ...] | str:
    """The most extras with which a small program compiles and loads, or why none does."""
    problem: str | None = None
    for extras in ((_OPENMP, _COMPLEX), (_COMPLEX,), (_OPENMP,), ()):
        # -Werror, because a flag that is ignored with a warning does not work.
        accepted = (*_extra(kind), *_alone(kind), *native, *extras)
        flags = (*_BASE, *accepted, "-Werror", "-Wno-unknown-pragmas")
        libraries = _libraries(kind, _OPENMP in extras)
        problem = cache.in_scratch(partial(_tried, command, flags, libraries))
        if problem is None:
            return extras
    return f"it cannot build a library that loads: {problem}"


def _pooled_probe() -> str:
    common = f"{pool.pool_source()}{kept.kept_source()}"
    return f"{common}{_PROBE}{pool.parallel_source()}{kept.allocate_source()}"


def _pooled(command: tuple[str, ...], kind: Kind, accepted: tuple[str, ...]) -> bool:
    """Whether parallel.c and allocate.c stand in for libraries, and the pool can be built.

    A program that calls what it does not define needs that library, also by another name.
    """
    if not _alone(kind):
        return False
    flags = (*_BASE, *_alone(kind), *accepted, _IF_NEEDED, *kept.FLAGS)
    libraries = (*_libraries(kind, openmp=False), *pool.LIBRARIES)
    source = _pooled_probe()

    def alone(folder: Path) -> bool:
        problem = _tried(command, flags, libraries, folder, source)
        return problem is None and not _needs_openmp(folder / cache.LIBRARY)

    return cache.in_scratch(alone)


def _needs_openmp(path: Path) -> bool:
    """Whether a library is loaded together with GNU OpenMP's."""
    return b"libgomp.so" in path.read_bytes()


def _tried(
    command: tuple[str, ...],
    flags: tuple[str, ...],
    libraries: tuple[str, ...],
    folder: Path,
    source: str = _PROBE,
) -> str | None:
    """Why a small program cannot be compiled and loaded, None if it can."""
    (folder / cache.SOURCE).write_text(source)
    problem = _compile(command, folder, flags, libraries)
    return _load_problem(folder / cache.LIBRARY) if problem is None else problem


def _load_problem(path: Path) -> str | None:
    # The function is not called: a parallel region here would start threads in every process
    # that probes, and those of a compiler's OpenMP may not survive a fork.
    try:
        ctypes.CDLL(str(path)).openwork_probe  # noqa: B018
    except (OSError, AttributeError) as error:
        return str(error)
    return None


def _extra(kind: Kind) -> tuple[str, ...]:
    # Zig would first build its own C library, which takes many seconds, although the process
    # already has all that generated code calls; and at low optimization it calls a sanitizer,
    # which the process lacks.
    return ("-nostdlib", "-fno-sanitize=undefined") if kind == "zig" else ()


def _alone(kind: Kind) -> tuple[str, ...]:
    # The C library is in the process already, and reading it is most of linking a small kernel.
    return ("-nodefaultlibs",) if kind == "gcc" and sys.platform == "linux" else ()


def _libraries(kind: Kind, openmp: bool) -> tuple[str, ...]:
    if _alone(kind):
        return (*(["-lgomp"] if openmp else []), "-lm", "-lgcc")
    return () if kind == "zig" else ("-lm",)


def _compile(
    command: tuple[str, ...], folder: Path, flags: tuple[str, ...], libraries: tuple[str, ...]
) -> str | None:
    """Compile the source in `folder`; the compiler's first lines if it failed."""
    # Relative names, so that the same source gives the same file everywhere.
    files = ("-o", cache.LIBRARY, cache.SOURCE)
    answer = _run((*command, *flags, *files, *libraries), folder)
    return answer if isinstance(answer, str) else None


def run_compiler(arguments: tuple[str, ...], folder: Path) -> str | None:
    """Run a compiler in `folder`; its first lines if it failed."""
    answer = _run(arguments, folder)
    return answer if isinstance(answer, str) else None


def _run(
    arguments: tuple[str, ...], folder: Path | None = None
) -> subprocess.CompletedProcess[str] | str:
    """Run a compiler; its output, or why it failed.

    Raises:
        OSError: the disk is full.
    """
    environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
    if folder is not None:  # its temporary files go next to the library
        environment["TMPDIR"] = str(folder)
    try:
        answer = subprocess.run(
            arguments,
            cwd=folder,
            env={**environment, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except OSError as error:
        return f"{arguments[0]} does not start: {error.strerror or error}"
    except subprocess.TimeoutExpired:
        return f"{arguments[0]} did not finish within {_SECONDS:.0f} s"
    if answer.returncode == 0:
        return answer
    for number in _NO_ROOM:
        if os.strerror(number) in answer.stderr:
            raise OSError(number, os.strerror(number))
    lines = (answer.stderr or answer.stdout).strip().splitlines()[:_SHOWN_LINES]
    return "\n".join(lines) or f"{arguments[0]} ended with status {answer.returncode}"
