"""Random products by random recipes, with numbers of their own, under the emulator; exact.

`OPENWORK_GPU_CASES` says how many, `OPENWORK_FUZZ_SEED` which; `OPENWORK_GPU_TARGET=cuda` runs them
on a real GPU, where operands may lie and calls are repeated.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from tests.gpu.batch import Batch
from tests.random.unguarded import unguarded_updates

import openwork as ow
from openwork import recipes as r
from openwork.errors import ScheduleError
from openwork.pipeline import CompiledCuda
from openwork.runtime.gpu import emulator

CASES = int(os.environ.get("OPENWORK_GPU_CASES", "100"))
SEED = int(os.environ.get("OPENWORK_FUZZ_SEED", "0"))
TARGET = os.environ.get("OPENWORK_GPU_TARGET", "cuda-emulated")
CHUNKS = 6
REFUSED = 0.4  # of the cases may be: recipes say what they are not for
COLUMNS = (1, 2, 3, 4, 4, 5, 6, 8, 12, 16, 20, 32, 32, 33, 64, 128)
ROWS_OF_TREES = ow.Format([ow.Dense, ow.Compressed, ow.Compressed])
MATRICES = (ow.CSR, ow.CSR, ow.CSR, ow.CSC, ow.DCSR, ow.COO(2))
TREES = (ow.CSF(3), ow.CSF(3), ROWS_OF_TREES, ow.COO(3))

# The statement, whose first operand is sparse, and the same for einsum.
PRODUCTS = {
    "spmv": ("y(i) = A(i,j) * x(j)", "ij,j->i"),
    "spmm": ("C(i,k) = A(i,j) * B(j,k)", "ij,jk->ik"),
    "turned": ("C(j,k) = A(i,j) * B(i,k)", "ij,ik->jk"),
    "sddmm": ("D(i,k) = A(i,k) * P(i,j) * Q(k,j)", "ik,ij,kj->ik"),
    "ttv": ("V(i,j) = A(i,j,k) * v(k)", "ijk,k->ij"),
    "ttm": ("T(i,j,l) = A(i,j,k) * G(k,l)", "ijk,kl->ijl"),
    "mttkrp": ("M(i,j) = A(i,k,l) * F(k,j) * G(l,j)", "ikl,kj,lj->ij"),
    "across": ("y(j) = A(i,j) * x(i)", "ij,i->j"),
    "scaled": ("S(i,j) = A(i,j) * x(i)", "ij,i->ij"),
    "into dense": ("S(i,j) = A(i,j) * x(j)", "ij,j->ij"),
    "total": ("s() = A(i,j) * x(j)", "ij,j->"),
    "apart": ("T(i,j,k) = A(i,j) * B(j,k)", "ij,jk->ijk"),
    "apart, turned": ("T(k,j,i) = A(i,j) * B(i,k)", "ij,ik->kji"),
}
DENSE = {
    "elements": ("S(j,i) = A(i,j) * x(i)", "ij,i->ji"),
    "product": ("C(i,k) = A(i,j) * B(j,k)", "ij,jk->ik"),
    "sums": ("y(i) = A(i,j) * x(j)", "ij,j->i"),
    "down": ("y(j) = A(i,j) * x(i)", "ij,i->j"),
    "sum": ("s() = A(i,j) * x(j)", "ij,j->"),
}


def vector_recipe(rng: random.Random) -> tuple[str, Callable[[Any], Any]]:
    """For results without columns."""
    each, group, threads = rng.choice((1, 2, 3, 7, 8)), rng.choice((2, 4, 8, 16, 32)), _threads(rng)
    wide, unroll = rng.choice((group, group, 64, 128)), rng.choice((1, 2, 4))
    return rng.choice([
        (f"thread_per_row({threads})", lambda s: r.thread_per_row(s, threads)),
        (f"group_per_row({wide},{threads},{unroll})",
         lambda s: r.group_per_row(s, wide, threads, unroll)),
        (f"position_split({each},{threads})", lambda s: r.position_split(s, each, threads)),
        (f"position_segments({each},{group},{threads})",
         lambda s: r.position_segments(s, each, group, threads)),
        (f"position_staged({each},{group},{threads})",
         lambda s: r.position_staged(s, each, group, threads)),
        (f"position_strided({each},{threads})", lambda s: r.position_strided(s, each, threads)),
    ])  # fmt: skip


def entry_recipe(rng: random.Random) -> tuple[str, Callable[[Any], Any]]:
    """For entries that are added to anywhere, or that have places of their own."""
    each, group, threads = rng.choice((1, 2, 3, 8)), rng.choice((2, 8, 32)), _threads(rng)
    return rng.choice([
        (f"group_per_row({group},{threads})", lambda s: r.group_per_row(s, group, threads)),
        (f"position_split({each},{threads})", lambda s: r.position_split(s, each, threads)),
        *2 * [(f"position_strided({each},{threads})",
               lambda s: r.position_strided(s, each, threads))],
    ])  # fmt: skip


def dense_recipe(rng: random.Random) -> tuple[str, Callable[[Any], Any]]:
    """For dense operands."""
    each, group, threads = rng.choice((1, 2, 3, 8)), rng.choice((2, 8, 32)), _threads(rng)
    return rng.choice([
        (f"elements({threads})", lambda s: r.elements(s, threads)),
        (f"element_sums({group},{threads})", lambda s: r.element_sums(s, group, threads)),
        (f"element_shares({each},{threads})", lambda s: r.element_shares(s, each, threads)),
        (f"element_total({each},{threads})", lambda s: r.element_total(s, each, threads)),
    ])  # fmt: skip


def matrix_recipe(rng: random.Random) -> tuple[str, Callable[[Any], Any]]:
    """For results with columns."""
    each, threads = rng.choice((1, 2, 4, 7, 16, 32)), _threads(rng)
    vector, unroll = rng.choice((None, None, 1, 2, 4, 6, 8)), rng.choice((1, 4, 8))
    group, across = rng.choice((2, 4, 8, 16, 32)), rng.choice((1, 5, 16, 64))
    resident, at_once = rng.choice((None, 512, 768)), rng.choice((1, 1, 2, 4, 8))
    lanes = rng.choice((1, 2, 8, 32, 32))
    points: list[dict[str, Any]] = [
        {"nnz": each},
        {"nnz": rng.choice((1, each)), "group": group},
        {"row": 1 / group, "group": rng.choice((group, group // 2)), "turns": rng.choice((1, 3))},
        {"row": rng.choice((1, 2))},
    ]
    point = {**rng.choice(points), "col": rng.choice((1, 2, 4)), "threads": threads}
    return rng.choice([
        (f"spmm_rows({vector},{unroll},{threads},{resident},{at_once},{lanes})",
         lambda s: r.spmm_rows(s, vector, unroll, threads, resident, at_once, lanes)),
        (f"spmm_positions({each},{vector},{unroll},{threads},{lanes})",
         lambda s: r.spmm_positions(s, each, vector, unroll, threads, lanes=lanes)),
        (f"spmm_tiles({across},{vector},{unroll},{threads})",
         lambda s: r.spmm_tiles(s, across, vector, unroll, threads)),
        (f"spmm_staged({min(each, 4)},{group},{threads},{resident})",
         lambda s: r.spmm_staged(s, min(each, 4), group, threads, resident)),
        (f"atomic_parallel({point})", lambda s: r.atomic_parallel(s, **point)),
    ])  # fmt: skip


def sample_recipe(rng: random.Random) -> tuple[str, Callable[[Any], Any]]:
    """For dot products at the entries of a pattern."""
    each, vector, threads = rng.choice((1, 2, 5)), rng.choice((None, 1, 2, 4)), _threads(rng)
    return f"sddmm({each},{vector},{threads})", lambda s: r.sddmm(s, each, vector, threads)


def _threads(rng: random.Random) -> int:
    return rng.choice((32, 64, 96, 128, 256, 256, 1024))


@dataclass
class Case:
    """A product of random numbers, and what it gives."""

    text: str
    stmt: Callable[[], Any]
    operands: dict[str, Any]
    expected: Any


def case_of(seed: int) -> Case:
    """A random product; whole numbers, so that every order of sums gives the same."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    kind = rng.choice(["spmm", "spmm", "spmv", *PRODUCTS, *DENSE])
    text, path = (PRODUCTS | DENSE)[kind]
    inputs, result = path.split("->")
    dtype = rng.choice(("float32", "float32", "float64", "int32", "complex64"))
    extents = {v: rng.randint(1, 70) for v in sorted(set(path) - set(",->"))}
    sparse = inputs.split(",")[0]
    for var in set("".join(inputs.split(",")[1:])) - set(sparse):
        extents[var] = rng.choice(COLUMNS)
    if len(sparse) == 3:
        extents |= {v: min(extents[v], 12) for v in sparse}
    arrays = []
    for names in inputs.split(","):
        shape = tuple(extents[v] for v in names)
        made = numbers.integers(-3, 4, shape).astype(dtype)
        if dtype == "complex64":
            made += 1j * numbers.integers(-3, 4, shape)
        arrays.append(made)
    share = rng.choice((0.0, 0.02, 0.1, 0.1, 0.5, 1.0))
    arrays[0][numbers.random(arrays[0].shape) >= share] = 0
    format = rng.choice(TREES if len(sparse) == 3 else MATRICES)
    names = [part.partition("(")[0].strip() for part in text.partition("=")[2].split("*")]
    operands = {name: ow.tensor(a, name=name) for name, a in zip(names, arrays, strict=True)}
    if kind not in DENSE:
        operands[names[0]] = operands[names[0]].to(format).rename(names[0])
    if TARGET == "cuda" and seed % 2:
        operands = {name: t.to("cuda").rename(name) for name, t in operands.items()}
    shape = tuple(extents[v] for v in result)
    kept = format if kind in ("sddmm", "scaled") else ow.dense(len(shape))
    out = ow.empty(shape, dtype=dtype, format=kept, name=text.partition("(")[0])
    stmt = ow.parse(text, **{out.name: out}, **operands)
    choose = {"spmv": vector_recipe, "ttv": vector_recipe, "sddmm": sample_recipe}
    choose |= dict.fromkeys(DENSE, dense_recipe)
    choose |= dict.fromkeys(("across", "scaled", "into dense", "total"), entry_recipe)
    name, recipe = choose.get(kind, matrix_recipe)(rng)
    if rng.random() < 0.25:
        name, recipe = "default", lambda s: s
    about = f"{text}  {format!r} {dtype} {extents} {name}"
    return Case(about, lambda: recipe(stmt), operands, np.einsum(path, *arrays))


@pytest.fixture(autouse=True)
def races_are_looked_for(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every second chunk, since it takes longer; `make races-gpu` does it in all."""
    monkeypatch.setattr(emulator, "races", emulator.races or chunk % 2 == 0)


@pytest.mark.fuzz
@pytest.mark.needs_cc
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_recipes_agree_with_numpy(chunk: int) -> None:
    seeds = range(SEED + chunk, SEED + CASES, CHUNKS)
    batch, runs, failures, refused = Batch(), [], [], 0
    for seed in seeds:
        case = case_of(seed)
        try:
            if TARGET == "cuda":
                kernel = case.stmt().compile(TARGET)
            else:
                kernel = case.stmt().compile(TARGET, loader=batch)
                kernel._launcher.device.order = seed % 3
                batch.expect(cast(CompiledCuda, kernel._launcher.compiled))
            assert not unguarded_updates(cast(CompiledCuda, kernel._launcher.compiled).program), (
                case.text
            )
            runs.append((seed, case, kernel))
        except ScheduleError:
            refused += 1
    for seed, case, kernel in runs:
        try:
            for factor in _factors(case):
                np.testing.assert_array_equal(kernel().to_numpy(), factor * case.expected)
        except Exception as error:
            failures.append(f"seed {seed}: {case.text}\n{type(error).__name__}: {error}")
    assert refused <= REFUSED * len(seeds), refused
    if failures:
        count = f"{len(failures)} of {len(seeds)} cases differ"
        pytest.fail("\n\n".join([count, *failures[:4]]), pytrace=False)


def _factors(case: Case) -> Any:
    """1, and where operands lie on a GPU, what the result is times once their values change."""
    yield 1
    values = next(iter(case.operands.values())).storage.values
    if TARGET == "cuda" and hasattr(values, "__cuda_array_interface__"):
        for factor in (1, 2, 4):
            values *= 1 if factor == 1 else 2
            yield factor
