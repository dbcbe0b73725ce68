"""Where a tensor's arrays are: in main memory, or in that of a GPU."""

from __future__ import annotations

from typing import Self

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
