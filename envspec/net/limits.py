"""Limits on what comes from outside: how much, and how slowly. One table; docs/security.md shows the same, by test."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Bytes are those of the content, after decompression. A file of a lock has the lock's size for its limit.

    page_bytes        an index's page, a service's answer
    page_rows         the files of a page: eight brackets of JSON, or tags of HTML, a row
    metadata_bytes    METADATA, beside a wheel or in it
    directory_bytes   the list of an archive's entries, as far as METADATA is looked for in it
    source_bytes      a source distribution
    file_bytes        a file whose size nobody said
    archive_entries   the entries of a wheel
    unpacked_bytes    what any wheel may unpack to
    unpacked_ratio    and how many times its own size, where that is more
    whole_seconds     a page or METADATA, from the question to the last byte
    first_seconds     until a peer has to be as fast as `bytes_per_second` says
    bytes_per_second  the least, on average from the question on, for whatever takes longer than `first_seconds`
    """

    page_bytes: int = 64 * _MIB
    page_rows: int = 200_000
    metadata_bytes: int = 8 * _MIB
    directory_bytes: int = 64 * _MIB
    source_bytes: int = 2048 * _MIB
    file_bytes: int = 16384 * _MIB
    archive_entries: int = 200_000
    unpacked_bytes: int = 512 * _MIB
    unpacked_ratio: int = 50
    whole_seconds: float = 300.0
    first_seconds: float = 60.0
    bytes_per_second: int = 4096


LIMITS = Limits()
"""The ones that count. Tests put smaller ones here."""
