"""OSV's service (https://google.github.io/osv.dev/post-v1-querybatch/), asked which releases are reported as malicious.
PyPI's own JSON doesn't have these reports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from envspec.base.documents import read_json
from envspec.base.errors import IndexFailure
from envspec.base.redact import redact
from envspec.base.settings import split_credentials
from envspec.net.fetch import Fetcher
from envspec.net.timed_connections import HeadTooSlow
from envspec.review.audit.model import Advisory, DatabaseAnswer, PublishedRelease

_AT_ONCE = 1000
"""The service takes no more queries in a request."""
_SECONDS = 5.0
"""Whoever locks or installs waits for it."""
_MOST = 8_000_000


def reports_of(
    releases: Sequence[PublishedRelease], url: str, fetcher: Fetcher, fetched: str
) -> Mapping[PublishedRelease, DatabaseAnswer]:
    """Ask the service at `url` for the reports (`MAL-…`) about PyPI's releases, and nothing else. Raises IndexFailure
    for what isn't a whole answer."""
    found: dict[PublishedRelease, DatabaseAnswer] = {}
    for start in range(0, len(releases), _AT_ONCE):
        some = releases[start : start + _AT_ONCE]
        for release, names in zip(some, _query(some, url, fetcher), strict=True):
            advisories = tuple(Advisory(name) for name in sorted(names) if name.startswith("MAL-"))
            found[release] = DatabaseAnswer(fetched, advisories)
    return found


def _query(releases: Sequence[PublishedRelease], url: str, fetcher: Fetcher) -> list[list[str]]:
    address = f"{url.rstrip('/')}/v1/querybatch"
    queries = [{"package": {"name": one.name, "ecosystem": "PyPI"}, "version": one.version} for one in releases]
    return parse_answer(_post(address, {"queries": queries}, fetcher), len(queries), address)


def parse_answer(body: bytes, queries: int, url: str) -> list[list[str]]:
    """Read the identifiers of the advisories about each of so many queries. Raises IndexFailure."""
    try:
        document = read_json(body)
        results = [[str(one["id"]) for one in row.get("vulns") or ()] for row in document["results"]]
        if len(results) != queries or any(row.get("next_page_token") for row in document["results"]):
            raise ValueError
        return results
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise IndexFailure(
            f"{redact(split_credentials(url)[0])} didn't answer as OSV's service does", hint="check ENVSPEC_OSV_URL"
        ) from None


def _post(url: str, value: object, fetcher: Fetcher) -> bytes:
    from urllib3.exceptions import HTTPError

    bare = split_credentials(url)[0]
    try:
        response = fetcher.pool(bare).request(
            "POST",
            bare,
            body=json.dumps(value).encode(),
            headers={"Content-Type": "application/json"},
            timeout=_SECONDS,
            retries=False,
            redirect=False,
            preload_content=False,
        )
        body = response.read(_MOST + 1)
        response.release_conn()
    except (HTTPError, HeadTooSlow, OSError) as error:
        raise IndexFailure(f"{redact(bare)} can't be asked: {type(error).__name__}") from None
    if response.status != 200 or len(body) > _MOST:
        raise IndexFailure(f"{redact(bare)} answered HTTP {response.status}, {len(body)} bytes")
    return bytes(body)
