"""Random statements with random data. The same state of the generator gives the same case.

A statement is drawn freely and kept if it is legal and `Analysis` finds that C and NumPy have to
agree on it: nothing undefined is computed, and nothing is compared or truncated that was rounded.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

import numpy as np
from tests.random.analysis import Analysis, Unsafe
from tests.random.entries import spelled, stored

from openwork.algebra import operators as ops
from openwork.algebra.entries import Entry
from openwork.algebra.operators import Op, Semiring
from openwork.algebra.types import (
    SUPPORTED,
    DType,
    Number,
    as_element,
    as_numbers,
    number,
    promote,
)
from openwork.errors import ParseError
from openwork.format.formats import Format, dense
from openwork.format.layouts import AOS
from openwork.format.levels import (
    Bitmap,
    Compressed,
    Dense,
    Diagonals,
    Hashed,
    Lengths,
    Padded,
    Permuted,
    Range,
    Singleton,
    Sliced,
)
from openwork.index.checks import check, extents
from openwork.index.einstein import explicit
from openwork.index.nodes import (
    Access,
    Apply,
    Assignment,
    Cast,
    Expr,
    IndexVar,
    Literal,
    Reduce,
    TensorVar,
    apply,
)
from openwork.index.semiring import semiring_named, under
from openwork.index.show import show
from openwork.index.terms import as_expr
from openwork.runtime.reference import Masked, evaluate, masked_to_coo
from openwork.runtime.storage import Array, Storage
from openwork.tensor.convert.pack import pack, unpack
from openwork.tree import walk


def _loose(format: Format) -> bool:
    """Whether the coordinates of the last level may come in any order."""
    return bool(format.levels) and not format.levels[-1].ordered


def _disordered(given: Storage) -> Storage:
    """`given` with the entries of each last run the other way around, if its format allows it."""
    if not _loose(given.format):
        return given
    last = dict(given.levels[-1])
    runs = zip(last["pos"][:-1], last["pos"][1:], strict=True)
    turned = [p for begin, end in runs for p in range(end - 1, begin - 1, -1)]
    last["crd"] = last["crd"][turned]
    return replace(
        given,
        levels=(*given.levels[:-1], last),
        values=given.elements[turned].view(given.values.dtype),
    )


class Operand(NamedTuple):
    """A tensor with its data written out; `present` is what its format really stores."""

    values: Array
    present: Array
    shape: tuple[int, ...]
    format: Format
    dtype: DType
    fill: Number

    @property
    def masked(self) -> Masked:
        return Masked(self.values, self.present)

    def storage(self) -> Storage:
        coords, values = masked_to_coo(self.masked)
        made = pack(coords, values, self.shape, self.format.with_layout(AOS), self.fill)
        return _disordered(made).laid_out(self.format.layout)

    def spelled(self, name: str) -> str:
        """A line of Python that makes the tensor."""
        if _loose(self.format):
            made = self.storage()
            levels = [tuple(a.tolist() for a in level.values()) for level in made.levels]
            data = f"{levels}, {self._listed(made.elements)}"
            keywords = f'fill={self.fill!r}, name="{name}"'
            return f"{name} = ow.from_arrays({self.format!r}, {self.shape}, {data}, {keywords})"
        coords, values = masked_to_coo(self.masked)
        entries = f"np.array({coords.tolist()}, int).reshape({coords.shape})"
        data = self._listed(values)
        keywords = f"shape={self.shape}, format={self.format!r}, fill={self.fill!r}"
        return f'{name} = ow.tensor(({entries}, {data}), {keywords}, name="{name}")'

    def _listed(self, values: Array) -> str:
        kind = (
            f"{spelled(self.dtype)}.dtype" if isinstance(self.dtype, Entry) else f'"{self.dtype}"'
        )
        return f"np.array({values.tolist()}, {kind})"


@dataclass(frozen=True)
class Case:
    """A statement with data; `atol` bounds by how much two right answers can differ."""

    assignment: Assignment
    explicit: Assignment  # the same with its reductions written out
    extents: dict[IndexVar, int]
    tensors: dict[str, Operand]
    result: Operand  # before the statement runs
    text: str
    atol: float

    def expected(self) -> Masked:
        """The answer of the reference evaluator."""
        operands = {name: tensor.masked for name, tensor in self.tensors.items()}
        return evaluate(self.explicit, operands, self.extents, self.result.masked)

    @property
    def has_records(self) -> bool:
        """Whether elements are records."""
        each = (self.result, *self.tensors.values())
        return any(isinstance(tensor.dtype, Entry) for tensor in each)

    def reproducer(self, schedule: str = "") -> str:
        """A program that compiles and runs the case, under a schedule, with the public names."""
        name, keep = self.assignment.lhs.tensor.name, self.assignment.op is not None
        result = self.result if keep else self.result._replace(present=self.result.present & False)
        made = {name: result, **self.tensors}
        return "\n".join(
            [
                "import numpy as np",
                "from numpy import inf, nan",
                "import openwork as ow",
                *(["from tests.random.entries import element_type"] if self.has_records else []),
                *(tensor.spelled(each) for each, tensor in made.items()),
                f"stmt = ow.parse({self.text!r}, {', '.join(f'{n}={n}' for n in made)})",
                *([f"stmt = stmt.schedule({schedule!r})"] if schedule else []),
                f"print(stmt.compile()({f'out={name}' if keep else ''}).to_numpy())",
            ]
        )


def random_case(
    rng: random.Random,
    *,
    max_order: int = 4,
    nonfinite: bool = False,
    formats: random.Random | None = None,
    integers: random.Random | None = None,
) -> Case:
    """Draw a case; with `nonfinite`, a sum of products of data that holds NaN and infinities.

    `formats`: draws formats with levels other than dense and compressed ones, too. `integers`:
    draws operators of bits, whole quotients and powers, and integers more often.
    """
    for _ in range(1000):
        try:
            return Draw(rng, max_order, nonfinite, formats, integers).case()
        except (ParseError, Unsafe):
            continue
    raise AssertionError("no legal statement in 1000 draws")


def long_sum(rng: random.Random, formats: random.Random | None = None) -> Case:
    """Draw a sum of 5 to 12 terms: operands, and products of two, mostly of one shape."""
    for _ in range(1000):
        try:
            return _LongSum(rng, 3, False, formats, None).case()
        except (ParseError, Unsafe):
            continue
    raise AssertionError("no legal sum in 1000 draws")


def assert_agrees(
    values: Array,
    present: Array | None,
    expected: Masked,
    dtype: DType,
    *,
    atol: float = 0.0,
    same_pattern: bool = False,
) -> None:
    """Fail unless the values are those expected, and every entry expected is present.

    Integers and bools must be equal, floats nearly so; a NaN equals a NaN. A kernel may store
    entries that the reference does not have, as long as they hold the absent value, unless
    `same_pattern` is asked for.
    """
    kind = stored(dtype)
    assert values.dtype == kind, f"element type {values.dtype}, expected {kind}"
    assert values.shape == expected.values.shape
    made, wanted = as_numbers(values), as_numbers(expected.values.astype(kind))
    rtol = 0.0 if made.dtype.kind in "biu" else 64 * float(np.finfo(made.dtype).eps)
    np.testing.assert_allclose(made, wanted, rtol=rtol, atol=atol, equal_nan=True)
    if present is None:
        return
    missing = expected.present & ~present
    assert not missing.any(), f"entries are missing at {np.argwhere(missing).tolist()}"
    extra = present & ~expected.present
    assert not (same_pattern and extra.any()), f"entries too many: {np.argwhere(extra).tolist()}"


# --- Drawing ---------------------------------------------------------------------------------

_UNARY = (ops.NEG, ops.ABS, ops.EXP, ops.SIN, ops.COS, ops.TANH, ops.FLOOR, ops.CEIL, ops.CONJ,
          ops.REAL, ops.IMAG, ops.NOT)  # fmt: skip
_COMPARISONS = (ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE)
_LITERALS = (0, 1, 2, 3, -1, 0.5, 2.0, -1.5, 0.0, 1.0, True)
_SEMIRINGS = (
    *(ops.MIN_PLUS, ops.MAX_PLUS, ops.OR_AND, ops.MAX_TIMES),
    *map(
        semiring_named, ("min_second", "plus_pair", "any_pair", "max_min", "lor_land", "min_first")
    ),
    *map(semiring_named, ("plus_plus", "plus_second", "lxor_pair", "times_minus", "max_rminus")),
)
_SEMIRING_TYPES = ("float64", "float32", "int32", "int64")
_LEVELS = (Dense, Dense, Compressed, Compressed, Hashed, Lengths, Padded, Sliced(2), Range, Bitmap,
           Compressed(bits=8), Compressed(bits=16))  # fmt: skip
_SMALL = (1, 1, 2, 2, 3, 3, 4, 5)


def unusual_format(modes: list[int], rng: random.Random) -> Format:
    """A format with any of the levels, perhaps in blocks, perhaps ending in coordinates."""
    tiles = [rng.choice((0, 0, 2, 3)) if rng.random() < 0.3 else 0 for _ in modes]
    order = [*modes, *(m for m in modes if tiles[m])]
    levels = [rng.choice(_LEVELS) for _ in order]
    first = rng.randrange(len(order)) if order and rng.random() < 0.3 else len(order)
    if len(order) - first > 1:  # a list of coordinates from here on
        inner = [Singleton(unique=False)] * (len(order) - first - 2)
        levels[first:] = [Compressed(unique=False), *inner, Singleton]
    elif levels and levels[-1] == Compressed and rng.random() < 0.4:
        levels[-1] = Compressed(ordered=False)
    if levels and first and not tiles[modes[0]] and rng.random() < 0.15:
        levels[0] = Permuted(3)
    if len(order) == 2 and not any(tiles) and rng.random() < 0.15:
        levels = [Dense, Diagonals]
    return Format(levels, order, tiles)


def sometimes_ternary(data: Operand, rng: random.Random | None) -> Operand:
    """An operand, or one with -1, 0 and 1 in the bits of its coordinates."""
    if rng is None or not _can_be_ternary(data) or rng.random() < 0.8:
        return data
    return always_ternary(data)


def _can_be_ternary(data: Operand) -> bool:
    signed = not isinstance(data.dtype, Entry) and data.dtype.kind in "if"
    return signed and data.format.packed_array is not None and data.fill in (-1, 0, 1)


def always_ternary(data: Operand) -> Operand:
    """An operand with the signs of its elements in the bits of its coordinates, if it has any."""
    if not _can_be_ternary(data):
        return data
    signs = np.sign(np.nan_to_num(data.values)).astype(data.dtype)
    return data._replace(values=signs, format=data.format.with_layout("ternary"))


def with_some_layout(format: Format, dtype: DType, rng: random.Random | None) -> Format:
    """A format in one of the layouts that it has for elements of a type."""
    if rng is None or rng.random() < 0.7:
        return format
    layouts = ["packed"] if format.packed_array else []
    layouts += ["SoA", "AoSoA(2)", "AoSoA(8)"] if isinstance(dtype, Entry) else []
    return format.with_layout(rng.choice(layouts)) if layouts else format


Form = Callable[["Draw", int], Expr]


class Draw:
    """One attempt: the variables, the accesses that leaves are taken from, and their data."""

    def __init__(
        self,
        rng: random.Random,
        max_order: int,
        nonfinite: bool,
        other: random.Random | None,
        integers: random.Random | None,
    ) -> None:
        self.rng, self.max_order, self.nonfinite, self.other = rng, max_order, nonfinite, other
        self.integers = None if nonfinite else integers
        self.semiring: Semiring | None = None
        if not nonfinite and rng.random() < 0.08:
            self.semiring = rng.choice(_SEMIRINGS)
        count = rng.choices((1, 2, 3, 4, 5, 6), (12, 25, 30, 20, 7, 6))[0]
        self.vars = [IndexVar(name) for name in "ijklmn"[:count]]
        sizes = (0, 1, 2, 3, 4, 5, 6) if count < 5 else (1, 2, 2, 3, 3, 3, 3)
        drawn = rng.choices(sizes, (3, 8, 22, 25, 20, 15, 7), k=count)
        square = rng.random() < 0.3
        self.extents = {v: drawn[0] if square else n for v, n in zip(self.vars, drawn, strict=True)}
        self.base = self.dtype()
        self.tensors: dict[str, Operand] = {}
        names = "ABCD"[: rng.choices((1, 2, 3, 4), (12, 30, 34, 24))[0]]
        self.pool = [self.operand(name) for name in names]
        self.unused = list(self.pool)

    def dtype(self) -> DType:
        if self.semiring is not None:
            names = ("bool",) if self.semiring.zero is False else _SEMIRING_TYPES
            return SUPPORTED[self.rng.choice(names)]
        if self.nonfinite:
            return SUPPORTED[self.rng.choice(("float64", "float64", "float32"))]
        if self.integers is not None and self.integers.random() < 0.7:
            whole = [t for t in SUPPORTED.values() if t.kind in "biu"]
            return self.integers.choice(whole)
        weights = [30 if name == "float64" else 5 if name == "float32" else 3 for name in SUPPORTED]
        return SUPPORTED[self.rng.choices(list(SUPPORTED), weights)[0]]

    def format(self, order: int) -> Format:
        levels = [Compressed if self.rng.random() < 0.55 else Dense for _ in range(order)]
        natural = self.rng.random() < 0.65
        modes = list(range(order)) if natural else self.rng.sample(range(order), order)
        if self.other is None or self.other.random() < 0.6:
            return Format(levels, modes)
        return unusual_format(modes, self.other)

    def result_format(self, order: int) -> Format:
        """Often with unsorted coordinates, which a result may be assembled in."""
        made = self.format(order)
        if self.other is None or any(made.tiles) or made.levels[-1:] != (Compressed,):
            return made
        if self.other.random() < 0.6:
            return made
        return Format([*made.levels[:-1], Compressed(ordered=False)], made.order)

    def variables(self, order: int) -> tuple[IndexVar, ...]:
        if self.rng.random() < 0.08:
            return tuple(self.rng.choices(self.vars, k=order))
        return tuple(self.rng.sample(self.vars, min(order, len(self.vars))))

    def operand(self, name: str) -> Access:
        """A new tensor, and an access to it."""
        order = min(self.rng.choices((0, 1, 2, 3, 4), (5, 25, 42, 19, 9))[0], self.max_order)
        variables = self.variables(order)
        unified = self.semiring is not None or self.rng.random() < 0.8
        dtype = self.base if unified else self.dtype()
        fill: Number = self.rng.choice((1, 2)) if self.rng.random() < 0.04 else 0
        if isinstance(dtype, Entry) and not dtype.has(fill):
            fill = 0
        if self.semiring is not None:  # else it is a 0 that `under` gives another meaning
            fill = self.rng.choice((0, self.semiring.zero))
        shape = tuple(self.extents[v] for v in variables)
        data = self.data(shape, self.format(len(variables)), dtype, number(fill, dtype))
        if self.semiring is None:  # the zeros of others may become infinities that are stored
            data = sometimes_ternary(data, self.other)
        self.tensors[name] = data
        return Access(TensorVar(name, data.format, dtype, data.fill, shape), variables)

    def data(self, shape: tuple[int, ...], format: Format, dtype: DType, fill: Number) -> Operand:
        """Random entries, closed under the format: a dense level below an entry is all there."""
        format = with_some_layout(format, dtype, self.other)
        density = self.rng.choice((0.0, 0.1, 0.3, 0.5, 0.8, 1.0))
        size = prod(shape)
        given = np.array([self.rng.random() < density for _ in range(size)], bool).reshape(shape)
        values = np.full(shape, as_element(fill, dtype))
        drawn = np.array([self.value(dtype) for _ in range(size)], stored(dtype)).reshape(shape)
        values[given] = drawn[given]
        kept = given if not format.is_dense else np.ones(shape, bool)
        coords = np.argwhere(kept).T.reshape(len(shape), int(kept.sum()))
        places, _ = unpack(pack(coords, values[kept].reshape(-1), shape, format, fill))
        present = np.zeros(shape, bool)
        present[tuple(places)] = True
        return Operand(values, present, shape, format, dtype, fill)

    def value(self, dtype: DType) -> Number:
        """A small number, so that sums and products of a few stay exact; sometimes a zero."""
        if self.rng.random() < 0.08:
            return 0
        size = self.rng.choice(_SMALL)
        negative = dtype.kind in "ifc" and self.semiring is not ops.MAX_TIMES
        sign = -1 if negative and self.rng.random() < 0.35 else 1
        if dtype.kind == "f" and self.nonfinite and self.rng.random() < 0.15:
            return sign * self.rng.choice((float("inf"), float("nan")))
        if dtype.kind == "c":
            return complex(sign * size, self.rng.choice((-2, -1, 0, 0, 1, 3)))
        if dtype.kind == "f" and self.rng.random() < 0.2:
            return sign * (size + 0.5)
        return self.rng.random() < 0.7 if dtype.kind == "b" else sign * size

    def access(self) -> Access:
        """An access of the pool, one after the other; sometimes with other variables that fit."""
        if self.unused and self.rng.random() < 0.8:
            return self.unused.pop()
        known = self.rng.choice(self.pool)
        if self.rng.random() < 0.12:
            others = self.variables(known.tensor.ndim)
            if tuple(self.extents[v] for v in others) == known.tensor.shape:
                return Access(known.tensor, others)
        return known

    def leaf(self) -> Expr:
        kind = 0.0 if self.nonfinite or self.semiring else self.rng.random()
        if kind < 0.82:
            return self.access()
        if kind < 0.94:
            value = self.rng.choice(_LITERALS)
            return as_expr(np.float32(value) if self.rng.random() < 0.05 else value)
        return self.rng.choice(self.vars)

    def sub(self, depth: int) -> Expr:
        return self.leaf() if depth <= 0 or self.rng.random() < 0.2 else self.tree(depth)

    def tree(self, depth: int) -> Expr:
        forms, rng = _FORMS, self.rng
        if self.integers is not None and self.integers.random() < 0.4:
            forms, rng = _INTEGER_FORMS, self.integers
        form = rng.choices([form for form, _ in forms], [weight for _, weight in forms])[0]
        return form(self, depth - 1)

    def sum_of_products(self) -> Expr:
        total: Expr | None = None
        for _ in range(self.rng.choices((1, 2, 3), (4, 4, 3))[0]):
            term = self.leaf()
            for _ in range(self.rng.choices((0, 1, 2), (3, 4, 3))[0]):
                term = apply(ops.MUL, term, self.leaf())
            minus = self.semiring is None and self.rng.random() < 0.25
            sign = ops.SUB if minus else ops.ADD
            total = term if total is None else apply(sign, total, term)
        assert total is not None
        return total

    def reduction(self, depth: int) -> Expr:
        body = self.sub(depth)
        inside = [v for v in _variables(body) if self.rng.random() < 0.95] or self.vars
        op = self.rng.choices((ops.ADD, ops.MIN, ops.MAX, ops.MUL, ops.OR), (8, 3, 3, 1, 1))[0]
        if self.integers is not None and body.dtype.kind in "iu":
            op = self.integers.choice((op, *_BITS))
        return Reduce(op, self.rng.choice(inside), body)

    def case(self) -> Case:
        """The statement around the expression; raises when it is not one to keep."""
        flat = self.nonfinite or self.semiring is not None or self.rng.random() < 0.45
        rhs = self.sum_of_products() if flat else self.tree(self.rng.choice((1, 2, 2, 3, 3)))
        bound = {n.var for n in walk(rhs) if isinstance(n, Reduce)}
        accesses = [n for n in walk(rhs) if isinstance(n, Access)]
        if not accesses and self.rng.random() < 0.9:
            raise Unsafe
        used = dict.fromkeys(v for access in accesses for v in access.vars)
        free = [v for v in used if v not in bound]
        most = min(len(free), self.max_order)
        order = min(self.rng.choices((0, 1, 2, 3, 4), (10, 25, 35, 19, 11))[0], most)
        lhs_vars = tuple(self.rng.sample(free, order))
        if not flat and self.rng.random() < 0.6:  # the convention would ask where to sum
            for var in free:
                rhs = rhs if var in lhs_vars else Reduce(ops.ADD, var, rhs)
        result_format, op = self.result_format(order), None
        if self.rng.random() < 0.15:
            result_format = dense(order, tuple(dict.fromkeys(result_format.order)))
            least = 0 if self.nonfinite else 1
            op = self.rng.choices((ops.ADD, ops.MIN, ops.MAX), (4, least, least))[0]
        dtype = rhs.dtype
        if op is not None or self.rng.random() < 0.2:
            dtype = promote(dtype, self.dtype())
        shape = tuple(self.extents[v] for v in lhs_vars)
        fill = 0 if self.semiring is None else self.semiring.zero
        dtype = self.result_type(rhs, dtype, op)
        result = self.data(shape, result_format, dtype, number(fill, dtype))
        if op is None and set(used) == set(lhs_vars) and self.is_ternary(rhs):
            result = always_ternary(result)
        tensor = TensorVar("Y", result.format, dtype, result.fill, shape)
        assignment = Assignment(Access(tensor, lhs_vars), rhs, op)
        if self.semiring is not None:
            assignment = under(self.semiring, assignment)
        return self.kept(assignment, result)

    def result_type(self, rhs: Expr, dtype: DType, op: Op | None) -> DType:
        """The type of a result that is `dtype` otherwise."""
        return dtype

    def is_ternary(self, expr: Expr) -> bool:
        """Whether elements are -1, 0 and 1 whatever the data: products of ternary tensors."""
        match expr:
            case Access(tensor=tensor):
                return self.tensors[tensor.name].format.layout == "ternary"
            case Apply(op=op, args=args):
                return op in (ops.MUL, ops.NEG, ops.MIN, ops.MAX) and all(
                    map(self.is_ternary, args)
                )
        return False

    def kept(self, assignment: Assignment, result: Operand) -> Case:
        check(assignment)
        written_out = explicit(assignment)
        known = {v: n for v, n in extents(assignment).items() if n is not None}
        reads = [n.tensor for n in walk(assignment.rhs) if isinstance(n, Access)]
        used = {tensor.name: tensor.fill for tensor in reads}
        tensors = {name: self.tensors[name]._replace(fill=fill) for name, fill in used.items()}
        result = result._replace(fill=assignment.lhs.tensor.fill)
        atol = self.tolerance(tensors, known, written_out, result)
        return Case(assignment, written_out, known, tensors, result, show(assignment), atol)

    def tolerance(
        self,
        tensors: dict[str, Operand],
        known: dict[IndexVar, int],
        written_out: Assignment,
        result: Operand,
    ) -> float:
        """By how much right answers may differ; raises `Unsafe` if there is no telling."""
        return Analysis(tensors, known).tolerance(written_out, result)


class _LongSum(Draw):
    """A sum of many operands, whose cases cannot all be told apart."""

    def __init__(
        self,
        rng: random.Random,
        max_order: int,
        nonfinite: bool,
        other: random.Random | None,
        integers: random.Random | None,
    ) -> None:
        super().__init__(rng, max_order, nonfinite, other, integers)
        self.shared = tuple(self.vars[:3])
        self.tensors.clear()
        self.pool = [self.operand(name) for name in "ABCDEFGHIJKL"[: rng.randint(5, 12)]]
        self.unused = list(self.pool)

    def result_format(self, order: int) -> Format:
        """Often with unsorted coordinates, which a result may be assembled in."""
        made = self.format(order)
        if self.other is None or any(made.tiles) or made.levels[-1:] != (Compressed,):
            return made
        if self.other.random() < 0.6:
            return made
        return Format([*made.levels[:-1], Compressed(ordered=False)], made.order)

    def variables(self, order: int) -> tuple[IndexVar, ...]:
        shared = getattr(self, "shared", None)
        if shared is None or self.rng.random() < 0.1:
            return super().variables(order)
        return tuple(shared)

    def sum_of_products(self) -> Expr:
        total: Expr = self.unused.pop()
        while self.unused:
            term: Expr = self.unused.pop()
            if self.unused and self.rng.random() < 0.2:
                term = apply(ops.MUL, term, self.unused.pop())
            minus = self.semiring is None and self.rng.random() < 0.2
            total = apply(ops.SUB if minus else ops.ADD, total, term)
        if self.semiring is None and self.rng.random() < 0.1:
            total = apply(ops.MUL, self.rng.choice(self.pool), total)
        return total

    def tree(self, depth: int) -> Expr:
        return self.sum_of_products()


def _variables(expr: Expr) -> list[IndexVar]:
    return list(dict.fromkeys(n for n in walk(expr) if isinstance(n, IndexVar)))


def _compare(draw: Draw, depth: int) -> Expr:
    return apply(draw.rng.choice(_COMPARISONS), draw.sub(depth), draw.sub(depth))


def _power(draw: Draw, depth: int) -> Expr:
    base = draw.sub(depth)
    exponent = draw.rng.choice((-1, 0, 1, 2, 3) if base.dtype.kind == "i" else (0, 1, 2, 3))
    return apply(ops.POW, base, Literal(abs(exponent)))


def _absolute(draw: Draw, depth: int) -> Expr:
    return apply(ops.ABS, draw.sub(depth))


def _above(draw: Draw, depth: int) -> Expr:
    return apply(ops.ADD, _absolute(draw, depth), Literal(1))


def _of_two(*operators: Op) -> Form:
    return lambda d, n: apply(d.rng.choice(operators), d.sub(n), d.sub(n))


def _of_both(op: Op) -> Form:
    return lambda d, n: apply(op, d.sub(n), d.sub(n))


_FORMS: tuple[tuple[Form, int], ...] = (
    (_of_both(ops.MUL), 30),
    (_of_both(ops.ADD), 20),
    (_of_both(ops.SUB), 10),
    (lambda d, n: apply(ops.DIV, d.sub(n), _above(d, n)), 4),
    (lambda d, n: apply(ops.DIV, d.sub(n), d.leaf()), 4),
    (lambda d, n: apply(d.rng.choice(_UNARY), d.sub(n)), 12),
    (lambda d, n: apply(ops.SQRT, _absolute(d, n)), 4),
    (lambda d, n: apply(ops.LOG, _above(d, n)), 2),
    (_of_two(ops.MIN, ops.MAX), 8),
    (_of_two(ops.AND, ops.OR, ops.XOR), 2),
    (_compare, 4),
    (lambda d, n: apply(ops.SELECT, _compare(d, n - 1), d.sub(n), d.sub(n)), 4),
    (lambda d, n: apply(ops.SELECT, d.access(), d.sub(n), d.sub(n)), 2),
    (_power, 4),
    (lambda d, n: Cast(d.dtype(), d.sub(n)), 4),
    (Draw.reduction, 8),
)
_BITS = (ops.BITWISE_AND, ops.BITWISE_OR, ops.BITWISE_XOR)
# Those of integers, which a generator of their own asks for: other cases stay as they were.
_INTEGER_FORMS: tuple[tuple[Form, int], ...] = (
    (_of_two(*_BITS), 6),
    (_of_two(ops.LEFT_SHIFT, ops.RIGHT_SHIFT), 3),
    (_of_two(ops.FLOOR_DIVIDE, ops.REMAINDER), 4),
    (lambda d, n: apply(ops.POW, d.sub(n), _absolute(d, n)), 1),
    (lambda d, n: apply(ops.INVERT, d.sub(n)), 2),
    (_compare, 2),
)
