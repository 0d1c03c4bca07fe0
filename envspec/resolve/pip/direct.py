"""Files that requirements name by their URL: envspec fetches each one within the limits and looks through it, before uv
runs. uv is told their hashes and METADATA, and asks for none of them.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct, field
from msgspec.structs import replace
from packaging.requirements import Requirement
from packaging.version import Version

from envspec.artifacts.metadata import MetadataReader, cache_key
from envspec.artifacts.sdist.source import SourceReader
from envspec.base.cache import keep_value, read_value
from envspec.base.errors import IndexFailure, SpecError, about
from envspec.base.progress import Counting
from envspec.base.redact import redact
from envspec.base.scratch import new_folder
from envspec.base.storage import storage_error
from envspec.base.texts import printable
from envspec.configuration.settings import split_credentials
from envspec.net.file_store import BY_REQUIREMENT, FileStore, KnownFile, WantedFile
from envspec.packages.address import Address, parse_address
from envspec.packages.archive_entries import SOURCES, path_fault
from envspec.packages.edges import ByExtra, Markers, reach
from envspec.packages.metadata import Metadata, metadata_of
from envspec.packages.requirement import canonical_name, head_of, parse_requirement
from envspec.packages.stated import StatedMetadata
from envspec.resolve.pip.edges import requirement_of
from envspec.resolve.pip.request import Request
from envspec.resolve.uv.answer import FoundFile

_SCHEMA = 2
_FOLDER = re.compile(r"[A-Za-z0-9_./-]+")


class DirectFile(Struct, frozen=True):
    """A file that a requirement names by its URL.

    url       as the requirement has it, without its fragment
    metadata  the file's own metadata
    """

    url: str
    file: FoundFile
    metadata: Metadata


DirectFiles = Mapping[str, DirectFile]
"""Normalised name → the file that a target takes for it."""


class DirectReader(Struct):
    """The reader of files by their URL, each once. `scratch` has the folders of builds."""

    cache: Path
    files: FileStore
    wheels: MetadataReader
    sources: SourceReader
    scratch: Path
    counting: Counting
    _read: dict[str, DirectFile] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, request: Request) -> DirectFiles:
        """Read the files of a request. Files that they themselves require by a URL must be among them.

        Raises SpecError for one that isn't and for a source that may not be built, IndexFailure, ToolError or
        StorageError.
        """
        markers = Markers(request.platform, request.full_python)
        files: dict[str, DirectFile] = {}
        overridden = {head_of(text).name for text in request.overrides}
        named = [text for text in request.requirements if head_of(text).name not in overridden]
        lines = dict(_by_url((*request.overrides, *named)))
        own = [parse_address(str(requirement.url)) for requirement in lines.values()]
        by_extra: dict[str, ByExtra] = {}

        def following(line: str, added: frozenset[str], first: bool) -> Iterator[tuple[str, frozenset[str]]]:
            name = canonical_name(lines[line].name)
            if first:
                files.setdefault(name, self._read_once(lines[line], name, request))
                below = [str(requirement_of(text)) for text in files[name].metadata.requires_dist]
                by_extra[line] = ByExtra(below)
            else:
                below = list(by_extra[line].lines(added))
            more = [text for text in below if markers.hold(text, added) and head_of(text).name not in overridden]
            for text, requirement in _by_url(more):
                _refuse_strange_url(requirement, name, own)
                lines.setdefault(text, requirement)
                yield text, frozenset(map(canonical_name, requirement.extras))

        extras: dict[str, frozenset[str]] = {}
        for head in map(head_of, request.addressed):
            extras[head.name] = extras.get(head.name, frozenset()) | head.extras
        active = [line for line in lines if markers.hold(line)]
        reach(((line, extras.get(canonical_name(lines[line].name), frozenset())) for line in active), following)
        return files

    def _read_once(self, requirement: Requirement, name: str, request: Request) -> DirectFile:
        # of what has an address, no index says the version
        stated = next((entry for entry in request.metadata if entry.name == name and entry.exact), None)
        key = f"{name} {requirement.url} {stated!r}"
        with self._lock:
            if key not in self._read:
                self._read[key] = self._fetch(requirement, name, name in request.allow_source, stated)
            return self._read[key]

    def _fetch(self, requirement: Requirement, name: str, allowed: bool, stated: StatedMetadata | None) -> DirectFile:
        url, _, text = str(requirement.url).partition("#")
        fragment = parse_qs(text)
        if algorithms := sorted(fragment.keys() & hashlib.algorithms_guaranteed - {"sha256"}):
            raise SpecError(
                f"{redact(str(requirement))} has a {algorithms[0]}, and a lock holds sha256 alone",
                hint="give #sha256=<digest>, or leave the hash out",
            ).with_subjects(name)
        below = fragment.get("subdirectory", [""])[-1]
        if below and (not _FOLDER.fullmatch(below) or path_fault(below)):
            raise SpecError(
                f"{redact(str(requirement))} names no folder of an archive: {printable(below)}",
                hint="give #subdirectory=<folder>, from the archive's top folder, in letters, digits, `.`, `_`, `-`",
            ).with_subjects(name)
        with self.counting.step(f"reading {redact(url)}"), about(name):
            file = _file_name(url, name, allowed)
            try:
                if "sha256" in fragment:
                    known = self._file_of_hash(url, file, fragment["sha256"][-1].lower())
                else:
                    known = self._current_file(url, file)
                place = self.files.find(WantedFile(file, known.sha256, known.size))
                address = split_credentials(url)[0] + (f"#subdirectory={below}" if below else "")
                direct = FoundFile(address, file, known.sha256, known.size)
                if file.endswith(".whl") and place is not None:
                    metadata = self.wheels.recall(direct) or self.wheels.read_file(place, direct)
                elif stated is not None:
                    metadata = metadata_of(stated, str(stated.exact))
                else:
                    metadata = self.sources.read_sdist(direct, name, "", new_folder(self.scratch), below)
            except OSError as error:
                raise storage_error(error, self.files.folder, option="ENVSPEC_CACHE_DIR") from None
            version = _refuse_other_package(metadata, name, direct)
        return DirectFile(url, direct, replace(metadata, version=version))

    def _file_of_hash(self, url: str, file: str, sha256: str) -> KnownFile:
        """The file of the hash that the requirement names."""
        required = WantedFile(file, sha256, None, BY_REQUIREMENT)
        if self.files.find(required) is None:
            self._refuse_offline(file)
        return KnownFile(sha256, self.files.fetch(url, required).stat().st_size, None)

    def _current_file(self, url: str, file: str) -> KnownFile:
        """The file that is there now; offline the one that was there last."""
        bare = split_credentials(url)[0]
        entry = self.cache / f"urls-v{_SCHEMA}" / f"{cache_key(bare)}.json"
        known = read_value(entry, KnownFile)
        if known is not None and self.files.find(WantedFile(file, known.sha256, known.size)) is None:
            known = None
        if known is None or not self.files.fetcher.offline:
            self._refuse_offline(file)
            known = self.files.fetch_unknown(url, file, known)
            keep_value(entry, known)
        return known

    def _refuse_offline(self, file: str) -> None:
        if self.files.fetcher.offline:
            raise IndexFailure(f"not in the cache: {file}", hint="run without --offline once")


def _file_name(url: str, name: str, allowed: bool) -> str:
    """Give the name of the file behind a URL. Raises SpecError for one that envspec can't read, or may not build."""
    file = unquote(urlsplit(url).path).rpartition("/")[2]
    if not file.endswith((".whl", *SOURCES)):
        raise SpecError(
            f"{redact(url)} is neither a wheel nor a source distribution by its name",
            hint="give the URL of a file that ends with .whl, .tar.gz or .zip",
        )
    if not file.endswith(".whl") and not allowed:
        raise SpecError(
            f"{redact(url)} is built from source, which runs its code",
            hint=f'if you trust it, add to [pip]: allow-source = ["{name}"]',
        )
    return file


def _by_url(lines: Iterable[str]) -> Iterator[tuple[str, Requirement]]:
    """Find the requirements of files by their URL, among lines of which most have none."""
    for line in lines:
        if "@" not in line:
            continue
        requirement = requirement_of(line)
        if urlsplit(requirement.url or "").scheme in ("http", "https"):
            yield line, requirement


def _refuse_strange_url(requirement: Requirement, asker: str, named: Sequence[Address]) -> None:
    """Refuse what a file requires by a URL that the spec doesn't name, before anything is asked there."""
    url = str(requirement.url)
    with suppress(ValueError):
        address = parse_address(url)
        if address in named:
            return
    raise SpecError(
        f"{asker} requires {redact(str(requirement))}, and only the spec may name a URL",
        hint=f'if you trust it, add to [pip] dependencies: "{requirement.name} @ {redact(url)}"',
    ).with_subjects(canonical_name(requirement.name))


def _refuse_other_package(metadata: Metadata, name: str, file: FoundFile) -> str:
    """Give the version of a file: a wheel's by its name, as uv has it. METADATA may leave out the local part, as
    flash-attn's does. Raises IndexFailure for a file of another package."""
    version = file.file.split("-")[1] if file.file.endswith(".whl") and file.file.count("-") >= 4 else None
    if metadata.name != name:
        other = f"it is {metadata.name}, and the requirement asks for {name}"
    elif version is not None and not _equal(version, metadata.version):
        other = f"its METADATA has version {metadata.version}, and its file name {version}"
    else:
        return version if version and "+" in version else metadata.version
    raise IndexFailure(f"{redact(file.url)} is another package: {other}", hint="correct the requirement, or the URL")


def _equal(of_file: str, of_metadata: str) -> bool:
    try:
        return Version(of_metadata) in (Version(of_file), Version(Version(of_file).public))
    except ValueError:
        return of_file == of_metadata


def with_hash(line: str, direct: DirectFiles) -> str:
    """Give a requirement the hash of the file behind its URL, so that uv needs no file to know it."""
    if "@" not in line:
        return line
    requirement = parse_requirement(line)
    named = direct.get(canonical_name(requirement.name))
    url, _, fragment = str(requirement.url or "").partition("#")
    if named is None or named.url != url:
        return line
    folder = [part for part in fragment.split("&") if part.startswith("subdirectory=")]
    requirement.url = f"{url}#{'&'.join([*folder, f'sha256={named.file.sha256}'])}"
    return str(requirement)
