"""Automatic choice of schedules and formats."""
