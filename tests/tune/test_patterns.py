"""Rewrites of programs of patterns, found by measuring."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.skeletons import listings
from tests.skeletons.test_listings import CASES

import openwork as ow
from openwork import skeletons as sk

PAIRS = "nFun n. fun x: [double]_n. (x :>> reduce(+, 0), x :>> map(fun(e => (e, e + 1))))"


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
def test_the_best_rewrite_is_right_and_no_slower(target: str) -> None:
    data, expected = CASES["csr"]
    program = sk.parse(listings.CSR)
    best = ow.tune.search_program(program, data, budget=2.0, target=target)
    np.testing.assert_allclose(best.kernel(), expected, rtol=2e-5)
    assert best.speedup >= 1 or best.program == program
    assert best.trials[0].program == program
    tried = [t for t in best.trials if t.samples]
    assert len(tried) > 1
    for trial in tried[1:]:
        assert trial.program.result == program.result
        assert trial.program.steps
    rows = best.table().splitlines()
    assert len(rows) == len(best.trials)
    assert any("the program as it is" in row for row in rows)
    assert "tried" in repr(best)


def test_results_of_every_kind_are_compared() -> None:
    best = ow.tune.search_program(sk.parse(PAIRS), {"x": np.ones(50)}, budget=1.0)
    total, pairs = best.kernel()
    assert total == 50
    assert pairs["second"].tolist() == [2.0] * 50
    assert not any(t.dropped == "another result" for t in best.trials)


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("E706", {"program": "x"}),
        ("E303", {"budget": 0}),
        ("E606", {"target": "gpu"}),
        ("E203", {"data": {}}),
    ],
)
def test_searches_that_cannot_be(code: str, arguments: dict[str, Any]) -> None:
    usual = {"program": sk.parse(PAIRS), "data": {"x": np.ones(3)}, "budget": 0.1}
    with pytest.raises(ow.OpenworkError) as caught:
        ow.tune.search_program(**{**usual, **arguments})
    assert caught.value.code == code
