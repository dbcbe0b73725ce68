"""Every script in examples/ runs, on a file and on its own operands, and is in the README."""

from __future__ import annotations

import gzip
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse import linalg

import openwork as ow

pytestmark = pytest.mark.needs_cc

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
ALL_SCRIPTS = sorted(p.stem for p in EXAMPLES.glob("*.py") if p.stem not in ("common", "meshes"))
OTHERS = ("gpu_", "graphs", "patterns", "quaternion_")  # they time no schedule
SCRIPTS = [name for name in ALL_SCRIPTS if not name.startswith(OTHERS)]


@pytest.fixture(autouse=True)
def beside_the_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts import what they share, as they do when run."""
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.fixture
def restored() -> Iterator[None]:
    """Examples choose how many threads there are."""
    yield
    ow.set_num_threads(None)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A matrix with empty rows, one long one, and more columns than rows; a tensor of order 5."""
    folder = tmp_path_factory.mktemp("operands")
    rng = np.random.default_rng(3)
    matrix = sp.random_array((70, 90), density=0.05, format="lil", rng=rng)
    matrix[11, :] = rng.random(90)
    matrix[[0, 12, 13, 69], :] = 0
    ow.write(folder / "matrix.mtx", ow.tensor(matrix.tocsr()))
    coordinates = np.unique(rng.integers(0, 6, (200, 5)), axis=0).T
    tensor = ow.tensor((coordinates, rng.random(coordinates.shape[1])), shape=(6,) * 5)
    ow.write(folder / "tensor.tns", tensor)
    return folder / "matrix.mtx", folder / "tensor.tns"


@pytest.mark.parametrize("name", SCRIPTS)
def test_example_on_a_file(
    name: str,
    files: tuple[Path, Path],
    restored: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = str(files["mttkrp" in name])
    monkeypatch.setattr(sys, "argv", [f"{name}.py", file])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "forall" in printed
    assert re.search(r"^default +[\d.]+ ms", printed, re.M)
    assert re.search(r"^scheduled +[\d.]+ ms", printed, re.M)


def test_gpu_schedules_agree_under_the_emulator(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "gpu_schedules.py"), run_name="__main__")
    assert capsys.readouterr().out.count("NumPy: True") == 12


def _quaternion_cg() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / "quaternion_cg.py"))


def test_the_dirac_operator_of_a_mesh_is_hermitian_and_vanishes_on_constants() -> None:
    example = _quaternion_cg()
    A = example["dirac"](example["torus"](9, 7), 0.0)
    real = A.expand().to_numpy()
    np.testing.assert_allclose(real, real.T, atol=1e-13)
    constant = ow.tensor(np.tile([1.0, 2.0, 3.0, 4.0], (63, 1)), dtype=example["Q"])
    np.testing.assert_allclose((A @ constant).to_numpy(), 0, atol=1e-12)
    values = np.linalg.eigvalsh(real)
    assert values[3] < 1e-12 < 1e-3 < values[4]  # one quaternion of constants, and positive else


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
def test_conjugate_gradients_on_quaternions(target: str) -> None:
    example = _quaternion_cg()
    A = example["dirac"](example["torus"](6, 5))
    kernels = example["Kernels"](A, target)
    b = np.random.default_rng(1).standard_normal((30, 4))
    x, count, missing = example["solve"](kernels, kernels.on_device(b), 1e-10)
    expected = np.linalg.solve(A.expand().to_numpy(), b.reshape(-1))
    np.testing.assert_allclose(x.to_numpy().reshape(-1), expected, rtol=1e-6, atol=1e-9)
    assert 1 < count < 60 and missing < 1e-9
    found, _ = linalg.cg(example["operator"](kernels), b.reshape(-1), rtol=1e-10)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    zero = kernels.on_device(np.zeros((30, 4)))
    assert example["solve"](kernels, zero)[1:] == (0, 0.0)


def test_conjugate_gradients_on_a_mesh_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corners, faces = _quaternion_cg()["torus"](8, 5)
    lines = ["OFF", f"{len(corners)} {len(faces)} 0"]
    lines += [" ".join(map(repr, map(float, corner))) for corner in corners]
    lines += [" ".join(map(str, [3, *face])) for face in faces]
    (tmp_path / "torus.off.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    monkeypatch.setattr(sys, "argv", ["quaternion_cg.py", str(tmp_path / "torus.off.gz")])
    runpy.run_path(str(EXAMPLES / "quaternion_cg.py"), run_name="__main__")
    assert "40x40 quaternion<float64>" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["spmv_chunks", "mttkrp_order3"])
def test_example_on_operands_of_its_own(name: str) -> None:
    script = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    ran = subprocess.run(script, capture_output=True, text=True, timeout=300, env=_environment())
    assert ran.returncode == 0, ran.stderr
    assert "scheduled" in ran.stdout


def _environment() -> dict[str, str]:
    """Ours, and the modules that we see: the package need not be installed."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def test_a_wrong_answer_is_noticed() -> None:
    check = runpy.run_path(str(EXAMPLES / "common.py"))["check"]
    check(ow.tensor([1.0, 2.0]), np.array([1.0, 2.0]))
    with pytest.raises(SystemExit, match="wrong by 1"):
        check(ow.tensor([1.0, 2.0]), np.array([1.0, 3.0]))


def test_merge_path_parts_are_equal() -> None:
    """Every part has as many rows and entries together, and no entry is before its row."""
    merge_path = runpy.run_path(str(EXAMPLES / "spmv_merge_path.py"))["merge_path"]
    rng = np.random.default_rng(0)
    for lengths in ([0, 0, 7, 0, 1], [5], [0], rng.integers(0, 9, 50), np.zeros(4, int), []):
        ends = np.cumsum(np.asarray(lengths, dtype=np.int64))
        begins = ends - np.asarray(lengths, dtype=np.int64)
        for parts in (1, 2, 3, 8):
            rows, entries = merge_path(ends, parts)
            steps = np.diff(rows + entries)
            assert steps.max() - steps.min() <= 1
            assert (rows[0], entries[0]) == (0, 0)
            assert (rows[-1], entries[-1]) == (ends.size, ends[-1] if ends.size else 0)
            for row, entry in zip(rows, entries, strict=True):
                assert row == ends.size or begins[row] <= entry <= ends[row]


def test_every_example_is_listed() -> None:
    listed = re.findall(r"^\| \[(\w+)\.py\]", (EXAMPLES / "README.md").read_text(), re.M)
    assert sorted(listed) == ALL_SCRIPTS


def test_graphs(capsys: pytest.CaptureFixture[str]) -> None:
    """Every algorithm agrees with SciPy's, on a graph in parts and on one with a heavy tail."""
    module = runpy.run_path(str(EXAMPLES / "graphs.py"))
    for size, degree in ((300, 2), (400, 9)):
        module["main"](size, degree)
    assert capsys.readouterr().out.count("theirs") >= 8
    edges = sp.csr_array(module["random_graph"](50, 4))
    order, parents = sp.csgraph.breadth_first_order(edges, 3)
    for few in (0, 500):  # edges are followed from where they start, and from where they end
        graph = module["Graph"](edges, few)
        level = module["bfs"](graph, 3)
        for vertex in order[1:]:
            assert level[vertex] == level[parents[vertex]] + 1
        np.testing.assert_allclose(module["sssp"](graph, 3), sp.csgraph.dijkstra(edges, indices=3))


def test_patterns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["patterns.py"])
    runpy.run_path(str(EXAMPLES / "patterns.py"), run_name="__main__")
    shown = capsys.readouterr().out
    for told in ("-- refined", "mapLane: map(map(fun(x", "__global__", "packed: nFun n."):
        assert told in shown
