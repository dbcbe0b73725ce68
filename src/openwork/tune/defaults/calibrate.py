"""A table for a GPU that nobody has measured: a short sweep over generated matrices, and a fit.

`python -m openwork calibrate --target cuda` asks for it; nothing else does. The default chooser is
a function of numbers and a table, so what it may choose under wrong tables says what to measure.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np

from openwork.errors import OpenworkError, ScheduleError
from openwork.frozen import frozen
from openwork.loops.schedule.machines import Gpu
from openwork.recipes.products import Pick
from openwork.runtime.host.threads import available_cpus
from openwork.tensor.create import placeholder, tensor
from openwork.tensor.kernel.machine import keep_gpu
from openwork.tensor.kernel.target import Target
from openwork.tensor.kernel.targets import find_target
from openwork.tensor.measure import statistics_of
from openwork.tensor.statement import Statement, parse
from openwork.tune.clock import Clock, clock_for
from openwork.tune.defaults.fit import Case, Fit, Regret, shaken

PRODUCTS = (("float32", 0), ("float32", 32), ("float64", 0), ("float32", 4), ("float32", 128))
_WRONG, _MOST = 30, 2.0  # tables whose choices are measured, and how wrong their constants are
_HOPELESS, _SAMPLES = 3.0, 5
_SHARE = 0.85  # of the time is for measuring

Matrix = tuple[str, tuple[int, int], Any, Any]  # name, shape, rows and columns of entries


@frozen
class Calibrated:
    """What a calibration found.

    Args:
        table: of the GPU.
        model: the GPU.
        cases: how many products were measured.
        before: what the table that was taken before loses on them.
        after: what the new one does.
    """

    table: Gpu
    model: str
    cases: int
    before: Regret
    after: Regret

    def __str__(self) -> str:
        return (
            f"{self.model or 'emulator'}: {self.cases} products measured\n"
            f"times of the defaults over the best: {self.before} before, {self.after} now"
        )


def calibrate(
    target: str = "cuda", seconds: float = 100.0, size: float = 1.0, keep: bool = True
) -> Calibrated:
    """Fit the table of a GPU to what it measures in so many seconds.

    Args:
        target: the GPU.
        seconds: about how long it may take.
        size: of the matrices; 1 fills a large GPU.
        keep: whether later processes take the table for this GPU.

    Raises:
        ScheduleError: E303 for a target that is no GPU, or for so little time that nothing was
            measured.
        ToolchainError: E607 without a GPU.
    """
    chosen = find_target(target)
    if not chosen.gpu:
        raise ScheduleError(f"{target} is no GPU", code="E303", hint='calibrate("cuda")')
    until = perf_counter() + _SHARE * seconds
    sweep = Sweep(chosen, clock_for(chosen, cold=False), until, list(generated(size)))
    cases = [case for dtype, columns in PRODUCTS for case in sweep.cases(dtype, columns)]
    if not cases:
        raise ScheduleError(
            f"{seconds} seconds were too few to measure a product", code="E303", hint="100"
        )
    fit, start = Fit(cases, sweep.schedule), chosen.table
    found = fit.table(start)
    if keep:
        keep_gpu(chosen.model, found)
    losses = [Regret.of(fit.regret(case, table) for case in cases) for table in (start, found)]
    return Calibrated(found, chosen.model, len(cases), *losses)


def generated(size: float) -> Iterator[Matrix]:
    """Matrices of different kinds: even and uneven, short and long rows, near and far."""
    draw = np.random.default_rng(0)

    def rows(name: str, lengths: Any, columns: int, near: int = 0) -> Matrix:
        row = np.repeat(np.arange(lengths.size), lengths)
        if near:
            around = draw.integers(-near, near + 1, row.size)
            column = np.clip(row * columns // lengths.size + around, 0, columns - 1)
        else:
            column = draw.integers(0, columns, row.size)
        keys = np.unique(row * np.int64(columns) + column)
        return name, (lengths.size, columns), keys // columns, keys % columns

    def many(count: int) -> int:
        return max(8, int(count * size))

    yield rows("short rows", draw.poisson(3, many(800_000)), many(800_000))
    yield rows("stencil", np.full(many(300_000), 9), many(300_000), near=2_000)
    yield rows("random", np.full(many(250_000), 16), many(250_000))
    yield rows("elements", np.full(many(16_000), 40), many(16_000), near=300)
    yield rows("long rows", np.full(many(4_000), 400), many(4_000))
    yield rows("few rows", draw.integers(1_000, 9_000, many(200)), many(30_000))
    yield rows("small", np.full(many(4_000), 8), many(4_000))
    yield rows("uneven", draw.lognormal(1.5, 1.5, many(150_000)).astype(np.int64), many(150_000))
    lengths = np.full(many(100_000), 3)
    lengths[0] = lengths.size
    yield rows("one long row", lengths, lengths.size)
    lengths = np.where(draw.random(many(40_000)) < 0.01, 400, draw.integers(1, 12, many(40_000)))
    yield rows("some long rows", lengths, many(40_000))


@frozen
class Sweep:
    """Measures what tables may choose, for every matrix.

    Args:
        target: a GPU.
        clock: of its calls.
        until: when to stop.
        matrices: what to multiply.
    """

    target: Target
    clock: Clock
    until: float
    matrices: list[Matrix]

    def __hash__(self) -> int:
        return id(self)

    def cases(self, dtype: str, columns: int) -> Iterator[Case]:
        """A case for every matrix that there is time for."""
        if perf_counter() > self.until:
            return
        blank = [replace(case, times={}) for case in self._blank(dtype, columns)]
        tables = [self.target.table]
        tables += [shaken(tables[0], seed, _MOST) for seed in range(_WRONG)]
        picks = {case.pick(table) for table in tables for case in blank}
        texts = sorted({text for pick in picks if (text := self.schedule(pick, blank[0]))})
        with ThreadPoolExecutor(available_cpus()) as pool:
            kernels = dict(zip(texts, pool.map(self._kernel(dtype, columns), texts), strict=True))
        for case, matrix in zip(blank, self.matrices, strict=True):
            times = self._times(kernels, matrix, dtype, columns)
            if times is None:
                return
            yield replace(case, times=times)

    def schedule(self, pick: Pick, case: Case) -> str:
        """The schedule that a pick means; "" for one that does not apply."""
        return self._text(pick, case.dtype, case.columns)

    @lru_cache(maxsize=4096)  # noqa: B019 (a sweep is short)
    def _text(self, pick: Pick, dtype: str, columns: int) -> str:
        try:
            return pick.applied(self._product(dtype, columns)).commands
        except ScheduleError:
            return ""

    @lru_cache  # noqa: B019
    def _product(self, dtype: str, columns: int) -> Statement:
        return self._statement(self.matrices[0], dtype, columns)

    def _statement(self, matrix: Matrix, dtype: str, columns: int) -> Statement:
        _, shape, row, column = matrix
        values = np.ones(row.size, dtype)
        A = tensor((np.stack((row, column)), values), shape=shape, format="CSR", name="A")
        dense = (shape[1], columns) if columns else (shape[1],)
        x = tensor(np.ones(dense, dtype), name="x")
        y = placeholder("y", order=2 if columns else 1, dtype=dtype)
        if self.target.name == "cuda":
            A, x = A.to("cuda"), x.to("cuda")
        text = "y(i,k) = A(i,j) * x(j,k)" if columns else "y(i) = A(i,j) * x(j)"
        return parse(text, y=y, A=A, x=x)

    def _blank(self, dtype: str, columns: int) -> Iterator[Case]:
        for matrix in self.matrices:
            stmt = self._statement(matrix, dtype, columns)
            known = statistics_of(stmt.assignment)["A"]
            assert known.rows is not None  # noqa: S101 (CSR has rows)
            name, shape, *_ = matrix
            sizes = shape[1], known.entries, known.rows
            yield Case(name, name, dtype, columns, *sizes, {})

    def _kernel(self, dtype: str, columns: int) -> Any:
        product = self._product(dtype, columns)

        def compiled(text: str) -> Any:
            if perf_counter() > self.until:
                return None
            try:
                return product.schedule(text).compile(self.target.name)
            except OpenworkError:
                return None

        return compiled

    def _times(
        self, kernels: dict[str, Any], matrix: Matrix, dtype: str, columns: int
    ) -> dict[str, float] | None:
        """The times of all kernels on a matrix; None if there is no time for all."""
        stmt = self._statement(matrix, dtype, columns)
        operands = {a.tensor.name: a.tensor.source for a in stmt.assignment.rhs.args}  # type: ignore[attr-defined]
        times, least = dict[str, float](), float("inf")
        for text, kernel in kernels.items():
            if perf_counter() > self.until:
                return None
            if kernel is None:
                continue

            def call(kernel: Any = kernel) -> Any:
                return kernel(**operands)

            call()
            call()  # which prepares what repeated calls use
            took = self.clock.sample(call, 0)
            if took < _HOPELESS * least:
                took = float(np.median([self.clock.sample(call, took) for _ in range(_SAMPLES)]))
            times[text], least = took, min(took, least)
        return times
