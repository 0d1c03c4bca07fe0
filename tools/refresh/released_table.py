"""The update of `data/released.toml`: when releases of the torch family came to PyPI."""

from __future__ import annotations

import re
from itertools import groupby

from envspec.packages.version_numbers import numbers
from tools.refresh.published import Index, UpstreamChanged
from tools.refresh.releases import releases
from tools.refresh.rows import Row, rows_of, with_rows


def refreshed_dates(text: str, index: Index) -> str:
    """Add to the table's text the final releases that are newer than its own, and the day of the newest to how far it
    reaches. Raises IndexFailure, and UpstreamChanged for a release without a date."""
    rows: list[Row] = []
    for project, known in groupby(rows_of(text, "releases"), key=lambda row: str(row["project"])):
        of_project = list(known)
        rows += of_project
        newest = max(numbers(row["version"]) for row in of_project)
        for one in releases(project, index.files(project)):
            version = str(one.version)
            if one.version.release > newest and not one.version.is_postrelease:
                if one.uploaded is None:
                    raise UpstreamChanged(f"{project} {version}: the page doesn't say when it came")
                date = one.uploaded.strftime("%Y-%m-%dT%H:%M:%SZ")
                rows.append({"project": project, "version": version, "date": date, "source": "pypi"})
    day = max(str(row["date"])[:10] for row in rows)
    text = with_rows(text, "releases", rows)
    return re.sub(r'(?m)^as-of = "([\d-]+)"$', lambda line: f'as-of = "{max(line[1], day)}"', text)
