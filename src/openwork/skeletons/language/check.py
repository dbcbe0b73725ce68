"""The type checker: types with dependent lengths, and holes for lengths that nobody wrote.

Types flow from arguments into functions, so that no parameter of a function needs one. Lengths are
compared as polynomials after their sums are closed. A length that was left out is a hole, which the
first comparison fills.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from openwork.algebra.types import SUPPORTED, Kind
from openwork.errors import OpenworkError, PatternError, Span
from openwork.frozen import frozen
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.algebra import (
    closed,
    difference,
    falling_sum,
    mentions,
    proves,
)
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
from openwork.tree import Node

HOLE = "?"
_FRESH = re.compile(r"\b[ij]\.(?:[3-9]|\d\d+)\b")
_NAMES = [f"{letter}{prime}" for prime in ("", "'", "''") for letter in "ijkl"]  # in errors
MOST = 2**53  # no array has so many elements
_WEAK: dict[str, type] = {"~int": int, "~float": float}
_INTEGERS = ("int32", "int64", "~int")
_LIMITS: dict[Type, tuple[int, int]] = {
    Scalar(f"int{bits}"): (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (32, 64)
}


@frozen
class Parted:
    """Where two types part, and why."""

    place: str
    reason: str


def kind_of(type: Scalar) -> Kind:
    """The element type, as operators ask for it."""
    return _WEAK.get(type.name) or SUPPORTED[type.name]


def settled(type: Type) -> Type:
    """A type without Python numbers: they become int64 and float64."""
    match type:
        case Scalar(name="~int"):
            return Scalar("int64")
        case Scalar(name="~float"):
            return Scalar("float64")
        case PairType(first=first, second=second):
            return PairType(settled(first), settled(second))
        case ArrayType(element=element, length=length, var=var):
            return ArrayType(settled(element), length, var)
    return type


def pieces_of(length: Nat, var: str) -> tuple[Nat, Nat] | None:
    """The size of the pieces, and how many elements there are, if this is the length of piece
    `var` of a split that leaves a rest."""
    match length.terms:
        case (((n.Choice(condition=c, then=size, otherwise=rest),), 1),):
            whole = rest + size * n.named(var)
            fits = (c.sign, c.left, c.right) == ("<=", size, rest)
            if fits and not mentions(whole, var) and not mentions(size, var):
                return size, whole
    return None


class Checker:
    """Checks one program."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.solved: dict[str, Nat] = {}
        self.bounds: dict[str, Nat] = {}
        self.given: dict[str, str] = {}  # what users call the variables of `generate`
        self.known = set(signature.nats)
        self._waiting: list[tuple[n.At, ArrayType, dict[str, Nat]]] = []  # for holes to be filled
        self._count = 2  # so that no fresh name looks like a part of a pair

    def program(self) -> Type:
        """The type of the body."""
        s = self.signature
        names = (*s.nats, *s.params)
        for name in names:
            if names.count(name) > 1:
                self.refuse(
                    f"there are two things called {name}", "E702", name,
                    "naturals and parameters have names of their own",
                )  # fmt: skip
        env = dict(zip(s.params, s.types, strict=True))
        for name, type in env.items():
            self.well_formed(type, env, name)
        found = self.infer(s.body, env)
        for e, array, bounds in self._waiting:
            self.bounds = bounds
            self._in_range(e, array)
        return settled(self.filled(found))

    # -- errors ---------------------------------------------------------------------------------

    def refuse(self, message: str, code: str, at: Node | str, hint: str | None = None) -> None:
        """Raise the error, with the place of a node in the program's text."""
        text, piece = str(self.signature), self.readable(at if isinstance(at, str) else str(at))
        start, stop = text.find(piece), text.find(piece) + len(piece)
        last = self.readable(str(at.fn)) if isinstance(at, n.Call) else piece
        begin = stop - len(last) if piece.endswith(last) else start  # of a pipeline, the last step
        span = Span(text, begin, stop) if start >= 0 else None
        raise PatternError(self.readable(message), code=code, span=span, hint=hint)

    def readable(self, text: str) -> str:
        """A text with the names that users gave to variables, in place of fresh ones."""
        names = dict(self.given)
        for name in _FRESH.findall(text):
            taken = {*names.values(), *re.findall(r"[\w']+", text)}
            names.setdefault(name, next(k for k in _NAMES if k not in taken))
        return _FRESH.sub(lambda match: names[match[0]], text)

    def expect(self, one: Type, other: Type, what: str, at: Node) -> None:
        """Two types must agree."""
        parted = self.parted(one, other, "")
        if parted is not None:
            one, other = self.filled(one), self.filled(other)
            lengths = "length" in parted.place
            self.refuse(
                f"{what}: {one} and {other}; they part at {parted.place}: {parted.reason}",
                "E704" if lengths else "E703",
                at,
                "split, join or slide until the lengths agree, or annotate the one that is meant"
                if lengths
                else None,
            )

    def parted(self, one: Type, other: Type, place: str) -> Parted | None:
        """Where two types part; None if they agree."""
        where = f" of {place}" if place else ""
        match one, other:
            case Scalar(name=a), Scalar(name=b):
                if a == b:
                    return None
                if a in _WEAK or b in _WEAK:
                    weak, strong = (a, b) if a in _WEAK else (b, a)
                    whole = weak == "~int" and strong != "bool"
                    if whole or (weak == "~float" and strong.startswith(("float", "~float"))):
                        return None
                return Parted(f"the number{where}", f"{one} is not {other}")
            case PairType(), PairType():
                return self.parted(one.first, other.first, f"part 1{where}") or self.parted(
                    one.second, other.second, f"part 2{where}"
                )
            case ArrayType(), ArrayType():
                if not self.same(one.length, other.length):
                    x, y = self.nat(one.length), self.nat(other.length)
                    apart = difference(x, y)
                    return Parted(f"the length{where}", f"{x} is not {y}, they differ by {apart}")
                var = n.named(self.fresh("i"))
                return self.parted(one.at(var), other.at(var), f"the element{where}")
        kinds = {Scalar: "a number", PairType: "a pair", ArrayType: "an array"}
        return Parted(
            f"the type{where}" if place else "the outermost type",
            f"{kinds[type(one)]} is not {kinds[type(other)]}",
        )

    # -- lengths --------------------------------------------------------------------------------

    def fresh(self, base: str) -> str:
        """A name that no program has."""
        self._count += 1
        return f"{base}.{self._count}"

    def nat(self, value: Nat) -> Nat:
        """A natural with what is known of its holes."""
        while not self.solved.keys().isdisjoint(n.names_of(value)):
            value = cast(Nat, n.substituted(value, self.solved))
        return closed(value)

    def filled(self, type: Type) -> Type:
        """A type with what is known of its holes."""
        match type:
            case PairType(first=first, second=second):
                return PairType(self.filled(first), self.filled(second))
            case ArrayType(element=element, length=length, var=var):
                return n.array_type(self.filled(element), self.nat(length), var)
        return type

    def same(self, one: Nat, other: Nat) -> bool:
        """Whether two lengths are equal; a hole becomes what makes them so."""
        apart = difference(self.nat(one), self.nat(other))
        if not apart.terms:
            return True
        for monomial, times in apart.terms:
            match monomial:
                case (n.Named(name=name),) if name.startswith(HOLE) and abs(times) == 1:
                    rest = (apart - Nat(((monomial, times),))) * -times
                    if not mentions(rest, name) and not self._escapes(rest):
                        self.solved[name] = rest
                        return True
        return False

    def _escapes(self, value: Nat) -> bool:
        return any(mentions(value, bound) for bound in self.bounds)

    def well_formed(self, type: Type, env: Mapping[str, Type], name: str) -> None:
        """The lengths of a parameter's type must be known, and made of integers in range."""
        match type:
            case PairType(first=first, second=second):
                self.well_formed(first, env, name)
                self.well_formed(second, env, name)
            case ArrayType(length=length):
                self.natural(length, env, name)
                var = self.fresh("i")
                self.bounds[var] = length
                self.well_formed(type.at(n.named(var)), env, name)

    def natural(self, value: Nat, env: Mapping[str, Type], name: str) -> None:
        """A natural whose variables are known."""
        self._atoms(value, env, name)
        if (value.constant or 0) < 0:
            self.refuse(f"{value} is no natural, in the type of {name}", "E707", str(value))
        falling = falling_sum(value, self.bounds)
        if falling is not None:
            low, high = falling.low, falling.high
            self.refuse(
                f"cannot show that 0 <= {low} <= {high}, from where to where {falling} goes, "
                f"in the type of {name}", "E707", str(falling),
                f"up to ({low} < {high} ? {high} : {low}), which never is below {low}",
            )  # fmt: skip

    def _atoms(self, value: Nat, env: Mapping[str, Type], name: str) -> None:
        """The variables, integers and divisors in a natural."""
        if any(abs(times) > MOST for _, times in value.terms):
            self.refuse(f"{value} is larger than any array, in the type of {name}", "E707", name)
        for a in value.atoms:
            match a:
                case n.Named(name=var):
                    bound = var in self.bounds or {*".'"} & {*var} or var[0] in "?$"
                    if var not in self.known and not bound:
                        self.refuse(
                            f"{var} is no natural of this program, in the type of {name}",
                            "E702", str(value), f"nFun {var}. ..., or sk.nats",
                        )  # fmt: skip
                case n.ToNat(expr=expr):
                    found = self.infer(expr, env)
                    if not (isinstance(found, Scalar) and found.name in _INTEGERS):
                        self.refuse(
                            f"toNat needs an integer, not {found}, in the type of {name}",
                            "E707", str(a),
                        )  # fmt: skip
                case n.Choice(condition=c, then=then, otherwise=otherwise):
                    for part in (c.left, c.right, then, otherwise):
                        self._atoms(part, env, name)
                case n.Quotient(left=left, right=right):
                    self._atoms(left, env, name)
                    self._atoms(right, env, name)
                    self._divisor(right, a)
                case n.Sum(var=var, low=low, high=high, body=body):
                    self._atoms(low, env, name)
                    self._atoms(high, env, name)
                    outside = self.bounds
                    self.bounds = {k: v for k, v in outside.items() if k != var} | {var: high}
                    self._atoms(body, env, name)
                    self.bounds = outside

    def _divisor(self, value: Nat, at: n.Quotient) -> None:
        """What naturals are divided by is positive: proved here, or checked by each call."""
        s = self.signature
        checked = n.mentioned(value) <= {*s.nats, *s.params} and value.terms
        if not checked and not proves(n.nat(1), self.nat(value), self.bounds):
            self.refuse(
                f"cannot show that {at} divides by a positive number", "E707", str(at),
                "divide by a number, or by a natural, which each call checks",
            )  # fmt: skip

    # -- expressions ----------------------------------------------------------------------------

    def infer(self, e: Expr, env: Mapping[str, Type]) -> Type:
        """The type of an expression."""
        match e:
            case n.Var(name=name):
                if name not in env:
                    self.refuse(
                        f"{name} is not defined", "E702", e,
                        f"defined are: {', '.join(k for k in env if k[0] != '?') or 'nothing'}",
                    )  # fmt: skip
                return env[name]
            case n.Literal(value=value, type=type):
                weak = "bool" if isinstance(value, bool) else f"~{_python(value)}"
                self._fits(e, Scalar(type or "int64"))
                return Scalar(type or weak)
            case n.OfNat(nat=value):
                self.natural(value, env, "a number")
                return Scalar("~int")
            case n.Pair(first=first, second=second):
                return PairType(self.infer(first, env), self.infer(second, env))
            case n.Part(pair=pair, which=which):
                found = self.infer(pair, env)
                if not isinstance(found, PairType):
                    self.refuse(f"{found} has no part .{which}: it is no pair", "E703", e)
                pairs = cast(PairType, found)
                return pairs.first if which == 1 else pairs.second
            case n.Apply(op=op, args=args):
                types = [self.infer(a, env) for a in args]
                found = self.scalar(op, types, e)
                kinds = [kind_of(cast(Scalar, t)) for t in types]
                for k, each in enumerate(args):
                    self._fits(each, Scalar(str(op.argument_type(kinds, k))))
                return found
            case n.At():
                return self._at(e, env)
            case n.Zip(first=first, second=second):
                return self._zip(e, self.infer(first, env), self.infer(second, env))
            case n.Generate(length=length, fn=fn):
                self.natural(length, env, "generate")
                # A sum of naturals is one, which its closed form with differences may not show.
                if not any(proves(n.nat(0), v, self.bounds) for v in (length, self.nat(length))):
                    self.refuse(
                        f"cannot show that the length {self.nat(length)} is not negative",
                        "E707", e, "sk.where(low < high, high - low, 0) never is",
                    )  # fmt: skip
                var = self.fresh("i")
                self.bounds[var], self.given[var] = length, fn.param
                body = cast(Expr, n.substituted(fn.body, {fn.param: n.named(var)}))
                return n.array_type(self.infer(body, env), length, var)
            case n.Noted(expr=inner, type=type):
                found = self.infer(inner, env)
                self.well_formed(type, env, "an annotation")
                self.expect(found, type, "an annotation does not fit", e)
                self._fits(inner, type)
                return type
            case n.Call(fn=fn, arg=arg):
                return self.applied(fn, self.infer(arg, env), env, e)
        raise PatternError(f"{e} is a function where a value is needed", code="E706")

    def _fits(self, e: Expr, type: Type) -> None:
        """A whole number of a program must be one of the type that it takes."""
        if not isinstance(e, n.Literal) or type not in _LIMITS or not isinstance(e.value, int):
            return
        low, high = _LIMITS[type]
        if not low <= e.value <= high:
            self.refuse(f"{e.value} is no {type}: these go from {low} to {high}", "E703", e)

    def scalar(self, op: n.Op, types: list[Type], at: Node) -> Type:
        """The type of an operator's result."""
        for each in types:
            if not isinstance(each, Scalar):
                self.refuse(
                    f"{op} needs numbers, not {self.filled(each)}", "E703", at,
                    "map it over the array" if isinstance(each, ArrayType) else "take .1 or .2",
                )  # fmt: skip
        if len(types) != op.arity:
            self.refuse(f"{op} takes {op.arity} arguments, not {len(types)}", "E706", at)
        kinds = [kind_of(cast(Scalar, t)) for t in types]
        if all(isinstance(k, type) for k in kinds):
            weak = op.result([SUPPORTED["float64" if k is float else "int64"] for k in kinds])
            return Scalar({"int64": "~int", "float64": "~float"}.get(str(weak), str(weak)))
        try:
            return Scalar(str(op.result(kinds)))
        except OpenworkError as error:
            self.refuse(error.message, "E703", at, error.hint)
            raise

    def _at(self, e: n.At, env: Mapping[str, Type]) -> Type:
        found = self.infer(e.array, env)
        if not isinstance(found, ArrayType):
            self.refuse(f"{found} has no elements: it is no array", "E703", e)
        array = cast(ArrayType, found)
        if n.is_natural(e.index):
            index = n.to_nat(e.index)
            self.natural(index, env, "an index")
            if self._has_holes(index, array.length):
                self._waiting.append((e, array, dict(self.bounds)))
            else:
                self._in_range(e, array)
            return array.at(index)
        kind = self.infer(e.index, env)
        if not (isinstance(kind, Scalar) and kind.name in ("int32", "int64")):
            self.refuse(f"an index is an integer, not {self.filled(kind)}", "E703", e)
        return array.at(n.to_nat(e.index))

    def _has_holes(self, index: Nat, length: Nat) -> bool:
        """Whether a length that decides if an index is in range may still be inferred."""
        limits = (self.bounds[name] for name in n.names_of(index) & self.bounds.keys())
        names = {name for v in (length, *limits) for name in n.names_of(self.nat(v))}
        return any(name.startswith(HOLE) for name in names)

    def _in_range(self, e: n.At, array: ArrayType) -> None:
        """An index of naturals is proved to be one."""
        index, length = n.to_nat(e.index), self.nat(array.length)
        bounds = {name: self.nat(bound) for name, bound in self.bounds.items()}
        if any(name.startswith(HOLE) for name in n.names_of(length)):
            self.refuse(
                f"cannot show that index {index} is below a length that was left out", "E705", e,
                "write the length, as nothing else in the program tells it",
            )  # fmt: skip
        if not proves(self.nat(index + 1), length, bounds):
            self.refuse(
                f"cannot show that index {index} is below the length {length}", "E705", e,
                "take an index below the length, or split or slide the array",
            )  # fmt: skip
        if not proves(n.nat(0), self.nat(index), bounds):
            self.refuse(f"cannot show that index {index} is not negative", "E705", e)

    def _zip(self, e: n.Zip, one: Type, other: Type) -> Type:
        for each in (one, other):
            if not isinstance(each, ArrayType):
                self.refuse(f"zip needs arrays, not {self.filled(each)}", "E703", e)
        a, b = cast(ArrayType, one), cast(ArrayType, other)
        if not self.same(a.length, b.length):
            x, y = self.nat(a.length), self.nat(b.length)
            self.refuse(
                f"zip needs arrays of one length: {self.filled(a)} and {self.filled(b)}; they part "
                f"at the length: {x} is not {y}, they differ by {difference(x, y)}",
                "E704", e, "split, join or slide until the lengths agree",
            )  # fmt: skip
        var = self.fresh("i")
        i = n.named(var)
        return n.array_type(PairType(a.at(i), b.at(i)), a.length, var)

    # -- functions ------------------------------------------------------------------------------

    def applied(self, fn: Fn, arg: Type, env: Mapping[str, Type], at: Node) -> Type:
        """The type of `fn(arg)`."""
        match fn:
            case n.Fun(param=param, body=body, type=type):
                if type is not None:
                    self.well_formed(type, env, param)
                    self.expect(arg, type, f"{param} is annotated otherwise", at)
                    arg = type
                if isinstance(body, Fn):
                    self.refuse(f"{fn} needs another argument", "E706", at)
                return self.infer(cast(Expr, body), {**env, param: arg})
            case n.Operator(op=op):
                if op.arity == 2 and isinstance(arg, PairType):
                    return self.scalar(op, [arg.first, arg.second], at)
                return self.scalar(op, [arg], at)
            case n.Compose(fns=fns):
                for each in fns:
                    arg = self.applied(each, arg, env, at)
                return arg
            case n.NFun():
                self.refuse(f"{fn} takes a natural, not a value", "E706", at)
        if not isinstance(arg, ArrayType):
            name = str(fn).split("(")[0]
            self.refuse(f"{name} needs an array, not {self.filled(arg)}", "E703", at)
        return self._pattern(fn, cast(ArrayType, arg), env, at)

    def _pattern(self, fn: Fn, arg: ArrayType, env: Mapping[str, Type], at: Node) -> Type:
        var = self.fresh("i")
        i = n.named(var)
        match fn:
            case n.Map(fn=inner):
                self.bounds[var] = self.nat(arg.length)
                return n.array_type(
                    self.applied(inner, arg.at(i), env, at), self.nat(arg.length), var
                )
            case n.Reduce():
                return self._reduce(fn, arg, env, at)
            case n.Split(size=size):
                return self._split(size, arg, at)
            case n.Join():
                return self._join(arg, at)
            case n.Transpose():
                return self._transpose(arg, at)
            case n.Slide(size=size, step=step):
                if arg.var or (step.constant or 0) < 1 or (size.constant or 0) < 1:
                    self.refuse("slide needs windows and steps of 1 or more elements", "E707", at)
                length = self.nat(arg.length)
                count = n.chosen(length < size, 0, n.divided(length - size, step) + 1)
                return ArrayType(ArrayType(arg.element, size), count)
        raise PatternError(f"{fn} is no function", code="E706")

    def _reduce(self, fn: n.Reduce, arg: ArrayType, env: Mapping[str, Type], at: Node) -> Type:
        if arg.var:
            self.refuse(
                f"reduce needs elements of one type, and those of {self.filled(arg)} depend on "
                "their position", "E703", at, "reduce each element first: map(reduce(...))",
            )  # fmt: skip
        element = settled(arg.element)
        init = self.infer(fn.init, env)
        held = element if self.parted(init, element, "") is None else settled(init)
        if isinstance(held, ArrayType) or isinstance(element, ArrayType):
            self.refuse(
                f"reduce combines numbers and pairs of them, not {self.filled(element)}", "E710",
                at, "transpose, and reduce each column",
            )  # fmt: skip
        self._fits(fn.init, held)
        if fn.how != "Seq":
            self.expect(init, element, "reduce starts from another type than it combines", at)
        found = self.both(fn.fn, held, element, env, at)
        self.expect(found, held, "the function of reduce gives another type than it takes", at)
        return held

    def both(self, fn: Fn, one: Type, other: Type, env: Mapping[str, Type], at: Node) -> Type:
        """The type of a function of two arguments."""
        match fn:
            case n.Fun(param=param, body=n.Fun() as inner, type=type):
                if type is not None:
                    self.expect(one, type, f"{param} is annotated otherwise", at)
                return self.applied(inner, other, {**env, param: one}, at)
            case n.Operator(op=op) if op.arity == 2:
                return self.scalar(op, [one, other], at)
        return self.applied(fn, PairType(one, other), env, at)

    def _split(self, size: Nat, arg: ArrayType, at: Node) -> Type:
        self.natural(size, {}, "split")
        if size.constant is not None and size.constant < 1:
            self.refuse(f"split makes pieces of {size} elements, which is not positive", "E707", at)
        if self._escapes(size) and not proves(n.nat(1), self.nat(size), self.bounds):
            self.refuse(
                f"cannot show that pieces of {self.nat(size)} elements have any", "E707", at,
                "split by a number, or by a natural, which each call checks",
            )  # fmt: skip
        length, i, j = self.nat(arg.length), self.fresh("i"), self.fresh("j")
        element = arg.at(n.named(i) * size + n.named(j))
        rest = n.remainder(length, size)
        if not rest.terms:
            whole = n.divided(length, size)
            return n.array_type(n.array_type(element, size, j), whole, i)
        inner = n.lesser(size, length - n.named(i) * size)
        return n.array_type(n.array_type(element, inner, j), n.divided(length + size - 1, size), i)

    def _join(self, arg: ArrayType, at: Node) -> Type:
        i, j = self.fresh("i"), self.fresh("j")
        inner = arg.at(n.named(i))
        if not isinstance(inner, ArrayType):
            self.refuse(f"join needs an array of arrays, not {self.filled(arg)}", "E703", at)
        rows = cast(ArrayType, inner)
        element = rows.at(n.named(j))
        if mentions(element, i) or mentions(element, j):
            self.refuse(
                f"join needs elements of one type, and those of {self.filled(arg)} depend on "
                "their position", "E703", at, "join the inner arrays first: map(join)",
            )  # fmt: skip
        length = self.nat(rows.length)
        whole = n.summed(
            n.nat(0), self.nat(arg.length), lambda k: cast(Nat, n.substituted(length, {i: k}))
        )
        return ArrayType(element, closed(whole))

    def _transpose(self, arg: ArrayType, at: Node) -> Type:
        i, j = self.fresh("i"), self.fresh("j")
        inner = arg.at(n.named(i))
        if not isinstance(inner, ArrayType):
            self.refuse(f"transpose needs an array of arrays, not {self.filled(arg)}", "E703", at)
        rows = cast(ArrayType, inner)
        length = self.nat(rows.length)
        if mentions(length, i):
            known = pieces_of(length, i)
            if known is None or rows.var:
                self.refuse(
                    f"transpose needs rows of one length, and those of {self.filled(arg)} differ",
                    "E704", at,
                )  # fmt: skip
            size, whole = cast(tuple[Nat, Nat], known)
            each = n.divided(whole - n.named(j) + size - 1, size)
            return n.array_type(ArrayType(rows.element, each), size, j)
        element = rows.at(n.named(j))
        return n.array_type(n.array_type(element, self.nat(arg.length), i), length, j)


def _python(value: object) -> str:
    return "float" if isinstance(value, float) else "int"
