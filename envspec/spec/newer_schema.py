"""The exceptions of `exclude-newer`, as `envspec.spec.schema` describes the other keys; and what has an end."""

from __future__ import annotations

from envspec.base.reader.nodes import Names, Table, Text
from envspec.base.reader.patterns import DATE, LINE

UNTIL = Text(
    doc="The last day on which it counts, in UTC.",
    example="2026-12-31",
    says="a date",
    pattern=DATE,
    date=True,
)


def newer_for(names: Text, what: str, age: str) -> Names:
    """Return a table of exceptions: `what` each is about, and how an age is written."""
    return Names(
        doc=f"What `exclude-newer` doesn't hold for: {what}, each with the reason.",
        names=names,
        values=Table(
            doc="An exception of `exclude-newer`.",
            required=("reason",),
            keys={
                "exclude-newer": Text(
                    doc="The bound that holds instead: a date, a time or an age; none at all, if left out.",
                    example="1 day",
                    says="an RFC 3339 date or time, or an age such as 1 day",
                    pattern=rf"{DATE}(?:[Tt ][^\s]+)?|{age}",
                    date=True,
                ),
                "reason": Text(
                    doc="Why.",
                    example="its fixes can't wait",
                    says="a reason in one line",
                    pattern=LINE,
                    max_length=300,
                ),
                "until": UNTIL,
            },
        ),
    )
