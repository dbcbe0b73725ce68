"""Transposes that repeated products keep: when they are made, how they are used, what drops them.

`y(j) = A(i,j) * x(i)` with A stored by rows scatters its updates. With A stored by columns each
entry of y is summed by itself. So from the third use of the same A on, kernels without a schedule
keep A in the other orientation (`convert/turned.py`): as long as A lives, and within a part of the
GPU's free memory, beyond which the transpose that was not used for the longest time goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakSet

from openwork.pipeline import Compiled
from openwork.runtime.gpu.cuda import DeviceStorage
from openwork.runtime.gpu.steps import Device
from openwork.runtime.gpu.streams import callers_stream
from openwork.runtime.storage import Storage
from openwork.tensor.convert.turned import Turned
from openwork.tensor.kernel.binding import Shape
from openwork.tensor.kernel.gpu_repeat import Repeat
from openwork.tensor.kernel.kernel import Kernel

AFTER = 2  # uses of a matrix, before it is worth a transpose
PART = 8  # of the free memory is for transposes


@dataclass(eq=False)
class _Record:
    """What is known of a matrix: how often products used it, and perhaps its transpose."""

    uses: int = 0
    after: int = AFTER
    at: int = 0  # when it was used last
    turned: Turned | None = None
    readers: WeakSet[Repeat] = field(default_factory=WeakSet)

    def drop(self) -> None:
        """Free the transpose; it takes more uses to make it again."""
        self.turned, self.uses, self.after = None, 0, 2 * self.after
        for reader in self.readers:
            reader.release()


class Transposes:
    """The transposes that are kept, by matrix."""

    def __init__(self) -> None:
        self._records: WeakKeyDictionary[Storage, _Record] = WeakKeyDictionary()
        self._lock, self._clock = Lock(), 0

    def of(self, storage: Storage, device: Device) -> Turned | None:
        """The transpose of a matrix; None while it has none. Counts as a use."""
        with self._lock:
            record = self._records.setdefault(storage, _Record())
            self._clock += 1
            record.at = self._clock
            if record.turned is None:
                record.uses += 1
                if record.uses <= record.after or device.is_recording:
                    return None
                record.turned = self._made(storage, device)
            return record.turned

    def read_by(self, storage: Storage, repeat: Repeat) -> None:
        """Have `repeat` let go of a matrix's transpose when it is dropped."""
        with self._lock:
            record = self._records.get(storage)
            if record is None or record.turned is None:
                repeat.release()
            else:
                record.readers.add(repeat)

    @property
    def nbytes(self) -> int:
        """The memory that all of them take."""
        return sum(r.turned.nbytes for r in self._records.values() if r.turned is not None)

    def clear(self) -> None:
        """Drop all of them."""
        with self._lock:
            for record in list(self._records.values()):
                record.drop()

    def _made(self, storage: Storage, device: Device) -> Turned | None:
        """The transpose of a matrix, in place of older ones if need be; None if it does not fit."""
        values, sizes = storage.values.nbytes, storage.positions(0) + 2 * storage.values.size
        needed = 2 * values + 4 * sizes  # about: the values twice, coordinates and places
        kept = self.nbytes
        most = (device.free + kept) // PART
        if needed > most:
            return None
        held = [r for r in self._records.values() if r.turned is not None]
        for record in sorted(held, key=lambda r: r.at):
            if kept + needed <= most:
                break
            kept -= 0 if record.turned is None else record.turned.nbytes
            record.drop()
        try:
            made = Turned.of(storage, device)
        except MemoryError:
            return None
        device.settle()
        return made


KEPT = Transposes()


class Turning:
    """Chooses between a kernel that scatters and one for the transpose of its operand `name`.

    Args:
        name: of the operand whose transpose is kept.
        templates: the operands of the statement.
        compiled: compiles the statement for the transpose.
        decide: takes a sentence for `explain()`.
    """

    def __init__(
        self,
        name: str,
        templates: Mapping[str, Any],
        compiled: Callable[[Storage], Kernel],
        decide: Callable[[str], None],
    ) -> None:
        self._name, self._at = name, list(templates).index(name)
        self._templates, self._compiled, self._decide = tuple(templates.values()), compiled, decide
        self._other: TurnedLauncher | None = None

    def launcher(self, given: tuple[Storage, ...], usual: Any) -> tuple[Any, bool]:
        """The launcher for a call with the operands `given`, and whether it stays the same."""
        storage, device = given[self._at], usual.device
        if not (isinstance(storage, DeviceStorage) or device.in_main_memory):
            return usual, True  # uploaded for every call
        with callers_stream(_of_torch(given)):
            turned = KEPT.of(storage, device)
        if turned is None:
            return usual, False
        if self._other is None:
            kernel = self._compiled(turned.storage)
            self._decide(f"{self._name}: transposed and kept, {turned.nbytes / 1e6:.1f} MB; then:")
            for sentence in kernel._trace.decisions:
                self._decide(f"  {sentence}")
            self._other = TurnedLauncher(usual, kernel._launcher, self._at, self._templates)
        return self._other, True


class TurnedLauncher:
    """Runs the kernel for the transpose of the operand at `at`, after refreshing its values.

    Args:
        usual: the launcher for calls without a transpose.
        inner: the launcher for the transpose.
        at: the number of the operand.
        templates: the operands of the user's statement.
    """

    missing = None

    def __init__(self, usual: Any, inner: Any, at: int, templates: tuple[Any, ...]) -> None:
        self._usual, self._inner, self._at, self._templates = usual, inner, at, templates
        self._repeated: Any = None  # the inner launcher's, from which `warm` was made
        self.warm: Any = None

    @property
    def compiled(self) -> Compiled:
        """The kernel for the transpose."""
        return cast(Compiled, self._inner.compiled)

    def launch(
        self, given: tuple[Storage, ...], shape: Shape, old: Storage | None, out: Any
    ) -> Storage:
        """As for any launcher."""
        storage = given[self._at]
        turned = KEPT.of(storage, self._usual.device)
        if turned is None:  # dropped by another thread in the meantime
            return cast(Storage, self._usual.launch(given, shape, old, out))
        changed = (*given[: self._at], turned.storage, *given[self._at + 1 :])
        of_torch = _of_torch(given)
        with callers_stream(of_torch):
            launched = turned.refresh(storage.values)
            made = self._inner.launch(changed, shape, old, out)
        repeated = self._inner.warm
        if repeated is not None and repeated is not self._repeated:
            self._repeated = repeated
            self.warm = repeated.after(launched, given, self._templates)
            KEPT.read_by(storage, self.warm)
        return cast(Storage, made)


def _of_torch(given: tuple[Storage, ...]) -> bool:
    return any(isinstance(s, DeviceStorage) and s.of_torch for s in given)
