"""Operations on small dense tensors, beside NumPy's on the same arrays.

    python bench/small_dense.py

On one thread. Each figure is the least of many short runs, in turns with NumPy's.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import openwork as ow

SIZES = (10, 100, 1000, 100_000)
# Of vectors a, b, a square matrix M of about as many elements, and a vector v that fits it.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "a + b": lambda a, b, M, v: a + b,
    "a * 2.5": lambda a, b, M, v: a * 2.5,
    "a > b": lambda a, b, M, v: a > b,
    "np.sqrt(a)": lambda a, b, M, v: np.sqrt(a),
    "np.exp(a)": lambda a, b, M, v: np.exp(a),
    "M + v": lambda a, b, M, v: M + v,
    "np.where(a > b, a, 0.0)": lambda a, b, M, v: np.where(a > b, a, 0.0),
    "a.sum()": lambda a, b, M, v: a.sum(),
    "M.max(0)": lambda a, b, M, v: M.max(0),
    "a.mean()": lambda a, b, M, v: a.mean(),
    "np.linalg.norm(a)": lambda a, b, M, v: np.linalg.norm(a),
    "a @ b": lambda a, b, M, v: a @ b,
    "M @ v": lambda a, b, M, v: M @ v,
    "M.T @ v": lambda a, b, M, v: M.T @ v,
    "M.trace()": lambda a, b, M, v: M.trace(),
    "a[3]": lambda a, b, M, v: a[3],
    "a[2:5]": lambda a, b, M, v: a[2:5],
}


def least(calls: list[Callable[[], object]], turns: int = 60) -> list[float]:
    """The microseconds of each call, in turns."""
    for call in calls:
        for _ in range(3):
            call()
    number = [max(1, int(2e-4 / max(timeit.timeit(call, number=3) / 3, 1e-7))) for call in calls]
    times = [float("inf")] * len(calls)
    for _ in range(turns):
        for n, call in enumerate(calls):
            times[n] = min(times[n], timeit.timeit(call, number=number[n]) / number[n])
    return [1e6 * each for each in times]


def main() -> None:
    ow.set_num_threads(1)
    rng = np.random.default_rng(0)
    print("| µs, and times NumPy's |" + "".join(f" {size:,} |" for size in SIZES))
    print("|---|" + "---|" * len(SIZES))
    for text, operation in OPERATIONS.items():
        line = f"| `{text}` |"
        for size in SIZES:
            side = int(size**0.5)
            arrays = [rng.random(shape) for shape in (size, size, (side, side), side)]
            tensors = [ow.tensor(array) for array in arrays]
            theirs, ours = least([partial(operation, *each) for each in (arrays, tensors)])
            line += f" {ours:.1f}, {ours / theirs:.1f}x |"
        print(line, flush=True)


if __name__ == "__main__":
    main()
