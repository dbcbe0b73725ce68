"""Schedules: commands as data, their text, and when they are legal."""
