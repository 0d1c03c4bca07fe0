"""Whether one address lies below another: by its parts, for a text that begins with another says nothing of hosts."""

from __future__ import annotations

from urllib.parse import SplitResult, unquote, urlsplit

_PORTS = {"http": 80, "https": 443, "ssh": 22}


def is_within(url: str, allowed: str) -> bool:
    """Whether `url` is `allowed` or below it: the same scheme, host and port, and the path or one under it.

    A login in `url` doesn't matter. What climbs (`..`, encoded or not), or has a backslash, is within nothing; so is
    what can't be taken apart. "https://host/a" holds "https://host/a/b", and not "https://host/ab".
    """
    if "://" not in allowed or "\\" in url:
        return False
    try:
        one, other = urlsplit(url.strip()), urlsplit(allowed)
        if _origin(one) != _origin(other) or (not one.hostname and one.scheme != "file"):
            return False
    except ValueError:
        return False
    path, above = _path(one), _path(other).rstrip("/")
    if path is None or any(part in (".", "..") for part in path.split("/")):
        return False
    return path.rstrip("/") == above or path.startswith(f"{above}/")


def _origin(parts: SplitResult) -> tuple[str, str, int | None]:
    return parts.scheme, (parts.hostname or "").rstrip("."), parts.port or _PORTS.get(parts.scheme)


def _path(parts: SplitResult) -> str:
    """Decoded until nothing is left to decode: servers decode once, proxies before them again."""
    path = parts.path
    while (decoded := unquote(path)) != path:
        path = decoded
    return path.replace("\\", "/")
