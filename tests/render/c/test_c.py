"""Statements as C: small programs, and the text that each becomes. Nothing is compiled."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.program.small import (
    COUNT,
    CRD,
    DOUBLE,
    ONE,
    ROOM,
    SLOT,
    TOTAL,
    WORK,
    ZERO,
    I,
    N,
    X,
    Y,
    loop,
    shared,
    vectorized,
    written_out,
)
from tests.render.texts import c_body, c_text

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.render.c.c import render

AT, FIRST = p.Name("at"), p.Value(0)
PLACE = p.Convert(CRD[I], "int64")
DECLARED = p.Declare(TOTAL, ZERO)
ADDS = p.Set(TOTAL, X[I], ops.ADD)
REDUCES = (p.Reduction(TOTAL, ops.ADD, ZERO),)

TEXTS: dict[str, tuple[tuple[p.Stmt, ...], str]] = {
    "a loop": (
        (loop(DOUBLE),),
        """\
for (int64_t i = 0; i < n; i++) {
  y[i] = x[i] * 2.0;
}""",
    ),
    "a loop that vectors may take": (
        (vectorized(DOUBLE),),
        """\
#pragma omp simd
for (int64_t i = 0; i < n; i++) {
  y[i] = x[i] * 2.0;
}""",
    ),
    "a loop that is left where the user asks": (
        (loop(DOUBLE, polls=8),),
        """\
for (int64_t i = 0; i < n; i++) {
  if (!(i & 7) && *stop) break;
  y[i] = x[i] * 2.0;
}
return *stop ? 2 : 0;""",
    ),
    "a vectorized loop that is left between runs": (
        (vectorized(DOUBLE, polls=512),),
        """\
for (int64_t i_run = 0; i_run < n; i_run += 4096) {
  if (*stop) break;
  const int64_t i_run_end = lesser(i_run + 4096, n);
#pragma omp simd
  for (int64_t i = i_run; i < i_run_end; i++) {
    y[i] = x[i] * 2.0;
  }
}
return *stop ? 2 : 0;""",
    ),
    "a sum in lanes": (
        (
            DECLARED,
            vectorized(ADDS, reductions=REDUCES),
        ),
        """\
double total = 0.0;
#pragma omp simd reduction(+ : total)
for (int64_t i = 0; i < n; i++) {
  total += x[i];
}""",
    ),
    "a loop that is written out": (
        (
            p.Local(WORK, 4),
            written_out(AT, 4, p.Store(WORK, AT, ZERO)),
        ),
        """\
double work[4];
#pragma GCC unroll 4
for (int64_t at = 0; at < 4; at++) {
  work[at] = 0.0;
}""",
    ),
    "branches": (
        (loop(p.If(p.compare("<", I, 3), p.block(DOUBLE), p.block(p.Store(Y, I, ONE)))),),
        """\
for (int64_t i = 0; i < n; i++) {
  if (i < 3) {
    y[i] = x[i] * 2.0;
  } else {
    y[i] = 1.0;
  }
}""",
    ),
    "a while loop that is left": (
        (
            p.Declare(COUNT, FIRST),
            p.While(p.compare("<", COUNT, N), p.block(p.Set(COUNT, COUNT + 1), p.Break())),
        ),
        """\
int64_t count = 0;
while (count < n) {
  count++;
  break;
}""",
    ),
    "parentheses where C needs them": (
        (
            p.Declare(COUNT, (N + 1) * 2 - (N - (N - 1)) / 2 % 3),
            p.Declare(SLOT, p.arithmetic("min", N, COUNT)),
        ),
        """\
int64_t count = (n + 1) * 2 - (n - (n - 1)) / 2 % 3;
int64_t slot = n < count ? n : count;""",
    ),
    "a check that fails": (
        (p.If(p.compare("==", N % 4, 0), p.block(), p.block(p.Fail(4))),),
        """\
int32_t status = 0;
if (n % 4 == 0) {
} else {
  status = 4;
  goto done;
}
done:
return status;""",
    ),
    "memory that grows": (
        (
            p.Declare(ROOM, FIRST),
            p.Allocate(WORK, FIRST),
            p.Grow(ROOM, N, (p.Growing(WORK, p.Value(2), 1, True),)),
            p.Free(WORK),
        ),
        """\
double *work = 0;
int32_t status = 0;
int64_t capacity = 0;
if (n > capacity) {
  const int64_t old = capacity;
  capacity = larger(capacity, n);
  work = resize(work, capacity * 2 + 1, sizeof(double), &status);
  if (status) goto done;
  for (int64_t n = old ? old * 2 + 1 : 0; n < capacity * 2 + 1; n++) work[n] = 0;
  if (status) goto done;
}
__builtin_free(work);
work = 0;
done:
__builtin_free(work);
return status;""",
    ),
    "a prefetch": (
        (loop(p.block(p.Prefetch(X, I + 16), DOUBLE)),),
        """\
for (int64_t i = 0; i < n; i++) {
  ask_for(&x[i + 16]);
  y[i] = x[i] * 2.0;
}""",
    ),
    "stores past the cache": (
        (loop(p.Store(Y, I, X[I], stream=True)),),
        """\
for (int64_t i = 0; i < n; i++) {
  stream_float64(&y[i], x[i]);
}
fence();""",
    ),
    "an atomic sum": (
        (shared(p.Store(Y, PLACE, X[I], ops.ADD, atomic=True)),),
        """\
const int64_t shares = threads > 1 ? 8 * threads : 1;
{
  taken_shares i_taken[threads];
  for (int64_t part = 0; part < threads; part++) i_taken[part].count = 0;
  // threads take contiguous shares
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
  for (int64_t part = 0; part < threads; part++) {
    int64_t i_turn = 0, i_share;
    while ((i_share = next_share(i_taken, threads, shares, part, &i_turn)) >= 0) {
      const int64_t i_first = cut_even(0, n, i_share, shares);
      const int64_t i_limit = cut_even(0, n, i_share + 1, shares);
      for (int64_t i = i_first; i < i_limit; i++) {
#pragma omp atomic
        y[(int64_t)crd[i]] += x[i];
      }
    }
  }
}""",
    ),
    "an atomic minimum": (
        (loop(p.Store(Y, I, X[I], ops.MIN, atomic=True)),),
        """\
for (int64_t i = 0; i < n; i++) {
  {
    word_uint64 *const y_at = (word_uint64 *)&y[i];
    const double y_given = x[i];
    uint64_t y_seen = __atomic_load_n(y_at, __ATOMIC_RELAXED);
    uint64_t y_next;
    double y_old;
    do {
      __builtin_memcpy(&y_old, &y_seen, sizeof y_old);
      const double y_new = min_float64(y_old, y_given);
      __builtin_memcpy(&y_next, &y_new, sizeof y_next);
    } while (!__atomic_compare_exchange_n(y_at, &y_seen, y_next, 1,
                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  }
}""",
    ),
    "chunks": (
        (shared(DOUBLE, chunk=4),),
        """\
{
  int64_t i_next_chunk = 0;
  const int64_t i_chunks_end = n;
  // threads take 4 iterations at a time
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
  for (int64_t part = 0; part < threads; part++) {
    for (;;) {
      const int64_t i_first = __atomic_fetch_add(&i_next_chunk, 4, __ATOMIC_RELAXED);
      if (i_first >= i_chunks_end) break;
      const int64_t i_limit = lesser(i_first + 4, i_chunks_end);
      for (int64_t i = i_first; i < i_limit; i++) {
        y[i] = x[i] * 2.0;
      }
    }
  }
}""",
    ),
    "equal work": (
        (shared(DOUBLE, balance=p.Balance(CRD)),),
        """\
const int64_t shares = threads > 1 ? 8 * threads : 1;
{
  taken_shares i_taken[threads];
  for (int64_t part = 0; part < threads; part++) i_taken[part].count = 0;
  // threads take contiguous shares with equal work
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
  for (int64_t part = 0; part < threads; part++) {
    int64_t i_turn = 0, i_share;
    while ((i_share = next_share(i_taken, threads, shares, part, &i_turn)) >= 0) {
      const int64_t i_first = cut_int32(crd, 0, n, i_share, shares);
      const int64_t i_limit = cut_int32(crd, 0, n, i_share + 1, shares);
      for (int64_t i = i_first; i < i_limit; i++) {
        y[i] = x[i] * 2.0;
      }
    }
  }
}""",
    ),
    "a sum of threads": (
        (
            DECLARED,
            shared(ADDS, reductions=REDUCES),
            p.Store(Y, FIRST, TOTAL),
        ),
        """\
double total = 0.0;
{
  double total_parts[threads];
  // threads take contiguous parts
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
  for (int64_t part = 0; part < threads; part++) {
    const int64_t i_first = cut_even(0, n, part, threads);
    const int64_t i_limit = cut_even(0, n, part + 1, threads);
    double total = 0.0;
    for (int64_t i = i_first; i < i_limit; i++) {
      total += x[i];
    }
    total_parts[part] = total;
  }
  for (int64_t part = 0; part < threads; part++) total += total_parts[part];
}
y[0] = total;""",
    ),
    "memory of each thread": (
        (shared(DOUBLE, private=(p.Allocate(WORK, N),), cleanup=(p.Free(WORK),)),),
        """\
const int64_t shares = threads > 1 ? 8 * threads : 1;
int32_t status = 0;
int32_t failed = 0;
{
  taken_shares i_taken[threads];
  for (int64_t part = 0; part < threads; part++) i_taken[part].count = 0;
  // threads take contiguous shares
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
  for (int64_t part = 0; part < threads; part++) {
    int32_t status = 0;
    double *work = room_for(n, sizeof(double), &status);
    if (status == 0) {
      int64_t i_turn = 0, i_share;
      while ((i_share = next_share(i_taken, threads, shares, part, &i_turn)) >= 0) {
        const int64_t i_first = cut_even(0, n, i_share, shares);
        const int64_t i_limit = cut_even(0, n, i_share + 1, shares);
        for (int64_t i = i_first; i < i_limit; i++) {
          y[i] = x[i] * 2.0;
        }
      }
    } else {
#pragma omp atomic write
      failed = 1;
    }
    __builtin_free(work);
  }
}
if (failed) status = 1;
return status;""",
    ),
    "a copy for each thread": (
        (shared(p.Store(Y, PLACE, X[I], ops.ADD), copies=(p.Copy(Y, N, ops.ADD, ZERO),)),),
        """\
int32_t status = 0;
int32_t failed = 0;
{
  const int64_t y_count = n;
  double *y_copies[threads];
  // threads take contiguous parts
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
  for (int64_t part = 0; part < threads; part++) {
    const int64_t i_first = cut_even(0, n, part, threads);
    const int64_t i_limit = cut_even(0, n, part + 1, threads);
    int32_t status = 0;
    y_copies[part] = threads > 1 ? zeros(y_count, sizeof(double), &status) : y;
    if (status) goto leave_1;
    double *restrict y = y_copies[part];
    for (int64_t i = i_first; i < i_limit; i++) {
      y[(int64_t)crd[i]] += x[i];
    }
leave_1:;
    if (status) {
#pragma omp atomic write
      failed = status;
    }
  }
  if (threads > 1) {
    if (!failed) {
      // their copies are combined in order
#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
      for (int64_t part = 0; part < threads; part++) {
        const int64_t y_first = cut_even(0, y_count, part, threads);
        const int64_t y_limit = cut_even(0, y_count, part + 1, threads);
        for (int64_t other = 0; other < threads; other++) {
          const double *restrict y_own = y_copies[other];
          for (int64_t y_at = y_first; y_at < y_limit; y_at++)
            y[y_at] += y_own[y_at];
        }
      }
    }
    for (int64_t part = 0; part < threads; part++) __builtin_free(y_copies[part]);
  }
  if (failed) {
    status = failed;
    goto done;
  }
}
done:
return status;""",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_statements(name: str) -> None:
    body, text = TEXTS[name]
    assert c_body(*body) == text


@pytest.mark.parametrize(("op", "sign"), [(ops.ADD, "+"), (ops.SUB, "-")])
def test_the_parts_of_a_complex_number_are_updated_one_by_one(op: Op, sign: str) -> None:
    z = p.Array("z", "complex128")
    store = p.Store(z, FIRST, p.Value(1 + 2j, "complex128"), op, atomic=True)
    whole = p.Program((p.Argument(z, "z", -1, "values", "result"),), (N,), p.block(store))
    text = render(whole)
    assert text.count("#pragma omp atomic\n") == 2
    assert f"z_at[0] {sign}= __real__ z_given;" in text
    assert f"z_at[1] {sign}= __imag__ z_given;" in text


def test_arguments_are_declared_where_they_are_used() -> None:
    text = c_text(loop(DOUBLE))
    assert "int32_t kernel(void **arrays, int64_t *sizes) {" in text
    assert "const int64_t n = sizes[2];" in text
    assert "const double *restrict x = arrays[1];" in text
    assert "double *restrict y = arrays[3];" in text
    assert "crd" not in text and "A_vals" not in text


def test_what_is_made_is_handed_back_with_its_length() -> None:
    made = (p.Argument(WORK, "z", -1, "values", "made", N * 2),)
    text = render(p.Program(made, (N,), p.block(p.Allocate(WORK, N * 2))))
    assert "arrays[1] = work;" in text and "sizes[3] = n * 2;" in text


def test_helpers_come_along_only_where_they_are_called() -> None:
    assert "cut_even" not in c_text(loop(DOUBLE))
    assert c_text(shared(DOUBLE)).count("static int64_t cut_even(") == 1


def test_a_statement_that_c_has_no_spelling_for() -> None:
    @dataclass(frozen=True)
    class Strange(p.Stmt):
        pass

    with pytest.raises(InternalError, match="Strange"):
        render(p.Program((), (), p.Block((Strange(),))))
