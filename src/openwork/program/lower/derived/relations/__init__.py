"""What each relation answers while loops over its variables are lowered, one a file."""
