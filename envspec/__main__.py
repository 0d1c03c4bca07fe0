"""`python -m envspec`, and the program `envspec`."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        # with -m the working folder, where a repository may have a typing.py; else this package's own
        del sys.path[0]
    if not __package__:
        sys.path.append(__file__.removesuffix("envspec/__main__.py"))

import gc
import os
from _signal import SIGINT, default_int_handler, getsignal, signal  # type: ignore[import-not-found]

_OBJECTS = 100_000
"""New objects between two looks for garbage: what a command reads lives until it ends, so that looking often (Python's
own number is 700) finds nothing and takes a twentieth of its time."""


def main() -> None:
    """Start the command line. Ctrl-C counts from the first moment, also while the modules are still being read."""
    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, _end)
    gc.set_threshold(_OBJECTS)
    try:
        from envspec.cli.main import main as start

        start()
    except KeyboardInterrupt:
        os.write(2, b"interrupted\n")
        sys.exit(130)


def _end(*_: object) -> None:
    """End at once, until the command line takes the signal over: modules that are being read turn an exception into
    others, and Python shows where it stood."""
    os.write(2, b"interrupted: nothing was changed\n")
    os._exit(130)


if __name__ == "__main__":
    main()
