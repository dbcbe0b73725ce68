"""Records that somebody else wrote, or that a killed process left: none may harm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.tune.test_search import reference, spmv

import openwork as ow
from openwork.runtime import tuning_file
from openwork.tensor.kernel.targets import find_target
from openwork.tensor.learnt import Signature
from openwork.tensor.measure import statistics_of


def remember(
    stmt: ow.Statement, schedule: str = "", target: str = "cpu", **formats: str
) -> tuning_file.TuningRecord:
    """Append a record that answers a search over schedules."""
    signature = Signature.of(stmt.assignment, statistics_of(stmt.assignment))
    made = tuning_file.TuningRecord(
        statement=signature.text,
        device=find_target(target).machine,
        features=dict(signature.features),
        formats=formats,
        schedule=schedule,
        seconds=0.5,
        default=1.0,
        day="2020-01-01",
        asked="over schedule; uses 1000; memory 1.5",
        budget=1.0,
    )
    tuning_file.append([made])
    return made


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("schedule", "formats"),
    [
        ("", {"t9": "CSR"}),
        ("", {"t1": "Nonsense"}),
        ("bucket(v0,", {}),
        ("bucket(v0,9,3)", {}),
        ("parallelize(v1,CPUThread,IgnoreRaces)", {}),
        ("bound(v1,columns,8,MaxExact)", {}),
        ("pos(v1,p,t1), bound(p,places,3,MaxConstraint)", {}),
        ("split(v0,a,b,8), bound(a,c,7,MaxExact)", {}),
        ("parallelize(v0,GPUThread,NoRaces)", {}),
    ],
)
def test_what_cannot_be_trusted_is_passed_over(
    pretend: Any, schedule: str, formats: dict[str, str]
) -> None:
    """Unknown tensors and formats, races, and bounds that do not hold."""
    stmt = spmv()
    remember(stmt, schedule, **formats)
    kernel = stmt.compile(tune="recorded")
    assert "a record" not in kernel.explain()
    pretend(lambda schedule, format: 1.0)
    assert ow.tune.search(stmt, 1, over=("schedule",)).source == "measured"
    np.testing.assert_allclose(kernel().to_numpy(), reference(stmt))


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
def test_bounds_that_hold_are_taken(target: str) -> None:
    """Data of other extents falls back to the default."""
    numbers = np.random.default_rng(0)
    matrix = sp.random_array((30, 20), density=0.2, format="csr", rng=numbers)
    A, D = ow.tensor(matrix, name="A"), ow.tensor(numbers.random((20, 8)), name="D")
    stmt = ow.parse("C(i,k) = A(i,j) * D(j,k)", C=ow.empty((30, 8)), A=A, D=D)
    units = "GPUThread" if target != "cpu" else "CPUThread"
    schedule = (
        f"split(v1,part,one,2), bound(part,parts,4,MaxExact), parallelize(v0,{units},NoRaces)"
    )
    remember(stmt, schedule, target)
    kernel = stmt.compile(target, tune="recorded")
    assert "a record" in kernel.explain() and "bound(part,parts,4,MaxExact)" in kernel.explain()
    for columns in (8, 6):
        other = numbers.random((20, columns))
        np.testing.assert_allclose(kernel(D=other).to_numpy(), matrix @ other)


def test_a_line_that_was_cut_off_takes_no_other_with_it() -> None:
    known = remember(spmv())
    file = tuning_file.path()
    file.write_text(file.read_text()[:-40])
    assert ow.tune.records() == ()
    tuning_file.append([known])
    assert ow.tune.records() == (known,)


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    for work in (ow.tune.include, ow.tune.export):
        for path in (tmp_path, tmp_path / "missing" / "records.jsonl"):
            with pytest.raises(ow.DataError, match=r"cannot (read|write)") as caught:
                work(path)
            assert caught.value.code == "E506"
