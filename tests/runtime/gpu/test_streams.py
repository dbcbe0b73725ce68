"""On whose stream a GPU works, with stand-ins for CuPy and torch; on a real one: test_real_gpu."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.runtime.gpu.stand_in import Emulated, module, modules

import openwork as ow
from openwork.runtime.gpu.cuda import Cuda

pytestmark = pytest.mark.needs_cc
MATRIX = sp.random(40, 30, 0.2, format="csr", random_state=np.random.default_rng(0))


class Tensor:
    """As much of a tensor of torch's as is asked of one."""

    is_cuda, layout, requires_grad, ndim = True, "torch.strided", False, 1

    def __init__(self, array: Any) -> None:
        self.array = array

    def resolve_conj(self) -> Any:
        return self

    resolve_neg = resolve_conj

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array

    @property
    def __cuda_array_interface__(self) -> Any:
        return {**self.array.__array_interface__, "version": 3}


class Streams:
    """Which streams are current, and what they were given."""

    def __init__(self) -> None:
        self.cupy, self.torch, self.seen = 0, 0, list[int]()

    @contextmanager
    def external(self, number: int) -> Iterator[None]:
        before, self.cupy = self.cupy, number
        yield
        self.cupy = before

    def taken(self) -> set[int]:
        """Where work was done since it was asked the last time."""
        seen, self.seen = set(self.seen), []
        return seen


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Streams:
    made = Streams()
    cupy, torch = module(), types.ModuleType("torch")
    cupy.cuda.get_current_stream = lambda gpu=-1: types.SimpleNamespace(
        ptr=made.cupy, synchronize=lambda: None
    )
    cupy.cuda.Stream = types.SimpleNamespace(
        from_external=lambda stream: made.external(stream.__cuda_stream__()[1])
    )
    torch.Tensor = Tensor  # type: ignore[attr-defined]
    torch.cuda = types.SimpleNamespace(  # type: ignore[attr-defined]
        current_stream=lambda: types.SimpleNamespace(cuda_stream=made.torch)
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    for each in modules():
        monkeypatch.setitem(sys.modules, each.__name__, each)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(Cuda, "blocks", property(lambda self: 3))

    def noted(name: str) -> Any:
        action = getattr(Emulated, name, None) or getattr(Cuda, name)

        def run(*args: Any) -> Any:
            made.seen.append(made.cupy)
            return action(*args)

        return run

    for name in ("load", "numbers", "fill"):
        monkeypatch.setattr(Cuda, name, getattr(Emulated, name))
    for name in ("launch", "ready", "download", "empty"):
        monkeypatch.setattr(Cuda, name, noted(name))
    return made


def spmv(x: Any) -> Any:
    A = ow.tensor(MATRIX, name="A").to("cuda")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty((40,)), A=A, x=ow.tensor(x, name="x"))
    return stmt.compile(target="cuda")


def test_who_gives_tensors_of_torch_works_on_its_stream(streams: Streams) -> None:
    x = np.random.default_rng(1).random(30)
    kernel = spmv(Tensor(x))
    for number in (0, 7, 7, 9):
        streams.torch = number
        streams.taken()
        y = kernel()
        np.testing.assert_allclose(y.to_numpy(), MATRIX @ x)
        assert streams.taken() == {number}
    # What was computed from them is theirs, and so is what is made of that.
    twice = ow.parse("z(i) = 2 * y(i)", z=ow.empty((40,)), y=y).compile(target="cuda")
    streams.torch = 11
    streams.taken()
    np.testing.assert_allclose(twice().T.astype("float32").to_numpy(), 2 * (MATRIX @ x), rtol=1e-6)
    assert streams.taken() == {11}


def test_a_stream_of_cupy_goes_first(streams: Streams) -> None:
    kernel = spmv(Tensor(np.ones(30)))
    streams.torch = 7
    with streams.external(5):
        streams.taken()
        kernel().to_numpy()
        assert streams.taken() == {5}


def test_a_result_for_torch_is_written_on_its_stream(streams: Streams) -> None:
    kernel = spmv(sys.modules["cupy"].asarray(np.ones(30)))
    out = ow.tensor(Tensor(np.zeros(40)))
    streams.torch = 7
    streams.taken()
    np.testing.assert_allclose(kernel(out=out).to_numpy(), MATRIX @ np.ones(30))
    assert streams.taken() == {7}


def test_others_do_not_mind_torch(streams: Streams) -> None:
    kernel = spmv(sys.modules["cupy"].asarray(np.ones(30)))
    streams.torch = 7
    streams.taken()
    for _ in range(3):
        kernel().to_numpy()
    assert streams.taken() == {0}


def test_tensors_of_another_type_stay_on_the_gpu(streams: Streams) -> None:
    A = ow.tensor(MATRIX, name="A").to("cuda").astype("float32")
    assert (A.device, A.dtype, A.T.device) == ("cuda", np.dtype("float32"), "cuda")


def test_matrices_for_cupy(streams: Streams) -> None:
    A = ow.tensor(MATRIX, name="A").to("cuda")
    for tensor, kind in ((A, "csr"), (A.T, "csc")):
        made = tensor.to_cupy()
        assert made.format == kind
        np.testing.assert_array_equal(made.toarray(), tensor.to_numpy())
    with pytest.raises(ow.FormatError, match=r"CuPy's matrices are CSR or CSC"):
        ow.tensor(MATRIX).to(ow.DCSR).to("cuda").to_cupy()
    dense = ow.tensor(np.ones((2, 3))).to("cuda")
    assert dense.__cuda_array_interface__["shape"] == (2, 3)


def test_dlpack_alone_is_enough(streams: Streams) -> None:
    class Foreign:
        def __dlpack__(self, **more: Any) -> Any:
            return None

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    cupy = sys.modules["cupy"]
    cupy.from_dlpack = lambda obj: cupy.asarray(np.arange(3.0))  # type: ignore[attr-defined]
    tensor = ow.tensor(Foreign())
    assert tensor.device == "cuda" and tensor.to_numpy().tolist() == [0, 1, 2]
