"""`envspec explain`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from envspec.base.codes import Meaning, meanings
from envspec.base.errors import InputError
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

    Codes stand in brackets behind findings, and in JSON. Without a code, envspec lists them all. Of a correction of
    published metadata, by its name, it says what it is about and its source.
    """
    known = meanings()
    if code is None:
        width = max(map(len, known))
        for one in known.values():
            out(f"{one.code:{width}}  {one.means}")
        return
    found = known.get(code.strip("[]"))
    if found is None:
        if _tell_correction(code):
            return
        raise _unknown(code, known)
    out(f"{found.code}: {found.means}")
    out(f"what to do: {found.do}")
    out(f"said by {found.said_by.replace('`', '')}")
    how = f'can be accepted with a reason: accept = {{ {found.code} = "why" }} in [pip]'
    out(f"can't be accepted: {found.refused}" if found.refused else how)


def _tell_correction(name: str) -> bool:
    """Say what a correction of published metadata is about, and whence it is; False for a name that none has."""
    from envspec.facts.corrections import derivation, sources_of, table

    if text := derivation(name):
        out(f"read from {text}")
        out(f'to do without: without-corrections = ["{name}"] in [pip]')
        return True
    rows = [row for row in table() if row.name == name]
    for row in rows:
        out(f"{row.package}{row.versions} needs {row.requirement}: {row.reason}")
    for text in dict.fromkeys(text for row in rows for text in sources_of(row)):
        out(f"source: {text}")
    if rows:
        out(f"proved: {rows[0].proved}")
        out(f'to do without: without-corrections = ["{name}"] in [pip]')
    return bool(rows)


def _unknown(code: str, known: Mapping[str, Meaning]) -> InputError:
    from envspec.base.texts import nearest, printable

    meant = nearest(code, tuple(known))
    hint = f"did you mean {meant}?" if meant else "`envspec explain` lists the codes"
    return InputError(f"no finding has the code {printable(code)!r}", hint=hint)
