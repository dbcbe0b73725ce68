"""How each relation's variables are recovered and looped over; one file per relation."""
