"""Metadata of a source distribution, read without running any of its code.

Small texts of the archive count, in this order:

    static     PKG-INFO of metadata 2.2 or later that calls no dependency dynamic (PEP 643), as uv reads it, or a
               pyproject.toml whose [project] lists them and doesn't call them dynamic (PEP 621), or a setup.py that
               is one `setup()` of literals (`envspec.resolve.pip.inert`)
    unproved   older PKG-INFO that lists requirements, or requires.txt of an egg-info folder: what a build on the
               author's machine had; one here may have others
    unknown    none of these: only running its code can tell

Why it is so: docs/design/07-resolving-sources.md.
"""

from __future__ import annotations

import ast
import io
import lzma
import os
import posixpath
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version

from envspec.base.cache import keep_value, read_value
from envspec.base.documents import Unreadable, read_python, read_toml
from envspec.base.errors import IndexFailure, InputError
from envspec.base.plain_files import open_plain, read_plain
from envspec.base.redact import redact
from envspec.lock.toml_text import value
from envspec.net.fetch import Fetcher, Stream
from envspec.net.file_store import ARTIFACTS, FileStore, WantedFile
from envspec.net.remote_file import DamagedFile
from envspec.packages.archive_entries import TarMember
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name, is_requirement
from envspec.resolve.pip.build_imports import BuildImports, build_imports, is_foreign
from envspec.resolve.pip.inert import LEGACY, SETUPTOOLS, Setup, inert, is_told, own_modules
from envspec.resolve.pip.metadata import Metadata, cache_key, parse_metadata, release_of
from envspec.resolve.uv.answer import FoundFile

# The content of a source distribution, read as it streams in: nothing is written to disk, and nothing of it runs.

_ARCHIVE = 1 << 30
"""Bytes of the largest archive that is read."""
_UNPACKED = 8 << 30
"""Bytes of its unpacked content, which is read and not kept."""
_MEMBERS = 500_000
_TEXT = 4 << 20
"""Bytes of the largest text that is kept."""
_CONTENT_PIECE = 1 << 20
_CODE = 16 << 20
"""Bytes of Python files that are kept, and how deep they lie: a build's helpers stand near its setup.py."""
_DEEPEST = 2


class Content(Struct, frozen=True):
    """A source's files, by the paths below its one top folder.

    texts  those that say what it requires, and whether its build runs its code
    names  of all files
    code   small Python files near the top: what its build may import
    asks   a text says `setup_requires`, or wasn't read
    odd    it has links, a path twice or in another spelling, or more than one top folder: `names` don't say what lies
           where once it's unpacked, or from which folder it's built
    """

    texts: dict[str, str]
    names: list[str]
    asks: bool = True
    odd: bool = False
    code: Mapping[str, str] = {}


_TOLD = (".py", ".cfg", ".toml")
"""Files in which a source says what setuptools asks for."""


def read_content(file: FoundFile, stream: Stream) -> Content:
    """Read what counts of an archive."""
    bounded = _Bounded(stream, file)
    members = _zip_members if file.file.endswith(".zip") else _tar_members
    texts: dict[str, str] = {}
    names: list[str] = []
    code: dict[str, str] = {}
    unpacked, asks, odd, left = 0, False, False, _CODE
    seen: set[str] = set()
    try:
        for path, size, read in members(bounded):
            stem = path.removeprefix("./")
            top = stem.partition("/")[0] + "/"
            # uv builds an archive without one top folder where it lies; of files in one place, tools unpack either
            odd = odd or read is None or posixpath.normpath(stem) != stem or top == f"{stem}/" or stem.lower() in seen
            odd = odd or not next(iter(seen), top).startswith(top.lower())
            seen.add(stem.lower())
            if read is None:
                continue
            unpacked += size
            if len(names) >= _MEMBERS or unpacked > _UNPACKED:
                raise IndexFailure(
                    f"{redact(file.url)} unpacks to more files or bytes than envspec accepts",
                    hint="tell those who publish it",
                ).avoiding(*release_of(file))
            below = stem.partition("/")[2]
            names.append(below)
            wanted = (
                below in ("PKG-INFO", "pyproject.toml") or below.endswith(".egg-info/requires.txt") or is_told(below)
            )
            told = below.endswith(_TOLD) and not asks
            coded = below.endswith(".py") and below.count("/") <= _DEEPEST and size <= min(_LARGEST, left)
            content = read() if (wanted or told or coded) and size <= _TEXT else b""
            if coded:
                code[below], left = content.decode("utf-8", "replace"), left - size
            if wanted and size <= _TEXT:
                texts[below] = content.decode("utf-8", "replace")
            if told:
                asks = size > _TEXT or b"setup_requires" in content
    except _UNREADABLE as error:
        raise DamagedFile(
            f"{redact(file.url)} can't be unpacked: {error}",
            hint="report this to whoever runs the index: the file is damaged",
        ) from None
    return Content(texts, names, asks, odd, code)


_UNREADABLE = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, NotImplementedError,
    RuntimeError, ValueError,
)  # fmt: skip

Member = tuple[str, int, Callable[[], bytes] | None]
"""Path in the archive, unpacked size in bytes, and its content; None for what is neither a file nor a folder."""


def _tar_members(stream: _Bounded) -> Iterator[Member]:
    with tarfile.open(fileobj=stream, mode="r|*", tarinfo=TarMember) as archive:
        for member in archive:
            if member.isfile():
                yield member.name, member.size, partial(_tar_content, archive, member)
            elif not member.isdir():
                yield member.name, 0, None
            # tarfile keeps every member that it has seen
            archive.members = []  # type: ignore[attr-defined]


def _tar_content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    return _content(archive.extractfile(member))


def _content(file: IO[bytes] | None) -> bytes:
    return file.read(_TEXT) if file else b""


def _zip_members(stream: _Bounded) -> Iterator[Member]:
    """List a zip's members. Its table is at its end, so the archive is held in memory, with a smaller limit."""
    content = stream.read(256 << 20)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            if not entry.is_dir():
                link = stat.S_ISLNK(entry.external_attr >> 16)
                yield entry.filename, entry.file_size, None if link else partial(_zip_content, archive, entry)


def _zip_content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as file:
        return _content(file)


class _Bounded(io.RawIOBase):
    """The stream, which ends with an error where it is larger than any source."""

    def __init__(self, stream: Stream, file: FoundFile) -> None:
        self._stream, self._file = stream, file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """As many bytes as asked for, fewer at the end alone: what reads archives takes less for the end."""
        pieces, left = [], size if size >= 0 else _ARCHIVE
        while left:
            piece = self._stream.read(min(left, _CONTENT_PIECE))
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
        if self._stream.length > _ARCHIVE:
            raise IndexFailure(
                f"{redact(self._file.url)} is larger than {_ARCHIVE >> 20} MiB, the limit for a source distribution",
            ).avoiding(*release_of(self._file))
        return b"".join(pieces)


_SCHEMA = 8
_PIECE = 1 << 20

Trust = Literal["static", "unproved", "unknown"]
_COMPILED = (".c", ".cc", ".cpp", ".cxx", ".cu", ".pyx", ".rs", ".f", ".f90", ".go", ".m", ".mm")
_COMPILING = (
    "maturin",
    "setuptools-rust",
    "setuptools_rust",
    "scikit-build",
    "scikit_build",
    "meson",
    "sipbuild",
    "cmake",
)
DEFAULT_REQUIRES = ("setuptools>=40.8.0", "wheel")
"""What a source that declares nothing is built with (PEP 518)."""
_ASIDE = ("test", "tests", "doc", "docs", "example", "examples", "benchmark", "benchmarks")


class SourceFacts(Struct, frozen=True):
    """metadata  its metadata; of an unknown one only name and version
    trust     how certain that is: static, unproved or unknown
    compiles  the sign that a build needs a compiler: a file's name or the build backend; None for pure Python
    builds    what its build requires, as its pyproject.toml declares it, or the default for one that doesn't
    asks      its build backend may ask for more than that; if not, it needn't be run
    inert     why its build runs no code of its own; empty where it may run some
    fetches   the index from which its build downloads the wheel: NVIDIA's sources on PyPI hold nothing else
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


class StaticReader(Struct, frozen=True):
    """A reader of sources through a cache on disk, one small JSON a release and sha256."""

    folder: Path
    fetcher: Fetcher

    def read(self, file: FoundFile, name: str, version: str) -> SourceFacts:
        """Read the facts of a source distribution, which the index lists as this release. Raises IndexFailure."""
        # name and version are the index's word: another index may give these bytes another name
        key = cache_key(name, version, str(file.sha256))
        place = self.folder / f"sources-v{_SCHEMA}" / key[:2] / f"{key[2:]}.json"
        known = read_value(place, SourceFacts)
        if known is not None:
            return known
        with self._open(file) as stream:
            try:
                content = read_content(file, stream)
            except DamagedFile:
                # should it be chosen, whoever builds it is told
                content = Content({}, [])
            while stream.read(_PIECE):
                # the hash is of the whole file
                pass
        if file.sha256 and stream.sha256 != file.sha256:
            raise IndexFailure(
                f"{redact(file.url)}: the content has sha256 {stream.sha256}, but the index says {file.sha256}",
                hint="don't install from this index until whoever runs it has found the cause",
            )
        facts = facts_of(content, name, version, stream.length)
        keep_value(place, facts)
        return facts

    def imports(self, key: str, unpack: Callable[[], Path]) -> BuildImports:
        """Read what the build of an unpacked source imports, once a key. Raises what `unpack` raises."""
        place = self.folder / f"sources-v{_SCHEMA}" / key[:2] / f"{key[2:]}.json"
        known = read_value(place, BuildImports)
        if known is None:
            known = imports_of_folder(unpack())
            keep_value(place, known)
        return known

    @contextmanager
    def _open(self, file: FoundFile) -> Iterator[Stream]:
        """Open the file: the one that was fetched before, else its index's."""
        most = file.size or self.fetcher.limits.source_bytes
        kept = self._find(file)
        if kept is not None:
            with kept.open("rb") as content:
                yield Stream(redact(file.url), max(most, kept.stat().st_size), iter(partial(content.read, _PIECE), b""))
            return
        if self.fetcher.offline:
            raise IndexFailure(f"not in the cache: {file.file}", hint="run without --offline once")
        with self.fetcher.stream(file.url, most) as stream:
            yield stream

    def _find(self, file: FoundFile) -> Path | None:
        try:
            wanted = WantedFile(file.file, str(file.sha256), file.size)
            return FileStore(self.folder / ARTIFACTS, self.fetcher).find(wanted)
        except (OSError, IndexFailure):
            # a name or a hash that no file has there
            return None


def facts_of(content: Content, name: str, version: str, size: int | None) -> SourceFacts:
    """Read the facts from a source's content. Pure."""
    texts, names = content.texts, content.names
    info = _info(texts.get("PKG-INFO"), name, version)
    version = version or (info.version if info else "")
    project = _toml(texts.get("pyproject.toml"))
    setup = not content.odd and inert(texts, names, project)
    if isinstance(setup, Setup) and not _is_of(setup.name, setup.version, name, version):
        setup = False
    metadata, trust = _requirements(texts, names, info, project, setup, name, version)
    return SourceFacts(
        replace(metadata, name=name, version=version, size=size),
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
    backend = str(project.get("build-system", {}).get("build-backend", LEGACY)).partition(".")[0]
    return f"its pyproject.toml declares all that {backend} builds" if setup else ""


def runs_code(archive: Path, name: str, version: str) -> bool:
    """Judge a source distribution that a lock calls inert, before it is built. Raises IndexFailure, OSError."""
    size = archive.stat().st_size
    with open_plain(archive, links_out=True) as opened:
        stream = Stream(archive.name, size, iter(partial(opened.read, _PIECE), b""))
        content = read_content(FoundFile(archive.as_uri(), archive.name, None, size), stream)
    return not facts_of(content, name, version, size).inert


def imports_of_folder(source: Path) -> BuildImports:
    """Read what the build of an unpacked source imports. Links that lead out of its folder aren't followed."""
    root = os.path.realpath(source)

    def read(path: str) -> str | None:
        real = Path(os.path.realpath(source / path))
        if not real.is_relative_to(root) or not real.is_file():
            return None
        return _read_start(real, _LARGEST).decode("utf-8", "replace")

    return build_imports(read, own_modules(os.listdir(root)), read_project(source))


_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]{1,200}(?::\d{1,5})?(?:/[A-Za-z0-9._~-]+){0,9}/?")


def _wheels_index(project: Mapping[str, Any]) -> str | None:
    """Read the index of a source that is built by wheel-stub (`[tool.wheel_stub] index_url`)."""
    system, tools = project.get("build-system"), project.get("tool")
    if not isinstance(system, dict) or str(system.get("build-backend")).partition(".")[0] != "wheel_stub":
        return None
    stub = tools.get("wheel_stub") if isinstance(tools, dict) else None
    address = str(stub.get("index_url")) if isinstance(stub, dict) else ""
    return address if _ADDRESS.fullmatch(address) else None


def _is_setuptools_alone(project: Mapping[str, Any]) -> bool:
    """Say whether setuptools builds a source, with no package beside it that could ask for more. Of itself it asks for
    what `setup_requires` says, and up to 70.0 for wheel."""
    system = project.get("build-system", {})
    if not isinstance(system, dict) or "backend-path" in system:
        return False
    backend = system.get("build-backend", LEGACY)
    try:
        declared = {requirement_name(line) for line in build_requires(project)}
    except ValueError:
        return False
    return backend in SETUPTOOLS and declared == {"setuptools", "wheel"}


def build_requires(project: Mapping[str, Any]) -> tuple[str, ...]:
    """Read `[build-system] requires` of a pyproject.toml's table; the default where there is none (PEP 518)."""
    system = project.get("build-system")
    requires = system.get("requires") if isinstance(system, dict) else None
    if not isinstance(requires, list):
        return DEFAULT_REQUIRES
    return tuple(line for line in requires if isinstance(line, str))


def _requirements(
    texts: dict[str, str],
    names: list[str],
    info: Metadata | None,
    project: dict[str, Any],
    setup: Setup | bool,
    name: str,
    version: str,
) -> tuple[Metadata, Trust]:
    bare = Metadata(name, version, (), (), info.requires_python if info else None, info.licence if info else None)
    if not version:
        return bare, "unknown"
    if info is not None and _is_static(texts["PKG-INFO"]):
        return info, "static"
    listed = _project_requirements(project)
    if listed is not None:
        return Metadata(name, version, *listed, bare.requires_python, bare.licence), "static"
    if isinstance(setup, Setup):
        return Metadata(name, version, *parse_requires(setup.requires), setup.requires_python, bare.licence), "static"
    if info is not None and info.requires_dist:
        return info, "unproved"
    egg = min((path for path in texts if path.endswith(".egg-info/requires.txt")), key=_depth, default=None)
    if egg is not None:
        requires, extras = parse_requires(texts[egg])
        return Metadata(name, version, requires, extras, bare.requires_python, bare.licence), "unproved"
    if any(".egg-info/" in path for path in names):
        # setuptools writes no requires.txt where there is nothing to write
        return bare, "unproved"
    return bare, "unknown"


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
    """Say whether a source's own name and version are those of a release. Any version is, of one that has none yet."""
    try:
        return canonical_name(own) == name and (not version or Version(own_version) == Version(version))
    except ValueError:
        return False


def _is_static(text: str) -> bool:
    """Say whether PKG-INFO binds the wheel's dependencies (PEP 643). As for uv, the case of a field's name in `Dynamic`
    counts: in lower case setuptools lists all that a setup.py says, also where it says the same everywhere."""
    head = text.replace("\r\n", "\n").partition("\n\n")[0].splitlines()
    fields = [(key.strip().lower(), value.strip()) for key, _, value in (line.partition(":") for line in head)]
    version = next((value for key, value in fields if key == "metadata-version"), "1.0")
    dynamic = {value for key, value in fields if key == "dynamic"}
    numbers = re.fullmatch(r"(\d{1,9})\.(\d{1,9})", version)
    newer = numbers is not None and (int(numbers[1]), int(numbers[2])) >= (2, 2)
    return newer and not dynamic & {"Requires-Dist", "Provides-Extra", "Requires-Python"}


def _toml(text: str | None) -> dict[str, Any]:
    try:
        return read_toml(text or "")
    except Unreadable:
        return {}


def _project_requirements(project: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Read requirements and extras of a [project] table that binds them. None for one that doesn't."""
    table = project.get("project")
    if not isinstance(table, dict) or not isinstance(table.get("name"), str):
        return None
    dynamic = table.get("dynamic", [])
    optional, own = table.get("optional-dependencies", {}), table.get("dependencies", [])
    if not isinstance(dynamic, list) or {"dependencies", "optional-dependencies", "requires-python"} & set(
        map(str, dynamic)
    ):
        return None
    if not isinstance(own, list) or not isinstance(optional, dict):
        return None
    lines = [str(line) for line in own]
    for extra, several in optional.items():
        if not isinstance(several, list):
            return None
        lines += [_with_marker(str(line), f"extra == '{canonical_name(str(extra))}'") for line in several]
    return tuple(lines), tuple(canonical_name(str(extra)) for extra in optional)


def _with_marker(line: str, marker: str) -> str:
    requirement, semicolon, own = line.partition(";")
    return f"{requirement.strip()}; ({own.strip()}) and {marker}" if semicolon else f"{line.strip()}; {marker}"


def parse_requires(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """requires.txt of an egg-info folder: requirements as METADATA has them, and the extras. A section's head is
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
            lines.append(_with_marker(line, marker) if marker else line)
    return tuple(lines), tuple(extras)


def _compiles(names: list[str], project: dict[str, Any]) -> str | None:
    """Find the sign that a build needs a compiler."""
    system = project.get("build-system")
    requires = system.get("requires", []) if isinstance(system, dict) else []
    for backend in requires if isinstance(requires, list) else ():
        found = next((known for known in _COMPILING if str(backend).lower().startswith(known)), None)
        if found:
            return found
    for path in sorted(names, key=_depth):
        folders = path.lower().split("/")[:-1]
        if path.lower().endswith(_COMPILED) and not set(folders) & set(_ASIDE):
            return path
    return None


# A build for metadata that fails because a module is missing: what of the requirements is known without running it,
# as the line that a spec states them in.

_MISSING = re.compile(r"No module named '([A-Za-z0-9_.]+)'")
_LARGEST = 1 << 18
"""Bytes of the largest setup.py that is read."""
_OWN = ("torch", "numpy")
"""Modules that a build imports because the package itself works with them."""


def missing_module(output: str) -> str | None:
    """Find the top-level module that a build's output says is missing."""
    found = _MISSING.findall(output)
    return found[-1].partition(".")[0] if found else None


def metadata_hint(module: str, name: str, version: str, facts: SourceFacts, source: Path) -> str:
    """Write the hint with the lines to add to the spec: what the source requires, and what its build needs. `source` is
    the unpacked source."""
    imports = facts.imports.with_module(module if is_foreign(module, own_modules(os.listdir(source))) else None)
    there = dict.fromkeys((requirement_name(line) for line in facts.builds if is_requirement(line)), "")
    missing = imports.lacking(name, there, has_torch=True)
    builds = value({name: list(imports.requirements(facts.builds, missing))})
    more = f"\nbuild-dependencies = {builds}" if missing else ""
    known = [line for line in facts.metadata.requires_dist or _read_setup(source)[1] if is_requirement(line)]
    if known:
        return f"add to [pip]: {metadata_line(name, version, known)}{more}"
    guess = [module] if module in _OWN else []
    return f"add to [pip], with all that its README says it requires: {metadata_line(name, version, guess)}{more}"


def checkout_hint(name: str, source: Path) -> str | None:
    """Write the hint with the line for a git project, from what its pyproject.toml and setup.py say without being run.
    None where they say no requirements."""
    version, lines = _read_setup(source)
    project = read_project(source)
    table = project.get("project")
    if isinstance(table, dict):
        version = str(table.get("version", version))
        lines = (_project_requirements(project) or (lines,))[0]
    if not lines or not all(map(is_requirement, lines)):
        return None
    return f"add to [pip]{'' if version else ', with its version'}: {metadata_line(name, version or '…', lines)}"


def read_project(source: Path) -> dict[str, Any]:
    """Read the pyproject.toml of an unpacked source or a checkout; an empty table where there is none that is one."""
    return _toml(_read_start(source / "pyproject.toml", _TEXT).decode("utf-8", "replace"))


def _read_start(path: Path, most: int) -> bytes:
    """Read a small file; no bytes of one that isn't there, or is larger."""
    try:
        content = read_plain(path, most + 1)
    except (OSError, InputError):
        return b""
    return content if len(content) <= most else b""


def metadata_line(name: str, version: str, dependencies: Sequence[str]) -> str:
    """Write a `metadata` key with one entry."""
    entry = {"name": canonical_name(name), "version": version, "dependencies": list(dependencies)}
    return f"metadata = {value([entry])}"


def _read_setup(source: Path) -> tuple[str, tuple[str, ...]]:
    """Read the literal `version` and `install_requires` of a setup.py, which isn't run; empty where they are none."""
    try:
        tree = read_python(_read_start(source / "setup.py", _LARGEST))
    except Unreadable:
        return "", ()
    names = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    version, requires = "", tuple[str, ...]()
    for keyword in _keywords(tree):
        said = keyword.value
        meant = names.get(said.id) if isinstance(said, ast.Name) else said
        if keyword.arg == "version" and isinstance(meant, ast.Constant) and type(meant.value) is str:
            version = version or meant.value
        if keyword.arg == "install_requires" and isinstance(meant, (ast.List, ast.Tuple)):
            texts = [item.value for item in meant.elts if isinstance(item, ast.Constant) and type(item.value) is str]
            if len(texts) == len(meant.elts):
                requires = requires or tuple(map(str, texts))
    return version, requires


def _keywords(tree: ast.Module) -> Iterator[ast.keyword]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from node.keywords
