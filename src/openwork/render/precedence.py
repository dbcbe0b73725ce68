"""How tightly the expressions of C and CUDA bind, and where they need parentheses."""

from __future__ import annotations

# Precedence of the operators that we use; higher binds tighter.
ATOM, UNARY, TIMES, PLUS, LESS, EQUAL, AND, OR, CHOICE = 9, 8, 7, 6, 5, 4, 3, 2, 1
Spelled = tuple[str, int]


def paren(spelled: Spelled, least: int) -> str:
    """The text, in parentheses if it binds less tightly than `least`."""
    text, precedence = spelled
    return text if precedence >= least else f"({text})"
