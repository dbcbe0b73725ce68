"""Golden kernels, read as a reviewer does: nothing is unused, said twice, or turned round."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from openwork.runtime.host.toolchain import find_toolchain

FILES = sorted(f for f in (Path(__file__).parent.parent / "golden").iterdir() if f.is_file())
# What stands in no kernel, and why.
NEVER = {
    r"\b(if|while) \((1|0|true|false)\)": "a test that is known",
    r"\((\d+) <=? \w": "a constant comes second",
    r"\w \+ 1 <= ": "`a + 1 <= b` is `a < b`",
    r"\b0 > \(": "what is never negative is not compared with 0",
    r"(\w+(\[[^\]\n]+\]|( [-+*/] \w+)+)) [<>] [^?\n]+ \? \1 : ": "computed twice",
}
ONLY_ON_A_GPU = {r"^ *\{$": "a block around what stands alone"}


@pytest.mark.needs_cc
def test_compilers_have_nothing_to_say() -> None:
    toolchain = find_toolchain()
    assert toolchain is not None
    sources = [str(file) for file in FILES if file.suffix == ".c"]
    flags = ("-fsyntax-only", "-fopenmp", "-Wall", "-Wextra", "-Wno-unknown-pragmas")
    told = subprocess.run([*toolchain.command, *flags, *sources], capture_output=True, text=True)
    assert "warning" not in told.stderr, told.stderr


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nothing_is_said_in_vain(file: Path) -> None:
    text = file.read_text()
    kernels = text[text.index("// forall") :]
    rules = NEVER | (ONLY_ON_A_GPU if file.suffix == ".cu" else {})
    for pattern, reason in rules.items():
        found = re.search(pattern, kernels, re.MULTILINE)
        assert found is None, f"{found[0]!r}: {reason}"
