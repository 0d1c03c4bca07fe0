"""docs/codes.md: what each code means, and what to do, from the table that `envspec explain` reads."""

from __future__ import annotations

from itertools import groupby

from envspec.base.codes import meanings

HEAD = """\
# The codes

A finding ends with its code in brackets, and JSON has it as `code`. Codes are stable; messages aren't.
`envspec explain CODE` prints a row of this page:

```console
$ envspec explain driver-too-old
driver-too-old: The driver is below the floor of the target's CUDA.
what to do: Update the driver, or lower `cuda`.
said by lock, doctor, init
can be accepted with a reason: accept = { driver-too-old = "why" } in [pip]
```

[constraints.md](constraints.md#accept-a-finding) says how a spec accepts a finding.
"""
TABLE = "| code | it means | what to do | can be accepted |\n|---|---|---|---|\n"


def page() -> str:
    """Return the page's text."""
    parts = [HEAD]
    for subject, group in groupby(meanings().values(), key=lambda one: one.subject):
        rows = list(group)
        parts.append(f"## {subject}\n\nSaid by {rows[0].said_by}.\n\n{TABLE}")
        for one in rows:
            parts[-1] += f"| `{one.code}` | {one.means} | {one.do} | {'yes' if one.how else f'no: {one.refused}'} |\n"
    return "\n".join(parts)
