"""The version of Openwork, written once."""

__version__ = "0.1.0"
