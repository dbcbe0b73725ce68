"""The tuner: formats and schedules chosen together by measuring, and what was learnt from it."""

from openwork.tune.best import Best
from openwork.tune.candidate import Candidate
from openwork.tune.kept import clear, export, include, records
from openwork.tune.patterns import BestProgram, search_program
from openwork.tune.search import search
from openwork.tune.together import BestOfAll, search_all

__all__ = [
    "Best",
    "BestOfAll",
    "BestProgram",
    "Candidate",
    "clear",
    "export",
    "include",
    "records",
    "search",
    "search_all",
    "search_program",
]
