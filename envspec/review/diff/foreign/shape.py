"""Checked access to the values of a parsed TOML or YAML document; a value of another type is `Malformed`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from envspec.lock.model import Artifact, Pin
from envspec.packages.requirement import head_of
from envspec.review.diff.side import LoosePin

_SHA256 = re.compile(r"[0-9a-f]{64}")


class Malformed(Exception):
    """A document doesn't follow its format. The message is for people; the reader adds the file. `line` counts from 1,
    and is 0 where it isn't known.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


def table(value: Any, what: str) -> Mapping[str, Any]:
    """Return a table, or an empty one for None."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise Malformed(f"{what} must be a table")
    return value


def tables(value: Any, what: str) -> list[Mapping[str, Any]]:
    """Return a list of tables, or an empty one for None."""
    return [table(item, f"an entry of {what}") for item in sequence(value, what)]


def sequence(value: Any, what: str) -> list[Any]:
    """Return a list, or an empty one for None."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Malformed(f"{what} must be a list")
    return value


def strings(value: Any, what: str) -> tuple[str, ...]:
    return tuple(string(item, f"an entry of {what}") for item in sequence(value, what))


def string(value: Any, what: str) -> str:
    """Return a text. YAML reads an unquoted version such as 1.10 as a number, which has lost its zero."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    shown = f"a {type(value).__name__}" if isinstance(value, list | dict) else repr(value)
    raise Malformed(f"{what} must be a string, not {shown}"[:200])


def optional(value: Any, what: str) -> str | None:
    return None if value is None else string(value, what)


def size(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def file_name(url: str) -> str:
    """Return the file's name at the end of a URL or a path."""
    return unquote(re.split(r"[?#]", url, maxsplit=1)[0].replace("\\", "/").rpartition("/")[2])


def artifact(url: str, hashes: Mapping[str, Any], length: Any = None) -> Artifact:
    """Return a file by its URL or name. A SHA-256 that the document doesn't give stays empty."""
    sha256, md5 = hashes.get("sha256"), hashes.get("md5")
    if sha256 is not None and not (isinstance(sha256, str) and _SHA256.fullmatch(sha256)):
        raise Malformed(f"the sha256 of {file_name(url)} must be 64 hexadecimal digits")
    return Artifact(file_name(url), sha256 or "", size(length), md5 if isinstance(md5, str) else None)


def digest(text: str | None) -> dict[str, str]:
    """Return `sha256:0123…` as hashes by algorithm."""
    kind, _, value = (text or "").partition(":")
    return {kind: value} if value else {}


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}")


def check_pin(pin: Pin) -> None:
    """Check a pin. Raises Malformed for an unreadable name, version or requirement."""
    if not _NAME.fullmatch(pin.name):
        raise Malformed(f"{pin.name[:80]!r} isn't the name of a package")
    if not isinstance(pin, LoosePin) and not _VERSION.fullmatch(pin.version):
        raise Malformed(f"the version of {pin.name[:80]} is {pin.version[:80]!r}, which isn't a version")
    for line in pin.dependencies if pin.kind == "pip" else ():
        try:
            head_of(line)
        except ValueError:
            raise Malformed(f"{pin.name[:80]} requires {line[:80]!r}, which isn't a requirement") from None
