"""Statements as CUDA: small programs, and the kernel that each becomes. Nothing is compiled."""

from __future__ import annotations

from typing import Any

import pytest
from tests.program.small import (
    CRD,
    SUMS,
    TOTAL,
    TWO,
    VALS,
    WORK,
    ZERO,
    N,
    X,
    Y,
    times,
    unit,
    written_out,
)
from tests.render.texts import cuda_body, cuda_text

from openwork.algebra import operators as ops
from openwork.index.define import operator
from openwork.program import nodes as p
from openwork.program.elements import combine

B, W, T, AT = p.Name("b"), p.Name("w"), p.Name("t"), p.Name("at")
PLACE = B * 32 + T
GATHERED = p.Convert(CRD[PLACE], "int64")
DECLARED = p.Declare(TOTAL, ZERO)
ADDS = p.Set(TOTAL, X[T], ops.ADD)
REDUCES = (p.Reduction(TOTAL, ops.ADD, ZERO),)
SCALE = p.Store(Y, PLACE, times(X[PLACE], TWO))


def blocks(body: p.Stmt) -> p.For:
    return unit(B, "block", N, body)


def threads(body: p.Stmt, count: int = 32, **more: Any) -> p.For:
    return unit(T, "thread", count, body, most=count, **more)


TEXTS: dict[str, tuple[tuple[p.Stmt, ...], str]] = {
    "blocks and threads": (
        (blocks(threads(SCALE)),),
        """\
const index_t lane = threadIdx.x;
const index_t b = blockIdx.x;
const index_t t = lane;
y[b * 32 + t] = x[b * 32 + t] * 2.0;""",
    ),
    "more iterations than threads": (
        (blocks(unit(T, "thread", N, SCALE, count=64)),),
        """\
const index_t lane = threadIdx.x;
const index_t b = blockIdx.x;
for (index_t t = lane; t < n; t += 64) {
  y[b * 32 + t] = x[b * 32 + t] * 2.0;
}""",
    ),
    "one thread stores a sum of lanes": (
        (blocks(p.block(DECLARED, threads(ADDS, reductions=REDUCES), p.Store(Y, B, TOTAL))),),
        """\
const index_t lane = threadIdx.x;
const index_t b = blockIdx.x;
double total = 0.0;
const index_t t = lane;
total += x[t];
total = of_lanes<add_of_float64, 32>(total, 0xffffffffu);
if (threadIdx.x == 0) {
  y[b] = total;
}""",
    ),
    "one lane of a warp stores": (
        (
            blocks(
                unit(
                    W,
                    "warp",
                    4,
                    p.block(
                        DECLARED, threads(ADDS, reductions=REDUCES), p.Store(Y, B * 4 + W, TOTAL)
                    ),
                    most=4,
                )
            ),
        ),
        """\
const index_t warp = threadIdx.x / 32;
const index_t lane = threadIdx.x % 32;
const index_t b = blockIdx.x;
const index_t w = warp;
double total = 0.0;
const index_t t = lane;
total += x[t];
total = of_lanes<add_of_float64, 32>(total, 0xffffffffu);
if (lane == 0) {
  y[b * 4 + w] = total;
}""",
    ),
    "shared memory and a barrier": (
        (
            blocks(
                p.block(
                    p.Allocate(WORK, p.Value(32)),
                    threads(p.Store(WORK, T, X[PLACE])),
                    threads(p.Store(Y, PLACE, WORK[p.arithmetic("-", p.Value(31), T)])),
                )
            ),
        ),
        """\
__shared__ __align__(16) double work[32];
const index_t lane = threadIdx.x;
const index_t b = blockIdx.x;
work[lane] = x[b * 32 + lane];
__syncthreads();
y[b * 32 + lane] = work[31 - lane];""",
    ),
    "an atomic sum": (
        (blocks(threads(p.Store(Y, GATHERED, X[PLACE], ops.ADD, atomic=True))),),
        """\
const index_t lane = threadIdx.x;
const index_t b = blockIdx.x;
const index_t t = lane;
atomicAdd(&y[(int64_t)crd[b * 32 + t]], x[b * 32 + t]);""",
    ),
    "an atomic minimum": (
        (blocks(threads(p.Store(Y, GATHERED, X[PLACE], ops.MIN, atomic=True))),),
        """\
const index_t lane = threadIdx.x;
const index_t b = blockIdx.x;
const index_t t = lane;
{
  double *const y_at = &y[(int64_t)crd[b * 32 + t]];
  const double y_given = x[b * 32 + t];
  double y_old = *(volatile double *)y_at;
  while (!exchange(y_at, y_old, (double)(min_float64(y_old, y_given)))) {
  }
}""",
    ),
    "segments of a group": (
        (
            blocks(
                threads(
                    p.Store(Y, GATHERED, X[PLACE], ops.ADD, atomic=True),
                    count=20,
                    group=8,
                    reduction="segment",
                )
            ),
        ),
        """\
const index_t lane = threadIdx.x;
const index_t b = blockIdx.x;
const bool in_range = lane < 20;
const index_t t = lane < 19 ? lane : 19;
index_t y_place = -1;
double y_part = 0.0;
if (in_range) {
  y_place = (int64_t)crd[b * 32 + t];
  y_part = x[b * 32 + t];
}
const bool y_part_mine = of_segment<add_of_float64, 8>(y_part, y_place, 0xffu << (threadIdx.x & 24));
if (y_part_mine) {
  atomicAdd(&y[y_place], y_part);
}""",  # noqa: E501
    ),
    "a group that adds to one place": (
        (
            blocks(
                threads(
                    p.Store(Y, B, X[PLACE], ops.ADD, atomic=True),
                    count=20,
                    group=8,
                    reduction="parallel",
                )
            ),
        ),
        """\
const index_t lane = threadIdx.x;
const index_t b = blockIdx.x;
const bool in_range = lane < 20;
const index_t t = lane < 19 ? lane : 19;
index_t y_place = -1;
double y_part = 0.0;
if (in_range) {
  y_place = b;
  y_part = x[b * 32 + t];
}
const bool y_part_mine = of_parallel<add_of_float64, 8>(y_part, y_place, 0xffu << (threadIdx.x & 24));
if (y_part_mine) {
  atomicAdd(&y[y_place], y_part);
}""",  # noqa: E501
    ),
    "a wide load": (
        (
            blocks(
                threads(
                    p.block(
                        p.Local(SUMS, 2),
                        written_out(AT, 2, p.Store(SUMS, AT, VALS[PLACE * 2 + AT])),
                        written_out(AT, 2, p.Store(Y, PLACE * 2 + AT, SUMS[AT])),
                    )
                )
            ),
        ),
        """\
const index_t lane = threadIdx.x;
const index_t b = blockIdx.x;
const index_t t = lane;
double sums[2];
const Vector<double, 2> A_vector = *(const Vector<double, 2> *)&A_vals[(b * 32 + t) * 2];
#pragma unroll
for (index_t at = 0; at < 2; at++) {
  sums[at] = A_vector.of[at];
}
#pragma unroll
for (index_t at = 0; at < 2; at++) {
  y[(b * 32 + t) * 2 + at] = sums[at];
}""",
    ),
    "a loop that is written out": (
        (
            blocks(
                threads(
                    p.block(
                        DECLARED,
                        written_out(AT, 4, p.Set(TOTAL, X[PLACE * 4 + AT], ops.ADD)),
                        p.Store(Y, PLACE, TOTAL),
                    )
                )
            ),
        ),
        """\
const index_t lane = threadIdx.x;
const index_t b = blockIdx.x;
const index_t t = lane;
double total = 0.0;
const Vector<double, 4> x_vector = *(const Vector<double, 4> *)&x[(b * 32 + t) * 4];
#pragma unroll
for (index_t at = 0; at < 4; at++) {
  total += x_vector.of[at];
}
y[b * 32 + t] = total;""",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_statements(name: str) -> None:
    body, text = TEXTS[name]
    assert cuda_body(*body) == text


def test_a_kernel_says_what_it_reads_and_writes() -> None:
    text = cuda_text(blocks(unit(T, "thread", N, SCALE, count=64)))
    assert 'extern "C" __global__ void __launch_bounds__(64) kernel_1(' in text
    assert "const index_t n," in text
    assert "double *__restrict__ y," in text and "const double *__restrict__ x\n" in text


@pytest.mark.parametrize(("narrow", "type"), [(True, "int"), (False, "long long")])
def test_what_is_counted_is_as_wide_as_it_has_to_be(narrow: bool, type: str) -> None:
    assert f"typedef {type} index_t;" in cuda_text(blocks(threads(SCALE)), narrow=narrow)


def test_two_loops_for_blocks_are_two_kernels() -> None:
    text = cuda_text(blocks(threads(SCALE)), blocks(threads(SCALE)))
    assert " kernel_1(" in text and " kernel_2(" in text


def test_operators_of_users_have_names_of_their_own() -> None:
    """Two that do different things are never one, and one has the same name each time."""
    both = operator("f", lambda a, b: a + b + a * b, identity=0, commutative=True, associative=True)
    other = operator("f", lambda a, b: a * b, identity=1, commutative=True, associative=True)
    names = []
    for op in (both, other, both):
        zero = p.Value(float(op.identity or 0), "float64")
        value, sign = combine(op, TOTAL, X[T])
        own = p.Set(TOTAL, value, sign)
        sums = threads(own, reductions=(p.Reduction(TOTAL, op, zero),))
        text = cuda_text(blocks(p.block(p.Declare(TOTAL, zero), sums, p.Store(Y, B, TOTAL))))
        names.append(text.partition("struct ")[2].partition(" {")[0])
    assert names[0] == names[2] != names[1]
