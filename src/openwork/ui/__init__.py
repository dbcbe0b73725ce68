"""The command line, its demo and its doctor; nothing imports this folder."""
