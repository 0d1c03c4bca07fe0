"""The table `data/most_used.toml`: the names that most downloads are of."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from envspec.base.errors import InputError
from envspec.packages.requirement import canonical_name

REPOSITORY = "hugovk/top-pypi-packages"

COUNT = 5_000
"""Names. DeepSpeed, flash-attn and nest-asyncio2 stand behind the 4,000th; of 10,000 less used names, 2% are near to
one of these."""

_HEADER = """\
# The {count} names of PyPI with the most downloads, by name: what a new package could be mistaken for. `python -m
# tools.refresh names` made it from top-pypi-packages.min.json of {repository}
# at revision {revision}: facts alone are taken from it.
schema = 1
proof.report = "*"
as-of = "{date}"
sources.downloads = "{repository}, top-pypi-packages.min.json at {revision}"

names = \"\"\"
"""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


def table_from(document: Any, revision: str) -> str:
    """Make the table's text from the ranking. Raises InputError for a document that isn't one."""
    try:
        listed = [canonical_name(str(row["project"])) for row in document["rows"][:COUNT]]
        date = str(document["last_update"])[:10]
    except (KeyError, TypeError, IndexError):
        raise InputError("this isn't a ranking of packages: it has no rows with projects") from None
    wrong = [name for name in listed if not _NAME.fullmatch(name)]
    if wrong or not listed or not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        raise InputError(f"this isn't a ranking of packages: {', '.join(wrong[:3]) or date!r} isn't one's")
    text = " ".join(sorted(set(listed)))
    head = _HEADER.format(count=f"{len(set(listed)):,}", repository=REPOSITORY, revision=revision, date=date)
    lines = textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)
    return head + "\n".join(lines) + '\n"""\n'
