"""Rewrites of programs of patterns, searched by measuring.

Strategies come first: sequences of rewrites with sizes, in an order by chance. Then every single
rewrite of the best programs is tried. The fastest are measured in turns with the default, which
wins unless another is clearly faster.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from openwork.errors import OpenworkError, PatternError, ScheduleError
from openwork.frozen import frozen
from openwork.skeletons.program import Program, Rewrite
from openwork.skeletons.run.kernel import Bound
from openwork.skeletons.strategies import STRATEGIES
from openwork.tensor.kernel.targets import find_target
from openwork.tune.clock import Clock, clock_for
from openwork.tune.trial import FEWEST, agree, clearly_faster

_STRATEGIES, _REWRITES = 0.6, 0.8  # parts of the budget by the end of these
_FINAL = 4  # programs that are measured in turns with the default
_FIRST, _MOST = 3, 40  # samples of a program at first sight, and the most in the end
_SIZES = (4, 16, 64)  # of pieces, for single rewrites


@dataclass(eq=False)
class ProgramTrial:
    """A program that was tried: how it came about, and seconds of its calls, or why it is out."""

    name: str
    program: Program
    bound: Bound | None = None
    samples: list[float] = field(default_factory=list)
    dropped: str = ""

    @property
    def seconds(self) -> float:
        """The median of its samples; infinite without any."""
        return float(np.median(self.samples)) if self.samples else float("inf")

    def is_faster(self, default: ProgramTrial, pairs: int) -> bool:
        """Whether it is clearly faster, by the last measurements, which were taken in turns."""
        turns = zip(default.samples[-pairs:], self.samples[-pairs:], strict=True)
        ratios = [theirs / own for theirs, own in turns]
        return clearly_faster(ratios, default.samples, self.samples)


@frozen
class BestProgram:
    """The best program of a search.

    Args:
        program: the program, whose `steps` lead to it.
        kernel: it with the data of the search, ready to be called.
        speedup: the default's time over its time.
        trials: all that were tried, the default first.
    """

    program: Program
    kernel: Bound
    speedup: float
    trials: list[ProgramTrial]

    @property
    def steps(self) -> tuple[Rewrite, ...]:
        """The rewrites that lead to the program."""
        return self.program.steps

    def table(self) -> str:
        """Every program with its milliseconds, or why it was dropped, the fastest first."""
        lines = []
        for trial in sorted(self.trials, key=lambda t: t.seconds):
            time = f"{1e3 * trial.seconds:.4f} ms" if trial.samples else "-"
            lines.append(f"{time:>14}  {trial.name}{f'  ({trial.dropped})' * bool(trial.dropped)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        steps = ", ".join(f"{s.rule} {s.size or ''}".strip() for s in self.steps)
        told = steps or "the program as it is"
        return (
            f"<BestProgram: {self.speedup:.2f}x of the default, {len(self.trials)} tried: {told}>"
        )


def search_program(
    program: Program,
    data: Mapping[str, Any],
    budget: float = 10.0,
    target: str = "cpu",
    *,
    seed: int = 0,
) -> BestProgram:
    """Find the fastest way to write a program of patterns for some data, by measuring.

    Rewrites keep the type and the meaning of a program; results are compared with the default's
    all the same. On a GPU they choose units, ROWS_PER_WORKGROUP, NUM_SPLITS and local sizes.

    Args:
        program: a program without units, of which rewrites are tried.
        data: its arguments.
        budget: seconds for rewriting, compiling and measuring.
        target: as for `compile`.
        seed: of the order in which programs are tried.

    Raises:
        PatternError: E706 if this is no program of patterns.
        ScheduleError: E303 for a budget that is none.

    Example:
        >>> import numpy as np
        >>> from openwork import skeletons as sk
        >>> sums = sk.parse("nFun n. nFun m. fun A: [[double]_m]_n. A :>> map(reduce(+, 0))")
        >>> best = search_program(sums, {"A": np.ones((300, 40))}, budget=1.0)
        >>> bool((best.kernel() == 40).all()), best.speedup >= 1
        (True, True)
    """
    if not isinstance(program, Program):
        raise PatternError(f"{program!r} is no program of patterns", code="E706")
    if not budget > 0:
        raise ScheduleError(f"budget={budget!r} is too small", code="E303")
    clock = clock_for(find_target(target), cold=False)
    rng = random.Random(seed)  # noqa: S311 (an order, no secret)
    return _Search(program, data, target, clock, rng).run(budget)


class _Search:
    def __init__(
        self, program: Program, data: Mapping[str, Any], target: str, clock: Clock,
        rng: random.Random,
    ) -> None:  # fmt: skip
        self.program, self.data, self.target = program, data, target
        self.clock, self.rng = clock, rng
        self.trials: list[ProgramTrial] = []
        self.seen: set[str] = {program.text}

    def run(self, budget: float) -> BestProgram:
        begun = perf_counter()

        def late(part: float) -> bool:
            return perf_counter() - begun > part * budget

        default = ProgramTrial("the program as it is", self.program)
        self.trials.append(default)
        default.bound = self._bound(self.program)
        self.want = default.bound()
        self._sample(default, _FIRST)
        for made in self._strategies():
            self._try(*made)
            if late(_STRATEGIES):
                break
        for trial in self._fastest()[:2]:
            for name, step in self._single(trial):
                self._try(name, step)
                if late(_REWRITES):
                    break
        final = [default, *(t for t in self._fastest() if t is not default)][: _FINAL + 1]
        turns = 0
        while turns < FEWEST or (not late(1.0) and turns < _MOST):
            for trial in final:
                self._sample(trial, 1)
            turns += 1
        sure = [t for t in final if t is not default and t.is_faster(default, turns)]
        best = min(sure, key=lambda t: t.seconds, default=default)
        assert best.bound is not None  # noqa: S101 - it was measured
        speedup = default.seconds / best.seconds
        return BestProgram(best.program, best.bound, speedup, self.trials)

    def _strategies(self) -> Iterator[tuple[str, Callable[[], Program]]]:
        gpu = self.target != "cpu"
        found = [(s, sizes) for s in STRATEGIES if s.gpu == gpu for sizes in s.settings()]
        self.rng.shuffle(found)
        impossible = set[str]()
        for strategy, sizes in found:
            if strategy.name in impossible:
                continue

            def made() -> Program:
                try:
                    return strategy.applied(self.program, sizes)  # noqa: B023 - called at once
                except PatternError:
                    impossible.add(strategy.name)  # noqa: B023
                    raise

            told = ", ".join(f"{name}={value}" for name, value in sizes.items())
            yield f"{strategy.name} ({told})" if told else strategy.name, made

    def _single(self, trial: ProgramTrial) -> Iterator[tuple[str, Callable[[], Program]]]:
        steps = [step for size in _SIZES for step in trial.program.rewrites(size)]
        self.rng.shuffle(steps)
        for step in steps:
            yield f"{trial.name}; {step.rule} {step.size or ''}".strip(), partial(_same, step)

    def _try(self, name: str, make: Callable[[], Program]) -> None:
        trial = ProgramTrial(name, self.program)
        try:
            trial.program = make()
            if trial.program.text in self.seen:
                return
            self.seen.add(trial.program.text)
            trial.bound = self._bound(trial.program)
            if not _equal(trial.bound(), self.want):
                trial.dropped = "another result"
            else:
                self._sample(trial, _FIRST)
        except OpenworkError as error:
            trial.dropped = error.code
        self.trials.append(trial)

    def _fastest(self) -> list[ProgramTrial]:
        return sorted((t for t in self.trials if t.samples), key=lambda t: t.seconds)

    def _bound(self, program: Program) -> Bound:
        return program.compile(self.target).bind(**self.data)

    def _sample(self, trial: ProgramTrial, count: int) -> None:
        bound = trial.bound
        assert bound is not None  # noqa: S101 - whoever is measured is bound
        about = trial.seconds if trial.samples else 0.0
        if not trial.samples:
            bound.launch()
        for _ in range(count):
            trial.samples.append(self.clock.sample(bound.launch, about))


def _same(step: Rewrite) -> Program:
    return step.program


def _equal(got: Any, want: Any) -> bool:
    """Whether two results are equal up to the order of sums: arrays, pairs and records."""
    if isinstance(want, tuple):
        return all(_equal(a, b) for a, b in zip(got, want, strict=True))
    if np.asarray(want).dtype.names:
        return all(_equal(got[name], want[name]) for name in ("first", "second"))
    return agree(got, want)
