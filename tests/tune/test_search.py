"""The tuner: what is tried, what wins, what is dropped, and what is kept."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.tune.conftest import SEARCH, Pretended

import openwork as ow
from openwork.runtime import tuning_file
from openwork.runtime.memory import at_line
from openwork.tensor.buckets.buckets import BucketKernel
from openwork.tensor.learnt import Signature
from openwork.tensor.measure import statistics_of
from openwork.tune.trial import Trial, agree


def spmv(rows: int = 60, seed: int = 0, **names: str) -> ow.Statement:
    """y = A x."""
    numbers = np.random.default_rng(seed)
    matrix = sp.random_array((rows, 40), density=0.2, format="csr", rng=numbers)
    A = ow.tensor(matrix, name="A")
    x = ow.tensor(numbers.random(40), name="x")
    return ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(rows), A=A, x=x)


def reference(stmt: ow.Statement) -> Any:
    return stmt.compile()().to_numpy()


@pytest.mark.usefixtures("few")
def test_the_fastest_schedule_wins(pretend: Any) -> None:
    pretend(lambda schedule, format: 0.5 if "chunk=64" in schedule else 1.0)
    stmt = spmv()
    best = ow.tune.search(stmt, 600, over=("schedule",))
    assert best.speedup == 2
    assert "chunk=64" in best.text
    assert best.formats == {}
    np.testing.assert_allclose(best.kernel().to_numpy(), reference(stmt))
    assert best.text == f'stmt = stmt.schedule("{best.statement.commands}")'


def test_formats_and_schedules_are_chosen_together(pretend: Any) -> None:
    def seconds(schedule: str, format: str) -> float:
        sliced = "SELL" in format
        return 1.0 - 0.2 * sliced - 0.4 * (sliced and "chunk=16)" in schedule)

    pretend(seconds)
    stmt = spmv()
    best = ow.tune.search(stmt, 600, memory=3, uses=1e9)
    assert best.speedup == pytest.approx(2.5)
    assert "SELL" in best.formats["A"] and "chunk=16)" in best.text
    first, second = best.text.splitlines()
    assert first == f'A = A.to("{best.formats["A"]}")'
    assert second == f'stmt = stmt.schedule("{best.statement.commands}")'
    np.testing.assert_allclose(best.kernel().to_numpy(), reference(stmt))


def test_the_default_wins_unless_another_is_faster_than_noise(pretend: Any) -> None:
    numbers = np.random.default_rng(1)
    pretend(lambda schedule, format: 1.0 + 0.2 * numbers.random() - 0.01 * bool(schedule))
    best = ow.tune.search(spmv(), 600, over=("schedule",))
    assert best.speedup == 1
    assert best.text == ""
    assert "default schedule" in best.table()


@pytest.mark.usefixtures("few")
def test_conversions_count_by_their_uses(pretend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(lambda schedule, format: 1.0 if "CSR" in format else 0.5)
    own = SEARCH.Search.operand

    def slow(self: Any, name: str, text: str) -> Any:
        return own(self, name, text)[0], 100.0

    monkeypatch.setattr(SEARCH.Search, "operand", slow)
    few = ow.tune.search(spmv(), 600, over=("format",), uses=10)
    assert few.speedup == 1
    many = ow.tune.search(spmv(), 600, over=("format",), uses=1000, again=True)
    assert many.speedup == pytest.approx(1 / 0.6)


@pytest.mark.usefixtures("few")
def test_formats_that_take_too_much_memory_are_not_tried(pretend: Any) -> None:
    clock = pretend(lambda schedule, format: 1.0)
    best = ow.tune.search(spmv(), 600, over=("format",), memory=1)
    reasons = {str(t.candidate): t.dropped for t in best.trials}
    assert "times the memory" in reasons["A: DIA; default schedule"]
    assert all(not t.samples for t in best.trials if "times the memory" in t.dropped)
    assert clock.calls > 0


@pytest.mark.usefixtures("few")
def test_wrong_results_are_dropped(pretend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(lambda schedule, format: 0.1 if schedule else 1.0)
    monkeypatch.setattr(SEARCH, "agree", lambda got, want: False)
    best = ow.tune.search(spmv(), 600, over=("schedule",))
    assert best.text == ""
    assert all("wrong" in t.dropped for t in best.trials[1:])


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("calls", [0, 9])
def test_wrong_results_that_are_planted_are_found(
    pretend: Any, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """At once, and of finalists again: repeated calls may do otherwise than the first."""
    stmt = spmv()
    converted = SEARCH.Search.operand

    def planted(self: Any, name: str, text: str) -> Any:
        made, seconds = converted(self, name, text)
        if text == "SELL(8)":
            spoilt.append(made)
            made.storage.values[:] *= 1 if calls else 2
        return made, seconds

    def seconds(schedule: str, format: str) -> float:
        seen.append(format == "ow.SELL(8)")
        if calls and sum(seen) == calls:  # after it was compared for the first time
            spoilt[0].storage.values[:] *= 2
        return 0.3 if seen[-1] else 0.5 if format == "ow.ELL" else 1.0

    spoilt, seen = list[Any](), list[bool]()
    monkeypatch.setattr(SEARCH.Search, "operand", planted)
    pretend(seconds)
    best = ow.tune.search(stmt, 600, over=("format",), memory=3, uses=1e9)
    assert best.formats == ({} if calls else {"A": "ELL"})  # others were dropped for being slower
    assert "SELL(8); default schedule  (a wrong result: please report it)" in best.table()


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("semiring", ["min_plus", None])
def test_formats_of_a_semirings_operands(pretend: Any, semiring: str | None) -> None:
    """A converted operand's absent entries are still the semiring's zero.

    Diagonals store some of them, as 0: no fault where that has another result.
    """
    pretend(lambda schedule, format: {"ow.DIA": 0.2, "ow.ELL": 0.5}.get(format, 1.0))
    x = ow.tensor(np.arange(1.0, 31), name="x")
    x.storage.values[15] = 1.0 if semiring else np.inf
    matrix = np.diag(np.ones(30)) + np.diag(np.ones(20), 10)
    matrix[5, 15] = 0
    A = ow.tensor(matrix, format="CSR", name="A")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(30), A=A, x=x, semiring=semiring)
    best = ow.tune.search(stmt, 600, over=("format",), memory=9, uses=1e9)
    assert best.formats == {"A": "ELL"}
    np.testing.assert_array_equal(best.kernel().to_numpy(), reference(stmt))
    reasons = {str(t.candidate): t.dropped for t in best.trials}
    assert reasons["A: DIA; default schedule"] == SEARCH._MEANT


@pytest.mark.usefixtures("few")
def test_an_interrupt_returns_the_best_so_far(pretend: Any) -> None:
    calls = 0

    def seconds(schedule: str, format: str) -> float:
        nonlocal calls
        calls += 1
        if calls == 30:
            raise KeyboardInterrupt
        return 0.2 if "balance" in schedule else 1.0

    pretend(seconds)
    best = ow.tune.search(spmv(), 600, over=("schedule",))
    assert best.kernel().to_numpy().shape == (60,)


@pytest.mark.usefixtures("few")
def test_no_time_leaves_the_default(pretend: Any) -> None:
    pretend(lambda schedule, format: 1.0)
    best = ow.tune.search(spmv(), 0)
    assert best.text == ""
    assert "no time left" in best.table()


@pytest.mark.usefixtures("few")
def test_what_was_found_is_known_the_next_time(pretend: Any) -> None:
    clock = pretend(lambda schedule, format: 0.5 if "chunk=64" in schedule else 1.0)
    first = ow.tune.search(spmv(), 600)
    assert first.source == "measured"
    calls = clock.calls
    second = ow.tune.search(spmv(), 600)
    assert clock.calls == calls
    assert second.text == first.text and second.speedup == 2
    assert second.source.startswith("a record of ")
    assert ow.tune.search(spmv(), 600, again=True).source == "measured"


@pytest.mark.usefixtures("few")
def test_a_record_answers_what_it_was_asked_for(pretend: Any) -> None:
    """Not a search with more time, or over more, or for another number of calls."""
    pretend(lambda schedule, format: 0.5 if "chunk=64" in schedule else 1.0)
    first = ow.tune.search(spmv(), 600, over=("format",))
    assert first.text == "" and repr(first).count("tried") == 1
    joint = ow.tune.search(spmv(), 600)
    assert joint.source == "measured" and "chunk=64" in joint.text
    for less in (600, 10, 0):
        assert ow.tune.search(spmv(), less).source.startswith("a record")
    assert ow.tune.search(spmv(), 600, over=("format",)).text == ""
    assert ow.tune.search(spmv(), 601).source == "measured"
    assert ow.tune.search(spmv(), 600, uses=5).source == "measured"
    assert ow.tune.search(spmv(), 600, memory=3).source == "measured"
    assert ow.tune.search(spmv(), 600, cold=True).source == "measured"
    assert ow.tune.search(spmv(), float("inf")).source == "measured"
    assert ow.tune.search(spmv(), float("inf")).source.startswith("a record")


@pytest.mark.usefixtures("few")
def test_a_search_without_time_answers_none(pretend: Any) -> None:
    """A search that tried nothing has learnt nothing."""
    pretend(lambda schedule, format: 1.0)
    none = ow.tune.search(spmv(), 0)
    assert repr(none) == "<Best: 1.00x of the default, 1 tried: the default>"
    assert [record.budget for record in ow.tune.records()] == [0]
    assert ow.tune.search(spmv(), 1e-6).source == "measured"
    assert "record" not in spmv().compile(tune="recorded").explain()


@pytest.mark.usefixtures("few")
def test_a_default_that_did_best_is_a_choice(pretend: Any) -> None:
    """A similar matrix, for which another schedule is faster, does not decide then."""
    pretend(lambda schedule, format: 0.5 if "chunk=64" in schedule else 1.0)
    ow.tune.search(spmv(80, seed=1), 600)
    assert "64 at a time" in spmv().compile(tune="recorded").explain()
    pretend(lambda schedule, format: 1.0)
    ow.tune.search(spmv(), 600, over=("format",))  # which says nothing of schedules
    assert "64 at a time" in spmv().compile(tune="recorded").explain()
    ow.tune.search(spmv(), 600)
    explained = spmv().compile(tune="recorded").explain()
    assert "64 at a time" not in explained
    assert "the default schedule did best in a record of" in explained


@pytest.mark.usefixtures("few")
def test_neighbours_are_tried_first(pretend: Any) -> None:
    pretend(lambda schedule, format: 0.5 if "chunk=64" in schedule else 1.0)
    ow.tune.search(spmv(), 600, over=("schedule",))
    near = ow.tune.search(spmv(80, seed=1), 600, over=("schedule",))
    assert "chunk=64" in near.trials[1].candidate.schedule
    assert near.trials[1].candidate.origin == "record"


@pytest.mark.usefixtures("few")
def test_neighbours_change_only_what_may_change(pretend: Any) -> None:
    """What similar operands did best with may be a schedule where only formats are asked for."""
    pretend(lambda schedule, format: 1.0 - 0.5 * bool(schedule) - 0.2 * ("SELL" in format))
    ow.tune.search(spmv(), 600, memory=3)
    similar = spmv(80, seed=1)
    for over in (("format",), ("schedule",), ("layout",)):
        found = ow.tune.search(similar, 600, over=over, memory=3)
        assert over == ("schedule",) or not found.statement.commands
        assert over == ("format",) or found.formats == {}


@pytest.mark.usefixtures("few")
def test_the_best_schedule_is_recorded_beside_a_better_format(pretend: Any) -> None:
    """Compilations take it from the record; it is not dropped for being slower than a format."""
    pretend(lambda s, format: 0.1 if "SELL" in format else 0.5 if "chunk=64" in s else 1.0)
    best = ow.tune.search(spmv(), 600, memory=3)
    assert best.speedup == pytest.approx(10, rel=0.01) and "SELL" in best.formats["A"]
    assert "64 at a time" in spmv().compile(tune="recorded").explain()


@pytest.mark.usefixtures("few")
def test_rows_in_the_middle_of_a_cache_line_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy begins at one, and the text says so; records and combinations have it, too."""

    class Lines(Pretended):
        def timed(self, call: Any, count: int) -> float:
            plain = isinstance(call, BucketKernel)
            return 1.0 if plain or not at_line(call._templates["x"].storage.values) else 0.5

    monkeypatch.setattr(SEARCH, "clock_for", lambda target, cold: Lines(lambda s, f: 1.0))
    numbers = np.random.default_rng(0)
    matrix = sp.random_array((60, 2000), density=0.02, format="csr", rng=numbers)
    whole = np.empty(2000 * 8 + 8)
    askew = whole[1:-7] if whole.ctypes.data % 64 == 0 else whole[:-8]
    x = ow.tensor(askew.reshape(2000, 8), name="x")
    x.storage.values[:] = 1.0
    stmt = ow.parse(
        "Y(i,k) = A(i,j) * x(j,k)", Y=ow.empty((60, 8)), A=ow.tensor(matrix, name="A"), x=x
    )
    best = ow.tune.search(stmt, 600, over=("format", "layout"), uses=1e9)
    assert best.speedup == pytest.approx(2)
    assert best.formats["x"] == "copy" and "x = x.copy()" in best.text
    np.testing.assert_allclose(best.kernel().to_numpy(), reference(stmt))
    assert ow.tune.search(stmt, 600, over=("format", "layout"), uses=1e9).text == best.text
    assert ow.tune.search(stmt, 600, over=("schedule",)).formats == {}


@pytest.mark.usefixtures("few")
def test_compile_takes_what_is_recorded(pretend: Any) -> None:
    stmt = spmv()
    assert "record" not in stmt.compile(tune="recorded").explain()
    pretend(lambda schedule, format: 0.5 if "chunk=64" in schedule else 1.0)
    ow.tune.search(stmt, 600)
    kernel = stmt.compile(tune="recorded")
    said = kernel.explain()
    assert "schedule from a record of" in said and "2.00x of the default there" in said
    assert "64 at a time" in said
    np.testing.assert_allclose(kernel().to_numpy(), reference(stmt))
    similar = spmv(80, seed=1)
    assert "statistics within" in similar.compile(tune="recorded").explain()
    far = spmv(6_000)
    assert "record" not in far.compile(tune="recorded").explain()
    assert "record" not in stmt.schedule("order(i,j)").compile(tune="recorded").explain()


@pytest.mark.usefixtures("few")
def test_compile_takes_recorded_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets of rows where they lie; rows in a format of their own would be converted."""
    numbers = np.random.default_rng(0)
    dense = numbers.random((60, 40)) * (numbers.random((60, 40)) < 0.1)
    dense[3] = 1.0

    def stmt() -> ow.Statement:
        A, x = ow.tensor(dense, format="CSR", name="B"), ow.tensor(np.ones(40), name="v")
        return ow.parse("y(r) = B(r,c) * v(c)", y=ow.empty(60), B=A, v=x)

    times = {"ELL": 0.2, "bucket": 0.5}

    class Fast(Pretended):
        def timed(self, call: Any, count: int) -> float:
            if not isinstance(call, BucketKernel):
                return 1.0
            return times["ELL" if "ELL" in call._buckets.text else "bucket"]

    clock = Fast(lambda schedule, format: 1.0)
    monkeypatch.setattr(SEARCH, "clock_for", lambda target, cold: clock)
    best = ow.tune.search(stmt(), 600)
    assert best.speedup == 5 and "ELL" in best.text
    kernel = stmt().compile(tune="recorded")
    assert isinstance(kernel, BucketKernel) and "ELL" not in kernel._buckets.text
    assert "schedule from a record of" in kernel.explain() and "2.00x" in kernel.explain()
    np.testing.assert_allclose(kernel().to_numpy(), dense.sum(axis=1))
    known = ow.tune.search(stmt(), 600)
    assert known.text == best.text and "a record of" in known.kernel.explain()


@pytest.mark.usefixtures("few")
def test_records_are_in_canonical_names(pretend: Any) -> None:
    pretend(lambda schedule, format: 0.5 if "chunk=64" in schedule else 1.0)
    ow.tune.search(spmv(), 600)
    matrix = sp.random_array((60, 40), density=0.2, format="csr", rng=np.random.default_rng(0))
    other = ow.parse(
        "z(r) = M(r,c) * v(c)",
        z=ow.empty(60),
        M=ow.tensor(matrix, name="M"),
        v=ow.tensor(np.ones(40), name="v"),
    )
    assert "parallelize(r,CPUThread,NoRaces,chunk=64)" in other.compile(tune="recorded").explain()


@pytest.mark.usefixtures("few")
def test_records_are_shared(pretend: Any, tmp_path: Path) -> None:
    pretend(lambda schedule, format: 0.5 if "chunk=64" in schedule else 1.0)
    ow.tune.search(spmv(), 600)
    known = ow.tune.records()
    file = tmp_path / "records.jsonl"
    assert ow.tune.export(file) == len(known) > 0
    assert ow.tune.include(file) == 0
    ow.tune.clear()
    assert ow.tune.records() == ()
    assert ow.tune.include(file) == len(known)
    assert ow.tune.records() == known


@pytest.mark.usefixtures("few")
def test_a_lookup_decodes_only_the_record_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a long file costs a compilation nothing: work is counted here, not seconds."""
    stmt = spmv()
    signature = Signature.of(stmt.assignment, statistics_of(stmt.assignment))
    machine = SEARCH.find_target("cpu").machine
    own = tuning_file.TuningRecord(
        statement=signature.text,
        device=machine,
        features=dict(signature.features),
        formats={},
        schedule="parallelize(v0,CPUThread,NoRaces,chunk=64)",
        seconds=0.5,
        default=1.0,
        day="2020-01-01",
        asked="over schedule",
        budget=1.0,
    )
    others = [own._replace(statement=f"{signature.text} and {n}") for n in range(1000)]

    def larger(times: float, seconds: float = 0.5) -> tuning_file.TuningRecord:
        sizes = {name: times * size for name, size in own.features.items()}
        return own._replace(features=sizes, seconds=seconds)

    near, far = larger(1.5, seconds=0.1), larger(9)
    other = own._replace(features={"v0": 60.0})
    extra = own._replace(features={**own.features, "v9": 1.0})
    mine = [far, near, other, extra, own, *map(larger, range(10, 30))]
    tuning_file.append([*others[:500], *mine, own._replace(device="else"), *others])
    decoded, decode = list[str](), tuning_file._decoded
    looked: list[Any] = []
    nearest = tuning_file._Similar._nearest

    def counted(texts: list[str], checked: Any) -> Any:
        decoded.extend(texts)
        return decode(texts, checked)

    def noted(self: Any, *asked: Any) -> Any:
        looked.append(asked)
        return nearest(self, *asked)

    monkeypatch.setattr(tuning_file, "_decoded", counted)
    monkeypatch.setattr(tuning_file._Similar, "_nearest", noted)
    for _ in range(3):
        explained = stmt.compile(tune="recorded").explain()
    assert "the same statistics: 2.00x" in explained
    features, records = decoded[: len(mine)], decoded[len(mine) :]
    assert all(text.startswith('{"v0": ') and text.endswith("}") for text in features)
    assert [json.loads(text)["seconds"] for text in records] == [0.5]
    assert len(looked) == 1
    assert [r for _, r in signature.nearest(machine)] == [own, near]
    assert [math.exp(far) for far, _ in signature.nearest(machine)] == pytest.approx([1, 1.5], 0.1)
    assert len(tuning_file.records()) == 1501 + len(mine)


def test_newest_records_come_first() -> None:
    """Of those that are as near; and a record that is appended is seen at once."""
    statement, features = "y", (("v0", 100.0), ("v1", 10.0))

    def record(day: int, size: float) -> tuning_file.TuningRecord:
        text = f"2020-01-{day:02}"
        sizes = {"v1": 10.0, "v0": size}
        return tuning_file.TuningRecord("y", "cpu", sizes, {}, "", 0.5, 1.0, text, "", 1.0)

    def days() -> list[int]:
        found = tuning_file.near(statement, "cpu", features, math.log(2))
        return [int(each.day[-2:]) for _, each in found]

    assert days() == []
    tuning_file.append([record(1, 90), record(2, 100), record(3, 40), record(4, 150)])
    assert days() == [2, 1, 4]
    tuning_file.append([record(5, 100), record(6, 90), record(7, 300)])
    assert days() == [5, 2, 6, 1, 4]


def test_features_of_damaged_lines_are_passed_over() -> None:
    """A lookup reads features first: those that are no sizes, or of no record, are nothing."""
    measured = (0.5, 1.0, "2020-01-01", "", 1.0)
    known = tuning_file.TuningRecord("y", "cpu", {"v0": 9.0}, {}, "", *measured)
    tuning_file.append([known._replace(day="2020-01-02")])
    file = tuning_file.path()
    line = file.read_text().splitlines()[0]
    broken = [
        line.replace("9.0", '"many"'),
        line.replace("9.0", "-1"),
        line.replace("9.0", "true"),
        line.replace("9.0", "NaN"),
        line.replace("9.0", "1e999"),
        line.replace("9.0", "[1]"),
        line.replace("9.0", '{"v1": 1}'),
        line.replace("9.0}", "9.0"),
        line.replace('{"v0": 9.0}', '{"v0": 9.0}, "features": 7'),
        line.replace('"formats": {}', '"formats": {"a": 7}'),
        line.replace("9.0", "9.0, 7"),
        line[: line.index("9.0") + 2],
        f"{line}, {line}",
    ]
    tuning_file.append([known])
    file.write_text("\n".join([*broken, file.read_text(), line[: line.index("formats")]]))
    found = [r for _, r in tuning_file.near("y", "cpu", (("v0", 9.0),), 1.0)]
    assert found == list(tuning_file.records())[::-1]
    assert [r.day for r in found] == ["2020-01-01", "2020-01-02"]


@pytest.mark.usefixtures("few")
def test_damaged_lines_are_skipped(pretend: Any, tmp_path: Path) -> None:
    pretend(lambda schedule, format: 0.5 if "chunk=64" in schedule else 1.0)
    ow.tune.search(spmv(), 600)
    sound = tuning_file.path().read_text().splitlines()[0]
    facts = json.loads(sound)
    broken = [
        "not json",
        "[1, 2]",
        "[" * 5_000,
        json.dumps({**facts, "version": 99}),
        json.dumps({**facts, "seconds": -1}),
        json.dumps({**facts, "seconds": True}),
        json.dumps({**facts, "features": {"v0": "many"}}),
        json.dumps({**facts, "schedule": 7}),
        json.dumps({**facts, "schedule": "x" * 30_000}),
        sound.replace('"seconds": ', '"seconds": NaN, "other": '),
        json.dumps({**facts, "seconds": 1e300 * 1e10}),
        json.dumps({k: v for k, v in facts.items() if k != "day"}),
        f"{sound}, {sound}",
    ]
    file = tmp_path / "strange.jsonl"
    file.write_text("\n".join(broken))
    with pytest.raises(ow.DataError) as caught:
        ow.tune.include(file)
    assert caught.value.code == "E506"
    file.write_text("\n".join([*broken, json.dumps({**facts, "day": "2020-01-01"})]))
    assert ow.tune.include(file) == 1
    file.write_text("\n".join(json.dumps({**facts, "day": f"2020-01-0{n}"}) for n in range(1, 5)))
    assert ow.tune.include(file) == 3


@pytest.mark.usefixtures("few")
def test_a_record_with_an_illegal_schedule_is_passed_over(pretend: Any) -> None:
    stmt = spmv()
    signature = Signature.of(stmt.assignment, statistics_of(stmt.assignment))
    machine = SEARCH.find_target("cpu").machine
    record = tuning_file.TuningRecord(
        statement=signature.text,
        device=machine,
        features=dict(signature.features),
        formats={},
        schedule="split(v9,a,b,7), nonsense(;",
        seconds=0.5,
        default=1.0,
        day="2020-01-01",
        asked="over schedule",
        budget=1.0,
    )
    tuning_file.append([record])
    assert "record" not in stmt.compile(tune="recorded").explain()
    pretend(lambda schedule, format: 1.0)
    assert ow.tune.search(stmt, 600, over=("schedule",)).speedup == 1


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"over": ("colour",)}, "E303"),
        ({"over": "schedule"}, "E303"),
        ({"budget": -1}, "E303"),
        ({"budget": float("nan")}, "E303"),
        ({"uses": 0}, "E303"),
        ({"uses": "often"}, "E303"),
        ({"seed": [1]}, "E303"),
        ({"memory": 0.5}, "E303"),
        ({"target": "tpu"}, "E606"),
    ],
)
def test_impossible_arguments(wrong: dict[str, Any], code: str) -> None:
    with pytest.raises(ow.OpenworkError) as caught:
        ow.tune.search(spmv(), **{"budget": 1, **wrong})
    assert caught.value.code == code


def test_placeholders_and_another_word() -> None:
    A, x = ow.placeholder("A", order=2, format=ow.CSR), ow.placeholder("x", order=1)
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(9), A=A, x=x)
    with pytest.raises(ow.ShapeError) as caught:
        ow.tune.search(stmt, 1)
    assert caught.value.code == "E203"
    with pytest.raises(ow.ScheduleError) as refused:
        stmt.compile(tune="guessed")
    assert refused.value.code == "E303"


@pytest.mark.usefixtures("few")
def test_schedules_of_ones_own_join_the_space(pretend: Any) -> None:
    def twos(stmt: ow.Statement) -> Iterator[Any]:
        yield "split(i,i0,i1,2), parallelize(i0,CPUThread,NoRaces)"
        yield stmt.split("i", "i0", "i1", 4)
        yield "split(nobody,i0,i1,2)"  # does not apply

    pretend(lambda schedule, format: 0.5 if "split(i,i0,i1,2)" in schedule else 1.0)
    for more in ([twos], twos):
        best = ow.tune.search(spmv(), 600, over=("schedule",), more=more)
        assert "split(i,i0,i1,2)" in best.text and best.source == "measured"
        assert {"twos"} <= {t.candidate.origin for t in best.trials}
        assert "split(nobody,i0,i1,2)  (there is no loop over nobody)" in best.table()
    for wrong in (["order(i,j)"], [lambda stmt: [7]]):
        with pytest.raises(ow.ScheduleError) as caught:
            ow.tune.search(spmv(), 600, over=("schedule",), more=wrong)
        assert caught.value.code == "E303"


def test_an_own_schedule_is_a_candidate(pretend: Any) -> None:
    stmt = spmv().split("i", "i0", "i1", 7)
    pretend(lambda schedule, format: 0.5 if "i1,7" in schedule else 1.0)
    assert "split(i,i0,i1,7)" in ow.tune.search(stmt, 600).text


def test_on_the_emulator_with_real_times() -> None:
    """Whatever wins, it computes the same."""
    stmt = spmv(20)
    best = ow.tune.search(stmt, 1.5, target="cuda-emulated")
    np.testing.assert_allclose(best.kernel().to_numpy(), reference(stmt))
    assert best.speedup >= 1
    assert len(best.trials) > 5


def test_products_with_a_matrix_and_order_three() -> None:
    numbers = np.random.default_rng(0)
    dense = numbers.random((6, 5, 4)) * (numbers.random((6, 5, 4)) < 0.3)
    X = ow.tensor(dense, format="CSF(3)", name="X")
    B = ow.tensor(numbers.random((4, 8)), name="B")
    stmt = ow.parse("Y(i,j,k) = X(i,j,l) * B(l,k)", Y=ow.empty((6, 5, 8)), X=X, B=B)
    best = ow.tune.search(stmt, 1.0)
    np.testing.assert_allclose(best.kernel().to_numpy(), reference(stmt))


@pytest.mark.usefixtures("few")
def test_tables_and_plots(pretend: Any, tmp_path: Path) -> None:
    pretend(lambda schedule, format: 0.5 if "chunk=64" in schedule else 1.0)
    best = ow.tune.search(spmv(), 600, over=("schedule",))
    table = best.table().splitlines()
    assert table[0].split()[:2] == ["ms", "quartiles"]
    assert table[1].split()[0] == "500.0000"
    assert repr(best).startswith("<Best: 2.00x of the default")
    steps = best.progress()
    assert steps[0][1] == 1 and steps[-1][1] == 2
    assert [t for t, _ in steps] == sorted(t for t, _ in steps) and steps[-1][0] > 0
    pytest.importorskip("matplotlib")
    best.plot(tmp_path / "candidates.png")
    assert (tmp_path / "candidates.png").stat().st_size > 1000


@pytest.mark.usefixtures("few")
def test_the_layout_of_a_result_is_chosen_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Results(Pretended):
        def timed(self, call: Any, count: int) -> float:
            plain = isinstance(call, BucketKernel)
            return 1.0 if plain or call._result.format.layout != "SoA" else 0.5

    clock = Results(lambda schedule, format: 1.0)
    monkeypatch.setattr(SEARCH, "clock_for", lambda target, cold: clock)
    Q = ow.entry.quaternion("float64")
    numbers = np.random.default_rng(0)
    coords = np.argwhere(numbers.random((9, 9)) < 0.5).T
    A = ow.tensor((coords, numbers.random((coords.shape[1], 4))), shape=(9, 9), dtype=Q, name="A")
    x = ow.tensor(numbers.random((9, 4)), dtype=Q, name="x")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(9, dtype=Q), A=A.to("CSR"), x=x)
    best = ow.tune.search(stmt, 600, over=("layout",))
    assert best.speedup == 2 and best.formats["y"] == "dense(1); SoA"
    assert best.kernel().format.layout == "SoA"
    np.testing.assert_allclose(best.kernel().to_numpy(), stmt.compile()().to_numpy())


@pytest.mark.usefixtures("few")
def test_the_roofline_has_the_default_and_the_best(pretend: Any) -> None:
    pretend(lambda schedule, format: 0.5 if "chunk=64" in schedule else 1.0)
    best = ow.tune.search(spmv(), 600, over=("schedule",))
    (one, dense, slow), (two, same, fast) = best.roofline()
    assert (one, two) == ("default", "best") and best.bandwidth > 0
    entries = best.statement.assignment.rhs.args[0].tensor.source.nnz
    assert slow == pytest.approx(2 * entries) and fast == pytest.approx(2 * slow)
    assert dense == pytest.approx(same) and dense < 2 / 12


def test_results_are_compared_up_to_rounding() -> None:
    assert agree(np.array([1.0, np.nan]), np.array([1.0 + 1e-12, np.nan]))
    assert not agree(np.array([1.0]), np.array([1.1]))
    assert agree(np.array([3]), np.array([3])) and not agree(np.array([3]), np.array([4]))
    assert not agree(np.ones(2), np.ones(3))
    slow, fast = Trial(SEARCH.Candidate()), Trial(SEARCH.Candidate())
    slow.samples, fast.samples = [1.0, 1.1, 1.2], [0.5, 0.6, 0.7]
    assert fast.beats(slow, 1) and not slow.beats(fast, 1)


def test_more_samples_leave_less_doubt() -> None:
    """Quartiles of two that vary much overlap for ever, and yet one may be faster."""
    numbers = np.random.default_rng(0)
    slow, fast = Trial(SEARCH.Candidate()), Trial(SEARCH.Candidate())
    for trial, seconds in ((slow, 1.0), (fast, 0.9)):
        trial.samples = list(seconds * (0.8 + 0.4 * numbers.random(100)))
    assert fast.quartiles[1] > slow.quartiles[0]
    assert fast.beats(slow, 1)
    slow.samples, fast.samples = slow.samples[:5], fast.samples[:5]
    assert not fast.beats(slow, 1) and not slow.beats(fast, 1)


@pytest.mark.usefixtures("few")
def test_layouts_of_matrix_and_vector_are_chosen_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the triples of the paper: the layouts of the matrix and of the vectors."""

    class Triples(Pretended):
        def timed(self, call: Any, count: int) -> float:
            if isinstance(call, BucketKernel):
                return 1.0
            A, x = (call._templates[name].format for name in ("A", "x"))
            wide = "Sliced" in str(A)
            return 1 - 0.2 * wide - 0.1 * (A.layout == "SoA") - 0.2 * (x.layout == "SoA")

    clock = Triples(lambda schedule, format: 1.0)
    monkeypatch.setattr(SEARCH, "clock_for", lambda target, cold: clock)
    numbers = np.random.default_rng(0)
    Q = ow.entry.quaternion("float64")
    coords = np.argwhere(numbers.random((20, 20)) < 0.3).T
    A = ow.tensor((coords, numbers.random((coords.shape[1], 4))), shape=(20, 20), dtype=Q, name="A")
    x = ow.tensor(numbers.random((20, 4)), dtype=Q, name="x")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(20, dtype=Q), A=A.to("CSR"), x=x)
    best = ow.tune.search(stmt, 600, over=("format", "layout"), memory=3, uses=1e9)
    assert best.speedup == pytest.approx(2)
    assert "SELL" in best.formats["A"] and best.formats["A"].endswith("; SoA")
    assert best.formats["x"] == "dense(1); SoA"
    np.testing.assert_allclose(best.kernel().to_numpy(), stmt.compile()().to_numpy())
