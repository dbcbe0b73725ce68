"""Which unit executes a map: the names of the paper, and the loops that they become."""

from __future__ import annotations

from openwork.errors import PatternError
from openwork.program import nodes as p
from openwork.skeletons.language.nodes import Choice, Map, Nat, nat, walk_all
from openwork.tree import Node, children

BY_THREADS = 256  # of a block, where a thread of the whole grid takes each element
GROUP = 32  # the lanes of a warp

CPU_UNITS = ("Threads", "Vector", "Seq")
GPU_UNITS = ("Global", "Workgroup", "Local", "Warp", "Lane", "Seq")
_OUTSIDE = {"Local": "Workgroup", "Warp": "Workgroup", "Lane": "Warp"}
_UNITS = {"Workgroup": "block", "Local": "thread", "Warp": "warp", "Lane": "thread"}


def unit_of(
    how: str, length: Nat, inside: tuple[str, ...], gpu: bool, reduces: bool
) -> p.Threads | p.Unit | None:
    """Who executes the iterations of a loop for `map{how}`, inside loops for other units.

    Raises:
        PatternError: E708 where the units do not nest so, or another target has them.
    """
    if how in ("", "Seq"):
        return None
    wanted = GPU_UNITS if gpu else CPU_UNITS
    target = "a GPU" if gpu else "a CPU"
    if how not in wanted:
        raise PatternError(
            f"{target} has no map{how}", code="E708",
            hint=f"there are {', '.join(f'map{unit}' for unit in wanted)}",
        )  # fmt: skip
    parallel = [unit for unit in inside if unit not in ("Seq", "Vector")]
    around = _OUTSIDE.get(how)
    if how == "Threads":
        if parallel:
            raise _nested(how, f"inside map{parallel[-1]}")
        return p.Threads()
    if how == "Vector":
        return None
    if around is None and parallel:
        raise _nested(how, f"inside map{parallel[-1]}")
    alone = how == "Local" and not parallel  # the threads of one block
    if around is not None and not alone and (around not in parallel or how in parallel):
        raise _nested(how, f"without a map{around} around it")
    if how == "Local" and "Warp" in parallel:
        raise _nested(how, "inside mapWarp: its threads are lanes")
    if how == "Lane" and "Local" in parallel:
        raise _nested(how, "inside mapLocal")
    count = length.constant
    if how in ("Workgroup", "Global"):
        return p.Unit("block")
    group = count if reduces and count in (2, 4, 8, 16, 32) else 0
    if count is None:  # the pieces of a split have at most their size
        sizes = [a.then.constant for a in length.atoms if isinstance(a, Choice)]
        count = sizes[0] if len(sizes) == 1 and len(length.terms) == 1 else None
    most = count if count is not None else (GROUP if how == "Lane" else None)
    return p.Unit(
        _UNITS[how], most=most if how != "Lane" or count is not None else None,
        group=group or 0, reduction="parallel" if group else "",
    )  # fmt: skip


def nests(body: Node, inside: tuple[str, ...] = ()) -> bool:
    """Whether the units of a program nest, on a CPU or on a GPU."""
    units = {f.how for f in walk_all(body) if isinstance(f, Map) and f.how not in ("", "Seq")}
    gpu = not units <= set(CPU_UNITS)
    if gpu and not units <= set(GPU_UNITS):
        return False
    try:
        _check_nesting(body, inside, gpu)
    except PatternError:
        return False
    return True


def _check_nesting(node: Node, inside: tuple[str, ...], gpu: bool) -> None:
    if isinstance(node, Map):
        unit_of(node.how, nat(1), inside, gpu, False)
        inside = (*inside, node.how or "Seq")
    below = node.atoms if isinstance(node, Nat) else children(node)
    for child in below:
        _check_nesting(child, inside, gpu)


def _nested(how: str, why: str) -> PatternError:
    return PatternError(
        f"map{how} {why}", code="E708",
        hint="mapThreads(...mapVector), or mapWorkgroup(mapWarp(mapLane)), mapWorkgroup(mapLocal)",
    )  # fmt: skip
