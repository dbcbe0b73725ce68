"""The text of a schedule, taken apart into commands with their arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from openwork.errors import ScheduleError, Span


def read_schedule(
    text: str, functions: Mapping[str, Any]
) -> list[tuple[str, tuple[Any, ...], dict[str, Any], Span]]:
    """The commands of a text: names, arguments, options, and where they stand.

    Raises:
        ScheduleError: E311 with a caret, if the text is not a list of commands.
    """
    found = []
    for start, stop in _commands(text):
        span = Span(text, start, stop)
        name, inside = _name_of(text, start, stop, span)
        args: list[Any] = []
        options: dict[str, Any] = {}
        pieces = _pieces(text, inside, stop - 1)
        for first, last in pieces:
            piece = text[first:last].strip()
            option = re.fullmatch(r"([A-Za-z_]\w*)\s*=(?!=)\s*(.*)", piece, re.S)
            if not piece and len(pieces) > 1:
                raise ScheduleError(
                    f"{name} has an empty argument",
                    code="E311",
                    span=span,
                    hint="remove the extra comma",
                )
            if option is not None and option[1] in options:
                raise ScheduleError(
                    f"{name} has {option[1]} twice", code="E311", span=span, hint="give it once"
                )
            if option is not None:
                options[option[1]] = _value(option[2], functions)
            elif piece:
                args.append(_value(piece, functions))
        found.append((name, tuple(args), options, span))
    return found


def _name_of(text: str, start: int, stop: int, span: Span) -> tuple[str, int]:
    """The name of a command, and where its arguments begin."""
    matched = re.match(r"([A-Za-z_]\w*)\s*\(", text[start:stop])
    if matched is None or text[stop - 1] != ")":
        raise ScheduleError(
            "this is not a command", code="E311", span=span, hint="such as split(i, i0, i1, 32)"
        )
    return matched[1], start + matched.end()


def _commands(text: str) -> list[tuple[int, int]]:
    """Where the commands are: each up to the bracket that closes it.

    Commas, semicolons, line breaks, and dots as between methods, may stand between them.
    """
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(text):
        if text[at] in ",;. \t\r\n":
            at += 1
            continue
        start, depth = at, 0
        while at < len(text):
            depth += (text[at] in "([{") - (text[at] in ")]}")
            at += 1
            if depth <= 0 and (text[at - 1] in ")]}" or (depth == 0 and text[at - 1] in ",;\n")):
                break
        end = at - 1 if text[at - 1] in ",;\n" and depth == 0 else at
        found.append((start, start + len(text[start:end].rstrip())))
    return found


def _value(piece: str, functions: Mapping[str, Any]) -> Any:
    """A piece of text; `[i, j]` and `{i, j}` are lists, and functions go by their names."""
    listed = re.fullmatch(r"[\[{](.*)[\]}]", piece, re.S)
    if listed is not None:
        return [word.strip() for word in listed[1].split(",")] if listed[1].strip() else []
    return functions.get(piece, piece)


def _pieces(text: str, start: int, stop: int) -> list[tuple[int, int]]:
    """The pieces between commas that are not inside brackets."""
    pieces: list[tuple[int, int]] = []
    depth, begin = 0, start
    for at in range(start, stop):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0 and text[at] == ",":
            pieces.append((begin, at))
            begin = at + 1
    pieces.append((begin, stop))
    return pieces
