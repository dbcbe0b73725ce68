"""The architecture as tests: imports point up the pipeline, modules stay small, nothing unsafe."""

from __future__ import annotations

import ast
import difflib
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import make_tree
from make_tree import LAYERS, PACKAGE, ROOT_FILES, rank

MAX_LINES = 700  # one idea stays whole, but nothing is that long
# All that users call on a tensor is one class; most methods are a line over a function elsewhere.
LONGER = {"tensor/tensor.py"}
MAX_FILES = 14  # about a dozen
FILES = sorted(PACKAGE.rglob("*.py"))

FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
FORBIDDEN_CALLS = {"eval", "exec", "__import__", "builtins.eval", "builtins.exec"}
FORBIDDEN_CALLS |= {"os.system", "os.popen"}
FORBIDDEN_KEYWORDS = {"shell", "allow_pickle"}


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _is_module(parts: list[str], package: Path) -> bool:
    path = package.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").is_file()


def _imported(node: ast.Import | ast.ImportFrom, file: Path, package: Path) -> Iterator[list[str]]:
    """The modules of our package that `node` imports, each as its path below the package."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            head, *rest = alias.name.split(".")
            if head == package.name:
                yield rest
        return
    source = node.module.split(".") if node.module else []
    if node.level:
        here = list(file.relative_to(package).parent.parts)
        source = [package.name, *here[: len(here) - (node.level - 1)], *source]
    if source[:1] == [package.name]:
        for alias in node.names:
            inside = [*source[1:], alias.name]
            yield inside if _is_module(inside, package) else source[1:]


def _imports(file: Path, package: Path) -> Iterator[tuple[ast.stmt, list[str], bool]]:
    """(node, module, deferred) of each import of our own modules.

    Deferred means inside a function. Imports for type checkers only are never deferred, but they
    do count as imports: knowing a later layer's types is knowing the later layer.
    """

    def visit(node: ast.AST, deferred: bool) -> Iterator[tuple[ast.stmt, list[str], bool]]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for module in _imported(node, file, package):
                yield node, module, deferred
            return
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.body:
                yield from visit(child, False)
            for child in node.orelse:
                yield from visit(child, deferred)
            return
        inside = deferred or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for below in ast.iter_child_nodes(node):
            yield from visit(below, inside)

    yield from visit(_parsed(file.read_text(encoding="utf-8")), False)


def wrong_imports(package: Path) -> list[str]:
    """One line for each import that points down the pipeline or hides in a function."""
    wrong = []
    for file in sorted(package.rglob("*.py")):
        where = file.relative_to(package)
        here = where.with_suffix("").as_posix().removesuffix("/__init__")
        root = here in ROOT_FILES
        layer = len(LAYERS) if root else rank(here)
        if layer is None:
            wrong.append(f"{where}: {here} has no layer; give it one in tools/make_tree.py")
            continue
        for node, module, deferred in _imports(file, package):
            place = f"{where}:{node.lineno}"
            other = "/".join(module)
            if deferred:
                wrong.append(f"{place}: imports {other or package.name} in a function")
            if not module:
                if not root and not here.startswith("ui/"):
                    wrong.append(f"{place}: imports the whole package, which is above it")
                continue
            below = rank(other)
            if below is None and not root:
                wrong.append(f"{place}: imports {other}, which has no layer")
            elif below is not None and below > layer and not here.startswith(f"{other}/"):
                wrong.append(f"{place}: {here} may not import {other}, which comes later")
    return wrong


def circles(package: Path) -> list[str]:
    """The circles that imports among the files of a package make, each as a line."""
    graph: dict[str, set[str]] = {}
    for file in package.rglob("*.py"):
        here = file.relative_to(package).with_suffix("").as_posix()
        found = ("/".join(module) for _, module, _ in _imports(file, package))
        graph[here] = {m if (package / f"{m}.py").exists() else f"{m}/__init__" for m in found}
    found, done = [], set[str]()

    def visit(module: str, path: tuple[str, ...]) -> None:
        if module in path:
            found.append(" -> ".join((*path[path.index(module) :], module)))
        elif module in graph and module not in done:
            for other in sorted(graph[module]):
                visit(other, (*path, module))
            done.add(module)

    for module in sorted(graph):
        visit(module, ())
    return found


MAKES_METHODS = PACKAGE / "frozen.py"  # of the names of fields, as the library's dataclasses do


def unsafe(text: str) -> list[str]:
    """What `text` does that would run foreign code: eval, exec, pickle, a shell."""
    found = []
    for node in ast.walk(_parsed(text)):
        match node:
            case ast.Import(names=names):
                modules = [alias.name.split(".")[0] for alias in names]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module.split(".")[0]]
            case ast.Call(func=func, keywords=keywords):
                modules = []
                if ast.unparse(func) in FORBIDDEN_CALLS:
                    found.append(f"{node.lineno}: calls {ast.unparse(func)}")
                for key in keywords:
                    off = isinstance(key.value, ast.Constant) and key.value.value is False
                    if key.arg in FORBIDDEN_KEYWORDS and not off:
                        found.append(f"{node.lineno}: passes {ast.unparse(key)}")
            case _:
                continue
        found += [f"{node.lineno}: imports {m}" for m in modules if m in FORBIDDEN_MODULES]
    return found


def test_imports_point_up() -> None:
    wrong = wrong_imports(PACKAGE)
    assert not wrong, "\n" + "\n".join(wrong)


def test_no_circles() -> None:
    found = circles(PACKAGE)
    assert not found, "\n" + "\n".join(found)


def test_folders_are_small() -> None:
    full = []
    for folder in [PACKAGE, *(p for p in PACKAGE.rglob("*") if p.is_dir())]:
        files = [f for f in folder.iterdir() if f.suffix == ".py" and f.stem != "__init__"]
        if len(files) > MAX_FILES:
            full.append(f"{folder.relative_to(PACKAGE)} has {len(files)} modules")
    assert not full, f"more than {MAX_FILES} modules in a folder: " + ", ".join(full)


def test_modules_are_small() -> None:
    long = []
    for file in FILES:
        lines = len(file.read_text(encoding="utf-8").splitlines())
        if lines > MAX_LINES and file.relative_to(PACKAGE).as_posix() not in LONGER:
            long.append(f"{file.relative_to(PACKAGE)} has {lines} lines, {lines - MAX_LINES} over")
    told = f"these hold two ideas, if not three (over {MAX_LINES} lines):\n"
    assert not long, told + "\n".join(long)


def test_modules_say_what_they_are() -> None:
    silent = [str(f.relative_to(PACKAGE)) for f in FILES if not make_tree.summary(f)]
    assert not silent, "no docstring at the top of: " + ", ".join(silent)


def test_what_few_need_is_not_imported_with_openwork() -> None:
    slow = ("scipy.sparse.linalg", "scipy.linalg", "multiprocessing", "matplotlib", "cupy", "torch")
    program = f"import sys, openwork; print([m for m in {slow} if m in sys.modules])"
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (made.stdout, made.stderr) == ("[]\n", "")


def test_nothing_unsafe() -> None:
    others = [f for f in FILES if f != MAKES_METHODS]
    found = [f"{f.relative_to(PACKAGE)}:{line}" for f in others for line in unsafe(f.read_text())]
    assert not found, "\n" + "\n".join(found)


def test_tree_in_architecture_page() -> None:
    page = make_tree.PAGE.read_text(encoding="utf-8")
    diff = difflib.ndiff(make_tree.written(page).splitlines(), make_tree.tree().splitlines())
    remove_add = [line for line in diff if line[0] in "-+"]
    assert not remove_add, "docs/architecture.md, run `make docs`:\n" + "\n".join(remove_add)


# The checks above, checked.


def _package(folder: Path, files: dict[str, str]) -> Path:
    package = folder / "openwork"
    for name, text in files.items():
        file = package / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return package


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("index/nodes.py", "from openwork.render.c.c import emit", "may not import render"),
        ("index/nodes.py", "from openwork import render", "may not import render"),
        ("index/nodes.py", "import openwork.render.c.c", "may not import render"),
        ("index/nodes.py", "from ..render import c", "may not import render"),
        ("index/nodes.py", "from .. import render", "may not import render"),
        ("errors.py", "from .index import nodes", "errors may not import index"),
        ("pipeline.py", "import openwork.ui", "pipeline may not import ui"),
        ("render/c.py", "from openwork import pipeline", "may not import pipeline"),
        ("index/nodes.py", "def f():\n    from openwork.tree import Node", "in a function"),
        ("index/nodes.py", "def f():\n    import openwork.render", "may not import render"),
        ("index/nodes.py", "import openwork as ow", "the whole package"),
        ("loops/plan/a.py", "from openwork.loops.schedule import b", "may not import loops/sched"),
        ("index/nodes.py", "import typing as t\nif t.TYPE_CHECKING:\n from .. import ui", "ui"),
        ("helpers/a.py", "", "helpers/a has no layer"),
        ("tensor/a.py", "from openwork.helpers import b", "helpers, which has no layer"),
    ],
)
def test_wrong_imports_are_found(tmp_path: Path, file: str, text: str, complaint: str) -> None:
    files = dict.fromkeys(("render/c.py", "ui/cli.py", "pipeline.py", "index/nodes.py"), "")
    found = wrong_imports(_package(tmp_path, files | {file: text}))
    assert len(found) >= 1
    assert complaint in found[-1]


def test_circles_are_found(tmp_path: Path) -> None:
    files = {
        "loops/a.py": "from openwork.loops.b import x",
        "loops/b.py": "from openwork.loops import c",
        "loops/c.py": "import openwork.loops.a",
        "loops/d.py": "from openwork.loops import a, b, c",
    }
    assert circles(_package(tmp_path, files)) == ["loops/a -> loops/b -> loops/c -> loops/a"]


def test_right_imports_pass(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from openwork.ui import cli\nfrom openwork._version import __version__",
        "__main__.py": "from openwork.ui.cli import main",
        "errors.py": "",
        "tree.py": "from openwork.errors import E\nimport numpy",
        "index/__init__.py": "from .nodes import Access\nfrom openwork.index.nodes import Access",
        "index/nodes.py": "from ..tree import Node\nfrom openwork import errors\ndef f():\n"
        "    import ctypes\n    if TYPE_CHECKING:\n        from openwork.format import Format",
        "ui/cli.py": "import openwork as ow\nfrom openwork import Tensor",
        "ui/__init__.py": "",
        "loops/__init__.py": "",
    }
    assert wrong_imports(_package(tmp_path, files)) == []


@pytest.mark.parametrize(
    "text",
    [
        "eval('1')",
        "import pickle",
        "from pickle import loads",
        "subprocess.run(cmd, shell=True)",
        "subprocess.run(cmd, shell=flag)",
        "np.load(file, allow_pickle=True)",
        "def f():\n    exec(text)",
        "os.system(cmd)",
    ],
)
def test_unsafe_code_is_found(text: str) -> None:
    assert len(unsafe(text)) == 1


def test_safe_code_passes() -> None:
    assert unsafe("evaluate(x)\nnode.eval()\nrun(cmd, shell=False)\n# eval(x)\n'exec(y)'") == []


def test_tree_lists_layers_in_order(tmp_path: Path) -> None:
    package = _package(
        tmp_path,
        {
            "__init__.py": '"""The door."""',
            "tree.py": '"""Nodes, e.g. loops. More."""',
            "pipeline.py": '"""The map."""',
            "tensor/__init__.py": '"""Data.\n\nLong story."""',
            "runtime/__init__.py": '"""Running."""',
            "runtime/support.c": "/* Checks of\n * arrays. Fast. */\nint x;",
            "runtime/cache.py": '"""The kernel\ncache."""',
            "runtime/notes.txt": "",
        },
    )
    assert make_tree.tree(package).splitlines() == [
        "src/openwork/",
        "  __init__.py  The door",
        "  tree.py      Nodes, e.g. loops",
        "  runtime/     Running",
        "    cache.py   The kernel cache",
        "    support.c  Checks of arrays",
        "  pipeline.py  The map",
        "  tensor/      Data",
    ]
