"""`envspec explain`."""

from __future__ import annotations

import click

from envspec.app.explain import explanation
from envspec.base.codes import meanings
from envspec.cli import options
from envspec.cli.console import out

EPILOG = """\b
Examples:
  envspec explain driver-too-old
  envspec explain torch-numpy-2          a correction that lock told
  envspec explain                        every code
"""


@click.command(epilog=EPILOG)
@click.argument("code", required=False, metavar="[CODE]", shell_complete=options.complete("codes"))
def command(code: str | None) -> None:
    """Explain a finding's code, with its remedy

    Codes stand in brackets behind findings, and in JSON. Without a code, envspec lists them all. For the name of a
    correction of published metadata, it shows the correction's subject and source.
    """
    if code is not None:
        out("\n".join(explanation(code)))
        return
    known = meanings()
    width = max(map(len, known))
    for meaning in known.values():
        out(f"{meaning.code:{width}}  {meaning.means}")
