"""The listings of the paper: parsed, printed, compiled for every target, and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse
from tests.skeletons import listings

import openwork as ow
from openwork import skeletons as sk
from openwork.skeletons.lower.lower import Lowering

N, M = 37, 29
MATRIX = sparse.random(N, M, 0.2, format="csr", random_state=3, dtype=np.float32)
RNG = np.random.default_rng(0)
X = RNG.random(M, dtype=np.float32)
LENGTHS = np.diff(MATRIX.indptr).astype("int32")
ROWS = np.split(MATRIX.data, MATRIX.indptr[1:-1])
TRIANGLE = RNG.random((N, N), dtype=np.float32)
B = RNG.random((M, 3), dtype=np.float32)


def _stencil(row: Any) -> float:
    sums = [row[k : k + 3].sum() for k in range(len(row) - 2)]
    return max(sums, default=-np.inf)


def _softmax(row: Any) -> Any:
    e = np.exp(row - row.max(initial=-np.inf))
    return e / e.sum()


SPARSE = {"offset": MATRIX.indptr, "col_indices": MATRIX.indices, "values": MATRIX.data}
PAIRS = {"offset": MATRIX.indptr, "values": sk.pairs(MATRIX.indices, MATRIX.data)}
FLAT = {"offset": MATRIX.indptr, "values": MATRIX.data}
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "dense": ({"mat": MATRIX.toarray(), "xs": X}, MATRIX @ X),
    "lil": (
        {"lengths": LENGTHS, "col_indices": MATRIX.indices, "values": MATRIX.data, "xs": X},
        MATRIX @ X,
    ),
    "csr": ({**SPARSE, "xs": X}, MATRIX @ X),
    "packed": ({**PAIRS, "xs": X}, MATRIX @ X),
    "row sums": (FLAT, np.asarray(MATRIX.sum(1)).ravel()),
    "triangular": (
        {"L": TRIANGLE[np.tril_indices(N)], "x": TRIANGLE[0]}, np.tril(TRIANGLE) @ TRIANGLE[0]
    ),
    "spmm": ({**PAIRS, "B": B}, MATRIX @ B),
    "stencil": (FLAT, np.array([_stencil(row) for row in ROWS], "float32")),
    "softmax": (FLAT, np.concatenate([_softmax(row) for row in ROWS])),
}  # fmt: skip


@pytest.mark.parametrize("name", listings.ALL)
@pytest.mark.parametrize("sums", ["closed", "prefix", "loop"])
def test_on_a_cpu(name: str, sums: str) -> None:
    data, expected = CASES[name]
    kernel = sk.parse(listings.ALL[name]).compile(sums=sums)
    np.testing.assert_allclose(kernel(**data), expected, rtol=2e-5)


@pytest.mark.parametrize("name", listings.ALL)
def test_under_the_emulator(name: str) -> None:
    data, expected = CASES[name]
    kernel = sk.parse(listings.ALL[name]).compile(target="cuda-emulated")
    np.testing.assert_allclose(kernel(**data), expected, rtol=2e-5)


@pytest.mark.parametrize(("rows", "splits"), [(1, 8), (4, 32), (8, 2), (3, 16)])
def test_the_parameters_of_listing_7(rows: int, splits: int) -> None:
    program = sk.parse(listings.parallel(rows, splits))
    kernel = program.compile(target="cuda-emulated")
    np.testing.assert_allclose(kernel(**SPARSE, xs=X), MATRIX @ X, rtol=2e-5)
    assert "of_lanes" in kernel.source  # a group of lanes combines its sums
    serial = sk.parse(listings.parallel(rows, splits, gpu=False)).compile()
    np.testing.assert_allclose(serial(**SPARSE, xs=X), MATRIX @ X, rtol=2e-5)


# Of `P@i.2` the part would be that of the index.
PART = "nFun n. fun P: [(int, float)]_n. generate(n, nFun(i => (P@i).2 * (P@(i // 2)).2))"


# A part of a part is no fraction.
PARTS = "nFun n. fun P: [((int, int), (int, float))]_n. P :>> map(fun(p => p.1.2 * 1.5 + p.2.1))"


@pytest.mark.parametrize("text", [*listings.ALL.values(), listings.parallel(), PART, PARTS])
def test_what_is_printed_is_read_back(text: str) -> None:
    program = sk.parse(text)
    assert sk.parse(program.text) == program
    assert sk.parse(program.text).text == program.text


def test_the_stages_end_in_the_loop_of_csr() -> None:
    stages = sk.parse(listings.CSR).stages()
    assert list(stages) == ["patterns", "loops", "flat", "closed", "refined", "program"]
    assert "values@i@i_2" in stages["loops"]
    assert "sum(k', 0, i, toNat(offset@(k' + 1)) - toNat(offset@k'))" in stages["flat"]
    assert "i_2 = toNat(offset@i) - toNat(offset@0);" in stages["closed"]
    assert "i_2 = toNat(offset@i);" in stages["refined"]
    assert "for (i_2 = a0[i]; i_2 < a0[i + 1]; i_2++)" in stages["program"]


def test_a_dump_has_the_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = sk.parse(listings.CSR)
    monkeypatch.setenv("OPENWORK_DUMP", str(tmp_path))
    program.compile("cuda-emulated")
    names = [file.name for file in sorted(tmp_path.iterdir())]
    assert names[:5] == ["01-patterns", "02-loops", "03-flat", "04-closed", "05-refined"]
    assert names[-1].endswith("kernel.cu")
    stages = program.stages("cuda-emulated")
    written = [(tmp_path / name).read_text().rstrip() for name in names[:6]]
    assert written == [text.rstrip() for text in stages.values()]


def test_stages_that_nobody_reads_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    program, made = sk.parse(listings.CSR), list[str]()
    lowering = Lowering.lowered
    monkeypatch.setattr(Lowering, "lowered", lambda self: made.append("") or lowering(self))
    program.compile()
    assert len(made) == 1


def test_a_list_of_lists_gets_the_offsets_of_csr() -> None:
    kernel = sk.parse(listings.LIL).compile()
    data, _ = CASES["lil"]
    bound = kernel.bind(**data)
    assert bound.extra[0].tolist() == MATRIX.indptr.tolist()
    told = "sums: those of toNat(lengths@k) are computed once on the host, and kept: offsets0"
    assert f"{told}, the offsets that CSR has" in kernel.explain()


def test_decisions_come_in_the_order_of_the_stages() -> None:
    told = sk.parse(listings.ROW_SUMS).compile().explain().splitlines()
    before = "sum(k', 0, i, toNat(offset@(k' + 1)) - toNat(offset@k'))"
    assert [line.strip() for line in told[1:]] == [
        "loops: n elements by threads, which take equal work",
        "loops: toNat(offset@(i + 1)) - toNat(offset@i) elements by vectors",
        f"flat: what comes before i is {before}",
        f"sums: {before} is toNat(offset@i) - toNat(offset@0)",
        "refined: offset@0 is 0, which each call checks",
        "program: toNat is inlined: it reads offset where it is needed",
    ]


def test_the_loops_check_no_data() -> None:
    """What the host checks before a call is no part of any stage."""
    stages = sk.parse(listings.LIL).stages()
    assert "xs@col_indices@i@i_2" in stages["loops"]
    assert not any("fail" in text for text in stages.values())


@pytest.mark.parametrize("format", [None, ow.ELL])
def test_elements_that_are_generated_are_taken_by_a_grid(format: ow.Format | None) -> None:
    """A program for a GPU without units had one thread where no `map` is outermost."""
    program = sk.parse(listings.TRIANGULAR)
    if format is not None:
        program = sk.sparsify(sk.parse(listings.DENSE), mat=format)
    kernel = program.compile("cuda-emulated")
    assert "elements by blocks of 256 threads" in kernel.explain()
    assert "threadIdx.x" in kernel.source


def test_csr_is_the_loop_of_index_notation() -> None:
    rows = sparse.random(2000, 1000, 0.02, format="csr", random_state=1, dtype=np.float32)
    tensors = {
        "A": ow.tensor(rows, name="A"),
        "x": ow.tensor(np.ones(1000, "float32"), name="x"),
        "y": ow.empty(2000, dtype="float32", name="y"),
    }
    statement = ow.parse("y(i) = A(i,j) * x(j)", **tensors)
    i, j = ow.indices("i j")
    statement = statement.parallelize(i, "CPUThread", "NoRaces")
    theirs = statement.parallelize(j, "CPUVector", "ParallelReduction").compile().source
    ours = sk.parse(listings.CSR).compile().source

    def loop(text: str, names: dict[str, str]) -> str:
        body = text[text.index("#pragma omp parallel for") :]
        for old, new in names.items():
            body = body.replace(old, new)
        return "\n".join(line.strip() for line in body.splitlines() if "//" not in line)

    names = {
        "i_size": "n0_size",
        "A_pos2": "a0",
        "A_crd2": "a1",
        "A_vals": "a2",
        "B_vals": "a3",
        "R_vals": "r",
    }
    assert loop(ours, {"i_2": "pA2"}) == loop(theirs, {**names, "R_sum": "sum"})
