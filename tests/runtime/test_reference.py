"""The reference evaluator: like NumPy on dense data, and by hand on every rule of absence."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op, Semiring
from openwork.algebra.types import NAMES, computed, number
from openwork.errors import DataError, InternalError, ParseError
from openwork.format.formats import CSF, Format
from openwork.format.levels import Compressed, Dense
from openwork.index.checks import check, extents
from openwork.index.define import operator
from openwork.index.einstein import explicit
from openwork.index.nodes import Absent, Apply, Assignment, Reduce, TensorVar
from openwork.index.parse import parse_assignment
from openwork.index.semiring import under
from openwork.runtime import reference
from openwork.runtime.reference import Masked, evaluate, masked_to_coo, to_masked
from openwork.tensor.convert.pack import pack

nan, inf = float("nan"), float("inf")


def sparse(entries: Any, dtype: Any = "float64", fill: Any = 0) -> Masked:
    """A tensor from nested lists in which None stands for an absent entry."""
    boxed = np.array(entries, dtype=object)
    present = np.not_equal(boxed, None).astype(bool)
    return Masked(np.where(present, boxed, fill).astype(dtype), present)


def full(values: Any, dtype: Any = None) -> Masked:
    """A tensor with every entry present."""
    array = np.asarray(values, dtype)
    return Masked(array, np.ones(array.shape, dtype=bool))


def run(
    text: str,
    /,
    *,
    out: Masked | None = None,
    shape: tuple[int, ...] | None = None,
    dtype: Any = None,
    fill: Any = 0,
    fills: dict[str, Any] | None = None,
    operators: dict[str, Op] | None = None,
    semiring: Semiring | None = None,
    **operands: Masked,
) -> Masked:
    """Evaluate `text`, whose result is called `y`; unless given, its type is the right side's."""
    fills = {"y": fill, **(fills or {})}

    def variable(name: str, values: Any) -> TensorVar:
        declared = number(fills.get(name, 0), values.dtype)
        return TensorVar(name, CSF(values.ndim), values.dtype, declared, values.shape)

    tensors = {name: variable(name, each.values) for name, each in operands.items()}
    order = text.split("=")[0].count(",") + ("(" in text.split("=")[0])
    sizes = (None,) * order if shape is None else shape

    def parsed(result: Any) -> Assignment:
        declared = number(fill, np.dtype(result))
        y = TensorVar("y", CSF(order), np.dtype(result), declared, sizes)
        return parse_assignment(text, {"y": y, **tensors}, operators)

    assignment = parsed(parsed("float64").rhs.dtype if dtype is None else dtype)
    if semiring is not None:
        assignment = under(semiring, assignment)
    assignment = explicit(check(assignment))
    known = {var: n for var, n in extents(assignment).items() if n is not None}
    return evaluate(assignment, operands, known, out)


def entries(result: Masked) -> list[Any]:
    """The result as nested lists, None where there is no entry."""
    boxed = result.values.astype(object)
    return np.where(result.present, boxed, None).tolist()


# --- Dense data: the same as NumPy -----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "subscripts"),
    [
        ("y(i) = A(i,j) * B(j)", "ij,j->i"),
        ("y(i,k) = A(i,j) * B(j,k)", "ij,jk->ik"),
        ("y(j,i) = A(i) * B(j)", "i,j->ji"),
        ("y = A(i) * B(i)", "i,i->"),
        ("y = A(i,i)", "ii->"),
        ("y(i) = A(i,i)", "ii->i"),
        ("y(j,i) = A(i,j,i)", "iji->ji"),
        ("y(i) = A(i,j)", "ij->i"),
        ("y(k,i) = A(i,j,k)", "ijk->ki"),
        ("y(i,l) = A(i,j,k) * B(j,l) * C(k,l)", "ijk,jl,kl->il"),
        ("y(j,k,l,m) = A(i,j,k) * B(i,l,m)", "ijk,ilm->jklm"),
        ("y(i) = A * B(i)", ",i->i"),
        ("y(n,m,l,k,j,i) = A(i,j,k,l,m,n)", "ijklmn->nmlkji"),
        ("y(i,n) = A(i,j,k,l,m,n) * B(m,l)", "ijklmn,ml->in"),
    ],
)
@pytest.mark.parametrize("extent", [0, 1, 3])
def test_products_and_sums_are_einsum(text: str, subscripts: str, extent: int) -> None:
    rng = np.random.default_rng(1)
    shapes = [(extent,) * len(letters) for letters in subscripts.split("->")[0].split(",")]
    arrays = [rng.integers(-4, 5, shape).astype(float) for shape in shapes]
    result = run(text, **{name: full(a) for name, a in zip("ABC", arrays, strict=False)})
    np.testing.assert_array_equal(result.values, np.einsum(subscripts, *arrays))


UNARY = ["neg", "abs", "sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "floor", "ceil", "conj"]
UNARY += ["exp2", "expm1", "log2", "log10", "log1p", "cbrt", "asin", "acos", "atan", "sinh", "cosh"]
UNARY += ["asinh", "acosh", "atanh", "trunc", "sign"]


@pytest.mark.parametrize("name", UNARY)
def test_functions_are_numpys(name: str) -> None:
    x = np.array([0.5, 0.25]) if name in ("asin", "acos", "atanh") else np.array([1.5, 2.0, 7.25])
    numpys = {"neg": np.negative, "abs": np.abs, "conj": np.conj}
    expected = numpys.get(name, getattr(np, name, None))(x)  # type: ignore[misc]
    np.testing.assert_array_equal(run(f"y(i) = {name}(x(i))", x=full(x)).values, expected)


@pytest.mark.parametrize(("left", "right"), list(product(NAMES, NAMES)))
def test_types_are_promoted_as_numpy_promotes(left: str, right: str) -> None:
    a, b = np.array([0, 1, 1]).astype(left), np.array([1, 1, 0]).astype(right)
    for sign, numpys in (("+", np.add), ("*", np.multiply), ("/", np.true_divide)):
        result = run(f"y(i) = a(i) {sign} b(i)", a=full(a), b=full(b))
        with np.errstate(all="ignore"):
            wanted = numpys(a, b)
        # Half precision is for memory: results are in single.
        wanted = wanted.astype(computed(wanted.dtype))
        np.testing.assert_array_equal(result.values, wanted, strict=True)


def test_python_numbers_take_the_type_of_the_array_they_meet() -> None:
    third = run("y(i) = x(i) * 0.1", x=full([1, 2], "float32"))
    np.testing.assert_array_equal(third.values, np.float32([1, 2]) * 0.1, strict=True)
    wrapped = run("y(i) = x(i) + 100", x=full([100], "int8"))
    np.testing.assert_array_equal(wrapped.values, np.array([-56], "int8"), strict=True)


def test_integer_arithmetic_wraps_and_sums_in_its_own_type() -> None:
    assert run("y = x(i)", x=full([100, 100, 100], "int8")).values == np.int8(44)
    halves = run("y(i) = cast(float64, x(i)) ** -1", x=full([2, 1, -1]))
    assert halves.values.tolist() == [0.5, 1, -1]
    with pytest.raises(DataError, match="E515"):
        run("y(i) = x(i) ** x(i)", x=full([2, 1, -1, 0]))


def test_sums_of_truth_values_are_or() -> None:
    assert run("y(i) = A(i,j)", A=full([[True, True], [False, False]])).values.tolist() == [
        True,
        False,
    ]


def test_index_variables_are_their_coordinates() -> None:
    b = np.arange(6).reshape(2, 3)
    result = run("y(i,j) = b(i,j) * (i * 3 + j)", b=full(b))
    np.testing.assert_array_equal(result.values, b * b, strict=True)


def test_a_result_is_broadcast_over_variables_that_the_right_side_lacks() -> None:
    both = run("y(i,j) = b(i) + c(j)", b=full([1, 2]), c=full([10, 20, 30]))
    np.testing.assert_array_equal(both.values, [[11, 21, 31], [12, 22, 32]])
    rows = run("y(j,i) = b(i)", b=full([1, 2]), shape=(3, 2))
    np.testing.assert_array_equal(rows.values, [[1, 2]] * 3)
    assert entries(run("y(i) = 7", shape=(2,))) == [7, 7]


def test_one_variable_may_be_reduced_twice() -> None:
    result = run("y = sum(i, a(i)) * sum(i, b(i))", a=full([1, 2]), b=full([3, 4]))
    assert result.values == 21


def test_casts_are_those_of_c() -> None:
    x = full([-1.9, 1.9, 300.0])
    assert run("y(i) = int32(x(i))", x=x).values.tolist() == [-1, 1, 300]
    assert run("y(i) = int8(int32(x(i)))", x=x).values.tolist() == [-1, 1, 44]
    assert run("y(i) = bool(x(i))", x=x).values.tolist() == [True] * 3
    assert run("y(i) = float64(z(i))", z=full([3 + 4j])).values.tolist() == [3.0]


# --- Absent entries: the operators' laws -------------------------------------------------------


def test_an_absent_factor_annihilates_whatever_it_meets() -> None:
    a, b = sparse([None, None, None, 2]), full([nan, inf, 5, 3])
    assert entries(run("y(i) = a(i) * b(i)", a=a, b=b)) == [None, None, None, 6]
    assert entries(run("y(i) = b(i) * a(i)", a=a, b=b)) == [None, None, None, 6]


def test_a_stored_zero_follows_ieee() -> None:
    result = run("y(i) = a(i) * b(i)", a=sparse([0, 0, 0]), b=full([nan, inf, 5]))
    np.testing.assert_array_equal(result.values, [nan, nan, 0])
    assert result.present.all()


def test_an_absent_term_leaves_the_other() -> None:
    a, b = sparse([1, None, 3, None]), sparse([10, 20, None, None])
    assert entries(run("y(i) = a(i) + b(i)", a=a, b=b)) == [11, 20, 3, None]


def test_a_difference_with_an_absent_left_side_is_computed() -> None:
    a, b = sparse([1, None, 3, None]), sparse([10, 20, None, None])
    assert entries(run("y(i) = a(i) - b(i)", a=a, b=b)) == [-9, -20, 3, None]


def test_an_absent_dividend_annihilates_and_an_absent_divisor_divides() -> None:
    a, b = sparse([None, None, 1, 0, 6]), sparse([0, None, None, None, 3])
    result = run("y(i) = a(i) / b(i)", a=a, b=b)
    np.testing.assert_array_equal(result.values, [0, 0, inf, nan, 2])
    assert result.present.tolist() == [False, False, True, True, True]


def test_an_absent_divisor_of_one_leaves_the_dividend() -> None:
    result = run("y(i) = a(i) / b(i)", a=sparse([None, 5]), b=sparse([None, None]), fills={"b": 1})
    assert entries(result) == [None, 5]


def test_a_function_of_an_absent_entry_is_absent_with_its_value() -> None:
    a = sparse([None, 0.0])
    assert entries(run("y(i) = sin(a(i))", a=a)) == [None, 0]
    assert entries(run("y(i) = cos(a(i))", a=a, fill=1)) == [None, 1]
    # Where the result's absent entries have another value, it has to be an entry.
    assert entries(run("y(i) = cos(a(i))", a=a)) == [1, 1]


def test_absent_entries_and_written_numbers_fold() -> None:
    a = sparse([None, 3])
    assert entries(run("y(i) = a(i) ** 2", a=a)) == [None, 9]
    assert entries(run("y(i) = max(a(i), -1 * 2)", a=a)) == [None, 3]
    assert entries(run("y(i) = a(i) < 1", a=a, dtype="bool")) == [True, False]
    assert entries(run("y(i) = a(i) < 1", a=a, dtype="bool", fill=True)) == [None, False]
    # A stored zero is no written number.
    assert entries(run("y(i) = max(a(i), b(i))", a=a, b=full([-2.0, -2.0]))) == [0, 3]


def test_what_an_identity_leaves_stays_a_written_number() -> None:
    a, b = sparse([None, None]), sparse([None, 4])
    assert entries(run("y(i) = max(a(i) + 0.0, b(i))", a=a, b=b)) == [None, 4]
    assert entries(run("y(i) = max(a(i) + 5.0, b(i))", a=a, b=b, fill=5)) == [None, 5]


def test_laws_hold_in_the_type_that_is_computed_in() -> None:
    # 0 is the least uint8, so it annihilates under min; it is not the least float.
    unsigned, signed = sparse([None], "uint8"), full([-1.5])
    assert entries(run("y(i) = min(a(i), b(i))", a=unsigned, b=full([3], "uint8"))) == [None]
    assert entries(run("y(i) = max(a(i), b(i))", a=unsigned, b=full([3], "uint8"))) == [3]
    assert entries(run("y(i) = min(a(i), b(i))", a=unsigned, b=signed)) == [-1.5]
    assert entries(run("y(i) = max(a(i), b(i))", a=unsigned, b=signed)) == [0]


def test_truth_values() -> None:
    a, b = sparse([True, None, None], bool), sparse([None, None, True], bool)
    assert entries(run("y(i) = a(i) & b(i)", a=a, b=b)) == [None, None, None]
    assert entries(run("y(i) = a(i) | b(i)", a=a, b=b)) == [True, None, True]
    assert entries(run("y(i) = not(a(i))", a=a)) == [False, True, True]


def test_select_by_an_absent_condition_takes_the_branch_as_it_is() -> None:
    c, a = sparse([None, None, True, True], bool), sparse([1, None, 1, None])
    b = sparse([2, None, None, 2])
    assert entries(run("y(i) = select(c(i), a(i), b(i))", c=c, a=a, b=b)) == [2, None, 1, 0]
    opposite = run("y(i) = select(c(i), a(i), b(i))", c=c, a=a, b=b, fills={"c": True})
    assert entries(opposite) == [1, None, 1, 0]


def test_an_absent_entry_with_a_fill_of_its_own_is_that_number() -> None:
    a = sparse([None, 4], fill=2)
    assert entries(run("y(i) = a(i) * b(i)", a=a, b=full([10.0, 10.0]), fills={"a": 2})) == [20, 40]
    ones = {"a": 1}
    assert entries(run("y(i) = a(i) * b(i)", a=a, b=sparse([7, None]), fills=ones)) == [7, None]


def test_a_cast_keeps_presence() -> None:
    assert entries(run("y(i) = int64(a(i))", a=sparse([None, 2.5]))) == [None, 2]


# --- Reductions --------------------------------------------------------------------------------


def test_a_sum_over_nothing_is_absent() -> None:
    A = sparse([[None, None], [0, None], [1, 2]])
    assert entries(run("y(i) = A(i,j)", A=A)) == [None, 0, 3]
    assert entries(run("y(i) = A(i,j)", A=full(np.ones((2, 0))))) == [None, None]
    assert entries(run("y = A(i)", A=sparse([]))) is None


def test_a_sum_over_nothing_annihilates() -> None:
    A = sparse([[None, None], [0, 0]])
    result = run("y(i) = sum(j, A(i,j)) * b(i)", A=A, b=full([nan, nan]))
    np.testing.assert_array_equal(result.values, [0, nan])


def test_a_minimum_takes_absent_entries_as_the_zeros_they_are() -> None:
    A = sparse([[3, None], [3, 4], [-1, None]])
    assert entries(run("y(i) = min(j, A(i,j))", A=A)) == [0, 3, -1]
    assert run("y = min(j, A(j))", A=full(np.ones(0))).values == inf
    assert run("y = max(j, A(j))", A=full(np.ones(0, "int8"))).values == -128


def test_absent_identities_of_a_minimum_are_passed_over() -> None:
    A = sparse([[3, None], [None, None]])
    assert entries(run("y(i) = min(j, A(i,j))", A=A, fills={"A": inf}, fill=inf)) == [3, None]


def test_or_over_numbers_is_a_truth_value() -> None:
    result = run("y(i) = any(j, A(i,j))", A=sparse([[2, None], [None, None], [0, 0]]))
    assert entries(result) == [True, None, False]


def test_a_sum_of_a_constant_counts() -> None:
    assert run("y(j) = sum(i, 2 + 0 * a(i) + b(j))", a=full([1, 1, 1]), b=full([5])).values == [21]


def test_a_product_of_absent_entries_takes_them_as_zeros() -> None:
    A = sparse([[2, 3], [2, None]])
    assert run("y(i) = prod(j, A(i,j))", A=A).values.tolist() == [6, 0]


# --- Semirings and operators of the user --------------------------------------------------------


def test_shortest_paths() -> None:
    A = sparse([[None, 1, 4], [None, None, 2], [None, None, None]])
    d = sparse([0, 1, None])
    for name in ("float64", "int32"):
        weights = sparse(entries(A), name), sparse(entries(d), name)
        step = run("y(j) = d(i) * A(i,j)", A=weights[0], d=weights[1], semiring=ops.MIN_PLUS)
        assert entries(step) == [None, 1, 3]
        assert step.values[0] == number(inf, np.dtype(name))


def test_other_semirings() -> None:
    A, x = sparse([[5, None], [2, 3]]), sparse([1, None])
    longest = run("y(i) = A(i,j) * x(j)", A=A, x=x, semiring=ops.MAX_PLUS)
    assert entries(longest) == [6, 3]
    likely = run("y(i) = A(i,j) * x(j)", A=A, x=sparse([0.5, 0.25]), semiring=ops.MAX_TIMES)
    assert entries(likely) == [2.5, 1]
    reach = sparse([[True, None], [None, True]], bool)
    hop = run("y(i) = A(i,j) * x(j)", A=reach, x=sparse([None, True], bool), semiring=ops.OR_AND)
    assert entries(hop) == [None, True]


EITHER = operator(
    "either",
    lambda a, b: a + b - a * b,
    identity=0,
    annihilator=1,
    commutative=True,
    associative=True,
)


def test_a_users_operator_follows_its_definition_and_laws() -> None:
    a, b = sparse([None, 0.5, None, 0.25]), sparse([0.5, None, None, 0.5])
    known = {"either": EITHER}
    result = run("y(i) = either(a(i), b(i))", a=a, b=b, operators=known)
    assert entries(result) == [0.5, 0.5, None, 0.625]
    ones = {"a": 1}
    certain = run("y(i) = either(a(i), b(i))", a=a, b=full([nan] * 4), operators=known, fills=ones)
    assert certain.values[0] == 1
    assert np.isnan(certain.values[1])


def test_a_users_operator_reduces() -> None:
    A = sparse([[0.5, None, 0.5], [None, None, None]])
    result = run("y(i) = reduce(either, j, A(i,j))", A=A, operators={"either": EITHER})
    assert entries(result) == [0.75, None]


def test_a_users_operator_computes_in_the_types_of_its_arguments() -> None:
    scaled = operator("scaled", lambda a, b: a * b + 0.1)
    x = full([1, 2], "float32")
    result = run("y(i) = scaled(x(i), 3)", x=x, operators={"scaled": scaled})
    np.testing.assert_array_equal(result.values, x.values * 3 + 0.1, strict=True)


# --- Assignments -------------------------------------------------------------------------------


def test_plain_assignment_forgets_old_entries() -> None:
    assert entries(run("y(i) = a(i)", a=sparse([None, 2]), out=full([5.0, 6.0]))) == [None, 2]


def test_adding_leaves_old_entries_where_nothing_is_added() -> None:
    a = sparse([[None, None], [1, 2], [None, None]])
    old = sparse([5, 6, None])
    assert entries(run("y(i) += A(i,j)", A=a, out=old)) == [5, 9, None]
    assert entries(run("y(i) += A(i,j)", A=a)) == [None, 3, None]


def test_other_operators_combine_with_old_entries() -> None:
    a, old = sparse([[4, 9], [1, None]]), full([3.0, 3.0])
    assert entries(run("y(i) min= A(i,j)", A=a, out=old)) == [3, 0]
    assert entries(run("y(i) max= A(i,j)", A=a, out=old)) == [9, 3]
    assert entries(run("y(i) *= a(i)", a=sparse([None, 2]), out=full([nan, 3.0]))) == [None, 6]


def test_an_old_entry_is_combined_in_the_results_type() -> None:
    result = run("y(i) += a(i)", a=full([0.1], "float32"), out=full([1.0]), dtype="float64")
    assert result.values.tolist() == [1.0 + float(np.float32(0.1))]


def test_values_are_converted_to_the_results_type() -> None:
    result = run("y(i) = a(i)", a=sparse([None, 300], "int32"), dtype="int8")
    assert entries(result) == [None, 44]
    # An entry stays one, even when the conversion makes it the fill.
    assert entries(run("y(i) = a(i)", a=sparse([None, 256], "int32"), dtype="int8")) == [None, 0]


# --- Refusals ----------------------------------------------------------------------------------


def test_too_large_a_space_is_refused_before_it_is_allocated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reference, "LIMIT", 10)
    a = full(np.ones(4))
    with pytest.raises(MemoryError, match="16 points"):
        run("y = a(i) * b(j)", a=a, b=a)


def test_statements_that_are_not_explicit_are_faults_of_ours() -> None:
    a = TensorVar("a", CSF(1), np.dtype("float64"), 0, (3,))
    y = TensorVar("y", CSF(0), np.dtype("float64"))
    assignment = parse_assignment("y = a(i)", {"a": a, "y": y})
    data, sizes = {"a": full(np.ones(3))}, extents(assignment)
    with pytest.raises(InternalError):
        evaluate(assignment, data, sizes)  # type: ignore[arg-type]
    with pytest.raises(InternalError):
        evaluate(explicit(assignment), {"a": full(np.ones(2))}, sizes)  # type: ignore[arg-type]
    with pytest.raises(ParseError):
        Reduce(replace(ops.ADD, identity=None), assignment.lhs.vars, assignment.rhs)  # type: ignore[arg-type]


def test_absent_nodes_are_absent() -> None:
    y = TensorVar("y", CSF(0), np.dtype("float64"))
    b = TensorVar("b", CSF(0), np.dtype("float64"))
    assignment = parse_assignment("y = b * b", {"y": y, "b": b})
    gone = replace(assignment, rhs=Apply(ops.MUL, (Absent(0.0, y.dtype), assignment.rhs)))
    assert entries(evaluate(gone, {"b": full(nan)}, {})) is None


# --- Storage -----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_storage_is_written_out_in_every_format(order: int) -> None:
    rng = np.random.default_rng(order)
    shape = (3, 2, 4)[:order]
    given = rng.random(shape) < 0.4
    values = np.where(given, rng.integers(0, 5, shape), 7)
    coords, data = masked_to_coo(Masked(values, given))
    for levels in product((Dense, Compressed), repeat=order):
        for modes in permutations(range(order)):
            storage = pack(coords, data, shape, Format(levels, modes), 7)
            written = to_masked(storage)
            np.testing.assert_array_equal(written.values, values)
            assert written.present.sum() == storage.nnz
            assert (written.present | ~given).all()
            if Dense not in levels and order:
                np.testing.assert_array_equal(written.present, given)


def test_entries_come_back_as_coordinates() -> None:
    coords, values = masked_to_coo(sparse([[None, 5], [0, None]]))
    assert coords.tolist() == [[0, 1], [1, 0]]
    assert values.tolist() == [5, 0]
    assert masked_to_coo(full(3))[0].shape == (0, 1)
    assert masked_to_coo(sparse(None))[0].shape == (0, 0)
