"""Core metadata: what METADATA and PKG-INFO say of a release, read, written, and as a variant or a spec has it."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from envspec.packages.requirement import EXTRA_MARKER, canonical_name
from envspec.packages.stated import StatedMetadata
from envspec.packages.variant_markers import for_variant
from envspec.packages.variants import WheelOfVariant


class Metadata(Struct, frozen=True):
    """Core metadata of one artifact. `size` is the artifact's length in bytes, None if no server gave it."""

    name: str
    version: str
    requires_dist: tuple[str, ...] = ()
    provides_extra: tuple[str, ...] = ()
    requires_python: str | None = None
    licence: str | None = None
    size: int | None = None

    @property
    def extras(self) -> frozenset[str]:
        """The extras of the package: old METADATA names some only in its markers."""
        return _extras(self.provides_extra, self.requires_dist)


@lru_cache(maxsize=1 << 12)
def _extras(provided: tuple[str, ...], lines: tuple[str, ...]) -> frozenset[str]:
    """List extras: most targets of a spec have the same releases."""
    named = (extra for line in lines for extra in EXTRA_MARKER.findall(line))
    return frozenset(map(canonical_name, (*provided, *named)))


def header_fields(text: str) -> dict[str, list[str]]:
    """Read the fields of METADATA or PKG-INFO, by their names in lower case."""
    fields: dict[str, list[str]] = {}
    last = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        if not line:
            break
        if line[0] in " \t" and last:
            fields[last][-1] += " " + line.strip()
            continue
        key, colon, value = line.partition(":")
        if colon:
            last = key.strip().lower()
            fields.setdefault(last, []).append(value.strip())
    return fields


def parse_metadata(text: str) -> Metadata:
    """Parse METADATA or PKG-INFO (core metadata 1.0 to 2.5). Raises ValueError if name or version is missing."""
    return from_fields(header_fields(text))


def from_fields(fields: dict[str, list[str]]) -> Metadata:
    """Make metadata of the fields of METADATA, by their names in lower case. Raises ValueError if name or version is
    missing. A field that is added here holds for wheels and for sources that are built."""
    name, version = fields.get("name", [""])[0], fields.get("version", [""])[0]
    if not name or not version:
        raise ValueError("it has no name or no version")
    return Metadata(
        name=canonical_name(name),
        version=version,
        requires_dist=tuple(fields.get("requires-dist", [])),
        provides_extra=tuple(fields.get("provides-extra", [])),
        requires_python=fields.get("requires-python", [""])[0] or None,
        licence=licence(fields),
    )


def metadata_of(stated: StatedMetadata, version: str) -> Metadata:
    """Make a release's metadata from a spec's statement."""
    return Metadata(stated.name, version, stated.dependencies, stated.extras)


def of_variant(metadata: Metadata, variant: WheelOfVariant | None) -> Metadata:
    """Give a wheel's metadata with those requirements that hold for its variant; None for a plain wheel."""
    lines = for_variant(metadata.requires_dist, variant)
    return metadata if lines == metadata.requires_dist else replace(metadata, requires_dist=lines)


def metadata_text(metadata: Metadata) -> bytes:
    """Write the part of METADATA that a resolver reads (core metadata 2.1), in UTF-8."""
    lines = ["Metadata-Version: 2.1", f"Name: {metadata.name}", f"Version: {metadata.version}"]
    if metadata.requires_python:
        lines.append(f"Requires-Python: {metadata.requires_python}")
    lines += [f"Requires-Dist: {requirement}" for requirement in metadata.requires_dist]
    lines += [f"Provides-Extra: {extra}" for extra in metadata.provides_extra]
    # a line end in what an sdist's tables say would begin another field
    return ("\n".join(" ".join(line.split()) for line in lines) + "\n\n").encode()


_NO_LICENCE = re.compile(r"(unknown|none|n/a|see |file|\[|\{)", re.I)


def licence(fields: dict[str, list[str]]) -> str | None:
    """Read the licence as the METADATA words it: `License-Expression` (PEP 639), else a short `License`, else the
    classifiers."""
    expression = fields.get("license-expression", [""])[0]
    if expression:
        return expression
    classifiers = [
        c.rpartition(" :: ")[2]
        for c in fields.get("classifier", [])
        if c.startswith("License :: ") and c.count(" :: ") > 1
    ]
    free = fields.get("license", [""])[0]
    if free and len(free) <= 60 and "\n" not in free and not _NO_LICENCE.match(free):
        return free
    return " AND ".join(sorted(classifiers)) or None
