"""Schedules that nobody wrote: what a statement gets without commands of the user's own."""
