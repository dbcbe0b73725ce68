"""Loop orders that storage asks for."""

from __future__ import annotations

from openwork.index.nodes import IndexVar
from openwork.loops.plan.order import _Orders


def test_a_circle_is_found_at_once() -> None:
    """`T(i(2,5),j,i)` and its like: trying every beginning of an order took minutes."""
    some = [IndexVar(f"v{n}") for n in range(16)]
    last, but_one = some[-1], some[-2]
    orders = _Orders(some, [])
    every = {(v, last) for v in some[:-1]}
    assert list(orders.with_edges(frozenset({*every, (last, but_one)}))) == []
    assert all(order[-1] is last for order in orders.with_edges(frozenset(every)))
