"""Pages of a simple index (PEP 503 HTML, PEP 691 JSON), read for the gate from a mirror of the PyTorch index."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from envspec.errors import IndexFailure
from envspec.redact import redact
from envspec.resolve.fetch import Fetcher
from envspec.resolve.gate import LivePages, Page

_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"


def mirror_pages(base: str, fetcher: Fetcher) -> LivePages:
    """The pages of the index at `base` (that of one variant), with absolute URLs; an empty page where it has none."""

    def pages(variant: str, project: str) -> Page:
        url = f"{base}/{project}/"
        reply = fetcher.get(url, headers={"Accept": _ACCEPT})
        return parse_page(reply.body, url) if reply.status == 200 else []

    return pages


def newest_source(
    url: str, fetcher: Fetcher, specifiers: str, python: str, exclude_newer: str | None = None
) -> str | None:
    """The newest version that the page at `url` lists as a source distribution, for this Python ("3.11"), not yanked,
    uploaded before `exclude_newer` (RFC 3339), and that the specifiers admit; None for none.

    Raises IndexFailure.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.utils import InvalidSdistFilename, parse_sdist_filename

    reply = fetcher.get(url, headers={"Accept": _ACCEPT})
    if reply.status != 200:
        raise IndexFailure(f"{redact(url)} answered HTTP {reply.status}", hint="check the address of the index")
    versions = set()
    for row in parse_page(reply.body, url):
        # as uv does, which takes nothing without a date where dates decide
        if row.get("yanked") or (
            exclude_newer and not "" < str(row.get("upload-time") or "")[:19] < exclude_newer[:19]
        ):
            continue
        try:
            if SpecifierSet(str(row.get("requires-python") or "")).contains(python, prereleases=True):
                versions.add(parse_sdist_filename(str(row["filename"]))[1])
        except (InvalidSdistFilename, InvalidSpecifier):
            continue
    admitted = list(SpecifierSet(specifiers).filter(versions))
    return str(max(admitted)) if admitted else None


def refuse_foreign_page(url: str, fetcher: Fetcher, label: str) -> None:
    """Raise IndexFailure when an answer of 200 at `url` is no page of an index but a login page, an error page
    or the like."""
    reply = fetcher.get(url, headers={"Accept": _ACCEPT})
    text = reply.body.lower()
    # an index's HTML page of a project without files has the title that PEP 503's examples and every server use, or a
    # version
    known = b"{", b"links for", b"repository-version"
    if (
        reply.status == 200
        and not text.lstrip().startswith(known[0])
        and b"<a" not in text
        and not any(word in text for word in known[1:])
    ):
        raise IndexFailure(
            f"{label}: {redact(url)} serves some web page instead of an index page",
            hint="check the address of the index, and see whether a proxy or a login page answers in its place",
        )


def parse_page(body: bytes, url: str) -> Page:
    """The files of a page, as PEP 691 rows with absolute URLs. Files without a sha256 are left out: nothing
    could lock them.

    Raises IndexFailure for what is neither form.
    """
    try:
        rows = _json_rows(body, url) if body.lstrip()[:1] == b"{" else _html_rows(body, url)
        return [row for row in rows if row.get("hashes", {}).get("sha256")]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise IndexFailure(f"{redact(url)} isn't an index page", hint="check the address of the mirror") from None


def _json_rows(body: bytes, url: str) -> list[dict[str, Any]]:
    return [{**row, "url": urljoin(url, row["url"])} for row in json.loads(body)["files"]]


def _html_rows(body: bytes, url: str) -> list[dict[str, Any]]:
    parser = _Links(url)
    parser.feed(body.decode("utf-8", "replace"))
    if not parser.rows and b"<a" not in body.lower() and b"<html" not in body.lower():
        raise ValueError("neither links nor HTML")
    return parser.rows


class _Links(HTMLParser):
    """The anchors of a PEP 503 page as rows."""

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
        if values.get("data-core-metadata") or values.get("data-dist-info-metadata"):
            row["core-metadata"] = True
        if values.get("data-upload-time"):
            row["upload-time"] = values["data-upload-time"]
        if "data-yanked" in values:
            row["yanked"] = values["data-yanked"] or True
        self.rows.append(row)
