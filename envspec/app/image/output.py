"""The places for an image: a folder with an OCI layout, one tar of it, or a registry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from envspec.base.errors import InputError
from envspec.net.image_address import ImageAddress, image_address

_SCHEME = "docker://"


@dataclass(frozen=True)
class ToFolder:
    """An OCI layout in this folder."""

    path: Path


@dataclass(frozen=True)
class ToArchive:
    """An OCI layout in one tar."""

    path: Path


@dataclass(frozen=True)
class ToRegistry:
    """An image of a registry, by its name."""

    name: str
    address: ImageAddress


Output = ToFolder | ToArchive | ToRegistry


def output_of(text: str) -> Output:
    """Read what `-o` says: FILE.tar, an image's name with its registry (`host/name:tag`, `docker://name`), else a
    folder.

    Raises InputError for a name with a digest: that of an image is known once it is made.
    """
    if text.startswith(_SCHEME) or _names_registry(text):
        name = text.removeprefix(_SCHEME)
        address = image_address(name)
        if address.digest or not address.path:
            raise InputError(f"{text} can't be a new image's name", hint="give -o registry/name:tag")
        return ToRegistry(name, address)
    path = Path(text)
    return ToArchive(path) if path.suffix == ".tar" else ToFolder(path)


def _names_registry(text: str) -> bool:
    """Say whether a text begins with a registry's host, as container tools see it, and no folder here is called so."""
    head, slash, rest = text.partition("/")
    is_host = "." in head.strip(".") or ":" in head or head == "localhost"
    return bool(slash and rest) and is_host and head not in ("", ".", "..") and not Path(head).is_dir()
