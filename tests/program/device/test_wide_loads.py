"""Wide loads and stores: neighbours that a thread takes at once, where a vector may begin."""

from __future__ import annotations

import pytest
from tests.program.small import COUNT, CRD, SUMS, VALS, I, X, Y, add, written_out

from openwork.algebra import operators as ops
from openwork.program import nodes as p
from openwork.program.device.wide_loads import LoadVector, MakeVector, StoreVector, with_wide_loads
from openwork.program.gpu_nodes import DeviceProgram, Kernel, Launch
from openwork.tree import Node, walk

AT = p.Name("at")
SINGLE = p.Array("y_vals", "float32", p.Role.VALUE, "y")


def widened(*body: p.Stmt) -> p.Block:
    """`body`, where A and x are operands, and no array is shared."""
    arguments = tuple(p.Argument(a, a.name, -1, "values", "operand") for a in (VALS, X))
    kernel = Kernel("kernel", p.block(*body), 1, 32, (p.Value(1), None))
    host = p.block(Launch(kernel.name))
    device = DeviceProgram(p.Program(arguments, (), host), host, (kernel,))
    return with_wide_loads(device).kernels[0].body


def found(body: p.Block, *kinds: type[Node]) -> list[Node]:
    return [n for n in walk(body) if isinstance(n, kinds)]


def gather(index: p.Expr, count: int = 2) -> p.For:
    return written_out(AT, count, p.Store(SUMS, AT, VALS[index], ops.ADD))


@pytest.mark.parametrize("index", [AT, I * 2 + AT, I * 8 + 4 + AT, COUNT + AT])
def test_neighbours_are_loaded_at_once(index: p.Expr) -> None:
    known = p.Declare(COUNT, I * 4, fixed=True)
    (load,) = found(widened(known, gather(index)), LoadVector)
    assert isinstance(load, LoadVector)
    assert (load.array, load.count) == (VALS, 2)
    assert p.arithmetic("+", load.index, AT) == index


@pytest.mark.parametrize(
    ("why", "index"),
    [
        ("it begins at any element", I + AT),
        ("it begins at an odd one", I * 2 + 1 + AT),
        ("a multiple of three is none of two", I * 3 + AT),
        ("elements lie apart", I * 2 + AT * 2),
        ("its place is looked up", p.Convert(CRD[AT], "int64")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_vector_is_loaded_one_by_one(why: str, index: p.Expr) -> None:
    assert widened(gather(index)) == p.block(gather(index))


def test_a_vector_has_16_bytes_at_most() -> None:
    """Four doubles from an even element on are two of them."""
    assert found(widened(gather(I * 2 + AT, count=4)), LoadVector)
    assert not found(widened(gather(I + AT, count=4)), LoadVector)


def test_three_elements_are_no_vector() -> None:
    assert not found(widened(gather(I * 3 + AT, count=3)), LoadVector)


def test_what_the_loop_writes_is_loaded_one_by_one() -> None:
    """An element may have been written just before."""
    body = written_out(AT, 2, p.Store(VALS, I * 2 + AT, add(VALS[I * 2 + AT], X[AT])))
    loads = {n.array for n in found(widened(body), LoadVector) if isinstance(n, LoadVector)}
    assert loads == {X}


def test_results_are_loaded_one_by_one() -> None:
    body = written_out(AT, 2, p.Store(SUMS, AT, Y[I * 2 + AT]))
    assert not found(widened(body), LoadVector)


def test_neighbours_are_stored_at_once() -> None:
    body = written_out(AT, 4, p.Store(SINGLE, I * 4 + AT, p.Value(1.0, "float32")))
    made, store = found(widened(body), MakeVector, StoreVector)
    assert isinstance(made, MakeVector) and isinstance(store, StoreVector)
    assert (store.array, store.index, store.count, store.added) == (SINGLE, I * 4, 4, False)


def test_neighbours_are_added_to_at_once_where_the_hardware_can() -> None:
    one = p.Value(1.0, "float32")
    sums = written_out(AT, 4, p.Store(SINGLE, I * 4 + AT, one, ops.ADD, atomic=True))
    (store,) = found(widened(sums), StoreVector)
    assert isinstance(store, StoreVector) and store.added
    for op in (ops.MUL, ops.MIN):
        other = written_out(AT, 4, p.Store(SINGLE, I * 4 + AT, one, op, atomic=True))
        assert not found(widened(other), StoreVector)
    plain = written_out(AT, 4, p.Store(SINGLE, I * 4 + AT, one, ops.ADD))
    assert not found(widened(plain), StoreVector)
