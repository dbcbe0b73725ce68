"""`einsum`: NumPy's notation for sums of products, over tensors in any formats."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache, partial, reduce

from openwork.algebra import operators as ops
from openwork.algebra.operators import Semiring
from openwork.algebra.types import DType, as_dtype, computed
from openwork.errors import ParseError, ShapeError, Span
from openwork.format.formats import Format, as_format, dense
from openwork.frozen import frozen
from openwork.index.nodes import Access, Apply, Assignment, Cast, Expr, IndexVar
from openwork.index.semiring import semiring_named, under
from openwork.tensor.convert.pack import check_order
from openwork.tensor.eager import call, kernel_for, result_of
from openwork.tensor.exchange.facts import facts_for
from openwork.tensor.operand import Operand
from openwork.tensor.result_format import result_format
from openwork.tensor.tensor import Tensor

_ELLIPSIS = "..."


def einsum(
    subscripts: str,
    *operands: object,
    format: Format | str | None = None,
    semiring: Semiring | str | None = None,
    dtype: object = None,
    optimize: bool = True,
) -> Tensor:
    """The sum of products that `subscripts` describes, as in `numpy.einsum`.

    Args:
        subscripts: a letter for each mode of each operand, and after `->` those of the result, as
            in `"ij,jk->ik"`. Without `->` the result has the letters that occur once, in
            alphabetical order. A repeated letter in one operand takes the diagonal; `...` stands
            for further modes, which are broadcast, and which come first in the result unless it
            places them.
        operands: tensors, NumPy or SciPy arrays, numbers.
        format: the result's format; by default it follows from the operands.
        semiring: what `+` and `*` mean, such as `"min_plus"`; by default the usual ones.
        dtype: the element type to compute in; by default NumPy's choice.
        optimize: whether products of several operands are cut into steps, in an order that is
            cheap by estimate, and dense matrices are multiplied by BLAS; False is one kernel.

    Raises:
        ParseError: E110 when the text does not fit the operands.
        ShapeError: E201 when a letter stands for modes of different extents.

    >>> A = Tensor.wrap([[1.0, 2.0], [0.0, 3.0]]).to("CSR")
    >>> einsum("ij,j->i", A, [1.0, 1.0]).to_numpy()
    array([3., 3.])
    >>> einsum("ij,jk->ik", A, A).format
    ow.CSR
    >>> einsum("ij,j", A)
    Traceback (most recent call last):
    openwork.errors.ParseError: E110: the subscripts have 2 operands, but 1 was given...
    """
    tensors = [o if isinstance(o, Tensor) else Tensor.wrap(o) for o in operands]
    if not isinstance(subscripts, str):
        raise ParseError(f"the subscripts are {subscripts!r}, but must be a string", code="E110")
    spec = parse_subscripts(subscripts, tuple(len(t.shape) for t in tensors))
    _check_extents(spec, tensors)
    wish = (
        None if format is None else as_format(format),
        None if semiring is None else semiring_named(semiring),
        None if dtype is None else as_dtype(dtype),
    )
    key: tuple[Hashable, ...] = ("einsum", subscripts, wish)
    optimize = bool(optimize) and len(tensors) > 1
    if optimize:
        key = (*key, "steps")
    build = partial(_assignment, spec, format=wish[0], semiring=wish[1], dtype=wish[2])
    kernel = kernel_for(key, tensors, build, optimize)
    return Tensor.made(call(kernel, tensors))


Mode = str | int  # a letter, or a mode of the ellipsis, counted from the last one


@frozen
class Spec:
    """Parsed subscripts: the names of the modes of each operand and of the result."""

    terms: tuple[tuple[Mode, ...], ...]
    result: tuple[Mode, ...]


@lru_cache(maxsize=512)
def parse_subscripts(text: str, orders: tuple[int, ...]) -> Spec:
    """The variables of operands with these numbers of modes.

    >>> parse_subscripts("ik, kj", (2, 2))
    Spec(terms=(('i', 'k'), ('k', 'j')), result=('i', 'j'))
    """
    _check_characters(text)
    plain = text.replace(" ", "")
    inputs, arrow, output = plain.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(orders):
        named = f"{len(terms)} operand{'s' if len(terms) != 1 else ''}"
        given = f"{len(orders)} {'were' if len(orders) != 1 else 'was'} given"
        raise _wrong(f"the subscripts have {named}, but {given}", text)
    expanded = tuple(_expand(term, order, text) for term, order in zip(terms, orders, strict=True))
    shared = max((term for term in map(_shared, expanded)), key=len)
    if not arrow:
        return Spec(expanded, (*shared, *_once(inputs)))
    head, dots, tail = output.partition(_ELLIPSIS)
    if shared and not dots:
        raise _wrong(f"the result has no place for the modes of '{_ELLIPSIS}'", text)
    result = (*head, *(shared if dots else ()), *tail)
    for letter in result:
        if letter not in {each for term in expanded for each in term}:
            raise _wrong(f"{letter} is in the result, but in no operand", text, letter)
        if result.count(letter) > 1:
            raise _wrong(f"{letter} is in the result twice", text, letter)
    return Spec(expanded, result)


def _check_characters(text: str) -> None:
    """Only letters, commas, spaces, one arrow, and dots in threes."""
    bare = text.replace(_ELLIPSIS, "   ").replace("->", "  ", 1)
    for place, character in enumerate(bare):
        if character not in ", " and not (character.isascii() and character.isalpha()):
            raise ParseError(
                f"{character!r} has no meaning in subscripts",
                code="E110",
                span=Span(text, place, place + 1),
                hint='write letters, as in "ij,jk->ik"',
            )
    if "," in text.partition("->")[2]:
        raise _wrong("the result has a comma, but there is only one result", text)


def _expand(term: str, order: int, text: str) -> tuple[Mode, ...]:
    """The modes of one operand, those of an ellipsis counted from the last one."""
    head, dots, tail = term.partition(_ELLIPSIS)
    if _ELLIPSIS in tail:
        raise _wrong(f"'{_ELLIPSIS}' occurs twice in {term}", text)
    more = order - len(head) - len(tail)
    if more < 0 or (more and not dots):
        raise _wrong(f"{term!r} does not fit an operand of {order} modes", text)
    return (*head, *reversed(range(more)), *tail)


def _shared(term: Sequence[Mode]) -> tuple[int, ...]:
    """The modes of the ellipsis."""
    return tuple(mode for mode in term if isinstance(mode, int))


def _variables(modes: Sequence[Mode]) -> tuple[IndexVar, ...]:
    return tuple(IndexVar(f"_{mode}" if isinstance(mode, int) else mode) for mode in modes)


def _once(inputs: str) -> list[str]:
    letters = [character for character in inputs if character.isalpha()]
    return sorted(letter for letter in letters if letters.count(letter) == 1)


def _wrong(message: str, text: str, at: str | None = None) -> ParseError:
    place = text.rfind(at) if at else -1
    span = Span(text, place, place + 1) if place >= 0 else Span(text, 0, len(text))
    return ParseError(message, code="E110", span=span)


def _check_extents(spec: Spec, tensors: Sequence[Tensor]) -> None:
    """Every letter has one extent."""
    extents: dict[Mode, int] = {}
    for term, tensor in zip(spec.terms, tensors, strict=True):
        for mode, (letter, extent) in enumerate(zip(term, tensor.shape, strict=True)):
            if extents.setdefault(letter, extent) != extent:
                place = "..." if isinstance(letter, int) else letter
                raise ShapeError(
                    f"{place} has extent {extents[letter]}, but {extent} in mode {mode} of "
                    f"{tensor.name}, whose shape is {tensor.shape}",
                    code="E201",
                )


def _assignment(
    spec: Spec,
    operands: Sequence[Operand],
    format: Format | None,
    semiring: Semiring | None,
    dtype: DType | None,
) -> Assignment:
    """The statement over `operands`."""
    factors: list[Expr] = []
    for term, operand in zip(spec.terms, operands, strict=True):
        access = Access(operand.tensor_var, _variables(term))
        factors.append(access if dtype in (None, access.dtype) else Cast(dtype, access))
    rhs = reduce(lambda left, right: Apply(ops.MUL, (left, right)), factors)
    variables = _variables(spec.result)
    result = result_of(facts_for(dense(len(variables)), computed(rhs.dtype), 0))
    assignment = Assignment(Access(result.tensor_var, variables), rhs)
    if semiring is not None:
        assignment = under(semiring, assignment)
    zero = 0 if semiring is None else semiring.zero
    rhs = assignment.rhs
    chosen = result_format(rhs, variables, zero) if format is None else format
    check_order(chosen, len(variables))
    result = result_of(facts_for(chosen, computed(rhs.dtype), zero))
    return Assignment(Access(result.tensor_var, variables), rhs)
