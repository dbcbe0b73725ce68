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

# Folders and root modules in the order of the pipeline: a module imports what stands in its own
# folder or above it. The files of a folder stand where its own line is, before or after its
# sub-folders.
LAYERS = (
    "_version",
    "frozen",
    "errors",
    "trace",
    "tree",
    "algebra",
    "format/levels",
    "format",
    "index",
    "loops/relations",
    "loops",
    "loops/plan",
    "loops/schedule/legality",
    "loops/schedule/commands",
    "loops/schedule",
    "loops/schedule/default",
    "program",
    "program/simplify",
    "program/lower/base",
    "program/lower/walk",
    "program/lower/derived",
    "program/lower/derived/relations",
    "program/lower/result",
    "program/lower",
    "program/device",
    "program/interpret",
    "recipes/devices",
    "recipes",
    "render",
    "render/c",
    "render/cuda",
    "runtime",
    "runtime/host",
    "runtime/gpu",
    "pipeline",
    "tensor/convert",
    "tensor/exchange",
    "tensor/rearrange",
    "tensor/draw",
    "tensor/kernel",
    "tensor/buckets",
    "tensor/contraction",
    "tensor",
    "tensor/functions",
    "array_api",
    "tensor/files/lines",
    "tensor/files",
    "skeletons/language",
    "skeletons/lower",
    "skeletons/run",
    "skeletons",
    "tune",
    "tune/defaults",
    "ui",
)
ROOT_FILES = ("__init__", "__main__")  # may import anything

START = "<!-- tree: made by `make docs` from the modules' docstrings -->"
STOP = "<!-- end of tree -->"
SOURCES = {".py", ".c", ".h", ".hpp", ".cu", ".cuh"}


def rank(module: str) -> int | None:
    """The layer of a module or folder, given as its path; None when it has no place in `LAYERS`."""
    folder = module if module in LAYERS else module.rpartition("/")[0]
    return LAYERS.index(folder) if folder in LAYERS else None


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


def _place(path: Path, package: Path) -> tuple[int, str]:
    """Where a file or folder is listed: a folder as the first layer in it."""
    module = path.relative_to(package).with_suffix("").as_posix()
    if path.is_dir():
        inside = [i for i, layer in enumerate(LAYERS) if f"{layer}/".startswith(f"{module}/")]
        place = min(inside, default=None)
    else:
        place = -1 if module in ROOT_FILES else rank(module)
    return (len(LAYERS) if place is None else place, path.name)


def _entries(folder: Path, package: Path) -> list[tuple[str, str]]:
    """(indented name, summary) of all that lies in `folder`; its `__init__` speaks for it."""
    rows: list[tuple[str, str]] = []
    depth = len(folder.relative_to(package).parts) + 1
    inside = [p for p in folder.iterdir() if p.is_dir() or p.suffix in SOURCES]
    for path in sorted(inside, key=lambda path: _place(path, package)):
        if path.is_dir():
            below = _entries(path, package)
            init = path / "__init__.py"
            if below or init.exists():
                words = summary(init) if init.exists() else ""
                rows += [("  " * depth + path.name + "/", words), *below]
        elif depth == 1 or path.name != "__init__.py":
            rows.append(("  " * depth + path.name, summary(path)))
    return rows


def tree(package: Path = PACKAGE) -> str:
    """The listing, one line per folder and file."""
    rows = _entries(package, package)
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
