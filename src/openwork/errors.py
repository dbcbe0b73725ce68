"""Errors: families, stable codes, the place of the fault, and a hint.

A user's mistake is a `UserError`; a bug in Openwork is an `InternalError`. The library raises
nothing else, apart from Python's own `MemoryError` and `KeyboardInterrupt`.
"""

from __future__ import annotations

from functools import partial

from openwork.frozen import frozen


@frozen
class Span:
    """A piece of a source text: `text[start:stop]` is at fault."""

    text: str
    start: int
    stop: int

    def underline(self) -> str:
        """The line that holds the span, and carets beneath the span.

        >>> print(Span("y(i) = A(i,j", 7, 12).underline())
        y(i) = A(i,j
               ^^^^^
        """
        begin = self.text.rfind("\n", 0, self.start) + 1
        end = self.text.find("\n", self.start)
        line = self.text[begin : end if end >= 0 else len(self.text)]
        width = max(1, min(self.stop, begin + len(line)) - self.start)
        return f"{line}\n{' ' * (self.start - begin)}{'^' * width}"


@frozen
class Fault:
    """One fault: what is wrong, where, and how to fix it."""

    message: str
    span: Span | None = None
    hint: str | None = None

    def __str__(self) -> str:
        lines = [self.message]
        if self.span is not None:
            lines += ["  " + line for line in self.span.underline().splitlines()]
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class OpenworkError(Exception):
    """The root of all errors that Openwork raises."""

    code = "E000"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        span: Span | None = None,
        hint: str | None = None,
        more: tuple[Fault, ...] = (),
    ) -> None:
        self.code = code or type(self).code
        self.message, self.span, self.hint = message, span, hint
        self.faults = (Fault(message, span, hint), *more)
        super().__init__("\n".join(f"{self.code}: {fault}" for fault in self.faults))

    def __reduce__(self) -> tuple[object, ...]:
        first, *more = self.faults
        again = partial(
            type(self), code=self.code, span=first.span, hint=first.hint, more=tuple(more)
        )
        return again, (first.message,)


class UserError(OpenworkError):
    """The call is wrong, and the caller can fix it."""


class ParseError(UserError):
    """The text or expression is not index notation, or its meaning is ambiguous."""

    code = "E100"


class ShapeError(UserError, ValueError):
    """Extents, orders or names of the tensors do not agree.

    NumPy raises a ValueError, which libraries of arrays catch.
    """

    code = "E200"


class ScheduleError(UserError):
    """A scheduling command would change the answer, or asks for a loop that cannot exist."""

    code = "E300"


class FormatError(UserError):
    """A storage format or an element type is malformed, or cannot do what is asked of it."""

    code = "E400"


class ElementTypeError(FormatError, TypeError):
    """There is no such element type.

    NumPy raises a TypeError, which libraries of arrays catch.
    """


class DataError(UserError):
    """Data from outside violates an invariant of its format."""

    code = "E500"


class ToolchainError(UserError):
    """A compiler, its output, or the kernel cache cannot be used."""

    code = "E600"


class PatternError(UserError):
    """A program of patterns is malformed, or its types do not agree."""

    code = "E700"


class InternalError(OpenworkError):
    """Openwork itself is at fault; please report it with the text of the statement."""

    code = "E900"


# Every code that is raised, with one line on what went wrong. docs/errors.md is made from this
# table, and a test raises each of them.
CODES: dict[str, str] = {
    "E101": "a character or word that is not index notation",
    "E102": "unexpected end of the text, or one token where another is needed",
    "E103": "the text names a tensor, operator or function that was not given",
    "E104": "an access whose number of index variables differs from its tensor's number of modes",
    "E105": "an ambiguous reduction variable: write the sum explicitly",
    "E106": "a result variable without an extent, on the right or in the result's shape",
    "E107": "a result that depends on itself, or an access that cannot be written to",
    "E108": "an operator that is not defined for its element types",
    "E109": "two different tensors with one name in one statement",
    "E110": "an einsum subscript text that does not fit its operands",
    "E111": "an operator, semiring or reduction with missing or contradictory laws",
    "E112": "a Python value that is not allowed in an expression",
    "E201": "an index variable runs over modes of different extents",
    "E202": "a kernel argument whose order, shape, format or element type is not what was compiled",
    "E203": "a kernel argument is missing, or is not one of the kernel's tensors",
    "E204": "operands with incompatible shapes",
    "E205": "a negative, fractional or otherwise impossible shape",
    "E206": "a symbolic phase of a kernel whose result has no sparsity pattern to reuse",
    "E207": "an element whose coordinate lies beyond its tensor",
    "E301": "a scheduling command that names a loop which does not exist",
    "E302": "a new loop variable whose name is taken",
    "E303": "a factor, distance or option outside what a scheduling command accepts",
    "E304": "a loop order in which an operand's levels cannot be traversed",
    "E305": "a position or coordinate space that the operand does not have at this loop",
    "E306": "loops that are not nested as the command requires",
    "E307": "a data race: iterations that write to the same entry",
    "E308": "a loop that cannot be parallelized, merged or prefetched as asked",
    "E309": "an expression that cannot be precomputed into this workspace",
    "E310": "a transformation of a loop that is already parallel",
    "E311": "text or arguments that do not form a scheduling command",
    "E312": "a sparse result whose entries would be appended out of order",
    "E313": "an assembly strategy that the result does not support",
    "E315": "GPU units that are not nested as block, warp, thread, or units of another target",
    "E316": "a recipe that does not fit the statement, or parameters outside the recipe's space",
    "E317": "atomics in a kernel that must be bit-reproducible",
    "E319": "a statement that is too large to be compiled as one",
    "E401": "a format whose levels, mode order and number of modes do not agree",
    "E402": "an unsupported element type",
    "E403": "a text that is not a format",
    "E404": "a format that the other library cannot represent",
    "E405": "an object that cannot become a tensor",
    "E406": "entries that a level cannot store",
    "E501": "an index array of the wrong length, dimension or element type",
    "E502": "positions that do not start at zero, or that decrease",
    "E503": "a coordinate outside its mode",
    "E504": "coordinates that are unordered or duplicated in a level that is ordered or unique",
    "E505": "a values array whose length does not match the positions",
    "E506": "a file that does not follow the format of its extension",
    "E507": "data that violates a bound which the schedule promised",
    "E508": "split points that do not partition a loop: too few, decreasing, or short of its ends",
    "E509": "operands whose sparsity pattern differs from that of the symbolic phase",
    "E510": "a file format or a plot that needs a package which is not installed",
    "E511": "a tensor on a GPU where one in main memory, or on another GPU, is needed",
    "E515": "an integer is raised to a negative power",
    "E516": "data that breaks an assumption of a type: offsets, lengths, or indices",
    "E517": "a triangular matrix with a zero on its diagonal, which a solve divides by",
    "E601": "no usable C compiler",
    "E602": "the compiler refused the generated code",
    "E603": "the kernel cache cannot be trusted or written",
    "E604": "a compiled kernel could not be loaded",
    "E605": "a thread count that is not a positive integer, or that exceeds the limit",
    "E606": "a target without a back end",
    "E607": "no GPU, or no CuPy to access it",
    "E608": "a kernel failed on the GPU, or under its emulator",
    "E609": "torch is not installed",
    "E701": "text that is not a program of patterns",
    "E702": "a name that is not defined in a program of patterns",
    "E703": "types of a program of patterns that do not agree",
    "E704": "lengths of arrays that do not agree",
    "E705": "an index that may lie outside its array",
    "E706": "a function where a value is needed, or the wrong number of arguments",
    "E707": "a natural that is none, or an impossible size of pieces",
    "E708": "parallel maps that do not nest as their target requires",
    "E709": "a program that is no statement, or the reverse, or a type of no format",
    "E710": "a pattern that cannot be compiled",
    "E900": "a fault inside Openwork",
}
