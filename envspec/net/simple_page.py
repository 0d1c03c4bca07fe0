"""Pages of simple indexes (PEP 503 HTML, PEP 691 JSON)."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from msgspec import Struct, field

from envspec.base.documents import decode
from envspec.base.errors import IndexFailure
from envspec.base.places import is_beside, refuse_link_out
from envspec.base.redact import redact
from envspec.net import limits
from envspec.net.fetch import Fetcher, local_path
from envspec.packages.archive_entries import SOURCES
from envspec.packages.requirement import canonical_name
from envspec.packages.variants import VARIANTS_END

NO_DATE = "1970-01-01T00:00:00Z"
"""The upload time of a file without one, on a flat page and on an index of the spec's own: uv takes nothing without one
where a spec has `exclude-newer`."""


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
        hint = "check the index's address, and whether a proxy or a login page answers in its place"
        raise IndexFailure(f"{redact(url)} serves a web page that isn't an index page", hint=hint)


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
        hint = "check which server answers at this address"
        raise IndexFailure(f"{redact(url)} has more than {most} files, the limit for an index page", hint=hint)
    try:
        rows = _json_rows(body, url) if body.lstrip()[:1] == b"{" else _html_rows(body, url)
        _refuse_local(rows, url)
        return [_check_row(row) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise IndexFailure(f"{redact(url)} isn't an index page", hint="check the mirror's address") from None


def _refuse_local(rows: Page, url: str) -> None:
    """Refuse files of this machine on a server's page, and those outside a repository on a page in it."""
    page = local_path(url)
    for row in rows:
        if not row["url"].startswith("file:"):
            continue
        named = local_path(row["url"])
        if page is not None and named is not None and is_beside(str(named), str(page)):
            continue
        raise IndexFailure(
            f"{redact(url)} links to a file of this machine: {redact(row['url'])}",
            hint="tell whoever runs the index: its pages may link to http and https alone, those of a folder in a "
            "repository to files of the repository too",
        )


_SHA256 = re.compile(r"[0-9a-f]{64}")
_PLAIN_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+/[!-~]{1,1000}")


def _check_row(row: dict[str, Any]) -> dict[str, Any]:
    """Keep the sha256 of a row's `hashes` alone, and its `provenance` where that is an address (PEP 740). Set its
    `core-metadata` to the METADATA's sha256, else to whether METADATA lies beside the file."""
    sha256 = row.get("hashes", {}).get("sha256")
    # uv takes upper case too
    row["hashes"] = {"sha256": sha256.lower()} if sha256 and type(sha256) is str else {}
    metadata = row.pop("core-metadata", None) or row.pop("dist-info-metadata", None)
    if metadata:
        digest = str(metadata.get("sha256")) if isinstance(metadata, dict) else str(metadata).partition("sha256=")[2]
        digest = digest.lower()
        row["core-metadata"] = digest if _SHA256.fullmatch(digest) else True
    if type(row.get("requires-python")) is not str:
        row.pop("requires-python", None)
    provenance = row.pop("provenance", None)
    if isinstance(provenance, str) and _PLAIN_URL.fullmatch(provenance):
        row["provenance"] = provenance
    return row


def _json_rows(body: bytes, url: str) -> list[dict[str, Any]]:
    """Raises TypeError or KeyError for a row that nothing could be made of later."""
    # the rows are this reader's own
    rows: list[dict[str, Any]] = decode(body, dict[str, Any])["files"]
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
    """Return whether a file's page gave its upload time."""
    return row.get("upload-time") != NO_DATE


# Flat pages: one page with links to the files of several projects (pip's `--find-links`), with or without hashes; or
# a folder of this machine with the files in it.


def project_of(file: str) -> str | None:
    """Read the normalised name of a wheel's or source's project from its file name, or from that of the file about a
    release's variants. None for any other file."""
    if file.endswith(VARIANTS_END):
        return canonical_name(file.split("-", 1)[0]) if file.count("-") == 2 else None
    if file.endswith(".whl"):
        return canonical_name(file.split("-", 1)[0]) if file.count("-") >= 4 else None
    stem = next((file[: -len(suffix)] for suffix in SOURCES if file.endswith(suffix)), None)
    name = stem.rpartition("-")[0] if stem else ""
    return canonical_name(name) if name else None


class FlatPages(Struct):
    """Flat pages, each read once a run."""

    fetcher: Fetcher
    _rows: dict[str, Page] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def rows(self, url: str) -> Page:
        """List a page's wheels, sources and files about variants. Raises IndexFailure, also for a page without any."""
        with self._lock:
            if url not in self._rows:
                self._rows[url] = self._read(url)
            return self._rows[url]

    def _read(self, url: str) -> Page:
        folder = local_path(url)
        if folder is not None and not folder.is_file():
            return _rows_of_folder(folder, url)
        reply = self.fetcher.get(url, headers={"Accept": ACCEPT, "Accept-Encoding": "gzip"})
        if reply.status != 200:
            hint = "check its address in find-links; a simple index, with a page a project, belongs in indexes"
            raise IndexFailure(f"the flat index {redact(url)} answered HTTP {reply.status}", hint=hint)
        rows = [row for row in read_page(reply.body, reply.url, self.fetcher) if project_of(str(row["filename"]))]
        if not rows:
            hint = "if it is a simple index, with a page for each project, move it from find-links to indexes"
            raise IndexFailure(f"{redact(url)} links to no wheel and no source: it isn't a flat index", hint=hint)
        for row in rows:
            row.setdefault("upload-time", NO_DATE)
        return rows


def _rows_of_folder(folder: Path, url: str) -> Page:
    """List the wheels and sources that lie in a folder itself, as pip and uv do. Raises IndexFailure, InputError for a
    link out of the repository."""
    refuse_link_out(folder)
    try:
        files = [entry for entry in os.scandir(folder) if project_of(entry.name) and entry.is_file()]
    except OSError as error:
        raise IndexFailure(
            f"the flat index {redact(url)} can't be read: {error.strerror}", hint="correct its address in find-links"
        ) from None
    if not files:
        hint = "if it is a simple index, with a folder for each project, move it from find-links to indexes"
        raise IndexFailure(f"{redact(url)} has no wheel and no source in it: it isn't a flat index", hint=hint)
    for entry in files:
        if entry.is_symlink():
            refuse_link_out(Path(entry.path))
    base = url.rstrip("/")
    return [
        {"filename": entry.name, "url": f"{base}/{quote(entry.name)}", "hashes": {}, "upload-time": NO_DATE}
        for entry in sorted(files, key=lambda entry: entry.name)
    ]
