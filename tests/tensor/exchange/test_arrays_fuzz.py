"""Arrays from outside with one thing changed: each is refused, or computed with as NumPy would.

Valid arrays of every format are packed, one element, length or extent is changed, and they come in
through one of the doors: `from_arrays`, a pickle, a file. A tensor that is accepted must have its
entries within the shape and none twice, and kernels of several shapes must agree with NumPy on it.
Whatever happens, the arrays that were given stay as they were.

`OPENWORK_FUZZ_CASES` says how many cases, `OPENWORK_FUZZ_SEED` which. `make fuzz-arrays` runs them
above the allocator that watches its blocks: what is written out of bounds ends the process, and
`build/arrays-fuzz.*.txt` name the last case of each chunk.
"""

from __future__ import annotations

import io
import os
import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from tests.random.generate import unusual_format
from tests.random.test_property import Batch
from tests.test_docs import examples
from tests.whole.test_formats_in_statements import FORMATS

import openwork as ow
from openwork.errors import InternalError, OpenworkError
from openwork.runtime.host import launch
from openwork.runtime.host.threads import set_num_threads
from openwork.runtime.storage import Storage
from openwork.tensor.convert.pack import pack
from openwork.tensor.exchange.facts import facts_for
from openwork.tensor.tensor import Tensor

pytestmark = [pytest.mark.needs_cc, pytest.mark.fuzz]

CASES = int(os.environ.get("OPENWORK_FUZZ_CASES", "500"))
SEED = int(os.environ.get("OPENWORK_FUZZ_SEED", "0"))
CHUNKS = 10
DRAWN = 60  # random formats beside those that have names
LEVELS_PAGE = Path(__file__).resolve().parents[3] / "docs" / "levels.md"
LOG = Path("build") / "arrays-fuzz.txt"

# Of each statement A is what came in; the answer is NumPy's on the entries of A written out.
Answer = Callable[[Any, dict[str, Any]], Any]
STATEMENTS: dict[int, dict[str, Answer]] = {
    1: {
        "s = A(i) * x(i)": lambda a, t: a @ t["x"],
        "D(i) = A(i) + B(i)": lambda a, t: a + t["B"],
    },
    2: {
        "y(i) = A(i,j) * x(j)": lambda a, t: a @ t["x"],
        "v(j) = A(i,j) * w(i)": lambda a, t: t["w"] @ a,
        "C(i,j) = A(i,j) + B(i,j)": lambda a, t: a + t["B"],
        "D(i,j) = A(i,j) * B(i,j)": lambda a, t: a * t["B"],
        "C(i,j) = 3 * A(i,j)": lambda a, t: 3 * a,
    },
    3: {
        "D(i,k) = A(i,j,k) * x(j)": lambda a, t: np.einsum("ijk,j->ik", a, t["x"]),
        "E(i,j,k) = A(i,j,k) + F(i,j,k)": lambda a, t: a + t["F"],
    },
}


@dataclass(frozen=True)
class Arrays:
    """What a user or a file might hand in."""

    format: ow.Format
    shape: tuple[int, ...]
    levels: list[dict[str, Any]]
    values: Any
    dtype: str

    def members(self) -> Iterator[Any]:
        for level in self.levels:
            yield from level.values()
        yield self.values


# -- drawing --------------------------------------------------------------------------------------


def careless(level: Any) -> Any:
    """A level of a user's who took the formulas of another, and checks nothing himself."""
    names = {"name": f"Careless{level.name}", "faults": lambda *_: iter(())}
    made = dataclass(frozen=True, repr=False)(type(names["name"], (type(level),), names))
    return made(**{f.name: getattr(level, f.name) for f in fields(level)})


@cache
def formats() -> list[ow.Format]:
    """Every format that has a name, a level of a user's own, and some drawn at random."""
    page = LEVELS_PAGE.read_text("utf-8")
    code = next(e.code for e in examples(page) if "class RunLength" in e.code)
    names: dict[str, Any] = {"np": np, "ow": ow, "__name__": "run_length"}
    exec(code, names)  # noqa: S102 - our own page
    own = names["RunLength"]
    found = [
        *FORMATS,
        *(ow.dense(1), ow.dense(2), ow.dense(2, (1, 0)), ow.CSF(1), ow.CSF(3), ow.COO(3), ow.DCSC),
        ow.CSB(2, 3),
        ow.SELL(2),
        ow.Format([ow.Dense, ow.Compressed(ordered=False)]),
        ow.Format([ow.Compressed(ordered=False)]),
        ow.Format([ow.Compressed, ow.Singleton]),
        ow.Format([ow.Dense, ow.Singleton]),
        ow.Format([ow.Dense, ow.Hashed]),
        ow.Format([ow.Dense, ow.Compressed(unique=False)]),
        ow.Format([ow.Compressed(unique=False), ow.Dense]),
        ow.Format([ow.Compressed(unique=False), ow.Compressed]),
        ow.Format([ow.Dense, ow.Dense, ow.Compressed]),
        ow.Format([ow.Dense, ow.Compressed, ow.Compressed, ow.Compressed], (0, 1, 0, 1), (2, 3)),
        ow.Format([ow.Dense, own]),
        ow.Format([own, own]),
        *(
            ow.Format([ow.Dense, careless(level)])
            for level in (ow.Compressed, ow.Lengths, ow.Padded, ow.Sliced(2), ow.Range, ow.Bitmap)
        ),
        ow.Format([ow.Dense, careless(ow.Diagonals)]),
        ow.Format([careless(ow.Permuted), ow.Compressed]),
        ow.Format([ow.Dense, careless(own)]),
        ow.Format([ow.Compressed(unique=False), careless(ow.Singleton)]),
        ow.Format([ow.Compressed(unique=False, ordered=False), ow.Singleton(ordered=False)]),
        ow.Format([ow.Dense, own, ow.Dense, ow.Dense], (0, 1, 0, 1), (2, 2)),
    ]
    rng = random.Random("formats")
    for _ in range(DRAWN):
        modes = list(range(rng.choice((1, 2, 2, 2, 3))))
        rng.shuffle(modes)
        found.append(unusual_format(modes, rng))
    return list(dict.fromkeys(found))


def valid(rng: random.Random) -> Arrays:
    """Arrays that hold a small tensor; in a type that its kernels are compiled for already."""
    format = rng.choice(formats())
    dtype = rng.choice(("float64", "float64", "float64", "bool"))
    while True:
        shape = tuple(rng.choice((0, 1, 2, 3, 4, 5, 7)) for _ in range(format.ndim))
        numbers = np.random.default_rng(rng.randrange(2**32))
        density = rng.choice((0.0, 0.2, 0.5, 1.0))
        data = np.where(numbers.random(shape) < density, numbers.integers(1, 9, shape), 0)
        coords = np.array(np.nonzero(data)).reshape(len(shape), -1)
        try:
            storage = pack(coords, data[tuple(coords)].astype(dtype), shape, format)
        except OpenworkError:
            continue  # a Singleton level takes one entry for each parent, and no more
        levels = [{k: np.array(a) for k, a in level.items()} for level in storage.levels]
        return Arrays(format, shape, levels, np.array(storage.values), dtype)


def changed(given: Arrays, rng: random.Random) -> Arrays:
    """`given` with one element of one array, a length, or an extent changed."""
    shape, levels = list(given.shape), [dict(level) for level in given.levels]
    values = given.values
    places = [(n, name) for n, level in enumerate(levels) for name in level]
    kind = rng.random()
    if kind < 0.1 and shape:
        mode = rng.randrange(len(shape))
        shape[mode] = max(0, shape[mode] + rng.choice((-1, 1, 2)))
    elif kind < 0.2 or not places:
        values = _array_changed(values, rng, given)
    else:
        n, name = rng.choice(places)
        levels[n][name] = _array_changed(levels[n][name], rng, given)
    return Arrays(given.format, tuple(shape), levels, values, given.dtype)


def _array_changed(array: Any, rng: random.Random, given: Arrays) -> Any:
    made, kind = np.array(array), rng.random()
    if kind < 0.05:
        return made[:-1]
    if kind < 0.1:
        return np.concatenate([made, made[-1:]])
    if not made.size:
        return made
    at = rng.randrange(made.size)
    if kind < 0.25:
        other = rng.randrange(made.size)
        made[at], made[other] = made[other].copy(), made[at].copy()
        return made
    if made.dtype == bool:
        raw = made.view(np.uint8)
        raw[at] = rng.choice((0, 1, 2, 255))
        return made
    near = int(made[at]) if made.dtype.kind in "iu" else 0
    extents = [e + d for e in (*given.shape, len(given.values)) for d in (-1, 0, 1)]
    far = [2**7 - 1, 2**31 - 1, -(2**31), 2**62, -(2**62), 2**63 - 1]
    choices = [near - 1, near + 1, near + 1, near + 2, -1, 0, 1, *extents, rng.choice(far)]
    with np.errstate(all="ignore"):
        made[at] = np.array(rng.choice(choices)).astype(made.dtype)
    return made


# -- doors ----------------------------------------------------------------------------------------


def by_arrays(given: Arrays) -> Tensor:
    return ow.from_arrays(given.format, given.shape, given.levels, given.values, name="A")


def by_sharing(given: Arrays) -> Tensor:
    return ow.from_arrays(given.format, given.shape, given.levels, given.values, name="A")


def _unchecked(given: Arrays) -> Tensor:
    dtype = np.dtype(given.dtype)
    levels = tuple(given.levels)
    storage = Storage(given.shape, given.format, dtype, levels, given.values)
    return Tensor("A", given.shape, facts_for(given.format, dtype), storage)


def by_pickle(given: Arrays) -> Tensor:
    """A pickle that somebody tampered with."""
    made: Tensor = pickle.loads(pickle.dumps(_unchecked(given)))  # noqa: S301 - our own
    return made


def by_buffers(given: Arrays) -> Tensor:
    """A pickle whose arrays are buffers of somebody else."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(_unchecked(given), protocol=5, buffer_callback=buffers.append)
    made: Tensor = pickle.loads(data, buffers=buffers)  # noqa: S301 - our own
    return made


def by_archive(given: Arrays) -> Tensor:
    """An archive that somebody made by hand."""
    stream = io.BytesIO()
    arrays: dict[str, Any] = {
        f"level{n}.{name}": array
        for n, level in enumerate(given.levels)
        for name, array in level.items()
    }
    np.savez(
        stream,
        openwork=np.int64(1),
        levels=np.array(str(given.format)),
        shape=np.array(given.shape, dtype=np.int64),
        fill=np.zeros((), given.dtype),
        values=given.values,
        **arrays,
    )
    file = Path(os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]).name or "case"
    path = Path("build") / f"{abs(hash(file))}-{os.getpid()}.npz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(stream.getvalue())
    try:
        return ow.read(path, name="A")
    finally:
        path.unlink()


def by_scipy(given: Arrays) -> Tensor:
    """A matrix of SciPy's with these very arrays, which SciPy has not seen."""
    tiles = given.format.tiles
    made: Any = sparse.csr_array((1, 1))
    if given.format == ow.CSC:
        made = sparse.csc_array((1, 1))
    elif all(tiles):
        made = sparse.bsr_array(np.ones(tiles), blocksize=tiles)
    arrays = given.levels[1]
    made.indptr, made.indices, made.data = arrays["pos"], arrays["crd"], given.values
    made._shape = given.shape
    if all(tiles):
        whole = len(given.values) // prod(tiles)
        made.data = given.values[: whole * prod(tiles)].reshape(whole, *tiles)
    return ow.tensor(made, name="A")


DOORS = (by_arrays, by_arrays, by_arrays, by_sharing, by_pickle, by_buffers, by_archive)
OF_SCIPY = (ow.CSR, ow.CSC, ow.BSR(3, 2), ow.BSR(2, 2))


# -- what may come of it --------------------------------------------------------------------------


class Kernels:
    """Kernels by statement, format and element type; those of a chunk are compiled in one go."""

    def __init__(self) -> None:
        self._batch, self._known = Batch(), dict[Any, Any]()

    def of(self, tensor: Tensor, text: str, operands: dict[str, Tensor]) -> Any:
        key = (text, tensor.format, tensor.dtype)
        if key not in self._known:
            named = {k: v for k, v in operands.items() if k in text}
            statement = ow.parse(text, A=tensor, **named)
            self._known[key] = statement.compile(loader=self._batch)
        return self._known[key]


KERNELS = Kernels()


def operands(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> dict[str, Tensor]:
    """The other tensors of the statements, for an A of this shape."""
    rng = np.random.default_rng(seed)
    result = np.result_type(dtype, float)

    def some(*extents: int) -> Any:
        return rng.integers(1, 9, extents).astype(float)

    made: dict[str, Any] = {"s": ow.empty((), dtype=result, name="s")}
    if len(shape) == 1:
        made |= {"x": some(*shape), "B": some(*shape), "D": np.zeros(shape)}
    elif len(shape) == 2:
        m, n = shape
        sparse = np.where(rng.random(shape) < 0.4, some(*shape), 0)
        made |= {"x": some(n), "w": some(m), "y": np.zeros(m), "v": np.zeros(n)}
        made |= {"B": ow.tensor(sparse, format=ow.CSR, name="B"), "D": np.zeros(shape)}
        made["C"] = ow.empty(shape, format=ow.CSR, name="C", dtype=result)
    else:
        sparse = np.where(rng.random(shape) < 0.4, some(*shape), 0)
        made |= {"x": some(shape[1]), "D": np.zeros((shape[0], shape[2])), "E": np.zeros(shape)}
        made["F"] = ow.tensor(sparse, format=ow.CSF(3), name="F")
    return {k: v if isinstance(v, Tensor) else ow.tensor(v, name=k) for k, v in made.items()}


@dataclass
class Case:
    """A tensor that was accepted, and the kernels that it is given to."""

    number: int
    given: Arrays
    before: list[Any]
    tensor: Tensor
    operands: dict[str, Tensor]
    kernels: dict[str, Any]


def admit(number: int) -> Case | None:
    """Draw a case and hand its arrays in; None if they are refused."""
    rng = random.Random(number)
    given = valid(rng)
    if rng.random() < 0.9:
        given = changed(given, rng)
    door = rng.choice(DOORS)
    own = any(not type(level).__module__.startswith("openwork") for level in given.format.levels)
    if own and door not in (by_arrays, by_sharing):
        door = by_arrays  # a level of the user's own has no name in files
    if given.format in OF_SCIPY and rng.random() < 0.4:
        door = by_scipy
    before = [np.array(array) for array in given.members()]
    try:
        tensor = door(given)
    except InternalError:
        raise
    except (OpenworkError, MemoryError):
        return None
    finally:
        assert_untouched(given, before)
    others = operands(tensor.shape, tensor.dtype, number)
    # Two for each format and type, so that cases share kernels; all are asked for in the end.
    few = random.Random(f"{tensor.format} of {tensor.dtype}")
    texts = few.sample(list(STATEMENTS[tensor.order]), 2)
    kernels = {text: KERNELS.of(tensor, text, others) for text in texts}
    return Case(number, given, before, tensor, others, kernels)


def compute(case: Case) -> None:
    """Fail unless kernels and conversions make of the tensor what NumPy makes of its entries."""
    tensor = case.tensor
    check_entries(tensor)
    written = tensor.to_numpy().astype(np.result_type(tensor.dtype, float))
    arrays = {name: other.to_numpy() for name, other in case.operands.items()}
    for text, kernel in case.kernels.items():
        used = {k: v for k, v in case.operands.items() if k in text.split("=")[1]}
        result = kernel(A=tensor, **used).to_numpy()
        expected = STATEMENTS[tensor.order][text](written, arrays)
        np.testing.assert_allclose(result, expected, rtol=1e-12, err_msg=text)
    for target in (ow.dense, ow.CSF):
        converted = tensor.to(target(tensor.order)).to_numpy()
        np.testing.assert_array_equal(converted, tensor.to_numpy())
    assert_untouched(case.given, case.before)


def check_entries(tensor: Tensor) -> None:
    """Every entry lies within the shape, and none is there twice."""
    coords, values = tensor.to_coo()
    assert coords.shape == (tensor.order, len(values)) and tensor.nnz == len(values)
    assert (coords >= 0).all() and (coords < np.array(tensor.shape)[:, None]).all()
    assert len({tuple(entry) for entry in coords.T.tolist()}) == len(values)


def assert_untouched(given: Arrays, before: list[Any]) -> None:
    for now, then in zip(given.members(), before, strict=True):
        assert now.dtype == then.dtype and now.tobytes() == then.tobytes()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_changed_arrays(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every other chunk on several threads, however little there is to share out."""
    monkeypatch.setattr(launch, "SERIAL_BELOW", -1)
    numbers = range(SEED + chunk, SEED + CASES, CHUNKS)
    number, cases = -1, list[Case]()
    LOG.parent.mkdir(exist_ok=True)
    set_num_threads(3 if chunk % 2 else 1)
    try:
        with LOG.with_suffix(f".{chunk}.txt").open("w") as log:
            for number in numbers:
                case = admit(number)
                cases += [] if case is None else [case]
            for case in cases:
                number = case.number
                log.seek(0)
                log.write(f"{number}\n")
                log.flush()
                compute(case)
    except BaseException as error:
        error.add_note(f"case {number}: compute(admit({number}))")
        raise
    finally:
        set_num_threads(None)
    print(f"chunk {chunk}: {len(numbers)} cases, {len(cases)} accepted")
    assert 0 < len(cases) < len(numbers)
