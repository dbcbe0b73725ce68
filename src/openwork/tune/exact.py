"""Which recipe a statement gets on a GPU if its result is to have the same bits at each call."""

from __future__ import annotations

from openwork.errors import ScheduleError
from openwork.program.exact import may_be_atomic
from openwork.tensor.statement import Statement
from openwork.tune import recipes

# From the best: each gives an entry of the result to threads that meet in one order.
_RECIPES = (recipes.spmm_rows, recipes.group_per_row, recipes.sddmm)


def choose_exact(stmt: Statement) -> Statement | None:
    """The recipe that is chosen anyway if it has no atomics, or the first that has none."""
    chosen = Statement.gpu_recipe(stmt) if Statement.gpu_recipe is not None else None
    if chosen is None or not may_be_atomic(chosen._planned[0]):
        return chosen
    for recipe in _RECIPES:
        try:
            made = recipe(stmt)
        except ScheduleError:
            continue
        if not may_be_atomic(made._planned[0]):
            return made
    return None


Statement.exact_gpu_recipe = staticmethod(choose_exact)
