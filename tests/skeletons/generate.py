"""Random well-typed programs of patterns, and data for them.

A program grows by one function at a time, chosen by the type so far; the checker says which fit.
All numbers are small integers, so that sums are exact in any order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import numpy as np

from openwork import skeletons as sk
from openwork.errors import PatternError
from openwork.skeletons.language.check import Checker, settled
from openwork.skeletons.language.nodes import (
    ArrayType,
    Call,
    Fn,
    PairType,
    Signature,
    Type,
    composed,
)
from openwork.skeletons.parse import Reader

_ROW = "{toNat(o@(i+1)-o@i)}"
PARAMS = {
    "o": "[int]_{n+1}", "l": "[int]_n", "c": f"[i -> [int]_{_ROW}]_n",
    "R": f"[i -> [double]_{_ROW}]_n", "L": "[i -> [double]_{toNat(l@i)}]_n",
    "T": "[i -> [double]_{i+1}]_n", "P": f"[i -> [(int, double)]_{_ROW}]_n",
    "D": "[[double]_m]_n", "x": "[double]_m", "y": "[double]_n", "z": "[[double]_6]_4",
    "t": "[i -> [j -> [int]_{j+1}]_{i+1}]_n",
}  # fmt: skip
_NEEDS = {"c": "o", "R": "o", "P": "o", "L": "l"}


def _headed(text: str) -> str:
    """A text with the parameters that it mentions."""
    words = set(re.findall(r"\w+", text))
    used = words | {_NEEDS[word] for word in words if word in _NEEDS}
    head = [f"fun {name}: {type}. " for name, type in PARAMS.items() if name in used]
    return f"nFun n. nFun m. {''.join(head)}{text}"


def parsed(text: str) -> sk.Program:
    """The program of an expression, with the parameters that it mentions."""
    return sk.parse(_headed(text))


@cache
def _source(text: str) -> Type:
    return parsed(text).result


@cache
def _fn(text: str) -> Fn:
    """The function that a text means, which nobody has checked."""
    body = Reader(_headed(f"x :>> {text}")).program().body
    fns = list[Fn]()
    while isinstance(body, Call):
        fns.insert(0, body.fn)
        body = body.arg
    return composed(*fns)


@cache
def _all() -> Signature:
    return Reader(_headed(f"{' + '.join(PARAMS)}")).program()


def _after(type: Type, text: str) -> Type:
    """The type of what a function makes of a value: whole programs take longer to check.

    The type has names from another checker, which this one must not take for its own.
    """
    checker = Checker(_all())
    checker._count = 1 + max([0, *map(int, re.findall(r"\.(\d+)", str(type)))])
    env = dict(zip(_all().params, _all().types, strict=True))
    fn = _fn(text)
    return settled(checker.filled(checker.applied(fn, type, env, fn)))


SOURCES = (
    "R", "L", "T", "P", "D", "x", "y", "z", "c", "t", "zip(c, R)", "zip(y, R)", "zip(T, L)",
    "iota(n)", "generate(n, nFun(i => T@i@0 + y@i))", "generate(m, nFun(i => x@i * i))",
    "generate(m, nFun(j => generate(n, nFun(i => D@i@j))))",
    "generate(n, nFun(j => generate(j + 1, nFun(i => T@j@i * y@i))))",
    "generate(6, nFun(k => generate(n, nFun(j => generate(j + 1, nFun(i => t@j@i@0 + z@3@k))))))",
)  # fmt: skip
NUMBER = ("map(fun(e => e + 1))", "map(fun(e => e * 2 - 3))", "map(fun(e => max(e, 1)))",
          "map(neg)", "map(fun(e => e % 3 + e // 2))",
          "map(fun(e => select(e < 2, e, 0)))")  # fmt: skip
FOLDS = ("reduce(+, 0)", "reduceSeq(+, 1)", "reduce(max, -9)", "reduce(min, 9)",
         "reduceSeq(fun(a => fun(b => a * 2 % 7 + b)), 3)", "reduce(+, 5)",
         "reduceSeq(fun(p => max(p.1, p.2)), 0)")  # fmt: skip
CUTS = ("split(1)", "split(2)", "split(3)", "slide(2)", "slide(3, 2)", "slide(1)")
LETS = ("fun(r => r :>> reduce(+, 0) :>> fun(s => r :>> map(fun(e => e - s))))",
        "fun(r => zip(r, r) :>> map(*))",
        "fun(r => zip(r, r :>> map(neg)) :>> map(fun(p => p.1 - p.2)))",
        "fun(r => r :>> split(2) :>> join)")  # fmt: skip
PAIRS = ("map(fun(p => p.2))", "map(fun(p => p.1 + p.2))", "map(+)",
         "map(fun(p => (p.2, p.1 * 2)))", "map(fun(p => p.2 * x@p.1))",
         "map(fun(p => ((p.1, p.2), p.1)))", "map(fun(p => (p.2, (p.2, p.1))))",
         "map(fun(p => p.1.2 - p.2))", "map(fun(p => (p.2.1, p.1 + p.2.2)))",
         "reduceSeq(fun(a => fun(p => (a.1 + p.1, max(a.2, p.2)))), (0, 0))")  # fmt: skip
ROWS = ("join", "transpose", "split(2)", "split(3)")


@dataclass(frozen=True)
class Case:
    """A program, and its data as nested lists and as arguments."""

    text: str
    program: sk.Program

    def __str__(self) -> str:
        return self.text


def program(random: Random, cuts: int = 3) -> Case:
    """A random program of at most so many cuts: each makes the lengths below it longer."""
    while True:
        text = random.choice(SOURCES)
        type = _source(text)
        for _ in range(random.randrange(1, 6)):
            for _ in range(8):
                step = _function(random, type, 0)
                longer = f"{text} :>> {step}"
                if len(re.findall(r"split\(|slide\(", longer)) > cuts:
                    continue
                try:
                    type = _after(type, step)
                except PatternError:
                    continue
                text = longer
                break
        if not _is_mixed(type):
            return Case(text, parsed(text))


def _function(random: Random, type: Type, depth: int) -> str:
    """A function that may suit a type."""
    if not isinstance(type, ArrayType):
        return random.choice(
            ("fun(s => s)", "fun(s => s * 2)", "fun(s => (s, s))", "fun(s => s.1)")
        )
    element = type.element
    if isinstance(element, ArrayType):
        if depth < 3 and random.random() < 0.7:
            return f"map({_function(random, element, depth + 1)})"
        return random.choice(ROWS)
    if isinstance(element, PairType):
        if isinstance(element.first, ArrayType) or isinstance(element.second, ArrayType):
            return random.choice((
                "map(fun(p => zip(p.1, p.2)))", "map(fun(p => p.2))",
                "map(fun(p => p.2 :>> map(fun(e => e * p.1))))", "map(fun(p => p.1))",
                "map(fun(p => zip(p.1, p.2) :>> map(fun(q => q.2 * x@q.1)) :>> reduce(+, 0)))",
            ))  # fmt: skip
        return random.choice((*PAIRS, *CUTS))
    return random.choice((*NUMBER, *FOLDS, *FOLDS, *CUTS, *LETS))


def _is_mixed(type: Type) -> bool:
    """Whether a result has pairs, which only the compiled tests read back."""
    match type:
        case ArrayType(element=element):
            return _is_mixed(element)
    return isinstance(type, PairType)


@dataclass(frozen=True)
class Data:
    """Arguments of a call, and the same as nested lists."""

    call: dict[str, Any]
    nested: dict[str, Any]
    nats: dict[str, int]


def data(random: Random) -> Data:
    """Data for all programs."""
    rng = np.random.default_rng(random.randrange(1 << 30))
    n, m = random.choice((1, 2, 3, 5)), random.choice((1, 2, 4))
    lengths = rng.integers(0, 4, n)
    own = rng.integers(0, 4, n)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype("int32")

    def rows(sizes: Any, high: int = 5, type: str = "float64") -> list[Any]:
        return [rng.integers(0, high, size).astype(type) for size in sizes]

    c, packed = rows(lengths, m, "int32"), rows(lengths, m, "int32")
    values = rows(lengths)
    dense: dict[str, Any] = {
        "D": rng.integers(0, 5, (n, m)).astype("float64"), "x": rng.integers(0, 5, m).astype(float),
        "y": rng.integers(0, 5, n).astype(float), "z": rng.integers(0, 5, (4, 6)).astype(float),
        "o": offsets, "l": own.astype("int32"),
    }  # fmt: skip
    ragged = {"c": c, "R": rows(lengths), "L": rows(own), "T": rows(range(1, n + 1))}
    three = [rows(range(1, i + 2), 5, "int32") for i in range(n)]
    flat = {k: np.concatenate([*v, np.empty(0, v[0].dtype)]) for k, v in ragged.items()}
    call = {
        **dense, **flat, "n": n, "m": m, "t": np.concatenate([r for row in three for r in row]),
        "P": sk.pairs(*(np.concatenate(v) for v in (packed, values))),
    }  # fmt: skip
    nested = {k: v.tolist() for k, v in dense.items()} | {
        k: [row.tolist() for row in v] for k, v in ragged.items()
    }
    nested["t"] = [[r.tolist() for r in row] for row in three]
    nested["P"] = [
        list(zip(a.tolist(), b.tolist(), strict=True)) for a, b in zip(packed, values, strict=True)
    ]
    return Data(call, nested, {"n": n, "m": m})


def flattened(value: Any) -> list[float]:
    """The numbers of nested lists, row after row."""
    if isinstance(value, list):
        return [v for each in value for v in flattened(each)]
    return [float(value)]
