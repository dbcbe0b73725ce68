"""The demo runs, agrees with the reference, and stays readable."""

from __future__ import annotations

import re

import numpy as np
import pytest

from openwork.errors import InternalError
from openwork.ui import demo
from openwork.ui.cli import main

KERNELS = ("SpMV", "SpMM", "SDDMM", "MTTKRP", "A+B")
STATEMENTS = (
    "y(i) = A(i,j) * x(j)",
    "Y(i,k) = A(i,j) * X(j,k)",
    "C(i,j) = A(i,j) * U(i,k) * V(j,k)",
    "M(i,j) = T(i,k,l) * D(k,j) * F(l,j)",
    "C(i,j) = A(i,j) + B(i,j)",
)


@pytest.mark.needs_cc
def test_demo_shows_five_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--quick"]) == 0
    shown = capsys.readouterr().out
    for number, (kernel, statement) in enumerate(zip(KERNELS, STATEMENTS, strict=True), 1):
        assert re.search(rf"^{number}\. {re.escape(kernel)}: ", shown, re.M)
        assert f"\nstatement  {statement}\n" in shown
    for label in (
        "loops      forall i:",
        "C          // ",
        "compiled   ",
        "agreement  with the ref",
    ):
        assert shown.count(f"\n{label}") == 5, label
    assert (
        len(re.findall(r"^time       Openwork [\d.]+ ms .*: [\d.]+x its speed$", shown, re.M)) == 5
    )
    assert "All results agree." in shown
    assert "\033" not in shown, "colours where nobody watches"
    assert max(map(len, shown.splitlines())) <= 100


def test_demo_without_a_compiler_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "find_toolchain", lambda: None)
    assert main(["demo"]) == 1
    assert "install gcc or clang" in capsys.readouterr().out


def test_disagreement_is_an_error() -> None:
    assert demo.difference(np.ones(3), np.ones(3)) == 0
    with pytest.raises(InternalError, match="differ"):
        demo.difference(np.ones(3), np.array([1.0, 1.0, 1.1]))
    with pytest.raises(InternalError, match="differ"):
        demo.difference(np.array([np.nan]), np.ones(1))


SOURCE = """\
int32_t kernel(void **arrays, int64_t *sizes) {
    // every i
    for (int64_t i = 0; i < n; i++) {
#pragma omp simd
      x[i] = 1;
    }
  }
"""


def test_excerpt_is_the_first_loop() -> None:
    want = [
        "// every i",
        "for (int64_t i = 0; i < n; i++) {",
        "#pragma omp simd",
        "  x[i] = 1;",
        "}",
    ]
    assert demo.excerpt(SOURCE) == want
    assert demo.excerpt(SOURCE, 3) == [*want[:2], "... 3 more lines"]
