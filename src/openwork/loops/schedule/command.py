"""Schedules as data: commands with their arguments, from Python values or text, and back."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from enum import Enum
from typing import Any, TypeVar, cast

from openwork.algebra.operators import Op
from openwork.algebra.types import FLOAT64
from openwork.errors import ParseError, ScheduleError, Span
from openwork.format.formats import dense
from openwork.frozen import frozen
from openwork.index.nodes import Access, Expr, IndexVar, TensorVar
from openwork.index.parse import parse_assignment
from openwork.index.show import show
from openwork.index.terms import as_variable, unwrapped
from openwork.loops.nodes import OutputRaceStrategy, ParallelUnit
from openwork.loops.plan.assembly import accesses_of
from openwork.loops.plan.blocks import whole_vars
from openwork.loops.plan.plan import Plan
from openwork.loops.relations import BoundType
from openwork.loops.schedule.commands.assemble import assemble
from openwork.loops.schedule.commands.bound import bound
from openwork.loops.schedule.commands.coord import coord
from openwork.loops.schedule.commands.divide import divide
from openwork.loops.schedule.commands.fuse import fuse
from openwork.loops.schedule.commands.parallelize import parallelize
from openwork.loops.schedule.commands.pos import pos
from openwork.loops.schedule.commands.precompute import precompute
from openwork.loops.schedule.commands.reorder import order, reorder
from openwork.loops.schedule.commands.split import split
from openwork.loops.schedule.commands.tags import mergeby, prefetch, stream, unroll
from openwork.loops.schedule.in_blocks import in_blocks
from openwork.tree import Node, substitute, walk

E = TypeVar("E", bound=Enum)


@frozen
class Signature:
    """The parameters of a command, each with the kind of thing it takes; `?` for optional ones."""

    run: Callable[..., Plan]
    parameters: tuple[tuple[str, str], ...]
    many: bool = False  # the last parameter takes all further arguments

    def __str__(self) -> str:
        names = [f"[{n}]" if kind.endswith("?") else n for n, kind in self.parameters]
        return ", ".join(names) + (", ..." if self.many else "")


def _signature(run: Callable[..., Plan], text: str, many: bool = False) -> Signature:
    pairs = [tuple(word.split(":")) for word in text.split()]
    return Signature(run, tuple((name, kind) for name, kind in pairs), many)


COMMANDS: dict[str, Signature] = {
    "pos": _signature(pos, "i:var p:var access:access parents:word?"),
    "coord": _signature(coord, "p:var c:var"),
    "reorder": _signature(reorder, "loops:vars", many=True),
    "order": _signature(order, "loops:vars", many=True),
    "fuse": _signature(fuse, "i:var j:var f:var"),
    "split": _signature(split, "i:var i0:var i1:var factor:int"),
    "divide": _signature(
        divide,
        "i:var i0:var i1:var parts:int balance:word? split_points:function? assign:word? "
        "chunk:int?",
    ),
    "bound": _signature(bound, "i:var ib:var value:int kind:bound"),
    "unroll": _signature(unroll, "i:var factor:int?"),
    "precompute": _signature(precompute, "expr:expr i:vars ip:vars workspace:tensor?"),
    "parallelize": _signature(
        parallelize,
        "i:var unit:unit race:race? chunk:int? group_size:int? reduction:word? resident:int? "
        "writes:name? threads:int? blocks_per_sm:int?",
    ),
    "mergeby": _signature(mergeby, "i:var strategy:word"),
    "prefetch": _signature(prefetch, "access:access i:var distance:int"),
    "assemble": _signature(assemble, "strategy:word"),
    "stream": _signature(lambda plan, result: stream(plan), "result:result"),
}


@frozen
class Command:
    """A command with its resolved arguments; prints as text that parses back."""

    name: str
    arguments: tuple[Any, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        parameters = COMMANDS[self.name].parameters
        if COMMANDS[self.name].many:
            return f"{self.name}({','.join(map(str, self.arguments[0]))})"
        written: list[str] = []
        by_name = False
        for (name, kind), value in zip(parameters, self.arguments, strict=True):
            if value is None:
                by_name = True
                continue
            text = _written(kind.rstrip("?"), value)
            written.append(f"{name}={text}" if by_name or name in _BY_NAME else text)
        return f"{self.name}({','.join(written)})"


_BY_NAME = (
    "parents", "balance", "split_points", "assign", "chunk", "group_size", "reduction", "resident",
    "threads", "blocks_per_sm", "writes",
)  # fmt: skip


def _as_written(expr: Expr) -> Expr:
    """`expr` with the names of the user's tensors, where it reads conversions of them."""
    made: dict[Node, Node] = {
        n: replace(n, name=n.copy_of)
        for n in walk(expr)
        if isinstance(n, TensorVar) and n.copy_of is not None
    }
    return substitute(expr, made)


def _written(kind: str, value: Any) -> str:
    match value:
        case Enum():
            return str(value.value)
        case Access():
            text = show(_as_written(value))
            return text if kind == "expr" else text.replace(" ", "")
        case Expr() if kind == "expr":
            return show(_as_written(value))
        case tuple():
            names = [str(v) for v in value]
            return names[0] if len(names) == 1 else f"[{','.join(names)}]"
        case TensorVar():
            return value.name
    if callable(value):
        name = getattr(value, "__name__", "points")
        return name if name.isidentifier() else "points"
    return str(value)


def run(plan: Plan, command: Command) -> Plan:
    """The plan after a command."""
    return COMMANDS[command.name].run(plan, *in_blocks(plan, command.name, command.arguments))


def understand(
    plan: Plan,
    name: str,
    args: tuple[Any, ...],
    options: Mapping[str, Any],
    span: Span | None = None,
) -> Command:
    """A command from the arguments of a call, or from pieces of a text.

    Raises:
        ScheduleError: E311 if there is no such command or its arguments are not of its kinds.
    """
    if name not in COMMANDS:
        raise ScheduleError(
            f"there is no command {name}",
            code="E311",
            span=span,
            hint=f"the commands are {', '.join(COMMANDS)}",
        )
    signature = COMMANDS[name]
    if signature.many:
        if len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = tuple(args[0])
        if options:
            raise _wrong(name, signature, span)
        return Command(name, (tuple(_variable(a, span) for a in args),), span)
    names = [n for n, _ in signature.parameters]
    values: dict[str, Any] = dict(zip(names, args, strict=False))
    unknown = [n for n in options if n not in names or n in values]
    required = [n for n, kind in signature.parameters if not kind.endswith("?")]
    values |= options
    if len(args) > len(names) or unknown or any(n not in values for n in required):
        raise _wrong(name, signature, span)
    if any(values[n] is None for n in required):
        raise _wrong(name, signature, span)
    if name == "bound" and _names_member(BoundType, values["value"]):
        values |= {"value": values["kind"], "kind": values["value"]}  # the thesis has both orders
    if name == "parallelize" and values.get("race") is None:
        values["race"] = OutputRaceStrategy.NoRaces
    understood = tuple(
        None if values.get(n) is None else _understood(plan, kind.rstrip("?"), values[n], span)
        for n, kind in signature.parameters
    )
    return Command(name, understood, span)


def _wrong(name: str, signature: Signature, span: Span | None) -> ScheduleError:
    return ScheduleError(
        f"{name} takes {signature}", code="E311", span=span, hint=f"write {name}({signature})"
    )


def _understood(plan: Plan, kind: str, value: Any, span: Span | None) -> Any:
    match kind:
        case "var":
            return _variable(value, span)
        case "vars":
            values = value if isinstance(value, (list, tuple)) else [value]
            return tuple(_variable(v, span) for v in values)
        case "int":
            return _whole(value, span)
        case "word":
            return str(value).strip("\"'")
        case "name":
            return _name(value)
        case "unit":
            return _member(ParallelUnit, value, span)
        case "race":
            return _member(OutputRaceStrategy, value, span)
        case "bound":
            return _member(BoundType, value, span)
        case "access":
            return _access(plan, value, span)
        case "expr":
            return _expression(plan, value, span)
        case "tensor":
            return _workspace(value, span)
        case "result":
            return _result(plan, value, span)
    return value


def _variable(value: Any, span: Span | None) -> IndexVar:
    var = as_variable(value)
    if var is not None:
        return var
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_]\w*", value):
        return IndexVar(value)
    raise ScheduleError(
        f"{value!r} is not an index variable", code="E311", span=span, hint='ow.index("i"), or "i"'
    )


def _whole(value: Any, span: Span | None) -> int:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,4000}", value):
        return int(value)
    if isinstance(value, str):
        raise ScheduleError(
            f"{value!r} is not a whole number", code="E311", span=span, hint="such as 32"
        )
    try:
        return value if isinstance(value, bool) else operator.index(value)
    except Exception:  # not a number: refused below
        return cast(int, value)


def _names_member(kinds: type[E], value: Any) -> bool:
    """Whether `value` is a member of `kinds`, or its name, which may have theirs in front."""
    names = [member.value for member in kinds]
    text = value.removeprefix(f"{kinds.__name__}::") if isinstance(value, str) else None
    return isinstance(value, kinds) or text in names


def _member(kinds: type[E], value: Any, span: Span | None) -> E:
    if isinstance(value, kinds):
        return value
    if _names_member(kinds, value):
        return kinds(value.removeprefix(f"{kinds.__name__}::"))
    names = [member.value for member in kinds]
    raise ScheduleError(
        f"there is no {kinds.__name__} {getattr(value, 'value', value)!s}",
        code="E311",
        span=span,
        hint=f"there are {', '.join(names)}",
    )


def sources(plan: Plan) -> dict[str, str]:
    """Names of converted operands, and of the tensors they are converted from."""
    table = {d.var.name: d.source for d in plan.derived}
    return {name: table.get(source, source) for name, source in table.items()}


def _reads(plan: Plan) -> list[Access]:
    found = [n for n in walk(plan.loops) if isinstance(n, Access)]
    operands = {a.tensor.name for a in accesses_of(plan.assignment.rhs)}
    return [a for a in dict.fromkeys(found) if a.tensor.name in operands]


def _access(plan: Plan, value: Any, span: Span | None) -> Access:
    """The operand that is meant: by its name, by an access, or as a tensor."""
    made_from = sources(plan)
    reads, value = _reads(plan), unwrapped(value)
    name = getattr(value, "name", value)
    variables: tuple[IndexVar, ...] | None = None
    if isinstance(value, Access):
        name, variables = value.tensor.name, value.vars
    elif isinstance(value, str):
        text = re.fullmatch(r"\s*([^\s(\[]+)\s*(?:[(\[](.*)[)\]])?\s*", value)
        if text is not None and text[2] is not None:
            name = text[1]
            variables = tuple(IndexVar(v.strip()) for v in text[2].split(","))
    if not isinstance(name, str):
        name, value = "", type(value).__name__
    fitting = [
        a
        for a in reads
        if name in (a.tensor.name, made_from.get(a.tensor.name))
        and (variables is None or variables in (a.vars, whole_vars(a.vars, plan.blocks)))
    ]
    if len(fitting) != 1:
        known = ", ".join(sorted({show(a).replace(" ", "") for a in reads}))
        several = f"{name} is accessed in {len(fitting)} ways" if fitting else None
        raise ScheduleError(
            several or f"the statement does not read {value}",
            code="E305",
            span=span,
            hint=f"it reads {known or 'nothing'}",
        )
    return fitting[0]


def _expression(plan: Plan, value: Any, span: Span | None) -> Expr:
    """An expression over the operands as the loops have them."""
    expr = unwrapped(value)
    if isinstance(value, str):
        tensors = {
            n.name: n
            for n in (*walk(plan.assignment), *walk(plan.loops))
            if isinstance(n, TensorVar)
        }
        made_from = sources(plan)
        tensors |= {made_from[n]: tensors[n] for n in made_from if n in tensors}
        operators = {
            n.name: n
            for node in walk(plan.loops)
            if isinstance(n := getattr(node, "op", None), Op) and n.definition is not None
        }
        hole = "it" + "_" * max(map(len, tensors), default=0)  # a name that no tensor has
        known = {**tensors, hole: TensorVar(hole, dense(0), FLOAT64)}
        text = f"{hole} = {value}"
        try:
            if plan.blocks:  # as the user wrote it, or over blocks as the loops are
                user = {n.name: n for n in walk(plan.written) if isinstance(n, TensorVar)}
                with suppress(ParseError):
                    parse_assignment(text, {**known, **user}, operators)
                    known |= user
            expr = parse_assignment(text, known, operators).rhs
        except ParseError as error:
            hint = (error.hint or "").replace(f"{hole}, ", "").replace(f", {hole}", "")
            hint = hint or "write it as in the statement, such as A(i,j) * x(j)"
            fault = f"{value.strip() or 'nothing'} is not an expression: {error.message}"
            raise ScheduleError(fault, code="E311", span=span, hint=hint) from None
    if not isinstance(expr, Expr):
        raise ScheduleError(
            f"{value!r} is not an expression", code="E311", span=span, hint="such as A[i, j] * x[j]"
        )
    made_from = sources(plan)
    table: dict[Node, Node] = {
        a: b
        for a in walk(expr)
        if isinstance(a, Access)
        for b in _reads(plan)
        if a.vars in (b.vars, whole_vars(b.vars, plan.blocks))
        and a.tensor.name in (b.tensor.name, made_from.get(b.tensor.name))
    }
    return substitute(expr, table)


def _workspace(value: Any, span: Span | None) -> TensorVar | str:
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z_]\w*", value):
        raise ScheduleError(
            f"{value!r} is not a name for a workspace", code="E311", span=span, hint='such as "w"'
        )
    if isinstance(value, str):
        return value
    var = unwrapped(getattr(value, "tensor_var", value))
    if isinstance(var, Access):
        var = var.tensor
    if isinstance(var, TensorVar):
        return var
    raise ScheduleError(
        f"{value!r} is not a tensor",
        code="E311",
        span=span,
        hint="give a tensor or a name, or none",
    )


def _name(value: Any) -> str:
    """The name of a tensor, which may be given by an access."""
    given = unwrapped(value)
    name = given if isinstance(given, str) else getattr(given, "name", given)
    if isinstance(given, Access):
        name = given.tensor.name
    return re.split(r"[(\[]", str(name))[0].strip()


def _result(plan: Plan, value: Any, span: Span | None) -> str:
    name = _name(value)
    if name != plan.user_result.name:
        raise ScheduleError(
            f"{name} is not the result", code="E311", span=span, hint=f"stream({plan.user_result})"
        )
    return name
