"""The kernel cache: what is in the key, what is never loaded, and what is never trusted."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from openwork.errors import InternalError, ToolchainError
from openwork.runtime import cache
from openwork.runtime.cache import CacheKey
from openwork.runtime.host import toolchain

KEY = CacheKey("int f;", "cc 1.0", ("-O3", "-g"), "cpu a", abi=1)
OTHER = CacheKey("int g;", "cc 1.1", ("-O3 -g",), "cpu b", abi=2)
CONTENT = bytes(range(256)) * 8


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of this test's own."""
    path = tmp_path / "cache"
    monkeypatch.setenv("OPENWORK_CACHE_DIR", str(path))
    return path


class Builder:
    """A build that writes fixed content and counts its calls."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content, self.calls = content, 0

    def __call__(self, folder: Path) -> None:
        assert (folder / "source.c").read_text() == KEY.source
        (folder / "kernel.so").write_bytes(self.content)
        self.calls += 1


def leftovers(root: Path) -> list[str]:
    return [path.name for path in root.iterdir() if path.name.startswith(".tmp-")]


def test_every_field_changes_the_key() -> None:
    for field in fields(KEY):
        changed = replace(KEY, **{field.name: getattr(OTHER, field.name)})
        assert changed.digest() != KEY.digest(), field.name


def test_neighbouring_fields_do_not_run_together() -> None:
    assert replace(KEY, flags=("a", "b")).digest() != replace(KEY, flags=("a b",)).digest()
    assert replace(KEY, source="ab", compiler="c") != replace(KEY, source="a", compiler="bc")


def test_a_second_lookup_builds_nothing(root: Path) -> None:
    build = Builder()
    path = cache.lookup_or_build(KEY, build)
    assert path.read_bytes() == CONTENT
    assert cache.lookup_or_build(KEY, build) == path
    assert build.calls == 1
    assert {file.name for file in path.parent.iterdir()} == {"kernel.so", "source.c", "meta.json"}
    assert root.stat().st_mode & 0o777 == 0o700
    assert not leftovers(root)


def test_a_failed_build_leaves_nothing(root: Path) -> None:
    def build(folder: Path) -> None:
        raise ToolchainError("no", code="E602")

    with pytest.raises(ToolchainError, match="E602"):
        cache.lookup_or_build(KEY, build)
    with pytest.raises(InternalError, match=r"without kernel\.so"):
        cache.lookup_or_build(KEY, lambda folder: None)
    assert cache.entries() == [] and not leftovers(root)


def cut(length: int) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        file.write_bytes(file.read_bytes()[:length])

    return damage


def flip(position: int) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[position % len(data)] ^= 1 << (position % 8)
        file.write_bytes(bytes(data))

    return damage


@pytest.mark.parametrize("name", ["kernel.so", "meta.json", "source.c"])
def test_a_damaged_entry_is_rebuilt(root: Path, name: str) -> None:
    build = Builder()
    file = cache.lookup_or_build(KEY, build).with_name(name)
    size = file.stat().st_size
    damages = [cut(length) for length in range(0, size, max(1, size // 40))]
    damages += [flip(position) for position in range(0, 9 * size, 1 + size // 12)]
    for done, damage in enumerate(damages, start=2):
        damage(file)
        assert cache.lookup_or_build(KEY, build).read_bytes() == CONTENT
        assert build.calls == done
    assert not leftovers(root)


@pytest.mark.parametrize("name", ["kernel.so", "meta.json", "source.c"])
def test_a_missing_file_is_rebuilt(root: Path, name: str) -> None:
    build = Builder()
    cache.lookup_or_build(KEY, build).with_name(name).unlink()
    assert cache.lookup_or_build(KEY, build).is_file()
    assert build.calls == 2


def test_an_entry_under_another_name_is_not_used(root: Path) -> None:
    """As when a cache is copied to a machine whose CPU gives another key."""
    elsewhere = replace(KEY, cpu="another cpu")
    entry = cache.lookup_or_build(elsewhere, Builder(b"wrong")).parent
    entry.rename(root / KEY.digest())
    assert cache.lookup_or_build(KEY, Builder()).read_bytes() == CONTENT


def test_a_file_in_the_place_of_an_entry_is_replaced(root: Path) -> None:
    root.mkdir(mode=0o700)
    (root / KEY.digest()).write_text("not a directory")
    assert cache.lookup_or_build(KEY, Builder()).read_bytes() == CONTENT


def test_the_loser_of_a_race_takes_the_winners_entry(root: Path) -> None:
    loser = Builder()

    def slow(folder: Path) -> None:
        loser(folder)
        cache.lookup_or_build(KEY, Builder())  # another process, while this one still builds

    path = cache.lookup_or_build(KEY, slow)
    assert path == root / KEY.digest() / "kernel.so"
    assert path.read_bytes() == CONTENT and loser.calls == 1
    assert not leftovers(root)


def refused(root: Path, reason: str) -> None:
    """The directory is warned about once and not written to; kernels are built all the same."""
    before = sorted(os.listdir(root)) if root.is_dir() else None
    with pytest.warns(RuntimeWarning, match=f"E603.*{reason}"):
        path = cache.lookup_or_build(KEY, Builder())
    assert path.read_bytes() == CONTENT
    assert root not in path.parents and root.resolve() not in path.resolve().parents
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.lookup_or_build(KEY, Builder()) == path
    assert (sorted(os.listdir(root)) if root.is_dir() else None) == before
    cache.clear()


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_directory_that_others_can_write_is_refused(root: Path, mode: int) -> None:
    root.mkdir()
    root.chmod(mode)
    refused(root, "other users may write")


def test_a_foreign_directory_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: root.stat().st_uid + 1)
    refused(root, "belongs to another user")


def test_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir(mode=0o700)
    root.symlink_to(tmp_path / "target")
    refused(root, "a link")


def test_a_file_is_refused(root: Path) -> None:
    root.write_text("")
    refused(root, "a file")


def test_a_directory_that_cannot_be_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    root = tmp_path / "file" / "cache"
    monkeypatch.setenv("OPENWORK_CACHE_DIR", str(root))
    refused(root, "cannot be created")


def test_an_unwritable_directory_falls_back_and_then_fails(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with (
        pytest.warns(RuntimeWarning, match="cannot be written"),
        pytest.raises(ToolchainError, match=r"E603.*No space left") as caught,
    ):
        cache.lookup_or_build(KEY, Builder())
    assert caught.value.code == "E603"


def test_the_private_directory_goes_with_its_process(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    script = "from openwork.runtime import cache; print(cache.directory())"
    environment = {**os.environ, "OPENWORK_CACHE_DIR": str(tmp_path / "open")}
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    private = Path(answer.stdout.strip())
    assert private.name.startswith("openwork-") and not private.exists()


def test_garbage_is_collected_after_an_hour(root: Path) -> None:
    root.mkdir(mode=0o700)
    old, new = root / ".tmp-old", root / ".tmp-new"
    old.mkdir()
    new.mkdir()
    os.utime(old, (time.time() - 3700,) * 2)
    cache.lookup_or_build(KEY, Builder())
    assert leftovers(root) == [".tmp-new"]


def test_a_process_looks_for_garbage_once_an_hour(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large cache is not listed for every kernel."""
    cache.lookup_or_build(KEY, Builder())
    old = root / ".tmp-old"
    old.mkdir()
    os.utime(old, (time.time() - 3700,) * 2)
    cache.lookup_or_build(replace(KEY, cpu="another"), Builder())
    assert leftovers(root) == [".tmp-old"]
    later = time.monotonic() + 3700
    monkeypatch.setattr(time, "monotonic", lambda: later)
    cache.lookup_or_build(replace(KEY, cpu="a third"), Builder())
    assert not leftovers(root)


def test_size_and_clear_know_only_our_own_files(root: Path) -> None:
    cache.lookup_or_build(KEY, Builder())
    cache.write_note("x", {"a": 1})
    cache.keep_failed("int f( {")
    (root / "thesis.tex").write_text("years of work")
    assert len(cache.entries()) == 1
    assert cache.size() > len(CONTENT)
    assert cache.clear() == 1
    assert os.listdir(root) == ["thesis.tex"]
    assert cache.size() == 0


def test_a_damaged_note_is_no_note(root: Path) -> None:
    facts: dict[str, object] = {"kind": "gcc", "native": ["-march=native"]}
    cache.write_note("x", facts)
    assert cache.read_note("x") == facts
    file = root / "note-x.json"
    whole = file.read_bytes()
    for length in range(0, len(whole) - 1, 7):
        file.write_bytes(whole[:length])
        assert cache.read_note("x") is None
    file.write_bytes(whole.replace(b"gcc", b"gc "))
    assert cache.read_note("x") is None
    assert cache.read_note("never written") is None


KILLED = """
import os, signal
from openwork.runtime import cache
from openwork.runtime.host import toolchain
from openwork.runtime.cache import CacheKey
KEY = CacheKey("int f;", "cc 1.0", ("-O3", "-g"), "cpu a", abi=1)
def build(folder):
    (folder / "kernel.so").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
cache.lookup_or_build(KEY, build)
"""


def test_a_killed_build_does_no_harm(root: Path) -> None:
    died = subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert died.returncode == -signal.SIGKILL
    assert len(leftovers(root)) == 1
    assert cache.lookup_or_build(KEY, Builder()).read_bytes() == CONTENT
    assert cache.collect_garbage(older_than=-1) == 1
    assert not leftovers(root)


RACER = """
import sys
from openwork.runtime.host import library
source = "int answer(void) { return 42; }"
print("ready", flush=True)
sys.stdin.readline()
print(library.load(source).answer())
"""


def kernels() -> list[Path]:
    """The entries of the racers' kernel; the pool of threads is an entry, too."""
    return [e for e in cache.entries() if "answer" in (e / cache.SOURCE).read_text()]


@pytest.mark.needs_cc
def test_processes_race_for_one_key(root: Path) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for racer in racers:
        assert racer.stdout is not None and racer.stdout.readline() == "ready\n"
    answers = []
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    for racer in racers:
        answers.append(racer.communicate(timeout=60)[0])
    assert answers == ["42\n"] * 3
    assert [racer.returncode for racer in racers] == [0] * 3
    assert len(kernels()) == 1
    assert not leftovers(root)


@pytest.mark.needs_cc
def test_a_damaged_library_is_never_loaded(root: Path) -> None:
    """End to end: each process meets a damaged entry, and answers right."""
    script = RACER.replace("sys.stdin.readline()", "")

    def answer() -> str:
        command = [sys.executable, "-c", script]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert answer() == "ready\n42\n"
    (entry,) = kernels()
    good = (entry / "kernel.so").read_bytes()
    for damage in (cut(len(good) - 1), flip(len(good) // 2)):  # others: without a process each
        damage(entry / "kernel.so")
        assert answer() == "ready\n42\n"
        assert (entry / "kernel.so").stat().st_size == len(good)
    shutil.rmtree(entry)
    assert answer() == "ready\n42\n"


def test_a_compiler_without_room_is_no_reason_to_do_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it needs on the way, and what it makes, goes to where there is room; said once."""
    monkeypatch.setattr(cache, "_full", set())
    monkeypatch.setattr(cache, "_warned", set())
    full, folders = tmp_path / "full", []
    monkeypatch.setenv("OPENWORK_CACHE_DIR", str(full))

    def build(folder: Path) -> None:
        folders.append(folder.parent)
        if folder.parent == full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        (folder / cache.LIBRARY).write_bytes(b"code")

    with pytest.warns(RuntimeWarning, match="No space left on device") as seen:
        assert cache.lookup_or_build(KEY, build).read_bytes() == b"code"
        assert cache.lookup_or_build(replace(KEY, source="other"), build).exists()
        assert cache.in_scratch(lambda folder: folder.parent) != full
    assert len(seen) == 1 and folders.count(full) == 1  # it is not tried again


@pytest.mark.skipif(os.name != "posix", reason="a script stands in for a compiler")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_what_a_compiler_says_about_a_full_disk(tmp_path: Path, number: int) -> None:
    script = tmp_path / "cc"
    script.write_text(
        f"#!/bin/sh\necho 'ld: final link failed: {os.strerror(number)}' >&2\nexit 1\n"
    )
    script.chmod(0o755)
    with pytest.raises(OSError, match=os.strerror(number)):
        toolchain.run_compiler((str(script),), tmp_path)


def test_a_compiler_writes_where_the_library_goes(tmp_path: Path) -> None:
    script = tmp_path / "cc"
    script.write_text('#!/bin/sh\necho "$TMPDIR" >&2\nexit 1\n')
    script.chmod(0o755)
    assert toolchain.run_compiler((str(script),), tmp_path) == str(tmp_path)
