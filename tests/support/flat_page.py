"""A flat page on loopback (pip's `--find-links`): links to the files of several projects, with or without hashes."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from support.index import Answer, Index
from support.packages import Dist


@dataclass
class FlatIndex(Index):
    """An index that serves one page, `name`, with all its files. `hashed`: with their hashes."""

    hashed: bool = False
    name: str = "torch-2.8.0+cu128.html"

    @property
    def page(self) -> str:
        return f"{self.origin}/{self.name}"

    def answer(self, path: str) -> Answer:
        if path == f"/{self.name}":
            return Answer(200, self._links(), "text/html")
        return super().answer(path) if path.startswith("/files/") else Answer(404, b"no such thing", "text/plain")

    def __enter__(self) -> FlatIndex:
        super().__enter__()
        return self

    def _links(self) -> bytes:
        dists: list[Dist] = [one.dist for project in self._listed.values() for one in project.values()]
        rows = (self._link(dist) for dist in dists)
        return f"<!DOCTYPE html><html><body>{''.join(rows)}</body></html>".encode()

    def _link(self, dist: Dist) -> str:
        fragment = "#sha256=" + self.hashes(dist)["sha256"] if self.hashed else ""
        name = dist.file.replace("+", "%2B")
        return f'<a href="files/{escape(name)}{fragment}">{dist.file}</a><br>'
