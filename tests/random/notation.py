"""Random statements whose accesses have constants, offsets, strides, windows, gathers and borders.

Elements are small integers, of which every operator here has the exact value, so NumPy's arrays
over all variables are the reference.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.random.generate import unusual_format

import openwork as ow

VARIABLES = "ijkl"
FILLS = (0, 0, 0, 0, 1, -1, 3)
OPERATORS = ("+", "-", "*", "*", "*", "min", "max", "select")
BITWISE = ("&", "|", "^", "~", "<<", ">>")
REDUCTIONS = {"sum": np.sum, "sum ": np.sum, "min": np.min, "max": np.max}


@dataclass
class Operand:
    """A tensor of a statement: how it is made anew, with the same shape, format and fill."""

    shape: tuple[int, ...]
    format: Any
    fill: int
    dtype: str
    below: int | None = None  # of coordinates: they are not negative, and less than this

    def array(self, rng: np.random.Generator) -> Any:
        """Elements, many of them the fill."""
        if self.below is not None:
            return rng.integers(0, self.below, self.shape)
        values = rng.integers(-4, 7, self.shape)
        here = rng.random(self.shape) < rng.choice([0.1, 0.4, 0.8])
        return np.where(here, values, self.fill).astype(self.dtype)

    def tensor(self, array: Any, name: str) -> Any:
        """The tensor with these elements."""
        return ow.tensor(array, format=self.format, fill=self.fill, name=name)


@dataclass
class Drawn:
    """A statement as text, its operands, and what computes it on arrays."""

    rng: random.Random
    dtype: str
    extents: dict[str, int]
    operands: dict[str, Operand] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)  # variables whose extent an access gives
    text: str = ""
    free: tuple[str, ...] = ()
    tree: Any = None
    reductions: list[tuple[str, str]] = field(default_factory=list)
    declared: bool = True

    @property
    def only_products(self) -> bool:
        """Whether it is a sum of products, which may be taken in any order."""
        return "*" in self.text and not set(self.text) & set("+-&|^<>") and "m" not in self.text

    def expected(self, arrays: dict[str, Any]) -> Any:
        """The result for these operands."""
        value = self._value(self.tree, arrays)
        shape = tuple(self.extents.values())
        value = np.broadcast_to(value, shape)
        names = list(self.extents)
        for word, var in reversed(self.reductions):
            value = np.asarray(REDUCTIONS[word](value, axis=names.index(var)))
            names.remove(var)
        return value.transpose([names.index(var) for var in self.free])

    def _value(self, tree: Any, arrays: dict[str, Any]) -> Any:
        kind, *parts = tree
        if kind == "access":
            return self._element(*parts, arrays)
        if kind == "number":
            return np.asarray(parts[0], self.dtype)
        left, right, *more = (self._value(part, arrays) for part in parts)
        match kind:
            case "select":
                return np.where(left > right, *more)
            case "min" | "max":
                return np.minimum(left, right) if kind == "min" else np.maximum(left, right)
            case "~":
                return ~left ^ right
            case "<<" | ">>":
                return left << (right & 3) if kind == "<<" else left >> (right & 3)
            case "&" | "|" | "^":
                return {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}[kind](
                    left, right
                )
        return {"+": np.add, "-": np.subtract, "*": np.multiply}[kind](left, right)

    def _element(
        self, name: str, places: list[tuple[Any, ...]], border: int | None, arrays: Any
    ) -> Any:
        array, inside, coordinates = arrays[name], np.True_, []
        for (kind, var, *facts), extent in zip(places, array.shape, strict=True):
            at = self._along(var) if var else np.asarray(facts[0])
            if kind == "affine":
                at = facts[0] + facts[1] * at
            elif kind == "gather":
                at = arrays[facts[0]][at]
            inside = inside & (at >= 0) & (at < extent)
            coordinates.append(np.clip(at, 0, extent - 1))
        value = array[tuple(np.broadcast_arrays(*coordinates))] if coordinates else array
        return value if border is None else np.where(inside, value, border)

    def _along(self, var: str) -> Any:
        names = list(self.extents)
        shape = [self.extents[var] if name == var else 1 for name in names]
        return np.arange(self.extents[var]).reshape(shape)


def drawn(seed: int) -> Drawn:
    """The statement with this seed."""
    rng = random.Random(f"notation {seed}")
    names = VARIABLES[: rng.choice([1, 2, 2, 3, 3, 4])]
    made = Drawn(rng, rng.choice(["int64", "float64"]), {v: rng.randint(1, 5) for v in names})
    made.free = tuple(rng.sample(names, rng.randint(0, min(len(names), 3))))
    made.tree, text = _expression(made, rng.choice([1, 2, 2, 3, 3, 4]))
    used = {var for var in names if f"{var}" in _variables(made.tree)}
    lacking = [v for v in names if v not in (used & made.given if v not in made.free else used)]
    for var in lacking:  # every variable occurs, and where it is summed, an access has its extent
        leaf, shown = _access(made, [("plain", var)])
        made.tree, text = ("*", made.tree, leaf), f"({text}) * {shown}"
    made.reductions = [(rng.choice(list(REDUCTIONS)), var) for var in names if var not in made.free]
    for word, var in reversed(made.reductions):
        text = f"{word.strip()}({var}, {text})"
    made.declared = rng.random() < 0.5 or not set(made.free) <= made.given
    made.text = f"Y({','.join(made.free)}) = {text}" if made.free else f"Y = {text}"
    return made


def _variables(tree: Any) -> set[str]:
    kind, *parts = tree
    if kind == "access":
        return {var for _, var, *_ in parts[1] if var}
    return set() if kind == "number" else set().union(*map(_variables, parts))


def _expression(made: Drawn, leaves: int) -> tuple[Any, str]:
    rng = made.rng
    if leaves == 1:
        return _access(made, [_place(made) for _ in range(rng.choice([1, 1, 2, 2, 3]))])
    first = rng.randint(1, leaves - 1)
    left, shown = _expression(made, first)
    right, other = _expression(made, leaves - first)
    op = rng.choice((*OPERATORS, *BITWISE) if made.dtype == "int64" else OPERATORS)
    if rng.random() < 0.5:
        op = "*"
    if op == "select":
        number = rng.randint(-2, 3)
        tree = ("select", left, ("number", rng.randint(-1, 2)), right, ("number", number))
        return tree, f"select({shown} > {tree[2][1]}, {other}, {_typed(made, number)})"
    if op == "~":
        return (op, left, right), f"(~({shown}) ^ ({other}))"
    if op in ("<<", ">>"):
        return (op, left, right), f"(({shown}) {op} (({other}) & 3))"
    if op in ("min", "max"):
        return (op, left, right), f"{op}({shown}, {other})"
    return (op, left, right), f"({shown}) {op} ({other})"


def _typed(made: Drawn, number: int) -> str:
    return str(float(number) if made.dtype == "float64" else number)


def _place(made: Drawn) -> tuple[Any, ...]:
    """A coordinate: of what kind, of which variable, and what it needs."""
    rng = made.rng
    var = rng.choice(list(made.extents))
    kind = rng.choice(
        ["plain", "plain", "plain", "constant", "offset", "stride", "window", "gather"]
    )
    if kind == "constant":
        return "constant", "", rng.randint(0, 3)
    return kind, var


def _access(made: Drawn, places: list[tuple[Any, ...]]) -> tuple[Any, str]:
    """An access to a tensor of its own, and its text."""
    rng, name = made.rng, f"T{len(made.operands)}"
    made.operands[name] = Operand((), ow.dense(0), 0, made.dtype)  # takes the name
    shape, shown, found = [], [], []
    bordered = any(kind == "offset" for kind, *_ in places) and rng.random() < 0.6
    for kind, var, *facts in places:
        count = made.extents.get(var, 1)
        match kind:
            case "plain":
                shape.append(count)
                shown.append(var)
                found.append(("affine", var, 0, 1))
                made.given.add(var)
            case "constant":
                shape.append(facts[0] + rng.randint(1, 3))
                shown.append(str(facts[0]))
                found.append(("constant", "", facts[0]))
            case "offset":
                start = rng.choice([-3, -2, -1, 1, 2, 3] if bordered else [1, 2, 3])
                shape.append(rng.randint(1, 6) if bordered else start + count + rng.randint(0, 2))
                shown.append(f"{var}{start:+d}")
                found.append(("affine", var, start, 1))
            case "stride":
                step, start = rng.randint(2, 3), rng.randint(0, 2)
                shape.append(start + step * (count - 1) + rng.randint(1, 3))
                shown.append(f"{step}*{var}+{start}")
                found.append(("affine", var, start, step))
            case "window":
                step, start = rng.choice([1, 1, 2, 3]), rng.randint(0, 3)
                stop = start + step * (count - 1) + 1
                shape.append(stop + rng.randint(0, 3))
                shown.append(f"{var}({start},{stop}{f',{step}' if step > 1 else ''})")
                found.append(("affine", var, start, step))
                made.given.add(var)
            case "gather":
                extent, rows = rng.randint(1, 6), f"R{len(made.operands)}"
                made.operands[rows] = Operand((count,), ow.dense(1), 0, "int64", extent)
                shape.append(extent)
                shown.append(f"{rows}({var})")
                found.append(("gather", var, rows))
                made.given.add(var)
    modes = rng.sample(range(len(shape)), len(shape))
    format = ow.dense(len(shape)) if rng.random() < 0.2 else unusual_format(modes, rng)
    fill = rng.choice(FILLS)
    made.operands[name] = Operand(tuple(shape), format, 0 if format.is_dense else fill, made.dtype)
    border = rng.choice([0, 0, made.operands[name].fill, 2]) if bordered else None
    text = f"{name}({','.join(shown)})"
    if border is not None:
        text = f"border({text}, {_typed(made, border)})"
    return ("access", name, found, border), text
