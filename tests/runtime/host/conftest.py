"""What tests of kernels on a CPU share."""

from __future__ import annotations

import pytest

from openwork.runtime.host.toolchain import Toolchain, find_toolchain


@pytest.fixture
def toolchain() -> Toolchain:
    found = find_toolchain()
    if found is None or not found.pooled:
        pytest.skip("loops run on threads of the compiler's OpenMP, and memory is the C library's")
    return found
