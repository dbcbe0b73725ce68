"""Entry types as users name them: `ow.entry.quaternion("float32")`, `ow.entry.block(3, 3)`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from openwork.algebra.encodings import Ternary, UnitQuaternion
from openwork.algebra.entries import (
    SCALARS,
    Complex,
    Defined,
    Dual,
    Entry,
    Formula,
    Grid,
    Numbers,
    Quaternion,
    Real,
    Vector,
)
from openwork.algebra.meaning import meaning, plus
from openwork.algebra.types import as_dtype
from openwork.errors import FormatError, InternalError, ParseError
from openwork.frozen import frozen
from openwork.index.nodes import Apply, Expr, Literal, Parameter
from openwork.index.terms import Term, as_expr
from openwork.tree import walk

# By the other factor and whether it stands on the right: the result, None for the type itself, and
# a function of both.
Products = Mapping[tuple[object, bool], tuple[Entry | None, Callable[..., Any]]]

Records = tuple[np.ndarray[Any, Any], ...]

_LARGEST = 64  # numbers of a record: its formulas are written out


def complex(scalar: object = "float64") -> Entry:
    """Complex numbers whose parts a layout may separate."""
    return Complex(_scalar(scalar))


def quaternion(scalar: object = "float64") -> Entry:
    """Quaternions, with Hamilton's product; the components are w, x, y, z.

    >>> quaternion("float32").shape
    (4,)
    """
    return Quaternion(_scalar(scalar))


def unit_quaternion(scalar: object = "float64") -> Entry:
    """Quaternions of length one, or zero, in three numbers: a quarter less to load.

    They are computed with as quaternions. Where one is stored, it is divided by its length.

    >>> unit_quaternion("float32").itemsize, quaternion("float32").itemsize
    (12, 16)
    """
    made = UnitQuaternion(_scalar(scalar))
    if made.scalar == "float16":
        raise FormatError(
            "unit quaternions have no half precision, whose exponents are too short for their sign",
            code="E402",
            hint="ow.entry.quaternion('float16') is shorter, too",
        )
    return made


def ternary(scalar: object = "float64") -> Ternary:
    """Numbers that are -1, 0 or 1, in the first two bits of their coordinates, without values.

    As a `dtype` it asks for both, elements of this type and the layout "ternary"; a format that
    stores coordinates has it. What is computed with them are numbers.

    >>> from openwork.tensor.create import tensor
    >>> A = tensor([[1, 0], [0, -1]], format="CSR", dtype=ternary("float32"))
    >>> A.dtype, A.format
    (dtype('float32'), ow.CSR.with_layout('ternary'))
    """
    dtype = as_dtype(scalar)
    if isinstance(dtype, Entry) or dtype.kind not in "if":
        raise FormatError(
            f"{dtype} has no encoding as -1, 0 and 1",
            code="E402",
            hint="it is for float32, float64, int8 and other numbers with a sign",
        )
    return Ternary(dtype)


def dual(scalar: object = "float64") -> Entry:
    """Numbers with a derivative: products follow the product rule."""
    return Dual(_scalar(scalar))


def block(rows: int, columns: int, element: object = "float64") -> Entry:
    """Dense blocks of numbers, or of another entry type.

    Blocks multiply blocks and vectors as matrices do. `ow.conj` gives the adjoint.

    >>> block(3, 3, complex("float32")).shape
    (3, 3, 2)
    """
    inner = _element(element)
    high, wide = _extent(rows), _extent(columns)
    return Grid(inner.scalar, high, wide, _element(element, high * wide))


def vector(length: int, element: object = "float64") -> Entry:
    """Short columns of numbers, or of another entry type.

    >>> vector(3, "float32").shape
    (3,)
    """
    inner = _element(element)
    return Vector(inner.scalar, _extent(length), 1, _element(element, length))


def named(text: str) -> Entry | None:
    """The built-in type that calls itself `text`; None if there is none, as for those of users.

    >>> str(named("block 3x3 of complex<float32>"))
    'block 3x3 of complex<float32>'
    """
    match = _NAME.fullmatch(text)
    if match is None or match["scalar"] not in SCALARS:
        return None
    scalar, places = match["scalar"], match["grids"].removesuffix(" of ").split(" of ")
    entry: object = _SIMPLE[match["simple"]](scalar) if match["simple"] else scalar
    for place in reversed([each for each in places if each]):
        rows, *columns = (int(each) for each in place.split(" ")[1].split("x"))
        if 0 in (rows, *columns):
            return None
        entry = block(rows, columns[0], entry) if columns else vector(rows, entry)
    return entry if isinstance(entry, Entry) and entry.name == text else None


_SIMPLE = {
    "complex": complex,
    "quaternion": quaternion,
    "unit quaternion": unit_quaternion,
    "dual": dual,
}
_NAME = re.compile(
    r"(?P<grids>(?:(?:vector \d{1,2}|block \d{1,2}x\d{1,2})(?: of |(?=<)))*)"
    rf"(?P<simple>{'|'.join(_SIMPLE)}|)<(?P<scalar>[a-z0-9]+)>"
)


def _scalar(spec: object) -> str:
    """The type of a record's numbers."""
    if spec in ("float16", np.float16, np.dtype("float16")):
        return "float16"
    dtype = as_dtype(spec)
    if isinstance(dtype, Entry) or dtype.name not in SCALARS:
        raise FormatError(
            f"records have no numbers of {dtype}",
            code="E402",
            hint=f"their types are {', '.join(SCALARS)}",
        )
    return dtype.name


def _element(spec: object, times: int = 1) -> Entry:
    """What a block or vector consists of."""
    entry = spec if isinstance(spec, Entry) else Real(_scalar(spec))
    if entry.decoded.family != entry.family:
        raise FormatError(
            f"{entry} is no part of records", code="E402", hint=f"use {entry.decoded}"
        )
    if entry.size * times > _LARGEST:
        raise FormatError(
            f"a record of {entry.size * times} numbers is too large",
            code="E402",
            hint=f"up to {_LARGEST}; ow.BSR(r, c) stores larger blocks",
        )
    return entry


def _extent(count: int) -> int:
    extent = operator.index(count)
    if extent < 1:
        raise FormatError(f"a block cannot have {extent} rows or columns", code="E402")
    return extent


# Types of users


def define(
    name: str,
    fields: Mapping[str, object] | Sequence[str],
    *,
    mul: Callable[..., Any] | None = None,
    conj: Callable[..., Any] | None = None,
    inverse: Callable[..., Any] | None = None,
    add: Callable[..., Any] | None = None,
    zero: Sequence[float] | None = None,
    one: Sequence[float] | None = None,
    commutative: bool = False,
    products: Products | None = None,
) -> Entry:
    """An entry type of your own: named fields, and formulas over them.

    Each formula is a function of elements, whose fields are attributes, and returns the fields of
    the result. It is called once; `+ - * /` and Openwork's functions work on fields.

    Args:
        name: what messages call it: a Python identifier.
        fields: the type of each field, by name; all have the same.
        mul: the product of two elements.
        conj: the conjugate; the element itself if left out.
        inverse: what a quotient multiplies by from the right: `a / b = a * inverse(b)`.
        add: the sum; field by field if left out.
        zero: the fields of the neutral term, which annihilates in products; all 0 if left out.
        one: the fields of the neutral factor, if there is one.
        commutative: `a * b == b * a`.
        products: those with other types: `{(other, right): (result, function)}`, where `right` says
            that `other` is the right factor, and the result None stands for this type.

    The laws are tried on random elements: sums must be associative and commutative with the neutral
    term `zero`, products distribute over sums, and zero annihilates.

    Raises:
        ParseError: E111 if a law is false, E112 if a function does not return fields.

    >>> dual = define("dual", {"value": "float64", "slope": "float64"}, one=(1, 0),
    ...     mul=lambda a, b: (a.value * b.value, a.value * b.slope + a.slope * b.value))
    >>> print(dual)
    dual<float64>
    """
    if not name.isidentifier():
        raise FormatError(f"{name!r} is not a name for an entry type", code="E402", hint="a word")
    names, scalar = _fields(name, fields)
    formulas = {"mul": (mul, 2), "conj": (conj, 1), "inverse": (inverse, 1), "add": (add, 2)}
    made = {
        what: _traced(f"{name}.{what}", function, [(names, scalar)] * count, len(names))
        for what, (function, count) in formulas.items()
        if function is not None
    }
    unit, nothing = _record(name, one, names), _record(name, zero, names)
    entry = Defined(scalar, name, names, tuple(made.items()), unit, nothing, commutative)
    entry = replace(entry, products=tuple(_products(entry, products or {})))
    check_laws(entry)
    return entry


def _products(entry: Defined, products: Products) -> Iterator[tuple[Entry, bool, Entry, Any]]:
    """The products with other types: the other factor, its side, the result, and the formula."""
    for (other, right), (result, function) in products.items():
        factor, gives = _element(other), entry if result is None else result
        sides = [(entry.names, entry.scalar), (_attributes(factor), factor.scalar)]
        pair = sides if right else sides[::-1]
        yield factor, right, gives, _traced(f"{entry.word}.products", function, pair, gives.size)


def _fields(name: str, fields: Mapping[str, object] | Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The names of the fields, and the type of all."""
    types = fields if isinstance(fields, Mapping) else dict.fromkeys(fields, "float64")
    scalars = {_scalar(each) for each in types.values()}
    if len(scalars) != 1 or len(types) > _LARGEST or not all(map(str.isidentifier, types)):
        raise FormatError(
            f"the fields of {name} are {dict(types)}",
            code="E402",
            hint=f"1 to {_LARGEST} words, all of one type",
        )
    return tuple(types), scalars.pop()


def _record(
    name: str, numbers: Sequence[float] | None, names: tuple[str, ...]
) -> tuple[float, ...] | None:
    if numbers is not None and len(numbers) != len(names):
        raise FormatError(f"{name} has {len(names)} fields, not {len(numbers)}", code="E402")
    return None if numbers is None else tuple(float(each) for each in numbers)


def _attributes(entry: Entry) -> tuple[str, ...]:
    """What formulas call the fields of an element."""
    return entry.names if isinstance(entry, Defined) else entry.fields


@frozen
class Traced:
    """A formula that was recorded from a Python function: an expression for each field."""

    exprs: tuple[Expr, ...]

    def __call__(self, *records: Sequence[Any]) -> list[Any]:
        numbers = [number for record in records for number in record]
        return [_value(expr, numbers) for expr in self.exprs]


def _value(expr: Expr, numbers: Sequence[Any]) -> Any:
    """An expression over symbols or arrays."""
    match expr:
        case Parameter(position=position):
            return numbers[position]
        case Literal(value=value):
            return value
        case Apply(op=op, args=args):
            return op(*(_value(arg, numbers) for arg in args))
    raise InternalError(f"{expr} cannot stand in a formula")


class _Fields:
    """What a formula is called with: the fields of an element, as attributes."""

    def __init__(self, what: str, terms: Mapping[str, Term]) -> None:
        self.__dict__.update(terms)
        self._known = f"{what} reads", ", ".join(terms)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # which Python and Openwork ask all objects for
            raise AttributeError(name)
        reads, fields = self.__dict__["_known"]
        raise ParseError(
            f"the formula {reads} {name}, which is no field",
            code="E112",
            hint=f"the fields are {fields}",
        )


def _traced(
    what: str,
    function: Callable[..., Any],
    records: Sequence[tuple[tuple[str, ...], str]],
    size: int,
) -> Traced:
    """The formula of a function over records with these fields and types."""
    given, count = [], 0
    for names, scalar in records:
        numbers = range(count, count + len(names))
        terms = [Term(Parameter(n, as_dtype(scalar))) for n in numbers]
        given.append(_Fields(what, dict(zip(names, terms, strict=True))))
        count += len(names)
    try:
        made = function(*given)
    except TypeError as error:  # as NumPy's functions raise
        raise ParseError(
            f"the formula {what} fails: {error}",
            code="E112",
            hint="+ - * / and Openwork's functions, such as ow.sqrt, work on fields",
        ) from error
    exprs = tuple(map(as_expr, made if isinstance(made, tuple | list) else (made,)))
    strange = [
        node
        for expr in exprs
        for node in walk(expr)
        if not isinstance(node, Parameter | Literal | Apply)
    ]
    if len(exprs) != size or strange:
        reason = f"{strange[0]}" if strange else f"{len(exprs)} fields instead of {size}"
        raise ParseError(
            f"the formula {what} returns {reason}",
            code="E112",
            hint="return a tuple of expressions over the fields of the arguments",
        )
    return Traced(exprs)


def _laws_of_inverses(entry: Defined, a: np.ndarray[Any, Any]) -> list[tuple[str, Any, Any]]:
    """That elements whose inverse is finite give one with it."""
    if entry.one is None or entry.times(entry) is None:
        raise ParseError(f"{entry} has an inverse, but no product or no one", code="E111")
    with np.errstate(all="ignore"):
        inverse = entry.joined(entry.invert(entry.split(a)) or ())
    finite = np.isfinite(entry.components(inverse)).all(axis=-1)
    one, (a, inverse) = np.full(int(finite.sum()), entry.record(1)), (a[finite], inverse[finite])
    mul = meaning("mul", (entry, entry)).on_arrays
    pairs = ([a, inverse], [inverse, a])
    return [("an element times its inverse is one", mul(pair), one) for pair in pairs]


def check_laws(entry: Defined) -> None:
    """Try on random elements what the compiler relies on."""
    rng = np.random.default_rng(1)
    a, b, c = (entry.records(rng.integers(-4, 5, (64, entry.size)) / 2.0) for _ in range(3))
    kinds = (entry, entry)
    add = meaning("add", kinds).on_arrays
    zero = np.full(64, entry.record(0))
    laws = [
        ("the sum is commutative", add([a, b]), add([b, a])),
        ("the sum is associative", add([add([a, b]), c]), add([a, add([b, c])])),
        ("zero is the neutral term", add([a, zero]), a),
    ]
    if entry.times(entry) is not None:
        mul = meaning("mul", kinds).on_arrays
        laws += [
            ("zero annihilates", mul([a, zero]), zero),
            ("zero annihilates on the left", mul([zero, a]), zero),
            ("products distribute", mul([a, add([b, c])]), add([mul([a, b]), mul([a, c])])),
            ("on the left, too", mul([add([b, c]), a]), add([mul([b, a]), mul([c, a])])),
        ]
        if entry.commutes:
            laws.append(("the product commutes", mul([a, b]), mul([b, a])))
        if entry.one is not None:
            one = np.full(64, entry.record(1))
            laws += [("one is the neutral factor", mul(pair), a) for pair in ([a, one], [one, a])]
    if entry.invert([1.0] * entry.size) is not None:
        laws += _laws_of_inverses(entry, a)
    for law, got, wanted in laws:
        _check_law(entry, law, (entry.split(got), entry.split(wanted)), (a, b, c))
    for other, right, result, formula in entry.products:
        given = [rng.integers(-4, 5, (64, other.size)) / 2.0 for _ in range(2)]
        others = tuple(other.records(each.reshape(64, *other.shape)) for each in given)
        _check_product(entry, (other, right, result, formula), (a, b), others)


def _check_product(
    entry: Defined, made: tuple[Entry, bool, Entry, Formula], ours: Records, others: Records
) -> None:
    """Try what the compiler relies on in a product with another type."""
    other, right, result, formula = made
    (a, b), (x, y) = map(entry.split, ours), map(other.split, others)
    none, nothing = ([np.full(64, number) for number in each.zero] for each in (entry, other))
    zero = [np.full(64, number) for number in result.zero]

    def mul(own: Numbers, foreign: Numbers) -> Numbers:
        return formula(own, foreign) if right else formula(foreign, own)

    name = f"{entry} * {other}" if right else f"{other} * {entry}"
    sums = plus(result)(mul(a, x), mul(a, y)), plus(result)(mul(a, x), mul(b, x))
    for law, got, wanted in (
        ("distributes", mul(a, plus(other)(x, y)), sums[0]),
        ("distributes", mul(plus(entry)(a, b), x), sums[1]),
        ("has zeros that annihilate", mul(a, nothing), zero),
        ("has zeros that annihilate", mul(none, x), zero),
    ):
        _check_law(entry, f"the product {name} {law}", (got, wanted), (*ours, *others))


def _check_law(entry: Defined, law: str, sides: tuple[Numbers, Numbers], elements: Records) -> None:
    """Refuse a type one of whose laws is false for some elements."""
    left, right = (np.stack(np.broadcast_arrays(*side), -1) for side in sides)
    wrong = np.flatnonzero(~np.isclose(left, right, 1e-5, 1e-5, equal_nan=True).all(axis=-1))
    if wrong.size:
        at = wrong[0]
        *most, last = (str(each[at]) for each in elements)
        raise ParseError(
            f"{entry}: it is false that {law}: {_shown(left[at])} is not {_shown(right[at])}",
            code="E111",
            hint=f"for the elements {', '.join(most)} and {last}",
        )


def _shown(numbers: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """An element's numbers as Python prints them."""
    return tuple(numbers.ravel().tolist())
