"""From loops to a program."""
