"""`python -m openwork doctor`: what was found on this machine, and how to fix problems."""

from __future__ import annotations

import os
import platform
import secrets
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from openwork.errors import OpenworkError
from openwork.frozen import frozen
from openwork.runtime import cache
from openwork.runtime.host import calibration
from openwork.runtime.host.library import compiled_anew
from openwork.runtime.host.support import support_library
from openwork.runtime.host.threads import thread_count
from openwork.runtime.host.toolchain import HOW_TO_GET_ONE, Candidate, Toolchain, candidates

_EXTRAS = (
    ("cupy", "openwork[cuda]", "kernels on NVIDIA GPUs"),
    ("torch", "torch", "tensors from and to PyTorch"),
    ("ziglang", "openwork[zig]", "a C compiler where there is none"),
)

_TRIAL = """
int openwork_trial(int threads) {
  int sum = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : sum)
  for (int i = 0; i < 1000; i++) sum += i;
  return sum;
}
"""
_TRIAL_ANSWER = 499500


@frozen
class Finding:
    """One line of the report. With a remedy it is a problem; with `fatal` nothing compiles."""

    topic: str
    text: str
    remedy: str = ""
    fatal: bool = False


def report() -> str:
    """All findings as a text to read, each problem followed by its remedy."""
    return render(examine())


def render(findings: list[Finding]) -> str:
    """The findings as text, grouped by topic."""
    lines = ["Openwork doctor", ""]
    topic = ""
    for finding in findings:
        heading = finding.topic if finding.topic != topic else ""
        topic = finding.topic
        first, *rest = finding.text.splitlines() or [""]
        lines.append(f"{heading:<10}{first}")
        lines += [f"{'':<10}  {line}" for line in rest]
        if finding.remedy:
            lines.append(f"{'':<10}  to fix it: {finding.remedy}")
    count = sum(bool(finding.remedy) for finding in findings)
    verdict = "all is well" if count == 0 else f"{count} to fix"
    return "\n".join([*lines, "", f"{'result':<10}{verdict}"])


def examine() -> list[Finding]:
    """Look at everything that compiling needs; problems are findings, never exceptions."""
    found = list(candidates())
    chosen = next((c.toolchain for c in found if c.toolchain is not None), None)
    return [
        Finding("python", f"{platform.python_version()} at {sys.executable}"),
        *_compilers(found, chosen),
        *(_abilities(chosen) if chosen is not None else ()),
        *(_trial(chosen) if chosen is not None else ()),
        *_cache(),
        *_threads(),
        *_speed(),
        *_extras(),
    ]


def _compilers(found: list[Candidate], chosen: Toolchain | None) -> Iterator[Finding]:
    for candidate in found:
        toolchain = candidate.toolchain
        if toolchain is None:
            yield Finding("compiler", f"{candidate.name}: {candidate.problem}")
            continue
        mark = "used" if toolchain is chosen else "not needed"
        title = (toolchain.version.splitlines() or [""])[0]
        command = " ".join(toolchain.command)
        yield Finding("compiler", f"{candidate.name} ({mark}): {title}, {command}")
    if chosen is None and os.environ.get("OPENWORK_CC"):
        text = "OPENWORK_CC is set, so no other compiler is tried"
        yield Finding("compiler", text, "correct OPENWORK_CC, or unset it", fatal=True)
    elif chosen is None:
        text = "none that works; results come from the reference evaluator, which is slow"
        yield Finding("compiler", text, HOW_TO_GET_ONE, fatal=True)


def _abilities(toolchain: Toolchain) -> Iterator[Finding]:
    yield Finding("flags", " ".join((*toolchain.flags(), *toolchain.libraries)))
    target = toolchain.native[0] if toolchain.native else "no flag for this CPU is accepted"
    yield Finding("cpu", f"{platform.machine()}, {target}, features {toolchain.cpu[:12]}")
    if toolchain.openmp:
        owner = "Openwork" if toolchain.pooled else "the compiler"
        yield Finding("openmp", f"yes, on threads of {owner}")
    else:
        yield Finding("openmp", "no: kernels use one thread", _openmp_remedy(toolchain))


def _openmp_remedy(toolchain: Toolchain) -> str:
    if toolchain.kind == "clang":
        return "install the OpenMP library of this clang (often called libomp), or gcc"
    return "install gcc with its OpenMP library (libgomp)"


def _trial(toolchain: Toolchain) -> Iterator[Finding]:
    # A random comment, so that no compiler cache answers.
    source = f"/* {secrets.token_hex(8)} */{_TRIAL}"

    def trial(folder: Path) -> tuple[int, float, float]:
        start = time.perf_counter()
        library = compiled_anew(toolchain, source, folder)
        compiled = time.perf_counter()
        answer = int(library.openwork_trial(min(2, thread_count())))
        return answer, compiled - start, time.perf_counter() - compiled

    try:
        answer, compiling, running = cache.in_scratch(trial)
        support_library()
    except (OSError, OpenworkError) as error:
        remedy = "set OPENWORK_CC to another compiler, or OPENWORK_CACHE_DIR to another directory"
        yield Finding("trial", f"failed: {error}", remedy, fatal=True)
        return
    if answer != _TRIAL_ANSWER:
        text = f"a kernel computed {answer} where {_TRIAL_ANSWER} is right"
        yield Finding("trial", text, "set OPENWORK_CC to another compiler", fatal=True)
        return
    timing = f"{1e3 * compiling:.0f} ms with loading, run {1e3 * running:.1f} ms"
    yield Finding("trial", f"compile {timing}, right answer")


def _cache() -> Iterator[Finding]:
    wanted = cache.wanted_directory()
    reason = cache.distrust(wanted)
    if reason is not None:
        remedy = f"`chmod 700 {wanted}` if it is yours, or set OPENWORK_CACHE_DIR to another"
        yield Finding("cache", f"{wanted} is not used: {reason}", remedy)
        return
    yield Finding("cache", f"{wanted}: {cache_contents()}")


def cache_contents() -> str:
    """How much the kernel cache holds, in words."""
    return f"{len(cache.entries())} kernels, {cache.size() / 1e6:.1f} MB"


def _threads() -> Iterator[Finding]:
    try:
        yield Finding("threads", str(thread_count()))
    except OpenworkError as error:
        yield Finding("threads", error.message, error.hint or "")


def _speed() -> Iterator[Finding]:
    try:
        known = calibration.recall()
    except OpenworkError:
        return  # the number of threads is a finding of its own
    missing = "not measured, so schedules use shipped values; `python -m openwork calibrate` does"
    yield Finding("speed", missing if known is None else str(known))


def _extras() -> Iterator[Finding]:
    for module, package, purpose in _EXTRAS:
        try:
            present = find_spec(module) is not None
        except (ImportError, ValueError):
            present = False
        state = "present" if present else f"not installed; `pip install {package}`"
        yield Finding("extras", f"{module} ({purpose}): {state}")
