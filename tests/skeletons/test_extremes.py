"""Programs and data at the edge: numbers too large, names that clash, lists of every depth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.skeletons import listings
from tests.skeletons.test_listings import CASES
from tests.skeletons.test_random import interpreted

import openwork as ow
from openwork import skeletons as sk
from openwork.skeletons.run.reach import reach

HUGE = 99999999999999999999
TARGETS = ["cpu", "cuda-emulated"]


def _code(call: Any) -> str:
    with pytest.raises(ow.OpenworkError) as caught:
        call()
    return caught.value.code


REFUSED = {
    # numbers that no type holds
    f"fun x: [float]_{HUGE}. x :>> reduce(+, 0)": "E707",
    f"nFun n. fun x: [float]_{{{HUGE}*n}}. x": "E707",
    f"generate({HUGE}, nFun(i => 1))": "E707",
    f"nFun n. fun x: [float]_n. x :>> split({HUGE})": "E707",
    "nFun n. fun k: [int]_n. k :>> map(fun(e => e + 3000000000))": "E703",
    "nFun n. fun k: [int]_n. k :>> reduce(max, -3000000000)": "E703",
    f"nFun n. fun k: [long]_n. k :>> map(fun(e => e + {HUGE}))": "E703",
    "(3000000000 : int)": "E703",
    # divisors that may be zero
    "nFun n. fun x: [float]_{n/0}. x": "E707",
    "nFun n. generate(n, nFun(i => nat(n/i)))": "E707",
    "nFun n. generate(n, nFun(i => nat(n % (i - 1))))": "E707",
    "nFun n. fun k: [int]_n. k :>> map(fun(e => nat(n/toNat(e))))": "E707",
    # names
    "nFun n. fun x: [float]_n. fun x: [float]_n. x": "E702",
    "nFun n. nFun n. fun x: [float]_n. x": "E702",
    "nFun n. fun n: [float]_n. n": "E702",
    # depth
    "(" * 5000: "E701",
    "nFun n. fun x: [float]_n. x" + " :>> map(neg)" * 2000: "E701",
    "fun x: float. x" + " + 1" * 3000: "E701",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:40])
def test_refused(text: str) -> None:
    assert _code(lambda: sk.parse(text)) == REFUSED[text]


N = sk.nats("N")
X = {"x": sk.array(3, sk.float32)}
PYTHON: list[tuple[str, Any]] = [
    ("E701", lambda: sk.parse(None)),  # type: ignore[arg-type]
    ("E701", lambda: sk.program(X, lambda x: _many(x))),
    ("E702", lambda: sk.nats("")),
    ("E702", lambda: sk.program({"a b": sk.float32}, lambda x: x)),
    ("E706", lambda: sk.program(X, lambda x, y: x)),
    ("E706", lambda: sk.program(X, 5)),  # type: ignore[arg-type]
    ("E706", lambda: sk.program(5, lambda x: x)),  # type: ignore[arg-type]
    ("E706", lambda: sk.program(X, lambda x: x >> sk.map(lambda e: e if e > 0 else 0))),
    ("E706", lambda: sk.program(X, lambda x: sum(x))),
    ("E706", lambda: sk.parse("1").stages("gpu")),
    ("E706", lambda: sk.where(True, 1, 0)),
    ("E709", lambda: sk.sparsify(5)),  # type: ignore[arg-type]
    ("E709", lambda: sk.from_statement(5)),  # type: ignore[arg-type]
]


def test_a_choice_for_each_element() -> None:
    made = sk.program(X, lambda x: x >> sk.map(lambda e: sk.where(e > 1, e, 0)))
    assert made == sk.parse("fun x: [float]_3. x :>> map(fun(e => select(e > 1, e, 0)))")


def _many(x: Any) -> Any:
    for _ in range(3000):
        x = x >> sk.map(lambda e: e + 1)
    return x


@pytest.mark.parametrize("place", range(len(PYTHON)))
def test_python_that_is_no_program(place: int) -> None:
    code, call = PYTHON[place]
    assert _code(call) == code


ROWS = "nFun n. fun l: [long]_n. fun x: [i -> [float]_{toNat(l@i)}]_n. x :>> map(reduce(+, 0))"
SQUARES = ROWS.replace("{toNat(l@i)}", "{toNat(l@i)*toNat(l@i)}")
BLOCKS = ROWS.replace("[float]_{toNat(l@i)}", "[[float]_{toNat(l@i)}]_{toNat(l@i)}").replace(
    "reduce(+, 0)", "map(reduce(+, 0))"
)
EMPTY = np.empty(0, "float32")


@pytest.mark.parametrize(
    ("text", "data", "code"),
    [
        # Lengths whose sum or product wraps around to 0, which is the length of the data.
        (ROWS, {"l": np.array([2**62] * 4), "x": EMPTY}, "E516"),
        (ROWS, {"l": np.array([2**52] * 2**12), "x": EMPTY}, "E516"),
        (SQUARES, {"l": np.array([2**32]), "x": EMPTY}, "E516"),
        (BLOCKS, {"l": np.array([2**40]), "x": EMPTY}, "E516"),
        ("nFun n. fun x: [[float]_n]_n. x", {"x": EMPTY, "n": 2**32}, "E516"),
        ("nFun n. generate(n*n, nFun(i => 1.0)) :>> reduce(+, 0)", {"n": 2**40}, "E516"),
        ("nFun n. generate(n, nFun(i => 1.0)) :>> reduce(+, 0)", {"n": 2**70}, "E205"),
        ("nFun n. nFun m. generate(n, nFun(i => nat(i/m)))", {"n": 3, "m": 0}, "E516"),
        ("nFun n. nFun m. generate(n, nFun(i => nat(i % m)))", {"n": 3, "m": 0}, "E516"),
    ],
)
def test_numbers_of_a_call_that_are_too_large_or_zero(
    text: str, data: dict[str, Any], code: str
) -> None:
    program = sk.parse(text)
    assert _code(lambda: program(**data)) == code


@pytest.mark.parametrize("target", TARGETS)
def test_indices_beyond_32_bits(target: str) -> None:
    """Products of naturals, where no array is long."""
    text = "nFun n. generate(1, nFun(i => 1.0 * nat(n*n) + nat((n*n*n) / 1000)))"
    n = 70001
    assert sk.parse(text).compile(target)(n=n).tolist() == [float(n * n) + n**3 // 1000]


def test_the_product_in_a_closed_form_is_larger_than_the_array() -> None:
    kernel: Any = sk.parse(listings.TRIANGULAR).compile("cuda-emulated")
    for n, fits in ((40_000, True), (60_000, False)):
        assert n * (n + 1) // 2 < 2**31
        most = reach(kernel._program, {"n0_size": n}, lambda name: 0)
        assert (most < 2**31) == fits


@pytest.mark.parametrize("name", listings.ALL)
def test_listings_with_64_bit_indices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openwork.skeletons.run.gpu._NARROW", 0)
    data, expected = CASES[name]
    program = sk.parse(listings.ALL[name])
    kernel: Any = program.compile("cuda-emulated")
    bound = getattr(kernel, "usual", kernel).bind(**data)
    assert not bound.ready[1].narrow
    np.testing.assert_allclose(bound(), expected, rtol=2e-5)


def test_parameters_called_like_those_of_python() -> None:
    p = sk.parse("nFun n. fun self: [float]_n. fun data: [float]_n. zip(self, data) :>> map(+)")
    assert p(self=np.ones(2, "float32"), data=np.ones(2, "float32")).tolist() == [2, 2]
    types = {"_keep": sk.array(N, sk.float64)}
    assert sk.program(types, lambda a: a >> sk.reduce(sk.add, 0))(_keep=np.ones(3)) == 3


def test_lists_of_every_depth() -> None:
    three = sk.parse(
        "nFun n. fun t: [i -> [j -> [int]_{j+1}]_{i+1}]_n. t :>> map(map(reduce(+, 0)))"
    )
    assert three(t=[[[1]], [[1], [2, 3]]]).tolist() == [1, 1, 5]
    head = "nFun n. fun l: [int]_n. fun x: [i -> [(int, float)]_{toNat(l@i)}]_n. "
    rows = sk.parse(head + "x :>> map(map(fun(e => e.2)))")
    assert rows(l=[2, 0], x=[[(1, 2.0), [2, 3.0]], []]).tolist() == [2, 3]
    assert rows(l=[1, 1], x=[[(1, 2.0)], [(2, 3.0)]]).tolist() == [2, 3]
    assert _code(lambda: rows(l=[1, 1], x=[[(1, 2.0), (2, 3.0)], []])) == "E516"
    assert _code(lambda: rows(l=[1, 1], x=[[(1, 2.0)], (2, 3.0)])) == "E202"
    pair = sk.parse("fun s: (int, float). s.2")
    assert pair(s=(1, 2.5)) == 2.5
    assert _code(lambda: pair(s=1)) == "E202"
    square = sk.parse("nFun n. fun x: [[float]_2]_n. x :>> map(reduce(+, 0))")
    assert square(x=[[1, 2], [3, 4]]).tolist() == [3, 7]
    assert _code(lambda: square(x=[[1], [2, 3, 4]])) == "E516"


@pytest.mark.parametrize("target", TARGETS)
def test_a_total_length_is_a_sum_over_data(target: str) -> None:
    """The variable of a sum is below its end, so that it may index."""
    p = sk.parse(
        "nFun n. fun l: [int]_n. fun x: [double]_{sum(k, 0, n, toNat(l@k))}. x :>> reduce(+, 0)"
    )
    kernel = p.compile(target)
    assert kernel(l=[2, 0, 3], x=np.ones(5)) == 5
    assert _code(lambda: kernel(l=[2, 0, 3], x=np.ones(6))) == "E516"
    assert _code(lambda: sk.parse(p.text.replace(", n, ", ", n + 1, "))) == "E705"


def test_naturals_that_follow_from_others() -> None:
    pieces = "nFun n. nFun m. fun x: [double]_{n*m}. x :>> split(m) :>> map(reduce(+, 0))"
    kernel = interpreted(sk.parse(pieces))
    assert kernel(x=np.ones(6), m=2).tolist() == [2, 2, 2]
    assert kernel(x=np.ones(6), n=2).tolist() == [3, 3]
    for told in ({}, {"m": 0}):
        assert _code(lambda told=told: kernel(x=np.ones(6), **told)) == "E203"
    for told in ({"m": 4}, {"n": 2, "m": 4}):
        assert _code(lambda told=told: kernel(x=np.ones(6), **told)) == "E204"


@pytest.mark.parametrize("body", ["k % 3", "k / 2", "(k < 2 ? k : 2)", "sum(j, 0, k + 1, j)"])
def test_a_length_is_a_sum_that_has_no_closed_form(body: str) -> None:
    """Here it is 0 + 1 + 2, with more behind it."""
    text = f"nFun n. nFun m. fun x: [double]_{{sum(k, 0, n, {body}) + m}}. x :>> reduce(+, 0)"
    kernel = interpreted(sk.parse(text))
    assert kernel(x=np.ones(9), n=3) == 9
    assert _code(lambda: kernel(x=np.ones(9), n=3, m=7)) == "E204"


@pytest.mark.parametrize("target", TARGETS)
def test_no_elements(target: str) -> None:
    for text, shape in (
        ("nFun n. fun x: [float]_n. x :>> slide(3) :>> map(reduce(+, 0))", (1,)),
        ("nFun n. fun x: [(bool, double)]_n. x :>> map(fun(e => (e.2, e.1)))", (0,)),
    ):
        p = sk.parse(text)
        x = np.zeros(shape, "float32") if "float" in text else sk.pairs(
            np.zeros(shape, bool), np.zeros(shape)
        )  # fmt: skip
        assert len(p.compile(target)(x=x)) == 0


@pytest.mark.parametrize("sums", ["closed", "prefix", "loop"])
@pytest.mark.parametrize("target", TARGETS)
def test_pairs_in_rows_in_pairs_lie_where_their_type_says(target: str, sums: str) -> None:
    """Of a pair in an array in a pair, each part has lengths of its own."""
    p = sk.parse(
        "nFun n. fun U: [i -> [long]_{n-i}]_n. fun Q: [i -> [int]_{i*i}]_n. zip(U, Q) :>> "
        "map(fun(p => (p.1, p.1 :>> map(fun(e => (e, p.2))))))"
    )
    U, Q = np.array([1, 2, 3, 4, 5, 6]), np.array([7, 8, 9, 10, 11], "int32")
    first, (second, third) = _parts(p.compile(target, sums)(n=3, U=U, Q=Q))
    assert first.tolist() == second.tolist() == U.tolist()
    assert third.tolist() == [7, 7, 8, 9, 10, 11]


def _parts(made: Any) -> Any:
    return made[0], made[1:]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A whole number does not become a bool, nor a fraction a whole number.
        ("b :>> reduceSeq(fun(a => fun(e => select(e, a + 1, a))), 0)", 3),
        ("b :>> map(fun(e => (e, e))) :>> reduceSeq(fun(a => fun(e => "
         "(select(e.1, a.1 + 2, a.1), e.2))), (0, false))", 6),
        ("k :>> reduceSeq(fun(a => fun(e => a / 2 + e)), 0.5)", 4.0625),
    ],
)  # fmt: skip
def test_a_number_that_a_reduction_begins_with_keeps_its_type(
    text: str, expected: float, target: str
) -> None:
    kernel = sk.parse(f"nFun n. fun b: [bool]_n. fun k: [int]_n. {text}").compile(target)
    got = kernel(b=np.ones(3, bool), k=np.array([2, 1, 3], "int32"))
    assert (got["first"] if np.asarray(got).dtype.names else got) == expected
