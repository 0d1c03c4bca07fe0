"""PyPI's JSON of a release (`<index>/pypi/NAME/VERSION/json`): known vulnerabilities, and facts of its files.

PyPI takes the vulnerabilities from the OSV database. The JSON of a whole project has the same key, for its newest
version, but isn't used: a mirror keeps that file from the day of the last release, without newer advisories.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from packaging.version import Version

from envspec.base.documents import read_json
from envspec.base.errors import IndexFailure
from envspec.base.redact import redact
from envspec.configuration.settings import split_credentials
from envspec.packages.requirement import canonical_name
from envspec.review.audit.model import Advisory, DatabaseAnswer, FileFacts, PublishedRelease


def release_url(index: str, release: PublishedRelease) -> str:
    """Return the URL of a release's JSON, beside the simple index at `index`, as on PyPI and its mirrors."""
    base = index.rstrip("/").removesuffix("/simple")
    return f"{base}/pypi/{release.name}/{release.version}/json"


def parse_release(body: bytes, release: PublishedRelease, url: str, fetched: str) -> DatabaseAnswer:
    """Read the answer in a release's JSON; withdrawn advisories are left out.

    Raises IndexFailure for what isn't such a document, or is that of another release.
    """
    try:
        document = read_json(body)
        described = PublishedRelease(
            canonical_name(document["info"]["name"]), str(Version(document["info"]["version"]))
        )
        if described != PublishedRelease(release.name, str(Version(release.version))):
            raise ValueError
        advisories = tuple(_advisory(row) for row in document["vulnerabilities"] if not row.get("withdrawn"))
        files = {row["filename"]: _file(row) for row in document.get("urls", ())}
        releases = releases_page(document["info"].get("project_urls") or {})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        message = f"{redact(split_credentials(url)[0])} isn't PyPI's JSON for {release.name} {release.version}"
        raise IndexFailure(message, hint="check what serves this address, or give a database with --database") from None
    return DatabaseAnswer(fetched, advisories, files, releases=releases)


_LABELS = (
    *("source", "sourcecode", "repository", "code", "github", "homepage"),
    *("changelog", "changes", "releasenotes", "whatsnew", "history", "releases"),
)
"""The well-known labels of a project's URLs, normalised as packaging.python.org has it."""


_FORGE = re.compile(
    r"https://(?P<host>github\.com|gitlab\.com|codeberg\.org)/"
    r"(?P<repository>[A-Za-z0-9][A-Za-z0-9_.-]{0,99}/[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}?)(?:\.git)?(?:[/#?][!-~]{0,300})?"
)
"""A repository at a forge whose page of releases is known. Whoever publishes a package wrote the URL: nothing else of
it is taken."""


def releases_page(urls: Mapping[str, Any]) -> str | None:
    """Find the page of releases of a project's repository, by its METADATA's URLs; None where none is at a known
    forge."""
    by_label = {re.sub(r"[\W_]", "", label).lower(): str(url) for label, url in urls.items()}
    for label in _LABELS:
        place = _FORGE.fullmatch(by_label.get(label, ""))
        if place is not None:
            page = "-/releases" if place["host"] == "gitlab.com" else "releases"
            return f"https://{place['host']}/{place['repository']}/{page}"
    return None


def _advisory(row: Mapping[str, Any]) -> Advisory:
    return Advisory(
        id=str(row["id"]),
        aliases=tuple(sorted(map(str, row.get("aliases") or ()))),
        summary=first_line(str(row.get("summary") or row.get("details") or "")),
        fixed_in=tuple(map(str, row.get("fixed_in") or ())),
        link=str(row["link"]) if row.get("link") else None,
    )


def _file(row: Mapping[str, Any]) -> FileFacts:
    yanked = str(row.get("yanked_reason") or "") if row.get("yanked") else None
    uploaded = row.get("upload_time_iso_8601")
    return FileFacts(str(row["digests"]["sha256"]), str(uploaded) if uploaded else None, yanked)


def first_line(text: str) -> str:
    """Return the first line with words of a text, which may be a page of Markdown; 300 characters at most."""
    lines = (line.strip().strip("#").strip() for line in text.splitlines())
    line = next((line for line in lines if line), "")
    return line if len(line) <= 300 else f"{line[:299]}…"
