"""Entry types: elements of tensors that are records of numbers, with products of their own.

An entry type says how many numbers a record has, what its neutral elements are, and how records are
multiplied and conjugated. Sums, differences and multiples by numbers are taken number by number.
The formulas only use Python's operators: they run on symbols, which gives code, and on NumPy
arrays, which gives the reference. The order of factors is kept: products need not commute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, reduce
from hashlib import sha256
from operator import add
from typing import Any, Self

import numpy as np

from openwork.errors import FormatError
from openwork.frozen import frozen

Numbers = Sequence[Any]  # the numbers of a record, as symbols or arrays
Formula = Callable[..., list[Any]]  # from the numbers of the arguments to those of the result

# The types of numbers in records. Half precision is for memory: it is computed with as single.
SCALARS = ("float16", "float32", "float64")
NAMED: dict[str, Entry] = {}  # by the name in programs
STORED: dict[np.dtype[Any], Entry] = {}  # by the NumPy type of records; field names tell them apart


@frozen
class Product:
    """The product of two entry types: the type of the result, and its numbers."""

    result: Entry
    formula: Formula


@frozen
class Entry(ABC):
    """An element type whose elements are records of numbers of type `scalar`."""

    scalar: str

    def __post_init__(self) -> None:
        NAMED.setdefault(self.name, self)
        STORED.setdefault(self.dtype, self)

    @property
    @abstractmethod
    def family(self) -> str:
        """What stays the same when the precision of the numbers changes."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The component axes of arrays of such elements."""

    @property
    @abstractmethod
    def fields(self) -> tuple[str, ...]:
        """The name of each number."""

    @property
    def one(self) -> tuple[float, ...] | None:
        """The neutral factor, if there is one."""
        return None

    @property
    def zero(self) -> tuple[float, ...]:
        """The neutral term."""
        return (0.0,) * self.size

    @property
    def commutes(self) -> bool:
        """Whether `a * b == b * a`."""
        return False

    @property
    def sum(self) -> Formula | None:
        """The sum of two elements; None if they are added number by number."""
        return None

    @abstractmethod
    def times(self, other: Entry) -> Product | None:
        """The product with `other` on the right, if it is defined."""

    @property
    def conjugated(self) -> Entry:
        """The type of conjugates."""
        return self

    @abstractmethod
    def conjugate(self, a: Numbers) -> list[Any]:
        """The numbers of the conjugate."""

    def invert(self, a: Numbers) -> list[Any] | None:
        """The numbers of the inverse; None if division is not defined.

        Numbers are scaled before they are squared, so that nothing overflows on the way.
        """
        return None

    @property
    def decoded(self) -> Entry:
        """The type that elements are computed in: another one if they take less memory."""
        return self.over("float32") if self.scalar == "float16" else self

    def decode(self, a: Numbers) -> list[Any]:
        """The numbers of an element of `decoded`, from those that are stored."""
        return list(a)

    def encode(self, a: Numbers) -> list[Any]:
        """The numbers to store."""
        return list(a)

    def over(self, scalar: str) -> Self:
        """The same type with numbers of type `scalar`."""
        return replace(self, scalar=scalar)

    @property
    def acts_on(self) -> Entry:
        """The type of what an element multiplies from the left, as a matrix does a vector."""
        return self

    def matrices(self, records: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The real matrix of each element: what multiplying by it does to numbers.

        >>> Complex("float64").matrices(Complex("float64").records(np.array([[1.0, 2.0]])))
        array([[[ 1., -2.],
                [ 2.,  1.]]])
        """
        made = product(self, self.acts_on)
        if made is None:
            raise FormatError(f"{self} has no real matrix: it has no product", code="E402")
        numbers = self.split(records)
        columns = [made.formula(numbers, list(unit)) for unit in np.eye(self.acts_on.size)]
        shape = (*records.shape, made.result.size, self.acts_on.size)
        matrices = np.empty(shape, self.scalar)
        for n, column in enumerate(columns):
            for m, number in enumerate(column):
                matrices[..., m, n] = number
        return matrices

    def of_matrices(self, matrices: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The elements with these real matrices: what they make of one."""
        if self.one is None:
            raise FormatError(f"{self} cannot be told from its real matrix", code="E402")
        numbers = matrices @ np.array(self.one)
        return self.records(numbers.reshape(*matrices.shape[:-2], *self.shape))

    def contract(self, real: Any) -> Any:
        """The tensor of these elements whose real matrix is the tensor `real`.

        Raises:
            DataError: E505 if `real` is not made of the matrices of such elements.
        """
        contracted = getattr(real, "__openwork_contract__", None)
        if contracted is None:
            raise FormatError(
                f"{type(real).__name__} is no tensor", code="E402", hint="contract(ow.tensor(...))"
            )
        return contracted(self)

    # What NumPy's types have, too

    kind = "V"

    @cached_property
    def name(self) -> str:
        """The type's name in programs; it never reaches generated text."""
        return f"{self.family}<{self.scalar}>"

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of a record."""
        return np.dtype([(field, self.scalar) for field in self.fields])

    @property
    def itemsize(self) -> int:
        """The size of a record, in bytes."""
        return self.dtype.itemsize

    @property
    def size(self) -> int:
        """How many numbers a record has."""
        return len(self.fields)

    def __str__(self) -> str:
        return self.name

    @property
    def anonymous(self) -> Entry:
        """The type without names that a user gave."""
        return self

    # Elements

    def has(self, value: complex) -> bool:
        """Whether a record stands for a number: 0 always, others where there is a one."""
        return value == 0 or (self.one is not None and value.imag == 0)

    def numbers(self, value: complex) -> tuple[float, ...]:
        """The record that stands for a number: so many times one."""
        number = float(value.real)
        if value == 0:
            return self.zero
        if self.one is None or not self.has(value):
            raise FormatError(
                f"{value} is no {self.family}", code="E402", hint="only 0 is an entry of every type"
            )
        return tuple(number * each for each in self.one)

    def record(self, value: complex) -> np.ndarray[Any, Any]:
        """The record that stands for a number, as NumPy has it."""
        return np.array(self.numbers(value), self.dtype)

    def split(self, records: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        """The numbers of an array of records, each as an array."""
        return [records[field] for field in self.fields]

    def joined(self, numbers: Numbers) -> np.ndarray[Any, Any]:
        """An array of records from the arrays of their numbers."""
        arrays = np.broadcast_arrays(*numbers)
        made = np.empty(arrays[0].shape, self.dtype)
        for field, array in zip(self.fields, arrays, strict=True):
            made[field] = array
        return made

    def cast(self, records: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Records of the same family, in the precision of this type; encoded ones are decoded."""
        given = STORED[records.dtype]
        if given.family == self.family:
            return records.astype(self.dtype, copy=False)
        with np.errstate(all="ignore"):
            return self.joined(self.encode(given.decode(given.split(records))))

    def records(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """An array with trailing component axes as records, without a copy if possible."""
        outer = array.shape[: array.ndim - len(self.shape)]
        flat = np.ascontiguousarray(array, self.scalar).reshape((*outer, self.size))
        return flat.view(self.dtype).reshape(outer)

    def components(self, records: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Records as an array with trailing component axes, without a copy if possible."""
        flat = np.ascontiguousarray(records, self.dtype)
        return flat.view(self.scalar).reshape((*records.shape, *self.shape))


@frozen
class Real(Entry):
    """A number, as an element of blocks and vectors, and as a factor."""

    family = "real"
    shape = ()
    fields = ("value",)
    one = (1.0,)
    commutes = True

    def times(self, other: Entry) -> Product | None:
        wide = widest(self.scalar, other.scalar)
        return Product(other.over(wide), lambda a, b: [a[0] * each for each in b])

    def conjugate(self, a: Numbers) -> list[Any]:
        return list(a)


@frozen
class Complex(Entry):
    """A complex number, as two numbers that a layout may separate."""

    family = "complex"
    shape = (2,)
    fields = ("re", "im")
    one = (1.0, 0.0)
    commutes = True

    def times(self, other: Entry) -> Product | None:
        if not isinstance(other, Complex):
            return None
        return Product(
            self.over(widest(self.scalar, other.scalar)),
            lambda a, b: [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]],
        )

    def conjugate(self, a: Numbers) -> list[Any]:
        return [a[0], -a[1]]

    def invert(self, a: Numbers) -> list[Any] | None:
        return _conjugate_over_norm(self, a)


@frozen
class Quaternion(Entry):
    """w + x i + y j + z k, with Hamilton's product."""

    family = "quaternion"
    shape = (4,)
    fields = ("w", "x", "y", "z")
    one = (1.0, 0.0, 0.0, 0.0)

    def times(self, other: Entry) -> Product | None:
        if not isinstance(other, Quaternion):
            return None
        return Product(self.over(widest(self.scalar, other.scalar)), _hamilton)

    def conjugate(self, a: Numbers) -> list[Any]:
        return [a[0], -a[1], -a[2], -a[3]]

    def invert(self, a: Numbers) -> list[Any] | None:
        return _conjugate_over_norm(self, a)


def _hamilton(a: Numbers, b: Numbers) -> list[Any]:
    return [
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    ]


def _conjugate_over_norm(entry: Entry, a: Numbers) -> list[Any]:
    size = reduce(add, [abs(each) for each in a])
    scaled = [each / size for each in a]
    norm = reduce(add, [each * each for each in scaled])
    return [each / norm / size for each in entry.conjugate(scaled)]


@frozen
class Dual(Entry):
    """A number and its derivative: products follow the product rule."""

    family = "dual"
    shape = (2,)
    fields = ("value", "slope")
    one = (1.0, 0.0)
    commutes = True

    def times(self, other: Entry) -> Product | None:
        if not isinstance(other, Dual):
            return None
        return Product(
            self.over(widest(self.scalar, other.scalar)),
            lambda a, b: [a[0] * b[0], a[0] * b[1] + a[1] * b[0]],
        )

    def conjugate(self, a: Numbers) -> list[Any]:
        return list(a)

    def invert(self, a: Numbers) -> list[Any] | None:
        return [1.0 / a[0], -(a[1] / a[0]) / a[0]]


@frozen
class Grid(Entry):
    """Elements of another entry type in `rows` and `columns`: what blocks and vectors are.

    A product needs as many columns on the left as rows on the right, and a product of the elements.
    """

    rows: int
    columns: int
    element: Entry

    @property
    def outer(self) -> tuple[int, ...]:
        """The component axes without those of the elements."""
        return (self.rows, self.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.outer, *self.element.shape)

    @property
    def family(self) -> str:
        inner = "" if isinstance(self.element, Real) else f" of {self.element.family}"
        return f"{_kind_of(self.rows, self.columns)}{inner}"

    @property
    def fields(self) -> tuple[str, ...]:
        inner = self.element.fields
        rows, columns = range(self.rows), range(self.columns)
        places = [f"r{row}c{column}" for row in rows for column in columns]
        return tuple(f"{at}_{name}" if len(inner) > 1 else at for at in places for name in inner)

    @property
    def one(self) -> tuple[float, ...] | None:
        unit = self.element.one
        if self.rows != self.columns or unit is None:
            return None
        nothing = (0.0,) * self.element.size
        places = range(self.rows * self.columns)
        rows = (unit if at // self.columns == at % self.columns else nothing for at in places)
        return tuple(number for each in rows for number in each)

    def over(self, scalar: str) -> Self:
        return replace(self, scalar=scalar, element=self.element.over(scalar))

    def at(self, a: Numbers, row: int, column: int) -> Numbers:
        """The numbers of one element."""
        size = self.element.size
        start = (row * self.columns + column) * size
        return a[start : start + size]

    def times(self, other: Entry) -> Product | None:
        if not isinstance(other, Grid):
            return self._scaled(other, left=False)
        inner = product(self.element, other.element)
        if self.columns != other.rows or inner is None:
            return None

        def formula(a: Numbers, b: Numbers) -> list[Any]:
            return [
                number
                for row in range(self.rows)
                for column in range(other.columns)
                for number in _dot(
                    inner,
                    [self.at(a, row, k) for k in range(self.columns)],
                    [other.at(b, k, column) for k in range(other.rows)],
                )
            ]

        return Product(grid(self.rows, other.columns, inner.result), formula)

    def _scaled(self, factor: Entry, left: bool) -> Product | None:
        """The product of every element with `factor`, which stands on the left or on the right."""
        inner = product(factor, self.element) if left else product(self.element, factor)
        if inner is None:
            return None

        def formula(a: Numbers, b: Numbers) -> list[Any]:
            one, many = (a, b) if left else (b, a)
            places = [(row, column) for row in range(self.rows) for column in range(self.columns)]
            parts = (self.at(many, *place) for place in places)
            pairs = ((one, part) if left else (part, one) for part in parts)
            return [number for pair in pairs for number in inner.formula(*pair)]

        return Product(grid(self.rows, self.columns, inner.result), formula)

    @property
    def acts_on(self) -> Entry:
        return grid(self.columns, 1, self.element.acts_on)

    def of_matrices(self, matrices: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        high, wide = matrices.shape[-2] // self.rows, matrices.shape[-1] // self.columns
        outer = matrices.shape[:-2]
        parts = matrices.reshape(*outer, self.rows, high, self.columns, wide).swapaxes(-3, -2)
        inner = self.element.components(self.element.of_matrices(parts))
        return self.records(inner.reshape(*outer, *self.shape))

    @property
    def conjugated(self) -> Entry:
        return grid(self.columns, self.rows, self.element.conjugated)

    def conjugate(self, a: Numbers) -> list[Any]:
        """The adjoint: transposed, with conjugated elements."""
        return [
            number
            for column in range(self.columns)
            for row in range(self.rows)
            for number in self.element.conjugate(self.at(a, row, column))
        ]


@frozen
class Vector(Grid):
    """A column of elements; arrays have one component axis for it."""

    @property
    def outer(self) -> tuple[int, ...]:
        return (self.rows,)


@frozen
class Defined(Entry):
    """A type that a user defined by formulas over named fields.

    `formulas`: those of its product, conjugate and sum, as far as they are given. `products`: those
    with other types, as the other factor, whether it stands on the right, the result, and the
    formula.
    """

    word: str
    names: tuple[str, ...]
    formulas: tuple[tuple[str, Formula], ...]
    unit: tuple[float, ...] | None = None
    nothing: tuple[float, ...] | None = None
    commutative: bool = False
    products: tuple[tuple[Entry, bool, Entry, Formula], ...] = ()

    @cached_property
    def _digest(self) -> str:
        """What tells apart types of the same name."""
        told = repr((self.names, self.formulas, self.unit, self.nothing, self.products))
        return sha256(told.encode()).hexdigest()[:12]

    @property
    def family(self) -> str:
        return f"{self.word} {self._digest}"

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.names),)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(f"f{n}_{self._digest}" for n in range(len(self.names)))

    @property
    def one(self) -> tuple[float, ...] | None:
        return self.unit

    @property
    def zero(self) -> tuple[float, ...]:
        return super().zero if self.nothing is None else self.nothing

    @property
    def commutes(self) -> bool:
        return self.commutative

    @property
    def sum(self) -> Formula | None:
        return dict(self.formulas).get("add")

    @property
    def scales(self) -> bool:
        """Whether numbers multiply it field by field."""
        return self.nothing is None and self.sum is None

    @property
    def known_products(self) -> list[str]:
        """The products that were defined with this type, as messages name them."""
        own = [f"{self} * {self}"] if "mul" in dict(self.formulas) else []
        pairs = ((self, other) if right else (other, self) for other, right, *_ in self.products)
        return own + [f"{left} * {factor}" for left, factor in pairs]

    def has(self, value: complex) -> bool:
        return super().has(value) and (self.scales or value in (0, 1))

    def times(self, other: Entry) -> Product | None:
        return self._with(other, right=True)

    def after(self, other: Entry) -> Product | None:
        """The product with `other` on the left."""
        return self._with(other, right=False)

    def _with(self, other: Entry, right: bool) -> Product | None:
        wide = widest(self.scalar, other.scalar)
        if other.family == self.family:
            formula = dict(self.formulas).get("mul")
            return None if formula is None else Product(self.over(wide), formula)
        for factor, side, result, formula in self.products:
            if factor.family == other.family and side == right:
                return Product(result.over(wide), formula)
        return None

    def conjugate(self, a: Numbers) -> list[Any]:
        formula = dict(self.formulas).get("conj")
        return list(a) if formula is None else formula(a)

    def invert(self, a: Numbers) -> list[Any] | None:
        formula = dict(self.formulas).get("inverse")
        return None if formula is None else formula(a)

    def __str__(self) -> str:
        return f"{self.word}<{self.scalar}>"

    @property
    def anonymous(self) -> Entry:
        return replace(self, word="entry")


def _kind_of(rows: int, columns: int) -> str:
    return f"vector {rows}" if columns == 1 else f"block {rows}x{columns}"


def grid(rows: int, columns: int, element: Entry) -> Entry:
    """Elements in rows and columns: a vector if there is one column, the element if also one row.

    >>> grid(3, 1, Real("float32")).shape, grid(1, 1, Real("float32")).family
    ((3,), 'real')
    """
    if rows == columns == 1:
        return element
    kind = Vector if columns == 1 else Grid
    return kind(element.scalar, rows, columns, element)


def _dot(inner: Product, row: list[Numbers], column: list[Numbers]) -> list[Any]:
    terms = [inner.formula(a, b) for a, b in zip(row, column, strict=True)]
    return [reduce(add, numbers) for numbers in zip(*terms, strict=True)]


@lru_cache(maxsize=1024)
def product(left: Entry, right: Entry) -> Product | None:
    """The product of two entry types, if it is defined; numbers multiply everything.

    >>> product(Quaternion("float32"), Quaternion("float64")).result.scalar
    'float64'
    >>> product(Quaternion("float32"), Complex("float32")) is None
    True
    """
    if isinstance(left, Defined) or isinstance(right, Defined):
        return _product_of_defined(left, right)
    if isinstance(right, Real):
        made = right.times(left)
        return made and Product(made.result, lambda a, b: [each * b[0] for each in a])
    made = left.times(right)
    if made is None and isinstance(right, Grid) and not isinstance(left, Grid):
        return right._scaled(left, left=True)
    return made


def _product_of_defined(left: Entry, right: Entry) -> Product | None:
    made = left.times(right) if isinstance(left, Defined) else None
    if made is None and isinstance(right, Defined):
        made = right.after(left)
    if made is not None:
        return made
    wide = widest(left.scalar, right.scalar)
    if isinstance(left, Real) and isinstance(right, Defined) and right.scales:
        return Product(right.over(wide), lambda a, b: [a[0] * each for each in b])
    if isinstance(right, Real) and isinstance(left, Defined) and left.scales:
        return Product(left.over(wide), lambda a, b: [each * b[0] for each in a])
    return None


def widest(*scalars: str) -> str:
    """The wider of some types of numbers."""
    return str(np.result_type(*scalars))
