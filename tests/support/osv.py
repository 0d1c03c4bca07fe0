"""A service that speaks as OSV's does, on loopback."""

import json
from http.server import HTTPServer

from support.serving import Quiet, serving


class Osv:
    """A stand-in for OSV's service: one report, about lib 2.6. `asked` are the names of each request."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.status, self.body = 200, b""
        osv = self

        class Handler(Quiet):
            def do_POST(self) -> None:
                queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
                assert self.path == "/v1/querybatch" and {one["package"]["ecosystem"] for one in queries} == {"PyPI"}
                osv.asked.append([f"{one['package']['name']} {one['version']}" for one in queries])
                rows = [
                    {"vulns": [{"id": "GHSA-1"}, {"id": "MAL-2026-7"}]} if name == "lib 2.6" else {}
                    for name in osv.asked[-1]
                ]
                content = osv.body or json.dumps({"results": rows}).encode()
                self.send_response(osv.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.serving = serving(self.server)

    def __enter__(self) -> "Osv":
        self.serving.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self.serving.__exit__(None, None, None)
