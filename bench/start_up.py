"""Start-up: whole processes of short commands beside the least that their libraries cost."""

from __future__ import annotations

import sys

from bench.measure import envspec, run, turns

ROUNDS = 15


def main() -> None:
    """Print the ratios, and what `envspec check` of every shipped lock takes."""
    runs = turns(
        {
            "envspec --help": lambda: run(envspec("--help")),
            "python -c 'import click'": lambda: run([sys.executable, "-c", "import click"]),
            "envspec check": lambda: run(envspec("check")),
        },
        ROUNDS,
    )
    help_, click = runs["envspec --help"], runs["python -c 'import click'"]
    print(
        f"envspec --help: {help_.seconds / click.seconds:.2f} x python -c 'import click'   "
        f"({help_.seconds * 1e3:.0f} ms against {click.seconds * 1e3:.0f} ms)"
    )
    check = runs["envspec check"]
    print(
        f"envspec check, all shipped locks: {check.seconds * 1e3:.0f} ms, {check.megabytes:.0f} MB   "
        f"({check.seconds / click.seconds:.2f} x python -c 'import click')"
    )


if __name__ == "__main__":
    main()
