"""Slips that people make: each gets an error of ours, never a bare exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openwork as ow

x = ow.tensor(np.ones(3), name="x")
y = ow.empty((3,), name="y")
(i,) = ow.indices("i")

SLIPS: dict[str, tuple[str, Callable[[], Any]]] = {
    "an array in place of a tensor": ("E112", lambda: ow.parse("y(i)=x(i)", x=np.ones(3), y=y)),
    "a text in place of a tensor": ("E112", lambda: ow.parse("y(i)=x(i)", x="a", y=y)),
    "no text to parse": ("E101", lambda: ow.parse(3)),  # type: ignore[arg-type]
    "no semiring": ("E111", lambda: ow.parse("y(i)=x(i)", x=x, y=y, semiring=3)),  # type: ignore[arg-type]
    "an unknown semiring": ("E111", lambda: ow.parse("y(i)=x(i)", x=x, y=y, semiring="a")),
    "no operator": ("E111", lambda: ow.assign(y[i], x[i], 3)),  # type: ignore[arg-type]
    "no name of an operator": ("E111", lambda: ow.operator(3, lambda a: a)),  # type: ignore[arg-type]
    "an array to write into": ("E202", lambda: ow.assign(y[i], x[i]).compile()(out=np.ones(3))),
    "no levels": ("E401", lambda: ow.Format(3)),  # type: ignore[arg-type]
    "no order of modes": ("E401", lambda: ow.Format([ow.Dense], order=3)),  # type: ignore[arg-type]
    "fewer than no modes": ("E401", lambda: ow.dense(-1)),
    "a text of modes": ("E401", lambda: ow.CSF("a")),  # type: ignore[arg-type]
    "a placeholder of text order": ("E401", lambda: ow.placeholder("x", "a")),  # type: ignore[arg-type]
    "a number on the left": ("E107", lambda: ow.assign(3, x[i])),  # type: ignore[arg-type]
    "a text on the right": ("E112", lambda: ow.assign(y[i], "x")),
    "an element beyond the last": ("E204", lambda: y[9]),
    "an element by name": ("E112", lambda: y["first"]),
    "an unknown target": ("E606", lambda: ow.assign(y[i], x[i]).compile(target="gpu")),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_answered_in_our_words(slip: str) -> None:
    code, mistake = SLIPS[slip]
    with pytest.raises(ow.OpenworkError) as caught:
        mistake()
    assert caught.value.code == code
