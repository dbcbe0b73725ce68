"""Modes and entries in other places: broadcasting, shapes, selections; nothing is computed here."""
