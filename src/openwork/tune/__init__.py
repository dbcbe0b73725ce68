"""The tuner: formats and schedules chosen together by measuring, and what was learnt from it."""

from openwork.tune.best import Best
from openwork.tune.candidate import Candidate
from openwork.tune.kept import clear, export, include, records
from openwork.tune.search import search

__all__ = ["Best", "Candidate", "clear", "export", "include", "records", "search"]
