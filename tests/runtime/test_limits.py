"""What control groups let a process take, in made-up trees of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from openwork.runtime import limits
from openwork.runtime.cgroups import groups
from openwork.runtime.limits import memory_left, memory_total, threads_left

GIB = 1 << 30
UNLIMITED = 9223372036854771712  # as version 1 writes it


@pytest.fixture(autouse=True)
def _a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "installed", lambda: 64 * GIB)
    monkeypatch.setattr(limits, "_of_process", lambda process: iter(()))
    limits._limited_now.cache_clear()


def machine(root: Path, membership: str, mounts: str, files: dict[str, str]) -> Path:
    """A process in control groups; `{}` in the text stands for where they are mounted."""
    process = root / "proc"
    process.mkdir()
    (process / "cgroup").write_text(membership)
    (process / "mountinfo").write_text(
        mounts.format(*[root / "sys fs"] * 4).replace("s f", "s\\040f")
    )
    for name, text in files.items():
        path = root / "sys fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable: {40 * GIB // 1024} kB\n")
    return process


def left(process: Path) -> int | None:
    return memory_left(process, process.parent / "meminfo")


V2 = "30 23 0:26 / {} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
OTHER = "25 30 0:23 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"


def group2(
    at: str, most: object, taken: int, high: object = "max", stat: str = ""
) -> dict[str, str]:
    return {
        f"{at}memory.max": f"{most}\n",
        f"{at}memory.high": f"{high}\n",
        f"{at}memory.current": f"{taken}\n",
        f"{at}memory.stat": stat or "anon 5\nfile 0\ninactive_file 0\nactive_file 0\n",
    }


def test_without_groups_the_machine_counts(tmp_path: Path) -> None:
    process = machine(tmp_path, "0::/\n", OTHER, {})
    assert left(process) == 40 * GIB and memory_total(process) == 64 * GIB
    assert groups("memory", tmp_path / "nothing") == ()


@pytest.mark.parametrize(
    ("files", "free", "total"),
    [
        (group2("a/b/", 4 * GIB, GIB), 3 * GIB, 4 * GIB),
        (group2("a/b/", "max", GIB), 40 * GIB, 64 * GIB),
        (group2("a/b/", "max", GIB) | group2("a/", 2 * GIB, GIB), GIB, 2 * GIB),  # of the one above
        (group2("a/b/", 2 * GIB, GIB) | group2("a/", 9 * GIB, 9 * GIB), 0, 2 * GIB),
        (group2("a/b/", 4 * GIB, GIB, high=2 * GIB), GIB, 2 * GIB),
        (group2("a/b/", 4 * GIB, 5 * GIB), 0, 4 * GIB),
        # Pages of files make room, as far as they are counted.
        (
            group2("a/b/", 4 * GIB, 3 * GIB, stat=f"inactive_file {GIB}\nactive_file 9\n"),
            2 * GIB + 9,
            4 * GIB,
        ),
        (group2("a/b/", 4 * GIB, GIB, stat=f"inactive_file {9 * GIB}\n"), 4 * GIB, 4 * GIB),
        ({"a/b/memory.max": "nonsense"}, 40 * GIB, 64 * GIB),
        (group2("a/b/", 900 * GIB, GIB), 40 * GIB, 64 * GIB),  # more than the machine has
    ],
)
def test_version_2(tmp_path: Path, files: dict[str, str], free: int, total: int) -> None:
    process = machine(tmp_path, "0::/a/b\n", OTHER + V2, files)
    assert (left(process), memory_total(process)) == (free, total)


def test_a_container_sees_its_own_part_of_the_hierarchy(tmp_path: Path) -> None:
    """Mounted is the container's group alone, and its path is told from the root of the host."""
    mounts = OTHER + V2.replace("0:26 /", "0:26 /docker/9f")
    process = machine(tmp_path, "0::/docker/9f/job\n", mounts, group2("job/", 4 * GIB, GIB))
    assert left(process) == 3 * GIB
    (process / "cgroup").write_text("0::/../elsewhere\n")
    limits._limited_now.cache_clear()
    assert left(process) == 40 * GIB
    (tmp_path / "sys fs" / "memory.max").write_text(f"{2 * GIB}")
    (tmp_path / "sys fs" / "memory.current").write_text("0")
    limits._limited_now.cache_clear()
    assert left(process) == 2 * GIB


def test_version_1(tmp_path: Path) -> None:
    mounts = OTHER + (
        "36 35 0:31 / {}/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "37 35 0:34 / {}/memory rw shared:9 - cgroup cgroup rw,memory\n"
        "38 35 0:35 / {}/pids rw - cgroup cgroup rw,pids\n"
    )
    stat = f"inactive_file 7\ntotal_inactive_file {GIB}\ntotal_active_file 0\n"
    process = machine(
        tmp_path,
        "9:pids:/\n5:memory:/a/b\n2:cpu,cpuacct:/c\n0::/\n",
        mounts,
        {
            "memory/a/b/memory.limit_in_bytes": f"{UNLIMITED}\n",
            "memory/a/b/memory.usage_in_bytes": f"{GIB}\n",
            "memory/a/memory.limit_in_bytes": f"{6 * GIB}\n",
            "memory/a/memory.usage_in_bytes": f"{5 * GIB}\n",
            "memory/a/memory.stat": stat,
            "memory/memory.limit_in_bytes": f"{UNLIMITED}\n",
            "pids/pids.current": "3\n",
        },
    )
    assert (left(process), memory_total(process)) == (2 * GIB, 6 * GIB)
    assert threads_left(process) is None
    (tmp_path / "sys fs/pids/pids.max").write_text("10\n")
    assert threads_left(process) == 7
    # A limit from where nobody sees it.
    folder = tmp_path / "sys fs/memory/a/b"
    (folder / "memory.stat").write_text(f"hierarchical_memory_limit {3 * GIB}\n")
    limits._limited_now.cache_clear()
    assert memory_total(process) == 3 * GIB and left(process) == 2 * GIB


def test_limits_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    resource = pytest.importorskip("resource")
    page = resource.getpagesize()
    (tmp_path / "statm").write_text("1000 500 100 1 0 300 0\n")
    known = {resource.RLIMIT_AS: 5000 * page, resource.RLIMIT_DATA: 1200 * page}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (known[kind], -1))
    assert list(limits._of_process(tmp_path)) == [4000 * page, 900 * page]
    known.update(dict.fromkeys(known, resource.RLIM_INFINITY))
    assert list(limits._of_process(tmp_path)) == []
