"""docs/codes.md: what each code means, from the table that `envspec explain` reads. The site's has remedies."""

from __future__ import annotations

from itertools import groupby

from envspec.base.codes import meanings

HEAD = """\
# The codes

A finding ends with its code in brackets, and JSON has it as `code`. Codes are stable; messages aren't.
`envspec explain CODE` has the remedy, the commands that find it, and how a spec accepts it, or why it can't:

```console
$ envspec explain driver-too-old
driver-too-old: The driver is below the floor of the target's CUDA.
what to do: Update the driver, or lower `cuda`.
said by lock, doctor, init
can be accepted with a reason: accept = { driver-too-old = "why" } in [pip]
```

The severity belongs to the finding, not to its code: one code can be an error for one target and a warning for
another. A code with `*` can be [accepted with a reason](constraints.md#accept-a-finding).
"""
LONG = "| code | it means | what to do | can be accepted |\n|---|---|---|---|\n"


def page() -> str:
    """Return the page's text: a line for each code."""
    parts = [HEAD]
    for subject, group in groupby(meanings().values(), key=lambda meaning: meaning.subject):
        rows = list(group)
        lines = "".join(f"- `{row.code}`{'*' if row.how else ''}: {row.means}\n" for row in rows)
        parts.append(f"## {subject}\n\n{lines}")
    return "\n".join(parts)


def long_page() -> str:
    """Return the text of the site's page: a table with the remedies."""
    parts = [HEAD]
    for subject, group in groupby(meanings().values(), key=lambda meaning: meaning.subject):
        rows = list(group)
        parts.append(f"## {subject}\n\nFrom {rows[0].said_by}.\n\n{LONG}")
        for row in rows:
            accepted = "yes" if row.how else f"no: {row.refused}"
            parts[-1] += f"| `{row.code}` | {row.means} | {row.do} | {accepted} |\n"
    return "\n".join(parts)
