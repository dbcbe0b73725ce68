"""The doctor's report and the command line around it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from openwork.runtime import cache
from openwork.runtime.host import toolchain
from openwork.ui import doctor
from openwork.ui.cli import main


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("OPENWORK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(toolchain, "_found", {})
    return tmp_path / "cache"


@pytest.mark.needs_cc
def test_a_healthy_machine(own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for word in ("python", "compiler", "flags", "cpu", "openmp", "trial", "threads", "extras"):
        assert f"\n{word} " in text
    assert "(used)" in text and "right answer" in text and str(own_cache) in text
    assert "-ffast-math" not in text


def test_a_machine_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENWORK_CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "clang: there is no such program" in text
    assert f"to fix it: {toolchain.HOW_TO_GET_ONE}" in text
    assert text.endswith("1 to fix\n")


def test_a_named_compiler_that_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENWORK_CC", "/nowhere/cc")
    text = doctor.report()
    assert "/nowhere/cc: there is no such program" in text
    assert "to fix it: correct OPENWORK_CC, or unset it" in text


@pytest.mark.needs_cc
def test_each_problem_has_its_remedy(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_cache.mkdir()
    own_cache.chmod(0o777)
    monkeypatch.setenv("OPENWORK_NUM_THREADS", "many")
    with pytest.warns(RuntimeWarning, match="E603"):
        findings = doctor.examine()
    problems = {finding.topic: finding.remedy for finding in findings if finding.remedy}
    assert f"chmod 700 {own_cache}" in problems["cache"]
    assert "use 1 for serial kernels" in problems["threads"]


def test_the_cache_command(capsys: pytest.CaptureFixture[str], own_cache: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "kernel.so").write_bytes(b"x")

    cache.lookup_or_build(cache.CacheKey("int f;", "cc", (), "cpu"), build)
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == f"{own_cache}: 1 kernels, 0.0 MB\n"
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"1 kernels removed from {own_cache}\n"
    assert cache.entries() == []


def test_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["no-such-command"], ["cache", "burn"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2


def test_python_m_openwork() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "openwork", "cache"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert "kernels" in answer.stdout
