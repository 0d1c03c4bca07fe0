"""A service that speaks as OSV's does, on loopback."""

import json
from http.server import HTTPServer
from typing import Any
from urllib.parse import unquote

from support.serving import Quiet, serving


class Osv:
    """A stand-in for OSV's service: by itself one report, about lib 2.6. `asked` are the names of each query, `details`
    the advisories that were fetched. `records` are advisories by identifier, `found` the identifiers by release, `most`
    how many a page has."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.details: list[str] = []
        self.records: dict[str, dict[str, Any]] = {}
        self.found: dict[str, list[str]] = {"lib 2.6": ["GHSA-1", "MAL-2026-7"]}
        self.most = 1000
        self.status, self.body = 200, b""
        osv = self

        class Handler(Quiet):
            def do_POST(self) -> None:
                queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
                assert self.path == "/v1/querybatch" and {one["package"]["ecosystem"] for one in queries} == {"PyPI"}
                osv.asked.append([f"{one['package']['name']} {one['version']}" for one in queries])
                rows = [
                    osv.row(name, int(one.get("page_token", 0)))
                    for name, one in zip(osv.asked[-1], queries, strict=True)
                ]
                self.reply(osv.body or json.dumps({"results": rows}).encode())

            def do_GET(self) -> None:
                name = unquote(self.path.removeprefix("/v1/vulns/"))
                osv.details.append(name)
                self.reply(json.dumps(osv.records[name]).encode())

            def reply(self, content: bytes) -> None:
                self.send_response(osv.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.serving = serving(self.server)

    def row(self, release: str, start: int) -> dict[str, Any]:
        names = self.found.get(release, [])
        more = {"next_page_token": str(start + self.most)} if len(names) > start + self.most else {}
        return {"vulns": [{"id": name} for name in names[start : start + self.most]], **more} if names else {}

    def __enter__(self) -> "Osv":
        self.serving.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self.serving.__exit__(None, None, None)
