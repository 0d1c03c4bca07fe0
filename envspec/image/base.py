"""The image that a target's layers stand on: its place, its manifest, and its content."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO

from msgspec import Struct, field

from envspec.base.cache import keep_value, read_value
from envspec.image.layer import Descriptor
from envspec.image.layer_stream import Refused, is_gone, read_layer
from envspec.image.manifest import ImageManifest, Read, read_image

# A base image's contents, from its layers: its packages, its users, its programs and libraries.
#
# Layers are read as streams, and nothing is unpacked to a disk. Their entries' names decide nothing but what is looked
# up.


class ReadPaths(Struct, frozen=True):
    """The paths of a base that count. The files that match `contents` are read, `head` bytes of each, no more than
    `most` of all; paths that match `seen` are only noted. `read`, if given, reads the part of a file that counts, from
    a stream and the file's size."""

    contents: re.Pattern[str]
    seen: re.Pattern[str]
    head: int
    most: int
    read: Callable[[IO[bytes], int], bytes] | None = None

    def keep(self, stream: IO[bytes], size: int) -> bytes:
        """Read the part of a file that counts. Raises OSError."""
        return self.read(stream, size) if self.read else stream.read(min(size, self.head))


FOR_IMAGES = ReadPaths(
    contents=re.compile(
        r"etc/(passwd|group|shadow|os-release)|usr/lib/os-release|etc/skel/[^/]+|var/lib/dpkg/status(\.d/[^/]+)?"
        r"|(usr/)?lib/apk/db/installed"
    ),
    seen=re.compile(r"usr/(local/)?bin/python3\.\d+|usr/(local/)?include/python3\.\d+/Python\.h|opt|home"),
    # dpkg's list of all packages of a full desktop has 10 MB
    head=32 << 20,
    most=32 << 20,
)
"""The files of a base that an image on it needs to know."""
_MERGED = ("bin", "lib", "sbin")
"""The folders that may be links into usr in a base."""


class BaseFiles(Struct, frozen=True):
    """files  the content of the files that are read, by path below the root
    modes     the owner's number, the group's and the mode of each
    paths     which of the paths that are looked for are there
    links     where those lead that are links
    """

    files: dict[str, bytes] = field(default_factory=dict)
    modes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    paths: frozenset[str] = frozenset()
    links: dict[str, str] = field(default_factory=dict)

    def text(self, path: str) -> str:
        """Give a file's text; an empty one where there is none."""
        return self.files.get(path, b"").decode("utf-8", "replace")

    def packages(self) -> dict[str, str]:
        """Give the installed packages, name -> version, with the names that they provide; of dpkg and apk."""
        versions: dict[str, str] = {}
        for path in sorted(self.files):
            text = self.text(path)
            if path == "var/lib/dpkg/status" or path.startswith("var/lib/dpkg/status.d/"):
                versions |= _dpkg(text, status=path.endswith("status"))
            elif path.endswith("apk/db/installed"):
                versions |= _apk(text)
        return versions


class _Seen(Struct):
    files: dict[str, bytes] = field(default_factory=dict)
    modes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)
    links: dict[str, str] = field(default_factory=dict)
    room: int = 0

    def forget(self, removed: set[str]) -> None:
        """Forget these paths and all that is below them; an empty path is the root."""
        self.paths = {path for path in self.paths if not is_gone(path, removed)}
        self.files = {path: content for path, content in self.files.items() if not is_gone(path, removed)}
        self.modes = {path: self.modes[path] for path in self.files}
        self.links = {path: self.links[path] for path in self.links if path in self.paths}

    def bytes(self) -> int:
        """Count the bytes of names and contents."""
        return sum(map(len, self.paths)) + sum(len(path) + len(content) for path, content in self.files.items())


def read_layers(
    layers: Iterable[tuple[Descriptor, str]], blob: Callable[[Descriptor], BinaryIO], where: str, read_paths: ReadPaths
) -> BaseFiles:
    """Read these paths of a base's layers. `layers` begin at the bottom, each with the digest of its content; `blob`
    opens one.

    Raises InputError for a layer that isn't what its digests say, or holds more than one may hold; OSError.
    """
    seen = _Seen()
    for layer, diff_id in layers:
        with blob(layer) as file:
            added = _Seen(room=read_paths.most - seen.bytes())
            removed = read_layer(layer, diff_id, file, partial(_look, read_paths, added), where)
            seen.forget({*removed, *added.files})
            seen.files |= added.files
            seen.modes |= added.modes
            seen.paths |= added.paths
            seen.links = {path: target for path, target in seen.links.items() if path not in added.paths} | added.links
    return BaseFiles(seen.files, seen.modes, frozenset(seen.paths), seen.links)


def _look(read_paths: ReadPaths, added: _Seen, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    if path.partition("/")[0] in _MERGED and not (member.issym() or member.isdir()):
        path = f"usr/{path}"
    has_content, seen = read_paths.contents.fullmatch(path) and member.isfile(), read_paths.seen.fullmatch(path)
    if has_content or seen:
        added.room -= len(path) + (min(member.size, read_paths.head) if has_content else 0) + len(member.linkname)
        if added.room < 0:
            raise Refused(
                f"{path} has {member.size} bytes, and {read_paths.most} of all files are the most that are read"
            )
    if seen:
        added.paths.add(path)
        added.links.pop(path, None)
        if member.issym():
            added.links[path] = member.linkname
    if has_content:
        content = archive.extractfile(member)
        added.files[path] = read_paths.keep(content, member.size) if content else b""
        added.modes[path] = (member.uid, member.gid, member.mode & 0o7777)


def _dpkg(text: str, *, status: bool) -> dict[str, str]:
    """Read dpkg's own list: paragraphs of `Field: value` (deb-control(5)). In images without dpkg, each package's is a
    file of its own and has no Status."""
    versions: dict[str, str] = {}
    for paragraph in text.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", paragraph, re.MULTILINE))
        name = fields.get("Package")
        if name and (not status or fields.get("Status", "").endswith(" installed")):
            provided = (part.partition("(")[0].strip() for part in fields.get("Provides", "").split(","))
            versions |= {package: fields.get("Version", "") for package in (name, *provided) if package}
    return versions


def _apk(text: str) -> dict[str, str]:
    """Read apk's: paragraphs of `P:name`, `V:version`, `p:what it provides` (apk-package(5)); a program that it
    provides, `cmd:g++`, counts as a package of that name."""
    versions: dict[str, str] = {}
    for paragraph in text.split("\n\n"):
        fields = dict(line.split(":", 1) for line in paragraph.splitlines() if line[1:2] == ":")
        if name := fields.get("P"):
            provided = [part.partition("=")[0].removeprefix("cmd:") for part in fields.get("p", "").split()]
            versions |= {package: fields.get("V", "") for package in (*provided, name)}
    return versions


FOLDER = "bases-v1"
"""The folder of what bases hold, below envspec's cache, by the digests of their manifests."""
Opened = Callable[[Descriptor], BinaryIO]
"""Opens a blob for reading."""


class BaseSource(Struct, frozen=True):
    """The origin of a base.

    where   for messages: an image's name, or a folder
    top     its manifest or index
    read    gives the bytes of small blobs
    open    opens large ones
    origin  the registry's origin and the repository that has its blobs; None elsewhere
    """

    where: str
    top: Descriptor
    read: Read
    open: Opened
    origin: tuple[str, str] | None = None

    def image(self, oci_platform: str, cache: Path | None = None) -> BaseImage:
        """Read the image of a platform, with the content of its layers. `cache` is envspec's, with the bases of earlier
        runs by their digests. Raises InputError, IndexFailure, OSError."""
        manifest = read_image(self.top, self.read, oci_platform, self.where)
        place = cache / FOLDER / manifest.descriptor.digest.removeprefix("sha256:") if cache else None
        files = read_value(place, BaseFiles) if place else None
        if files is None:
            layers = zip(manifest.layers, manifest.diff_ids, strict=True)
            files = read_layers(layers, self.open, self.where, FOR_IMAGES)
            if place:
                keep_value(place, files)
        return BaseImage(self, manifest, files)


class BaseImage(Struct, frozen=True):
    """A base for one platform. `digest` is what names it in labels and keys."""

    source: BaseSource
    manifest: ImageManifest
    files: BaseFiles

    @property
    def digest(self) -> str:
        return self.source.top.digest
