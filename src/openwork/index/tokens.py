"""The text form as tokens, and the faults that reading it collects."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from openwork.errors import Fault, ParseError, Span

T = TypeVar("T")
MAX_NESTING = 64  # brackets and signs within each other
MAX_DEPTH = 200  # of the tree: a long sum is deep, too
_CLOSER = {"(": ")", "[": "]"}

_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?j?)"
    r"|(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
    r"|(?P<sign>\*\*|//|<<|>>|<=|>=|==|!=|[-+*/%()\[\],<>=&|^~])"
)


@dataclass(frozen=True)
class Token:
    """A word, a number, a sign, or the end of the text."""

    kind: str  # "number", "name", "sign" or "end"
    text: str
    start: int
    stop: int

    def __str__(self) -> str:
        return "the end of the text" if self.kind == "end" else f"`{self.text}`"


class Faults:
    """The faults found so far in one text, each with its code."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[tuple[str, Fault]] = []

    def add(self, code: str, message: str, start: int, stop: int, hint: str | None = None) -> None:
        """Note a fault in `text[start:stop]`."""
        self.found.append((code, Fault(message, Span(self.text, start, stop), hint)))

    def error(self) -> ParseError:
        """One error for all faults, in the order of the text; its code is the first one's."""
        ordered = sorted(self.found, key=lambda each: each[1].span.start if each[1].span else 0)
        (code, first), *rest = ordered
        error = ParseError(
            first.message,
            code=code,
            span=first.span,
            hint=first.hint,
            more=tuple(fault for _, fault in rest),
        )
        error.args = ("\n".join(f"{code}: {fault}" for code, fault in ordered),)
        return error


def tokens(text: str, faults: Faults) -> list[Token]:
    """The tokens of `text`, the end included; characters that belong to none are faults.

    >>> [token.text for token in tokens("y(i) += 2.5 * x(i)", Faults(""))]
    ['y', '(', 'i', ')', '+', '=', '2.5', '*', 'x', '(', 'i', ')', '']
    """
    found: list[Token] = []
    at = 0
    bad: int | None = None  # where a run of characters that belong to no token begins
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            bad = at if bad is None else bad
            at += 1
            continue
        if bad is not None:
            _strange(bad, at, faults)
            bad = None
        if match.lastgroup is not None and match.lastgroup != "space":
            found.append(Token(match.lastgroup, match.group(), at, match.end()))
        at = match.end()
    if bad is not None:
        _strange(bad, len(text), faults)
    return [*found, Token("end", "", len(text), len(text))]


def _strange(start: int, stop: int, faults: Faults) -> None:
    faults.add("E101", f"`{faults.text[start:stop]}` is not index notation", start, stop)


class SyntaxFault(Exception):
    """Reading cannot go on here; the fault has been noted."""


class TooDeep(Exception):
    """Reading cannot go on anywhere; the fault has been noted."""


class Reader:
    """A place in the tokens of a text, and how to move on from there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.faults = Faults(text)
        self.tokens = tokens(text, self.faults)
        self.at = 0
        self.nesting = 0

    @property
    def token(self) -> Token:
        """The token to be read next."""
        return self.tokens[self.at]

    def next(self) -> Token:
        """Read one token; the end stays where it is."""
        token = self.token
        self.at += token.kind != "end"
        return token

    def sees(self, *signs: str) -> bool:
        """Whether one of `signs` comes next."""
        return self.token.kind == "sign" and self.token.text in signs

    def accepts(self, *signs: str) -> bool:
        """Read one of `signs` if it comes next."""
        seen = self.sees(*signs)
        self.at += seen
        return seen

    def unexpected(self, wanted: str, hint: str | None = None) -> NoReturn:
        """Note that something else stands where `wanted` is needed."""
        token = self.token
        self.faults.add("E102", f"expected {wanted}, found {token}", token.start, token.stop, hint)
        raise SyntaxFault

    def too_deep(self, start: int, stop: int, most: int) -> NoReturn:
        """Note that the text is nested more than `most` deep."""
        hint = "compute a part of it in a statement of its own"
        self.faults.add("E102", f"this is nested more than {most} deep", start, stop, hint)
        raise TooDeep

    def skip_to(self, *signs: str) -> None:
        """Move to the next of `signs` that is in no bracket opened from here on, or to the end."""
        depth = 0
        while self.token.kind != "end" and not (depth == 0 and self.sees(*signs)):
            depth += self.sees("(", "[")
            depth -= self.sees(")", "]") and depth > 0
            self.at += 1

    def list_of(
        self, opener: Token, item: Callable[[], T], hint: str | None = None
    ) -> tuple[list[T] | None, int]:
        """Items between commas up to the bracket that closes `opener`, and where that ends.

        None instead of the items when one of them was at fault.
        """
        closer = _CLOSER[opener.text]
        items: list[T] = []
        sound, nesting = True, self.nesting
        more = not self.sees(closer)
        while more:
            try:
                items.append(item())
                if not self.sees(",", closer):
                    self.unexpected(
                        f"`,` or `{closer}`", hint if self.token.kind != "end" else None
                    )
            except SyntaxFault:
                sound, self.nesting = False, nesting
                self.skip_to(",", closer)
                if self.token.kind == "end":
                    raise
            more = self.accepts(",")
        return items if sound else None, self.next().stop
