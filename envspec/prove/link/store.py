"""The facts of wheels, kept by the wheel's sha256: a wheel is read once on a machine, and those of the shipped locks'
torches not even once."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from envspec.base.cache.entry import keep_entry, read_entry
from envspec.base.documents import decode, encode
from envspec.prove.link.model import WheelFacts

_SCHEMA = 2
"""Another number for other facts: also where `envspec.prove.link.symbols` has another family."""

_LARGEST = 512 << 20
"""Bytes of an entry, unpacked. torch's takes 10 MB."""


SHIPPED = Path(__file__).with_name("data") / "linked.zip"
"""The facts that come with envspec: an entry a wheel, named `<sha256>-<machine>.json`."""


class LinkStore:
    """The facts of wheels on disk. Writing is atomic; a damaged entry counts as absent."""

    def __init__(self, cache: Path) -> None:
        self._folder = cache / f"linked-v{_SCHEMA}"

    def get(self, sha256: str, machine: int) -> WheelFacts | None:
        """Return what is known of a wheel."""
        try:
            packed = read_entry(self._path(sha256, machine))
            return decode(zlib.decompressobj().decompress(packed, _LARGEST), WheelFacts)
        except (OSError, ValueError, zlib.error):
            return shipped(sha256, machine)

    def put(self, sha256: str, machine: int, facts: WheelFacts) -> None:
        """Keep facts. A cache that isn't writable is no error: the caller has them."""
        keep_entry(self._path(sha256, machine), zlib.compress(encode(facts), 3))

    def _path(self, sha256: str, machine: int) -> Path:
        return self._folder / sha256[:2] / f"{sha256[2:]}-{machine}.json.z"


def shipped(sha256: str, machine: int) -> WheelFacts | None:
    """Return what came with envspec about a wheel. A Python without lzma has none of it."""
    try:
        with zipfile.ZipFile(SHIPPED) as archive:
            return decode(archive.read(_entry(sha256, machine)), WheelFacts)
    except (OSError, KeyError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile):
        return None


def pack(facts: Mapping[tuple[str, int], WheelFacts], path: Path) -> None:
    """Write what envspec ships, by sha256 and machine: equal facts, equal bytes. Raises OSError."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for (sha256, machine), one in sorted(facts.items()):
            archive.writestr(zipfile.ZipInfo(_entry(sha256, machine)), encode(one), zipfile.ZIP_LZMA)


def _entry(sha256: str, machine: int) -> str:
    return f"{sha256}-{machine}.json"
