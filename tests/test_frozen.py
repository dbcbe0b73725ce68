"""Our frozen classes behave as frozen dataclasses do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
import threading
from dataclasses import KW_ONLY, FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest

from openwork.frozen import frozen


@frozen
class Plain:
    """One of ours."""

    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list, compare=False)
    shown: str = field(default="no", repr=False)
    _: KW_ONLY
    last: bool = False


@dataclass(frozen=True)
class Like:
    """What it should be like."""

    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list, compare=False)
    shown: str = field(default="no", repr=False)
    _: KW_ONLY
    last: bool = False


@frozen
class Derived(Plain):
    """With a field more, and one that is computed."""

    more: int = 1
    doubled: int = field(default=0, init=False)
    own: list[int] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.__dict__["doubled"] = 2 * self.size


@frozen(repr=False)
class Quiet:
    x: int = 0


@frozen(eq=False)
class Itself:
    x: int = 0


@frozen
class Own:
    x: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    def __repr__(self) -> str:
        return "own"


@frozen
class Recursive:
    inside: list[Any]


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("a",), {}),
    (("a", 4), {}),
    ((), {"name": "b", "size": 9, "last": True}),
    (("a", 1, [2], "yes"), {"last": True}),
]


@pytest.mark.parametrize(("args", "named"), CALLS)
def test_they_hold_what_a_dataclass_holds(args: Any, named: Any) -> None:
    ours, theirs = Plain(*args, **named), Like(*args, **named)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert repr(ours) == repr(theirs).replace("Like", "Plain")
    assert hash(ours) == hash(theirs)
    assert ours == Plain(*args, **named)
    assert ours != theirs
    for others, by_name in CALLS:
        same = theirs == Like(*others, **by_name)
        assert (ours == Plain(*others, **by_name)) == same


@pytest.mark.parametrize("wrong", [((), {}), (("a", 1, [], "x", True), {}), (("a",), {"none": 1})])
def test_wrong_arguments(wrong: Any) -> None:
    args, named = wrong
    with pytest.raises(TypeError) as ours:
        Plain(*args, **named)
    with pytest.raises(TypeError) as theirs:
        Like(*args, **named)
    assert str(ours.value) == str(theirs.value).replace("Like", "Plain")


def test_fields_are_filled_anew() -> None:
    assert Plain("a").parts is not Plain("a").parts
    made = Derived("a", 5)
    assert (made.doubled, made.more, made.own) == (10, 1, [])
    assert made.own is not Derived("a").own
    assert replace(Plain("a"), size=8) == Plain("a", 8)
    assert [f.name for f in fields(Derived)][-3:] == ["more", "doubled", "own"]


def test_nothing_is_assigned() -> None:
    for name in ("name", "new"):
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(Plain("a"), name, 1)
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
        del Plain("a").name  # type: ignore[misc]


def test_equality() -> None:
    assert Derived("a") != Plain("a")
    assert Plain("a", parts=[1]) == Plain("a", parts=[2]), "it is not compared"
    assert Itself() != Itself() and len({Itself(), Itself()}) == 2
    assert Own(1) == Own(2) and repr(Own(1)) == "own"
    assert hash(Own(1)) == hash(Own(1)) != hash(Own(2))
    assert "object at" in repr(Quiet()) and Quiet(1) == Quiet(1) != Quiet(2)


def test_one_in_itself_is_shown() -> None:
    one = Recursive([])
    one.inside.append(one)
    assert repr(one) == "Recursive(inside=[...])"


def test_the_signature_is_known_before_the_first_call() -> None:
    assert str(inspect.signature(Plain)) == str(inspect.signature(Like)).removesuffix(" -> None")
    match Plain("a", 4):
        case Plain(name, size):
            assert (name, size) == ("a", 4)


def test_copies() -> None:
    one = Derived("a", parts=[1])
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):  # noqa: S301
        assert other == one and type(other) is Derived and other.doubled == 6


def test_first_calls_of_many_threads() -> None:
    @frozen
    class New:
        x: int
        y: int = 1

    made: list[New] = []
    threads = [threading.Thread(target=lambda n=n: made.append(New(n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.x for one in made} == set(range(8)) and all(one.y == 1 for one in made)


def test_importing_compiles_few_methods() -> None:
    """There were 1,600, which took longer than all the rest."""
    script = """if True:
        import builtins, dataclasses
        count, run = 0, exec
        def counted(*args):
            global count
            count += 1
            return run(*args)
        dataclasses.exec = counted
        import openwork
        print(count)"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 300
