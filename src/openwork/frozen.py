"""Frozen dataclasses that share their methods.

`dataclass` writes and compiles six methods for each frozen class, which took half of
`import openwork`. Here all classes share one set, and each compiles its `__init__` when it is first
called. They compare, hash and show the fields that `dataclass` would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from inspect import Signature, signature
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, NoReturn, TypeVar, dataclass_transform, overload

T = TypeVar("T")
_Key = Callable[[Any], Any]
_keys: dict[type, _Key] = {}


class _Factory:
    """In place of an argument that a factory makes, as signatures show it."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


@overload
def frozen(cls: type[T], /) -> type[T]: ...


@overload
def frozen(*, repr: bool = True, eq: bool = True) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: Any = None, /, *, repr: bool = True, eq: bool = True) -> Any:
    """Make `cls` what `dataclass(frozen=True)` would; methods that it has itself stay.

    `repr`: show the fields. `eq`: compare and hash them; objects are equal only to themselves
    without it.

    >>> @frozen
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(1, 0), hash(Point(1)) == hash(Point(1))
    (Point(x=1, y=0), True, True)
    >>> Point(1).x = 2
    Traceback (most recent call last):
    dataclasses.FrozenInstanceError: cannot assign to field 'x'
    """

    def made(cls: type) -> type:
        own = cls.__dict__
        methods: dict[str, Any] = {"__setattr__": _assign, "__delattr__": _delete}
        if "__init__" not in own:
            methods |= {"__init__": _first_call(cls), "__signature__": _Parameters(cls)}
        if repr:
            methods["__repr__"] = _show
        if eq:
            methods |= {"__eq__": _equal, "__hash__": _hash}
        dataclass(init=False, repr=False, eq=False)(cls)
        for name, method in methods.items():
            # A class with an `__eq__` of its own gets `__hash__ = None` from Python.
            if name not in own or (name == "__hash__" and own[name] is None):
                setattr(cls, name, method)
        return cls

    return made if cls is None else made(cls)


def _assign(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _key(cls: Any) -> _Key:
    """The fields that decide whether two objects of a class are equal."""
    known = _keys.get(cls)
    if known is None:
        names = [f.name for f in fields(cls) if f.compare]
        known = _keys[cls] = attrgetter(*names) if names else lambda _: ()
    return known


def _equal(self: object, other: object) -> Any:
    if self is other:
        return True
    kind = type(self)
    if kind is not type(other):
        return NotImplemented
    key = _keys.get(kind) or _key(kind)
    return key(self) == key(other)


def _hash(self: object) -> int:
    return hash(_key(type(self))(self))


@recursive_repr()
def _show(self: Any) -> str:
    held = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({held})"


def _first_call(cls: Any) -> Callable[..., None]:
    """An `__init__` that compiles the real one and takes its place."""

    def __init__(self: object, *args: Any, **named: Any) -> None:
        cls.__init__ = init = _compiled(cls)
        init(self, *args, **named)

    return __init__


class _Parameters:
    """The signature of a class whose `__init__` is not compiled yet."""

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def __get__(self, _: object, owner: type) -> Signature:
        if owner is not self.cls:  # which may have an `__init__` of its own
            raise AttributeError
        _, *parameters = signature(_compiled(owner)).parameters.values()
        return Signature(parameters)


def _compiled(cls: Any) -> Callable[..., None]:
    """The `__init__` of a class: it fills the fields, which no assignment may."""
    names: dict[str, Any] = {"FACTORY": _FACTORY}
    given: list[str] = []
    named: list[str] = []
    lines = ["held = self.__dict__"]
    for f in fields(cls):
        if f.init:
            (named if f.kw_only else given).append(_parameter(f, names))
            if f.default_factory is not MISSING:
                lines.append(f"if {f.name} is FACTORY: {f.name} = make_{f.name}()")
            lines.append(f"held[{f.name!r}] = {f.name}")
        elif f.default_factory is not MISSING:
            names[f"make_{f.name}"] = f.default_factory
            lines.append(f"held[{f.name!r}] = make_{f.name}()")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(["self", *given, *(["*", *named] if named else [])])
    body = "\n    ".join(lines)
    exec(f"def __init__({parameters}):\n    {body}", names)  # noqa: S102 (of names of our own fields)
    init: Callable[..., None] = names["__init__"]
    init.__annotations__ = {f.name: f.type for f in fields(cls) if f.init} | {"return": None}
    init.__qualname__ = f"{cls.__qualname__}.__init__"  # as errors call it
    return init


def _parameter(f: Field[Any], names: dict[str, Any]) -> str:
    """A parameter with its default, which `names` gets."""
    if f.default_factory is not MISSING:
        names[f"make_{f.name}"] = f.default_factory
        return f"{f.name}=FACTORY"
    if f.default is not MISSING:
        names[f"default_{f.name}"] = f.default
        return f"{f.name}=default_{f.name}"
    return f.name
