"""Names that are not taken yet: of variables, temporaries and whatever generated code declares."""

from __future__ import annotations

from collections.abc import Container


def fresh_name(base: str, *taken: Container[str]) -> str:
    """`base`, or where that is taken, the first of `base`_2, `base`_3 and so on that is not."""
    name, number = base, 1
    while any(name in names for names in taken):
        number += 1
        name = f"{base}_{number}"
    return name


def take_name(base: str, taken: set[str]) -> str:
    """A fresh name like `base`, which is then taken."""
    name = fresh_name(base, taken)
    taken.add(name)
    return name
