"""Default schedules: what a statement gets without commands from the user."""
