"""What the proxy's URLs say. Nothing has to be remembered between a page and the files on it, for uv may keep a page in
its cache for longer than the proxy lives.

    /<token>/<root>/<project>/                           a page
    /<token>/f/<key>/<scheme>/<host>/<path>              a wheel; `.metadata` behind it gives its METADATA
    /<token>/n/<key>/<scheme>/<host>/<path>/<stand-in>   a source that may not be built, shown as a wheel
    /<token>/a/<key>/<scheme>/<host>/<path>/<stand-in>   one that may

The key is `<sha256>.<size>`, with `.m` behind it where METADATA lies beside the file, and that one's sha256 where the
page has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from envspec.redact import hide_token, show_token

WHEEL, REFUSED, ALLOWED = "f", "n", "a"
"""The kinds of files: a wheel, and the stand-in for a source that may not be built or may."""
_SIDECAR = ".m"


@dataclass(frozen=True)
class FileAddress:
    """The file behind a URL of the proxy.

    kind      WHEEL, REFUSED or ALLOWED
    url       where the index has it, without credentials
    size      in bytes, None where the index doesn't say
    stand_in  the file name of the wheel that a source is shown as; None for a wheel
    sidecar   the index says that the METADATA is beside it (PEP 658)
    metadata_sha256  what its page says of that
    """

    kind: str
    url: str
    sha256: str
    size: int | None
    stand_in: str | None = None
    sidecar: bool = False
    metadata_sha256: str | None = None

    @property
    def file(self) -> str:
        """The file's own name."""
        return unquote(urlsplit(self.url).path).rsplit("/", 1)[-1]


def path_of(
    kind: str,
    url: str,
    sha256: str,
    size: int | None,
    stand_in: str | None = None,
    *,
    sidecar: bool | str = False,
) -> str:
    """The path of the proxy's URL for a file, from the kind on; `sidecar` is METADATA's sha256 where the page has it.
    Pages have files by the thousand, so nothing is taken apart that needn't be."""
    scheme, _, rest = url.partition("#")[0].partition("://")
    rest, mark, query = rest.partition("?")
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2]
    # what the proxy says ends up in uv's cache
    path = hide_token(host, path)
    below = f"/{stand_in}" if stand_in else ""
    beside = f"{_SIDECAR}{sidecar if isinstance(sidecar, str) else ''}" if sidecar else ""
    key = f"{sha256}.{'' if size is None else size}{beside}"
    return f"{kind}/{key}/{scheme}/{host}{slash}{path}{below}{mark}{query}"


def parse(path: str) -> FileAddress | None:
    """The file of a path as `path_of` gives it; None for anything else."""
    path, _, query = path.partition("?")
    kind, *rest = path.split("/", 4)
    if kind not in (WHEEL, REFUSED, ALLOWED) or len(rest) != 4:
        return None
    key, scheme, host, below = rest
    front, beside, metadata_sha256 = key.partition(_SIDECAR)
    sha256, _, size = front.partition(".")
    if scheme not in ("http", "https"):
        return None
    stand_in = None
    if kind != WHEEL:
        below, _, stand_in = below.rpartition("/")
    url = f"{scheme}://{host}/{show_token(host, below)}" + (f"?{query}" if query else "")
    length = int(size) if size.isdecimal() else None
    return FileAddress(kind, url, sha256, length, stand_in, bool(beside), metadata_sha256 or None)
