"""Serial loops in C, and the pragmas that promise properties to the compiler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from openwork.algebra.types import is_complex, is_float, size_of
from openwork.program import nodes as p
from openwork.program.vectorize import WIDE
from openwork.render.c.allocation import may_fail
from openwork.render.c.angles import angles_of, near_or_far
from openwork.render.c.gathers import Gathered, gathered, summed_rows
from openwork.render.c.stores import needs_lock
from openwork.render.c.writer import CWriter
from openwork.render.writer import indent, remark
from openwork.tree import walk

POLL = "if (*stop) break;"
ALONE = '__asm__("");  // vectors within an iteration'
# Iterations of a vectorized loop between two checks of the interrupt flag.
RUN = 4096

# OpenMP's names for operators in reductions; on bools, arithmetic operators are logical.
_BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
_LANES = {"add": "+", "mul": "*", "min": "min", "max": "max", **_BITS}
_LOGIC = {
    "add": "||", "or": "||", "max": "||", "mul": "&&", "and": "&&", "min": "&&", "xor": "^",
    **_BITS,
}  # fmt: skip


def while_loop(w: CWriter, s: p.While) -> list[str]:
    """`while (condition) { body }`"""
    head = f"while ({w.text(s.condition)})"
    before = ['__asm__("");  // few iterations: neither vectors nor a call'] if s.brief else []
    before += [POLL] if s.polls else []
    return [*remark(s.comment), *_unroll(s.unroll), *_loop(w, head, s.body, before)]


def for_loop(w: CWriter, s: p.For, begin: p.Expr, end: p.Expr) -> list[str]:
    """`for (var = begin; var < end; var++) { body }`, a whole loop or a thread's part of one."""
    if s.unrolled:
        pragma = [f"#pragma GCC unroll {w.text(end)}"]
        return [*remark(s.comment), *pragma, *_plain(w, s, begin, end, bool(s.polls))]
    masked = gathered(s)
    if masked is not None:
        return [*remark(s.comment), *_masked(w, s, begin, end, masked)]
    rows = summed_rows(s)
    if rows is not None and s.polls != 1:
        loop = partial(rows.loop, w, s.var)
        body = _in_runs(w, s, begin, end, s.polls, loop) if s.polls else loop(begin, end)
        return [*remark(s.comment), *body]
    vectors = _simd(w, s) if s.simd else []
    # Compilers accept one pragma or the other.
    pragma = vectors or _unroll(s.unroll)
    angles = angles_of(w, s) if vectors else []
    run = RUN if vectors and s.polls else s.polls
    if run > 1 and (vectors or s.by is not None or run >= RUN):
        strip = partial(_strip, w, s, pragma, angles)
        return [*remark(s.comment), *_in_runs(w, s, begin, end, run, strip)]
    if angles and not s.polls:
        return [*remark(s.comment), *_strip(w, s, pragma, angles, begin, end)]
    return [*remark(s.comment), *pragma, *_plain(w, s, begin, end, bool(s.polls))]


def _strip(
    w: CWriter, s: p.For, pragma: list[str], angles: list[p.Expr], begin: p.Expr, end: p.Expr
) -> list[str]:
    """A loop that does not check the flag; in vectors only if no angle is far from 0."""

    def loop(vectors: bool) -> list[str]:
        return [*(pragma if vectors else []), *_plain(w, s, begin, end, polls=False)]

    return near_or_far(w, s, begin, end, angles, loop) if angles else loop(True)


def _masked(w: CWriter, s: p.For, begin: p.Expr, end: p.Expr, sums: Gathered) -> list[str]:
    """A loop in masked vectors; a long one checks the flag between strips."""
    if s.polls:
        loop = _in_runs(w, s, begin, end, RUN, partial(sums.loop, w))
    else:
        loop = sums.loop(w, begin, end)
    return ["{", *indent([*sums.begin(w), *loop, *sums.end()]), "}"]


def _plain(w: CWriter, s: p.For, begin: p.Expr, end: p.Expr, polls: bool) -> list[str]:
    var = s.var.name
    more = w.text(p.compare("<", s.var, end))
    head = f"for (int64_t {var} = {w.text(begin)}; {more}; {var}++)"
    # The flag is checked where the lowest bits are zero, which is cheap to test.
    seldom = f"if (!({var} & {s.polls - 1}) && *stop) break;"
    before = [ALONE] if s.alone else []
    before += [seldom if s.polls > 1 else POLL] if polls else []
    return _loop(w, head, s.body, before)


def _loop(w: CWriter, head: str, body: p.Stmt, poll: list[str]) -> list[str]:
    return [f"{head} {{", *indent([*poll, *w.stmt(body)]), "}"]


def _in_runs(
    w: CWriter,
    s: p.For,
    begin: p.Expr,
    end: p.Expr,
    length: int,
    strip: Callable[[p.Expr, p.Expr], list[str]],
) -> list[str]:
    """A strip-mined loop that checks the flag between strips.

    A vectorized loop cannot exit early; and a thread's rows may be short, so that a check for each
    of them would cost a few percent.
    """
    var = s.var.name
    run, run_end = p.Name(f"{var}_run"), p.Name(f"{var}_run_end")
    first, all_end = f"int64_t {run.name} = {w.text(begin)}", end
    if not isinstance(end, (p.Name, p.Value)):
        all_end = p.Name(f"{var}_runs_end")
        first += f", {all_end.name} = {w.text(end)}"
    more = w.text(p.compare("<", run, all_end))
    return [
        f"for ({first}; {more}; {run.name} += {length}) {{",
        f"  {POLL}",
        f"  const int64_t {run_end.name} = {w.text(p.arithmetic('min', run + length, all_end))};",
        *indent(strip(run, run_end)),
        "}",
    ]


def _unroll(times: int) -> list[str]:
    return [f"#pragma GCC unroll {times}"] if times > 1 else []


def _simd(w: CWriter, s: p.For) -> list[str]:
    """The pragma that vectorizes, unless the loop has something that cannot be vectorized."""
    if may_fail(s.body) or any(map(needs_lock, p.statements(s.body))):
        return []
    clauses = ""
    for reduction in s.reductions:
        sign = _lanes(w, reduction)
        if sign is None:
            return []
        clauses += f" reduction({sign} : {reduction.name.name})"
    return [f"#pragma omp simd{_width(w, s)}{clauses}"]


def _width(w: CWriter, s: p.For) -> str:
    """Whole vectors of the processor's widest where functions are computed: their many steps for a
    number of memory gain from it, which compilers avoid on some processors."""
    formulas = w.dialect.formulas
    types = [
        e.type for e in walk(s.body) if isinstance(e, p.Apply) and (e.op.name, e.type) in formulas
    ]
    return f" simdlen({WIDE // max(map(size_of, types))})" if types else ""


def _lanes(w: CWriter, reduction: p.Reduction) -> str | None:
    """OpenMP's name for the operator, None if it has none."""
    op, type = reduction.op, reduction.name.type
    if op.definition is not None or is_complex(type):
        return None
    if type == "bool":
        return _LOGIC.get(op.name)
    if op.name in ("min", "max") and is_float(type):  # OpenMP's own drop NaN
        w.use(op.name, type)
        return w.use(f"lanes_{op.name}", type)
    return _LANES.get(op.name)
