"""What all tests share: golden files, a kernel cache of their own, real data, markers."""

from __future__ import annotations

import difflib
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator, Hashable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests import tinycc

from openwork.runtime.gpu import emulator
from openwork.runtime.host import launch
from openwork.runtime.host.library import load
from openwork.runtime.host.threads import set_num_threads
from openwork.tensor.eager import KERNELS
from openwork.tensor.kernel import machine

REPO = Path(__file__).resolve().parent.parent
GOLDEN = REPO / "tests" / "golden"
CACHE = "OPENWORK_CACHE_DIR"
SANITIZED_THREADS = 3
# Most of the time goes into compiling kernels, so that only tests marked `optimized` compile them
# as users do; TinyCC compiles most of the others. `make test-optimized` leaves all to gcc.
QUICK, AS_USERS_DO = os.environ.get("OPENWORK_TEST_OPTIMIZE", "-O0"), "-O3"
WITH_THREADS = "-Og"  # by gcc: half the time of -O1, and no slower than -O0

# Compiling makes trees, which are no cycles: looking for some as often as Python does by default
# takes a twelfth of its time.
GARBAGE = 20_000, 20, 20

# Kernels are compiled inside examples, so no deadline; in CI the same cases every time.
settings.register_profile(
    "openwork", deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("openwork")

_our_cache = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the files in tests/golden instead of comparing with them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep the tests off the user's kernel cache; xdist's workers inherit the variable.

    What is emulated is compiled for longer than it runs.
    A shell has its background jobs ignore Ctrl-C, and the tests of it would hear nothing.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(*GARBAGE)
    # Schedules as on any machine; `OPENWORK_TEST_GATHERS=1` as on one that gathers fast.
    fast = os.environ.get("OPENWORK_TEST_GATHERS") == "1"
    machine.gathers_are_fast = lambda: fast
    machine.has_masked_gathers = lambda: fast
    machine.selects_stay = lambda: False
    emulator.OPTIMIZE = os.environ.get("OPENWORK_EMULATED_OPTIMIZE", "-O0")
    if QUICK == tinycc.LEVEL:
        tinycc.install()
    if CACHE not in os.environ:
        os.environ[CACHE] = config.stash[_our_cache] = tempfile.mkdtemp(prefix="openwork-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    made = config.stash.get(_our_cache, None)
    if made is not None:
        os.environ.pop(CACHE, None)
        shutil.rmtree(made, ignore_errors=True)


def _has_compiler() -> bool:
    chosen = os.environ.get("OPENWORK_CC")
    names = chosen.split()[:1] if chosen else ["cc", "gcc", "clang"]
    return any(shutil.which(name) for name in names)


def _find_data() -> Path | None:
    named = os.environ.get("OPENWORK_DATA")
    folder = Path(named) if named else REPO.parent / "shared" / "data"
    return folder if folder.is_dir() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "layouts" not in config.option.markexpr:  # hours, which nobody asked for
        whole = [item for item in items if item.get_closest_marker("layouts")]
        config.hook.pytest_deselected(items=whole)
        items[:] = [item for item in items if item not in whole]
    cc, data = _has_compiler(), _find_data()
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "golden" in fixtures:
            item.add_marker(pytest.mark.golden)
        if "data_dir" in fixtures:
            item.add_marker(pytest.mark.needs_data)
        if item.get_closest_marker("needs_cc") and not cc:
            item.add_marker(pytest.mark.skip(reason=f"{item.name}: no C compiler (cc, gcc, clang)"))
        if item.get_closest_marker("needs_data") and data is None:
            item.add_marker(pytest.mark.skip(reason=f"{item.name}: no real data (OPENWORK_DATA)"))


def pytest_collection_finish() -> None:
    """What collecting made lives to the end: the garbage collector need not look at it again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """The optimization level of the kernels of a test, and of its fixtures."""
    level = AS_USERS_DO if item.get_closest_marker("optimized") else QUICK
    if level == tinycc.LEVEL and item.get_closest_marker("threads"):
        level = WITH_THREADS
    # The default itself, so that it reaches whoever has imported the function by its name.
    load.__kwdefaults__["optimize"] = level
    return (yield)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(text, "spmv.c")` compares `text` with tests/golden/spmv.c."""
    update = request.config.getoption("--update-golden")

    def compare(text: str, name: str) -> None:
        file = GOLDEN / name
        text = text.rstrip("\n") + "\n"
        if update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        if not file.exists():
            pytest.fail(f"tests/golden/{name} does not exist; `make golden` writes it", False)
        diff = difflib.unified_diff(
            file.read_text(encoding="utf-8").splitlines(),
            text.splitlines(),
            f"tests/golden/{name}",
            "emitted now",
            lineterm="",
        )
        lines = list(diff)
        if lines:
            remedy = "If the change is meant: `make golden`, and say why in the commit."
            pytest.fail("\n".join([*lines, remedy]), pytrace=False)

    return compare


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real matrices and tensors: $OPENWORK_DATA, else ../shared/data."""
    folder = _find_data()
    if folder is None:  # the marker has skipped every test that asks for this by name
        pytest.skip("no real data (OPENWORK_DATA)")
    return folder


@pytest.fixture(scope="session")
def data_file(data_dir: Path) -> Callable[[str], Path]:
    """`data_file("cora.mtx.gz")` is the path of that file; the test is skipped without it."""

    def find(name: str) -> Path:
        if not (data_dir / name).is_file():
            pytest.skip(f"no real data: {name} is missing")
        return data_dir / name

    return find


_compared: dict[Hashable, Any] = {}


@pytest.fixture
def compared_with_the_reference(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every call compares its result with the reference evaluator's.

    Kernels that do are kept apart: others that are kept between tests must not slow down, and those
    of other tests compare nothing.
    """
    monkeypatch.setenv("OPENWORK_CHECK", "1")
    monkeypatch.setattr(KERNELS, "_kernels", _compared)
    KERNELS.losses += 1
    yield
    KERNELS.losses += 1


@pytest.fixture(autouse=True, scope="session")
def _sanitized() -> Iterator[None]:
    """Under `make sanitize`, build kernels with ASan and UBSan, and give small ones threads."""
    if os.environ.get("OPENWORK_SANITIZE") != "1":
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(load.__kwdefaults__, "sanitize", ("address", "undefined"))
        patch.setattr(launch, "SERIAL_BELOW", -1)
        set_num_threads(SANITIZED_THREADS)
        yield
    set_num_threads(None)
