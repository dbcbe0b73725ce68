"""Recorded statements: what `y[i] = ...` leaves behind, and how reading `y` computes it.

An assignment to an access computes nothing. It is kept with the tensor until somebody reads that,
or until a kernel writes to it; then it has run, once. Operands count with what they hold at that
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, Self

from openwork.algebra.operators import Op
from openwork.errors import InternalError, ParseError, ShapeError
from openwork.index.checks import check
from openwork.index.einstein import explicit
from openwork.index.nodes import Access, Assignment, Expr, IndexVar, TensorVar
from openwork.runtime.storage import Storage
from openwork.tensor.eager import Operand
from openwork.tensor.statement import Statement
from openwork.tree import walk


class Record(NamedTuple):
    """An assignment to a tensor, or an accumulation by `op`."""

    variables: tuple[IndexVar, ...]
    rhs: Expr
    op: Op | None


class Recorded(NamedTuple):
    """What was assigned to a tensor, and the arrays that it had before the first of `records`.

    Accumulations follow what they add to. Once all have run, only the newest is kept, as the
    tensor's statement.
    """

    records: tuple[Record, ...]
    before: Storage | None

    def then(self, record: Record) -> Recorded:
        """With another assignment, which takes the place of all others unless it adds to them."""
        earlier = () if record.op is None else self.records
        return Recorded((*earlier, record), self.before)


class Recording(Operand):
    """A tensor that statements are recorded for: `_storage` is None until they have run."""

    _recorded: Recorded | None
    _shape: tuple[int | None, ...]

    @property
    def statement(self) -> Statement:
        """The statement that the last `y[i] = ...` recorded."""
        if self._recorded is None:
            raise ParseError(
                f"nothing has been assigned to {self.name}",
                code="E102",
                hint=f"write {self.name}[i] = ... first, with index variables",
            )
        return Statement(self._assignment(self._recorded.records[-1]))

    def _record(self, record: Record) -> None:
        """Keep an assignment for the first who reads the tensor."""
        recorded = self._recorded
        if recorded is None or self._storage is not None:
            recorded = Recorded((), self._storage)
        self._recorded, self._storage = recorded.then(record), None

    @property
    def _arrays(self) -> Storage | None:
        """The arrays, computed if that is due; None if the tensor has no data."""
        if self._waits:
            _compute(self)
        return self._storage

    @property
    def _waits(self) -> bool:
        return self._storage is None and self._recorded is not None

    def __openwork_place__(self) -> Storage:
        """The arrays that a kernel is to write over: what is recorded need not run for that."""
        if self._waits and self._recorded is not None and self._recorded.before is not None:
            return self._recorded.before
        return self.storage

    def __openwork_before__(self, written: Assignment) -> Storage:
        """The arrays that `written`, which adds to this tensor, is to be added to.

        They are what the tensor holds; but while a statement waits to run, its own kernel does not
        have to wait for it.
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

        It has arrays only where they are added to: otherwise nobody would read them.
        """
        if assignment.op is None or (self._storage is None and self._recorded is None):
            return self._like(None)
        return self._like(self.__openwork_before__(explicit(check(assignment))))

    def __openwork_store__(self, storage: Storage) -> None:
        """Take a kernel's result in place of the present arrays, and of what is recorded."""
        facts = self.facts
        if storage.format != facts.format or storage.dtype != facts.dtype:
            raise InternalError(f"{self.name} was given a result in {storage.format!r}")
        self._storage, self._shape = storage, storage.shape
        if self._recorded is not None:
            self._recorded = Recorded(self._recorded.records[-1:], None)

    def _assignment(self, record: Record) -> Assignment:
        return Assignment(Access(self.var, record.variables), record.rhs, record.op)

    def _like(self, storage: Storage | None) -> Self:
        """A tensor like this one around other arrays."""
        raise NotImplementedError

    def _run(self) -> None:
        """Run what is recorded; a thread that does so at the same time leaves the same."""
        recorded = self._recorded
        if recorded is None or self._storage is not None:
            return
        storage = recorded.before
        for record in recorded.records:
            storage = self._result(record, storage)
        if storage is not None:
            self.__openwork_store__(storage)

    def _result(self, record: Record, old: Storage | None) -> Storage:
        """The arrays of a recorded statement's result; those it adds to stay as they are."""
        assignment = check(self._assignment(record))
        sources = list(_sources(record))
        for source in sources:
            if source._storage is None:
                raise ShapeError(
                    f"{self.name} cannot be computed: {source.name} is a placeholder and has no "
                    "data",
                    code="E203",
                    hint=f"compile {self.name}.statement, and give the kernel {source.name}=...",
                )
        result = self._like(old)
        lhs = Access(result.var, record.variables)
        on_gpu = any(each.device == "cuda" for each in (result, *sources))
        kernel = Statement(replace(assignment, lhs=lhs)).compile("cuda" if on_gpu else "cpu")
        made: Storage = kernel().storage
        return made


def _sources(record: Record) -> Iterator[Recording]:
    """The tensors that a recorded statement reads."""
    for node in walk(record.rhs):
        if isinstance(node, TensorVar) and isinstance(node.source, Recording):
            yield node.source


def _compute(tensor: Recording) -> None:
    """Run what is recorded for `tensor`, after what is recorded for its operands.

    Raises:
        ParseError: E107 if a result is needed on the way to itself.
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
                f"the statements recorded for {names} need each other",
                code="E107",
                hint="; ".join(str(each.statement) for each in path),
            )
        else:
            path.append(needed)


def _first_waiting(tensor: Recording) -> Recording | None:
    """An operand of what is recorded for `tensor` that is to be computed first.

    What reads its own result has to wait for nobody: it is refused when it runs.
    """
    records = tensor._recorded.records if tensor._recorded is not None else ()
    sources = (source for record in records for source in _sources(record))
    return next((each for each in sources if each._waits and each is not tensor), None)
