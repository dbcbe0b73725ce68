"""The kernel cache: compiled files on disk that a second process can trust.

An entry is one directory, named by the digest of everything that can change the compiled file.
It is built under a temporary name and published by one rename, so that a reader sees all of it or
nothing. Before use, an entry is compared with its key, and the shared object with the hash taken
when it was built; an entry that differs is discarded and rebuilt. The directory must belong to us
and be closed to others, or it is not used.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import json
import math
import os
import re
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from platformdirs import user_cache_path

from openwork.errors import InternalError, ToolchainError
from openwork.frozen import frozen

ABI = 1
"""The version of the argument layout that kernels and their callers agree on."""

Result = TypeVar("Result")

SOURCE, LIBRARY, META = "source.c", "kernel.so", "meta.json"

_STAGED = ".tmp-"
_FAILED = "failed"
_STALE_SECONDS = 3600.0
_TRIES = 8
_ENTRY_NAME = re.compile(r"[0-9a-f]{64}")
_OURS = re.compile(rf"[0-9a-f]{{64}}|{re.escape(_STAGED)}.*|{_FAILED}|note-.*\.json")
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


@frozen
class CacheKey:
    """Everything that can change the compiled file, and nothing else."""

    source: str
    compiler: str  # the whole version text: the program at a path may change
    flags: tuple[str, ...]
    cpu: str  # what "native" meant when the flags were resolved
    abi: int = ABI

    def digest(self) -> str:
        """The name of the entry: equal for equal keys only."""
        # JSON escapes its parts, so two different keys never give the same text.
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def lookup_or_build(key: CacheKey, build: Callable[[Path], None]) -> Path:
    """The shared object for `key`, built unless an intact one exists.

    Args:
        key: the key of the entry.
        build: writes `kernel.so` into the given directory, which holds `source.c`. If it raises,
            nothing is published.

    Raises:
        ToolchainError: E603, when neither the cache nor a temporary directory can be written.
    """
    return _where_there_is_room(
        lambda root: _entry(root, key, build), lambda root: _held(root, key)
    )


def directory() -> Path:
    """The directory of the entries: the user's, or a private one if that is not safe."""
    path = wanted_directory()
    reason = distrust(path)
    if reason is None:
        return path
    _warn_once(path, reason)
    return _private.directory()


def wanted_directory() -> Path:
    """Where the cache should be: `$OPENWORK_CACHE_DIR`, else the platform's user cache."""
    named = os.environ.get("OPENWORK_CACHE_DIR")
    if named:
        return Path(os.path.abspath(os.path.expanduser(named)))
    return user_cache_path("openwork", appauthor=False)


def distrust(path: Path) -> str | None:
    """Why `path` must not hold code to be loaded, or None; creates the directory if absent."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        # lstat, because a link could be redirected after the check.
        status = path.lstat()
    except OSError as error:
        return f"it cannot be created ({error.strerror or error})"
    if not stat.S_ISDIR(status.st_mode):
        return "it is a link or a file, not a directory"
    if os.name == "posix":
        if status.st_uid != os.getuid():
            return "it belongs to another user"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return "other users may write to it"
    return None


def entries() -> list[Path]:
    """The directories of all published entries."""
    return [path for path in _listing(directory()) if _ENTRY_NAME.fullmatch(path.name)]


def size() -> int:
    """The size of all published entries, in bytes."""
    total = 0
    for entry in entries():
        for file in _listing(entry):
            with suppress(OSError):
                total += file.lstat().st_size
    return total


def clear() -> int:
    """Remove every entry, note and leftover; returns the number of entries.

    Only names that the cache itself creates are removed, so that a mistaken
    `OPENWORK_CACHE_DIR` loses no other files. Loaded libraries stay loaded.
    """
    removed = len(entries())
    root = directory()
    try:
        for path in _listing(root):
            if _OURS.fullmatch(path.name):
                _discard(path)
    except OSError as error:
        raise _unwritable(root, error) from error
    return removed


def collect_garbage(older_than: float = _STALE_SECONDS) -> int:
    """Remove temporary directories that killed processes left behind; returns how many."""
    return _collect(directory(), older_than)


def _collect(root: Path, older_than: float) -> int:
    limit = time.time() - older_than
    removed = 0
    names: list[str] = []
    with suppress(OSError):
        names = os.listdir(root)
    for name in names:
        if not name.startswith(_STAGED):
            continue
        with suppress(OSError):
            if (root / name).lstat().st_mtime < limit:
                shutil.rmtree(root / name)
                removed += 1
    return removed


def _collect_sometimes(root: Path) -> None:
    """Collect the garbage below `root` unless this process has done so within the hour.

    Reading a directory of ten thousand entries takes longer than compiling a small kernel.
    """
    now = time.monotonic()
    if now - _collected.get(root, -math.inf) > _STALE_SECONDS:
        _collected[root] = now
        _collect(root, _STALE_SECONDS)


def in_scratch(work: Callable[[Path], Result]) -> Result:
    """The result of `work` on an empty directory inside the cache, which is removed afterwards.

    The system's temporary directory will not do: it may forbid execution. If the disk is full,
    `work` is called again with another directory.

    Raises:
        ToolchainError: E603, when neither the cache nor a temporary directory can be written.
    """

    def once(root: Path) -> Result:
        with _scratch(root) as folder:
            return work(folder)

    return _where_there_is_room(once)


def _where_there_is_room(
    work: Callable[[Path], Result], known: Callable[[Path], Result | None] = lambda root: None
) -> Result:
    """The result of `work` on the cache, or on a private directory if that cannot be written.

    After the cache was found full, only what is `known` there is used.
    """
    root = directory()
    found = known(root) if root in _full else None
    if found is not None:
        return found
    if root not in _full:
        try:
            return work(root)
        except OSError as error:
            if root == _private.path:
                raise _unwritable(root, error) from error
            _full.add(root)
            _warn_once(root, f"it cannot be written ({error.strerror or error})")
    try:
        return work(_private.directory())
    except OSError as error:
        raise _unwritable(_private.path, error) from error


@contextmanager
def _scratch(root: Path) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix=_STAGED, dir=root))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def keep_failed(source: str) -> Path | None:
    """Keep a source that did not compile, for debugging; its path, or None if that failed."""
    folder = directory() / _FAILED
    path = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.c"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        path.write_text(source)
    except OSError:
        return None
    return path


def read_note(name: str) -> dict[str, object] | None:
    """The facts noted under `name`; None if there are none, or they are damaged."""
    try:
        note = json.loads((directory() / f"note-{name}.json").read_bytes())
        facts = note["facts"]
        return facts if note["sha256"] == _note_hash(facts) and isinstance(facts, dict) else None
    except (OSError, ValueError, TypeError, LookupError):
        return None


def write_note(name: str, facts: dict[str, object]) -> None:
    """Note `facts` for later processes. A note only saves time, so failure is no error."""
    text = json.dumps({"sha256": _note_hash(facts), "facts": facts}, indent=1)
    root = directory()
    with suppress(OSError), _scratch(root) as folder:
        (folder / "note").write_text(text)
        (folder / "note").replace(root / f"note-{name}.json")


def _note_hash(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _held(root: Path, key: CacheKey) -> Path | None:
    """The library of the entry for `key` below `root`, if it is intact."""
    digest = key.digest()
    return root / digest / LIBRARY if _intact(root / digest, key, digest) else None


def _entry(root: Path, key: CacheKey, build: Callable[[Path], None]) -> Path:
    """The library of the entry for `key` below `root`, built if needed."""
    digest = key.digest()
    final = root / digest
    for _ in range(_TRIES):
        if _intact(final, key, digest):
            return final / LIBRARY
        _discard(final)
        if _publish(root, final, key, digest, build):
            return final / LIBRARY
    raise OSError(f"the entry {digest} is damaged repeatedly")


def _publish(
    root: Path, final: Path, key: CacheKey, digest: str, build: Callable[[Path], None]
) -> bool:
    """Build an entry and rename it into place; False when another process was there first."""
    _collect_sometimes(root)
    staged = Path(tempfile.mkdtemp(prefix=_STAGED, dir=root))
    try:
        (staged / SOURCE).write_bytes(key.source.encode())
        build(staged)
        if not (staged / LIBRARY).is_file():
            raise InternalError(f"a build ended without {LIBRARY}")
        built = hashlib.sha256((staged / LIBRARY).read_bytes()).hexdigest()
        (staged / META).write_text(json.dumps(_meta(key, digest, built), indent=1))
        os.rename(staged, final)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return True


def _meta(key: CacheKey, digest: str, built: str) -> dict[str, object]:
    return {
        "key": digest,
        "sha256": built,
        "compiler": key.compiler,
        "flags": list(key.flags),
        "cpu": key.cpu,
        "abi": key.abi,
    }


def _intact(entry: Path, key: CacheKey, digest: str) -> bool:
    """Whether every file of `entry` is what was published."""
    try:
        meta = json.loads((entry / META).read_bytes())
        library = (entry / LIBRARY).read_bytes()
        source = (entry / SOURCE).read_bytes()
    except (OSError, ValueError):
        return False
    found = hashlib.sha256(library).hexdigest()
    return meta == _meta(key, digest, found) and source == key.source.encode()


def _discard(path: Path) -> None:
    """Remove `path`, which may be gone already; readers never see it half removed."""
    trash = path.with_name(f"{_STAGED}{path.name[:16]}-{os.getpid()}-{time.monotonic_ns()}")
    try:
        os.rename(path, trash)
    except FileNotFoundError:
        return
    if trash.is_dir() and not trash.is_symlink():
        shutil.rmtree(trash, ignore_errors=True)
    else:
        trash.unlink(missing_ok=True)


def _listing(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


class _Private:
    """A directory for this process alone, used when the user's cannot be trusted."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self._owner = 0

    def directory(self) -> Path:
        # A forked child gets its own: the parent removes its directory when it ends.
        if self.path is None or self._owner != os.getpid():
            try:
                self.path = Path(tempfile.mkdtemp(prefix="openwork-"))
            except OSError as error:
                raise _unwritable(None, error) from error
            self._owner = os.getpid()
            atexit.register(self._remove, self.path, self._owner)
        return self.path

    @staticmethod
    def _remove(path: Path, owner: int) -> None:
        if owner == os.getpid():
            shutil.rmtree(path, ignore_errors=True)


_private = _Private()


def private_directory() -> Path:
    """A directory of this process alone, which is removed when the process ends."""
    return _private.directory()


_warned: set[Path] = set()
_collected: dict[Path, float] = {}  # when this process last removed the leftovers there
_full: set[Path] = set()  # directories that this process could not write to


def _warn_once(path: Path, reason: str) -> None:
    if path in _warned:
        return
    _warned.add(path)
    warnings.warn(
        f"E603: the kernel cache {path} is not used: {reason}; kernels are kept for this process "
        "only. Set OPENWORK_CACHE_DIR to a directory of yours with mode 700 and free space.",
        RuntimeWarning,
        stacklevel=3,
    )


def _unwritable(path: Path | None, error: OSError) -> ToolchainError:
    where = "no temporary directory" if path is None else f"the kernel cache {path}"
    verb = "can be created" if path is None else "cannot be written"
    return ToolchainError(
        f"{where} {verb}: {error.strerror or error}",
        code="E603",
        hint="set OPENWORK_CACHE_DIR to a directory with free space that you may write to",
    )
