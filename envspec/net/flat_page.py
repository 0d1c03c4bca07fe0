"""Flat pages: one page with links to the files of several projects (pip's `--find-links`), with or without hashes; or a
folder of this machine with the files in it."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from envspec.base.errors import IndexFailure
from envspec.base.redact import redact
from envspec.net.fetch import Fetcher, local_path, refuse_link_out
from envspec.net.simple_page import ACCEPT, NO_DATE, Page, read_page
from envspec.packages.archive_entries import SOURCES
from envspec.packages.requirement import canonical_name
from envspec.packages.variants import VARIANTS_END


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


@dataclass
class FlatPages:
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
            raise IndexFailure(
                f"the flat index {redact(url)} answered HTTP {reply.status}",
                hint="check its address in find-links; a simple index, with a page a project, belongs in indexes",
            )
        rows = [row for row in read_page(reply.body, reply.url, self.fetcher) if project_of(str(row["filename"]))]
        if not rows:
            raise IndexFailure(
                f"{redact(url)} links to no wheel and no source: it isn't a flat index",
                hint="if it is a simple index, with a page for each project, move it from find-links to indexes",
            )
        for row in rows:
            row.setdefault("upload-time", NO_DATE)
        return rows


def _rows_of_folder(folder: Path, url: str) -> Page:
    """List the wheels and sources that lie in a folder itself, as pip and uv do. Raises IndexFailure, InputError for a
    link out of the repository."""
    refuse_link_out(folder)
    try:
        files = [one for one in os.scandir(folder) if project_of(one.name) and one.is_file()]
    except OSError as error:
        raise IndexFailure(
            f"the flat index {redact(url)} can't be read: {error.strerror}", hint="correct its address in find-links"
        ) from None
    if not files:
        raise IndexFailure(
            f"{redact(url)} has no wheel and no source in it: it isn't a flat index",
            hint="if it is a simple index, with a folder for each project, move it from find-links to indexes",
        )
    for one in files:
        if one.is_symlink():
            refuse_link_out(Path(one.path))
    base = url.rstrip("/")
    return [
        {"filename": one.name, "url": f"{base}/{quote(one.name)}", "hashes": {}, "upload-time": NO_DATE}
        for one in sorted(files, key=lambda one: one.name)
    ]
