"""Break the compiler on purpose, one place at a time, and name the test that notices.

    python tools/mutate.py --list
    python tools/mutate.py --jobs 4 --out out/mutations.txt
    python tools/mutate.py --only split-guard --tests tests/loops

Each mutation is a piece of text that occurs exactly once below src/openwork, and what stands there
instead: a flipped comparison, a missing guard, a lost barrier, a bound that is off by one. The tree
is copied, one mutation is applied, and pytest runs until the first failure. Golden files are left
out unless asked for (`--golden`): they show that text has changed, not that it is wrong. A control
comes first with `--control`: tests that fail without a mutation catch nothing and are left out.

The exit status is 1 if a mutation survives, 2 if one cannot be applied.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
# Where a fault is found soon; whatever else there is comes after.
FIRST = (
    "tests/program/test_verify.py",
    "tests/program/simplify/test_simplify.py",
    "tests/program/test_vectorize.py",
    "tests/program/interpret",
    "tests/render/c/test_c.py",
    "tests/render/cuda/test_cuda.py",
    "tests/loops",
    "tests/found",
    "tests/whole/test_statements.py",
    "tests/program",
    "tests/render",
    "tests/random",
)


@dataclass(frozen=True)
class Mutation:
    """`old`, which occurs once below src/openwork, becomes `new`.

    `earlier`: the same two for trees in which the code read otherwise.
    """

    name: str
    part: str
    old: str
    new: str
    earlier: tuple[str, str] | None = None

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The texts and what becomes of them; a tree has one."""
        return [(self.old, self.new), *([self.earlier] if self.earlier else [])]


MUTATIONS = (
    # -- merge lattices -------------------------------------------------------------------------
    Mutation(
        "lattice-largest-point",
        "lowering",
        "for size in range(len(optional) + 1):",
        "for size in range(max(1, len(optional))):",
        earlier=(
            "for size in range(len(sparse) + 1):",
            "for size in range(max(1, len(sparse))):",
        ),
    ),
    Mutation(
        "lattice-same-body",
        "lowering",
        "if below and any(p.body != rest for p in below):",
        "if not some:",
        earlier=("if not below or any(p.body != left for p in below):", "if not below:"),
    ),
    Mutation(
        "merge-third-operand",
        "lowering",
        "settled = any(point.present <= both for point in meet)",
        "settled = True",
    ),
    Mutation(
        "merge-first-of-two",
        "lowering",
        'less = compare("<", one.coordinate, other.coordinate)',
        'less = compare("<", other.coordinate, one.coordinate)',
    ),
    Mutation(
        "merge-exhaustive",
        "lowering",
        "(len(sets) == 2 ** len(walkers) - 1 and all(sets))",
        "all(sets)",
    ),
    Mutation(
        "merge-search-found",
        "lowering",
        'present = compare("<=", Value(0), found)',
        'present = compare("<", Value(0), found)',
    ),
    Mutation(
        "walk-window-end",
        "lowering",
        'last = Helper("lower_bound", (stored, self.position, end, hi))',
        'last = Helper("lower_bound", (stored, self.position, end, hi + 1))',
    ),
    # -- loops over split, fused and position variables -----------------------------------------
    Mutation(
        "split-runs",
        "lowering",
        "return (size + (n - 1)) / n",
        "return size / n",
        earlier=("return (size + (factor - 1)) / factor", "return size / factor"),
    ),
    Mutation(
        "split-end",
        "lowering",
        'return whole.part(lo, arithmetic("min", lo + length, whole.hi))',
        "return whole.part(lo, lo + length)",
        earlier=('hi = arithmetic("min", lo + length, whole.hi)', "hi = lo + length"),
    ),
    Mutation(
        "split-guard",
        "lowering",
        'return value, compare("<", value, whole.hi)',
        'return value, compare("<=", value, whole.hi)',
    ),
    Mutation(
        "fuse-number",
        "lowering",
        "return (a - first.lo) * second.size + (b - second.lo)",
        "return (a - first.lo) * first.size + (b - second.lo)",
    ),
    Mutation(
        "bound-unchecked",
        "lowering",
        'return compare("==", whole.size % value, ZERO), replace(whole, count=count)',
        'return compare("<=", ZERO, whole.size % value), replace(whole, count=count)',
        earlier=(
            'holds = compare("==", size % value, ZERO)',
            'holds = compare("<=", ZERO, size % value)',
        ),
    ),
    Mutation(
        "position-window-end",
        "lowering",
        'stored = If(compare("<", position, everything.hi)',
        'stored = If(compare("<=", position, everything.hi)',
    ),
    Mutation(
        "position-last-parent",
        "lowering",
        "levels[n - 1] = (names[0], names[1] + 1)",
        "levels[n - 1] = (names[0], names[1])",
    ),
    Mutation(
        "tile-rest",
        "lowering",
        'rest: Expr = compare("<=", first + width, columns.hi)',
        'rest: Expr = compare("<", first + width, columns.hi)',
    ),
    # -- sparse results and workspaces ----------------------------------------------------------
    Mutation(
        "piece-share",
        "lowering",
        'return begin + size / PIECES * n + arithmetic("min", n, size % PIECES)',
        "return begin + size / PIECES * n + n",
    ),
    Mutation(
        "piece-rows",
        "lowering",
        'hi = arithmetic("min", hi * relation.length, end)',
        "hi = hi * relation.length",
        earlier=('hi = arithmetic("min", hi * relation.factor, end)', "hi = hi * relation.factor"),
    ),
    Mutation(
        "piece-unvisited-rows",
        "lowering",
        'known = Set(last, arithmetic("max", last, Load(array, at + 1)))',
        "known = Set(last, Load(array, at + 1))",
    ),
    Mutation(
        "result-unvisited-rows",
        "lowering",
        'largest = arithmetic("max", Load(array, at), Load(array, at + 1))',
        "largest = Load(array, at + 1)",
    ),
    Mutation(
        "result-run-end",
        "lowering",
        "Store(self.array(level, f), parent + 1, self.count(level))",
        "Store(self.array(level, f), parent + 1, self.count(level) - 1)",
    ),
    Mutation(
        "workspace-forgets",
        "lowering",
        'For(at, Value(0), self.count, forget, "an empty workspace")',
        'For(at, Value(1), self.count, forget, "an empty workspace")',
    ),
    Mutation(
        "workspace-first-key",
        "lowering",
        'If(compare("==", slot, self.count), first, again)',
        'If(compare("<=", slot, self.count), first, again)',
    ),
    Mutation(
        "accumulator-starts-again",
        "lowering",
        "fresh = not keeps and not scope.reducing",
        "fresh = not keeps",
    ),
    # -- legality -------------------------------------------------------------------------------
    Mutation(
        "legal-race",
        "legality",
        "if tag.race is OutputRaceStrategy.NoRaces:",
        "if tag.race is OutputRaceStrategy.NoRaces and assign.op is None:",
    ),
    Mutation(
        "legal-order-of-terms",
        "legality",
        "if assign.op is not None and not assign.op.commutes:",
        "if assign.op is not None and assign.op.commutes is None:",
    ),
    Mutation(
        "legal-storage-order",
        "legality",
        "known.get(outer, 0) > known.get(inner, 0)",
        "known.get(outer, 0) > known.get(inner, 0) + 1",
    ),
    Mutation(
        "legal-append-order",
        "legality",
        "if outer and inner and max(outer) > min(inner):",
        "if outer and inner and min(outer) > max(inner):",
    ),
    Mutation(
        "legal-nested-threads",
        "legality",
        "if len(threads) > 1:",
        "if len(threads) > 2:",
    ),
    Mutation(
        "legal-gpu-nesting",
        "legality",
        "if mine < below or (mine == below == 0",
        "if mine <= below or (mine == below == 0",
    ),
    # -- simplifier and vectorizer --------------------------------------------------------------
    Mutation(
        "hoist-what-changes",
        "simplifier",
        "and changed.isdisjoint(names[load])",
        "and not names[load] <= changed",
    ),
    Mutation(
        "name-what-changes",
        "simplifier",
        "return name in self.fixed",
        "return True",
    ),
    Mutation(
        "prove-one-off",
        "simplifier",
        "- known[1] * less + times - 1",
        "- known[1] * less + times",
    ),
    Mutation(
        "fold-less",
        "simplifier",
        '"<": a.value.real < b.value.real,',
        '"<": a.value.real <= b.value.real,',
    ),
    Mutation(
        "lanes-unaligned",
        "vectorizer",
        "if step != 1 or _divisor(form) % whole:",
        "if step != 1:",
    ),
    Mutation(
        "wide-load-unaligned",
        "vectorizer",
        "return each > 1 and _divisor(base, known) % each == 0",
        "return each > 1",
    ),
    Mutation(
        "wide-load-of-what-is-written",
        "vectorizer",
        "or load.array in written:",
        "or load.array in ():",
    ),
    # -- the division into GPU kernels ----------------------------------------------------------
    Mutation(
        "gpu-barrier-between",
        "device",
        "if not alone and before.meets(now):",
        "if alone and before.meets(now):",
    ),
    Mutation(
        "gpu-barrier-around",
        "device",
        "return (self._barrier(active),) if all_of_it.meets(all_of_it) else ()",
        "return ()",
    ),
    Mutation(
        "gpu-barrier-of-workspaces",
        "device",
        "again = (inner.first | inner.many | inner.updated) & (memory - self._own(inside))",
        "again = inner.first & inner.many & inner.updated & (memory - self._own(inside))",
        earlier=(
            "again = (inner.first | inner.many) & memory",
            "again = inner.first & inner.many & memory",
        ),
    ),
    Mutation(
        "gpu-one-lane-stores",
        "device",
        'first.append(compare("==", LANE, 0))',
        'first.append(compare("<=", 0, LANE))',
    ),
    Mutation(
        "gpu-group-guard",
        "device",
        'Declare(inside, compare("<", own, loop.end), fixed=True)',
        'Declare(inside, compare("<=", own, loop.end), fixed=True)',
    ),
    Mutation(
        "gpu-group-clamp",
        "device",
        'Declare(loop.var, arithmetic("min", own, last), fixed=True)',
        "Declare(loop.var, own, fixed=True)",
    ),
    Mutation(
        "gpu-last-stores-once",
        "device",
        "or _lasts(body) is not True:",
        "or _lasts(body) is None:",
    ),
    Mutation(
        "gpu-last-stores-whole-warps",
        "device",
        "if group < 2 or group != _power(group) or lanes % group:",
        "if group < 2:",
    ),
    Mutation(
        "gpu-block-copies",
        "device",
        "count = (loop.end - loop.begin - part + (parts - 1)) / parts",
        "count = (loop.end - loop.begin - part) / parts",
    ),
    Mutation(
        "gpu-shared-out",
        "device",
        "runs = (s.end - s.begin + (n - 1)) / n",
        "runs = (s.end - s.begin) / n",
    ),
    Mutation(
        "gpu-segment-begin",
        "device",
        'arithmetic("max", begin, window.lo)',
        "begin",
    ),
    # -- rendering ------------------------------------------------------------------------------
    Mutation(
        "c-copies-combined",
        "rendering",
        '"for (int64_t other = 0; other < threads; other++) {",',
        '"for (int64_t other = 1; other < threads; other++) {",',
    ),
    Mutation(
        "c-chunk-end",
        "rendering",
        'limited = w.text(p.arithmetic("min", first + by.chunk, chunks_end))',
        "limited = w.text(first + by.chunk)",
    ),
    Mutation(
        "c-run-end",
        "rendering",
        "w.text(p.arithmetic('min', run + length, all_end))",
        "w.text(run + length)",
    ),
    Mutation(
        "c-atomic-lost",
        "rendering",
        'return ["#pragma omp atomic", f"{w.text(place)} {_ARITHMETIC[name]}= {value};"]',
        'return [f"{w.text(place)} {_ARITHMETIC[name]}= {value};"]',
    ),
    Mutation(
        "c-atomic-complex",
        "rendering",
        'sign = "+" if s.op is not None and s.op.name == "add" else "-"',
        'sign = "+"',
    ),
    Mutation(
        "cuda-segment-reach",
        "rendering",
        "if (by <= back) value = Op::of(other, value);",
        "if (by < back) value = Op::of(other, value);",
    ),
    Mutation(
        "cuda-segment-end",
        "rendering",
        "return index >= 0 && (lane == G - 1 || heads >> (at + 1) & 1);",
        "return index >= 0 && lane == G - 1;",
    ),
    Mutation(
        "cuda-one-writer",
        "rendering",
        "return index >= 0 && __ffs(known) - 1 == (int)(threadIdx.x & 31);",
        "return index >= 0;",
    ),
    Mutation(
        "cuda-of-block-barrier",
        "rendering",
        "if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;\n  __syncthreads();",
        "if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;",
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What became of one mutation."""

    mutation: Mutation
    caught_by: str  # empty: it survived
    seconds: float


class Unapplied(Exception):
    """The text of a mutation is not there exactly once."""


def main() -> int:
    """Run the mutations that the command line asks for."""
    options = _options()
    tree = options.tree.resolve()
    chosen = [m for m in MUTATIONS if not options.only or m.name in options.only]
    unknown = set(options.only) - {m.name for m in MUTATIONS}
    if unknown:
        print(f"no mutation is called {', '.join(sorted(unknown))}; --list names them")
        return 2
    try:
        places = {m: _find(tree, m) for m in chosen}
    except Unapplied as fault:
        print(fault)
        return 2
    if options.list:
        for m, (file, line, _) in places.items():
            print(f"{m.name:30} {m.part:12} {file.relative_to(tree)}:{line}")
        return 0
    with tempfile.TemporaryDirectory(prefix="openwork-mutations-") as folder:
        cache = options.cache or Path(folder) / "cache"
        cache.mkdir(mode=0o700, exist_ok=True)
        if options.control:
            options.deselect += _failing(tree, Path(folder), cache, options)
        survived = _run(chosen, tree, Path(folder), cache, options)
    return 1 if survived else 0


def _run(
    chosen: list[Mutation], tree: Path, folder: Path, cache: Path, options: argparse.Namespace
) -> list[Outcome]:
    """Those that survived; each is reported as soon as it is known."""
    rows = [f"{'mutation':30} {'part':12} {'seconds':>7}  caught by"]
    print(rows[0], flush=True)
    survived: list[Outcome] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(lambda m: _try(m, tree, folder, cache, options), chosen):
            m = outcome.mutation
            caught = outcome.caught_by or "SURVIVED"
            rows.append(f"{m.name:30} {m.part:12} {outcome.seconds:7.1f}  {caught}")
            print(rows[-1], flush=True)
            survived += [] if outcome.caught_by else [outcome]
    rows.append(f"{len(chosen) - len(survived)} of {len(chosen)} mutations are caught")
    print(rows[-1])
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return survived


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--list", action="store_true", help="name the mutations and their places")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument(
        "--tests", nargs="+", default=[], metavar="PATH", help="not the whole suite"
    )
    parser.add_argument("--jobs", type=int, default=1, help="mutations at a time")
    parser.add_argument("--workers", type=int, default=0, help="xdist's workers for each of them")
    parser.add_argument("--control", type=int, metavar="WORKERS", help="run without mutation first")
    parser.add_argument("--deselect", action="append", default=[], metavar="TEST")
    parser.add_argument("--golden", action="store_true", help="compare golden files as well")
    parser.add_argument("--out", type=Path, help="where the table goes, too")
    parser.add_argument("--tree", type=Path, default=REPO, help="another checkout to break")
    parser.add_argument("--cache", type=Path, help="a kernel cache to keep; else a new one")
    parser.add_argument("--memory", type=int, default=16, help="GiB that a process may ask for")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for each mutation")
    return parser.parse_args()


def _find(tree: Path, mutation: Mutation) -> tuple[Path, int, tuple[str, str]]:
    """The file and line of the one place that has the text of `mutation`, and its two texts."""
    found = [
        (file, text.count("\n", 0, at.start()) + 1, pair)
        for file in sorted((tree / "src" / "openwork").rglob("*"))
        if file.suffix in (".py", ".c", ".hpp")
        for text in (file.read_text(encoding="utf-8"),)
        for pair in mutation.pairs
        for at in re.finditer(re.escape(pair[0]), text)
    ]
    if len(found) != 1:
        where = ", ".join(f"{file.relative_to(tree)}:{n}" for file, n, _ in found) or "nowhere"
        raise Unapplied(f"{mutation.name}: its text has to occur once, and is at {where}")
    return found[0]


def _apply(copy: Path, mutation: Mutation) -> None:
    file, _, (old, new) = _find(copy, mutation)
    text = file.read_text(encoding="utf-8").replace(old, new)
    if file.suffix == ".py":
        ast.parse(text)
    file.write_text(text, encoding="utf-8")


@contextmanager
def _copied(tree: Path, folder: Path) -> Iterator[Path]:
    """A copy of what git knows of `tree`, or would add."""
    copy = Path(tempfile.mkdtemp(dir=folder))
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=tree, capture_output=True, check=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (tree / name).is_file() and not (tree / name).is_symlink():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / name, copy / name)
    try:
        yield copy
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _failing(tree: Path, folder: Path, cache: Path, options: argparse.Namespace) -> list[str]:
    """The tests that fail without any mutation."""
    with _copied(tree, folder) as copy:
        command, environment = _pytest(copy, tree, cache, options, options.control)
        output, _ = _output(command, copy, environment, options.timeout)
    failing = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", output, re.MULTILINE)
    print(f"without a mutation {len(failing)} tests fail: {', '.join(failing) or 'none'}")
    print((output.strip().splitlines() or ["it was stopped"])[-1], flush=True)
    return failing


def _try(
    mutation: Mutation, tree: Path, folder: Path, cache: Path, options: argparse.Namespace
) -> Outcome:
    """Apply a mutation to a copy of the tree, and run its tests until one fails."""
    with _copied(tree, folder) as copy:
        _apply(copy, mutation)
        command, environment = _pytest(copy, tree, cache, options, options.workers)
        start = time.monotonic()
        caught = _caught([*command, "-x"], copy, environment, options.timeout)
        return Outcome(mutation, caught, time.monotonic() - start)


def _pytest(
    copy: Path, tree: Path, cache: Path, options: argparse.Namespace, workers: int
) -> tuple[list[str], dict[str, str]]:
    """The command that tests a copy of `tree`, and its environment."""
    path = [str(copy / "src"), str(copy / "tools"), str(copy), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path).rstrip(os.pathsep),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENWORK_CACHE_DIR": str(cache),
        "OPENWORK_DATA": os.environ.get("OPENWORK_DATA", str(tree.parent / "shared" / "data")),
        "CI": "1",  # the same random cases each time
    }
    command = [sys.executable, "-m", "pytest", "-v", "--tb=no", "-rfE", "--no-header"]
    command += ["-p", "no:cacheprovider"]
    command += [] if options.golden else ["-m", "not golden"]
    command += ["-n", str(workers), "--dist", "worksteal"] if workers else []
    command += [part for test in options.deselect for part in ("--deselect", test)]
    command += options.tests or [name for name in FIRST if (copy / name).exists()]
    command += [] if options.tests else ["tests", "src"]
    # A loop without end may fill the memory of the machine: not more than this.
    limit = f'ulimit -v {options.memory << 20} && exec "$@"'
    return ["sh", "-c", limit, "sh", *command], environment


def _output(
    command: list[str], copy: Path, environment: dict[str, str], timeout: float
) -> tuple[str, int | None]:
    """What it prints, and its exit status; None if it does not end in time."""
    process = subprocess.Popen(
        command, cwd=copy, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        return process.communicate(timeout=timeout)[0], process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its own session: pytest and its workers
        return process.communicate()[0], None


def _caught(command: list[str], copy: Path, environment: dict[str, str], timeout: float) -> str:
    """The first test that fails, or does not end; empty if there is none."""
    output, status = _output(command, copy, environment, timeout)
    if status == 0:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", output, re.MULTILINE)
    if failed:
        return failed[1]
    last = re.findall(r"^(\S+::.*)$", output, re.MULTILINE)[-1:]
    running = last[0].partition(" Fatal Python")[0].strip() if last else "pytest"
    if status is None:
        return f"{running} (running after {timeout:.0f} s)"
    if status < 0:
        return f"{running} ({signal.Signals(-status).name})"
    raise SystemExit(f"pytest ended with {status}:\n{output[-2000:]}")


if __name__ == "__main__":
    sys.exit(main())
