"""Command line and other faces. Nobody imports this."""
