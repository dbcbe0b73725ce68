"""Drawings as SVG: well-formed, whole, escaped, and shown by notebooks if they are small."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import openwork as ow
from openwork.tensor.draw.cells import MOST_CELLS

SMALL = np.array([[5.0, 0, 6, 0], [0, 0, 0, 0], [0, 7, 8, 9]])
FORMATS = [
    ow.CSR,
    ow.CSC,
    ow.DCSR,
    ow.COO(2),
    ow.BSR(2, 2),
    ow.CSB(2, 2),
    ow.SELL(2),
    ow.SELL(2, 4),
    ow.ELL,
    ow.DIA,
    ow.LIL,
    ow.banded,
    ow.bitmap,
    ow.dense(2),
]


def elements(A: ow.Tensor, tag: str, kind: str = "") -> list[Any]:
    """The elements of the picture with this tag, and a class that begins so."""
    root = ElementTree.fromstring(A.draw("svg"))  # noqa: S314 - our own text
    found = root.findall(f"{{http://www.w3.org/2000/svg}}{tag}")
    return [each for each in found if each.get("class", "").startswith(kind)]


@pytest.mark.parametrize("format", FORMATS, ids=repr)
def test_every_cell_is_a_box(format: ow.Format) -> None:
    A = ow.tensor(SMALL, format=format, name="A")
    arrays = [a for level in A.storage.levels for a in level.values()]
    boxes = elements(A, "rect")
    shown = min(A.storage.values.size, MOST_CELLS)
    assert len(boxes) == 1 + shown + sum(a.size for a in arrays)
    texts = [each.text for each in elements(A, "text")]
    assert texts[1] == format.type("float64", A.shape)
    for level in A.storage.levels:
        assert set(level) <= set(texts)


def test_a_run_has_one_colour_and_an_arrow() -> None:
    A = ow.tensor(SMALL, format=ow.CSR)
    assert len(elements(A, "rect", "r0")) == 1 + 2 + 2  # of pos, crd and the values
    assert len(elements(A, "rect", "r2")) == 1 + 3 + 3
    assert len(elements(A, "path", "arrow")) == 2  # one row is empty
    assert not elements(A, "rect", "pad")
    assert len(elements(A.to(ow.ELL), "rect", "pad")) == 2 * (9 - 5)


def test_boxes_lie_within_the_picture_and_do_not_overlap() -> None:
    for format in FORMATS:
        A = ow.tensor(SMALL, format=format, name="A")
        page, *boxes = elements(A, "rect")
        seen: dict[float, float] = {}
        for box in boxes:
            x, y, width = (float(box.get(key)) for key in ("x", "y", "width"))
            assert x >= seen.get(y, 0) - 1e-3
            seen[y] = x + width
            assert x + width <= float(page.get("width"))
            assert y + float(box.get("height")) <= float(page.get("height"))


def test_names_and_texts_are_escaped() -> None:
    A = ow.tensor([True, False], format="Compressed").rename("a<b>&")
    assert "a&lt;b&gt;&amp;" in A.draw("svg")
    assert elements(A, "text")[0].text.startswith("a<b>&: 2 bool")


def test_notebooks_show_small_tensors_as_pictures() -> None:
    A = ow.tensor(SMALL, format=ow.CSR)
    assert A._repr_svg_() == A.draw(format="svg")
    assert ow.tensor(np.ones(1000))._repr_svg_() is None
    assert ow.placeholder("P", 2)._repr_svg_() is None
    assert ow.tensor(3.0)._repr_svg_() is not None


def test_other_drawings_are_refused() -> None:
    with pytest.raises(ow.FormatError, match="cannot draw as 'png'"):
        ow.tensor([1.0]).draw("png")
