"""Comments in generated code: about the names of the code, read with the names of the user.

A comment marks the names in it: `stored ⟨j⟩ of ⟨A⟩`. The text that is compiled has the names of the
code there, so that it does not depend on how users call things. The text for readers has theirs,
and a line that says what they are called in the code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import wrap

CANONICAL: Mapping[str, str] = {}  # nothing is called otherwise

_MARKED = re.compile(r"⟨(\w+)⟩")
_WIDTH = 96  # of a line without its slashes
_LONGEST = 40  # letters of a name


def named(name: str) -> str:
    """A name of the code, in a comment."""
    return f"⟨{name}⟩"


def spoken(text: str, words: Mapping[str, str]) -> str:
    """`text` with what `words` call the names in its comments; others keep theirs."""
    return _MARKED.sub(lambda found: words.get(found[1], found[1]), text)


def title(text: str, words: Mapping[str, str]) -> list[str]:
    """The lines above a kernel, still with marks: its loops, and which name stands for what."""
    marked = set(_MARKED.findall(text))
    other = [f"{word} is {name}" for name, word in words.items() if name in marked - {word}]
    lines = text.splitlines()
    if other:
        # Names hold no space, so that "x is B" is kept together by another sign.
        legend = ", ".join(each.replace(" ", "\0") for each in other)
        lines += [line.replace("\0", " ") for line in wrap(f"In the code, {legend}.", _WIDTH)]
    return [f"// {line}" for line in lines]


def harmless(name: str) -> str:
    """A user's name as a word: letters, digits, underscores and primes, nothing else."""
    return "".join(c if c.isalnum() or c in "_'" else "_" for c in name[:_LONGEST])
