"""Rewrites lead from a program without units to a GPU program that runs, each step printable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.skeletons import listings
from tests.skeletons.test_listings import CASES, MATRIX, SPARSE, X

import openwork as ow
from openwork import skeletons as sk
from openwork.skeletons.strategies import STRATEGIES, Strategy

LISTING_7 = (
    ("split-join", 4), ("mapWorkgroup", 1), ("mapWarp", 1), ("strided reduce", 32),
    ("split before map", 1), ("transpose before map", 1), ("map fusion", 1), ("mapLane", 1),
)  # fmt: skip


def test_listing_7_follows_from_listing_5_by_rewrites() -> None:
    program = sk.parse(listings.CSR)
    for rule, size in LISTING_7:
        program = program.rewrite(rule, size)
        assert sk.parse(program.text) == program
    assert [(s.rule, max(s.size, 1)) for s in program.steps] == list(LISTING_7)
    assert all(s.program.result == program.result for s in program.steps)
    assert str(program.steps[-1]).startswith("mapLane: map(map(fun(x =>")
    kernel = program.compile("cuda-emulated")
    assert kernel.source == sk.parse(listings.parallel(4, 32)).compile("cuda-emulated").source
    np.testing.assert_allclose(kernel(**SPARSE, xs=X), MATRIX @ X, rtol=2e-5)


def test_steps_between_run_on_their_target() -> None:
    """Every program on the way computes the same."""
    program = sk.parse(listings.CSR)
    for rule, size in LISTING_7:
        program = program.rewrite(rule, size)
        target = "cuda-emulated" if "mapWorkgroup" in program.text else "cpu"
        kernel = program.compile(target)
        np.testing.assert_allclose(kernel(**SPARSE, xs=X), MATRIX @ X, rtol=2e-5)


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("E706", lambda p: p.rewrite("fission")),
        ("E706", lambda p: p.rewrite("mapLane")),
        ("E706", lambda p: p.rewrite("mapSeq", at=7)),
        ("E707", lambda p: p.rewrites(size=0)),
        ("E707", lambda p: p.rewrites(size="a")),
    ],
)
def test_steps_that_do_not_exist(code: str, call: Any) -> None:
    with pytest.raises(ow.PatternError) as caught:
        call(sk.parse(listings.CSR))
    assert caught.value.code == code


def test_a_rewritten_program_still_takes_tensors() -> None:
    """What a program knows of its tensors goes along."""
    add = sk.parse(
        "nFun n. nFun m. fun A: [[float]_m]_n. fun B: [[float]_m]_n. "
        "zip(A, B) :>> map(fun(r => zip(r.1, r.2) :>> map(+)))"
    )
    union = sk.sparsify(add, result=ow.CSR, A=ow.CSR, B=ow.CSR)
    A, B = (ow.tensor(np.eye(3, 4, k, dtype="float32"), format=ow.CSR) for k in (0, 1))
    expected = np.eye(3, 4) + np.eye(3, 4, 1)
    for program in (union, union.rewrite("mapThreads")):
        np.testing.assert_array_equal(program(A=A, B=B).to_numpy(), expected)


@pytest.mark.parametrize("name", ["csr", "softmax"])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
def test_strategies_keep_the_meaning(name: str, strategy: Strategy) -> None:
    data, expected = CASES[name]
    settings = list(strategy.settings())
    for sizes in (settings[0], settings[-1])[: len(settings)]:
        try:
            made = strategy.applied(sk.parse(listings.ALL[name]), sizes)
        except ow.PatternError as error:
            assert error.code == "E706"
            assert (name, strategy.name) == ("csr", "threads, folded")  # its map takes rows
            return
        kernel = made.compile("cuda-emulated" if strategy.gpu else "cpu")
        np.testing.assert_allclose(kernel(**data), expected, rtol=2e-5)


def test_local_sizes_go_from_8_to_128() -> None:
    (lanes,) = (s for s in STRATEGIES if s.name == "lanes for each row")
    sizes = {given["ROWS_PER_WORKGROUP"] * given["LANES"] for given in lanes.settings()}
    assert {8, 16, 32, 64, 128} <= sizes


JOINED = "nFun n. fun o: [int]_{n+1}. fun R: [i -> [double]_{toNat(o@(i+1)-o@i)}]_n. R :>> "


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("map(map(fun(e => e*2))) :>> join :>> reduce(+, 0)", 156),
        ("map(fun(r => r :>> reduce(+, 0) :>> fun(s => r :>> map(fun(e => e*s))))) :>> join "
         ":>> reduce(+, 0)", 3020),
        ("map(fun(r => r :>> split(2) :>> map(map(fun(e => e+1))) :>> join :>> slide(2) "
         ":>> map(reduce(+, 0)) :>> reduce(+, 0)))", [12, 0, 39, 88]),
    ],
)  # fmt: skip
def test_joined_rows_and_pieces_are_reduced(text: str, expected: Any, target: str) -> None:
    kernel = sk.parse(JOINED + text).compile(target)
    got = kernel(o=np.array([0, 3, 3, 7, 12], "int32"), R=np.arange(12.0) + 1)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    "text",
    [
        "map(reduce(+, 0)) :>> fun(r => r :>> split(2) :>> join)",
        "map(reduce(+, 0)) :>> fun(r => r :>> reduce(+, 0) :>> fun(s => r :>> map(fun(e => e-s))))",
    ],
)
def test_what_follows_the_rows_need_not_suit_units(text: str) -> None:
    """A program without units has loops on a GPU, whatever it is."""
    program = sk.parse(JOINED + text)
    data = {"o": np.array([0, 3, 3, 7, 12], "int32"), "R": np.arange(12.0) + 1}
    got = program.compile("cuda-emulated")(**data)
    np.testing.assert_array_equal(got, program(**data))
