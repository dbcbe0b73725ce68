"""The compiler that ThreadSanitizer needs: clang, whose OpenMP library tells it of its barriers.

GNU's does not, so that clean kernels would be reported. What tells is libarcher.so, which comes
with clang's OpenMP library.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HOW_TO_INSTALL = """\
ThreadSanitizer needs clang, its OpenMP library and libarcher.so:
  Debian, Ubuntu   apt-get install clang-14 libomp-14-dev      (or any later number)
  Fedora           dnf install clang libomp-devel
Another clang: make tsan CLANG=/path/to/clang"""
NO_RANDOM_ADDRESSES = """\
ThreadSanitizer does not start with the memory layout of this system; without random addresses it
may: setarch -R make tsan"""

RACES = 66
_NEWEST, _OLDEST = 25, 11
_FLAGS = ("-std=gnu11", "-O1", "-g", "-fopenmp", "-fsanitize=thread", "-w", "-fno-math-errno")
_OPTIONS = f"ignore_noninstrumented_modules=1:exitcode={RACES}"
_SECONDS = 600.0


class Missing(Exception):
    """Something that ThreadSanitizer needs is not there."""


@dataclass(frozen=True)
class Clang:
    """A clang and the library by which OpenMP and ThreadSanitizer understand each other."""

    command: str
    archer: Path

    def compile(self, source: Path) -> Path:
        """The program made of `source`, with all that it includes."""
        program = source.with_suffix("")
        command = (self.command, *_FLAGS, source.name, "-o", program.name, "-lm")
        answer = _run(command, cwd=source.parent)
        if answer.returncode:
            raise Missing(f"{' '.join(command)}, in {source.parent}:\n{answer.stderr[:2000]}")
        return program

    def environment(self) -> dict[str, str]:
        """What a program under ThreadSanitizer has to find in its environment."""
        return {"OMP_TOOL_LIBRARIES": str(self.archer), "TSAN_OPTIONS": _OPTIONS}

    def run(self, program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `program` with its barriers understood; the status is `RACES` if any was seen."""
        environment = {**os.environ, **self.environment()}
        environment.pop("LD_PRELOAD", None)
        answer = _run((str(program), *arguments), cwd=program.parent, env=environment)
        if "FATAL: ThreadSanitizer" in answer.stderr:
            raise Missing(f"{answer.stderr[:500]}\n{NO_RANDOM_ADDRESSES}")
        return answer


def find(asked: str | None = None) -> Clang:
    """The clang called `asked`, or the newest that has all that is needed.

    Raises:
        Missing: what to install.
    """
    seen = []
    for command in [asked] if asked else _names():
        if not shutil.which(command):
            continue
        for archer in _archers(command):
            if archer.is_file():
                return Clang(command, archer.resolve())
        seen.append(command)
    found = f"{', '.join(seen)} without libarcher.so" if seen else f"no {asked or 'clang'}"
    raise Missing(f"found {found}\n{HOW_TO_INSTALL}")


def _names() -> Iterator[str]:
    yield "clang"
    yield from (f"clang-{version}" for version in range(_NEWEST, _OLDEST, -1))


def _archers(command: str) -> Iterator[Path]:
    """Where the library may be: where the linker looks, or beside clang's own files."""
    yield Path(_run((command, "-print-file-name=libarcher.so")).stdout.strip())
    resources = Path(_run((command, "-print-resource-dir")).stdout.strip())
    yield from (folder / "libarcher.so" for folder in resources.parents[:2])
    yield resources.parents[1] / "lib64" / "libarcher.so"


def _run(
    command: tuple[str, ...], cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
