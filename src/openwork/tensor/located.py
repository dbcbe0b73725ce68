"""Where a tensor's arrays are: in main memory, or in that of a GPU."""

from __future__ import annotations

from typing import Any, Self

from openwork.errors import FormatError
from openwork.format.formats import Format
from openwork.runtime.cuda import DeviceStorage
from openwork.runtime.storage import Storage


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

    @classmethod
    def of(cls, storage: Storage, name: str | None = None) -> Self:
        """A tensor around `storage`."""
        raise NotImplementedError

    @property
    def device(self) -> str:
        """Where the arrays are: `"cpu"` or `"cuda"`."""
        return "cuda" if isinstance(self._storage, DeviceStorage) else "cpu"

    def _moved(self, to_gpu: bool) -> Self:
        storage = self.storage
        if isinstance(storage, DeviceStorage) == to_gpu:
            return self
        moved = DeviceStorage.of(storage) if to_gpu else self._host
        return type(self).of(moved, self.name)

    @property
    def _host(self) -> Storage:
        """The storage in main memory."""
        storage = self.storage
        return storage.host() if isinstance(storage, DeviceStorage) else storage

    def to_cupy(self) -> Any:
        """A dense tensor as a CuPy array, which shares its memory if it is on the GPU.

        Raises:
            FormatError: E404 for a sparse tensor.
        """
        if not self.format.is_dense:
            raise FormatError(
                f"{self.name} is sparse, and CuPy arrays are dense",
                code="E404",
                hint='take .storage.values and .storage.levels, or .to("cpu").to_scipy()',
            )
        storage = DeviceStorage.of(self.storage)
        order = self.format.order
        shape = tuple(storage.shape[mode] for mode in order)
        back = [order.index(mode) for mode in range(len(order))]
        return storage.values.reshape(shape).transpose(back)
