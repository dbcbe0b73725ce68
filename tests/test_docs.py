"""The documentation is true: its examples run, its links lead somewhere, its lists are whole."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

import make_errors_page

REPO = Path(__file__).resolve().parent.parent
PAGES = sorted(REPO.glob("*.md")) + sorted((REPO / "docs").rglob("*.md"))
EXAMPLES = [p for p in PAGES if p.name == "README.md" or p.is_relative_to(REPO / "docs")]
FENCE = re.compile(r"^(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ ]*$", re.M | re.S)
OUTPUT = re.compile(r"\s*<!-- output -->\s*")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
VARIABLE = re.compile(r"""["'](OPENWORK_[A-Z_]*[A-Z])["']""")


@dataclass(frozen=True)
class Example:
    """A ```python block: its code, the line where it starts, and what it must print, if told."""

    code: str
    line: int
    output: str | None


def examples(text: str) -> Iterator[Example]:
    """The blocks to run. `<!-- output -->` between two blocks: the second is the first's output."""
    blocks = list(FENCE.finditer(text))
    for block, after in zip_longest(blocks, blocks[1:]):
        if block["info"].strip() != "python":
            continue
        shown = after is not None and OUTPUT.fullmatch(text[block.end() : after.start()])
        line = text.count("\n", 0, block.start("body"))
        yield Example(block["body"], line, after["body"] if after and shown else None)


def run(example: Example, file: str, names: dict[str, object]) -> None:
    """Execute `example` in `names`, and compare what it prints as a doctest would."""
    # Empty lines in front make the lines of a traceback those of the page.
    code = compile("\n" * example.line + example.code, file, "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)  # noqa: S102 - our own pages
    if example.output is None:
        return
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    checker, got = doctest.OutputChecker(), printed.getvalue()
    if not checker.check_output(example.output, got, flags):
        want = doctest.Example(example.code, example.output)
        difference = checker.output_difference(want, got, flags | doctest.REPORT_NDIFF)
        pytest.fail(f"{file}, the example at line {example.line}:\n{difference}", pytrace=False)


def anchors(text: str) -> set[str]:
    """The fragments that the headings of a page can be linked by."""
    headings = re.findall(r"^#+\s+(.+?)\s*$", FENCE.sub("", text), re.M)
    slugs = (re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings)
    return {*slugs, *re.findall(r'<a id="([^"]+)"', text)}


def broken_links(page: Path) -> list[str]:
    """The local links of `page` that lead nowhere."""
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    broken = []
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        file = page.parent / path if path else page
        found = file.exists()
        if found and fragment:
            found = fragment in anchors(file.read_text(encoding="utf-8"))
        if not found:
            broken.append(target)
    return broken


def missing_paths(page: Path) -> list[str]:
    """Paths of this repository that `page` names in backticks and that do not exist."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    named = re.findall(r"`((?:src|tests|docs|tools|bench|\.ci)/[\w./-]*)`", text)
    return [name for name in named if not (REPO / name).exists()]


def _name(page: Path) -> str:
    return str(page.relative_to(REPO))


@pytest.mark.parametrize("page", EXAMPLES, ids=_name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for example in examples(page.read_text(encoding="utf-8")):
        run(example, _name(page), names)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_and_paths_exist(page: Path) -> None:
    assert not broken_links(page)
    assert not missing_paths(page)


def test_errors_page_is_up_to_date() -> None:
    written = make_errors_page.PAGE.read_text(encoding="utf-8")
    assert written == make_errors_page.page(), "run `make docs`"


def test_environment_page_is_whole() -> None:
    """Every variable that is read is on the page, and every one on the page is read."""
    listed = re.findall(r"^\| `(OPENWORK_\w+)`", (REPO / "docs/env.md").read_text(), re.M)
    readers = [*(REPO / "src").rglob("*.py"), *(REPO / "tests").rglob("*.py")]
    read = {name for file in readers for name in VARIABLE.findall(file.read_text())}
    assert sorted(read - set(listed)) == [], "add these to docs/env.md"
    assert sorted(set(listed) - read) == [], "docs/env.md lists these, but nothing reads them"


# The reader above, checked.

PAGE = """\
# A page: with `code`

```python
x = 2
```

Words.

```python
print("x is", x)
```

<!-- output -->
```text
x is 2
```

```python no-run
raise SystemExit
```
```text
not the output of anything
```
"""


def test_reader_finds_examples() -> None:
    first, second = examples(PAGE)
    assert (first.code, first.line, first.output) == ("x = 2\n", 3, None)
    assert second.output == "x is 2\n"
    names: dict[str, object] = {}
    run(first, "page.md", names)
    run(second, "page.md", names)


def test_reader_refuses_wrong_output() -> None:
    with pytest.raises(pytest.fail.Exception, match="x is 3"):
        run(Example("print('x is 2')", 0, "x is 3\n"), "page.md", {})


def test_reader_finds_broken_links(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE + "[a](page.md#a-page-with-code) [b](gone.md) [c](#gone) `[d](x)`")
    assert broken_links(page) == ["gone.md", "#gone"]
