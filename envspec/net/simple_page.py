"""Pages of simple indexes (PEP 503 HTML, PEP 691 JSON)."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from envspec.base.documents import read_json
from envspec.base.errors import IndexFailure
from envspec.base.redact import redact
from envspec.net import limits
from envspec.net.fetch import Fetcher

NO_DATE = "1970-01-01T00:00:00Z"
"""What a file without an upload time gets, on a flat page and on an index of the spec's own: uv takes nothing without
one where a spec has `exclude-newer`."""


class Links(HTMLParser):
    """A reader of the anchors of a page as PEP 691 rows, with what PEP 503 puts into attributes."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []
        self._base = url

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "base" and values.get("href"):
            self._base = urljoin(self._base, str(values["href"]))
        href = values.get("href") if tag == "a" else None
        if not href:
            return
        address, _, fragment = urljoin(self._base, href).partition("#")
        row: dict[str, Any] = {"filename": unquote(urlsplit(address).path).rsplit("/", 1)[-1], "url": address}
        algorithm, _, digest = fragment.partition("=")
        row["hashes"] = {algorithm: digest} if digest else {}
        if values.get("data-requires-python"):
            row["requires-python"] = values["data-requires-python"]
        row["core-metadata"] = values.get("data-core-metadata") or values.get("data-dist-info-metadata")
        if values.get("data-upload-time"):
            row["upload-time"] = values["data-upload-time"]
        if values.get("data-provenance"):
            row["provenance"] = values["data-provenance"]
        if "data-yanked" in values:
            row["yanked"] = values["data-yanked"] or True
        self.rows.append(row)


ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"

Page = list[dict[str, Any]]
"""The `files` of a PEP 691 page."""

LivePages = Callable[[str, str], Page]
"""(variant, project) → files of the live index or its mirror, with absolute URLs."""


def mirror_pages(base: str, fetcher: Fetcher) -> LivePages:
    """Fetch a page of the index at `base` (that of one variant), with absolute URLs; an empty page if it has none."""

    def pages(variant: str, project: str) -> Page:
        url = f"{base}/{project}/"
        reply = fetcher.get(url, headers={"Accept": ACCEPT})
        return read_page(reply.body, reply.url, fetcher) if reply.status == 200 else []

    return pages


def refuse_foreign_page(url: str, body: bytes) -> None:
    """Raise IndexFailure if the body of a 200 answer at `url` isn't a page of an index, but a login page, an error page
    or the like."""
    text = body.lower()
    # an index's HTML page of a project without files has the title that PEP 503's examples and every server use, or a
    # version
    known = b"{", b"links for", b"repository-version"
    if not text.lstrip().startswith(known[0]) and b"<a" not in text and not any(word in text for word in known[1:]):
        raise IndexFailure(
            f"{redact(url)} serves a web page that isn't an index page",
            hint="check the index's address, and whether a proxy or a login page answers in its place",
        )


def read_page(body: bytes, url: str, fetcher: Fetcher) -> Page:
    """Read a page whose files the same fetcher is asked for later (`parse_page`)."""
    rows = parse_page(body, url)
    fetcher.learn_hosts(url, (str(row["url"]) for row in rows))
    return rows


def parse_page(body: bytes, url: str) -> Page:
    """Read the files of a page as PEP 691 rows with absolute URLs. Links are relative to `url`, where the page came
    from in the end. `hashes` has a sha256 or nothing: no lock pins another hash, and a file without one can be hashed.

    Raises IndexFailure for a page of neither form, and for more rows than the limits allow, before it makes any.
    """
    most = limits.LIMITS.page_rows
    # counting takes a fifth of a page's reading: a body that is shorter has no more
    if len(body) > 8 * most and max(body.count(b"{") + body.count(b"["), body.count(b"<")) > 8 * most:
        raise IndexFailure(
            f"{redact(url)} has more than {most} files, the limit for an index page",
            hint="check which server answers at this address",
        )
    try:
        rows = _json_rows(body, url) if body.lstrip()[:1] == b"{" else _html_rows(body, url)
        if not url.startswith("file:"):
            _refuse_local(rows, url)
        return [_check_row(row) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise IndexFailure(f"{redact(url)} isn't an index page", hint="check the mirror's address") from None


def _refuse_local(rows: Page, url: str) -> None:
    """Refuse files of this machine on a server's page."""
    local = next((row["url"] for row in rows if row["url"].startswith("file:")), None)
    if local is not None:
        raise IndexFailure(
            f"{redact(url)} links to a file of this machine: {redact(local)}",
            hint="tell whoever runs the index: its pages may link to http and https alone",
        )


_SHA256 = re.compile(r"[0-9a-f]{64}")
_PLAIN_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+/[!-~]{1,1000}")


def _check_row(row: dict[str, Any]) -> dict[str, Any]:
    """Keep the sha256 of a row's `hashes` alone, and its `provenance` where that is an address (PEP 740). Set its
    `core-metadata` to the METADATA's sha256, else to whether METADATA lies beside the file."""
    sha256 = row.get("hashes", {}).get("sha256")
    row["hashes"] = {"sha256": sha256} if sha256 and type(sha256) is str else {}
    said = row.pop("core-metadata", None) or row.pop("dist-info-metadata", None)
    if said:
        digest = str(said.get("sha256")) if isinstance(said, dict) else str(said).partition("sha256=")[2]
        row["core-metadata"] = digest if _SHA256.fullmatch(digest) else True
    if type(row.get("requires-python")) is not str:
        row.pop("requires-python", None)
    told = row.pop("provenance", None)
    if isinstance(told, str) and _PLAIN_URL.fullmatch(told):
        row["provenance"] = told
    return row


def _json_rows(body: bytes, url: str) -> list[dict[str, Any]]:
    """Raises TypeError or KeyError for a row that nothing could be made of later."""
    # the rows are this reader's own
    rows: list[dict[str, Any]] = read_json(body)["files"]
    for row in rows:
        link = row["url"]
        if type(row["filename"]) is not str or type(link) is not str:
            raise TypeError("a row without a name or an address")
        if "[" in link:
            # a host that is none: whoever takes the address apart later needn't think of it
            urlsplit(link)
        # most pages have whole addresses by the thousand, and joining is slow
        if not link.startswith("https://"):
            row["url"] = urljoin(url, link)
    return rows


def _html_rows(body: bytes, url: str) -> list[dict[str, Any]]:
    # most indexes answer with JSON
    parser = Links(url)
    try:
        parser.feed(body.decode("utf-8", "replace"))
    except AssertionError as fault:
        # how html.parser refuses a marked section without a name: `<![<`
        raise ValueError(str(fault)) from None
    if not parser.rows and b"<a" not in body.lower() and b"<html" not in body.lower():
        raise ValueError("it is neither links nor HTML")
    return parser.rows


def is_dated(row: dict[str, object]) -> bool:
    """Say whether a file's page gave its upload time."""
    return row.get("upload-time") != NO_DATE
