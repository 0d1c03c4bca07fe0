"""Addresses of files and of git repositories: parsed once, compared as values. What `envspec.base.redact` leaves of an
address is for printing, and no identity.

Only what all URL parsers read alike is an address here: RFC 3986's characters, without `.` and `..` in its path, its
host in ASCII. uv's parser (WHATWG's) would take a backslash for a slash, drop tabs, and climb.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import ClassVar
from urllib.parse import unquote

from msgspec.structs import replace

from envspec.base.records import RecordWithNotes
from envspec.packages.requirement import TEXTS

_URL = re.compile(
    r"(git\+)?([A-Za-z][A-Za-z0-9+.-]*)://(?:([^/?#]*)@)?([^/?#@]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
_STRANGE = re.compile(r"[^A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]")
_IN_NO_LOGIN = re.compile(r"[\\\x00-\x20\x7f]")
_HOST = re.compile(r"([A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::([0-9]{0,5}))?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_DOTTED = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})")
_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")
"""A text that git and uv may take for a commit: uv asks for no fewer digits."""
_PORTS = {"http": 80, "https": 443, "ssh": 22, "git": 9418}
_ANY_CASE = ("github.com",)
"""Hosts that don't tell small letters from capitals in a repository's path."""


class Address(RecordWithNotes, frozen=True, eq=False):
    """The place of a file or a git checkout, without its login.

    port      None for the scheme's own
    path      of a repository without `.git` and a slash at its end
    git       it is a repository's address: `git+` stood before it
    revision  of a repository: what stands behind its `@`, None for its default branch
    folder    `#subdirectory=`, relative and without `..`: below the top of what is there
    sha256    `#sha256=`, in small letters: says what is there and not where it is
    """

    notes: ClassVar = frozenset({"sha256"})

    scheme: str
    host: str
    port: int | None
    path: str
    query: str = ""
    git: bool = False
    revision: str | None = None
    folder: str | None = None
    sha256: str | None = None

    @property
    def commit(self) -> str | None:
        """The commit that its revision is or begins, in small letters; None for a branch or a tag."""
        return self.revision.lower() if self.revision and _COMMIT.fullmatch(self.revision) else None

    def names(self, pinned: Address) -> bool:
        """Return whether a requirement of this address is met by what is pinned: all that this one says is so there."""
        if replace(self, revision=None) != replace(pinned, revision=None):
            return False
        if self.sha256 not in (None, pinned.sha256):
            return False
        return self.commit is None or (pinned.revision or "").startswith(self.commit)

    def has_beside(self, pinned: Address) -> bool:
        """Return whether what is pinned is another folder of the same repository, at the commit if this one names
        it."""
        return self.git and replace(self, folder=pinned.folder).names(pinned)


@lru_cache(maxsize=TEXTS)
def parse_address(url: str) -> Address:
    """Parse the URL of a requirement, an index or a pin. Raises ValueError, with the reason, for one that tools could
    read in two ways."""
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError("it isn't of the form scheme://host/path")
    git, scheme, login, host, path, query, fragment = match.groups()
    if strange := _IN_NO_LOGIN.search(login or "") or _STRANGE.search(
        "".join((host, path, query or "", fragment or ""))
    ):
        raise ValueError(f"{strange[0]!a} can't stand in an address as it is; percent-encode it")
    scheme = scheme.lower()
    name, port = _host_of(scheme, host)
    if any(unquote(part) in (".", "..") for part in path.split("/")):
        raise ValueError("its path has `.` or `..`")
    folder, sha256 = _folder_of(fragment or ""), _of_fragment(fragment or "", "sha256")
    revision = None
    if git:
        path, revision = _revision_of(path)
        path = path.rstrip("/").removesuffix(".git")
        path = path.lower() if name in _ANY_CASE else path
        if query is not None:
            raise ValueError("a repository's address has no query")
    return Address(
        scheme,
        name,
        None if port == _PORTS.get(scheme) else port,
        path,
        query or "",
        git is not None,
        revision,
        folder,
        sha256.lower() if sha256 else None,
    )


def is_within(url: str, allowed: str) -> bool:
    """Return whether `url` is `allowed` or below it: the same scheme, host and port, and the path or one under it.

    A login in `url` doesn't matter. What climbs (`..`, encoded or not), or has a backslash, is within nothing; so is
    what can't be taken apart. "https://host/a" holds "https://host/a/b", and not "https://host/ab".
    """
    try:
        address, allowed_address = parse_address(url.strip()), parse_address(allowed)
    except ValueError:
        return False
    if (address.scheme, address.host.rstrip("."), address.port) != (
        allowed_address.scheme,
        allowed_address.host.rstrip("."),
        allowed_address.port,
    ):
        return False
    path, above = _decode_fully(address.path), _decode_fully(allowed_address.path).rstrip("/")
    if address.git:
        above = above.removesuffix(".git")
    if address.host in _ANY_CASE:
        path, above = path.lower(), above.lower()
    if any(part in (".", "..") for part in path.split("/")):
        return False
    return path.rstrip("/") == above or path.startswith(f"{above}/")


def _host_of(scheme: str, text: str) -> tuple[str, int | None]:
    match = _HOST.fullmatch(text)
    if match is None:
        raise ValueError(f"`{text}` isn't a host and a port")
    name, port = match[1].lower(), int(match[2]) if match[2] else None
    if not name and scheme != "file":
        raise ValueError("it has no host")
    if port is not None and port > 65535:
        raise ValueError(f"there is no port {port}")
    if _NUMBER.fullmatch(name.rstrip(".").rpartition(".")[2]) and not _DOTTED.fullmatch(name):
        raise ValueError(f"`{name}` isn't four numbers with dots")
    return name, port


def _revision_of(path: str) -> tuple[str, str | None]:
    """Split a repository's path from what is to be checked out. uv refuses two `@`, and decodes what is behind one."""
    repository, *revisions = path.split("@")
    if len(revisions) > 1 or revisions == [""]:
        raise ValueError("behind the one `@` of its path a revision stands")
    return repository, unquote(revisions[0]) if revisions else None


def _folder_of(fragment: str) -> str | None:
    """Read the project's folder. uv would take one that begins with a slash, or climbs, for any on the machine."""
    folder = (_of_fragment(fragment, "subdirectory") or "").removesuffix("/")
    if folder and ("%" in folder or any(part in ("", ".", "..") for part in folder.split("/"))):
        raise ValueError(f"`{folder}` isn't a folder below its top")
    return folder or None


def _of_fragment(fragment: str, key: str) -> str | None:
    values = [part.partition("=")[2] for part in fragment.split("&") if part.partition("=")[0] == key]
    if len(values) > 1:
        raise ValueError(f"it has #{key}= twice")
    return values[0] if values else None


def _decode_fully(path: str) -> str:
    """Decoded until nothing is left to decode: servers decode once, proxies before them again."""
    while (decoded := unquote(path)) != path:
        path = decoded
    return path.replace("\\", "/")
