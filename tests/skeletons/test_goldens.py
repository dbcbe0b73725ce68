"""The text of the listings, in C and in CUDA."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.skeletons import listings

from openwork import skeletons as sk

CPU = {**listings.ALL, "listing 7": listings.parallel(4, 32, gpu=False)}
GPU = {**listings.ALL, "listing 7": listings.parallel(4, 32)}


@pytest.mark.parametrize("name", CPU)
def test_c(name: str, golden: Callable[[str, str], None]) -> None:
    kernel = sk.parse(CPU[name]).compile()
    golden(kernel.source, f"patterns/{name.replace(' ', '_')}.c")


@pytest.mark.parametrize("name", GPU)
def test_cuda(name: str, golden: Callable[[str, str], None]) -> None:
    kernel = sk.parse(GPU[name]).compile("cuda-emulated")
    golden(kernel.source, f"patterns/{name.replace(' ', '_')}.cu")


@pytest.mark.parametrize("sums", ["prefix", "loop"])
def test_other_sums(sums: str, golden: Callable[[str, str], None]) -> None:
    golden(sk.parse(listings.CSR).compile(sums=sums).source, f"patterns/csr_{sums}.c")
