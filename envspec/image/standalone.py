"""A build of CPython that stands alone, as the files that an image has of it."""

from __future__ import annotations

import posixpath
import re
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from envspec.base.errors import IndexFailure
from envspec.image.layer import FILE, PROGRAM, LayerEntry, link_entry, text_entry, unpack
from envspec.packages.archive_entries import TarMember, path_fault

_ROOT = "python/"
"""The one folder in the archives (python-build-standalone's documentation, "install only" archives)."""
_SAYS_PREFIX = re.compile(r"lib/python3\.\d+/_sysconfigdata_[^/]*\.py|lib/pkgconfig/[^/]+\.pc|bin/[^/]*config")
_PREFIX = re.compile(rb"(?<![\w./-])/install(?![\w.-])")
"""The prefix that the builds were configured for. uv writes the real prefix in its place, too."""
_COMPILERS = ((re.compile(rb"\bclang\+\+"), b"c++"), (re.compile(rb"\bclang\b"), b"cc"))
"""The builders' compilers, which no image has."""
_SCRIPT = 1 << 16


@contextmanager
def open_build(archive: Path, scratch: Path, prefix: str) -> Iterator[list[LayerEntry]]:
    """Give the entries of a build below `prefix` of an image, which can be read until the block ends. Raises
    IndexFailure for an archive that isn't one, OSError."""
    plain = scratch / "python.tar"
    try:
        with archive.open("rb") as packed, plain.open("wb") as out:
            shutil.copyfileobj(unpack("gzip", packed), out)
        with tarfile.open(plain, tarinfo=TarMember) as opened:
            yield list(_entries(opened, prefix, archive.name))
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise IndexFailure(f"{archive.name} can't be read: {error}", hint="don't use it: it's broken") from None
    finally:
        plain.unlink(missing_ok=True)


def _entries(opened: tarfile.TarFile, prefix: str, name: str) -> Iterator[LayerEntry]:
    root = prefix.strip("/")
    for member in opened:
        path = member.name.removeprefix("./")
        if member.isdir() or "__pycache__" in path.split("/"):
            # its times would be another machine's; folders come with what is in them
            continue
        below = path.removeprefix(_ROOT)
        fault = path_fault(below) or ("" if path.startswith(_ROOT) else f"it isn't below {_ROOT}")
        place = f"{root}/{below}"
        if member.issym() and not fault:
            leads = posixpath.normpath(posixpath.join(posixpath.dirname(below), member.linkname))
            fault = "it's a link out of its folder" if leads.startswith(("..", "/")) else ""
            if not fault:
                yield link_entry(place, member.linkname)
                continue
        if fault or not member.isfile():
            message = f"{name} has the entry {member.name!r}: {fault or 'it is neither a file nor a folder nor a link'}"
            raise IndexFailure(message, hint="don't use it: such a file is hostile or broken")
        mode = PROGRAM if member.mode & 0o111 else FILE
        if _SAYS_PREFIX.fullmatch(below) or (below.startswith("bin/") and member.size < _SCRIPT):
            yield text_entry(place, _relocate(_content(opened, member).read(), prefix, below), mode)
        else:
            yield LayerEntry(place, member.size, partial(_content, opened, member), mode=mode)


def _content(opened: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    file = opened.extractfile(member)
    assert file is not None
    return file


def _relocate(text: bytes, prefix: str, below: str) -> bytes:
    """Put an image's own prefix in the place of the builders'."""
    text = _PREFIX.sub(prefix.encode(), text)
    if "_sysconfigdata_" in below:
        for pattern, own in _COMPILERS:
            text = pattern.sub(own, text)
    return text
