"""Tensors: named arrays in a format, with operators.

An assignment to an access, `y[i] = ...`, is lazy. The tensor records it, and runs it once, when the
tensor is read. A kernel that writes to the tensor supersedes it. Operands are read when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html import escape
from math import prod
from typing import Any, NamedTuple, Self

from openwork.algebra.entries import Entry
from openwork.algebra.operators import Op
from openwork.errors import FormatError, InternalError, ParseError, ShapeError, UserError
from openwork.format.formats import Format, as_format
from openwork.index.checks import check, wrong_order
from openwork.index.einstein import explicit
from openwork.index.nodes import Access, Apply, Assignment, Expr, IndexVar, TensorVar
from openwork.index.terms import Term, any_terms, applied, as_expr, as_variable, element
from openwork.runtime.gpu.cuda import DeviceStorage
from openwork.runtime.storage import Array, Storage
from openwork.tensor.arraylike import Arraylike
from openwork.tensor.convert.convert import convert
from openwork.tensor.convert.pack import unpack
from openwork.tensor.draw.cells import MOST_CELLS
from openwork.tensor.draw.html import tensor_html
from openwork.tensor.draw.svg import draw_svg
from openwork.tensor.draw.text import draw, summary
from openwork.tensor.eager import assign
from openwork.tensor.elementwise import ARGUMENTS, elementwise, operation
from openwork.tensor.exchange.export import to_array, to_coo, to_cupy, to_scipy, to_torch
from openwork.tensor.exchange.facts import Facts
from openwork.tensor.exchange.interop import Wish, fitted, from_levels, storage_from
from openwork.tensor.exchange.libraries import to_networkx, to_pandas, to_pydata
from openwork.tensor.exchange.records import contracted, expanded
from openwork.tensor.operand import auto_name
from openwork.tensor.statement import Statement
from openwork.tree import walk


class Record(NamedTuple):
    """An assignment to a tensor, or an accumulation by `op`."""

    variables: tuple[IndexVar, ...]
    rhs: Expr
    op: Op | None


class Recorded(NamedTuple):
    """What was assigned to a tensor, and the arrays that it had before the first of `records`.

    Accumulations follow the record that they add to. Once all have run, only the newest is kept,
    as the tensor's statement.
    """

    records: tuple[Record, ...]
    before: Storage | None

    def then(self, record: Record) -> Recorded:
        """With another assignment, which replaces all others unless it accumulates."""
        earlier = () if record.op is None else self.records
        return Recorded((*earlier, record), self.before)


class Tensor(Arraylike):
    """A tensor: shape, element type, format, and the arrays of the format.

    Created by `ow.tensor`, `ow.empty`, `ow.placeholder` and `ow.read`, and by computing. Indexing
    it with index variables gives an access for index notation, `A[i, j]`; assigning to an access
    records a statement, which `y.statement` returns, and which the first read of `y` computes.

    >>> from openwork.tensor.create import tensor
    >>> tensor([[1.0, 0.0], [0.0, 2.0]], format="CSR", name="A")
    <Tensor A: 2x2 float64, ow.CSR, 2 stored>
    """

    _recorded: Recorded | None = None

    # Index notation

    def __getitem__(self, index: Any) -> Any:
        """`A[i, j]` with index variables is an expression; with numbers, elements as in NumPy.

        >>> from openwork.tensor.create import tensor
        >>> A = tensor([[0, 3, 0], [4, 0, 5]], format="CSR", name="A")
        >>> A[1, 2].item(), A[:, ::2].to_numpy().tolist(), A[[1, 1]].nnz
        (5, [[0, 0], [4, 5]], 4)
        """
        variables = index if isinstance(index, tuple) else (index,)
        if any_terms(variables) or not (variables or self.order):
            return Term(self._element(variables))
        return self._selected(index)

    def _element(self, coordinates: Sequence[object]) -> Expr:
        """`A[i, j]`, or an element at other coordinates: `A[i + 1, 0]`."""
        if len(coordinates) == self.order:
            found = element(self.tensor_var, coordinates)
            if found is not None:
                return found
        return self.__openwork_access__(coordinates)

    def __openwork_access__(self, variables: Sequence[object]) -> Access:
        """`A[i, j]`; checks the number and kind of the indices."""
        given = tuple(v for v in map(as_variable, variables) if v is not None)
        if len(given) != len(variables):
            raise ParseError(
                f"{self.name} can only be indexed with index variables",
                code="E112",
                hint='i, j = ow.indices("i j"); then A[i, j]. For elements: A.to_numpy()[...]',
            )
        if len(given) != self.order:
            raise ParseError(
                wrong_order(self.tensor_var, len(given)),
                code="E104",
                hint=f"write {self.name}[{', '.join('ijklmnop'[: self.order]) or '()'}]",
            )
        return Access(self.tensor_var, given)

    def __setitem__(self, index: Any, value: Any) -> None:
        variables = index if isinstance(index, tuple) else (index,)
        if variables and not any_terms((*variables, value)):
            return self._put(index, value)
        lhs = self.__openwork_access__(variables)
        rhs = as_expr(value)
        # Python turns `y[i] += e` into `y[i] = y[i] + e`.
        if isinstance(rhs, Apply) and rhs.op.associates and rhs.args[0] == lhs:
            self._record(Record(lhs.vars, rhs.args[1], rhs.op))
        else:
            self._record(Record(lhs.vars, rhs, None))

    # Recorded statements

    @property
    def statement(self) -> Statement[Tensor]:
        """The statement that the last `y[i] = ...` recorded."""
        if self._recorded is None:
            raise ParseError(
                f"nothing has been assigned to {self.name}",
                code="E102",
                hint=f"write {self.name}[i] = ... first, with index variables",
            )
        return Statement(self._assignment(self._recorded.records[-1]))

    def _record(self, record: Record) -> None:
        """Record an assignment, which the first read of the tensor computes."""
        recorded = self._recorded
        if recorded is None or self._storage is not None:
            recorded = Recorded((), self._storage)
        self._recorded, self._storage = recorded.then(record), None

    @property
    def _arrays(self) -> Storage | None:
        """The arrays, computed if a statement is recorded; None if the tensor has no data."""
        if self._waits:
            _compute(self)
        return self._storage

    @property
    def _waits(self) -> bool:
        return self._storage is None and self._recorded is not None

    def __openwork_place__(self) -> Storage:
        """The arrays that a kernel overwrites: recorded statements need not run first."""
        if self._waits and self._recorded is not None and self._recorded.before is not None:
            return self._recorded.before
        return self.storage

    def __openwork_before__(self, written: Assignment) -> Storage:
        """The arrays that `written`, which accumulates into this tensor, starts from.

        They are the tensor's contents; but the kernel of a recorded statement starts from those
        before it.
        """
        recorded = self._recorded
        if recorded is None or recorded.before is None or not self._waits:
            return self.storage
        *earlier, newest = recorded.records
        if newest.op is None or explicit(check(self._assignment(newest))) != written:
            return self.storage
        if earlier:
            sooner = self._like(None)
            sooner._recorded = Recorded(tuple(earlier), recorded.before)
            recorded = self._recorded = Recorded((newest,), sooner.storage)
        return recorded.before or self.storage

    def __openwork_blank__(self, assignment: Assignment) -> Self:
        """This tensor as the result of a pickled statement.

        It has arrays only if the statement accumulates into them.
        """
        if assignment.op is None or (self._storage is None and self._recorded is None):
            return self._like(None)
        return self._like(self.__openwork_before__(explicit(check(assignment))))

    def __openwork_store__(self, storage: Storage) -> None:
        """Replace the arrays, and what is recorded, by a kernel's result."""
        facts = self.facts
        if storage.format != facts.format or storage.dtype != facts.dtype:
            raise InternalError(f"{self.name} was given a result in {storage.format!r}")
        self._storage, self._shape = storage, storage.shape
        if self._recorded is not None:
            self._recorded = Recorded(self._recorded.records[-1:], None)

    def _assignment(self, record: Record) -> Assignment:
        return Assignment(Access(self.tensor_var, record.variables), record.rhs, record.op)

    def _like(self, storage: Storage | None) -> Self:
        """A tensor like this one over other arrays."""
        return type(self)(self._name, self._shape, self._facts, storage)

    def _run(self) -> None:
        """Run what is recorded; concurrent threads compute the same."""
        recorded = self._recorded
        if recorded is None or self._storage is not None:
            return
        storage = recorded.before
        for record in recorded.records:
            storage = self._result(record, storage)
        if storage is not None:
            self.__openwork_store__(storage)

    def _result(self, record: Record, old: Storage | None) -> Storage:
        """The arrays of a recorded statement's result; `old` stays unchanged."""
        assignment = check(self._assignment(record))
        sources = list(_sources(record))
        for source in sources:
            if source._storage is None:
                raise ShapeError(
                    f"{self.name} cannot be computed: {source.name} is a placeholder and has no "
                    "data",
                    code="E203",
                    hint=f"compile {self.name}.statement, and pass {source.name}=... to the kernel",
                )
        result = self._like(old)
        lhs = Access(result.tensor_var, record.variables)
        on_gpu = any(each.device == "cuda" for each in (result, *sources))
        kernel = Statement(replace(assignment, lhs=lhs)).compile("cuda" if on_gpu else "cpu")
        made: Storage = kernel().storage
        return made

    # Arguments of kernels

    def __openwork_coerce__(self, obj: object) -> Self:
        """`obj` as a kernel argument for this tensor.

        Converts only where that is cheap and exact: never to a dense format, nor to a narrower
        type.
        """
        if isinstance(obj, type(self)) and obj._facts == self._facts:
            return obj
        if isinstance(obj, type(self)):
            return type(self).of(fitted(obj.storage, self._facts, self._name), obj.name)
        # A foreign matrix has no fill yet: it gets this tensor's.
        fill = None if self.format.is_dense else self.fill
        wish = Wish(self._name, fill=fill, share=True)
        storage = storage_from(obj, wish)
        return type(self).of(fitted(storage, self._facts, self._name), self._name)

    # Conversion

    def to(self, format: Format | str) -> Self:
        """The tensor in another format, or on `"cuda"` or `"cpu"`; itself if nothing changes.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[0, 3], [0, 0]], name="A").to("CSC")
        <Tensor A: 2x2 int64, ow.CSC, 1 stored>
        """
        if format in ("cuda", "cpu"):
            return self._moved(to_gpu=format == "cuda")
        wanted = as_format(format, self.order)
        if wanted == self.format:
            return self
        return type(self).of(convert(self.storage, wanted, assign=assign), self._name)

    def _moved(self, to_gpu: bool) -> Self:
        storage = self.storage
        if isinstance(storage, DeviceStorage) == to_gpu:
            return self
        return type(self).of(DeviceStorage.of(storage) if to_gpu else self._host, self._name)

    def expand(self) -> Self:
        """The real tensor of one whose elements are records.

        Each element of a matrix becomes its real matrix: 4x4 for a quaternion, r x c for a block.
        Each element of a vector becomes its numbers. So `(A @ x).expand()` is
        `A.expand() @ x.expand()`.
        """
        return type(self).of(expanded(self._host, self._name))

    def __openwork_contract__(self, entry: Entry) -> Self:
        """The tensor of elements of `entry` that this one is the expansion of."""
        return type(self).of(contracted(self._host, entry, self._name))

    def copy(self) -> Self:
        """A deep copy; `copy.copy` and `copy.deepcopy` return one, too."""
        storage = self._arrays
        return self._like(None if storage is None else storage.copy())

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def to_scipy(self, *, share: bool = False) -> Any:
        """A matrix as a SciPy array: CSR, CSC, BSR and DIA keep their format, others become COO.

        Args:
            share: share the arrays of CSR, CSC and BSR instead of copying. Changing them in place,
                as `eliminate_zeros` does, breaks the tensor, and all that share its pattern.

        Raises:
            FormatError: E404 for tensors that are not matrices, or whose absent entries are not 0.
        """
        return to_scipy(self._host, self._name, share)

    def to_coo(self) -> tuple[Array, Array]:
        """The coordinates, of shape (order, nnz), and the values of all stored entries.

        >>> from openwork.tensor.create import tensor
        >>> coords, values = tensor([[0, 3], [4, 0]], format="CSR").to_coo()
        >>> coords.tolist(), values.tolist()
        ([[0, 1], [1, 0]], [3, 4])
        """
        return to_coo(self._host)

    def to_cupy(self, *, share: bool = False) -> Any:
        """The tensor as a CuPy array, or as a CuPy CSR or CSC matrix.

        An array shares the tensor's memory on the GPU; a matrix does with `share`, and then
        neither may be changed.

        Raises:
            FormatError: E404 for what CuPy cannot hold.
        """
        return to_cupy(self.storage, self._name, share)

    def to_torch(self, *, share: bool = False) -> Any:
        """The tensor as a torch tensor, on the same device.

        Dense tensors become strided ones, which share their memory; CSR, CSC and BSR keep their
        format, other sparse ones become COO. On a GPU only CSR and CSC are supported. Sparse
        tensors share their memory with `share`, and then neither may be changed.

        Raises:
            FormatError: E404 for what torch cannot hold.
        """
        return to_torch(self.storage, self._name, share)

    def to_pydata(self) -> Any:
        """The tensor as a `sparse.COO` of PyData/sparse, with its fill."""
        return to_pydata(self._host)

    def to_pandas(self) -> Any:
        """A matrix as a pandas frame of sparse columns, a vector as a sparse series."""
        return to_pandas(self._host, self._name)

    def to_networkx(self, *, directed: bool = True) -> Any:
        """A square matrix as a networkx graph: an edge for each entry, its value as weight."""
        return to_networkx(self._host, self._name, directed)

    def rename(self, name: str | None = None) -> Self:
        """Rename the tensor, by default to a new name; returns the tensor."""
        self._name = auto_name() if name is None else name
        return self

    # Operators: each builds a statement, compiles it once, and runs it

    def __openwork_apply__(self, op: Op, args: Sequence[object]) -> Any:
        """`op` element by element; NotImplemented where Python should try something else."""
        if not all([isinstance(arg, ARGUMENTS) for arg in args]):
            if any_terms(args):
                return applied(op, *args)
            args = [arg if isinstance(arg, ARGUMENTS) else self._operand(arg) for arg in args]
            if any(arg is NotImplemented for arg in args):
                return NotImplemented
        made = self.made(elementwise(operation(op), args))
        if op.compares and not made.format.is_dense and made.device == "cpu":
            return made.prune()  # what does not hold is not stored
        return made

    def equals(self, other: object) -> bool:
        """Whether `other` has the same shape and values, whatever its format and element type.

        A NaN is not equal to itself, as in `numpy.array_equal`.

        >>> from openwork.tensor.create import tensor
        >>> A = tensor([[0, 3], [4, 0]], format="CSR")
        >>> A.equals(A.to("COO(2)")), A.equals([[0, 3], [4, 5]])
        (True, False)
        """
        operand = other if isinstance(other, Tensor) else type(self).wrap(other)
        if self.storage.shape != operand.storage.shape:
            return False
        differing: Storage = (self != operand)._host
        if differing.format.is_dense:
            return not differing.values.any()
        _, values = unpack(differing)
        if differing.fill and values.size < prod(differing.shape):
            return False
        return not values.any()

    # Python's and NumPy's protocols

    def _shared(self, protocol: str) -> Any:
        """The array of a dense tensor, for a protocol; sparse tensors do not support it."""
        if not self.format.is_dense or self._arrays is None:
            raise AttributeError(f"{self.name} is sparse or has no data yet: no {protocol}")
        return to_array(self.storage)

    @property
    def __dlpack__(self) -> Callable[..., Any]:
        """Called by `torch.from_dlpack`, `cupy.from_dlpack` and `numpy.from_dlpack`."""
        method: Callable[..., Any] = self._shared("__dlpack__").__dlpack__
        return method

    @property
    def __dlpack_device__(self) -> Callable[[], Any]:
        """Where the memory is, in DLPack's numbers."""
        method: Callable[[], Any] = self._shared("__dlpack_device__").__dlpack_device__
        return method

    @property
    def __cuda_array_interface__(self) -> Any:
        """The memory of an array on a GPU, for CuPy, Numba and torch."""
        if self.device != "cuda":
            raise AttributeError(f"{self.name} is not on a GPU")
        return self._shared("__cuda_array_interface__").__cuda_array_interface__

    def __reduce__(self) -> tuple[Any, ...]:
        s = None if self._arrays is None else self._host
        arrays = None if s is None else (s.levels, s.elements, self.device)
        return _rebuilt, (self._name, self._shape, self._facts, arrays)

    def draw(self, format: str = "text") -> str:
        """The arrays of each level, as text, or as a picture: `draw("svg")`.

        >>> from openwork.tensor.create import tensor
        >>> print(tensor([0, 7, 0, 8], format="Compressed", name="x").draw())
        x: 4 int64, ow.CSF(1), 2 stored
          type      ([int32]_pos[1], [int64]_pos[1])
          level 0: Compressed, mode 0, extent 4
            pos     0 2
            crd     1 3 |
          values    7 8 |
        """
        if format not in ("text", "svg"):
            raise FormatError(f"cannot draw as {format!r}", code="E401", hint='"text" or "svg"')
        return (draw if format == "text" else draw_svg)(self._host, self._name)

    @property
    def _seen(self) -> tuple[Storage | None, str]:
        """The arrays, or why there are none: displaying a tensor never raises."""
        try:
            return self._arrays, "no data"
        except UserError as error:
            return None, f"not computed: {error.code}: {error.message}"

    def _repr_html_(self) -> str:
        """Facts, a picture of the pattern, and how long rows are, for notebooks."""
        storage, _ = self._seen
        if storage is None:
            return f"<code>{escape(repr(self))}</code>"
        return tensor_html(storage, self.name, self._repr_svg_() or "")

    def __call__(self, *indices: Any) -> Any:
        """The product with an array, as SciPy's `lobpcg` calls operators."""
        if len(indices) == 1 and hasattr(indices[0], "shape"):
            return self @ indices[0]
        raise ParseError(
            f"{self.name} is not called",
            code="E112",
            hint=f"{self.name}[i, j] in Python; {self.name}(i,j) stands in text: ow.parse(...)",
        )

    def _repr_svg_(self) -> str | None:
        """The drawing, for notebooks; None for tensors that are too large for one."""
        storage, _ = self._seen
        small = storage is not None and storage.places <= MOST_CELLS
        return self.draw("svg") if small else None

    def __repr__(self) -> str:
        storage, why = self._seen
        if storage is None:
            size = "x".join("?" if n is None else str(n) for n in self._shape) or "scalar"
            return f"<Tensor {self.name}: {size} {self.dtype}, {self.format!r}, {why}>"
        value = f" = {self.item()}" if not self.order else ""
        return f"<Tensor {self.name}: {summary(storage)}{value}>"


def _rebuilt(name: str, shape: tuple[int, ...], facts: Facts, arrays: Any) -> Tensor:
    """Unpickle a tensor."""
    if arrays is None:
        return Tensor(name, shape, facts)
    levels, values, device = arrays
    made = from_levels(facts.format, shape, levels, values, name, facts.fill)
    return Tensor.of(made.astype(facts.dtype), name).to(device)


def _sources(record: Record) -> Iterator[Tensor]:
    """The tensors that a recorded statement reads."""
    for node in walk(record.rhs):
        if isinstance(node, TensorVar) and isinstance(node.source, Tensor):
            yield node.source


def _compute(tensor: Tensor) -> None:
    """Run what is recorded for `tensor`, after what is recorded for its operands.

    Raises:
        ParseError: E107 if a result depends on itself.
        ShapeError: E203 if an operand is a placeholder.
    """
    path = [tensor]  # each needs the next one; a chain may be longer than Python recurses
    while path:
        latest = path[-1]
        needed = _first_waiting(latest)
        if needed is None:
            latest._run()
            path.pop()
        elif any(each is needed for each in path):
            names = ", ".join(dict.fromkeys(each.name for each in path))
            raise ParseError(
                f"the statements recorded for {names} depend on each other",
                code="E107",
                hint="; ".join(str(each.statement) for each in path),
            )
        else:
            path.append(needed)


def _first_waiting(tensor: Tensor) -> Tensor | None:
    """An operand of what is recorded for `tensor` that must be computed first.

    A statement that reads its own result is refused when it runs, so it is skipped here.
    """
    records = tensor._recorded.records if tensor._recorded is not None else ()
    sources = (source for record in records for source in _sources(record))
    return next((each for each in sources if each._waits and each is not tensor), None)
