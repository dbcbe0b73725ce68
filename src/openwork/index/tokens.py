"""The text form as tokens, and the faults that the parser collects."""

from __future__ import annotations

import re
from dataclasses import dataclass

from openwork.errors import Fault, ParseError, Span

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
        """Record a fault in `text[start:stop]`."""
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
