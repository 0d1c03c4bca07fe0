"""Image names and their parts: registry, path and tag."""

from __future__ import annotations

from dataclasses import dataclass

HUB = "docker.io"
"""The registry of a name without one, as in all container tools."""


@dataclass(frozen=True)
class ImageAddress:
    """The parts of an image's name. `debian:bookworm-slim` is registry "docker.io", path "library/debian", tag
    "bookworm-slim".

    digest  the digest in the name itself ("sha256:…"), else None
    """

    registry: str
    path: str
    tag: str
    digest: str | None


def image_address(name: str) -> ImageAddress:
    """Parse an image's name, [registry/]path[:tag][@digest], by the rules of container tools.

    The part before the first slash is a registry when it has a dot or a colon, is "localhost", or holds capitals; a
    name without one is the Hub's, and a single word there is below "library/". The tag is "latest" by default.
    """
    rest, _, digest = name.partition("@")
    head, slash, tail = rest.partition("/")
    if slash and (any(c in ".:" for c in head) or head == "localhost" or head != head.lower()):
        registry, rest = head, tail
    else:
        registry = HUB
    folder, _, last = rest.rpartition("/")
    last, _, tag = last.partition(":")
    path = f"{folder}/{last}" if folder else last
    if registry == f"index.{HUB}":
        registry = HUB
    if registry == HUB and "/" not in path:
        path = f"library/{path}"
    return ImageAddress(registry, path, tag or "latest", digest or None)
