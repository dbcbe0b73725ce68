"""Reductions: sums in variables, to which inner sums of the same kind add by themselves."""

from __future__ import annotations

from typing import cast

from openwork.algebra.operators import Op
from openwork.algebra.types import SUPPORTED
from openwork.program import nodes as p
from openwork.program.elements import converted
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import Fn, Nat
from openwork.skeletons.lower.context import Evaluator
from openwork.skeletons.lower.loops import each
from openwork.skeletons.lower.values import Env, Late, Number, Two, Value, View


def reduced(low: Evaluator, late: Late) -> Value:
    """The value of a reduction, in variables that hold it from here on."""
    with low.context.trial():
        element = _settled(low, _any(low, late.view))
    start = _like(low, late.init, element)
    state = _state(low, start)
    op = late.fn.op if isinstance(late.fn, n.Operator) else None
    if op is not None and isinstance(state, Number):
        _accumulate(low, cast(p.Name, state.expr), op, late)
    else:
        each(low.context, late.view, lambda _, v: _step(low, late, state, v), (), indexed=False)
    return state


def _any(low: Evaluator, view: View) -> Value:
    """Some element of an array, of which only the type matters."""
    if view.outer is not None:
        return _any(low, cast(View, _any(low, view.outer)))
    return view.at(_probe(low, view))


def _probe(low: Evaluator, view: View) -> Nat:
    var = low.context.variable(p.Name(low.context.fresh("i")))
    return view.begin + var if view.begin.terms else var


def _settled(low: Evaluator, value: Value) -> Value:
    """An element, of which only the types matter."""
    if isinstance(value, Late):
        with low.context.trial():
            inner = _settled(low, _any(low, value.view))
        return _like(low, value.init, inner)
    if isinstance(value, Two):
        return Two(_settled(low, value.first), _settled(low, value.second))
    return value


def _like(low: Evaluator, init: Value, element: Value) -> Value:
    """The start of a reduction, in the type of the elements if it is a Python number."""
    if isinstance(init, Late):
        init = reduced(low, init)
    if isinstance(init, Two) and isinstance(element, Two):
        return Two(_like(low, init.first, element.first), _like(low, init.second, element.second))
    if not (isinstance(init, Number) and isinstance(element, Number) and init.weak):
        return init
    type = element.expr.type
    return Number(converted(init.expr, type)) if _takes(type, init.expr.type) else init


def _takes(type: str, number: str) -> bool:
    """Whether a Python number becomes one of a type: none becomes a bool, no fraction an integer;
    the checker says the same."""
    return type.startswith("float") or (type != "bool" and not number.startswith("float"))


def _state(low: Evaluator, start: Value) -> Value:
    if isinstance(start, Two):
        return Two(_state(low, start.first), _state(low, start.second))
    expr = low.number(start).expr
    name = p.Name(low.context.fresh("sum"), expr.type)
    low.context.out.append(p.Declare(name, expr))
    return Number(name)


def _accumulate(low: Evaluator, name: p.Name, op: Op, late: Late) -> None:
    """Combine all elements into `name`; inner reductions of the same kind go on with it."""
    reductions: tuple[p.Reduction, ...] = ()
    if late.how != "Seq" and op.identity is not None:
        identity = p.Value(op.identity_of(SUPPORTED[name.type]), name.type)
        reductions = (p.Reduction(name, op, identity),)

    def body(_: Nat, value: Value) -> None:
        inner = value
        if isinstance(inner, Late) and _goes_on(low, inner, name, op):
            _accumulate(low, name, op, inner)
            return
        found = converted(low.number(value).expr, name.type)
        low.context.out.append(p.Set(name, found, op))

    each(low.context, late.view, body, reductions, indexed=False)


def _goes_on(low: Evaluator, inner: Late, name: p.Name, op: Op) -> bool:
    if not isinstance(inner.fn, n.Operator) or inner.fn.op != op or op.identity is None:
        return False
    if inner.how == "Seq" or not isinstance(inner.init, Number):
        return False
    with low.context.trial():
        element = _settled(low, _any(low, inner.view))
    start = low.number(_like(low, inner.init, element)).expr
    same = isinstance(start, p.Value) and start.type == name.type
    return same and start == p.Value(op.identity_of(SUPPORTED[name.type]), name.type)


def _step(low: Evaluator, late: Late, state: Value, element: Value) -> None:
    """One step of a reduction by any function."""
    new = _both(low, late.fn, state, element, late.env)
    held = _named_all(low, new, state)
    _set(low, state, held)


def _both(low: Evaluator, fn: Fn, one: Value, other: Value, env: Env) -> Value:
    match fn:
        case n.Fun(param=param, body=n.Fun() as inner):
            return low.called(inner, other, {**env, param: one})
        case n.Operator(op=op):
            return low.applied(op, [low.number(one), low.number(other)])
    return low.called(fn, Two(one, low.bound(other)), env)


def _named_all(low: Evaluator, value: Value, state: Value) -> Value:
    """The new state, computed before any part of the old one changes."""
    if isinstance(state, Two):
        both = low.pair(value)
        return Two(
            _named_all(low, both.first, state.first), _named_all(low, both.second, state.second)
        )
    expr = low.number(value).expr
    name = p.Name(low.context.fresh("v"), cast(Number, state).expr.type)
    low.context.out.append(p.Declare(name, converted(expr, name.type), fixed=True))
    return Number(name)


def _set(low: Evaluator, state: Value, new: Value) -> None:
    if isinstance(state, Two):
        both = cast(Two, new)
        _set(low, state.first, both.first)
        _set(low, state.second, both.second)
        return
    name = cast(p.Name, cast(Number, state).expr)
    low.context.out.append(p.Set(name, cast(Number, new).expr))
