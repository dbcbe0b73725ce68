"""Comments: compiled text has no name of the user's, shown text has them, and nothing but names."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.program.small import code

import openwork as ow
from openwork.program.remarks import harmless, named, spoken, title
from openwork.tensor.kernel.kernel import Kernel

TARGETS = ("cpu", "cuda-emulated")


def product(matrix: str, vector: str, result: str, row: str, col: str, target: str) -> Kernel:
    A = ow.tensor(np.eye(5), format=ow.CSR, name=matrix)
    x, y = ow.tensor(np.ones(5), name=vector), ow.empty(5, name=result)
    i, j = ow.indices(f"{row} {col}")
    return ow.assign(y[i], A[i, j] * x[j]).compile(target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_readers_see_their_names_and_the_compiler_does_not(target: str) -> None:
    plain = product("A", "B", "R", "i", "j", target)
    other = product("rain", "roof", "drain", "house", "street", target)
    assert other._latest.compiled.source == plain._latest.compiled.source
    assert code(other.source) == code(plain.source) == code(plain._latest.compiled.source)
    assert "drain(house) += rain(house,street) * roof(street)" in other.source
    legend = "In the code, drain is R, rain is A, roof is B, house is i, street is j"
    assert legend in other.source.replace("\n// ", " ")
    assert not re.search("rain|roof|house|street", other._latest.compiled.source)


def test_comments_of_loops_speak_of_the_users_tensors() -> None:
    a, b = (ow.tensor(np.eye(4), format=ow.DCSR, name=name) for name in ("left", "right"))
    both = ow.empty((4, 4), format=ow.DCSR, name="both")
    row, col = ow.indices("row col")
    text = ow.assign(both[row, col], a[row, col] + b[row, col]).compile().source
    for comment in ("row of left and right, in order", "rest of right", "rest of left"):
        assert f"// {comment}\n" in text


def test_names_that_are_those_of_the_code_need_no_legend() -> None:
    text = product("A", "B", "R", "i", "j", "cpu").source
    assert "// In the code" not in text
    assert "// every i\n" in text


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("A'", "A'"),
        ("vitesse_d_été", "vitesse_d_été"),
        ("x\nint main() {", "x_int_main____"),
        ("*/ #error \\", "____error__"),
        ("a\u2028b\u202ec\x00", "a_b_c_"),
        ("⟨A⟩", "_A_"),
        ("n" * 99, "n" * 40),
    ],
)
def test_a_name_in_a_comment_is_only_a_word(name: str, word: str) -> None:
    assert harmless(name) == word


def test_marks_are_replaced_once() -> None:
    words = {"A": "B", "B": "A"}
    assert spoken(f"stored {named('i')} of {named('A')} and {named('B')}", words) == (
        "stored i of B and A"
    )
    assert title("⟨A⟩ = ⟨B⟩", words) == ["// ⟨A⟩ = ⟨B⟩", "// In the code, B is A, A is B."]
