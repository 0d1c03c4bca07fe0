"""Limits on the size and time of what comes from outside. A test holds docs/security.md to the same table."""

from __future__ import annotations

from msgspec import Struct

_MIB = 1 << 20


class Limits(Struct, frozen=True):
    """The limits. Bytes are those of the content, after decompression. A lock's size is the limit of its file.

    page_bytes        an index's page, a service's answer
    page_rows         the files of a page: eight brackets of JSON, or tags of HTML, a row
    metadata_bytes    METADATA, beside a wheel or in it
    directory_bytes   the list of an archive's entries, read to find METADATA
    source_bytes      a source distribution
    file_bytes        a file of unknown size
    archive_entries   the entries of a wheel
    unpacked_bytes    the unpacked size of any wheel
    unpacked_ratio    the unpacked size as a multiple of the wheel's, if that is more
    whole_seconds     a page or METADATA, from the request to the last byte
    first_seconds     until `bytes_per_second` applies
    bytes_per_second  the least rate, on average since the request, of an answer that takes longer than `first_seconds`
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
"""The limits in force. Tests set smaller ones."""
