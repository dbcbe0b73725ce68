"""`python -m openwork`: the command line."""

from openwork.ui.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
