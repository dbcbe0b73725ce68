"""Tensors as arguments of programs of patterns: their arrays, in the types that parameters have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openwork.skeletons.language.nodes import Signature


def unpacked(signature: Signature, data: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, where tensors became arrays."""
    return dict(data)
