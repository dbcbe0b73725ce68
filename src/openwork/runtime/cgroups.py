"""The control groups of this process: where Linux states a container's limits.

Limits of all ancestors count too, up to where the hierarchy is mounted. A controller, such as
memory, is in the one hierarchy of version 2 or in one of version 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath

from openwork.frozen import frozen

PROCESS = Path("/proc/self")
_OCTAL = re.compile(r"\\([0-7]{3})")  # how spaces in paths are escaped


@frozen
class Group:
    """A control group: its directory, and the version of its hierarchy."""

    path: Path
    version: int

    def number(self, name: str) -> int | None:
        """The number in one of its files; None if there is none, or the word "max"."""
        try:
            return int((self.path / name).read_text())
        except (OSError, ValueError):
            return None

    def numbers(self, name: str) -> Mapping[str, int]:
        """The numbers in a file of lines such as `inactive_file 4096`."""
        try:
            words = (self.path / name).read_text().split()
            return dict(zip(words[::2], map(int, words[1::2]), strict=True))
        except (OSError, ValueError):
            return {}


def groups(controller: str, process: Path = PROCESS) -> tuple[Group, ...]:
    """The groups whose `controller` limits a process, its own first."""
    try:
        # Processes move between groups, mounts stay: so only the short file is read each time.
        return _groups(controller, (process / "cgroup").read_text(), process)
    except OSError:
        return ()


@lru_cache(maxsize=16)
def _groups(controller: str, membership: str, process: Path) -> tuple[Group, ...]:
    found: list[Group] = []
    mounts = (process / "mountinfo").read_text()
    for line in membership.splitlines():
        number, names, path = line.split(":", 2)
        version = 2 if number == "0" and not names else 1
        if version == 2 or controller in names.split(","):
            for root, mount in _mounts(mounts, version, controller):
                found += (Group(folder, version) for folder in _upwards(path, root, mount))
    return tuple(found)


def _mounts(mounts: str, version: int, controller: str) -> Iterator[tuple[str, Path]]:
    """Which part of a hierarchy is mounted, and where."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, *_, options = after.split(" ", 2)
        has_it = controller in options.split(" ")[-1].split(",")
        if kind == "cgroup2" if version == 2 else kind == "cgroup" and has_it:
            root, mount = (_OCTAL.sub(_character, word) for word in before.split(" ")[3:5])
            yield root, Path(mount)


def _character(match: re.Match[str]) -> str:
    return chr(int(match[1], 8))


def _upwards(path: str, root: str, mount: Path) -> list[Path]:
    """The directories of a group and its ancestors, as far as they are mounted.

    A container may see only its own part of the hierarchy, under paths of the whole.
    """
    inside = PurePosixPath(path)
    known = inside.is_relative_to(root) and ".." not in inside.parts
    parts = inside.relative_to(root).parts if known else ()
    folders = [mount.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]
    return [folder for folder in folders if folder.is_dir()]
