"""Rows by length: a statement as several, one for each bucket of rows, with one result."""
