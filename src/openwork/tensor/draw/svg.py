"""A tensor's arrays drawn in SVG: boxes, in the colour of their run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from colorsys import hls_to_rgb
from html import escape

from openwork.frozen import frozen
from openwork.runtime.storage import Storage
from openwork.tensor.draw.cells import Part, Row, layout
from openwork.tensor.draw.text import summary, type_of

_LEFT, _TOP, _HEIGHT, _LETTER, _GAP, _MARGIN = 76, 52, 24, 7.3, 10, 14

_HUES = (0.58, 0.08, 0.36, 0.92, 0.16, 0.75, 0.5, 0.0)
# Colours of text, notes, page and lines, and lightness and saturation of boxes and their edges.
_LIGHT = ("#1d2330", "#667085", "#ffffff", "#98a2b3", (0.90, 0.70), (0.45, 0.55))
_DARK = ("#e6e9ef", "#98a2b3", "#181b22", "#5b6474", (0.24, 0.45), (0.60, 0.50))


def _style(theme: tuple[str, str, str, str, tuple[float, float], tuple[float, float]]) -> str:
    """The colours of a theme; those of neighbouring runs differ."""
    ink, note, page, line, inside, edge = theme
    rules = [
        f".ow text{{fill:{ink}}}.ow .dim{{fill:{note}}}",
        f".ow .page{{fill:{page};stroke:{line}}}.ow .cell,.ow .pad{{fill:none;stroke:{line}}}",
    ]
    for n, hue in enumerate(_HUES):
        fill, stroke = _hex(hue, *inside), _hex(hue, *edge)
        rules.append(f".ow .r{n}{{fill:{fill};stroke:{stroke}}}.ow .a{n}{{stroke:{stroke}}}")
    return "\n".join(rules)


def _hex(hue: float, light: float, full: float) -> str:
    red, green, blue = hls_to_rgb(hue, light, full)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def colours(selector: str, what: str, count: int) -> str:
    """Rules that give so many classes the colours of runs, in light and in dark pages."""
    light, dark = (
        "".join(
            f"{selector}{n}{{{what}:{_hex(hue, *edge)}}}" for n, hue in enumerate(_HUES[:count])
        )
        for edge in (_LIGHT[-1], _DARK[-1])
    )
    return f"{light}\n@media(prefers-color-scheme:dark){{{dark}}}"


_STYLE = f"""\
.ow{{font:12px ui-monospace,Menlo,Consolas,monospace}}
.ow .pad{{stroke-dasharray:2 3}}.ow .arrow{{fill:none;stroke-width:1.2}}
{_style(_LIGHT)}
@media(prefers-color-scheme:dark){{
{_style(_DARK)}
}}
"""


@frozen
class _Placed:
    """A row with the coordinates of its boxes."""

    row: Row
    lefts: tuple[float, ...]
    width: float
    top: float

    @property
    def right(self) -> float:
        return self.lefts[-1] + self.width if self.lefts else _LEFT


def draw_svg(storage: Storage, name: str) -> str:
    """The type and the arrays of each level as a self-contained picture.

    A run has one colour in all arrays; padding is dashed; arrows lead from positions to the first
    entry of the run.
    """
    head = [f"{name}: {summary(storage)}", type_of(storage)]
    body: list[str] = []
    top = float(_TOP)
    right = max(len(line) for line in head) * _LETTER + 2 * _MARGIN
    for part in layout(storage):
        if part.title:
            top += 16
            body.append(_text(_MARGIN, top, part.title, "dim"))
            top += 6
        placed = _placed(part, top)
        body += _arrows(placed)
        for each in placed:
            body += _boxes(each)
            right = max(right, each.right + (90 if each.row.more else _MARGIN))
            top = each.top + _HEIGHT
        top += _GAP
    title = _text(_MARGIN, 22, head[0]) + _text(_MARGIN, 40, head[1], "dim")
    width, height = round(right), round(top + 4)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ow" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">\n<title>{escape(head[0])}</title>\n'
        f"<style>\n{_STYLE}</style>\n"
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>\n'
        + "\n".join([title, *body])
        + "\n</svg>\n"
    )


def _placed(part: Part, top: float) -> list[_Placed]:
    """The layout of a level's boxes: rows below one another, with room for arrows between."""
    placed = []
    for row in part.rows:
        width = max([2.4, *(len(cell) + 1.0 for cell in row.cells)]) * _LETTER
        lefts, left = [], float(_LEFT)
        for n in range(len(row.cells)):
            if row.runs is not None and n:
                left += min(row.runs.ends[n], 3) * _GAP + (n in row.runs.breaks) * 3
            lefts.append(left)
            left += width
        placed.append(_Placed(row, tuple(lefts), width, top))
        top += _HEIGHT + (12 if any(target >= 0 for target in row.targets) else 4)
    return placed


def _boxes(placed: _Placed) -> Iterator[str]:
    row, middle = placed.row, placed.top + _HEIGHT / 2 + 4
    yield _text(_LEFT - 8, middle, row.name, "dim", "end")
    for cell, left, owner, pad in zip(row.cells, placed.lefts, row.owner, row.padding, strict=True):
        kind = "pad" if pad else "cell" if owner < 0 else f"r{owner % len(_HUES)}"
        yield (
            f'<rect class="{kind}" x="{left:g}" y="{placed.top:g}" width="{placed.width:g}" '
            f'height="{_HEIGHT}"/>'
        )
        kind = "dim" if pad else ""
        yield _text(left + placed.width / 2, middle, cell, kind, "middle")
    if row.more:
        yield _text(placed.right + 8, middle, f"… {row.more} more", "dim")


def _arrows(placed: Sequence[_Placed]) -> Iterator[str]:
    """Lines from positions to the first entry of each run, in the first array of entries."""
    children = next((each for each in placed if each.row.runs is not None), None)
    for each in placed if children is not None else ():
        for left, target, owner in zip(
            each.lefts, each.row.targets or (-1,) * len(each.lefts), each.row.owner, strict=True
        ):
            if children is None or not 0 <= target < len(children.lefts):
                continue
            x, y = left + each.width / 2, each.top + _HEIGHT
            to, bottom = children.lefts[target] + children.width / 2, children.top
            bend = (y + bottom) / 2
            yield (
                f'<path class="arrow a{owner % len(_HUES)}" d="M{x:g} {y:g}C{x:g} {bend:g} '
                f'{to:g} {bend:g} {to:g} {bottom:g}m-3 -4l3 4l3 -4"/>'
            )


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    attributes = f' class="{kind}"' if kind else ""
    attributes += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:g}" y="{y:g}"{attributes}>{escape(text)}</text>'
