"""What a program means, spelled out over nested Python lists: slow, direct, and the tests' oracle.

Arrays are lists, pairs are tuples, numbers are NumPy's; nothing is flattened, fused or simplified.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, cast

import numpy as np

from openwork.errors import InternalError
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.algebra import mentions
from openwork.skeletons.language.nodes import (
    ArrayType,
    Expr,
    Fn,
    Nat,
    PairType,
    Scalar,
    Signature,
    Type,
)

Env = Mapping[str, Any]


def evaluate(signature: Signature, result: Type, data: Env, nats: Mapping[str, int]) -> Any:
    """The result for data as nested lists, of the type `result`."""
    env = {
        name: cast_to(data[name], type, _Meaning(dict(nats), data))
        for name, type in zip(signature.params, signature.types, strict=True)
    }
    work = _Meaning(dict(nats), env)
    with np.errstate(all="ignore"):
        return cast_to(work.expr(signature.body, env), result, work)


def cast_to(value: Any, type: Type, work: _Meaning) -> Any:
    """A value in a type: its lengths must be those of the type."""
    match type:
        case Scalar(name=name):
            return np.dtype(name).type(value)
        case PairType(first=first, second=second):
            return cast_to(value[0], first, work), cast_to(value[1], second, work)
        case ArrayType(length=length):
            count = work.nat(length, {})
            if count != len(value):
                raise InternalError(f"an array of {len(value)} elements is no {type}")
            rows = _Rows(cast_to(v, type.at(n.nat(k)), work) for k, v in enumerate(value))
            inner = type.element if not value else Scalar("bool")
            if isinstance(inner, ArrayType) and not (type.var and mentions(inner.length, type.var)):
                rows.width = work.nat(inner.length, {})
            return rows
    raise InternalError(f"{type} is no type")


class _Rows(list[Any]):
    """An array that knows how long its rows are, even if it has none."""

    width = 0


def _like(value: Any, part: list[Any]) -> _Rows:
    """A part of an array, whose rows are as long."""
    made = _Rows(part)
    made.width = getattr(value, "width", 0)
    return made


class _Meaning:
    def __init__(self, nats: dict[str, int], params: Env) -> None:
        self.nats, self.params = nats, params

    def nat(self, value: Nat, env: Env) -> int:
        return sum(
            times * prod([self.atom(a, env) for a in monomial]) for monomial, times in value.terms
        )

    def atom(self, a: n.Atom, env: Env) -> int:
        match a:
            case n.Named(name=name):
                return self.nats[name]
            case n.ToNat(expr=expr):
                return int(self.expr(expr, {**self.params, **env}))
            case n.Choice(condition=c, then=then, otherwise=otherwise):
                left, right = self.nat(c.left, env), self.nat(c.right, env)
                test = {"<": left < right, "<=": left <= right, "==": left == right}[c.sign]
                return self.nat(then if test else otherwise, env)
            case n.Quotient(sign=sign, left=left, right=right):
                one, other = self.nat(left, env), self.nat(right, env)
                return one // other if sign == "/" else one % other
            case n.Sum(var=var, low=low, high=high, body=body):
                span = range(self.nat(low, env), self.nat(high, env))
                each = (cast(Nat, n.substituted(body, {var: n.nat(k)})) for k in span)
                return sum(self.nat(value, env) for value in each)
        raise InternalError(f"{a} is no natural")

    def expr(self, e: Expr, env: Env) -> Any:
        match e:
            case n.Var(name=name):
                return env[name]
            case n.Literal(value=value, type=type):
                return np.dtype(type).type(value) if type else value
            case n.OfNat(nat=value):
                return self.nat(value, env)
            case n.Pair(first=first, second=second):
                return self.expr(first, env), self.expr(second, env)
            case n.Part(pair=pair, which=which):
                return self.expr(pair, env)[which - 1]
            case n.Apply(op=op, args=args):
                return self.op(op, [self.expr(a, env) for a in args])
            case n.At(array=array, index=index):
                place = int(self.expr(index, env))
                if place < 0:
                    raise IndexError(place)
                return self.expr(array, env)[place]
            case n.Zip(first=first, second=second):
                return list(zip(self.expr(first, env), self.expr(second, env), strict=True))
            case n.Generate(length=length, fn=fn):
                count = self.nat(length, env)
                bodies = (n.substituted(fn.body, {fn.param: n.nat(k)}) for k in range(count))
                return [self.expr(cast(Expr, body), env) for body in bodies]
            case n.Noted(expr=inner, type=type):
                value = self.expr(inner, env)
                return np.dtype(type.name).type(value) if isinstance(type, Scalar) else value
            case n.Call(fn=fn, arg=arg):
                return self.call(fn, self.expr(arg, env), env)
        raise InternalError(f"{e} has no meaning")

    def op(self, op: n.Op, args: list[Any]) -> Any:
        value = op.ufunc(*args)
        return value.item() if all(isinstance(a, int | float) for a in args) else value[()]

    def call(self, fn: Fn, value: Any, env: Env) -> Any:
        match fn:
            case n.Fun(param=param, body=body):
                return self.expr(cast(Expr, body), {**env, param: value})
            case n.Operator(op=op):
                return self.op(op, list(value) if op.arity == 2 else [value])
            case n.Compose(fns=fns):
                for each in fns:
                    value = self.call(each, value, env)
                return value
            case n.Map(fn=inner):
                rows = _Rows(self.call(inner, v, env) for v in value)
                if [len(r) if isinstance(r, list) else -1 for r in rows] == [
                    len(r) if isinstance(r, list) else -1 for r in value
                ]:
                    rows.width = getattr(value, "width", 0)
                return rows
            case n.Reduce(fn=inner, init=init):
                state = self.expr(init, env)
                for v in value:
                    state = self.both(inner, state, v, env)
                return state
            case n.Split(size=size):
                step = self.nat(size, env)
                rows = _Rows(_like(value, value[k : k + step]) for k in range(0, len(value), step))
                rows.width = step
                return rows
            case n.Join():
                return [v for row in value for v in row]
            case n.Transpose():
                width = max([getattr(value, "width", 0), *map(len, value)])
                return [[row[k] for row in value if k < len(row)] for k in range(width)]
            case n.Slide(size=size, step=step):
                wide, far = self.nat(size, env), self.nat(step, env)
                rows = _Rows(
                    _like(value, value[k : k + wide]) for k in range(0, len(value) - wide + 1, far)
                )
                rows.width = wide
                return rows
        raise InternalError(f"{fn} has no meaning")

    def both(self, fn: Fn, one: Any, other: Any, env: Env) -> Any:
        match fn:
            case n.Fun(param=param, body=n.Fun() as inner):
                return self.call(inner, other, {**env, param: one})
            case n.Operator(op=op):
                return self.op(op, [one, other])
        return self.call(fn, (one, other), env)
