"""From programs to text, and only text."""
