"""Random accesses with constants, offsets, windows, strides, gathers and borders, against NumPy.

`OPENWORK_FUZZ_CASES` says how many statements, `OPENWORK_FUZZ_SEED` which; each runs on four sets
of data. Half of the sums of products are cut into steps wherever there are some.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from tests.random.notation import Drawn, drawn
from tests.random.test_property import Batch

import openwork as ow
from openwork.tensor.contraction import steps

CASES = int(os.environ.get("OPENWORK_FUZZ_CASES", "40"))
SEED = int(os.environ.get("OPENWORK_FUZZ_SEED", "0"))
CHUNKS, SETS = max(10, CASES // 50), 4  # many cases are shared out over many workers


def kernel_of(case: Drawn, arrays: dict[str, Any], batch: Batch) -> Any:
    """The kernel of a statement over tensors with these elements."""
    names = {name: case.operands[name].tensor(array, name) for name, array in arrays.items()}
    if case.declared:
        shape = tuple(case.extents[var] for var in case.free)
        names["Y"] = ow.empty(shape, dtype=case.dtype, name="Y")
    stmt = ow.parse(case.text, **names)
    if case.only_products and case.rng.random() < 0.5:
        return stmt.compile()
    return stmt.compile(loader=batch)


def wrong(case: Drawn, kernel: Any, arrays: dict[str, Any], seed: int) -> str:
    """How a result differs from NumPy's; nothing if none does.

    The second call repeats the first; before the third, dense operands change in place; the fourth
    has others for these, and writes into a tensor.
    """
    try:
        given = {name: case.operands[name].tensor(array, name) for name, array in arrays.items()}
        made = kernel(**given)
        fault = differs(case, made, arrays) or differs(case, kernel(**given), arrays)
        rng, plain = np.random.default_rng(seed), [n for n in given if _is_plain(given[n])]
        arrays = {**arrays, **{n: case.operands[n].array(rng) for n in plain}}
        for name in plain:
            given[name][...] = arrays[name]
        fault = fault or differs(case, kernel(**given), arrays)
        arrays = {**arrays, **{n: case.operands[n].array(rng) for n in plain}}
        out = ow.empty(made.shape, format=made.format, dtype=made.dtype, fill=made.fill)
        return fault or differs(case, kernel(**{**given, **_of(plain, arrays)}, out=out), arrays)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _is_plain(tensor: Any) -> bool:
    """Whether a NumPy array may stand in for `tensor`."""
    return bool(tensor.format == ow.dense(tensor.order) and tensor.size)


def _of(names: list[str], arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: arrays[name] for name in names}


def differs(case: Drawn, result: Any, arrays: dict[str, Any]) -> str:
    """How a result differs from NumPy's."""
    expected, made = case.expected(arrays), result.to_numpy()
    if made.shape == expected.shape and np.array_equal(made, expected):
        return ""
    return f"{made.tolist()} instead of {expected.tolist()}"


def shown(case: Drawn, arrays: dict[str, Any]) -> str:
    """A program that repeats a case."""
    lines = ["import numpy as np, openwork as ow"]
    for name, array in arrays.items():
        made = case.operands[name]
        lines.append(
            f'{name} = ow.tensor(np.array({array.tolist()}, "{array.dtype}").reshape({made.shape}),'
            f' format={str(made.format)!r}, fill={made.fill}, name="{name}")'
        )
    names = ", ".join(f"{name}={name}" for name in arrays)
    if case.declared:
        shape = tuple(case.extents[var] for var in case.free)
        names += f', Y=ow.empty({shape}, dtype="{case.dtype}", name="Y")'
    return "\n".join([*lines, f"print(ow.parse({case.text!r}, {names}).compile()().to_numpy())"])


@pytest.mark.fuzz
@pytest.mark.needs_cc
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_agrees_with_numpy(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_WORTH", float("inf"))
    batch, waiting, failures = Batch(), [], []
    for seed in range(SEED + chunk, SEED + CASES, CHUNKS):
        case, rng = drawn(seed), np.random.default_rng(seed)
        sets = [
            {name: made.array(rng) for name, made in case.operands.items()} for _ in range(SETS)
        ]
        try:
            waiting.append((seed, case, kernel_of(case, sets[0], batch), sets))
        except Exception as error:
            failures.append(
                f"seed {seed}: {case.text}\n{type(error).__name__}: {error}\n{shown(case, sets[0])}"
            )
    for seed, case, kernel, sets in waiting:
        for arrays in sets:
            fault = wrong(case, kernel, arrays, seed)
            if fault:
                failures.append(f"seed {seed}: {case.text}\n{fault}\n{shown(case, arrays)}")
                break
    if failures:
        pytest.fail("\n\n".join([f"{len(failures)} statements", *failures[:3]]), pytrace=False)
