"""A dialect: what C and CUDA spell differently, as data for the writer and for helper texts."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from openwork.frozen import frozen
from openwork.render.precedence import Spelled, paren

# Element types that all dialects spell alike.
COMMON_TYPES = {
    "float16": "uint16_t",  # its bits: programs only convert it
    "float32": "float",
    "float64": "double",
    "int128": "__int128",  # keys of workspaces with very many modes; never an element type
} | {name: f"{name}_t" for s in ("int", "uint") for b in (8, 16, 32, 64) for name in [f"{s}{b}"]}


@frozen
class Form:
    """A spelling with the placeholder `{x}` for an operand, and perhaps others for types.

    The operand binds at least as tightly as `least`; the whole binds as tightly as `precedence`.
    """

    text: str
    least: int
    precedence: int

    def of(self, operand: Spelled, **types: str) -> Spelled:
        """The spelling for an operand."""
        return self.text.format(x=paren(operand, self.least), **types), self.precedence


@frozen
class Dialect:
    """How one language of the C family spells what the others spell differently."""

    name: str  # for messages
    types: Mapping[str, str]  # of elements
    index: str  # the type of positions, coordinates and other counts
    function: str  # the prefix of a helper function
    inline: str  # the same for a small one
    truth: tuple[str, str]  # false, true
    infinity: Mapping[str, str]  # by type
    nan: Mapping[str, str]
    library: str  # the prefix of C's mathematical functions
    formulas: frozenset[tuple[str, str]]  # functions, by name and type, that helpers compute
    complex_function: str  # of complex numbers; placeholders: its name, and the suffix of its type
    complex_value: str  # placeholders: the type, and both parts
    real: Form  # part of a complex number
    imag: Form
    conjugate: Form
    nonzero: Form  # tests whether a complex number is nonzero
    from_complex: Form  # to a real type
    to_complex: Form  # from a real type
    lowest_bit: Form  # of a nonzero 64-bit number
    number_of_bits: Form  # that are set in a 64-bit number
    malloc: str  # allocates indices
    free: str

    def scalar(self, type: str) -> str:
        """The type of a variable: 64-bit integers are indices."""
        return self.index if type == "int64" else self.types[type]

    def fill(self, template: str, type: str = "", **holes: str) -> str:
        """The text of a helper for an element type: `template` with its `$` placeholders filled."""
        words = {
            "type": type,
            "ctype": self.types.get(type, ""),
            "static": self.function,
            "inline": self.inline,
            "int": self.index,
            "bool": self.types["bool"],
            "malloc": self.malloc,
            "free": self.free,
            "library": self.library,
        }
        return Template(template).substitute(words, **holes)
