"""The meaning of a finding's code, and the source of a correction."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.base.codes import meanings
from envspec.base.errors import InputError
from envspec.base.texts import nearest, printable
from envspec.facts.corrections import derivation, sources_of, table


def explanation(code: str) -> tuple[str, ...]:
    """Explain a code, or a correction of published metadata by its name. Raises InputError for any other name."""
    known = meanings()
    meaning = known.get(code.strip("[]"))
    if meaning is None:
        if lines := tuple(_of_correction(code)):
            return lines
        meant = nearest(code, tuple(known))
        hint = f"did you mean {meant}?" if meant else "`envspec explain` lists the codes"
        raise InputError(f"no finding has the code {printable(code)!r}", hint=hint)
    return (
        f"{meaning.code}: {meaning.means}",
        f"what to do: {meaning.do}",
        f"said by {meaning.said_by.replace('`', '')}",
        f"can be accepted with a reason: {meaning.how}" if meaning.how else f"can't be accepted: {meaning.refused}",
    )


def _of_correction(name: str) -> Iterator[str]:
    rows = [row for row in table() if row.name == name]
    if text := derivation(name):
        yield f"read from {text}"
    for row in rows:
        yield f"{row.package}{row.versions} needs {row.requirement}: {row.reason}"
    yield from dict.fromkeys(f"source: {text}" for row in rows for text in sources_of(row))
    if rows:
        yield f"proved: {rows[0].proved}"
    if text or rows:
        yield f'to do without: without-corrections = ["{name}"] in [pip]'
