"""Programs that are refused, each with its error, and data that breaks what types assume."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import openwork as ow
from openwork import skeletons as sk

HEAD = """nFun n. nFun m. fun x: [float]_n. fun y: [float]_m. fun k: [int]_n. fun o: [int]_{n + 1}.
fun A: [[float]_m]_n. fun R: [i -> [float]_{toNat(o@(i + 1) - o@i)}]_n. fun s: float.
fun P: [(int, float)]_n. fun T: [i -> [float]_{i + 1}]_n. fun z: [float]_6. fun b: bool.
"""
ILL_TYPED = {
    # text that is no program
    "x :>>": "E701", "x :>> map(": "E701", "map(fun(e => e))": "E701", "x +": "E701",
    "zip(x, x": "E701", "x :>> map(fun(=> 1))": "E701", "(x, y": "E701", "x ? y": "E701",
    "x :>> map(fun(e => e)) y": "E701", "x$": "E701", "generate(n, fun(i => 1))": "E701",
    "x :>> reduce(+)": "E701", "zip(x)": "E701",
    # names
    "w": "E702", "zip(x, w)": "E702", "x :>> map(fun(e => f))": "E702", "foo(s)": "E702",
    "x :>> split(q)": "E702", "x :>> map(fun(e => e)) :>> map(fun(f => e))": "E702",
    "generate(q, nFun(i => 1))": "E702", "(x : [float]_q)": "E702",
    # types
    "s :>> map(fun(e => e))": "E703", "s@0": "E703", "x.1": "E703", "s.2": "E703", "x + s": "E703",
    "zip(x, s)": "E703", "x :>> join": "E703", "x :>> transpose": "E703", "s :>> split(2)": "E703",
    "A :>> map(fun(r => r + 1))": "E703", "x :>> map(fun(e => e@0))": "E703",
    "x :>> map(fun(e => e :>> reduce(+, 0)))": "E703", "P :>> map(fun(p => p + 1))": "E703",
    "x@s": "E703", "x@(s + 1)": "E703", "(s : int)": "E703", "(x : [int]_n)": "E703",
    "k :>> reduce(+, 0.5)": "E703", "P :>> reduce(+, 0)": "E703", "R :>> reduce(+, 0)": "E703",
    "x :>> reduceSeq(fun(a => fun(e => true)), s)": "E703", "(x, x) :>> map(*)": "E703",
    "x :>> map(fun(e: int => e))": "E703", "x :>> reduce(<, 0)": "E703", "s :>> join": "E703",
    "T :>> join :>> map(fun(e => e.1))": "E703", "x :>> reduceSeq(fun(a => fun(e => (a, e))), 0)":
    "E703",
    # lengths
    "zip(x, y)": "E704", "zip(x, o)": "E704", "zip(A, y)": "E704", "zip(x, z)": "E704",
    "zip(x :>> split(2), y :>> split(2))": "E704", "R :>> transpose": "E704",
    "A :>> map(fun(r => zip(r, x)))": "E704", "(x : [float]_m)": "E704", "T :>> transpose": "E704",
    "zip(z :>> split(2), z :>> split(3))": "E704", "zip(z :>> slide(2), z)": "E704",
    "(A : [[float]_n]_m)": "E704",
    # indices
    "x@n": "E705", "z@6": "E705", "o@(n + 1)": "E705", "x@(n - 2)": "E705", "x@m": "E705",
    "generate(n + 1, nFun(i => x@i))": "E705", "generate(n, nFun(i => z@i))": "E705",
    "x@0": "E705", "generate(7, nFun(i => z@i))": "E705", "A :>> map(fun(r => r@m))": "E705",
    "generate(6, nFun(i => z@(i * 2)))": "E705", "generate(5, nFun(i => z@(3 - i)))": "E705",
    # functions and arguments
    "max(s)": "E706", "x :>> map(fun(a => fun(c => a)))": "E706", "exp(s, s)": "E706",
    "x :>> map(+)": "E706", "x :>> nFun(i => i)": "E706",
    # naturals
    "x :>> split(0)": "E707", "x :>> slide(0)": "E707", "x :>> slide(2, 0)": "E707",
    "generate(toNat(s), nFun(i => 1))": "E707", "generate(toNat(x), nFun(i => 1))": "E707",
    # sums that may go down
    "generate(n, nFun(i => nat(sum(k, n, m, k))))": "E707", "x :>> split(1 + sum(k, 2, 1, k))":
    "E707", "generate(n, nFun(i => nat(sum(k, i, m, k))))": "E707", "nat(sum(k, 0 - 1, n, k))":
    "E707", "generate(n, nFun(i => nat(sum(k, i, n, sum(l, k, 3, l)))))": "E707",
    "(x : [float]_{m + sum(k, m, n, 1)})": "E707",
    "generate(sum(l, toNat(o@0), n, 1), nFun(i => i))": "E707",
    "x :>> fun(r: [float]_{m + sum(k, m, n, 1)} => r)": "E707",
    # arrays are not reduced
    "A :>> reduce(+, 0)": "E710", "A :>> reduceSeq(fun(a => fun(r => a)), 0)": "E710",
}  # fmt: skip


@pytest.mark.parametrize("text", ILL_TYPED)
def test_ill_typed(text: str) -> None:
    with pytest.raises(ow.PatternError) as caught:
        sk.parse(HEAD + text)
    assert caught.value.code == ILL_TYPED[text], str(caught.value)


def test_there_are_enough_of_them() -> None:
    assert len(ILL_TYPED) >= 60


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("x :>> mapGlobal(fun(e => e))", "cpu"),
        ("x :>> mapThreads(fun(e => e))", "cuda-emulated"),
        ("A :>> mapThreads(mapThreads(fun(e => e)))", "cpu"),
        ("A :>> mapWarp(mapLane(fun(e => e)))", "cuda-emulated"),
        ("A :>> mapWorkgroup(mapLane(fun(e => e)))", "cuda-emulated"),
        ("x :>> mapThreads(fun(e => e)) :>> reduceSeq(+, 0)", "cpu"),
    ],
)
def test_units_that_do_not_nest(text: str, target: str) -> None:
    with pytest.raises(ow.PatternError) as caught:
        sk.parse(HEAD + text).compile(target=target)
    assert caught.value.code == "E708"


CSR = sk.parse(
    "nFun n. nFun m. fun o: [int]_{n + 1}. "
    "fun A: [i -> [(int, float)]_{toNat(o@(i + 1) - o@i)}]_n. fun x: [float]_m. "
    "A :>> map(fun(r => r :>> map(fun(e => e.2 * x@e.1)) :>> reduce(+, 0)))"
)
GOOD: dict[str, Any] = {
    "o": np.array([0, 2, 2, 3], "int32"),
    "A": sk.pairs(np.array([0, 1, 1], "int32"), np.ones(3, "float32")),
    "x": np.array([1, 2], "float32"),
}


def test_good_data() -> None:
    assert CSR(**GOOD).tolist() == [3, 0, 2]


@pytest.mark.parametrize(
    ("change", "code", "word"),
    [
        ({"o": np.array([0, 2, 1, 3], "int32")}, "E516", "must not be negative"),
        ({"o": np.array([0, 2, 2, 4], "int32")}, "E516", "add up to 4"),
        ({"o": np.array([0, 1, 2, 2], "int32")}, "E516", "add up to 2"),
        ({"o": np.array([1, 2, 2, 4], "int32")}, "E516", "o@0 is 1"),
        ({"o": np.array([-1, 2, 2, 2], "int32")}, "E516", "o@0 is -1"),
        ({"o": np.array([0, 2**31 - 1, -5, 3], "int32")}, "E516", "must not be negative"),
        ({"o": np.array([0, 5, 7, 2**31 - 1], "int32")}, "E516", "add up to 2147483647"),
        ({"o": np.array([], "int32")}, "E204", "o has a length of 0"),
        ({"A": sk.pairs(np.array([0, 1, 2], "int32"), np.ones(3, "float32"))}, "E516", "index 2"),
        ({"A": sk.pairs(np.array([0, -1, 1], "int32"), np.ones(3, "float32"))}, "E516", "index -1"),
        ({"A": np.ones(3, "float32")}, "E202", "says"),
        ({"x": np.array([1], "float32")}, "E516", "index 1 of an array of 1"),
        ({"x": np.ones((2, 2), "float32")}, "E202", "2 dimensions"),
        ({"x": np.array([1.0, 2.0])}, "E202", "float64"),
        ({"n": 4}, "E204", "o has a length of 4"),
        ({"w": 1}, "E203", "no parameter w"),
        ({"n": -1}, "E205", "natural"),
        # Lists are not cut to what the type holds, nor read as numbers.
        ({"o": [0, 2, 2.5, 3]}, "E202", "fractions"),
        ({"o": [0, float("nan"), 2, 3]}, "E202", "cannot become"),
        ({"x": ["1", "2"]}, "E202", "holds no numbers"),
        ({"x": [1, None]}, "E202", "None is no number"),
        (
            {"x": np.ones(2, complex)},
            "E202",
            "^E202: x holds complex128, and its type says float32",
        ),
        ({"A": [[(0, 1), (0.5, 1)], [], [(1, 1)]]}, "E202", "0.5 is no integer"),
        ({"x": np.ma.masked_array([1, 2], [0, 1], "float32")}, "E202", "mask"),
        ({"A": np.zeros(3, [("a", "i4"), ("b", "f4")])}, "E202", "int32 first, float32 second"),
        ({"A": scipy.sparse.eye(3, format="csr")}, "E202", "matrix of SciPy"),
        ({"A": ow.tensor(np.eye(3), format=ow.CSR)}, "E202", "A holds float64"),
    ],
)
def test_data_that_breaks_its_type(change: dict[str, Any], code: str, word: str) -> None:
    with pytest.raises(ow.OpenworkError, match=word) as caught:
        CSR(**{**GOOD, **change})
    assert caught.value.code == code


def test_data_that_only_looks_wrong() -> None:
    """Memory that is read only, or goes backwards, is read; whole numbers are integers."""
    x = np.array([2, 0, 1], "float32")[::-2]
    x.setflags(write=False)
    o = np.arange(8)[:0:-2]
    assert CSR(**{**GOOD, "x": x}).tolist() == [3, 0, 2]
    assert CSR(**{**GOOD, "o": [0.0, 2.0, 2.0, 3.0]}).tolist() == [3, 0, 2]
    assert CSR(**{**GOOD, "A": [[(0, 1), (1.0, 1)], [], [(1, 1)]]}).tolist() == [3, 0, 2]
    assert sk.parse("nFun n. fun o: [int]_n. o")(o=o).tolist() == [7, 5, 3, 1]


def test_errors_have_the_names_of_the_program() -> None:
    with pytest.raises(ow.PatternError, match=r"index k \+ 1 is below") as caught:
        sk.parse("nFun n. fun x: [float]_n. generate(n, nFun(k => x@(k + 1)))")
    assert caught.value.span is not None
    assert caught.value.span.text[caught.value.span.start :].startswith("x@(k + 1)")
    with pytest.raises(ow.PatternError) as caught:
        sk.parse("nFun n. fun x: [float]_n. x :>> reduce(+)")
    assert "reduce(+, 0)" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "marked", "told"),
    [
        # Of a pipeline the last step is marked, and the other times it occurs are not.
        ("A :>> map(fun(r => r :>> reduce(+, 0))) :>> reduce(+, 0) :>> reduce(+, 0)",
         "reduce(+, 0)", "reduce needs an array, not float32"),
        ("generate(n, nFun(q => R@q@0))", "R@q@0", "toNat(o@(q + 1)) - toNat(o@q)"),
        # Variables that nobody has named have names that are free.
        ("zip(R, A) :>> map(fun(i => zip(i.1, i.2)))", "zip(i.1, i.2)",
         "[float32]_{toNat(o@(j + 1)) - toNat(o@j)} and [float32]_m; they part at the length"),
    ],
)  # fmt: skip
def test_an_error_shows_the_step(text: str, marked: str, told: str) -> None:
    with pytest.raises(ow.PatternError) as caught:
        sk.parse(HEAD + text)
    span = caught.value.span
    assert span is not None and told in caught.value.message
    assert span.text[span.start : span.stop] == marked
    assert span.start == span.text.rindex(marked)


def test_a_length_that_is_inferred_behind_its_use() -> None:
    """That `l@i` lies in `l` is proved when the length of `A` is known."""
    text = (
        "nFun n. fun l: [int]_n. fun A: [i -> [double]_{toNat(l@i)}]. zip(l, A) :>> map(fun(p => "
    )
    program = sk.parse(f"{text}p.2 :>> reduce(+, 0)))")
    assert str(program.signature.types[1]) == "[i -> [float64]_{toNat(l@i)}]_n"
    with pytest.raises(ow.PatternError, match="a length that was left out") as caught:
        sk.parse("fun x: [double]. generate(3, nFun(i => x@i))")
    assert caught.value.code == "E705"


def test_coordinates_that_a_tensor_does_not_fill() -> None:
    text = ("nFun n. fun o: [int]_{n+1}. fun c: [i -> [int]_ROW]_n. fun v: [i -> [float]_ROW]_n. "
            "zip(c, v) :>> map(fun(r => r.2 :>> reduce(+, 0)))")  # fmt: skip
    made = sk.parse(text.replace("ROW", "{toNat(o@(i+1)-o@i)}"))
    with pytest.raises(ow.ShapeError, match="c is missing") as caught:
        made(v=ow.tensor(np.eye(3, dtype="float32"), format=ow.CSR))
    assert "A_crd" in str(caught.value.hint)


def test_a_missing_argument() -> None:
    with pytest.raises(ow.ShapeError, match="x is missing"):
        CSR(o=GOOD["o"], A=GOOD["A"])


def test_a_computed_index_stops_the_kernel() -> None:
    kernel = sk.parse(
        "nFun n. fun k: [int]_n. fun x: [float]_n. k :>> map(fun(e => x@(e + 1)))"
    ).compile()
    x = np.arange(3, dtype="float32")
    assert kernel(k=np.array([1, 0, -1], "int32"), x=x).tolist() == [2, 1, 0]
    for wrong in (2, -2):
        with pytest.raises(ow.DataError, match="lies outside its array"):
            kernel(k=np.array([0, wrong, 0], "int32"), x=x)


@pytest.mark.parametrize(
    "text",
    [
        "k :>> split(4) :>> mapWorkgroup(split(2) :>> mapWarp(split(32) :>> transpose :>> "
        "mapLane(map(fun(e => x@(e + 1))) :>> reduce(max, 0)) :>> reduce(max, 0))) :>> join",
        "k :>> split(4) :>> mapWorkgroup(split(8) :>> transpose :>> "
        "mapLocal(map(fun(e => x@(e + 1))) :>> reduce(max, 0)) :>> reduce(max, 0))",
        "k :>> map(fun(e => x@(e + 1))) :>> reduce(max, 0)",
    ],
)
def test_lanes_that_combine_wait_for_one_that_fails(text: str) -> None:
    """It returned before the others had its part: the emulator stopped, and a GPU might hang."""
    kernel = sk.parse(f"nFun n. fun k: [int]_n. fun x: [double]_6. {text}").compile("cuda-emulated")
    k = np.arange(9, dtype="int32") % 5
    assert np.max(kernel(k=k, x=np.arange(6.0))) == 5
    for wrong in (5, -2):
        k[7] = wrong
        with pytest.raises(ow.DataError, match="lies outside its array"):
            kernel(k=k, x=np.arange(6.0))


def test_what_was_checked_cannot_be_changed() -> None:
    data = {name: value.copy() for name, value in GOOD.items()}
    bound = CSR.compile().bind(**data)
    data["o"][1:] = 1000
    data["A"]["first"] = 1000
    assert bound().tolist() == [3, 0, 2]


@pytest.mark.parametrize("layout", ["AoS", "packed"])
@pytest.mark.parametrize("format", [ow.CSR, ow.LIL])
def test_sparse_from_dense(format: ow.Format, layout: str) -> None:
    program = sk.parse(
        "nFun n. nFun m. fun A: [[double]_m]_n. fun x: [double]_m. "
        "A :>> map(fun(r => zip(r, x) :>> map(*) :>> reduce(+, 0)))"
    )
    wanted = format.with_layout(layout)
    made = sk.sparsify(program, A=wanted)
    matrix = np.array([[0, 2.0, 0], [0, 0, 0], [1, 0, 3]])
    x = np.array([1.0, 2, 3])
    tensor = ow.tensor(matrix, format=wanted, name="A")
    assert made(A=tensor, x=x).tolist() == (matrix @ x).tolist()
    types = dict(zip(made.signature.params, made.signature.types, strict=True))
    stored = types["A"] if layout == "packed" else sk.pair(types["A_crd"], types["A"])
    assert sk.format_of(stored) == wanted
    assert str(program.to_statement()) == "y(i) = sum(j, A(i,j) * x(j))"
