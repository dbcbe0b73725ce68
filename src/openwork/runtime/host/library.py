"""From C source to a loaded library: the only way generated code enters the process."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from openwork.errors import ToolchainError
from openwork.frozen import frozen
from openwork.runtime import cache
from openwork.runtime.host import kept, pool, threads
from openwork.runtime.host.toolchain import Toolchain, find_toolchain, no_toolchain

_Request = tuple[str, bool, str, tuple[str, ...], Toolchain]

_TRIES = 3

_loaded: dict[_Request, ctypes.CDLL] = {}
_locks: dict[_Request, threading.Lock] = {}
_guard = threading.Lock()
_common: ctypes.CDLL | None = None  # what all libraries share: the pool and what is kept
_starting = threading.Lock()


def load(
    source: str,
    *,
    associative: bool = False,
    optimize: str = "-O3",
    sanitize: tuple[str, ...] = (),
) -> ctypes.CDLL:
    """The library compiled from `source`: from memory, else from the cache, else from a compiler.

    Calls into it release the GIL. Threads that need the same library at the same time share one
    compilation.

    Args:
        source: C that needs no header but the compiler's own.
        associative: whether sums may be reassociated.
        optimize: the optimization level.
        sanitize: sanitizers to build in.

    Raises:
        ToolchainError: E601 without a compiler, E602 if it rejects the source, E604 if the
            library does not load.
    """
    toolchain = find_toolchain()
    if toolchain is None:
        raise no_toolchain()
    request = (source, associative, optimize, sanitize, toolchain)
    library = _loaded.get(request)
    if library is not None:
        return library
    with _guard:
        lock = _locks.setdefault(request, threading.Lock())
    try:
        with lock:
            library = _loaded.get(request)
            if library is None:
                library = _loaded[request] = _open(request)
    finally:
        with _guard:
            _locks.pop(request, None)
    return library


def _open(request: _Request) -> ctypes.CDLL:
    source, associative, optimize, sanitize, toolchain = request
    flags = toolchain.flags(optimize=optimize, associative=associative, sanitize=sanitize)
    parts = _parts(toolchain, source, sanitized=bool(sanitize))
    with _pool_beside(toolchain, parts):
        library = _built(toolchain, parts.source, (*flags, *parts.flags), toolchain.libraries)
    return _connected(toolchain, parts, library)


@frozen
class _Parts:
    """The source of a library, with what it calls, and what it then shares with all others."""

    source: str
    threads: bool
    memory: bool

    @property
    def flags(self) -> tuple[str, ...]:
        return kept.FLAGS if self.memory else ()


@contextmanager
def _pool_beside(toolchain: Toolchain, parts: _Parts) -> Iterator[None]:
    """Compile the pool at the same time as the first library with threads."""
    if _common is not None or not (toolchain.pooled and parts.threads):
        yield
        return

    def compiled() -> None:
        with suppress(ToolchainError, OSError):  # which `_shared_by_all` tells
            _built(toolchain, *_of_pool(toolchain))

    beside = threading.Thread(target=compiled, daemon=True)
    beside.start()
    try:
        yield
    finally:
        beside.join()


def compiled_anew(toolchain: Toolchain, source: str, folder: Path) -> ctypes.CDLL:
    """The library compiled from `source` in an empty folder, without the cache.

    Raises:
        ToolchainError: E602 if the compiler rejects it.
        OSError: it does not load.
    """
    parts = _parts(toolchain, source)
    (folder / cache.SOURCE).write_text(parts.source)
    toolchain.compile(folder, (*toolchain.flags(), *parts.flags))
    return _connected(toolchain, parts, ctypes.CDLL(str(folder / cache.LIBRARY)))


def _parts(toolchain: Toolchain, source: str, sanitized: bool = False) -> _Parts:
    """`source`, with what its parallel loops and its allocations call.

    A sanitizer has to see every allocation.
    """
    has_threads = pool.has_threads(source)
    if not (has_threads and toolchain.pooled):
        return _Parts(source, has_threads, memory=False)
    memory = kept.allocates(source) and not sanitized
    more = kept.allocate_source() if memory else ""
    return _Parts(f"{source}{pool.parallel_source()}{more}", has_threads, memory)


def _connected(toolchain: Toolchain, parts: _Parts, library: ctypes.CDLL) -> ctypes.CDLL:
    """`library`, whose parallel loops have threads, and whose allocations what is kept."""
    if parts.threads and toolchain.pooled:
        common = _shared_by_all(toolchain)
        pool.connect(library, common)
        if parts.memory:
            kept.connect(library, common)
    elif parts.threads and toolchain.openmp:
        threads.leave_to_the_compiler()
    return library


def _shared_by_all(toolchain: Toolchain) -> ctypes.CDLL:
    """The library with the pool and what is kept; there is one, whoever asks for it first."""
    global _common
    with _starting:
        if _common is None:
            _common = _built(toolchain, *_of_pool(toolchain))
            pool.start(_common)
            kept.start(_common)
        return _common


def _of_pool(toolchain: Toolchain) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The source of the pool and of what is kept, the flags and the libraries.

    -O1 is a third quicker to compile than -O2, in the first call of a new cache, and no slower: the
    time of the pool is that of atomics.
    """
    libraries = (*toolchain.libraries, *pool.LIBRARIES)
    return f"{pool.pool_source()}{kept.kept_source()}", toolchain.flags(optimize="-O1"), libraries


def _built(
    toolchain: Toolchain, source: str, flags: tuple[str, ...], libraries: tuple[str, ...]
) -> ctypes.CDLL:
    """`source`, compiled or found in the cache, and loaded."""
    key = cache.CacheKey(
        source=source,
        compiler=toolchain.version,
        flags=(*flags, *libraries),
        cpu=toolchain.cpu,
    )
    for _ in range(_TRIES):
        path = cache.lookup_or_build(key, lambda to: toolchain.compile(to, flags, libraries))
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            problem = error
            # Another process may have cleared the cache between lookup and load.
            if path.exists():
                break
    raise ToolchainError(
        f"the compiled kernel {path} does not load: {problem}",
        code="E604",
        hint="if its file system forbids execution, set OPENWORK_CACHE_DIR to another; if the "
        "compiler's libraries have changed, run `python -m openwork cache clear`",
    )


def _forget_locks() -> None:
    """A thread that held a lock at the time of a fork does not exist in the child."""
    global _guard, _starting
    _guard, _starting = threading.Lock(), threading.Lock()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)
