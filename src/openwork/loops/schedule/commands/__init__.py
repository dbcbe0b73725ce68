"""The scheduling language: one command a file, each from a plan to a plan."""
