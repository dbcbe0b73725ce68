"""Statements that a tensor records, and that the first read of its arrays computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from openwork.algebra.operators import Op
from openwork.errors import ParseError, ShapeError
from openwork.index.checks import check
from openwork.index.nodes import Access, Assignment, Expr, IndexVar, TensorVar
from openwork.runtime.storage import Storage
from openwork.tensor.operand import Operand
from openwork.tensor.statement import Statement
from openwork.tree import walk

# An operand like a tensor over other arrays, or none.
Like = Callable[[Storage | None], Operand]


class Record(NamedTuple):
    """An assignment to a tensor, or an accumulation by `op`."""

    variables: tuple[IndexVar, ...]
    rhs: Expr
    op: Op | None

    def assignment(self, tensor: TensorVar) -> Assignment:
        """The assignment to `tensor`."""
        return Assignment(Access(tensor, self.variables), self.rhs, self.op)

    def sources(self) -> Iterator[Any]:
        """The operands that it reads."""
        for node in walk(self.rhs):
            if isinstance(node, TensorVar) and isinstance(node.source, Operand):
                yield node.source

    def result(self, tensor: TensorVar, like: Like, old: Storage | None) -> Storage:
        """The arrays of the result; `old`, which an accumulation adds to, stays unchanged.

        Args:
            tensor: what is assigned to, as the statement may read it.
            like: makes the operand that is computed in its place.
            old: what an accumulation starts from.

        Raises:
            ShapeError: E203 if an operand is a placeholder.
        """
        assignment = check(self.assignment(tensor))
        place = like(old)
        lhs = Access(place.tensor_var, self.variables)
        sources = list(self.sources())
        for source in sources:
            if source._storage is None:
                raise ShapeError(
                    f"{place.name} cannot be computed: {source.name} is a placeholder and has no "
                    "data",
                    code="E203",
                    hint=f"compile {place.name}.statement, and pass {source.name}=... to the "
                    "kernel",
                )
        on_gpu = any(each.device == "cuda" for each in (place, *sources))
        kernel = Statement(replace(assignment, lhs=lhs)).compile("cuda" if on_gpu else "cpu")
        made: Storage = kernel().storage
        return made


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

    def result(self, tensor: TensorVar, like: Like) -> Storage | None:
        """The arrays after all records."""
        storage = self.before
        for record in self.records:
            storage = record.result(tensor, like, storage)
        return storage


class Recording(Protocol):
    """A tensor, as far as `compute` is concerned."""

    @property
    def name(self) -> str: ...

    @property
    def statement(self) -> Statement: ...

    @property
    def _recorded(self) -> Recorded | None: ...

    def _run(self) -> None: ...


def compute(tensor: Recording) -> None:
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


def _first_waiting(tensor: Recording) -> Recording | None:
    """An operand of what is recorded for `tensor` that must be computed first.

    A statement that reads its own result is refused when it runs, so it is skipped here.
    """
    records = tensor._recorded.records if tensor._recorded is not None else ()
    sources = (source for record in records for source in record.sources())
    return next((each for each in sources if each._waits and each is not tensor), None)
