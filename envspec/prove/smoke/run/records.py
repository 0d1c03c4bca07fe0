"""What wheels say of their own files: digests of their RECORD, to which the check holds the installed ones.

A lock has a wheel's hash, and an environment has no wheel. Where the wheel was seen, which is where envspec's cache of
files has it, the digest of its RECORD tells whether an environment has that wheel or another build of the same version.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

_MOST = 64 << 20
"""The longest RECORD that is read, in bytes: torch's has 2 MB."""
_RECORD = re.compile(r"[^/]+\.dist-info/RECORD")
_AMONG_PACKAGES = re.compile(r"[^/]+\.data/(?:purelib|platlib)/")
_ELSEWHERE = re.compile(r"[^/]+\.data/|\.\./|/")
_MADE_BY_INSTALLERS = re.compile(r"[^/]+\.dist-info/(?:RECORD|INSTALLER|REQUESTED|direct_url\.json|uv_)")


def record_digests(artifacts: Path, wheels: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Give the digest of the RECORD of each of these wheels, by the wheel's sha256, as far as the cache of files has
    them. `wheels` are (sha256, file)."""
    found = ((sha256, record_digest(artifacts / sha256 / file)) for sha256, file in wheels)
    return {sha256: digest for sha256, digest in found if digest is not None}


def record_digest(wheel: Path | IO[bytes] | io.RawIOBase) -> str | None:
    """Give the digest of what a wheel's RECORD says of its files that lie among the packages, however it's installed.
    A wheel is a path, or a file that can be read anywhere in it. None where there is no such wheel, or its RECORD can't
    be read. `static.distributions` of the check has the twin.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if _RECORD.fullmatch(name))
            with archive.open(name) as file:
                content = file.read(_MOST + 1)
    except (OSError, StopIteration, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error):
        return None
    if len(content) > _MOST:
        return None
    try:
        rows = list(csv.reader(content.decode("utf-8", "surrogateescape").splitlines()))
    except csv.Error:
        return None
    hashed = ((_AMONG_PACKAGES.sub("", row[0], count=1), row[1]) for row in rows if len(row) == 3)
    kept = sorted(
        f"{path} {digest}\n"
        for path, digest in hashed
        if digest.startswith("sha256=") and not _ELSEWHERE.match(path) and not _MADE_BY_INSTALLERS.match(path)
    )
    return f"sha256:{hashlib.sha256(''.join(kept).encode('utf-8', 'surrogateescape')).hexdigest()}"
