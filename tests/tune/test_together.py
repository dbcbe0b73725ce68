"""One choice for a set of matrices, or one each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.tune.test_search import spmv

import openwork as ow
from openwork.tune import together
from openwork.tune.candidate import Candidate
from openwork.tune.search import Search
from openwork.tune.settings import Settings
from openwork.tune.trial import Trial


def test_one_choice_for_all_and_one_each(pretend: Any) -> None:
    """The first gains more than the second loses by chunks of 64; of 16, both gain a little."""
    gains = {
        (60, "chunk=64)"): 4.0, (90, "chunk=64)"): 0.5,
        (60, "chunk=16)"): 1.5, (90, "chunk=16)"): 2.0,
    }  # fmt: skip

    def seconds(schedule: str, format: str) -> float:
        found = (gain for (_, text), gain in gains.items() if text in schedule)
        return 1 / next(found, 1.0)

    clock = pretend(seconds)

    def timed(call: Any, count: int) -> float:
        if not hasattr(call, "_origin"):
            return 1.0
        rows = call._templates["A"].shape[0]
        text = call._origin[1][0].commands
        return 1 / next((g for (n, t), g in gains.items() if n == rows and t in text), 1.0)

    clock.timed = timed
    found = ow.tune.search_all([spmv(60), spmv(90, seed=1)], 600, over=("schedule",))
    assert [best.speedup for best in found.each] == pytest.approx([4.0, 2.0])
    assert found.speedup_each == pytest.approx(8**0.5)
    assert found.speedup_common == pytest.approx(3**0.5)
    assert "chunk=16)" in found.text
    assert all("chunk=16)" in best.text for best in found.common)
    assert "2.83x with one each, 1.73x with one for all" in repr(found)
    for stmt, best in zip([spmv(60), spmv(90, seed=1)], found.common, strict=True):
        np.testing.assert_allclose(best.kernel().to_numpy(), stmt.compile()().to_numpy())


def test_without_a_gain_the_default_is_for_all(pretend: Any) -> None:
    pretend(lambda schedule, format: 1.0 + bool(schedule))
    found = ow.tune.search_all([spmv(60), spmv(90, seed=1)], 600, over=("schedule",))
    assert found.text == "" and found.speedup_common == found.speedup_each == 1


def test_one_each_is_never_slower_than_one_for_all() -> None:
    """What is sure by one matrix is taken for another, where noise hides its gain."""

    def trial(*samples: float) -> Trial:
        return Trial(Candidate(), kernel=len, samples=list(samples))

    def searched(*trials: Trial) -> Search:
        made = object.__new__(Search)
        made.settings, made.trials = Settings(uses=1), [*trials]
        return made

    noisy, sure = (1.0, 0.2, 1.1, 3.0), (0.4, 0.4, 0.41)
    default, common, slower = trial(*noisy), trial(0.9, 0.3, 1.0), trial(2.0, 0.3, 2.1)
    search = searched(default, common)
    assert not common.beats(default, 1)
    assert together._alone(search, common) is common
    assert together._alone(searched(default, slower), slower) is default
    best = trial(*sure)
    assert together._alone(searched(trial(1.0, 1.0, 1.1), common, best), common) is best
    easy = searched(trial(1.0, 1.0, 1.1), trial(*sure))
    own = [[default, common], easy.trials]
    assert together._pays([search, easy], own, 1)
    assert not together._pays([search], own[:1], 1)


def test_sets_that_are_none() -> None:
    with pytest.raises(ow.ScheduleError) as caught:
        ow.tune.search_all([], 1)
    assert caught.value.code == "E303"
    i, j = ow.indices("i j")
    x, y = ow.tensor(np.ones(4), name="x"), ow.tensor(np.ones((4, 4)), name="Y")
    other = ow.assign(ow.empty(4, name="z")[i], y[i, j] * x[j])
    with pytest.raises(ow.ScheduleError, match="differ in more"):
        ow.tune.search_all([spmv(), other], 1)
