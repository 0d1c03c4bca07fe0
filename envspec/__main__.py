"""`python -m envspec`, and the program `envspec`."""

from __future__ import annotations

import sys


def main() -> None:
    """Start the command line. Ctrl-C counts from the first moment, also while the modules are still being read."""
    try:
        from envspec.cli.main import main as start

        start()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
