"""Random expressions of tensors as NumPy's users write them, over tensors of every kind.

An expression is text that NumPy evaluates over arrays, and we over tensors that hold the same, in
any format, with any fill. Elements are small integers, exact in every type; what is rounded is not
compared with anything afterwards.
"""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.random.generate import unusual_format

import openwork as ow

TYPES = ("float64", "float64", "float32", "int64", "int64", "int32", "uint8", "bool", "complex128")
MOST = 1e6  # the greatest element that later operators are given
SIZE = 400  # the most elements of a result
ARRAYS = ("np.argwhere", "np.flatnonzero", "np.nonzero")  # whose results are NumPy's own arrays


def assigned(array: Any, subscript: Any, value: Any) -> Any:
    """A copy with some elements assigned."""
    made = array.copy()
    made[subscript] = value
    return made


def stored(array: Any, value: Any) -> Any:
    """A copy in which all elements that are not zero have this value."""
    return assigned(array, array != 0, value)


def formatted(array: Any, format: str) -> Any:
    """In another format; arrays have none."""
    return array.to(format) if isinstance(array, ow.Tensor) else array


def pruned(array: Any) -> Any:
    """Without what is stored for nothing."""
    return array.prune() if isinstance(array, ow.Tensor) else array


NAMES = {"np": np, "assigned": assigned, "stored": stored, "formatted": formatted, "pruned": pruned}


@dataclass
class Given:
    """A tensor of an expression."""

    array: Any
    format: Any
    fill: Any

    def tensor(self, name: str) -> Any:
        """The tensor with these elements."""
        return ow.tensor(self.array, format=self.format, fill=self.fill, name=name)

    def spelled(self, name: str) -> str:
        """A line of Python that makes the tensor."""
        array = f'np.array({self.array.tolist()}, "{self.array.dtype}").reshape({self.array.shape})'
        return f"{name} = ow.tensor({array}, format={self.format!r}, fill={self.fill!r})"


@dataclass
class Part:
    """A part of an expression, with its value; `rounded` if it is not exact."""

    text: str
    value: Any
    rounded: bool = False


class Refused(Exception):
    """NumPy refuses the last step of an expression, so we have to."""


@dataclass
class Drawn:
    """An expression, its tensors, and the value that NumPy has; None where NumPy refuses it."""

    rng: random.Random
    given: dict[str, Given] = field(default_factory=dict)
    text: str = ""
    expected: Any = None
    rounded: bool = False

    def ours(self) -> Any:
        """The value over tensors."""
        tensors = {name: each.tensor(name) for name, each in self.given.items()}
        return eval(self.text, {**NAMES, **tensors})  # noqa: S307 - drawn by us

    def spelled(self) -> str:
        """A program that repeats the case."""
        lines = ["import numpy as np, openwork as ow", "from numpy import inf, nan"]
        lines += ["from tests.random.arrays import assigned, formatted, pruned, stored"]
        lines += [each.spelled(name) for name, each in self.given.items()]
        return "\n".join([*lines, f"print({self.text})"])


def drawn(seed: int) -> Drawn:
    """The expression with this seed."""
    made = Drawn(random.Random(f"arrays {seed}"))
    part = _operand(made)
    try:
        for _ in range(made.rng.choice([1, 1, 2, 2, 3])):
            part = _step(made, part)
            if any(name in part.text for name in ARRAYS):
                break
    except Refused as refused:
        made.text = str(refused)
        return made
    made.text, made.expected, made.rounded = part.text, part.value, part.rounded
    return made


def _operand(made: Drawn, shape: tuple[int, ...] | None = None, dtype: str = "") -> Part:
    """A new tensor."""
    rng = made.rng
    dtype = dtype or rng.choice(TYPES)
    if shape is None:
        sizes = [0, 1, 1, 2, 2, 3, 3, 4, 5]
        shape = tuple(rng.choices(sizes, k=rng.choices((0, 1, 2, 3, 4), (4, 25, 45, 20, 6))[0]))
    numbers = np.random.default_rng(rng.getrandbits(32))
    values = numbers.integers(0 if dtype in ("uint8", "bool") else -4, 6, shape).astype(dtype)
    if dtype == "complex128":
        values = values + 1j * numbers.integers(-2, 3, shape)
    fill: Any = rng.choice((0, 0, 0, 0, 1, 3))
    if dtype[0] == "f" and rng.random() < 0.15:
        fill = rng.choice((np.inf, -np.inf, np.nan))
    fill = np.dtype(dtype).type(fill).item()
    here = numbers.random(shape) < rng.choice((0.0, 0.2, 0.5, 0.9))
    array = np.asarray(np.where(here, values, fill)).astype(dtype)
    modes = rng.sample(range(len(shape)), len(shape))
    dense = not shape or rng.random() < 0.15
    format = ow.dense(len(shape)) if dense else unusual_format(modes, rng)
    name = f"T{len(made.given)}"
    made.given[name] = Given(array, format, 0 if format.is_dense else fill)
    return Part(name, array)


def _evaluated(made: Drawn, text: str, rounded: bool = False) -> Part:
    """The part that a text is; an error of NumPy's ends the expression."""
    arrays = {name: each.array for name, each in made.given.items()}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            value = eval(text, {**NAMES, **arrays})  # noqa: S307 - drawn by us
        except (ValueError, IndexError, TypeError) as error:
            raise Refused(text) from error
    return Part(text, value, rounded)


def _step(made: Drawn, part: Part) -> Part:
    """A part applied to."""
    for _ in range(50):
        found = made.rng.choice(STEPS)(made, part)
        if found is None or not _alike(found[0]):
            continue
        text, rounded = found
        after = _evaluated(made, text, part.rounded or rounded)
        if isinstance(after.value, (np.ndarray, np.generic)) and np.size(after.value) <= SIZE:
            return Part(after.text, np.asarray(after.value), after.rounded)
    return part


def _alike(text: str) -> bool:
    return len(text) < 600


Found = tuple[str, bool] | None


# Steps: each writes an expression of a part, or nothing where the part does not suit it


def _subscript(made: Drawn, part: Part) -> Found:
    if not part.value.ndim:
        return None
    return f"({part.text})[{_index(made, part.value.shape)}]", False


def _index(made: Drawn, shape: tuple[int, ...]) -> str:
    """A subscript, sometimes of too many modes or beyond an extent."""
    rng, items = made.rng, list[str]()
    if rng.random() < 0.08:
        return _mask(made, shape)
    count = rng.randint(0, len(shape))
    listed = rng.randint(1, 3)  # of how many: arrays of integers are read together
    for extent in shape[:count]:
        items.append(_item(made, extent, listed))
    if rng.random() < 0.15:
        items.insert(rng.randint(0, len(items)), "None")
    if rng.random() < 0.2:
        at = rng.randint(0, len(items))
        last = sum(item != "None" for item in items[at:])
        items[at:] = ["...", *(_item(made, e, listed) for e in shape[len(shape) - last :])]
    return ", ".join(items) + ("," if len(items) == 1 else "") if items else "()"


def _item(made: Drawn, extent: int, listed: int) -> str:
    rng = made.rng
    low, high = (-extent, extent - 1) if rng.random() > 0.02 else (-extent - 2, extent + 1)
    kind = rng.choice(("number", "slice", "slice", "slice", "list", "mask"))
    if kind == "number" and low <= high:
        return str(rng.randint(low, high))
    if kind == "list" and low <= high:
        return str([rng.randint(low, high) for _ in range(rng.choice((listed, listed, 1)))])
    if kind == "mask" and rng.random() < 0.5:
        return f"np.array({[rng.random() < 0.5 for _ in range(extent)]}, bool)"
    ends = [rng.choice(("", "", str(rng.randint(-extent - 1, extent + 1)))) for _ in range(2)]
    return ":".join([*ends, rng.choice(("", "", "2", "-1", "-2", "3"))])


def _mask(made: Drawn, shape: tuple[int, ...]) -> str:
    """A mask of all modes: an array, or a tensor."""
    return _operand(made, shape, "bool").text


def _assign(made: Drawn, part: Part) -> Found:
    """Only a tensor as it is given: a temporary one is nobody's."""
    rng, value = made.rng, made.rng.choice(("0", "1", "3"))
    if part.text not in made.given or not part.value.ndim:
        return None
    if rng.random() < 0.4:
        return f"stored({part.text}, {value})", False
    return f"assigned({part.text}, np.s_[{_index(made, part.value.shape)}], {value})", False


def _unary(made: Drawn, part: Part) -> Found:
    kind = part.value.dtype.kind
    names = ["np.abs", "np.conj", "np.real", "np.imag", "np.square", "pruned", "np.isnan"]
    if kind in "iuf":
        names += ["np.negative", "np.floor", "np.sign", "np.isinf", "np.isfinite"]
    if kind in "iub":
        names += ["~", "np.invert", "np.bitwise_not"]
    if kind == "f":
        names += ["np.sqrt", "np.exp", "np.sin", "np.tanh", "np.expm1"]
    name = made.rng.choice(names)
    exact = name in ("np.conj", "np.real", "np.imag", "np.negative", "~", "pruned")
    if not exact and (part.rounded or _wild(part)):
        return None
    rounds = name in ("np.sqrt", "np.exp", "np.sin", "np.tanh", "np.expm1")
    return f"{name}({part.text})", rounds or (name == "np.abs" and kind == "c")


def _wild(part: Part) -> bool:
    """Whether a part has elements of which not every operator has NumPy's value."""
    value = part.value
    return bool(value.size) and not bool((abs(value) < MOST).all())


_ARITHMETIC = ("+", "-", "*", "*", "np.maximum", "np.minimum")
_BITS = ("&", "|", "^", "<<", ">>")
_COMPARED = ("==", "!=", "<", "<=", ">", ">=")
_WHOLE = ("//", "%", "/", "**")
_LOGICAL = ("np.logical_and", "np.logical_or", "np.logical_xor")


def _binary(made: Drawn, part: Part) -> Found:
    rng, kind = made.rng, part.value.dtype.kind
    if _wild(part) or part.rounded:
        return None
    op = rng.choice(rng.choice((_ARITHMETIC, _BITS, _COMPARED, _WHOLE, _LOGICAL)))
    other = _partner(made, part, op)
    if other is None or (op in _BITS and not (kind in "iub" and other.value.dtype.kind in "iub")):
        return None
    both = {kind, other.value.dtype.kind}
    if op in (*_COMPARED, "np.maximum", "np.minimum", "//", "%") and "c" in both:
        return None
    if op == "-" and both == {"b"}:
        return None
    if op in ("<<", ">>") and not _between(other.value, 0, 7):
        return None
    if op in ("/", "//", "%") and (_wild(other) or not other.value.all()):
        return None
    if op == "**" and (kind == "b" or not _between(other.value, 2, 3)):  # docs/numbers.md
        return None
    if op == "*" and (_wild(other) or _wild(part)):
        return None
    pair = [part.text, other.text]
    if op in (*_ARITHMETIC, *_LOGICAL, *_COMPARED, "&", "|", "^") and rng.random() < 0.3:
        pair.reverse()
    text = f"{op}({pair[0]}, {pair[1]})" if op[0] == "n" else f"({pair[0]}) {op} ({pair[1]})"
    return text, op == "/" or (op in ("**", "*") and "c" in both)


def _between(array: Any, low: int, high: int) -> bool:
    return array.dtype.kind != "c" and bool(((array >= low) & (array <= high)).all())


def _partner(made: Drawn, part: Part, op: str) -> Part | None:
    """What an operator takes beside a part: a number, an array, a tensor, or the part itself."""
    rng, dtype = made.rng, part.value.dtype
    small = rng.choice(("1", "2", "3", "0")) if op in _BITS else rng.choice(("1", "2", "3"))
    if op == "**":
        return Part(small, np.asarray(int(small)))
    match rng.choice(("number", "tensor", "tensor", "array", "self")):
        case "number":
            return Part(small, np.asarray(int(small)))
        case "self":
            return part
        case "array":
            shape = part.value.shape[rng.randint(0, part.value.ndim) :]
            values = [rng.randint(1, 3) for _ in range(int(np.prod(shape, dtype=int)))]
            text = f'np.array({values}, "{dtype}").reshape({shape})'
            return _evaluated(made, text)
    shape = tuple(1 if rng.random() < 0.15 else n for n in part.value.shape)
    if rng.random() < 0.2:
        shape = shape[rng.randint(0, len(shape)) :]
    if rng.random() < 0.02:
        shape = (*shape, 2)
    return _operand(made, shape, str(dtype) if rng.random() < 0.7 else rng.choice(TYPES))


def _where(made: Drawn, part: Part) -> Found:
    if _wild(part) or part.rounded or part.value.dtype.kind == "c":
        return None
    other = _operand(made, part.value.shape, str(part.value.dtype))
    condition = made.rng.choice((f"({part.text}) > 1", f"{other.text} != 0"))
    return f"np.where({condition}, {part.text}, {made.rng.choice((other.text, '0', '1'))})", False


def _reduce(made: Drawn, part: Part) -> Found:
    rng, kind = made.rng, part.value.dtype.kind
    names = ["sum", "prod", "mean", "any", "all", "sum"]
    names += [] if kind == "c" else ["min", "max", "argmin", "argmax", "var", "std"]
    name = rng.choice(names)
    if (part.rounded and name in ("any", "all", "argmin", "argmax")) or _wild(part):
        return None
    order = part.value.ndim
    axis: Any = rng.choice((None, rng.randint(-order, order - 1))) if order else None
    if order > 1 and rng.random() < 0.25 and name[:3] != "arg":
        axis = tuple(rng.sample(range(order), 2))
    if rng.random() < 0.03:
        axis = order + 1
    keep = ", keepdims=True" if rng.random() < 0.3 else ""
    form = f"({part.text}).{name}(axis={axis}{keep})"
    if rng.random() < 0.4:
        form = f"np.{name}({part.text}, axis={axis}{keep})"
    return form, name in ("mean", "var", "std", "prod")


def _shape(made: Drawn, part: Part) -> Found:
    rng, text, order = made.rng, part.text, part.value.ndim
    if not order:  # NumPy has an axis 0 there
        return rng.choice((f"({text}).reshape(-1)", f"({text})[None]", f"({text})[...]")), False
    axis = rng.randint(-order, order - 1) if rng.random() > 0.02 else order + 2
    other = f"{axis}, {rng.randint(-order, max(order - 1, 0))}"
    axes = rng.sample(range(order), order)
    split = rng.choice((-1, 1, 2))
    size = part.value.size
    forms = [
        f"({text}).T", f"({text}).transpose({axes})", f"({text}).swapaxes({other})",
        f"np.moveaxis({text}, {other})", f"({text}).reshape({(split, -1)})",
        f"({text}).reshape({(-1, rng.choice((1, 2, 3)))})", f"({text}).reshape({size})",
        f"({text}).squeeze()", f"np.expand_dims({text}, {axis})", f"({text}).ravel()",
        f"np.flip({text}, {axis})", f"np.roll({text}, {rng.randint(-3, 3)}, {axis})",
        f"np.roll({text}, {rng.randint(-3, 3)})", f"np.tile({text}, {rng.choice((2, (2, 1)))})",
        f"np.repeat({text}, 2, {axis})", f"np.take({text}, [0, -1, 0], {axis})",
        f"np.pad({text}, 1)", f"np.concatenate([{text}, {text}], {axis})",
        f"np.stack([{text}, {text}], {axis})", f"np.broadcast_to({text}, {(2, *part.value.shape)})",
        f"np.rot90({text})", f"np.atleast_2d({text})", f"np.diff({text}, axis={axis})",
        f"np.delete({text}, 0, {axis})", f"np.append({text}, {text}, {axis})",
    ]  # fmt: skip
    if order == 2:
        offset = rng.randint(-3, 3)
        forms += [
            f"np.tril({text}, {offset})", f"np.triu({text}, {offset})", f"np.diag({text})",
            f"({text}).diagonal({offset})", f"({text}).trace({offset})", f"np.kron({text}, {text})",
            f"np.vstack([{text}, {text}])", f"np.hstack([{text}, {text}])",
            f"np.block([[{text}], [{text}]])", f'formatted({text}, "CSC")',
            f'formatted({text}, "COO(2)")', f'formatted({text}, "ELL")',
        ]  # fmt: skip
        if _wild(part):
            forms = [form for form in forms if "kron" not in form]
    form = rng.choice(forms)
    rounds = "diff" in form or "kron" in form or "trace" in form
    return None if rounds and (part.rounded or _wild(part)) else (form, False)


def _others(made: Drawn, part: Part) -> Found:
    rng, text, value = made.rng, part.text, part.value
    if part.rounded or value.dtype.kind == "c" or _wild(part) or not value.ndim:
        return None
    axis = rng.randint(-value.ndim, value.ndim - 1)
    forms = [
        f"np.sort({text}, {axis})", f"np.cumsum({text}, {axis})", f"np.unique({text})",
        f"np.count_nonzero({text}, axis={axis})", f"np.clip({text}, 1, 3)",
        f"np.argsort({text}, {axis}, kind='stable')", f"({text}).astype('float32')",
        f"({text}).astype('int64')", f"({text}).astype(bool)", f"({text}).copy()",
        f"np.nonzero({text})[0]", f"np.array_equal({text}, {text}) * ({text})",
        f"np.isin({text}, [0, 2])", f"np.cumprod({text}, {axis})", f"np.diff({text})",
        f"np.ones_like({text})", f"np.zeros_like({text})", f"np.full_like({text}, 2)",
        f"np.linalg.norm({text})", f"np.average({text})", f"np.ptp({text}, {axis})",
        f"np.argwhere({text})", f"np.flatnonzero({text})",
    ]  # fmt: skip
    form = rng.choice(forms)
    return form, "norm" in form or "average" in form


def _product(made: Drawn, part: Part) -> Found:
    rng, shape = made.rng, part.value.shape
    if part.rounded or _wild(part) or not shape:
        return None
    dtype = str(part.value.dtype)
    wide = tuple(rng.choice(([shape[-1]], [shape[-1], rng.randint(0, 3)])))
    other = _operand(made, wide, dtype)
    if _wild(other):
        return None
    forms = [f"({part.text}) @ ({other.text})", f"np.dot({part.text}, {other.text})"]
    forms += [f"np.tensordot({part.text}, {other.text}, ([-1], [0]))"]
    if len(shape) == 1:
        forms += [f"np.outer({part.text}, {other.text})", f"np.kron({part.text}, {other.text})"]
    return rng.choice(forms), False


STEPS = (
    *[_subscript] * 6, *[_assign] * 3, *[_unary] * 2, *[_binary] * 5, _where, *[_reduce] * 3,
    *[_shape] * 4, *[_others] * 2, _product,
)  # fmt: skip
