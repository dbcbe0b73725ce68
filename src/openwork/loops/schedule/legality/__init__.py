"""When a loop nest is legal: in general, on threads, and on a GPU."""
