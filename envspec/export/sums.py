"""The list of the carried files, `SHA256SUMS`: what `sha256sum -c` checks, and how a later export knows its own files.

A file is in the list from before it exists until it's gone, so an export that is killed leaves no file that the next
one doesn't know. In between, a path may stand there twice, with its old and its new digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping

SUMS = "SHA256SUMS"
"""The carried file with the digests of all the others."""
Sums = Collection[tuple[str, str]]
"""Paths below the carried folder, each with the SHA-256 of a content that an export gave it."""
_LINE = re.compile(r"([0-9a-f]{64})  ([!-~]+)")


def read_sums(text: str) -> frozenset[tuple[str, str]]:
    """Read a list. Lines that envspec doesn't write are passed over."""
    found = (_LINE.fullmatch(line) for line in text.splitlines())
    return frozenset((line[2], line[1]) for line in found if line)


def sums_text(sums: Iterable[tuple[str, str]]) -> str:
    """Write a list."""
    return "".join(f"{digest}  {path}\n" for path, digest in sorted(sums))


def with_sums(files: Mapping[str, str]) -> dict[str, str]:
    """Add the list of the files' digests."""
    return {**files, SUMS: sums_text((path, digest(text)) for path, text in files.items())}


def digest(text: str) -> str:
    """Give the SHA-256 that a list has for a file with this text."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
