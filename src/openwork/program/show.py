"""Programs as pseudo-C, to follow a compilation: every node of every stage has a spelling.

Attributes of a loop or an array follow it in square brackets. This text is never compiled;
`render/` writes what is.
"""

from __future__ import annotations

from dataclasses import fields

from openwork.algebra.operators import Op
from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.gpu_nodes import (
    Address,
    Ask,
    Barrier,
    ByOne,
    Combine,
    DeviceProgram,
    Kernel,
    Launch,
    LoadVector,
    MakeVector,
    Scan,
    Shared,
    StoreVector,
    StreamLoad,
    Together,
)
from openwork.program.nodes import Array, Expr, Name, Stmt
from openwork.program.remarks import spoken, title
from openwork.program.vectorize import InVectors, SumLanes
from openwork.tree import Node

_BINDS = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, "+": 5, "-": 5, "*": 6, "/": 6}
_BINDS |= {"%": 6}
_TIGHT = 9
# How fields of a loop that hold no code are shown.
_TAGS = ("simd", "unrolled", "unroll", "polls", "once")


def show_program(program: p.Program) -> str:
    """`program` as text: its arguments, then its body."""
    lines = title(program.title, program.words)
    lines += [f"size {name.name};" for name in program.sizes]
    for argument in program.arguments:
        count = "" if argument.count is None else f"{_expr(argument.count)}"
        lines.append(f"{argument.role} {argument.array.type} {argument.array.name}[{count}];")
    return spoken("\n".join([*lines, "", *_lines(program.body)]), program.words)


def show_expr(e: Expr) -> str:
    """An expression as text."""
    return _expr(e)


def show_device(device: DeviceProgram) -> str:
    """`device` as text: the steps of the host, then each kernel."""
    lines = title(device.program.title, device.program.words)
    lines += [f"// {note}" for note in dict.fromkeys(device.notes)]
    lines += ["host {", *_indented(device.host), "}"]
    for kernel in device.kernels:
        lines += ["", *_kernel(kernel)]
    return spoken("\n".join(lines), device.program.words)


def _kernel(kernel: Kernel) -> list[str]:
    scalars = [f"{n.type} {n.name}" for n in kernel.scalars]
    arrays = [
        f"{'' if a.name in kernel.written else 'const '}{a.type} *{a.name}" for a in kernel.arrays
    ]
    grid = " x ".join("as the GPU decides" if n is None else _expr(n) for n in kernel.grid)
    shape = f"// {grid} blocks of {kernel.warps} x {kernel.lanes} threads"
    if kernel.resident:
        shape += f", {kernel.resident} threads to a multiprocessor"
    scratch = [
        f"// each {s.unit} has {s.array.type} {s.array.name}[{_expr(s.count)}]"
        f"{' of zeros' if s.zeroed else ''}"
        for s in kernel.scratch
    ]
    head = f"kernel {kernel.name}({', '.join([*scalars, *arrays])}) {{"
    return [shape, *scratch, head, *_indented(kernel.body), "}"]


# -- statements ---------------------------------------------------------------------------------


def _indented(s: Stmt) -> list[str]:
    return [f"  {line}" for line in _lines(s)]


def _lines(s: Stmt) -> list[str]:
    match s:
        case p.Block(body=body):
            return [line for each in body for line in _lines(each)]
        case p.For():
            return _for(s)
        case p.While(condition=condition, body=body, comment=comment):
            return [*_remark(comment), f"while ({_expr(condition)}) {{", *_indented(body), "}"]
        case p.If(condition=condition, then=then, otherwise=otherwise):
            other = [] if otherwise is None else ["} else {", *_indented(otherwise)]
            return [f"if ({_expr(condition)}) {{", *_indented(then), *other, "}"]
        case ByOne(body=body):
            return ["by one thread {", *_indented(body), "}"]
        case InVectors(var=var, count=count, body=body, type=type, bytes=size, comment=comment):
            head = f"for ({var.name} of {count} elements, as vectors of {size} bytes of {type}) {{"
            return [*_remark(comment), head, *_indented(body), "}"]
        case p.Comment(text=text):
            return _remark(text)
    return [f"{_simple(s)};"]


def _for(s: p.For) -> list[str]:
    var, step = s.var.name, "++" if s.step is None else f" += {_expr(s.step)}"
    head = f"for ({var} = {_expr(s.begin)}; {var} < {_expr(s.end)}; {var}{step})"
    said = [
        tag if value is True else f"{tag} {value}" for tag in _TAGS if (value := getattr(s, tag))
    ]
    said = [*_shared(s.by), *said]
    said += [f"{r.op.name} into {r.name.name}" for r in s.reductions]
    inner = p.block(s.body)
    if s.by is not None:
        said += [f"a copy of {c.array.name}, combined by {c.op.name}" for c in s.by.copies]
        inner = p.block(*s.by.private, s.body)
    if isinstance(s.by, p.Threads):
        inner = p.block(inner, *s.by.cleanup)
    tags = f" [{', '.join(said)}]" if said else ""
    return [*_remark(s.comment), f"{head}{tags} {{", *_indented(inner), "}"]


def _shared(by: p.Threads | p.Unit | None) -> list[str]:
    """Who executes the iterations of a loop."""
    match by:
        case p.Threads(chunk=chunk, balance=balance, limit=limit, turns=turns):
            chunks = [] if chunk is None else [f"chunk {chunk}"]
            chunks += [] if turns is None else [f"turns {turns}"]
            chunks += [] if limit is None else [f"once for each range, up to {limit.name}"]
            return ["parallel", *chunks, *([f"balanced by {balance.pos.name}"] if balance else [])]
        case p.Unit(kind=kind, most=most, count=count, resident=resident, chunk=chunk):
            said = {"at most": most, "units": count, "resident": resident, "chunk": chunk}
            said |= {"turns": by.turns, "threads": by.threads, "together": by.together}
            groups = [f"groups of {by.group}, {by.reduction} reduction"] if by.group else []
            return [kind, *(f"{what} {n}" for what, n in said.items() if n), *groups]
    return []


def _remark(text: str) -> list[str]:
    return [f"// {line}" for line in text.splitlines()]


def _simple(s: Stmt) -> str:
    """A statement that contains no other."""
    match s:
        case p.Declare(name=name, value=value, fixed=fixed):
            return f"{'const ' if fixed else ''}{name.type} {name.name} = {_expr(value)}"
        case p.Set(name=name, value=value, op=op):
            return f"{name.name} = {_updated(name.name, value, op)}"
        case p.Store(array=array, index=index, value=value, op=op):
            place = _at(array, index)
            said = [word for word in ("atomic", "stream", "last") if getattr(s, word)]
            tags = f" [{', '.join(said)}]" if said else ""
            return f"{place} = {_updated(place, value, op)}{tags}"
        case p.Local(array=array, count=count):
            kind = f" [vectors of {array.vectors} bytes]" if array.vectors else ""
            return f"local {array.type} {array.name}[{count}]{kind}"
        case Shared(array=array, count=count):
            return f"shared {array.type} {array.name}[{count}]"
        case p.Allocate(array=array, count=count, zeroed=zeroed, kept=kept):
            said = [word for word, holds in (("zeroed", zeroed), ("inspected once", kept)) if holds]
            tags = f" [{', '.join(said)}]" if said else ""
            return f"{array.name} = allocate {array.type}[{_expr(count)}]{tags}"
        case p.Grow(capacity=capacity, needed=needed, arrays=arrays):
            names = ", ".join(g.array.name for g in arrays)
            return f"{capacity.name} = grow {names} to {_expr(needed)}"
        case Launch(kernel=kernel):
            return f"launch {kernel}"
        case SumLanes(name=name, array=array, count=count):
            return f"{name.name} += all {count} elements of {array.name}"
        case Together() | Combine() | LoadVector() | StoreVector() | MakeVector() | Barrier():
            return _collective(s)
        case Ask(names=names, array=array, index=index):
            return f"{', '.join(n.name for n in names)} = ask the GPU for {_at(array, index)}"
        case p.Do(call=call):
            return _expr(call)
    return _plain(s)


def _collective(s: Stmt) -> str:
    """Collective and vector operations of GPU threads."""
    match s:
        case Together(name=name, op=op, lanes=lanes, across=across, stride=stride):
            who = f"{across} units" if across else f"{lanes} threads"
            who += "" if stride == 1 else f", {stride} apart"
            return f"{name.name} = {op.name} of {name.name} of {who}"
        case Combine(array=array, index=index, value=value, op=op, group=group, reduction=kind):
            place = _at(array, index)
            return (
                f"{place} = {op.name}({place}, {value.name}) [groups of {group}, {kind} reduction]"
            )
        case LoadVector(vector=vector, array=array, index=index, count=count):
            return f"vector {vector.name} = {count} elements at {_at(array, index)}"
        case StoreVector(vector=vector, array=array, index=index, count=count, added=added):
            sign = "+=" if added else "="
            return f"{count} elements at {_at(array, index)} {sign} {vector.name}"
        case MakeVector(vector=vector, count=count):
            return f"vector {vector.name} of {count} {vector.type}"
        case Barrier(lanes=lanes):
            return "barrier" if lanes is None else f"barrier of {lanes} threads"
    raise InternalError(f"{type(s).__name__} is nothing that threads do together")


def _plain(s: Node) -> str:
    """A statement shown by its name and its fields: `free x`, `prefetch x[i]`."""
    match s:
        case p.Prefetch(array=array, index=index):
            return f"prefetch {_at(array, index)}"
        case p.Fail(status=status):
            return f"fail {status}"
        case p.Break() | p.Free() | p.Shelf() | p.Put() | p.Take() | Scan():
            found = [getattr(s, f.name) for f in fields(s)]
            given = [_part(value) for value in found if isinstance(value, Node)]
            return " ".join([type(s).__name__.lower(), ", ".join(given)]).strip()
    raise InternalError(f"{type(s).__name__} is no statement of a program")


def _updated(place: str, value: Expr, op: Op | None) -> str:
    return _expr(value) if op is None else f"{op.name}({place}, {_expr(value)})"


# -- expressions --------------------------------------------------------------------------------


def _expr(e: Expr, above: int = 0) -> str:
    match e:
        case Name(name=name):
            return name
        case p.Value(value=value, type=kind):
            return str(value) if kind == p.INDEX else f"({kind}){value}"
        case StreamLoad(array=array, index=index):
            return f"streamed {_at(array, index)}"
        case p.Load(array=array, index=index):
            return _at(array, index)
        case Address(array=array, index=index):
            return f"&{_at(array, index)}"
        case p.Binary(sign="min" | "max" as sign, left=left, right=right):
            return f"{sign}({_expr(left)}, {_expr(right)})"
        case p.Binary(sign=sign, left=left, right=right):
            binds = _BINDS[sign]
            text = f"{_expr(left, binds)} {sign} {_expr(right, binds + 1)}"
            return f"({text})" if binds < above else text
        case p.Apply(op=op, args=args):
            return f"{op.name}({', '.join(map(_expr, args))})"
        case p.Convert(expr=inner, type=kind):
            return f"({kind}){_expr(inner, _TIGHT)}"
        case p.Helper(name=name, args=args):
            return f"{name}({', '.join(map(_part, args))})"
    raise InternalError(f"{type(e).__name__} is no expression of a program")


def _part(node: Node) -> str:
    if isinstance(node, Array):
        return node.name
    if isinstance(node, Expr):
        return _expr(node)
    raise InternalError(f"{type(node).__name__} is no part of a statement")


def _at(array: Array, index: Expr) -> str:
    return f"{array.name}[{_expr(index)}]"
