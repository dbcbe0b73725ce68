"""A tensor as what other libraries hold: arrays and matrices of CuPy, tensors of torch, DLPack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from openwork.errors import FormatError
from openwork.format.formats import BSR, CSC, CSR, Format
from openwork.runtime.gpu.cuda import DeviceStorage
from openwork.runtime.storage import Array, Storage
from openwork.tensor.convert.pack import copied
from openwork.tensor.exchange.gpu import to_cupy_matrix
from openwork.tensor.exchange.torch import dense_to_torch, sparse_to_torch


class Located:
    """A tensor that can be moved to a GPU and back."""

    _storage: Storage | None

    @property
    def name(self) -> str:
        """What statements and messages call it."""
        raise NotImplementedError

    @property
    def format(self) -> Format:
        """How it is stored."""
        raise NotImplementedError

    @property
    def storage(self) -> Storage:
        """Its arrays."""
        raise NotImplementedError

    @property
    def _arrays(self) -> Storage | None:
        """Its arrays, or None if it has no data."""
        raise NotImplementedError

    @classmethod
    def of(cls, storage: Storage, name: str | None = None) -> Self:
        """A tensor around `storage`."""
        raise NotImplementedError

    @property
    def device(self) -> str:
        """Where the arrays are: `"cpu"` or `"cuda"`."""
        storage = self._storage
        if storage is None:
            storage = self._arrays
        return "cuda" if isinstance(storage, DeviceStorage) else "cpu"

    def _moved(self, to_gpu: bool) -> Self:
        storage = self.storage
        if isinstance(storage, DeviceStorage) == to_gpu:
            return self
        moved = DeviceStorage.of(storage) if to_gpu else self._host
        return type(self).of(moved, self.name)

    @property
    def _host(self) -> Storage:
        """The storage in main memory."""
        return self.storage.host()


class Exchanged(Located):
    """A tensor that others can have, without a copy where its arrays are what they hold, too."""

    @property
    def order(self) -> int:
        """The number of modes."""
        raise NotImplementedError

    def to_numpy(self) -> Array:
        """As an array of NumPy's."""
        raise NotImplementedError

    def to_scipy(self, *, share: bool = False) -> Any:
        """As a matrix of SciPy's."""
        raise NotImplementedError

    def to_coo(self) -> tuple[Array, Array]:
        """As coordinates and values."""
        raise NotImplementedError

    def to_cupy(self, *, share: bool = False) -> Any:
        """The tensor as an array of CuPy's, or as a CSR or CSC matrix.

        An array shares its memory on the GPU; of a matrix that is to `share` it, neither may be
        changed.

        Raises:
            FormatError: E404 for what CuPy cannot hold.
        """
        storage = DeviceStorage.of(self.storage)
        if not self.format.is_dense:
            return to_cupy_matrix(storage if share else copied(storage), self.name)
        return _in_modes(storage)

    def to_torch(self, *, share: bool = False) -> Any:
        """The tensor as one of torch's, where it is.

        Dense tensors become strided ones, which share their memory; CSR, CSC and BSR stay so, other
        sparse ones become COO, on a GPU CSR and CSC alone. Where sparse ones are to `share` their
        memory, neither may be changed.

        Raises:
            FormatError: E404 for what torch cannot hold.
        """
        storage = self.storage
        if self.format.is_dense:
            array = _in_modes(storage) if self.device == "cuda" else self.to_numpy()
            return dense_to_torch(array, self.name)
        if storage.fill != 0:
            raise FormatError(
                f"absent entries of {self.name} are {storage.fill}, and torch's are 0",
                code="E404",
                hint="coords, values = tensor.to_coo(), or tensor.to_numpy()",
            )
        known = None
        if self.device == "cpu":
            tiles = self.format.tiles
            blocks = len(tiles) == 2 and all(tiles) and self.format == BSR(*tiles)
            alike = self.format in (CSR, CSC) or (blocks and not storage.overhangs)
            known = self.to_scipy(share=share) if alike else self.to_coo()
        elif not share:
            storage = copied(storage)
        return sparse_to_torch(storage, known, self.name)

    def _shared(self, protocol: str) -> Any:
        """The array that is behind a dense tensor; to a protocol, sparse ones offer nothing."""
        if not self.format.is_dense or self._arrays is None:
            raise AttributeError(f"{self.name} is sparse or has no data yet, and no {protocol}")
        return _in_modes(self.storage) if self.device == "cuda" else self.to_numpy()

    @property
    def __dlpack__(self) -> Callable[..., Any]:
        """What `torch.from_dlpack`, `cupy.from_dlpack` and `numpy.from_dlpack` call."""
        method: Callable[..., Any] = self._shared("__dlpack__").__dlpack__
        return method

    @property
    def __dlpack_device__(self) -> Callable[[], Any]:
        """Where the memory is, in DLPack's numbers."""
        method: Callable[[], Any] = self._shared("__dlpack_device__").__dlpack_device__
        return method

    @property
    def __cuda_array_interface__(self) -> Any:
        """What CuPy, Numba and torch ask for the memory of an array on a GPU."""
        if self.device != "cuda":
            raise AttributeError(f"{self.name} is not on a GPU")
        return self._shared("__cuda_array_interface__").__cuda_array_interface__


def _in_modes(storage: Storage) -> Any:
    """The values of a dense tensor as an array with its modes."""
    order = storage.format.order
    shape = tuple(storage.shape[mode] for mode in order)
    back = [order.index(mode) for mode in range(len(order))]
    return storage.values.reshape(shape).transpose(back)
