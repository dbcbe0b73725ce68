"""Programs of patterns as statements of index notation: arrays become formulas of variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from openwork.algebra.types import SUPPORTED
from openwork.errors import PatternError
from openwork.format.formats import Format
from openwork.index import nodes as index
from openwork.index.terms import Term, Variable, variable
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import ArrayType, Expr, Nat, Scalar, Signature, Type
from openwork.tensor.create import placeholder
from openwork.tensor.statement import Statement, assign


def refuse(message: str, hint: str | None = None) -> NoReturn:
    """What is no statement, or no program."""
    raise PatternError(message, code="E709", hint=hint)


@dataclass(frozen=True)
class _Array:
    """An array of which only formulas are known: its element at an index variable."""

    at: Callable[[Variable], Any]


def statement_of(
    signature: Signature, result: Type, formats: Mapping[str, Format] | None = None
) -> Statement:
    """The statement that a program is, over placeholders named like its parameters.

    Raises:
        PatternError: E709 if it is none.
    """
    work = _ToStatement(signature, result, formats or {})
    return work.statement()


class _ToStatement:
    def __init__(self, signature: Signature, result: Type, formats: Mapping[str, Format]) -> None:
        self.signature, self.result, self.formats = signature, result, formats
        self.count = 0
        self.variables: dict[str, Variable] = {}

    def statement(self) -> Statement:
        s = self.signature
        env = {k: self._param(k, t) for k, t in zip(s.params, s.types, strict=True)}
        value, used = self.expr(s.body, env), list[Variable]()
        while isinstance(value, _Array):
            used.append(self.fresh())
            value = value.at(used[-1])
        if not isinstance(value, Term):
            refuse("the result of a statement is an array of numbers")
        name = next(k for k in ("y", "result", "r", "out") if k not in s.params)
        result = placeholder(name, len(used), dtype=_scalar(self.result))
        return assign(result[tuple(used)] if used else result[()], value)

    def fresh(self) -> Variable:
        self.count += 1
        return variable("ijklmnop"[self.count - 1] if self.count < 9 else f"i{self.count}")

    def _param(self, name: str, type: Type) -> Any:
        order, element = 0, type
        while isinstance(element, ArrayType) and not element.var:
            order, element = order + 1, element.element
        if not isinstance(element, Scalar):
            refuse(f"{name} has the type {type}, which is that of no dense tensor",
                    "a dense program has a statement; sk.sparsify makes it sparse")  # fmt: skip
        tensor = placeholder(name, order, self.formats.get(name), element.name)

        def at(known: tuple[Variable, ...]) -> Any:
            if len(known) == order:
                return tensor[known]
            return _Array(lambda v: at((*known, v)))

        return at(())

    def expr(self, e: Expr, env: Mapping[str, Any]) -> Any:
        match e:
            case n.Var(name=name):
                return env[name]
            case n.Literal(value=value, type=type):
                return value if not type else SUPPORTED[type].type(value)
            case n.OfNat(nat=value):
                return value.constant if value.constant is not None else self._variable(value)
            case n.Pair(first=first, second=second):
                return self.expr(first, env), self.expr(second, env)
            case n.Part(pair=pair, which=which):
                return self.expr(pair, env)[which - 1]
            case n.Apply(op=op, args=args):
                return op(*(self.expr(a, env) for a in args))
            case n.At(array=array, index=n.OfNat(nat=value)):
                return self.expr(array, env).at(self._variable(value))
            case n.Zip(first=first, second=second):
                one, other = self.expr(first, env), self.expr(second, env)
                return _Array(lambda v: (one.at(v), other.at(v)))
            case n.Generate(fn=inner):
                return _Array(lambda v: self._generated(inner, v, env))
            case n.Call(fn=fn, arg=arg):
                return self.call(fn, self.expr(arg, env), env)
        refuse(f"{e} is nothing that index notation has")

    def _variable(self, value: Nat) -> Variable:
        found = self.variables.get(str(value))
        return found if found is not None else refuse(f"the index {value} is no index variable")

    def _generated(self, fn: n.NFun, v: Variable, env: Mapping[str, Any]) -> Any:
        self.variables[v.name] = v
        return self.expr(cast(Expr, n.substituted(fn.body, {fn.param: n.named(v.name)})), env)

    def call(self, fn: n.Fn, value: Any, env: Mapping[str, Any]) -> Any:
        match fn:
            case n.Fun(param=param, body=body):
                return self.expr(cast(Expr, body), {**env, param: value})
            case n.Operator(op=op):
                return op(*value) if op.arity == 2 else op(value)
            case n.Compose(fns=fns):
                for each in fns:
                    value = self.call(each, value, env)
                return value
            case n.Map(fn=inner):
                return _Array(lambda v: self.call(inner, value.at(v), env))
            case n.Transpose():
                return _Array(lambda j: _Array(lambda i: value.at(i).at(j)))
            case n.Reduce(fn=n.Operator(op=op), init=n.Literal(value=start)) if (
                op.identity == start and op.associates
            ):
                var = self.fresh()
                body = value.at(var)
                return Term(index.Reduce(op, var.node, body.node))
        refuse(f"{fn} is nothing that index notation has")


def _scalar(type: Type) -> str:
    while isinstance(type, ArrayType):
        type = type.element
    return str(type)
