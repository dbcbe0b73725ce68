"""The mutations of tools/mutate.py: each changes one place of the compiler as it is."""

from __future__ import annotations

import pytest

import mutate


@pytest.mark.parametrize("mutation", mutate.MUTATIONS, ids=lambda m: m.name)
def test_its_text_occurs_once(mutation: mutate.Mutation) -> None:
    _, _, (old, new) = mutate._find(mutate.REPO, mutation)
    assert old != new
