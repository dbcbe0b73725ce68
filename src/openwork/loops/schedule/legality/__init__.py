"""What commands may do: with loops, on threads, and on a GPU."""
