"""Metadata of a source distribution, read without running any of its code.

Small texts of the archive count, in this order:

    static     PKG-INFO of metadata 2.2 or later that calls no dependency dynamic (PEP 643), as uv reads it, or a
               pyproject.toml whose [project] lists them and doesn't call them dynamic (PEP 621), or a setup.py that is
               one `setup()` of literals (`envspec.artifacts.sdist.inert`) unproved   older PKG-INFO that lists
               requirements, or requires.txt of an egg-info folder: the requirements of a build on the author's machine;
               one here may have others unknown    none of these: only running its code can tell

Why it is so: docs/design/07-resolving-sources.md.
"""

from __future__ import annotations

import io
import lzma
import posixpath
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version

from envspec.artifacts.metadata import cache_key, refuse_other_hash, release_of
from envspec.artifacts.sdist.build_imports import BuildImports, build_imports
from envspec.artifacts.sdist.inert import Setup, inert, is_judged, own_modules
from envspec.artifacts.sdist.pyproject import (
    SETUPTOOLS,
    Requirements,
    build_backend,
    build_requires,
    project_requirements,
    read_project,
    table_of,
    with_marker,
)
from envspec.base.cache import keep_value, read_value
from envspec.base.errors import IndexFailure
from envspec.base.plain_files import open_plain
from envspec.base.redact import redact
from envspec.net.fetch import Fetcher, Stream
from envspec.net.file_store import ARTIFACTS, FileStore, WantedFile
from envspec.net.remote_file import DamagedFile
from envspec.packages.archive_entries import TarMember
from envspec.packages.metadata import Metadata, header_fields, parse_metadata
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name
from envspec.resolve.uv.answer import FoundFile
from envspec.spec.way import avoiding

# The content of a source distribution, read as it streams in: nothing is written to disk, and nothing of it runs.

_ARCHIVE = 1 << 30
"""Bytes of the largest archive that is read."""
_UNPACKED = 8 << 30
"""Bytes of its unpacked content, which is read and not kept."""
_MEMBERS = 500_000
_PIECE = 1 << 20
_TEXT = 4 << 20
"""Bytes of the largest text that is kept."""
LARGEST_CODE = 1 << 18
"""Bytes of the largest Python file that is read."""
_CODE = 16 << 20
"""Bytes of Python files that are kept, and how deep they lie: a build's helpers stand near its setup.py."""
_DEEPEST = 2


class Content(Struct, frozen=True):
    """A source's files, by the paths below its one top folder.

    texts  the files that have its requirements, or decide whether its build runs its code
    names  the names of all files
    code   small Python files near the top, which its build may import
    asks   a text says `setup_requires`, or wasn't read
    odd    it has links, a path twice or in another spelling, or more than one top folder: `names` may differ from the
           unpacked tree, and the folder that is built isn't known
    """

    texts: dict[str, str]
    names: list[str]
    asks: bool = True
    odd: bool = False
    code: Mapping[str, str] = {}


_OF_SETUPTOOLS = (".py", ".cfg", ".toml")
"""Files in which a source says what setuptools asks for."""


def read_content(file: FoundFile, stream: Stream) -> Content:
    """Read the parts of an archive that count."""
    members = _zip_members if file.file.endswith(".zip") else _tar_members
    texts: dict[str, str] = {}
    code: dict[str, str] = {}
    names: list[str] = []
    seen: set[str] = set()
    first, unpacked, asks, odd, left = None, 0, False, False, _CODE
    try:
        for member, size, open_member in members(_Bounded(stream, file)):
            path = member.removeprefix("./")
            top, slash, below = path.partition("/")
            first = top if first is None else first
            # uv builds an archive without one top folder where it lies; of files in one place, tools unpack either
            odd = odd or open_member is None or posixpath.normpath(path) != path or path.lower() in seen
            odd = odd or not slash or top != first
            seen.add(path.lower())
            if open_member is None:
                continue
            unpacked += size
            if len(names) >= _MEMBERS or unpacked > _UNPACKED:
                raise avoiding(
                    IndexFailure(
                        f"{redact(file.url)} unpacks to more files or bytes than envspec accepts",
                        hint="tell those who publish it",
                    ),
                    *release_of(file),
                )
            names.append(below)
            speaks = below in ("PKG-INFO", "pyproject.toml") or below.endswith(_REQUIRES_TXT) or is_judged(below)
            may_ask = below.endswith(_OF_SETUPTOOLS) and not asks
            coded = below.endswith(".py") and below.count("/") <= _DEEPEST and size <= min(LARGEST_CODE, left)
            read = size <= _TEXT and (speaks or may_ask or coded)
            text = _start(open_member()).decode("utf-8", "replace") if read else ""
            if coded:
                code[below], left = text, left - size
            if speaks and read:
                texts[below] = text
            if may_ask:
                asks = not read or "setup_requires" in text
    except _UNREADABLE as error:
        raise DamagedFile(
            f"{redact(file.url)} can't be unpacked: {error}",
            hint="report this to whoever runs the index: the file is damaged",
        ) from None
    return Content(texts, names, asks, odd, code)


_REQUIRES_TXT = ".egg-info/requires.txt"
_UNREADABLE = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, NotImplementedError,
    RuntimeError, ValueError,
)  # fmt: skip

Member = tuple[str, int, Callable[[], "IO[bytes] | None"] | None]
"""Path in the archive, unpacked size in bytes, and what opens it; None for what is neither a file nor a folder."""


def _tar_members(stream: _Bounded) -> Iterator[Member]:
    with tarfile.open(fileobj=stream, mode="r|*", tarinfo=TarMember) as archive:
        for member in archive:
            if not member.isdir():
                yield member.name, member.size, partial(archive.extractfile, member) if member.isfile() else None
            # tarfile keeps every member that it has seen
            archive.members = []  # type: ignore[attr-defined]


def _zip_members(stream: _Bounded) -> Iterator[Member]:
    """List a zip's members. Its table is at its end, so the archive is held in memory, with a smaller limit."""
    with zipfile.ZipFile(io.BytesIO(stream.read(256 << 20))) as archive:
        for entry in archive.infolist():
            if not entry.is_dir():
                link = stat.S_ISLNK(entry.external_attr >> 16)
                yield entry.filename, entry.file_size, None if link else partial(archive.open, entry)


def _start(opened: IO[bytes] | None) -> bytes:
    return opened.read(_TEXT) if opened else b""


class _Bounded(io.RawIOBase):
    """The stream, which ends with an error where it is larger than any source."""

    def __init__(self, stream: Stream, file: FoundFile) -> None:
        self._stream, self._file = stream, file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Read as many bytes as asked for, and fewer only at the end: readers of archives take a short read for the
        end."""
        pieces, left = [], size if size >= 0 else _ARCHIVE
        while left:
            piece = self._stream.read(min(left, _PIECE))
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
        if self._stream.length > _ARCHIVE:
            raise avoiding(
                IndexFailure(
                    f"{redact(self._file.url)} is larger than {_ARCHIVE >> 20} MiB, "
                    "the limit for a source distribution",
                ),
                *release_of(self._file),
            )
        return b"".join(pieces)


_SCHEMA = 8

Trust = Literal["static", "unproved", "unknown"]
_COMPILED = (".c", ".cc", ".cpp", ".cxx", ".cu", ".pyx", ".rs", ".f", ".f90", ".go", ".m", ".mm")
_COMPILING = (
    "maturin", "setuptools-rust", "setuptools_rust", "scikit-build", "scikit_build", "meson", "sipbuild", "cmake",
)  # fmt: skip
_ASIDE = {"test", "tests", "doc", "docs", "example", "examples", "benchmark", "benchmarks"}


class SourceFacts(Struct, frozen=True):
    """metadata  its metadata; of an unknown one only name and version
    trust     the certainty of the metadata: static, unproved or unknown
    compiles  the sign that a build needs a compiler: a file's name or the build backend; None for pure Python
    builds    the requirements of its build by its pyproject.toml, or the default where that declares none
    asks      its build backend may ask for more; if not, it needn't be run
    inert     the reason why its build runs no code of its own; empty where it may run some
    fetches   the index from which its build downloads the wheel, as for NVIDIA's sources on PyPI
    imports   the modules that its build imports
    """

    metadata: Metadata
    trust: Trust
    compiles: str | None
    builds: tuple[str, ...] = ()
    asks: bool = True
    inert: str = ""
    fetches: str | None = None
    imports: BuildImports = BuildImports()


class FolderFacts(Struct, frozen=True):
    """The facts of an unpacked source, named as those of an archive."""

    builds: tuple[str, ...]
    imports: BuildImports
    asks: bool = True


_Facts = TypeVar("_Facts", SourceFacts, FolderFacts)


class StaticReader(Struct, frozen=True):
    """A reader of sources through a cache on disk, one small JSON a release and sha256."""

    folder: Path
    fetcher: Fetcher

    def read(self, file: FoundFile, name: str, version: str) -> SourceFacts:
        """Read the facts of a source distribution, which the index lists as this release. Raises IndexFailure."""
        # name and version are the index's word: another index may give these bytes another name
        key = cache_key(name, version, str(file.sha256))
        return self.read_once(key, SourceFacts, lambda: self._read(file, name, version))

    def read_once(self, key: str, kind: type[_Facts], read: Callable[[], _Facts]) -> _Facts:
        """Give the facts stored under a key, else read them. Raises what `read` raises."""
        place = self.folder / f"sources-v{_SCHEMA}" / key[:2] / f"{key[2:]}.json"
        known = read_value(place, kind)
        if known is None:
            known = read()
            keep_value(place, known)
        return known

    def _read(self, file: FoundFile, name: str, version: str) -> SourceFacts:
        with self._open(file) as stream:
            try:
                content = read_content(file, stream)
            except DamagedFile:
                # should it be chosen, whoever builds it is told
                content = Content({}, [])
            while stream.read(_PIECE):
                # the hash is of the whole file
                pass
        refuse_other_hash(file, stream.sha256)
        return facts_of(content, name, version, stream.length)

    @contextmanager
    def _open(self, file: FoundFile) -> Iterator[Stream]:
        """Open the file: the one that was fetched before, else its index's."""
        most = file.size or self.fetcher.limits.source_bytes
        path = self._find(file)
        if path is not None:
            with path.open("rb") as content:
                yield Stream(redact(file.url), max(most, path.stat().st_size), iter(partial(content.read, _PIECE), b""))
            return
        if self.fetcher.offline:
            raise IndexFailure(f"not in the cache: {file.file}", hint="run without --offline once")
        with self.fetcher.stream(file.url, most) as stream:
            yield stream

    def _find(self, file: FoundFile) -> Path | None:
        try:
            required = WantedFile(file.file, str(file.sha256), file.size)
            return FileStore(self.folder / ARTIFACTS, self.fetcher).find(required)
        except (OSError, IndexFailure):
            # a name or a hash that no file has there
            return None


def facts_of(content: Content, name: str, version: str, size: int | None) -> SourceFacts:
    """Read the facts from a source's content. Pure."""
    texts, names = content.texts, content.names
    info = _info(texts.get("PKG-INFO"), name, version)
    version = version or (info.version if info else "")
    project = read_project(texts.get("pyproject.toml", ""))
    setup = not content.odd and inert(texts, names, project)
    if isinstance(setup, Setup) and not _is_of(setup.name, setup.version, name, version):
        setup = False
    python, licence = (info.requires_python, info.licence) if info else (None, None)
    bare = Metadata(name, version, (), (), python, licence, size)
    metadata, trust = _with_requirements(bare, content, info, project, setup) if version else (bare, "unknown")
    return SourceFacts(
        metadata,
        trust,
        _compiles(names, project),
        build_requires(project),
        content.asks or not _is_setuptools_alone(project),
        _why_inert(setup, project) if trust == "static" and not content.asks else "",
        _wheels_index(project),
        build_imports(content.code.get, own_modules(names), project),
    )


def _why_inert(setup: Setup | bool, project: Mapping[str, Any]) -> str:
    if isinstance(setup, Setup):
        return "its setup.py is one setup() of literals"
    return f"its pyproject.toml declares all that {build_backend(project).partition('.')[0]} builds" if setup else ""


def runs_code(archive: Path, name: str, version: str) -> bool:
    """Judge a source distribution that a lock calls inert, before it is built. Raises IndexFailure, OSError."""
    size = archive.stat().st_size
    with open_plain(archive, links_out=True) as opened:
        stream = Stream(archive.name, size, iter(partial(opened.read, _PIECE), b""))
        content = read_content(FoundFile(archive.as_uri(), archive.name, None, size), stream)
    return not facts_of(content, name, version, size).inert


_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]{1,200}(?::\d{1,5})?(?:/[A-Za-z0-9._~-]+){0,9}/?")


def _wheels_index(project: Mapping[str, Any]) -> str | None:
    """Read the index of a source that is built by wheel-stub (`[tool.wheel_stub] index_url`)."""
    address = str(table_of(project, "tool", "wheel_stub").get("index_url"))
    is_stub = build_backend(project).partition(".")[0] == "wheel_stub"
    return address if is_stub and _ADDRESS.fullmatch(address) else None


def _is_setuptools_alone(project: Mapping[str, Any]) -> bool:
    """Return whether setuptools builds a source, with no package beside it that could ask for more. Of itself it
    asks for what `setup_requires` says, and up to 70.0 for wheel."""
    if "backend-path" in table_of(project, "build-system") or build_backend(project) not in SETUPTOOLS:
        return False
    try:
        return set(map(requirement_name, build_requires(project))) == {"setuptools", "wheel"}
    except ValueError:
        return False


def _with_requirements(
    bare: Metadata, content: Content, info: Metadata | None, project: Mapping[str, Any], setup: Setup | bool
) -> tuple[Metadata, Trust]:
    """Add the requirements and the extras to a source's metadata, of the surest text that has them."""

    def having(requirements: Requirements) -> Metadata:
        return replace(bare, requires_dist=requirements[0], provides_extra=requirements[1])

    texts = content.texts
    stated = (info.requires_dist, info.provides_extra) if info else ((), ())
    if info is not None and _is_static(texts["PKG-INFO"]):
        return having(stated), "static"
    if (listed := project_requirements(project)) is not None:
        return having(listed), "static"
    if isinstance(setup, Setup):
        return replace(having(parse_requires(setup.requires)), requires_python=setup.requires_python), "static"
    if stated[0]:
        return having(stated), "unproved"
    if eggs := [path for path in texts if path.endswith(_REQUIRES_TXT)]:
        return having(parse_requires(texts[min(eggs, key=_depth)])), "unproved"
    # setuptools writes no requires.txt where there is nothing to write
    return bare, "unproved" if any(".egg-info/" in path for path in content.names) else "unknown"


def _depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _info(text: str | None, name: str, version: str) -> Metadata | None:
    """Parse PKG-INFO if it is of this very release."""
    try:
        metadata = parse_metadata(text or "")
        return metadata if _is_of(metadata.name, metadata.version, name, version) else None
    except ValueError:
        return None


def _is_of(own: str, own_version: str, name: str, version: str) -> bool:
    """Return whether a source's own name and version are a release's. A release without a version yet takes any."""
    try:
        return canonical_name(own) == name and (not version or Version(own_version) == Version(version))
    except ValueError:
        return False


def _is_static(text: str) -> bool:
    """Return whether PKG-INFO binds the wheel's dependencies (PEP 643). As for uv, the case of a field's name in
    `Dynamic` counts: in lower case setuptools lists all a setup.py says, also where that is the same everywhere."""
    fields = header_fields(text)
    numbers = re.fullmatch(r"(\d{1,9})\.(\d{1,9})", fields.get("metadata-version", ["1.0"])[0])
    newer = numbers is not None and (int(numbers[1]), int(numbers[2])) >= (2, 2)
    dynamic = {name.strip() for name in fields.get("dynamic", ())}
    return newer and not dynamic & {"Requires-Dist", "Provides-Extra", "Requires-Python"}


def parse_requires(text: str) -> Requirements:
    """Read requires.txt of an egg-info folder: requirements as METADATA has them, and the extras. A section's head is
    `[extra]`, `[:marker]` or `[extra:marker]`."""
    lines: list[str] = []
    extras: dict[str, None] = {}
    marker = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            extra, _, condition = line[1:-1].partition(":")
            conditions = [f"({condition})"] if condition else []
            if extra:
                extras[canonical_name(extra)] = None
                conditions.append(f"extra == '{canonical_name(extra)}'")
            marker = " and ".join(conditions)
        elif line and not line.startswith("#"):
            lines.append(with_marker(line, marker) if marker else line)
    return tuple(lines), tuple(extras)


def _compiles(names: list[str], project: Mapping[str, Any]) -> str | None:
    """Find the sign that a build needs a compiler."""
    for line in build_requires(project):
        for backend in _COMPILING:
            if line.lower().startswith(backend):
                return backend
    for path in sorted(names, key=_depth):
        if path.lower().endswith(_COMPILED) and _ASIDE.isdisjoint(path.lower().split("/")[:-1]):
            return path
    return None
