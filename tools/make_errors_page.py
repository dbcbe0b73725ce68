"""Write docs/errors.md from the classes and the table of codes in `openwork.errors`."""

from __future__ import annotations

from inspect import getdoc
from pathlib import Path

from openwork import errors

PAGE = Path(__file__).resolve().parent.parent / "docs" / "errors.md"

HEAD = """\
<!-- Made by `make docs` from src/openwork/errors.py. Do not edit. -->
# Errors

Every error has a code that stays the same from release to release, the place of the fault where
there is one, and a hint where there is a way out. Several faults of one text are reported at once.
Catch `ow.OpenworkError` for all of them, or one of the classes below.

```text
{sample}
```
"""


def _sample() -> str:
    text = "y(i) = A(i,j * x(j)"
    fault = errors.Span(text, 13, 14)
    error = errors.ParseError(
        "expected ',' or ')' after an index variable", code="E102", span=fault, hint="close A(i,j)"
    )
    return str(error)


def _families(root: type[errors.OpenworkError]) -> list[type[errors.OpenworkError]]:
    """The classes below `root` that have a code of their own, in the order of their codes."""
    found = [root] if root is not errors.OpenworkError and "code" in vars(root) else []
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:  # not those that a test derived
            found += _families(child)
    return sorted(found, key=lambda family: family.code)


def page() -> str:
    """The whole page."""
    families = _families(errors.OpenworkError)
    text = HEAD.format(sample=_sample())
    for family in families:
        text += f"\n## {family.code[:2]}xx: `{family.__name__}`\n\n{getdoc(family)}\n\n"
        codes = {c: t for c, t in errors.CODES.items() if c[:2] == family.code[:2]}
        text += "| code | what went wrong |\n|---|---|\n"
        text += "".join(f"| {code} | {meaning} |\n" for code, meaning in sorted(codes.items()))
    lost = set(errors.CODES) - {c for c in errors.CODES for f in families if c[:2] == f.code[:2]}
    if lost:
        raise SystemExit(f"no class in openwork.errors has codes like {', '.join(sorted(lost))}")
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
