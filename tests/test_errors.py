"""One test for each error code, through the public names: code, words, caret, and a way out."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pytest

import openwork as ow
from openwork import pipeline, skeletons as sk
from openwork.errors import CODES
from openwork.program.gpu_nodes import Kernel
from openwork.program.nodes import Block
from openwork.runtime.gpu.cuda import DeviceStorage
from openwork.runtime.gpu.emulator import Emulator
from openwork.runtime.host import library
from openwork.tensor.kernel import kernel

Test = TypeVar("Test", bound=Callable[..., None])
SOURCES = Path(ow.__file__).parent
covered: list[str] = []


def provokes(code: str) -> Callable[[Test], Test]:
    """Marks the test of a code."""
    covered.append(code)
    return lambda test: test


@contextmanager
def refused(
    code: str,
    family: type[ow.OpenworkError],
    *words: str,
    at: tuple[str, str] | None = None,
    hint: str | None = None,
) -> Iterator[None]:
    """The body must raise `code` with `words` in its message.

    Args:
        code: what the error's code must be.
        family: the class that it must have.
        words: what its message must contain.
        at: a text, and the piece of it beneath which there must be carets.
        hint: what its hint must contain; None if there is no remedy to name.
    """
    with pytest.raises(ow.OpenworkError) as caught:
        yield
    error = caught.value
    assert error.code == code and isinstance(error, family)
    assert str(error).startswith(f"{code}: ")
    for word in words:
        assert word in error.message, error.message
    if at is None:
        assert error.span is None or "^" in str(error)
    else:
        text, piece = at
        carets = " " * text.rindex(piece) + "^" * len(piece)
        assert f"  {text}\n  {carets}\n" in f"{error}\n", str(error)
    if hint is None:
        assert error.hint is None
    else:
        assert hint in str(error.hint), error.hint
        assert f"hint: {error.hint}" in str(error)


def tensors(**more: Any) -> dict[str, Any]:
    """A matrix A, vectors x and y, a scalar s, and more."""
    return {
        "A": ow.tensor(np.eye(3), format=ow.CSR, name="A"),
        "x": ow.tensor(np.arange(3.0), name="x"),
        "y": ow.empty(3, name="y"),
        "s": ow.empty((), name="s"),
        **more,
    }


def compiled(text: str, **more: Any) -> ow.Kernel:
    given = tensors(**more)
    used = set(re.findall(r"\w+", text))
    return ow.parse(text, **{name: t for name, t in given.items() if name in used}).compile()


# --- Index notation ----------------------------------------------------------------------------


@provokes("E101")
def test_a_character_that_index_notation_does_not_have() -> None:
    text = "y(i) = A(i,j) $ x(j)"
    with refused("E101", ow.ParseError, "`$` is not index notation", at=(text, "$")):
        compiled(text)
    with refused("E101", ow.ParseError, "'2i' is not the name", hint="letters, digits"):
        ow.index("2i")


@provokes("E102")
def test_a_text_that_ends_too_early() -> None:
    text = "y(i) = A(i,j) * "
    with refused("E102", ow.ParseError, "expected a tensor", "found the end of the text"):
        compiled(text)
    text = "y(i) -= A(i,j) * x(j)"
    with refused("E102", ow.ParseError, "`-=` does not assign", at=(text, "-="), hint="+="):
        compiled(text)


@provokes("E103")
def test_a_name_that_was_not_given() -> None:
    text = "y(i) = A(i,j) * srqt(x(j))"
    with refused("E103", ow.ParseError, "srqt", at=(text, "srqt"), hint="mean sqrt?"):
        compiled(text)


@provokes("E104")
def test_an_access_with_too_few_variables() -> None:
    text = "y(i) = A(i) * x(i)"
    wrong = "A has 2 modes, but 1 index variable"
    with refused("E104", ow.ParseError, wrong, at=(text, "A(i)"), hint="write A(i,j)"):
        compiled(text)
    with refused("E104", ow.ParseError, "A has 2 modes", hint="write A[i, j]"):
        tensors()["A"][ow.index("i")]


@provokes("E105")
def test_a_sum_that_could_be_in_two_places() -> None:
    text = "y(i) = sqrt(A(i,j))"
    place = (text, "sqrt(A(i,j))")
    with refused("E105", ow.ParseError, "where to sum over j", at=place, hint="sum(j, sqrt"):
        compiled(text)


@provokes("E106")
def test_a_variable_that_nothing_gives_an_extent() -> None:
    text = "z(i) = s"
    z = ow.placeholder("z", 1)
    with refused("E106", ow.ParseError, "nothing gives i", at=(text, "z(i)"), hint="z a shape"):
        compiled(text, z=z)


@provokes("E107")
def test_a_result_that_is_also_an_operand() -> None:
    text = "y(i) = A(i,j) * y(j)"
    with refused("E107", ow.ParseError, "y", at=(text, "y(j)"), hint=""):
        compiled(text)
    text = "A(i,i) = x(i)"
    with refused("E107", ow.ParseError, "i twice", at=(text, "A(i,i)"), hint="different variable"):
        compiled(text)


@provokes("E108")
def test_an_operator_that_the_element_types_do_not_have() -> None:
    text = "y(i) = cast(bool, x(i)) - cast(bool, x(i))"
    place = (text, "cast(bool, x(i)) - cast(bool, x(i))")
    with refused("E108", ow.ParseError, "not defined for bool, bool", at=place, hint="cast"):
        compiled(text)
    n = ow.empty(3, dtype="int32", name="n")
    text = "n(i) = x(i)"
    with refused("E108", ow.ParseError, "n holds int32", "float64", at=(text, text), hint="cast"):
        compiled(text, n=n)


@provokes("E109")
def test_two_tensors_with_one_name() -> None:
    i = ow.index("i")
    y, one, other = ow.empty(3, name="y"), ow.tensor([1.0] * 3, name="b"), ow.tensor([2.0] * 3)
    other.rename("b")
    with refused("E109", ow.ParseError, "two different tensors are called b", hint="another name"):
        ow.assign(y[i], one[i] * other[i]).compile()


@provokes("E110")
def test_einsum_subscripts_that_do_not_fit() -> None:
    A = tensors()["A"]
    with refused("E110", ow.ParseError, "2 operands, but 1 was given", at=("ij,j", "ij,j")):
        ow.einsum("ij,j", A)
    with refused("E110", ow.ParseError, "'%'", at=("i%->i", "%"), hint="write letters"):
        ow.einsum("i%->i", A)


@provokes("E111")
def test_laws_that_are_false_or_missing() -> None:
    with refused("E111", ow.ParseError, "identity 0 of mean is false: mean(-2.5, 0) is -1.25"):
        ow.operator("mean", lambda a, b: (a + b) / 2, identity=0)
    bare = ow.operator("far", lambda a, b: abs(a - b))
    text = "y(i) = reduce(far, j, A(i,j))"
    place = (text, "reduce(far, j, A(i,j))")
    with refused("E111", ow.ParseError, "far cannot reduce", at=place, hint="associative=True"):
        compiled(text, far=bare)
    given = {name: t for name, t in tensors().items() if name in "xy"}
    with refused("E111", ow.ParseError, "no semiring min_most", hint="min_plus"):
        ow.parse("y(i) = x(i)", semiring="min_most", **given)


@provokes("E112")
def test_a_value_that_cannot_stand_in_an_expression() -> None:
    y, i = ow.empty(3, name="y"), ow.index("i")
    with refused("E112", ow.ParseError, "ndarray cannot stand in", hint="ow.tensor"):
        ow.assign(y[i], ow.sqrt(np.ones(3)))
    with refused("E112", ow.ParseError, "y can only be indexed with index variables", hint="A[i,"):
        y[i, 0]
    with refused("E112", ow.ParseError, "y is indexed with 'a'", hint="ow.indices"):
        y["a"]


# --- Shapes and arguments ----------------------------------------------------------------------


@provokes("E201")
def test_a_variable_with_two_extents() -> None:
    text = "y(i) = A(i,j) * b(j)"
    b = ow.tensor(np.ones(4), name="b")
    words = ("j has extent 3 in mode 1 of A", "but 4 in mode 0 of b")
    with refused("E201", ow.ShapeError, *words, at=(text, "b(j)"), hint="b has shape (4,)"):
        compiled(text, b=b)
    spmv = compiled("y(i) = A(i,j) * x(j)")
    with refused("E201", ow.ShapeError, "j has extent 3 in A", "mode 0 of x has extent 5"):
        spmv(x=np.ones(5))


@provokes("E202")
def test_an_argument_that_was_not_compiled_for() -> None:
    spmv = compiled("y(i) = A(i,j) * x(j)")
    with refused("E202", ow.ShapeError, "x was compiled as", "complex128", hint="astype"):
        spmv(x=np.ones(3, dtype=complex))
    with refused("E202", ow.ShapeError, "the argument has 2 modes", hint="convert"):
        spmv(x=np.ones((3, 1)))
    with refused("E202", ow.ShapeError, "out is ow.dense(1) of float32"):
        spmv(out=ow.empty(3, dtype="float32"))


@provokes("E203")
def test_an_argument_that_is_missing_or_unknown() -> None:
    text = "y(i) = A(i,j) * P(j)"
    product = compiled(text, P=ow.placeholder("P", 1))
    with refused("E203", ow.ShapeError, "P is a placeholder", hint="kernel(P=...)"):
        product()
    with refused("E203", ow.ShapeError, "no operand Q", hint="A, P"):
        product(Q=np.ones(3))


@provokes("E204")
def test_operands_that_do_not_fit_the_operator() -> None:
    A = tensors()["A"]
    with refused("E204", ow.ShapeError, "A", "(3, 3)", "(4,)"):
        A @ np.ones(4)
    with refused("E204", ow.ShapeError, "axis is 2"):
        A.sum(axis=2)


@provokes("E207")
def test_a_coordinate_beyond_its_tensor() -> None:
    x = ow.tensor(np.ones(4), name="x")
    stmt = ow.parse("y(i) = x(i+1)", y=ow.empty(4), x=x)
    with refused("E207", ow.ShapeError, "x[i+1]", "coordinate 4", "extent is 4", hint="border("):
        stmt.compile()()


@provokes("E206")
def test_a_pattern_that_is_never_settled() -> None:
    A = ow.tensor(np.eye(3), format=ow.CSR, name="A")
    C = ow.empty((3, 3), format=ow.CSR, name="C")
    stmt = ow.parse("C(i,j) += A(i,j)", A=A, C=C)
    with refused("E206", ow.ShapeError, "C keeps its old entries", hint="another result"):
        stmt.compile().symbolic()


@provokes("E205")
def test_an_impossible_shape() -> None:
    with refused("E205", ow.ShapeError, "mode 1 cannot have the extent -2"):
        ow.empty((3, -2))
    with refused("E205", ow.ShapeError, "2.5", "is not a shape"):
        ow.empty((3, 2.5))


# --- Schedules ---------------------------------------------------------------------------------


def spmv(**formats: ow.Format) -> ow.Statement:
    """y = A x, three by four."""
    A = ow.tensor(np.eye(3, 4), format=formats.get("A", ow.CSR), name="A")
    x, y = ow.tensor(np.arange(4.0), name="x"), ow.empty((3,), name="y")
    return ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x)


@provokes("E301")
def test_a_loop_that_is_not_there() -> None:
    text = "split(k,k0,k1,4)"
    with refused("E301", ow.ScheduleError, "no loop over k", at=(text, text), hint="i, j"):
        spmv().schedule(text)


@provokes("E302")
def test_a_new_loop_with_an_old_name() -> None:
    with refused("E302", ow.ScheduleError, "j is already a variable of the statement", hint="name"):
        spmv().split("i", "i0", "j", 4)


@provokes("E303")
def test_a_factor_that_is_none() -> None:
    with refused("E303", ow.ScheduleError, "the split factor is 0", hint="32"):
        spmv().split("i", "i0", "i1", 0)


@provokes("E304")
def test_loops_against_the_storage() -> None:
    with refused("E304", ow.ScheduleError, "A is stored with i outside of j", hint="keep i"):
        spmv().reorder("j", "i")


@provokes("E305")
def test_positions_of_an_operand_that_has_none_there() -> None:
    with refused("E305", ow.ScheduleError, "x is not indexed by i", hint="operand"):
        spmv().pos("i", "p", "x")


@provokes("E306")
def test_loops_that_are_not_nested_so() -> None:
    with refused("E306", ow.ScheduleError, "i is not directly inside of j", hint="reorder"):
        spmv().fuse("j", "i", "f")


@provokes("E307")
def test_iterations_that_write_to_one_entry() -> None:
    with refused("E307", ow.ScheduleError, "same entries of y", hint="Atomics"):
        spmv().parallelize("j", "CPUThread", "NoRaces")


@provokes("E308")
def test_a_loop_that_cannot_be_shared() -> None:
    A = ow.tensor(np.eye(3), format=ow.CSR, name="A")
    B, C = ow.tensor(np.eye(3), format=ow.CSR, name="B"), ow.empty((3, 3), name="C")
    stmt = ow.parse("C(i,j) = A(i,j) + B(i,j)", A=A, B=B, C=C)
    with refused("E308", ow.ScheduleError, "traverses A and B in a while loop", hint="split j"):
        stmt.parallelize("j", "CPUThread")


@provokes("E309")
def test_an_expression_that_is_not_in_the_statement() -> None:
    with refused("E309", ow.ScheduleError, "is not part of the statement", hint="A(i,j) * x(j)"):
        spmv().schedule("precompute(A(i,j) + x(j),j,jw)")


@provokes("E310")
def test_a_parallel_loop_is_left_alone() -> None:
    with refused("E310", ow.ScheduleError, "i is already parallel", hint="first"):
        spmv().parallelize("i", "CPUThread").split("i", "i0", "i1", 4)


@provokes("E311")
def test_a_text_that_is_no_command() -> None:
    text = "splat(i)"
    with refused("E311", ow.ScheduleError, "no command splat", at=(text, text), hint="split"):
        spmv().schedule(text)


@provokes("E312")
def test_a_sparse_result_out_of_order() -> None:
    A = ow.tensor(np.eye(3), format=ow.CSR, name="A")
    B = ow.tensor(np.eye(3), format=ow.CSR, name="B")
    C = ow.empty((3, 3), format=ow.CSR, name="C")
    stmt = ow.parse("C(i,j) = A(i,j) + B(i,j)", A=A, B=B, C=C)
    with refused("E312", ow.ScheduleError, "C is sparse and appended to in order", hint="dense"):
        stmt.schedule("split(j,j0,j1,2), reorder(j1,j0)")


@provokes("E313")
def test_a_result_that_cannot_be_assembled_so() -> None:
    A = ow.tensor(np.eye(3), format=ow.CSR, name="A")
    y, x = ow.empty(3, format=ow.CSF(1), name="y"), ow.tensor(np.ones(3), name="x")
    sums = ow.parse("y(j) = A(i,j) * x(i)", A=A, x=x, y=y)
    with refused("E313", ow.ScheduleError, "y cannot be assembled in pieces", hint="serial"):
        sums.assemble("count")
    with refused("E313", ow.ScheduleError, "y is dense, so there is nothing", hint="parallel"):
        spmv().schedule("assemble(count)")


@provokes("E315")
def test_loops_that_are_not_nested_as_a_gpu_is() -> None:
    with refused("E315", ow.ScheduleError, "GPUBlock is not inside of GPUThread", hint="GPUWarp"):
        spmv().schedule("parallelize(i,GPUThread,NoRaces), parallelize(j,GPUBlock,Atomics)")
    with refused("E315", ow.ScheduleError, "sum into a workspace of each", hint="precompute"):
        C, B = ow.empty((3, 8), name="C"), ow.tensor(np.ones((4, 8)), name="B")
        product = ow.parse(
            "C(i,k) = A(i,j) * B(j,k)", C=C, A=spmv().assignment.rhs.args[0].tensor.source, B=B
        )
        product.schedule("""parallelize(i,GPUWarp,NoRaces), order(i,k,j),
            parallelize(k,GPUThread,NoRaces), parallelize(j,GPUGroup,group_size=4)""")
    with refused("E315", ow.ScheduleError, "the target is a CPU", hint="cuda"):
        spmv().parallelize("i", "GPUThread").compile()


@provokes("E317")
def test_atomics_in_a_deterministic_kernel() -> None:
    A = ow.tensor(np.eye(4), format=ow.CSR, name="A")
    x, y = ow.tensor(np.ones(4), name="x"), ow.empty((4,), name="y")
    stmt = ow.recipes.position_split(ow.parse("y(i) = A(i,j) * x(j)", A=A, x=x, y=y))
    with refused("E317", ow.ScheduleError, "the loop over thread", hint="group_per_row"):
        stmt.compile("cuda", deterministic=True)


@provokes("E319")
def test_an_operator_of_too_many_sparse_operands() -> None:
    vector = ow.Format([ow.Compressed])
    x = [ow.tensor(np.eye(9)[n], format=vector, name=f"x{n}") for n in range(9)]
    (i,), y = ow.indices("i"), ow.empty((9,), name="y")
    last = ow.operator("last", lambda a, b, c, d, e, f, g, h, k: k + a * b * c * d * e * f * g * h)
    with refused("E319", ow.ScheduleError, "9 arguments that may be absent", hint="of its own"):
        ow.assign(y[i], last(*(t[i] for t in x))).compile()


@provokes("E316")
def test_a_recipe_for_another_statement() -> None:
    with refused("E316", ow.ScheduleError, "results with columns", hint="C(i,k)"):
        ow.atomic_parallel(spmv(), nnz=1)


# --- Formats and objects -----------------------------------------------------------------------


@provokes("E401")
def test_a_format_that_contradicts_itself() -> None:
    with refused("E401", ow.FormatError, "order (0, 0) does not name each of the 2 modes once"):
        ow.Format([ow.Dense, ow.Compressed], order=(0, 0))
    with refused("E401", ow.FormatError, "'Compressed' is not a level", hint="ow.Compressed"):
        ow.Format(["Compressed"])  # type: ignore[list-item]
    with refused("E401", ow.FormatError, "Bitmap is not a format", hint="ow.Format([ow.Bitmap])"):
        ow.tensor(np.arange(3.0), format=ow.Bitmap)
    with refused("E401", ow.FormatError, "only be the outermost", hint="Permuted"):
        ow.Format([ow.Dense, ow.Permuted])
    with refused("E401", ow.FormatError, "COO is not a format", hint="ow.COO(2)"):
        ow.empty((3, 4), format=ow.COO)


@provokes("E402")
def test_an_element_type_that_does_not_exist() -> None:
    with refused("E402", ow.FormatError, "no element type float128", hint="float16"):
        ow.empty(3, dtype="float128")


@provokes("E403")
def test_a_text_that_is_not_a_format() -> None:
    text = "Dense(0), Squeezed(1)"
    place = (text, " Squeezed(1)")
    with refused("E403", ow.FormatError, "not a level", at=place, hint="Compressed"):
        ow.empty((3, 3), format=text)


@provokes("E404")
def test_a_format_that_the_foreign_library_cannot_hold() -> None:
    with refused("E404", ow.FormatError, "C has 3 modes", hint="to_coo"):
        ow.empty((2, 2, 2), format=ow.CSF(3), name="C").to_scipy()


@provokes("E405")
def test_an_object_that_cannot_become_a_tensor() -> None:
    with refused("E405", ow.FormatError, "dict cannot become a tensor", hint="NumPy arrays"):
        ow.tensor({"rows": 3})


@provokes("E406")
def test_entries_that_a_level_cannot_hold() -> None:
    format = ow.Format([ow.Compressed, ow.Singleton])
    with refused("E406", ow.FormatError, "one coordinate for each parent", hint="unique=False"):
        ow.tensor([[1, 2], [0, 3]], format=format)


# --- Data --------------------------------------------------------------------------------------


def csr(pos: Any, crd: Any, values: Any) -> ow.Tensor:
    """A 2x3 matrix A of these arrays."""
    return ow.from_arrays("CSR", (2, 3), [None, (pos, crd)], values, name="A")


@provokes("E501")
def test_an_index_array_of_the_wrong_length_or_type() -> None:
    with refused("E501", ow.DataError, "A.levels[1].pos has 2 entries, but needs 3"):
        csr([0, 1], [0], [1.0])
    with refused("E501", ow.DataError, "A.levels[1].crd", "float64", "of integers"):
        csr([0, 1, 2], [0.0, 1.0], [1.0, 2.0])


@provokes("E502")
def test_positions_that_fall() -> None:
    with refused("E502", ow.DataError, "A.levels[1].pos[2] is 1"):
        csr([0, 2, 1], [0, 1], [1.0, 2.0])
    with refused("E502", ow.DataError, "A.levels[1].pos[0] is 1"):
        csr([1, 1, 2], [0, 1], [1.0, 2.0])


@provokes("E503")
def test_a_coordinate_outside_its_mode() -> None:
    with refused("E503", ow.DataError, "A.levels[1].crd[1] is 3", "extent 3", hint="0"):
        csr([0, 1, 2], [0, 3], [1.0, 2.0])
    with refused("E503", ow.DataError, "coords[0, 1] is -1", hint="count from 0"):
        ow.tensor(([[0, -1]], [1.0, 2.0]), shape=(3,))


@provokes("E504")
def test_coordinates_out_of_order() -> None:
    with refused("E504", ow.DataError, "A.levels[1].crd[1] is 0", hint=""):
        csr([0, 2, 2], [1, 0], [1.0, 2.0])
    with refused("E504", ow.DataError, "A.levels[1].crd[1] is 1", hint=""):
        csr([0, 2, 2], [1, 1], [1.0, 2.0])


@provokes("E505")
def test_values_that_do_not_fit_the_positions() -> None:
    with refused("E505", ow.DataError, "A.values has 3 elements, but the levels have 2"):
        csr([0, 1, 2], [0, 1], [1.0, 2.0, 3.0])


@provokes("E506")
def test_a_file_that_is_not_what_its_name_says(tmp_path: Path) -> None:
    with refused("E506", ow.DataError, "cannot read none.mtx", "No such file"):
        ow.read(tmp_path / "none.mtx")
    (tmp_path / "wrong.tns").write_text("1 1 one\n")
    with refused("E506", ow.DataError, "cannot read wrong.tns", "one"):
        ow.read(tmp_path / "wrong.tns")
    with refused("E506", ow.DataError, "a.xlsx", hint=".mtx"):
        ow.read("a.xlsx")


# --- Compilers, caches, targets ----------------------------------------------------------------


@provokes("E507")
def test_data_that_breaks_a_bound() -> None:
    kernel = spmv().bound("i", "ib", 5, ow.BoundType.MaxExact).compile()
    with refused("E507", ow.DataError, "bound(i, ib, 5, MaxExact) does not hold", hint="bound"):
        kernel()


@provokes("E509")
def test_a_pattern_that_has_changed() -> None:
    i, j = ow.indices("i j")
    A = ow.tensor(np.eye(3), format=ow.CSR, name="A")
    B = ow.tensor(np.tri(3), format=ow.CSR, name="B")
    C = ow.empty((3, 3), format=ow.CSR, name="C")
    plan = ow.assign(C[i, j], A[i, j] + B[i, j]).compile().symbolic()
    with refused("E509", ow.DataError, "A has another pattern", hint="kernel.symbolic"):
        plan(A=B)


@provokes("E508")
def test_split_points_that_do_not_cut() -> None:
    points = lambda tensors, parts: [0, 2, 1]  # noqa: E731
    kernel = spmv().divide("i", "i0", "i1", 2, split_points=points).compile()
    with refused("E508", ow.DataError, "split_points of i returned [0 2 1]", hint="3 increasing"):
        kernel()


@provokes("E510")
def test_a_kind_of_file_that_needs_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "a.bsp.h5").write_bytes(b"")
    with refused("E510", ow.DataError, "need the package h5py", hint="openwork[hdf5]"):
        ow.read(tmp_path / "a.bsp.h5")
    with refused("E510", ow.DataError, "need the package h5py", hint="openwork[hdf5]"):
        ow.write(tmp_path / "a.bsp.h5", ow.tensor([1.0]))


@provokes("E511")
def test_a_tensor_on_a_gpu_for_a_kernel_on_a_cpu() -> None:
    storage = ow.tensor(np.ones(3), name="x").storage
    there = DeviceStorage(
        storage.shape, storage.format, storage.dtype, storage.levels, storage.values
    )
    with refused("E511", ow.DataError, "a CPU kernel", hint='to("cpu")'):
        _ = there.pointers


@provokes("E515")
def test_an_integer_to_a_negative_power() -> None:
    n = ow.tensor([2, 3, -1], name="n")
    with refused("E515", ow.DataError, "negative power", hint="float64"):
        n**n


@provokes("E517")
def test_a_triangle_with_a_zero_on_its_diagonal() -> None:
    A = ow.tensor([[1.0, 0.0], [2.0, 0.0]], format="CSR", name="A")
    with refused("E517", ow.DataError, "(1, 1)", "of A", hint="unit_diagonal"):
        ow.solve_triangular(A, [1.0, 2.0])


@provokes("E601")
def test_a_compiler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENWORK_CC", "/no/such/compiler")
    with refused("E601", ow.ToolchainError, "/no/such/compiler", hint="correct OPENWORK_CC"):
        compiled("y(i) = 2 * A(i,j) * x(j)")


@pytest.mark.needs_cc
@provokes("E602")
def test_code_that_the_compiler_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "render", lambda *_: "int32_t kernel(void) { return no C; }")
    with refused("E602", ow.ToolchainError, "refused the generated code", "error", hint="report"):
        compiled("y(i) = 3 * A(i,j) * x(j)")


@pytest.mark.needs_cc
@pytest.mark.optimized  # in a file
@provokes("E603")
def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*args: object, **kwargs: object) -> str:
        raise OSError(28, "No space left on device")

    compiled("y(i) = A(i,j) * x(j)")  # the compiler is known by now
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("OPENWORK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.mkdtemp", full)
    with (
        pytest.warns(RuntimeWarning, match="E603: the kernel cache .* is not used"),
        refused("E603", ow.ToolchainError, "No space left", hint="OPENWORK_CACHE_DIR"),
    ):
        compiled("y(i) = 4 * A(i,j) * x(j)")


@pytest.mark.needs_cc
@pytest.mark.optimized  # in a file
@provokes("E604")
def test_a_kernel_that_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise OSError(f"{path}: failed to map segment")

    monkeypatch.setattr(library.ctypes, "CDLL", refuse)
    with refused("E604", ow.ToolchainError, "does not load", "segment", hint="cache clear"):
        compiled("y(i) = 5 * A(i,j) * x(j)")


@provokes("E605")
def test_a_number_of_threads_that_is_none() -> None:
    with refused("E605", ow.ToolchainError, "given 0", "positive integer", hint="use 1"):
        ow.set_num_threads(0)


@provokes("E606")
def test_a_target_without_a_back_end() -> None:
    stmt = ow.parse("y(i) = x(i)", x=ow.tensor([1.0], name="x"), y=ow.empty(1, name="y"))
    with refused("E606", ow.ToolchainError, "no target 'abacus'", hint="cpu"):
        stmt.compile(target="abacus")


@pytest.mark.needs_cc
@provokes("E607")
def test_no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with refused("E607", ow.ToolchainError, "CuPy", hint="openwork[cuda]"):
        spmv().compile(target="cuda")()


@provokes("E608")
def test_a_kernel_that_fails_on_the_gpu() -> None:
    kernel = Kernel("k", Block(()), 1, 2000, (None, None))
    with refused("E608", ow.ToolchainError, "cannot be launched", hint="report"):
        Emulator().launch(_failing("a block that cannot be launched"), (1, 1), kernel, [], False)


def _failing(message: str) -> Any:
    library = SimpleNamespace(emulated_message=lambda: message.encode())
    return library, lambda *args: 1


@provokes("E609")
def test_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with refused("E609", ow.ToolchainError, "torch is not installed", hint="openwork[torch]"):
        ow.tensor([1.0]).to_torch()


@provokes("E900")
def test_a_kernel_that_computes_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernel.evaluate

    def wrong(*args: Any) -> Any:
        answer = right(*args)
        answer.values[0] += 1
        return answer

    monkeypatch.setenv("OPENWORK_CHECK", "1")
    spmv = compiled("y(i) = A(i,j) * x(j)")
    assert spmv().to_numpy().tolist() == [0, 1, 2]
    monkeypatch.setattr(kernel, "evaluate", wrong)
    with refused("E900", ow.InternalError, "y(i) = ", "disagrees with the reference"):
        spmv()


# --- Programs of patterns ----------------------------------------------------------------------


@provokes("E516")
def test_data_that_breaks_an_assumption_of_a_type() -> None:
    rows = sk.parse(
        "nFun n. fun o: [int]_{n + 1}. fun v: [i -> [float]_{toNat(o@(i + 1) - o@i)}]_n. "
        "v :>> map(reduce(+, 0))"
    ).compile()
    values = np.ones(3, "float32")
    with refused("E516", ow.DataError, "row 1 of v has -1 elements", hint="must not fall"):
        rows(o=np.array([0, 2, 1, 3], "int32"), v=values)
    with refused("E516", ow.DataError, "v has 3 elements", "add up to 4", hint="without gaps"):
        rows(o=np.array([0, 2, 4], "int32"), v=values)
    with refused("E516", ow.DataError, "o@0 is 1", hint="subtract"):
        rows(o=np.array([1, 2, 4], "int32"), v=values)


@provokes("E701")
def test_a_text_that_is_no_program_of_patterns() -> None:
    text = "nFun n. fun x: [float]_n. x :>> map(fun(e => e *)) :>> reduce(+, 0)"
    with refused("E701", ow.PatternError, "expected an expression", "found ')'", at=None):
        sk.parse(text)
    with refused("E701", ow.PatternError, "expected a type", hint="float32"):
        sk.parse("fun x: number. x")


@provokes("E702")
def test_a_name_that_a_program_does_not_define() -> None:
    with refused("E702", ow.PatternError, "y is not defined", hint="defined are: x"):
        sk.parse("nFun n. fun x: [float]_n. zip(x, y) :>> map(*)")
    with refused("E702", ow.PatternError, "m is no natural", hint="nFun m"):
        sk.parse("nFun n. fun x: [float]_m. x")


@provokes("E703")
def test_types_that_do_not_agree() -> None:
    with refused("E703", ow.PatternError, "float32 has no part .1"):
        sk.parse("nFun n. fun x: [float]_n. x :>> map(fun(e => e.1))")


@provokes("E704")
def test_lengths_that_do_not_agree() -> None:
    text = "nFun n. nFun m. fun x: [float]_n. fun y: [int]_m. zip(x, y)"
    words = ("[float32]_n and [int32]_m", "n is not m, they differ by n - m")
    with refused("E704", ow.PatternError, *words, hint="until the lengths agree"):
        sk.parse(text)


@provokes("E705")
def test_an_index_outside_its_array() -> None:
    with refused("E705", ow.PatternError, "index n is below the length n", hint="below"):
        sk.parse("nFun n. fun x: [float]_n. x@n")


@provokes("E706")
def test_a_function_where_a_value_is_needed() -> None:
    n = sk.nats("n")
    with refused("E706", ow.PatternError, "a function stands where a value is needed"):
        sk.program({"x": sk.array(n, sk.float32)}, lambda x: sk.reduce(sk.add, 0))
    with refused("E706", ow.PatternError, "no target 'gpu'", hint="cuda-emulated"):
        sk.program({"x": sk.array(n, sk.float32)}, lambda x: x).compile(target="gpu")


@provokes("E707")
def test_a_natural_that_is_none() -> None:
    with refused("E707", ow.PatternError, "toNat needs an integer, not float32"):
        sk.parse("nFun n. fun x: [float]_n. fun y: [i -> [float]_{toNat(x@i)}]_n. y")


@provokes("E708")
def test_parallel_maps_that_do_not_nest() -> None:
    program = sk.parse("nFun n. fun x: [float]_n. x :>> mapThreads(fun(e => e + 1))")
    with refused("E708", ow.PatternError, "a GPU has no mapThreads", hint="mapGlobal"):
        program.compile(target="cuda-emulated")


@provokes("E709")
def test_a_program_that_is_no_statement() -> None:
    program = sk.parse("nFun n. fun x: [float]_n. x :>> slide(2) :>> map(reduce(+, 0))")
    with refused("E709", ow.PatternError, "slide(2, 1) is nothing that index notation has"):
        program.to_statement()
    with refused("E709", ow.PatternError, "the type of no format", hint="offsets or lengths"):
        sk.format_of(sk.pair(sk.int32, sk.int32))


@provokes("E710")
def test_a_pattern_that_cannot_be_compiled() -> None:
    with refused("E710", ow.PatternError, "reduce combines numbers", hint="transpose"):
        sk.parse("nFun n. fun x: [[float]_n]_n. x :>> reduceSeq(fun(a => fun(b => a)), 0)")


# --- All of them -------------------------------------------------------------------------------


def test_every_code_is_provoked_here_once() -> None:
    assert sorted(covered) == sorted(CODES)


def test_no_other_code_is_raised() -> None:
    raised = {
        code
        for file in SOURCES.rglob("*.py")
        for code in re.findall(r'(?:code=|add\(\s*)"(E\d{3})"', file.read_text())
    }
    assert raised - set(CODES) == set()


def test_families_are_told_apart_by_the_first_digit() -> None:
    families = {
        "1": ow.ParseError, "2": ow.ShapeError, "3": ow.ScheduleError, "4": ow.FormatError,
        "5": ow.DataError, "6": ow.ToolchainError, "7": ow.PatternError, "9": ow.InternalError,
    }  # fmt: skip
    for code in CODES:
        assert families[code[1]].code == f"E{code[1]}00"
        assert issubclass(families[code[1]], ow.OpenworkError)
