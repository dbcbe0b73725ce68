"""Tensors: arrays in a format, with a name, that can be computed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Self

import numpy as np

from openwork.algebra.types import DType, Number, as_dtype
from openwork.errors import FormatError, ParseError, ShapeError, UserError
from openwork.format.formats import Format, as_format
from openwork.index.checks import wrong_order
from openwork.index.nodes import Access, Apply, TensorVar
from openwork.index.terms import Term, as_expr, as_variable
from openwork.runtime.storage import Array, Storage
from openwork.tensor.arithmetic import Arithmetic
from openwork.tensor.broadcast import check_axes, permute
from openwork.tensor.convert.pack import cast_values, convert, copied, to_dense, unpack
from openwork.tensor.draw.cells import MOST_CELLS
from openwork.tensor.draw.svg import draw_svg
from openwork.tensor.draw.text import draw, summary
from openwork.tensor.exchange.facts import Facts, facts_of
from openwork.tensor.exchange.interop import Wish, fitted, from_levels, storage_from, to_scipy
from openwork.tensor.exchanged import Exchanged
from openwork.tensor.generated import generated
from openwork.tensor.recorded import Record, Recorded, Recording

_numbers = count(1)


def auto_name() -> str:
    """A name that no other tensor has been given: T1, T2, ..."""
    return f"T{next(_numbers)}"


class Tensor(Recording, Exchanged, Arithmetic):
    """A tensor: shape, element type, format, and the arrays that the format asks for.

    Made by `ow.tensor`, `ow.empty`, `ow.placeholder` and `ow.read`, and by computing. Indexing it
    with index variables gives an access for index notation, `A[i, j]`; assigning to an access
    records a statement, which `y.statement` returns, and which the first who reads `y` computes.

    >>> from openwork.tensor.create import tensor
    >>> tensor([[1.0, 0.0], [0.0, 2.0]], format="CSR", name="A")
    <Tensor A: 2x2 float64, ow.CSR, 2 stored>
    """

    def __init__(
        self,
        name: str | None,
        shape: Sequence[int | None],
        facts: Facts,
        storage: Storage | None = None,
    ) -> None:
        self._name = auto_name() if name is None else name
        self._shape = tuple(shape)
        self._facts = facts
        self._storage = storage
        self._recorded: Recorded | None = None

    @classmethod
    def of(cls, storage: Storage, name: str | None = None) -> Self:
        """A tensor around `storage`, whose arrays are trusted."""
        return cls(name, storage.shape, facts_of(storage), storage)

    @classmethod
    def wrap(cls, obj: object) -> Self:
        """A foreign array or number as the operand of one call, without a copy where possible."""
        name = auto_name()
        return cls.of(storage_from(obj, Wish(name, share=True)), name)

    @classmethod
    def hollow(cls, name: str, facts: Facts, shape: Sequence[int | None] | None = None) -> Self:
        """A tensor without data; extents that are not known are None."""
        return cls(name, (None,) * facts.format.ndim if shape is None else shape, facts)

    # Facts

    @property
    def name(self) -> str:
        """What statements, kernels and messages call the tensor."""
        return self._name

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extent of each mode; None where a placeholder leaves it open."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._facts.dtype

    @property
    def format(self) -> Format:
        """How the tensor is stored."""
        return self._facts.format

    @property
    def fill(self) -> Number:
        """The value of absent entries."""
        return self._facts.fill

    @property
    def order(self) -> int:
        """The number of modes."""
        return len(self._shape)

    @property
    def ndim(self) -> int:
        """The number of modes, as NumPy calls it."""
        return len(self._shape)

    @property
    def nnz(self) -> int:
        """The number of stored entries, explicit zeros included."""
        return self.storage.nnz

    @property
    def storage(self) -> Storage:
        """The arrays; a recorded statement is computed first."""
        storage = self._storage
        if storage is None:
            storage = self._arrays
        if storage is None:
            raise ShapeError(
                f"{self.name} is a placeholder and has no data",
                code="E203",
                hint=f"give it to the kernel: kernel({self.name}=...)",
            )
        return storage

    @property
    def facts(self) -> Facts:
        """What a kernel depends on: format, element type, and the value of absent entries."""
        return self._facts

    @property
    def var(self) -> TensorVar:
        """The tensor as expressions see it.

        Made anew each time, as one that the tensor kept would be a cycle and hold the arrays.
        """
        facts = self._facts
        return TensorVar(
            self._name, facts.format, facts.dtype, facts.fill, self._shape, source=self
        )

    # Index notation

    def __getitem__(self, index: object) -> Term:
        return Term(self.__openwork_access__(index if isinstance(index, tuple) else (index,)))

    def __openwork_access__(self, variables: Sequence[object]) -> Access:
        """`A[i, j]`; the order and kind of the indices is checked here."""
        given = tuple(v for v in map(as_variable, variables) if v is not None)
        if len(given) != len(variables):
            raise ParseError(
                f"{self.name} can only be indexed with index variables",
                code="E112",
                hint='i, j = ow.indices("i j"); then A[i, j]. For elements: A.to_numpy()[...]',
            )
        if len(given) != self.order:
            raise ParseError(
                wrong_order(self.var, len(given)),
                code="E104",
                hint=f"write {self.name}[{', '.join('ijklmnop'[: self.order]) or '()'}]",
            )
        return Access(self.var, given)

    def __setitem__(self, index: object, value: object) -> None:
        lhs = self.__openwork_access__(index if isinstance(index, tuple) else (index,))
        rhs = as_expr(value)
        # `y[i] += e` reaches us as `y[i] = y[i] + e`.
        if isinstance(rhs, Apply) and rhs.op.associates and rhs.args[0] == lhs:
            self._record(Record(lhs.vars, rhs.args[1], rhs.op))
        else:
            self._record(Record(lhs.vars, rhs, None))

    # What statements and kernels ask of the tensors behind them

    def __openwork_result__(self, storage: Storage) -> Self:
        """A new tensor of this name around a kernel's result."""
        made = type(self)(self._name, storage.shape, self._facts, storage)
        if storage.fill != self._facts.key:  # a semiring's zero
            made._facts = facts_of(storage)
        return made

    def _like(self, storage: Storage | None) -> Self:
        return type(self)(self._name, self._shape, self._facts, storage)

    def __openwork_coerce__(self, obj: object) -> Self:
        """`obj` as a kernel argument in this tensor's place.

        Converted where nobody is surprised: never to a dense format, nor to a narrower type.
        """
        if isinstance(obj, type(self)) and obj._facts == self._facts:
            return obj
        if isinstance(obj, type(self)):
            return type(self).of(fitted(obj.storage, self._facts, self._name), obj.name)
        # What is absent in a foreign matrix has no value yet: it gets this tensor's.
        fill = None if self.format.is_dense else self.fill
        wish = Wish(self._name, fill=fill, share=True)
        storage = storage_from(obj, wish)
        return type(self).of(fitted(storage, self._facts, self._name), self._name)

    # Conversion

    def to(self, format: Format | str) -> Self:
        """The tensor in another format, or on `"cuda"` or `"cpu"`; itself when it is so already.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[0, 3], [0, 0]], name="A").to("CSC")
        <Tensor A: 2x2 int64, ow.CSC, 1 stored>
        """
        if format in ("cuda", "cpu"):
            return self._moved(to_gpu=format == "cuda")
        wanted = as_format(format)
        if wanted == self.format:
            return self
        return type(self).of(generated(self, wanted) or convert(self.storage, wanted), self._name)

    def astype(self, dtype: object) -> Self:
        """The tensor with elements of another type; the index arrays are shared."""
        wanted = as_dtype(dtype)
        if wanted == self.dtype:
            return self
        return type(self).of(cast_values(self.storage, wanted), self._name)

    def copy(self) -> Self:
        """A tensor with arrays of its own; `copy.copy` and `copy.deepcopy` make one, too."""
        storage = self._arrays
        return self._like(None if storage is None else copied(storage))

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def to_numpy(self) -> Array:
        """The tensor as a NumPy array; a dense tensor shares its memory with it."""
        return to_dense(self._host)

    def to_scipy(self, *, share: bool = False) -> Any:
        """A matrix as a SciPy array of its own: CSR, CSC, BSR and DIA stay so, other formats become
        COO.

        Args:
            share: give away the arrays of CSR, CSC and BSR instead of copies. Whoever changes them
                in place, as `eliminate_zeros` does, breaks the tensor, and all that share its
                pattern.

        Raises:
            FormatError: E404 for tensors that are no matrices, or whose absent entries are not 0.
        """
        return to_scipy(self._host, self._name, share)

    def to_coo(self) -> tuple[Array, Array]:
        """The coordinates, of shape (order, nnz), and the values of all stored entries.

        >>> from openwork.tensor.create import tensor
        >>> coords, values = tensor([[0, 3], [4, 0]], format="CSR").to_coo()
        >>> coords.tolist(), values.tolist()
        ([[0, 1], [1, 0]], [3, 4])
        """
        stored = self._host
        coords, values = unpack(stored)
        return coords, values.copy() if values is stored.values else values

    @property
    def T(self) -> Self:
        """The tensor with its modes reversed; the arrays are shared."""
        return self.transpose()

    def transpose(self, axes: Sequence[int] | None = None) -> Self:
        """The tensor with its modes in the order `axes`, reversed if left out; no array is moved.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[1, 2, 3]], format="CSR", name="A").T
        <Tensor A_T: 3x1 int64, ow.CSC, 3 stored>
        """
        order = range(self.order)[::-1] if axes is None else axes
        modes = check_axes(list(order), self.order, self._name)
        if len(modes) != self.order:
            raise ShapeError(f"{self._name} has {self.order} modes, axes are {axes}", code="E204")
        storage = self._arrays
        if storage is None:
            facts = replace(self._facts, format=self.format.permuted(modes))
            shape = tuple(self._shape[mode] for mode in modes)
            return type(self)(f"{self._name}_T", shape, facts)
        return type(self).of(permute(storage, modes), f"{self._name}_T")

    def rename(self, name: str | None = None) -> Self:
        """Give the tensor another name, a new one of its own if left out; returns the tensor."""
        self._name = auto_name() if name is None else name
        return self

    # Python's and NumPy's protocols

    def item(self) -> Number:
        """The value of a tensor without modes, as a Python number.

        >>> from openwork.tensor.create import tensor
        >>> tensor([1.0, 2.5]).sum().item()
        3.5
        """
        if self.order:
            raise ShapeError(
                f"{self.name} has {self.order} modes and is not one number", code="E204"
            )
        value: Number = self.storage.values.item()
        return value

    def __float__(self) -> float:
        value = self.item()
        return float(value)  # type: ignore[arg-type]  # Python refuses complex numbers itself

    def __int__(self) -> int:
        return int(self.item())  # type: ignore[arg-type]

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        if self.order:
            raise ParseError(
                f"{self.name} has no truth value",
                code="E112",
                hint="compare whole tensors with A.equals(B); A == B compares their elements",
            )
        return bool(self.item())

    __iter__ = None  # indexing is for index variables, so there is nothing to walk over

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """What NumPy makes arrays of; SciPy asks it for one of whatever is no matrix of its own."""
        if not self.format.is_dense:
            raise TypeError(
                f"{self.name} is sparse and is not made dense unasked: call .to_numpy() for an "
                "array, .to_scipy() for a matrix of SciPy's, or ow.tensor(matrix) for a partner"
            )
        return np.array(self.to_numpy(), dtype=dtype, copy=copy)

    def __reduce__(self) -> tuple[Any, ...]:
        s = None if self._arrays is None else self._host
        arrays = None if s is None else (s.levels, s.values, self.device)
        return _rebuilt, (self._name, self._shape, self._facts, arrays)

    def draw(self, format: str = "text") -> str:
        """What the arrays of each level hold, as text, or as a picture: `draw("svg")`.

        >>> from openwork.tensor.create import tensor
        >>> print(tensor([0, 7, 0, 8], format="Compressed", name="x").draw())
        x: 4 int64, ow.CSF(1), 2 stored
          type      [(int32, int64)]_pos[1]
          level 0: Compressed, mode 0, extent 4
            pos     0 2
            crd     1 3 |
          values    7 8 |
        """
        if format not in ("text", "svg"):
            raise FormatError(f"{format!r} is no drawing", code="E401", hint='"text" or "svg"')
        return (draw if format == "text" else draw_svg)(self._host, self._name)

    @property
    def _seen(self) -> tuple[Storage | None, str]:
        """The arrays, or why there are none: who looks at a tensor is told, and not stopped."""
        try:
            return self._arrays, "no data"
        except UserError as error:
            return None, f"not computed: {error.code}: {error.message}"

    def _repr_svg_(self) -> str | None:
        """The drawing, in notebooks; of tensors that are too large for one only the summary."""
        storage, _ = self._seen
        small = storage is not None and storage.values.size <= MOST_CELLS
        return self.draw("svg") if small else None

    def __repr__(self) -> str:
        storage, why = self._seen
        if storage is None:
            size = "x".join("?" if n is None else str(n) for n in self._shape) or "scalar"
            return f"<Tensor {self.name}: {size} {self.dtype}, {self.format!r}, {why}>"
        value = f" = {self.item()}" if not self.order else ""
        return f"<Tensor {self.name}: {summary(storage)}{value}>"


def _rebuilt(name: str, shape: tuple[int, ...], facts: Facts, arrays: Any) -> Tensor:
    """A tensor from what `__reduce__` gave away."""
    if arrays is None:
        return Tensor(name, shape, facts)
    levels, values, device = arrays
    made = from_levels(facts.format, shape, levels, values, name, facts.fill)
    return Tensor.of(cast_values(made, facts.dtype), name).to(device)
