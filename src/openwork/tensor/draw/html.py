"""Tensors, statements and kernels as notebooks show them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from math import ceil, prod

import numpy as np

from openwork.runtime.storage import Array, Storage
from openwork.tensor.convert.pack import unpack
from openwork.tensor.draw.svg import colours
from openwork.tensor.draw.text import summary, type_of

_SIDE = 160  # pixels of a picture
_THIN = 12  # the least height of a row or a vector
_CELLS = 80  # places along its longer side
_MOST = 1 << 20  # entries that are looked at, evenly spread over the others
_HUES = 8

_STYLE = f"""<style>
.owh{{font:12px ui-monospace,Menlo,Consolas,monospace}}
.owh td,.owh th{{text-align:left;vertical-align:top;padding:0 8px 0 0;background:none}}
.owh .note{{opacity:.65}} .owh pre{{margin:4px 0}} .owh b{{font-weight:600}}
.owh svg .dot{{fill:currentColor}} .owh svg .page{{fill:none;stroke:currentColor;opacity:.4}}
{colours(".owh .v", "color", _HUES)}
</style>"""


def tensor_html(storage: Storage, name: str, drawing: str = "") -> str:
    """Facts, where entries are, how long rows are, and the drawing of a small tensor."""
    host = storage.host()
    facts = {
        "shape": " x ".join(map(str, host.shape)) or "a scalar",
        "elements": str(host.dtype),
        "format": repr(host.format),
        "stored": _stored(storage),
        "memory": _bytes(sum(int(each.nbytes) for each in storage.addressed)),
        "type": type_of(host),
    }
    if not host.format.is_dense:
        facts["absent entries"] = str(host.fill)
    rows = "".join(f"<tr><th>{k}</th><td>{escape(v)}</td></tr>" for k, v in facts.items())
    pictures = ""
    if host.nnz and host.shape and prod(host.shape):
        coords = _some(host)
        pictures = f"<td>{_pattern(coords, host.shape)}</td>"
        if not host.format.is_dense and len(host.shape) > 1:
            pictures += f"<td>{_lengths(coords[0], host.shape[0], host.nnz)}</td>"
    title = escape(f"{name}: {summary(storage)}")
    more = f"<details><summary>arrays</summary>{drawing}</details>" if drawing else ""
    return (
        f'<div class="owh">{_STYLE}<b>{title}</b><table><tr><td><table>{rows}</table></td>'
        f"{pictures}</tr></table>{more}</div>"
    )


def statement_html(text: str, loops: str, commands: str) -> str:
    """A statement, and its loops with a colour for each variable."""
    schedule = f'<div class="note">{escape(commands)}</div>' if commands else ""
    return f'<div class="owh">{_STYLE}<b>{escape(text)}</b>{schedule}{_loops(loops)}</div>'


def kernel_html(text: str, loops: str, decisions: Sequence[str], source: str) -> str:
    """A statement, its loops, what was decided, and the source."""
    told = "".join(f"<li>{escape(each)}</li>" for each in decisions)
    lines = len(source.splitlines())
    return (
        f'<div class="owh">{_STYLE}<b>{escape(text)}</b>{_loops(loops)}<ul>{told}</ul>'
        f"<details><summary>{lines} lines of source</summary><pre>{escape(source)}</pre></details>"
        "</div>"
    )


def _loops(text: str) -> str:
    """Loops as text, in which each variable has the colour of its loop."""
    names = dict.fromkeys(re.findall(r"forall (\w+)", text))
    colour = {name: f"v{n % _HUES}" for n, name in enumerate(names) if name != "forall"}
    shown = [
        f'<b class="{colour[word]}">{word}</b>' if word in colour else escape(word)
        for word in re.split(r"(\b[A-Za-z_]\w*)", text)
    ]
    return f"<pre>{''.join(shown)}</pre>"


def _stored(storage: Storage) -> str:
    size = prod(storage.shape)
    share = f" of {size:,} ({storage.nnz / size:.2g})" if size else ""
    return f"{storage.nnz:,}{share}"


def _bytes(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.3g} {unit}"


def _some(storage: Storage) -> Array:
    """The coordinates of the entries, or of some of them if there are very many."""
    coords, _ = unpack(storage)
    return coords[:, :: ceil(max(coords.shape[1], 1) / _MOST)]


def _pattern(coords: Array, shape: Sequence[int]) -> str:
    """Where entries are in the first two modes: the darker, the more of them."""
    if len(shape) == 1:  # a vector lies
        coords, shape = np.stack([0 * coords[0], coords[0]]), (1, *shape)
    coords = coords.astype(np.int64)  # they are multiplied
    high, wide = shape[:2]
    scale = min(1.0, _CELLS / max(high, wide))
    down, across = max(1, round(high * scale)), max(1, round(wide * scale))
    at = (coords[0] * down // high) * across + coords[1] * across // wide
    counts = np.bincount(at, minlength=down * across)
    darkness = np.sqrt(counts / counts.max())
    side = _SIDE / max(down, across)
    tall = side if down > 1 else max(side, _THIN)
    cells = "".join(
        f'<rect class="dot" x="{n % across * side:.4g}" y="{n // across * tall:.4g}" '
        f'width="{side:.4g}" height="{tall:.4g}" opacity="{darkness[n]:.2f}"/>'
        for n in np.flatnonzero(counts).tolist()
    )
    more = " (first two modes)" if len(shape) > 2 else ""
    return _picture(across * side, down * tall, cells, f"pattern{more}")


def _lengths(rows: Array, count: int, stored: int) -> str:
    """How many rows have so many entries, by powers of two."""
    _, found = np.unique(rows, return_counts=True)  # of rows with entries: there may be few
    length = found * (stored / max(len(rows), 1))
    bins = np.floor(np.log2(np.maximum(length, 1))).astype(int) + 1
    many = np.bincount(bins)
    many[0] = count - len(found)
    names = ["0", *(f"{2**n}" for n in range(len(many) - 1))]
    width = _SIDE / len(many)
    bars = "".join(
        f'<rect class="dot" x="{n * width + 1:.4g}" y="{_SIDE * (1 - each / many.max()):.4g}" '
        f'width="{width - 2:.4g}" height="{_SIDE * each / many.max():.4g}">'
        f"<title>{each} rows of {name} entries{' or more' * (n > 1)}</title></rect>"
        for n, (each, name) in enumerate(zip(many.tolist(), names, strict=True))
    )
    note = f"entries of a row: at most {length.max():.0f}, {stored / count:.3g} on average"
    return _picture(_SIDE, _SIDE, bars, note)


def _picture(width: float, height: float, body: str, note: str) -> str:
    return (
        f'<svg width="{width:.0f}" height="{height:.0f}" role="img"><title>{note}</title>'
        f'<rect class="page" width="{width:.0f}" height="{height:.0f}"/>{body}</svg>'
        f'<div class="note">{note}</div>'
    )
