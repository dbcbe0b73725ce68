"""The search: candidates are screened, then measured in turns until they differ by more than noise.

First one thing is changed at a time: the schedule, the format of an operand, the layout of its
records. Then the best formats and layouts are combined, and the best combinations get all
schedules. The half that is slower goes, and the others are measured more often. In the end the
fastest are measured in turns with the default, which wins unless another is clearly faster.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from itertools import chain, islice, product
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from openwork.algebra.entries import Entry
from openwork.errors import OpenworkError, ScheduleError
from openwork.format.formats import Format, parse_format
from openwork.format.layouts import AOS
from openwork.index.nodes import TensorVar
from openwork.runtime import tuning_file
from openwork.runtime.host.threads import available_cpus
from openwork.runtime.tuning_file import TuningRecord
from openwork.tensor.create import empty
from openwork.tensor.kernel.kernel import Kernel
from openwork.tensor.kernel.promises import ignores_races
from openwork.tensor.kernel.target import Target
from openwork.tensor.kernel.targets import find_target
from openwork.tensor.learnt import Signature, said_of
from openwork.tensor.measure import statistics_of
from openwork.tensor.operand import Operand
from openwork.tensor.statement import Statement
from openwork.tensor.tensor import Tensor
from openwork.tree import walk
from openwork.tune.best import Best
from openwork.tune.candidate import COPY, Candidate, operands_of
from openwork.tune.clock import Clock, clock_for
from openwork.tune.formats import askew, choices, layouts, plain_bytes, text_of
from openwork.tune.rank import Ranking
from openwork.tune.settings import DIMENSIONS, Settings, dimensions
from openwork.tune.space import Dimension, buckets, schedules
from openwork.tune.trial import Trial, agree

# Parts of the budget by the end of: one change at a time, combinations, their schedules.
_SCREENED, _COMBINED, _JOINED, _RACED = 0.45, 0.6, 0.75, 0.88
_ENUMERATED = 0.15  # for writing down the schedules of a statement
_ENDLESS = 1e9  # seconds, as records write a budget without a limit
_HOPELESS = 3.0  # times the best, at first sight
_FORMATS = 3  # combinations whose schedules are all tried
_OPTIONS = 2  # formats and layouts of an operand that are combined with others
_WRONG = "a wrong result: please report it"
_MEANT = "another result: it stores absent entries as zeros"
_FINALISTS, _PAIRS = 3, 24  # candidates that are compared with the default, and how often
_FIRST, _LAST = 3, 24  # samples of a candidate before the first cut, and of the last ones


def search(
    stmt: Statement,
    budget: float = 10.0,
    over: Sequence[str] = DIMENSIONS,
    target: str = "cpu",
    *,
    uses: float = 1000,
    seed: int = 0,
    memory: float = 1.5,
    exhaustive: bool = False,
    cold: bool = False,
    again: bool = False,
    more: Iterable[Dimension] | Dimension = (),
    progress: bool | None = None,
) -> Best:
    """Find the fastest schedule and formats for a statement, by measuring.

    The default is always among the candidates, and what is returned is not slower than it, beyond
    noise. Results are compared with the default's. What was found is kept: for the same tensors it
    costs nothing the next time, and searches for similar ones start with it. Ctrl-C ends the search
    with the best found so far.

    Args:
        stmt: what to compute, over tensors with data.
        budget: seconds for compiling, converting and measuring.
        over: what may change: `"schedule"`, `"format"`, `"layout"`.
        target: as for `compile`.
        uses: how often the kernel will run with these operands: conversions count by that part.
        seed: of the order in which candidates are measured.
        memory: the most that a format may take, as a multiple of compressed rows.
        exhaustive: every schedule with every format, instead of with the best formats.
        cold: measure with caches that hold something else.
        again: measure even if the result is known.
        more: further schedules: functions from a statement to statements, or texts. No record
            answers such a search, for a function may have changed.
        progress: show a line with the best so far; by default on a terminal.

    Raises:
        ScheduleError: E303 for an argument that is not possible.
        ShapeError: E203 for operands without data.

    Example:
        >>> import numpy as np, openwork as ow
        >>> A, x = ow.tensor(np.eye(300), format="CSR", name="A"), ow.tensor(np.ones(300), name="x")
        >>> stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(300), A=A, x=x)
        >>> best = ow.tune.search(stmt, budget=0.5)
        >>> bool((best.kernel().to_numpy() == 1).all()) and best.speedup >= 1
        True
    """
    _check_statement(stmt)
    settings = Settings(
        budget, over, target, uses, seed, memory, exhaustive, cold, dimensions(more), progress
    )
    made = Search.of(stmt, settings)
    known = None if again or settings.more else made.recalled()
    return made.run() if known is None else known


def _check_statement(stmt: object) -> None:
    if not isinstance(stmt, Statement):
        raise ScheduleError(
            f"{type(stmt).__name__} is no statement, which a search is for",
            code="E303",
            hint="ow.tune.search(ow.parse(text, A=A, x=x))",
        )


@dataclass
class Search:
    """One search and all it knows."""

    stmt: Statement
    settings: Settings
    target: Target
    clock: Clock
    rng: random.Random
    budget: float
    deadline: float
    begun: float = field(default_factory=perf_counter)
    own: Candidate | None = None  # the schedule that the statement came with
    trials: list[Trial] = field(default_factory=list)
    converted: dict[tuple[str, str], tuple[Operand, float]] = field(default_factory=dict)
    planned: dict[Candidate, Statement] = field(default_factory=dict)
    want: Any = None

    @classmethod
    def of(cls, stmt: Statement, settings: Settings) -> Search:
        """A search that is ready to run.

        Raises:
            ShapeError: E203 for operands without data.
            ScheduleError: E405 for operands that are no tensors.
        """
        chosen, plain = find_target(settings.target), Statement(stmt.assignment)
        for name, operand in operands_of(plain).items():
            operand.storage  # noqa: B018 (raises if there is no data)
            if not isinstance(operand, Tensor):
                raise ScheduleError(
                    f"{name} is not a tensor", code="E405", hint="wrap it: ow.tensor(...)"
                )
        return cls(
            plain,
            settings,
            chosen,
            clock_for(chosen, settings.cold),
            random.Random(settings.seed),  # noqa: S311 (an order, no secret)
            min(settings.budget, _ENDLESS),
            perf_counter() + settings.budget,
            own=Candidate(stmt.commands, (), "yours") if stmt.commands else None,
        )

    @property
    def uses(self) -> float:
        """How many calls share the conversions."""
        return self.settings.uses

    @cached_property
    def ranking(self) -> Ranking:
        """The cost model of this statement."""
        return Ranking(self.stmt, self.target, self.uses, self.budget)

    # -- what is known ----------------------------------------------------------------------------

    def signature(self) -> Signature:
        """The statement as records know it."""
        return Signature.of(self.stmt.assignment, statistics_of(self.stmt.assignment))

    def recalled(self) -> Best | None:
        """The outcome of an earlier search for the same operands, which had no less time."""
        signature = self.signature()
        for far, record in signature.nearest(self.target.machine):
            if far > 0:
                return None
            if record.asked != self.settings.asked or record.budget < self.budget:
                continue
            trial = Trial(_candidate(signature, record))
            if not self.allows(trial.candidate):
                continue
            self.prepare(trial)
            if trial.kernel is None or trial.statement is None:
                return None
            if isinstance(trial.statement, Statement) and ignores_races(trial.statement._base):
                return None  # a promise, perhaps of strangers: its result is compared again
            said = said_of(record, far)
            if isinstance(trial.kernel, Kernel):
                trial.kernel._trace.decide(said)
            else:
                trial.kernel._buckets = replace(trial.kernel._buckets, decision=said)
            trial.samples.append(record.seconds)
            speedup = record.default / record.seconds
            return self.best(trial, speedup, f"a record of {record.day}")
        return None

    def neighbours(self) -> list[Candidate]:
        """The best candidates of similar operands, of those that this search may choose."""
        signature = self.signature()
        near = (_candidate(signature, r) for _, r in signature.nearest(self.target.machine))
        return list(islice(filter(self.allows, near), 3))

    def allows(self, candidate: Candidate) -> bool:
        """Whether a candidate of a record, perhaps a stranger's, changes only what may change."""
        over, own = self.settings.over, dict(self.changeable())
        if candidate.schedule and "schedule" not in over and candidate != self.own:
            return False
        try:
            apart = candidate.buckets is not None and candidate.converts
        except ScheduleError:
            return False
        if apart and "format" not in over:
            return False
        for name, text in candidate.formats:
            try:
                levels, layout = (None, AOS) if text == COPY else _parsed(text)
            except OpenworkError:
                return False
            if name not in own or (text == COPY and "layout" not in over):
                return False
            format = own[name].format
            if levels is not None and levels != format.with_layout(AOS) and "format" not in over:
                return False
            if text != COPY and layout != format.layout and "layout" not in over:
                return False
        return True

    # -- the search -------------------------------------------------------------------------------

    def run(self) -> Best:
        """All stages; returns the best, and keeps it."""
        exhaustive = self.settings.exhaustive
        default = Trial(Candidate(), estimate=self.ranking.default)
        self.trials.append(default)
        self.prepare(default)
        if default.kernel is None:
            raise ScheduleError(f"the default cannot run: {default.dropped}", code="E303")
        self.want = default.kernel().to_numpy()
        self.sample(default, _FIRST)
        try:
            self.screen(
                [*([self.own] if self.own else []), *self.neighbours()], _SCREENED, ranked=False
            )
            self.screen(self.alone(), _SCREENED)
            self.screen(self.combined(), _COMBINED)
            if "schedule" in self.settings.over:
                self.screen(self.joint(), _RACED if exhaustive else _JOINED)
            self.race()
            self.compare(self.checked(self.finalists()))
        except KeyboardInterrupt:
            self.budget = min(self.budget, perf_counter() - self.begun)
            self.say("stopped; the best so far is returned")
        finally:
            self.say("")
        best = self.fastest([t for t in self.trials if t.samples and t.kernel is not None])
        self.keep(best, default)
        return self.best(best, self.gain(best), "measured")

    def fastest(self, trials: Sequence[Trial]) -> Trial:
        """The fastest of those that are clearly faster than the default; else the default."""
        default = self.trials[0]
        compared = [t for t in trials if t.compared]
        if compared:
            sure = [t for t in compared if t.is_faster(default, self.uses)]
            return max(sure, key=lambda t: t.gain(self.uses), default=default)
        best = min(trials, key=lambda t: t.cost(self.uses), default=default)
        return best if best.beats(default, self.uses) else default

    def gain(self, trial: Trial) -> float:
        """The default's time over a trial's cost."""
        if trial is self.trials[0]:
            return 1.0
        if trial.compared:
            return trial.gain(self.uses)
        return self.trials[0].cost(self.uses) / trial.cost(self.uses)

    def alone(self) -> list[Candidate]:
        """One change at a time: formats and layouts with the default schedule, and schedules."""
        found = self.formats() if "format" in self.settings.over else []
        if "layout" in self.settings.over:
            for name, tensor in self.changeable():
                found += [
                    Candidate("", ((name, text_of(tensor.format, layout)),), "layout")
                    for layout in layouts(tensor)
                ]
            operands = [] if self.target.gpu else self.tensors()
            found += [
                Candidate("", ((name, COPY),), "layout") for name, each in operands if askew(each)
            ]
        if "schedule" in self.settings.over:
            found += self.schedules(self.stmt, ())
            known = statistics_of(self.stmt.assignment)
            texts = buckets(self.stmt, known, "format" in self.settings.over)
            found += [Candidate(text, (), "buckets") for text in texts]
        return found

    def combined(self) -> Iterator[Candidate]:
        """The formats and layouts that did best, for all operands together; or all of them."""
        choices = []
        for name, tensor in self.changeable():
            alone = [t for t in self.trials if t.samples and not t.candidate.schedule]
            mine = [t for t in alone if [n for n, _ in t.candidate.formats] == [name]]
            mine.sort(key=lambda t: t.cost(self.uses))
            own = [(tensor.format.with_layout(AOS), tensor.format.layout)]
            texts = [t.candidate.formats[0][1] for t in mine]
            found = [*own, *(_parsed(text) for text in texts if text != COPY)]
            formats, kinds = (list(dict.fromkeys(each)) for each in zip(*found, strict=True))
            if not self.settings.exhaustive:
                formats, kinds = formats[: 1 + _OPTIONS], kinds[: 1 + _OPTIONS]
            made = [text_of(format, kind) for format, kind in product(formats, kinds)]
            choices.append([(name, text) for text in (*made, *({COPY} & set(texts)))])
        unchanged = {(name, text_of(tensor.format)) for name, tensor in self.changeable()}
        for chosen in product(*choices):
            yield Candidate("", tuple(c for c in chosen if c not in unchanged), "combination")

    def joint(self) -> Iterable[Candidate]:
        """The schedules of the combinations that did best, or of all."""
        formats = [t for t in self.trials if t.candidate.formats and not t.candidate.schedule]
        sound = [t for t in formats if t.samples and t.statement is not None]
        sound.sort(key=lambda t: t.cost(self.uses))
        for trial in sound if self.settings.exhaustive else sound[:_FORMATS]:
            if trial.statement is not None:
                yield from self.schedules(trial.statement, trial.candidate.formats)

    def tensors(self) -> list[tuple[str, Tensor]]:
        """The operands, by name."""
        pairs = operands_of(self.stmt).items()
        return [(name, operand) for name, operand in pairs if isinstance(operand, Tensor)]

    def changeable(self) -> list[tuple[str, Tensor]]:
        """The operands, and a result of records: what may have another layout."""
        lhs, op = self.stmt.assignment.lhs.tensor, self.stmt.assignment.op
        fits = isinstance(lhs.source, Tensor) and isinstance(lhs.dtype, Entry) and op is None
        return [*self.tensors(), *([(lhs.name, lhs.source)] if fits else [])]

    def schedules(self, stmt: Statement, formats: tuple[tuple[str, str], ...]) -> list[Candidate]:
        """The schedules of a statement, in an order that does not favour one recipe."""
        share = 1.0 if self.settings.exhaustive else _ENUMERATED
        gpu, until = self.target.gpu, perf_counter() + share * self.budget
        found: list[Candidate] = []
        usual = stmt.default_schedule(self.target.name)
        for made, name in chain(self.of_ones_own(stmt, formats), schedules(stmt, gpu)):
            if found and perf_counter() > until:
                break
            if made.commands == usual:
                continue
            candidate = Candidate(made.commands, formats, name)
            self.planned[candidate] = made
            found.append(candidate)
        self.rng.shuffle(found)
        return found

    def of_ones_own(
        self, stmt: Statement, formats: tuple[tuple[str, str], ...]
    ) -> Iterator[tuple[Statement, str]]:
        """The user's schedules; the table says why one does not apply."""
        for dimension in self.settings.more:
            name = getattr(dimension, "__name__", "more")
            given = dimension(stmt)
            for each in (given,) if isinstance(given, str | Statement) else given:
                if not isinstance(each, str | Statement):
                    raise ScheduleError(
                        f"{name} gave {each!r}, neither a statement nor a text", code="E303"
                    )
                try:
                    yield (stmt.schedule(each) if isinstance(each, str) else each), name
                except ScheduleError as error:
                    text = each if isinstance(each, str) else each.commands
                    made = Candidate(text, formats, name)
                    self.trials.append(Trial(made, dropped=error.message))

    def formats(self) -> list[Candidate]:
        """The formats of sparse operands that take little enough memory."""
        found = []
        for name, operand in self.tensors():
            if operand.format.is_dense or operand.ndim < 2:
                continue
            most = self.settings.memory * plain_bytes(operand)
            for choice in choices(operand):
                if choice.format == operand.format.with_layout(AOS):
                    continue
                made = Candidate("", ((name, choice.text),), "format", choice.bytes)
                if choice.bytes > most:
                    times = choice.bytes / plain_bytes(operand)
                    why = f"{times:.1f} times the memory of compressed rows"
                    self.trials.append(Trial(made, dropped=why))
                else:
                    found.append(made)
        return found

    def screen(self, candidates: Iterable[Candidate], part: float, ranked: bool = True) -> None:
        """Compile candidates, compare their results, and measure each for the first time.

        `ranked`: in the order of the cost model.
        """
        limit = self.deadline - (1 - part) * self.budget
        seen = {trial.candidate for trial in self.trials}
        new = [c for c in dict.fromkeys(candidates) if c not in seen]
        known = {key: operand for key, (operand, _) in self.converted.items()}
        trials = self.ranking.trials(new, known, self.planned) if ranked else list(map(Trial, new))
        self.trials += [trial for trial in trials if trial.dropped]
        waiting = [trial for trial in trials if not trial.dropped]
        most, each = max(1, available_cpus()), 0.0  # each: seconds that a candidate takes
        with ThreadPoolExecutor(most) as pool:
            while waiting and (left := limit - (begun := perf_counter())) > 0:
                batch = int(min(most, max(1, left / each))) if each else min(most, _FIRST)
                some, waiting = waiting[:batch], waiting[batch:]
                self.trials += some
                list(pool.map(self.prepare, some))  # compiled together, measured one by one
                for trial in some:
                    if trial.kernel is not None:
                        self.sample(trial, 1)
                        self.judge(trial)
                each = (perf_counter() - begun) / len(some)
                self.progress()
        for trial in waiting:
            trial.dropped = "no time left to try it"
        self.trials += waiting

    def judge(self, trial: Trial) -> None:
        """Drop a candidate that is far behind: one for operands as they are, behind such others."""
        known = [t for t in self.trials if t.samples]
        if not trial.candidate.converts:
            known = [t for t in known if not t.candidate.converts]
        least = min(t.cost(self.uses) for t in known)
        if trial.cost(self.uses) > _HOPELESS * least:
            trial.dropped = f"{trial.cost(self.uses) / least:.1f} times the best at first sight"
            trial.release()
        else:
            self.sample(trial, _FIRST - 1)

    def race(self) -> None:
        """Measure those that are left in turns; after each round the slower half goes.

        The best for operands as they are stays: compilations take it from the record.
        """
        default, count = self.trials[0], 2 * _FIRST
        limit = self.deadline - (1 - _RACED) * self.budget
        while True:
            alive = [t for t in self.trials if t.kernel is not None and t is not default]
            for _ in range(count):
                turn = [default, *alive]
                self.rng.shuffle(turn)
                for trial in turn:
                    if perf_counter() > limit:
                        return
                    self.sample(trial, 1)
                self.progress()
            alive.sort(key=lambda t: t.cost(self.uses))
            if len(alive) <= 1 or len(alive[0].samples) >= _LAST:
                return
            kept = max(1, len(alive) // 2)
            stored = next((t for t in alive if not t.candidate.converts), None)
            for trial in [each for each in alive[kept:] if each is not stored]:
                if alive[0].beats(trial, self.uses) or len(alive) > 4:
                    trial.dropped = f"slower after {len(trial.samples)} measurements"
                    trial.release()

    def finalists(self) -> list[Trial]:
        """The fastest so far; among them one for operands as they are, which compilations take."""
        alive = [t for t in self.trials[1:] if t.samples and t.kernel is not None]
        alive.sort(key=lambda t: t.cost(self.uses))
        found, stored = alive[:_FINALISTS], [t for t in alive if not t.candidate.converts]
        return list(dict.fromkeys((*found, *stored[:1])))

    def checked(self, trials: list[Trial]) -> list[Trial]:
        """The trials whose results are still right: repeated calls may race, or do otherwise."""
        for trial in trials:
            if not agree(trial.kernel().to_numpy(), self.want):
                trial.dropped = _WRONG
                trial.release()
        return [trial for trial in trials if trial.kernel is not None]

    def compare(self, finalists: list[Trial]) -> None:
        """Measure some in turns with the default, anew: the fastest so far had luck, too."""
        for _ in range(_PAIRS):
            for trial in finalists:
                if perf_counter() > self.deadline:
                    return
                self.pair(trial)
            self.progress()

    def pair(self, trial: Trial) -> None:
        """Measure the default and a trial, one right after the other; each is first in turn."""
        turn = [self.trials[0], trial]
        for each in turn if len(trial.pairs) % 2 else reversed(turn):
            self.sample(each, 1)
        trial.pairs.append((turn[0].samples[-1], trial.samples[-1]))

    # -- one trial --------------------------------------------------------------------------------

    def prepare(self, trial: Trial) -> None:
        """Convert, compile and call once; a candidate that cannot be run is dropped."""
        try:
            operands = {}
            for name, text in trial.candidate.formats:
                operands[name], seconds = self.operand(name, text)
                trial.conversion += seconds
            trial.statement = trial.candidate.applied(self.stmt, operands)
            kernel = trial.statement.compile(self.target.name)
            made = kernel()
            if self.want is not None and not agree(got := made.to_numpy(), self.want):
                meant = self.stores_absent(operands) and self.zeros_matter(operands, got)
                trial.dropped = _MEANT if meant else _WRONG
                return
            trial.kernel = kernel
        except OpenworkError as error:
            trial.dropped = error.message
        except MemoryError:
            trial.dropped = "not enough memory"

    def stores_absent(self, operands: Mapping[str, Operand]) -> bool:
        """Whether converted operands store entries that are absent, as blocks and diagonals do."""
        own = operands_of(self.stmt)
        known = ((o, own[name]) for name, o in operands.items() if name in own)
        return any(made.storage.nnz > plain.storage.nnz for made, plain in known)

    def zeros_matter(self, operands: Mapping[str, Operand], got: Any) -> bool:
        """Whether a stored 0 differs from none: in other semirings, and where it meets NaN."""
        known = (v for v in walk(self.stmt.assignment.rhs) if isinstance(v, TensorVar))
        other = any(v.name in operands and v.fill != operands[v.name].fill for v in known)
        return other or not all(map(_is_finite, (got, self.want)))

    def operand(self, name: str, text: str) -> tuple[Operand, float]:
        """A converted operand, and the seconds that it took; each is converted once."""
        known = self.converted.get((name, text))
        if known is None:
            if name == self.stmt.assignment.lhs.tensor.name:
                return self.blank(text), 0.0
            tensor = operands_of(self.stmt)[name]
            if not isinstance(tensor, Tensor):
                raise ScheduleError(f"{name} is not a tensor", code="E405")
            made, first = _converted(tensor, text)
            left = self.deadline - perf_counter()
            if first < left / 4:  # it may have been compiled on the way
                made, again = _converted(tensor, text)
                first = min(first, again)
            known = self.converted[name, text] = (made, first)
        return known

    def blank(self, text: str) -> Tensor:
        """The result in another layout, without data."""
        lhs = self.stmt.assignment.lhs.tensor
        return empty(lhs.shape, dtype=lhs.dtype, format=text, name=lhs.name)

    def sample(self, trial: Trial, count: int) -> None:
        """Measure a trial so many times."""
        kernel = trial.kernel
        if kernel is None:
            return
        if not trial.samples:
            trial.found = perf_counter() - self.begun
            self.clock.sample(kernel, 0)  # the second call prepares what repeated ones use
        for _ in range(count):
            about = min(trial.samples, default=0.0)
            trial.samples.append(self.clock.sample(kernel, about))

    # -- the outcome ------------------------------------------------------------------------------

    def best(self, trial: Trial, speedup: float, source: str) -> Best:
        """The outcome, over the converted operands."""
        if trial.kernel is None or trial.statement is None:
            raise ScheduleError("no candidate could be run", code="E303")
        formats = dict(trial.candidate.formats)
        trials = self.trials or [trial]
        text = trial.candidate.text
        made = trial.kernel, trial.statement, formats, speedup, text, trials, self.uses, source
        return Best(*made, bandwidth=self.ranking.rates.bytes)

    def keep(self, best: Trial, default: Trial) -> None:
        """Record the outcome for searches, and the best schedule alone for compilations."""
        signature = self.signature()
        measured = [t for t in self.trials[1:] if len(t.samples) >= _FIRST and t.kernel is not None]
        alone = self.fastest([t for t in measured if not t.candidate.converts])
        tried = any(trial.samples for trial in self.trials[1:])
        tuning_file.append(
            TuningRecord(
                statement=signature.text,
                device=self.target.machine,
                features=dict(signature.features),
                formats={signature.canonical(n): text for n, text in trial.candidate.formats},
                schedule=signature.canonical(trial.candidate.schedule),
                seconds=default.seconds / trial.gain(inf) if trial.compared else trial.seconds,
                default=default.seconds,
                day=date.today().isoformat(),
                asked=self.settings.asked,
                budget=self.budget if tried else 0.0,
            )
            for trial in dict.fromkeys((alone, best))
        )

    def progress(self) -> None:
        """Say how far it is."""
        known = [t for t in self.trials if t.samples]
        if not known:
            return
        default = self.trials[0].cost(self.uses)
        gain = default / min(t.cost(self.uses) for t in known)
        left = max(0.0, self.deadline - perf_counter())
        self.say(f"tuning: {len(known)} tried, best {gain:.2f}x of the default, {left:.0f} s left")

    def say(self, line: str) -> None:
        """Replace the line of progress."""
        shows = self.settings.progress
        if sys.stderr.isatty() if shows is None else shows:
            sys.stderr.write(f"\r{line:<{min(100, _columns())}}\r" if not line else f"\r{line}")
            sys.stderr.flush()


def _is_finite(values: Any) -> bool:
    """Whether there is neither NaN nor infinity."""
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())


def _parsed(text: str) -> tuple[Format, str]:
    """The levels and the layout of a format's text."""
    format = parse_format(text)
    return format.with_layout(AOS), format.layout


def _converted(tensor: Tensor, text: str) -> tuple[Tensor, float]:
    """A tensor in another format, on the same device, and the seconds that it takes."""
    start = perf_counter()
    made = tensor.copy() if text == COPY else tensor.to(text)
    if tensor.device == "cuda" and made.device != "cuda":
        made = made.to("cuda")
    return made, perf_counter() - start


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns - 1
    except (OSError, ValueError):
        return 79


def _candidate(signature: Signature, record: TuningRecord) -> Candidate:
    """What a record found, in the names of a statement."""
    formats = tuple((signature.tensor(name), text) for name, text in record.formats.items())
    return Candidate(signature.own(record.schedule), formats, "record")
