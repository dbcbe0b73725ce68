"""Write the tree of src/openwork into docs/architecture.md, from the modules' docstrings.

`LAYERS` is the order of the pipeline. The tree is listed in this order, and imports point up it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
PACKAGE = REPO / "src" / "openwork"
PAGE = REPO / "docs" / "architecture.md"

BASE = ("_version", "errors", "trace", "tree")
LAYERS = (
    BASE,
    ("algebra",),
    ("format",),
    ("index",),
    ("loops",),
    ("merge",),
    ("program",),
    ("render",),
    ("runtime",),
    ("pipeline",),
    ("tensor",),
    ("tune",),
    ("ui",),
)
ROOT_FILES = ("__init__", "__main__")  # may import anything

START = "<!-- tree: made by `make docs` from the modules' docstrings -->"
STOP = "<!-- end of tree -->"
SOURCES = {".py", ".c", ".h", ".cu", ".cuh"}


def rank(name: str) -> int | None:
    """The layer of a folder or root module, or None when it has no place in `LAYERS`."""
    return next((i for i, layer in enumerate(LAYERS) if name in layer), None)


def first_sentence(text: str) -> str:
    """Everything before the first full stop that ends a sentence, on one line."""
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<!e\.g)(?<!i\.e)\.(?:\s|$)", paragraph)[0]


def summary(file: Path) -> str:
    """What `file` says it is; empty when it says nothing."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return first_sentence(ast.get_docstring(ast.parse(text)) or "")
    comment = re.match(r"\s*/\*(.*?)\*/|((?:\s*//[^\n]*\n)+)", text, re.DOTALL)
    return (
        first_sentence(re.sub(r"(?m)^\s*(//|\*)", "", comment[1] or comment[2])) if comment else ""
    )


def _order(path: Path) -> tuple[int, str]:
    place = rank(path.stem)
    if path.stem in ROOT_FILES:
        place = -1
    return (len(LAYERS) if place is None else place, path.name)


def _entries(folder: Path, depth: int) -> list[tuple[str, str]]:
    """(indented name, summary) of all that lies in `folder`; its `__init__` speaks for it."""
    rows: list[tuple[str, str]] = []
    inside = [p for p in folder.iterdir() if p.is_dir() or p.suffix in SOURCES]
    for path in sorted(inside, key=_order if depth == 1 else lambda p: (p.is_dir(), p.name)):
        if path.is_dir():
            below = _entries(path, depth + 1)
            init = path / "__init__.py"
            if below or init.exists():
                words = summary(init) if init.exists() else ""
                rows += [("  " * depth + path.name + "/", words), *below]
        elif depth == 1 or path.name != "__init__.py":
            rows.append(("  " * depth + path.name, summary(path)))
    return rows


def tree(package: Path = PACKAGE) -> str:
    """The listing, one line per folder and file."""
    rows = _entries(package, 1)
    width = max((len(name) for name, _ in rows), default=0) + 2
    lines = [f"{name:<{width}}{words}".rstrip() for name, words in rows]
    return "\n".join([f"src/{package.name}/", *lines])


def written(page: str) -> str:
    """The tree that `page` holds now."""
    if page.count(START) != 1 or page.count(STOP) != 1:
        raise SystemExit(f"docs/architecture.md needs one line {START!r} and one {STOP!r}")
    block = page.split(START)[1].split(STOP)[0]
    return block.strip().removeprefix("```text\n").removesuffix("\n```")


def rewritten(page: str) -> str:
    """`page` with the tree as it should be."""
    written(page)
    head, tail = page.split(START)[0], page.split(STOP)[1]
    return f"{head}{START}\n```text\n{tree()}\n```\n{STOP}{tail}"


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
