"""What a base image brings, from its layers: its packages, its users, and whether programs and libraries are there.

Layers are read as streams, and nothing is unpacked to a disk. Their entries' names decide nothing but what is looked
up.
"""

from __future__ import annotations

import base64
import hashlib
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import IO, Any, BinaryIO

from envspec.errors import InputError
from envspec.image.compress import unpacked
from envspec.image.layer import Descriptor
from envspec.image.manifest import packing
from envspec.net.limits import LIMITS
from envspec.packages.archive_entries import Bounds
from envspec.record import dataclass

_PIECE = 1 << 18
_KEPT_BYTES = 32 << 20
"""Of a file that is read: dpkg's list of all packages of a full desktop has 10 MB."""
_KEPT = re.compile(
    r"etc/(passwd|group|shadow|os-release)|usr/lib/os-release|etc/skel/[^/]+|var/lib/dpkg/status(\.d/[^/]+)?"
    r"|(usr/)?lib/apk/db/installed"
)
"""The files that are read."""
_LOOKED_FOR = re.compile(r"usr/(local/)?bin/python3\.\d+|usr/(local/)?include/python3\.\d+/Python\.h|opt|home")
"""The paths that are looked for, beside."""
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_MERGED = ("bin", "lib", "sbin")
"""What a base may have as links into usr."""
_HINT = "choose another base image, or find out who made this one"
_ENTRIES = 5
"""How many times the entries of the largest wheel a layer may have: a whole system is in one."""


@dataclass(frozen=True)
class BaseFiles:
    """files  the content of the files that are read, by path below the root
    modes     the owner's number, the group's and the mode of each
    paths     which of the paths that are looked for are there
    """

    files: dict[str, bytes] = field(default_factory=dict)
    modes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    paths: frozenset[str] = frozenset()

    def document(self) -> dict[str, Any]:
        """Give the same in values that JSON has."""
        files = {path: base64.b64encode(content).decode() for path, content in self.files.items()}
        return {"files": files, "modes": self.modes, "paths": sorted(self.paths)}

    @staticmethod
    def of_document(document: Any) -> BaseFiles:
        """Read what `document` gave. Raises ValueError, KeyError, TypeError for anything else."""
        files = {str(path): base64.b64decode(content, validate=True) for path, content in document["files"].items()}
        modes = {str(path): (int(one[0]), int(one[1]), int(one[2])) for path, one in document["modes"].items()}
        return BaseFiles(files, modes, frozenset(map(str, document["paths"])))

    def text(self, path: str) -> str:
        """Give a file's text; an empty one where there is none."""
        return self.files.get(path, b"").decode("utf-8", "replace")

    def packages(self) -> dict[str, str]:
        """Give the installed packages, name -> version, with the names that they provide; of dpkg and apk."""
        found: dict[str, str] = {}
        for path in sorted(self.files):
            text = self.text(path)
            if path == "var/lib/dpkg/status" or path.startswith("var/lib/dpkg/status.d/"):
                found |= _dpkg(text, status=path.endswith("status"))
            elif path.endswith("apk/db/installed"):
                found |= _apk(text)
        return found


@dataclass
class _Seen:
    files: dict[str, bytes] = field(default_factory=dict)
    modes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)

    def forget(self, path: str) -> None:
        """Forget a path and all that is below it; an empty path is the root."""
        self.paths = {known for known in self.paths if not _is_within(known, path)}
        self.files = {known: content for known, content in self.files.items() if not _is_within(known, path)}


def read_layers(
    layers: Iterable[tuple[Descriptor, str]], blob: Callable[[Descriptor], BinaryIO], where: str
) -> BaseFiles:
    """Read the layers of a base from the bottom, each with the digest of its content. `blob` opens one.

    Raises InputError for a layer that isn't what its digests say, or holds more than one may hold; OSError.
    """
    seen = _Seen()
    for layer, diff_id in layers:
        with blob(layer) as file:
            _read_layer(layer, diff_id, file, seen, where)
    return BaseFiles(seen.files, seen.modes, frozenset(seen.paths))


def _read_layer(layer: Descriptor, diff_id: str, file: BinaryIO, seen: _Seen, where: str) -> None:
    stream = _Unpacked(file, layer)
    most = LIMITS.archive_entries * _ENTRIES
    added = _Seen()
    gone: list[str] = []
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_PIECE, errorlevel=1) as archive:  # type: ignore[call-overload]
            for count, member in enumerate(archive, 1):
                if count > most:
                    raise _Refused(f"it has more than {most} entries")
                _look(archive, member, added, gone)
                # the reader keeps every head that it saw
                archive.members = []
        stream.to_the_end()
    except (tarfile.TarError, EOFError, ValueError, _Refused) as error:
        raise InputError(f"{where}: the layer {layer.digest} can't be read: {error}", hint=_HINT) from None
    if stream.packed_digest != layer.digest or stream.digest != diff_id:
        said = layer.digest if stream.packed_digest != layer.digest else diff_id
        raise InputError(f"{where}: a layer's content isn't that of {said}", hint=_HINT)
    # what a layer takes away is of those below it, wherever in the layer that stands
    for path in gone:
        seen.forget(path)
    for path in added.files:
        seen.forget(path)
    seen.files |= added.files
    seen.modes |= added.modes
    seen.paths |= added.paths


def _look(archive: tarfile.TarFile, member: tarfile.TarInfo, added: _Seen, gone: list[str]) -> None:
    path = "/".join(part for part in member.name.split("/") if part not in ("", "."))
    above, _, name = path.rpartition("/")
    if ".." in path.split("/"):
        raise _Refused(f"the entry {member.name!r} leads out of the image")
    if name == _OPAQUE:
        gone.append(above)
        return
    if name.startswith(_WHITEOUT):
        gone.append(f"{above}/{name.removeprefix(_WHITEOUT)}".lstrip("/"))
        return
    if path.partition("/")[0] in _MERGED and not (member.issym() or member.isdir()):
        path = f"usr/{path}"
    if _LOOKED_FOR.fullmatch(path):
        added.paths.add(path)
    if _KEPT.fullmatch(path) and member.isfile():
        if member.size > _KEPT_BYTES:
            raise _Refused(f"{path} has {member.size} bytes, and {_KEPT_BYTES} are the most that are read")
        content = archive.extractfile(member)
        added.files[path] = content.read() if content else b""
        added.modes[path] = (member.uid, member.gid, member.mode & 0o7777)


def _is_within(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


class _Refused(Exception):
    """A layer holds what no base may."""


class _Unpacked:
    """A layer's tar as a stream, with the digests of both its forms, no longer than it may be."""

    def __init__(self, file: IO[bytes], layer: Descriptor) -> None:
        self._packed = _Hashed(file)
        self._file = unpacked(packing(layer), self._packed)  # type: ignore[arg-type]
        # of a plain tar both are one, and hashed twice
        self._plain = _Hashed(self._file)
        bounds = Bounds(LIMITS.archive_entries, LIMITS.unpacked_bytes, LIMITS.unpacked_ratio)
        self._most = bounds.bytes_of(layer.size)

    def read(self, size: int) -> bytes:
        try:
            piece = self._plain.read(min(size, _PIECE))
        except (OSError, EOFError, ValueError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise _Refused(f"it can't be unpacked: {error}") from None
        except Exception as error:
            if type(error).__name__ != "ZstdError":
                raise
            raise _Refused(f"it can't be unpacked: {error}") from None
        if self._plain.length > self._most:
            raise _Refused(f"it unpacks to more than {self._most >> 20} MiB, the most for its size")
        return piece

    def to_the_end(self) -> None:
        while self.read(_PIECE):
            pass
        while self._packed.read(_PIECE):
            pass

    @property
    def digest(self) -> str:
        return self._plain.digest

    @property
    def packed_digest(self) -> str:
        return self._packed.digest


class _Hashed:
    """What is read of a file, hashed and counted."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash, self.length = file, hashlib.sha256(), 0

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self._hash.update(piece)
        self.length += len(piece)
        return piece

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


def _dpkg(text: str, *, status: bool) -> dict[str, str]:
    """Read dpkg's own list: paragraphs of `Field: value` (deb-control(5)). In images without dpkg, each package's is a
    file of its own and has no Status."""
    found: dict[str, str] = {}
    for paragraph in text.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", paragraph, re.MULTILINE))
        name = fields.get("Package")
        if name and (not status or fields.get("Status", "").endswith(" installed")):
            provided = (part.partition("(")[0].strip() for part in fields.get("Provides", "").split(","))
            found |= {one: fields.get("Version", "") for one in (name, *provided) if one}
    return found


def _apk(text: str) -> dict[str, str]:
    """Read apk's: paragraphs of `P:name`, `V:version`, `p:what it provides` (apk-package(5)); a program that it
    provides, `cmd:g++`, counts as a package of that name."""
    found: dict[str, str] = {}
    for paragraph in text.split("\n\n"):
        fields = dict(line.split(":", 1) for line in paragraph.splitlines() if line[1:2] == ":")
        if name := fields.get("P"):
            provided = [part.partition("=")[0].removeprefix("cmd:") for part in fields.get("p", "").split()]
            found |= {one: fields.get("V", "") for one in (*provided, name)}
    return found
