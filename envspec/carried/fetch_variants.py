"""Fetch wheels of variants (PEP 825) from where uv would look, each by its hash, under the names of plain wheels.

    python -I fetch_variants.py FOLDER FILE SHA256 SIZE [FILE SHA256 SIZE]... -- UV [OPTION]...

Of an index uv takes no variant that its own machine doesn't have, and a recipe names no host. So uv says, by all its
settings and these options, which indexes it has; their pages (PEP 503, PEP 691) say where the files are. SIZE is in
bytes, 0 where it isn't known. Logins are those of uv's addresses, of uv.toml and of netrc: each goes to its own host
alone, and none is shown.

Stands alone: Python 3.8 or newer, nothing but the standard library. Exits with 0, or with 1 and what each index said.
"""

from __future__ import annotations

import hashlib
import json
import netrc
import os
import re
import signal
import subprocess
import sys
import time
from base64 import b64encode
from html.parser import HTMLParser
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import SplitResult, unquote, urldefrag, urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

PAGE, LARGEST = 1 << 26, 1 << 35
ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
WAITS = (1.0, 4.0)
# seconds for a page, and for the head of a file, all tries and redirects together; then bytes a second, on average
WHOLE, FIRST, RATE = 300.0, 60.0, 4096


class Refused(Exception):
    """A request that isn't made, or an answer that isn't taken."""


class Web(HTTPRedirectHandler):
    """Asks by http and https, with the logins of these addresses. None follows a redirect: each host has its own."""

    def __init__(self, addresses: list[str]) -> None:
        self.known = [address for address in map(urlsplit, addresses) if address.username is not None]
        self.opener = build_opener(self)
        self.begun, self.received = 0.0, 0

    def begin(self) -> None:
        """Give up after WHOLE seconds, whatever a peer sends: a socket's time-out begins anew with every byte."""
        self.begun, self.received = time.monotonic(), 0
        signal.signal(signal.SIGALRM, too_slow)
        signal.setitimer(signal.ITIMER_REAL, WHOLE)

    def came(self, count: int) -> None:
        """Put it off as far as what came of a file allows."""
        self.received += count
        enough = self.begun + max(FIRST, self.received / RATE) - time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(enough, 0.001))

    def open(self, url: str, accept: str = "*/*") -> Any:
        return self.opener.open(self.request(url, accept), timeout=60)

    def request(self, url: str, accept: str) -> Request:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Refused("isn't an address of http or https")
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
        request = Request(bare, headers={"Accept": accept, "User-Agent": "envspec"})
        for login in self.logins(parts):
            request.add_unredirected_header("Authorization", f"Basic {b64encode(login.encode()).decode()}")
        return request

    def logins(self, parts: SplitResult) -> list[str]:
        same_origin = [address for address in self.known if origin(address) == origin(parts)]
        own = [parts] if parts.username is not None else same_origin
        if own:
            nearest = max(own, key=lambda address: len(os.path.commonpath([address.path or "/", parts.path or "/"])))
            return [f"{unquote(nearest.username or '')}:{unquote(nearest.password or '')}"]
        try:
            hosts = netrc.netrc(os.environ.get("NETRC") or os.path.expanduser("~/.netrc")).hosts
        except (OSError, netrc.NetrcParseError):
            return []
        return [f"{entry[0]}:{entry[2]}" for host, entry in hosts.items() if host == parts.hostname]

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request:
        if req.type == "https" and urlsplit(newurl).scheme != "https":
            raise Refused("leads from https to http")
        return self.request(newurl, req.get_header("Accept") or "*/*")


def too_slow(*_: Any) -> None:
    raise Refused("is too slow")


def origin(parts: SplitResult) -> tuple[str, str | None, int]:
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


class Links(HTMLParser):
    """The addresses to which a page leads."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if href and tag == "base":
            self.base = urljoin(self.base, href)
        elif href and tag == "a":
            self.found.append(urljoin(self.base, href))


def files_of(web: Web, page: str) -> list[tuple[str, str, str | None]]:
    """The files of a page: name, address, and SHA-256 where it is said."""
    with web.open(page, ACCEPT) as answer:
        text, at, kind = answer.read(PAGE + 1), answer.geturl(), answer.headers.get_content_type()
    if len(text) > PAGE:
        raise Refused("its page is too long")
    if kind.endswith("json"):
        rows = json.loads(text)["files"]
        return [(row["filename"], urljoin(at, row["url"]), row.get("hashes", {}).get("sha256")) for row in rows]
    links = Links(at)
    links.feed(text.decode("utf-8", "replace"))
    files = []
    for url, fragment in map(urldefrag, links.found):
        match = re.search("(?:^|&)sha256=([0-9a-f]{64})", fragment)
        files.append((unquote(urlsplit(url).path.rpartition("/")[2]), url, match and match[1]))
    return files


def fetch(web: Web, url: str, place: str, sha256: str, size: int) -> None:
    left, digest = size or LARGEST, hashlib.sha256()
    web.came(0)
    with web.open(url) as answer, open(place, "wb") as out:
        for piece in iter(lambda: answer.read1(1 << 18), b""):
            web.came(len(piece))
            left -= len(piece)
            if left < 0:
                raise Refused("has more bytes than the locked file")
            digest.update(piece)
            out.write(piece)
    if size and left:
        raise OSError("the answer ended early")
    if digest.hexdigest() != sha256:
        raise Refused("has other bytes than the locked file")


def patiently(do: Any, web: Web, *arguments: Any) -> Any:
    """Do it, and again after what may pass."""
    web.begin()
    try:
        for wait in (*WAITS, None):
            try:
                return do(web, *arguments)
            except (OSError, HTTPException) as error:
                passing = not isinstance(error, HTTPError) or error.code in (408, 429) or error.code >= 500
                if wait is None or not passing:
                    raise
                time.sleep(wait)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def find(web: Web, places: list[tuple[str, str]], folder: str, file: str, sha256: str, size: int) -> list[str]:
    """Write one file. Gives what each place said, where none has it."""
    project = re.sub("[-_.]+", "-", file.partition("-")[0]).lower()
    part, problems = os.path.join(folder, "part"), []
    for option, url in places:
        page = url if option == "--find-links" else f"{url.rstrip('/')}/{project}/"
        parts = urlsplit(page)
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        try:
            named = [(at, stated) for name, at, stated in patiently(files_of, web, page) if name == file]
            for at in (at for at, stated in named if stated in (None, sha256)):
                patiently(fetch, web, at, part, sha256, size)
                os.replace(part, os.path.join(folder, f"{file.rpartition('-')[0]}.whl"))
                return []
            why = "says another SHA-256 of it" if named else "doesn't have it"
        except HTTPError as error:
            why = f"answered {error.code}"
        except (Refused, OSError) as error:
            why = str(getattr(error, "reason", error))
        except (HTTPException, ValueError, KeyError, TypeError, AttributeError):
            why = "has a page that can't be read"
        problems.append(f"{file}: {shown} {why}")
    return problems or [f"{file}: uv has no index"]


def settings(uv: str, options: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Where uv looks, its default index last, and all addresses that may have logins."""
    command = [uv, "pip", "compile", "-", "--python", sys.executable, "--no-cache", *options]
    emit = ["--quiet", "--no-header", "--emit-index-url", "--emit-find-links"]
    listing = subprocess.run([*command, *emit], input=b"", stdout=subprocess.PIPE, check=True).stdout.decode()
    lines = (line.partition(" ") for line in listing.splitlines())
    places = sorted(((option, url) for option, _, url in lines if url), key=lambda place: place[0] == "--index-url")
    if any(option.startswith("--torch-backend") for option in options):
        # of these uv says no address, except where it looks for a package
        env = {**os.environ, "RUST_LOG": "uv_client=debug"}
        tried = [*command, "--offline", "--verbose"]
        log = subprocess.run(tried, input=b"torch\n", capture_output=True, env=env, check=False).stderr
        places = [("--index-url", url) for url in re.findall(r"(https?://\S+)/torch/", log.decode())[:1]] + places
    try:
        with open(os.environ.get("UV_CONFIG_FILE") or "/etc/uv/uv.toml", encoding="utf-8") as file:
            written = re.findall(r"""https?://[^\s"'@]+@[^\s"']+""", file.read())
    except (OSError, UnicodeDecodeError):
        written = []
    return [place for place in places if "://" in place[1]], [*(url for _, url in places), *written]


def main(folder: str, *arguments: str) -> int:
    cut = arguments.index("--")
    try:
        places, addresses = settings(arguments[cut + 1], list(arguments[cut + 2 :]))
    except subprocess.CalledProcessError as error:
        return error.returncode
    web = Web(addresses)
    os.makedirs(folder, exist_ok=True)
    for at in range(0, cut, 3):
        file, sha256, size = arguments[at : at + 3]
        problems = find(web, places, folder, file, sha256, int(size))
        if problems:
            hint = "hint: a bundle has them, too; the head of the recipe says how its wheels are given"
            sys.stderr.write("".join(f"{line}\n" for line in (*(f"error: {problem}" for problem in problems), hint)))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
