"""Run parallel kernels under ThreadSanitizer: `make tsan`.

It fails if a kernel races, and also if a race that was put in is not seen. Each call of a kernel is
a process of its own; all of them are one program, made in out/tsan, where they can be repeated.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.tsan import clang
from tests.tsan.cases import at_random, planted, strategies, systematic
from tests.tsan.record import THREADS, Call, record_all, write_driver

FOLDER = Path("out/tsan")
SHOWN_LINES = 11
TRIES = 20  # of a call that races
SHOWN_FAILURES = 3


@dataclass(frozen=True)
class Problem:
    """A kernel that did not do what it should, in words, with what the program printed."""

    call: Call
    words: str
    output: str
    again: str

    def __str__(self) -> str:
        lines = [f"FAILED {self.call.prepared}", f"  {self.words}", f"  again: {self.again}"]
        shown = [re.sub(r" \(.*", "", line) for line in self.output.splitlines()]
        report = [f"    {line}" for line in shown if line.startswith("  ")]
        return "\n".join([*lines, *report[:SHOWN_LINES]])


def main(arguments: Sequence[str] | None = None) -> int:
    """The status of the process: 0 if all is as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.tsan", description=__doc__)
    parser.add_argument("--random", type=int, default=60, help="how many random cases")
    parser.add_argument("--cc", help="which clang")
    options = parser.parse_args(arguments)
    try:
        return run(clang.find(options.cc), options.random)
    except clang.Missing as missing:
        print(f"make tsan: {missing}", file=sys.stderr)
        return 2


def run(compiler: clang.Clang, count: int) -> int:
    """Compile all cases, run each, and say what came of it."""
    print(f"{compiler.command} with {compiler.archer}, {THREADS} threads", flush=True)
    traps = record_all(planted())
    calls = [*traps, *record_all((*systematic(), *at_random(count)))]
    FOLDER.mkdir(parents=True, exist_ok=True)
    program = compiler.compile(write_driver(calls, FOLDER.resolve()))
    problems = [p for n, call in enumerate(calls) for p in judge(compiler, program, n, call)]
    print_summary(calls, problems)
    if problems:
        return 1
    print("passed: every planted race was seen, and no other")
    return 0


def judge(compiler: clang.Clang, program: Path, number: int, call: Call) -> Iterator[Problem]:
    """Make a call; a kernel that can run out of memory is called once more and does."""
    file = FOLDER.resolve() / f"{number}.bin"
    call.write(file)
    for mode in ("", "fail") if call.allocates and not call.prepared.races else ("",):
        arguments = [str(number), file.name, *([mode] if mode else [])]
        # A thread may have been so quick that it did all parts, and met nobody.
        for _ in range(TRIES if call.prepared.races else 1):
            answer = compiler.run(program, *arguments)
            words = verdict(answer, call.prepared.races)
            if not words:
                break
        if words:
            where = ", where every allocation by a thread fails" if mode else ""
            settings = " ".join(f"{k}={v}" for k, v in compiler.environment().items())
            command = shlex.join([f"./{program.name}", *arguments])
            again = f"cd {FOLDER} && {settings} {command}"
            yield Problem(call, words + where, answer.stderr, again)


def verdict(answer: subprocess.CompletedProcess[str], races: bool) -> str:
    """What is wrong with the answer of a program, in words; nothing if nothing is."""
    seen = answer.returncode == clang.RACES and "data race" in answer.stderr
    if races:
        return "" if seen else f"the planted race was not seen (status {answer.returncode})"
    if seen:
        return "a data race"
    return f"the program ended with status {answer.returncode}" if answer.returncode else ""


def print_summary(calls: Sequence[Call], problems: Sequence[Problem]) -> None:
    """What was run, and the first problems."""
    failed = Counter(problem.call.prepared.races for problem in problems)
    clean = [call for call in calls if not call.prepared.races]
    kinds = Counter(kind.value for c in clean for kind in strategies(c.prepared.statement))
    counts = ", ".join(f"{kind} {number}" for kind, number in sorted(kinds.items()))
    out_of_memory = sum(call.allocates for call in clean)
    for problem in problems[:SHOWN_FAILURES]:
        print(problem)
    if len(problems) > SHOWN_FAILURES:
        print(f"and {len(problems) - SHOWN_FAILURES} more failures:")
        print("\n".join(f"  {p.call.prepared}: {p.words}" for p in problems[SHOWN_FAILURES:]))
    print(f"{len(calls) - len(clean)} planted races, {failed[True]} not seen")
    print(f"{len(clean)} different kernels ({counts}), {failed[False]} failures")
    print(f"{out_of_memory} of them were also called where memory runs out")


if __name__ == "__main__":
    sys.exit(main())
