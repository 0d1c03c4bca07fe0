"""`envspec explain`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from envspec.cli import options
from envspec.cli.codes import Meaning, meanings
from envspec.cli.console import out
from envspec.errors import InputError

EPILOG = """\b
Examples:
  envspec explain driver-too-old
  envspec explain                        every code
"""


@click.command(epilog=EPILOG)
@click.argument("code", required=False, metavar="[CODE]", shell_complete=options.complete("codes"))
def command(code: str | None) -> None:
    """Say what the code of a finding means, and what to do.

    Codes stand in brackets behind findings, and in JSON. Without a code, envspec lists them all.
    """
    known = meanings()
    if code is None:
        width = max(map(len, known))
        for one in known.values():
            out(f"{one.code:{width}}  {one.means}")
        return
    found = known.get(code.strip("[]"))
    if found is None:
        raise _unknown(code, known)
    out(f"{found.code}: {found.means}")
    out(f"what to do: {found.do}")
    out(f"said by {found.said_by.replace('`', '')}")


def _unknown(code: str, known: Mapping[str, Meaning]) -> InputError:
    from envspec.texts import nearest, printable

    meant = nearest(code, tuple(known))
    hint = f"did you mean {meant}?" if meant else "`envspec explain` lists the codes"
    return InputError(f"no finding has the code {printable(code)!r}", hint=hint)
