"""The links of an index's page in HTML (PEP 503)."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit


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
