"""The text of the listings, in C and in CUDA: kernels one by one, the helpers of all together."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from tests.skeletons import listings

from openwork import skeletons as sk

TEXTS = {
    "c": {**listings.ALL, "listing 7": listings.parallel(4, 32, gpu=False)},
    "cu": {**listings.ALL, "listing 7": listings.parallel(4, 32)},
}
KERNELS = [(name, ending, "closed") for ending, texts in TEXTS.items() for name in texts]
KERNELS += [("csr", "c", "prefix"), ("csr", "c", "loop")]
TARGETS = {"c": "cpu", "cu": "cuda-emulated"}


@cache
def _source(name: str, ending: str, sums: str) -> tuple[list[str], str]:
    """The helpers of a program, and its kernel with the types of its numbers."""
    source = sk.parse(TEXTS[ending][name]).compile(TARGETS[ending], sums).source
    head, mark, kernel = source.partition("// patterns\n")
    types, *helpers = head.strip().split("\n\n")
    return helpers, f"{types}\n\n{mark}{kernel}"


@pytest.mark.parametrize(("name", "ending", "sums"), KERNELS)
def test_kernels(name: str, ending: str, sums: str, golden: Callable[[str, str], None]) -> None:
    file = name.replace(" ", "_") + ("" if sums == "closed" else f"_{sums}")
    golden(_source(name, ending, sums)[1], f"patterns/{file}.{ending}")


@pytest.mark.parametrize("ending", TEXTS)
def test_helpers(ending: str, golden: Callable[[str, str], None]) -> None:
    """Each function that comes before a kernel, once."""
    found = (_source(*each)[0] for each in KERNELS if each[1] == ending)
    helpers = dict.fromkeys(helper for helpers in found for helper in helpers)
    golden("\n\n".join(helpers), f"patterns/helpers.{ending}")
