"""What must never happen: names that reach the compiler, flags that change numbers, wrong rows.

Kernels are called from many threads and after a fork, zeros that are not stored annihilate, and
results are in order.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from tests.program.small import code

import openwork as ow
from openwork.errors import OpenworkError
from openwork.format.levels.width import INT32_LIMIT
from openwork.runtime import cache
from openwork.runtime.host import library, toolchain
from openwork.tensor.eager import KERNELS
from openwork.tensor.exchange.validate import validate

pytestmark = pytest.mark.needs_cc

INF, NAN = float("inf"), float("nan")
Array = np.ndarray[Any, Any]

# --- Hostile names -----------------------------------------------------------------------------

MARK = "owned"  # part of every name, and of nothing that we write ourselves
PAYLOADS = (
    MARK, f'x; system("touch {MARK}")', f"*/ {MARK} /*", f"// {MARK}", f"/* {MARK}",
    f"{MARK}\nint z;", f"{MARK}\r\n#error", f"{MARK}\r#error", f"{MARK}\x0b#error",
    f"{MARK}\u2028#error", f"{MARK}\x00", f"{MARK}\\", f"{MARK}\\\n", f"??/{MARK}", f"{MARK}??/",
    f"%s%n{MARK}", f"{{{MARK}}}", f"{{0}}{MARK}", f"%(a)s{MARK}", f"$({MARK})", f"`{MARK}`",
    f"${{{MARK}}}", f"'; {MARK}", f'"{MARK}"', f"#include <{MARK}>", f"#pragma {MARK}",
    f'_Pragma("{MARK}")', f'__asm__("{MARK}")', f"-o {MARK}", f"-f{MARK}", f"@{MARK}", f"../{MARK}",
    f"{MARK}(i)", f"A[i] {MARK}", f"{MARK} ", f" {MARK}", f"\t{MARK}", f"größe_{MARK}",
    f"Δ{MARK}", f"{MARK}\u0301", f"\u202e{MARK}", f"😀{MARK}", f"\ud800{MARK}", f"2{MARK}",
    f"{MARK}'", f"{MARK}''1", f"{MARK}.mul", f"ow.{MARK}", f"__{MARK}__", f"{MARK}" * 500,
)  # fmt: skip
KEYWORDS = (
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
    "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict",
    "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union",
    "unsigned", "void", "volatile", "while", "_Bool", "_Complex", "main", "kernel", "arrays",
    "sizes", "status", "stop", "threads", "part", "room", "int64_t", "i_size", "pA2", "R_vals",
    "A_pos2", "R", "W", "w", "A'", "A'1", "find", "search", "malloc", "defined", "errno",
)  # fmt: skip
NAMES = (*PAYLOADS, *KEYWORDS)
Use = Callable[[str], ow.Statement]


def as_tensors(name: str) -> ow.Statement:
    """`name` is what tensors are called."""
    i, j = ow.indices("i j")
    A = ow.tensor(np.arange(9.0).reshape(3, 3), format=ow.CSR, name=name)
    x = ow.tensor(np.arange(3.0), name=f"{name}'x")
    y = ow.empty(3, name=f"{name}'y")
    return ow.assign(y[i], A[i, j] * x[j])


def as_keywords(name: str) -> ow.Statement:
    """`name` is what the text of a statement calls its tensors."""
    A = ow.tensor(np.arange(9.0).reshape(3, 3), format=ow.CSR, name="A")
    tensors = {name: A, f"{name}x": ow.tensor(np.arange(3.0)), f"{name}y": ow.empty(3)}
    return ow.parse(f"{name}y(i) = {name}(i,j) * {name}x(j)", **tensors)


def as_variables(name: str) -> ow.Statement:
    """`name` is what index variables are called."""
    i, j = ow.index(name), ow.index(f"{name}2")
    A = ow.tensor(np.arange(9.0).reshape(3, 3), format=ow.CSR, name="A")
    x, y = ow.tensor(np.arange(3.0), name="x"), ow.empty(3, name="y")
    return ow.assign(y[i], A[i, j] * x[j])


def as_operators(name: str) -> ow.Statement:
    """`name` is what an operator is called; it multiplies."""
    times = ow.operator(name, lambda a, b: a * b, annihilator=0)
    return _with_operator(times)


def as_operators_by_hand(name: str) -> ow.Statement:
    """`name` is written over the checked name of an operator."""
    times = ow.operator("times", lambda a, b: a * b, annihilator=0)
    return _with_operator(replace(times, name=name))


def _with_operator(times: ow.Op) -> ow.Statement:
    i, j = ow.indices("i j")
    A = ow.tensor(np.arange(9.0).reshape(3, 3), format=ow.CSR, name="A")
    x, y = ow.tensor(np.arange(3.0), name="x"), ow.empty(3, name="y")
    return ow.assign(y[i], ow.sum(j, times(A[i, j], x[j])))


def as_semirings(name: str) -> ow.Statement:
    """`name` is what a semiring is called; it is the usual one."""
    plain = ow.semiring(name, "add", ow.operator("times", lambda a, b: a * b, annihilator=0), 0)
    i, j = ow.indices("i j")
    A = ow.tensor(np.arange(9.0).reshape(3, 3), format=ow.CSR, name="A")
    x, y = ow.tensor(np.arange(3.0), name="x"), ow.empty(3, name="y")
    return ow.assign(y[i], A[i, j] * x[j], semiring=plain)


USES: tuple[Use, ...] = (
    as_tensors, as_keywords, as_variables, as_operators, as_operators_by_hand, as_semirings
)  # fmt: skip


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_hostile_names_never_reach_the_code(use: Use) -> None:
    """Names are words of comments in the text that is shown, and nowhere in what is compiled."""
    harmless = use("plain").compile()
    accepted = 0
    for name in NAMES:
        try:
            kernel = use(name).compile()
        except OpenworkError as error:
            assert error.code != "E900", f"{name!r}: {error}"
            continue
        accepted += 1
        assert MARK not in kernel._latest.compiled.source, f"{name!r} is in the code"
        assert code(kernel.source) == code(harmless.source), f"{name!r} changes the code"
        assert kernel().to_numpy().tolist() == [5.0, 14.0, 23.0], repr(name)
        assert kernel.explain()
    assert accepted > 10, "hardly any name was tried to the end"


def test_there_are_many_hostile_names() -> None:
    assert len(NAMES) * len(USES) > 200
    assert len(set(NAMES)) == len(NAMES) > 100
    assert all(MARK in name for name in PAYLOADS)


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty kernel cache, and no library in memory."""
    monkeypatch.setenv("OPENWORK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(library, "_loaded", {})
    return tmp_path / "cache"


@pytest.mark.optimized
def test_names_reach_neither_the_compiler_nor_the_disk(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[str] = []
    run = subprocess.run

    def recording(arguments: Any, **options: Any) -> Any:
        assert not options.get("shell")
        commands.append(" ".join([*arguments, *map(str, options.get("env", {}).values())]))
        return run(arguments, **options)

    monkeypatch.setattr(toolchain.subprocess, "run", recording)
    monkeypatch.chdir(tmp_path)
    for use, name in product((as_tensors, as_semirings), PAYLOADS):
        use(name).compile()()
    assert commands
    assert not any(MARK in command for command in commands)
    files = [file for file in fresh_cache.rglob("*") if file.is_file()]
    assert any(file.name == cache.SOURCE for file in files)
    for file in files:
        assert MARK not in file.name
        assert MARK.encode() not in file.read_bytes(), file
    assert not list(tmp_path.glob(f"*{MARK}*"))


FORBIDDEN = (
    "-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-ffinite-math-only",
    "-fno-signed-zeros", "-freciprocal-math", "-fassociative-math", "-mdaz-ftz",
)  # fmt: skip


@pytest.mark.optimized
def test_no_flag_changes_what_numbers_mean(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_loaded", {})
    KERNELS.clear()
    as_tensors("A").compile()()
    B, C = (ow.tensor(np.eye(3), format=ow.CSR) for _ in range(2))
    _ = B + C, B @ C, (B * 2.5).sum()
    metas = list(fresh_cache.rglob(cache.META))
    assert len(metas) >= 4
    for meta in metas:
        flags = json.loads(meta.read_text())["flags"]
        assert "-O3" in flags
        assert not set(flags) & set(FORBIDDEN), flags


# --- The state of the processor ----------------------------------------------------------------


def test_subnormal_numbers_survive() -> None:
    tiny = 5e-324
    rounding = ctypes.CDLL(None).fegetround()
    x, y = ow.tensor(np.full(50_000, tiny), name="x"), ow.empty(50_000, name="y")
    A = ow.tensor(sparse.eye_array(50_000, format="csr"), name="A")
    result = ow.parse("y(i) = A(i,j) * x(j)", A=A, x=x, y=y).compile()().to_numpy()
    assert (result == tiny).all()
    doubled = ow.parse("y(i) = x(i) + x(i)", x=x, y=y).compile()().to_numpy()
    assert (doubled == tiny + tiny).all()
    assert tiny * 1 != 0
    assert np.full(3, tiny)[0] * np.float64(1) == tiny
    answers: list[float] = []
    other = threading.Thread(target=lambda: answers.append(tiny * 1))
    other.start()
    other.join()
    assert answers == [tiny]
    assert ctypes.CDLL(None).fegetround() == rounding
    assert np.float64(1) / np.float64(3) == float.fromhex("0x1.5555555555555p-2")


# --- Threads and processes ---------------------------------------------------------------------


def large_spmv() -> tuple[ow.Kernel, Array]:
    """A kernel with enough work for several threads, and its answer."""
    rng = np.random.default_rng(0)
    A = sparse.random_array((2000, 2000), density=0.01, format="csr", rng=rng)
    x = rng.random(2000)
    tensors = {"A": ow.tensor(A), "x": ow.tensor(x), "y": ow.empty(2000)}
    kernel = ow.parse("y(i) = A(i,j) * x(j)", **tensors).compile()
    answer = kernel().to_numpy()
    np.testing.assert_allclose(answer, A @ x)
    return kernel, answer


def test_one_kernel_in_many_threads() -> None:
    kernel, expected = large_spmv()
    A = ow.tensor(sparse.random_array((300, 300), density=0.02, format="csr", rng=1))
    B = ow.tensor(sparse.random_array((300, 300), density=0.02, format="csr", rng=2))
    adds = ow.parse("C(i,j) = A(i,j) + B(i,j)", A=A, B=B, C=ow.empty((300, 300), format=ow.CSR))
    add = adds.compile()
    total = add().to_scipy()
    wrong: list[str] = []

    def work() -> None:
        for turn in range(200):
            if kernel().to_numpy().tobytes() != expected.tobytes():
                wrong.append("SpMV")
            if turn % 4 == 0 and (add().to_scipy() != total).nnz:
                wrong.append("A + B")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_results_that_outgrow_int32_in_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(INT32_LIMIT, "value", 100)
    given = {
        name: ow.tensor(sparse.random_array((900, 900), density=0.2, format="csr", rng=n))
        for n, name in enumerate("AB")
    }
    add = ow.parse("C(i,j) = A(i,j) + B(i,j)", C=ow.empty((900, 900), format=ow.CSR), **given)
    kernel, barrier = add.compile(), threading.Barrier(4)
    outcomes: list[object] = []

    def work() -> None:
        barrier.wait()
        try:
            outcomes.append(kernel().nnz)
        except Exception as error:
            outcomes.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = (given["A"].to_scipy() + given["B"].to_scipy()).nnz
    assert outcomes == [expected] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_kernel_after_a_fork() -> None:
    kernel, expected = large_spmv()
    answer_end, child_end = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            first, second = kernel().to_numpy().tobytes(), kernel().to_numpy().tobytes()
            status = int(not first == second == expected.tobytes())
        finally:
            os.write(child_end, bytes([status]))
            os._exit(status)
    os.close(child_end)
    try:
        assert os.read(answer_end, 1) == b"\x00"
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        os.close(answer_end)
    np.testing.assert_array_equal(kernel().to_numpy(), expected)


# --- NaN and infinity --------------------------------------------------------------------------


def stored(shape: tuple[int, ...], format: Any, **entries: float) -> ow.Tensor:
    """A tensor with just these entries, zeros included: `_01=2.0` is entry (0, 1)."""
    coords = np.array([[int(c) for c in key[1:]] for key in entries]).T.reshape(len(shape), -1)
    return ow.tensor((coords, list(entries.values())), shape=shape, format=format)


SPARSE = pytest.mark.parametrize("format", [ow.CSR, ow.CSC, ow.DCSR, ow.DCSC], ids=repr)


@SPARSE
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_a_structural_zero_annihilates(format: ow.Format, bad: float) -> None:
    A = stored((2, 3), format, _00=2.0, _11=3.0)
    x = ow.tensor([1.0, 1.0, bad])
    y = ow.parse("y(i) = A(i,j) * x(j)", A=A, x=x, y=ow.empty(2)).compile()
    assert y().to_numpy().tolist() == [2.0, 3.0]
    B = stored((2, 3), format, _02=bad, _11=4.0)
    C = ow.parse("C(i,j) = A(i,j) * B(i,j)", A=A, B=B, C=ow.empty((2, 3), format=format)).compile()
    assert C().to_numpy().tolist() == [[0, 0, 0], [0, 12, 0]]
    assert C().nnz == 1


@SPARSE
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_a_stored_zero_does_not(format: ow.Format, bad: float) -> None:
    A = stored((2, 3), format, _00=2.0, _02=0.0, _11=3.0)
    x = ow.tensor([1.0, 1.0, bad])
    y = ow.parse("y(i) = A(i,j) * x(j)", A=A, x=x, y=ow.empty(2)).compile()
    np.testing.assert_array_equal(y().to_numpy(), [NAN, 3.0])
    B = stored((2, 3), format, _02=bad, _11=4.0)
    C = ow.parse("C(i,j) = A(i,j) * B(i,j)", A=A, B=B, C=ow.empty((2, 3), format=format)).compile()
    np.testing.assert_array_equal(C().to_numpy(), [[0, 0, NAN], [0, 12, 0]])


@SPARSE
def test_products_of_sparse_matrices_follow_the_same_rules(format: ow.Format) -> None:
    A = stored((2, 2), format, _00=1.0, _11=0.0)
    B = stored((2, 2), format, _00=NAN, _10=INF, _01=2.0)
    C = ow.parse("C(i,j) = A(i,k) * B(k,j)", A=A, B=B, C=ow.empty((2, 2), format=ow.CSR)).compile()
    np.testing.assert_array_equal(C().to_numpy(), [[NAN, 2.0], [NAN, 0.0]])


def test_sums_and_quotients_follow_ieee() -> None:
    a = stored((4,), ow.CSF(1), _0=INF, _1=NAN, _2=0.0)
    b = stored((4,), ow.CSF(1), _0=-INF, _2=INF, _3=1.0)
    total = ow.parse("c(i) = a(i) + b(i)", a=a, b=b, c=ow.empty(4, format=ow.CSF(1))).compile()
    np.testing.assert_array_equal(total().to_numpy(), [NAN, NAN, INF, 1.0])
    zeros = ow.tensor(np.zeros(4))
    ratio = ow.parse("c(i) = a(i) / z(i)", a=a, z=zeros, c=ow.empty(4)).compile()
    np.testing.assert_array_equal(ratio().to_numpy(), [INF, NAN, NAN, 0.0])
    smallest = ow.parse("s = min(i, a(i))", a=a, s=ow.empty(())).compile()
    assert np.isnan(smallest().item())


def test_signs_of_zero_are_kept() -> None:
    x = ow.tensor([-0.0, 0.0, -1.0])
    y = ow.parse("y(i) = x(i) * 0.0", x=x, y=ow.empty(3)).compile()().to_numpy()
    assert np.signbit(y).tolist() == [True, False, True]


# --- Memory ------------------------------------------------------------------------------------


def test_an_impossible_result_is_refused_at_once() -> None:
    million = 10**6
    b, c = ow.tensor(np.ones(million), name="b"), ow.tensor(np.ones(million), name="c")
    outer = ow.parse("Y(i,j) = b(i) * c(j)", b=b, c=c, Y=ow.placeholder("Y", 2)).compile()
    attempts: tuple[Callable[[], object], ...] = (
        outer,
        lambda: ow.empty((million, million)),
        lambda: ow.einsum("i,j->ij", b, c),
        lambda: ow.empty((million, million), format=ow.CSR).to(ow.dense(2)),
        ow.empty((million, million), format=ow.CSR).to_numpy,
    )
    for attempt in attempts:
        start = time.monotonic()
        with pytest.raises(MemoryError):
            attempt()
        assert time.monotonic() - start < 2


# --- Results are in order ----------------------------------------------------------------------

IN_ORDER = (
    "C(i,j) = A(i,j) + B(i,j)",
    "C(i,j) = A(i,j) * B(j,i)",
    "C(i,j) = A(i,k) * B(k,j)",
    "C(i,j) = A(k,i) * B(k,j)",
    "C(i,j) = A(i,k) * B(j,k)",
    "C(i,j) = A(i,k) * B(k,j) + A(i,j)",
    "C(i,j) = v(i) * v(j)",
    "C(j,i) = A(i,j) * v(j) + B(i,j)",
    "C(i,j) += A(j,k) * B(k,i)",
)


@pytest.mark.parametrize("text", IN_ORDER)
def test_results_have_no_entry_twice_and_none_out_of_order(text: str) -> None:
    formats = {"A": ow.CSR, "B": ow.DCSC, "C": ow.DCSR}
    matrices = {
        name: ow.tensor(sparse.random_array((40, 40), density=0.05, rng=n), format=format)
        for n, (name, format) in enumerate(formats.items())
    }
    v = ow.tensor(sparse.random_array((40,), density=0.2, rng=9), format=ow.CSF(1))
    used = {name: t for name, t in {**matrices, "v": v}.items() if f"{name}(" in text}
    kernel = ow.parse(text, **used).compile()
    for _ in range(3):
        result = kernel()
        validate(result.storage, "C")
        coords = result.to_coo()[0]
        linear = coords[0].astype(np.int64) * 40 + coords[1]
        assert (np.diff(linear) > 0).all()
