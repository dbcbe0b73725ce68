import pytest
from openwork.program.lower.walk import lattice
lattice._MOST_POINTS, lattice._MOST_OPTIONAL = 2, 0
from tests.random.test_property import *  # noqa
