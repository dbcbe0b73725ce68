"""The writer of C: expressions that only C has, and the jump on failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from openwork.program import nodes as p
from openwork.program.powers import may_be_negative
from openwork.render.c.vector_helpers import vector_kind
from openwork.render.precedence import ATOM, TIMES, Spelled, paren
from openwork.render.writer import Writer

ANGLES = ("sin", "cos")  # functions whose vectors take arguments near 0 only
NEGATIVE = "negative"  # the flag for negative powers of integers


@dataclass
class CWriter(Writer):
    """Writes one function; `statement` renders statements.

    A failure jumps to the label `exit`: the end of the function, or of a thread's part of a loop.
    `jumps` are the labels that are used. `checks_powers`: integers are raised to powers that may be
    negative, which sets a flag. `near`: the angles of sines and cosines are known to be near 0.
    """

    program: p.Program
    statement: Callable[[CWriter, p.Stmt], list[str]]
    exit: str = "done"
    jumps: set[str] = field(default_factory=set)
    checks_powers: bool = False
    near: bool = False

    @cached_property
    def private_arrays(self) -> frozenset[p.Array]:
        """The arrays that threads keep throughout a loop, and free when they are done."""
        loops = (n for n in p.statements(self.program.body) if isinstance(n, p.For))
        setup = (s for n in loops if isinstance(n.by, p.Threads) for s in n.by.private)
        return frozenset(s.array for s in setup if isinstance(s, p.Allocate))

    def stmt(self, s: p.Stmt) -> list[str]:
        """A statement, as lines."""
        return self.statement(self, s)

    def leave(self) -> str:
        """The jump to the failure handler; the status is already set."""
        self.jumps.add(self.exit)
        return f"goto {self.exit};"

    def expr(self, e: p.Expr | p.Array) -> Spelled:
        """An expression, and how tightly it binds."""
        match e:
            case p.Name(name=name):
                return name, ATOM
            case p.Load(array=array, index=index) if array.vectors:
                place = paren(self.expr(index), TIMES)
                lanes = f"LANES_{vector_kind(array.type, array.vectors)}"
                return f"{array.name}[{place} / {lanes}][{place} % {lanes}]", ATOM
            case p.Apply(op=op, args=args) if self.near and op.name in ANGLES:
                if (op.name, e.type) in self.dialect.formulas:
                    return f"{self.use(f'near_{op.name}', e.type)}({self.text(args[0])})", ATOM
                return super().expr(e)
            case p.Apply() if may_be_negative(e):
                return self._checked_power(e), ATOM
        return super().expr(e)

    def _checked_power(self, e: p.Apply) -> str:
        self.checks_powers = True
        self.use("pow", e.type)
        args = ", ".join(map(self.text, e.args))
        return f"{self.use('checked_pow', e.type)}({args}, &{NEGATIVE})"

    def call(self, call: p.Helper) -> str:
        """A call of a helper."""
        if call.name != "in_turn":
            return super().call(call)
        turns, piece, *firsts = map(self.text, call.args)
        levels = f"{len(firsts)}, (int64_t *[]){{{', '.join(firsts)}}}"
        return f"{self.use(call.name, '')}({turns}, {piece}, {levels})"
