"""Every way Openwork can refuse: error families, stable codes, the place, and a way out.

A user's mistake is a `UserError`; a fault of ours is an `InternalError`. Nothing else leaves the
library, apart from Python's own `MemoryError` and `KeyboardInterrupt`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Fault:
    """One thing wrong: what, where, and how to mend it."""

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
    """Something in the call is wrong, and the caller can mend it."""


class ParseError(UserError):
    """The text or expression is not index notation, or its meaning is ambiguous."""

    code = "E100"


class ShapeError(UserError):
    """Extents, orders or names of the tensors do not fit together."""

    code = "E200"


class ScheduleError(UserError):
    """A scheduling command would change the answer, or asks for a loop that cannot exist."""

    code = "E300"


class FormatError(UserError):
    """A storage format or an element type is malformed, or cannot do what is asked of it."""

    code = "E400"


class DataError(UserError):
    """Data from outside breaks the promises of its format."""

    code = "E500"


class ToolchainError(UserError):
    """A compiler, its output, or the kernel cache cannot be used."""

    code = "E600"


class InternalError(OpenworkError):
    """Openwork itself is at fault; please report it with the text of the statement."""

    code = "E900"


# Every code that is raised, with one line on what went wrong. docs/errors.md is made from this
# table, and a test raises each of them.
CODES: dict[str, str] = {
    "E101": "a character or word that index notation does not have",
    "E102": "the text ends too early, or something stands where something else is needed",
    "E103": "the text names a tensor, operator or function that was not given",
    "E104": "an access has another number of index variables than its tensor has modes",
    "E105": "a summed variable could belong to more than one sum: write the sum out",
    "E106": "a result variable that nothing on the right, nor the result's shape, gives an extent",
    "E107": "the result is needed to compute itself, or is accessed so that it cannot be written",
    "E108": "an operator does not exist for the element types it was given",
    "E109": "two different tensors with one name in one statement",
    "E110": "an einsum subscript text that does not fit its operands",
    "E111": "an operator, semiring or reduction whose laws are missing or contradict each other",
    "E112": "a Python value that cannot stand in an expression",
    "E201": "an index variable runs over modes of different extents",
    "E202": "a kernel argument with another order, shape, format or element type than compiled for",
    "E203": "a kernel argument is missing, or is not one of the kernel's tensors",
    "E204": "operands whose shapes do not fit the operator",
    "E205": "a negative, fractional or otherwise impossible shape",
    "E206": "a kernel whose result has no pattern that could be kept",
    "E301": "a scheduling command names a loop that is not there",
    "E302": "a new loop has the name of a variable that exists",
    "E303": "a factor, distance or choice that a scheduling command cannot take",
    "E304": "loops in an order in which an operand cannot be walked",
    "E305": "positions or coordinates that an operand does not have there",
    "E306": "loops that are not nested as the command needs them",
    "E307": "iterations that would write to one entry at once",
    "E308": "a loop that cannot be shared, merged or prefetched as asked",
    "E309": "an expression that cannot be precomputed so",
    "E310": "a parallel loop is to be transformed",
    "E311": "a text or arguments that are no scheduling command",
    "E312": "a sparse result would be appended to out of order",
    "E313": "a result that cannot be assembled in that way",
    "E315": "loops for a GPU that are not nested as its hardware is, or compiled for a CPU",
    "E316": "a recipe that is not for such a statement, or a point that its space has not",
    "E317": "atomics in a kernel whose result is to be deterministic",
    "E401": "a format whose levels, mode order and number of modes do not agree",
    "E402": "an element type that Openwork does not have",
    "E403": "a text that is not a format",
    "E404": "a format that the foreign library cannot hold",
    "E405": "an object that cannot become a tensor",
    "E406": "entries that a level cannot hold",
    "E501": "an index array of the wrong length, dimension or element type",
    "E502": "positions that do not start at zero or do not rise",
    "E503": "a coordinate outside its mode",
    "E504": "coordinates out of order, or twice, where the level promises neither",
    "E505": "a values array that does not fit the positions",
    "E506": "a file that cannot be read as what its name says",
    "E507": "data breaks a bound that the schedule promised",
    "E508": "split points that do not cut a loop: too few, falling, or short of its ends",
    "E509": "operands of another pattern than a symbolic phase was run for",
    "E510": "a kind of file that needs a package which is not installed",
    "E511": "a tensor on a GPU where one in main memory, or on another GPU, is needed",
    "E515": "an integer is raised to a negative power",
    "E601": "no usable C compiler",
    "E602": "the compiler refused the generated code",
    "E603": "the kernel cache cannot be trusted or written",
    "E604": "a compiled kernel could not be loaded",
    "E605": "a number of threads that is not a positive whole number, or more than can be had",
    "E606": "a target that this version has no back end for",
    "E607": "no GPU, or no CuPy to reach it by",
    "E608": "a kernel failed on the GPU, or under its emulator",
    "E609": "torch is not installed",
    "E900": "a fault inside Openwork",
}
