"""PyPI as far as the recorded stacks ask: pages up to a date, and METADATA. Recorded and replayed on loopback.

`record` puts a server between envspec (and uv) and the real index, and keeps what they ask for: of each page every file
up to the date, with name, SHA-256 and size (of the releases that were looked into: `stacks.packed`), time, Python and
yanked; of METADATA the fields that a resolver reads; of the wheels that envspec reads what they say, and of the sources
that it only reads too; those that it may build whole, and the wheels of what builds them. The replay has no other wheel
and no other source but stubs that say the same: it is for resolving.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import urllib.request
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast
from urllib.error import HTTPError
from urllib.parse import quote, unquote

from support.index import JSON, Answer, Index
from support.machine import Machine
from support.packages import wheel

from envspec.artifacts.metadata import MetadataCache, MetadataReader
from envspec.artifacts.wheel_reader import WheelReader, WheelSays, WheelStore
from envspec.lock.model import Lock
from envspec.net.fetch import Fetcher
from envspec.net.file_store import FileStore
from envspec.net.remote_file import DamagedFile
from envspec.packages.metadata import Metadata, metadata_text
from envspec.resolve.uv.answer import FoundFile
from stacks.answers import SECONDS
from stacks.flat_pages import flat_page
from stacks.packed import Pages, Row, pack, release, unpack
from stacks.projects import Project
from stacks.read_sources import archive_of, speaking_members

RECORDING = Path(__file__).resolve().parent / "recorded"
"""A file for each project of PyPI: only those whose own answers change are written anew, and git stores these alone."""
DATE = "2026-11-01T00:00:00Z"
"""The specs' `exclude-newer`: later files aren't kept."""

EACH_COMMIT = ("open-clip", "jax", "speechbrain-torch-2.1", "mamba", "pyg-lib")
"""A library for torch, another framework, and one each for an old torch, a source and a flat page."""

_NUMPYS = {1: b"module compiled against API version", 2: b"numpy._core._multiarray_umath"}


@dataclass
class Recording:
    """pages     project → its files up to the date; none for a project that the index doesn't have
    metadata  wheel → the read part of its METADATA
    says      wheel → the NumPy that it was compiled for, the member that says it, its modules that import
              pkg_resources, and its paths that another project has too, with what tells their content
    files     source, or wheel of what builds sources → its content
    sources   source that is only read → the members by which it speaks: `stacks.read_sources`
    """

    pages: MutableMapping[str, list[Row]] = field(default_factory=dict, repr=False)
    metadata: dict[str, str] = field(default_factory=dict, repr=False)
    says: dict[str, list[Any]] = field(default_factory=dict, repr=False)
    files: dict[str, bytes] = field(default_factory=dict, repr=False)
    sources: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)

    def save(self, folder: Path = RECORDING) -> None:
        """Write a file for each project; the same recording gives the same bytes."""
        folder.mkdir(exist_ok=True)
        says = _shared_paths({wheel: said for wheel, said in self.says.items() if wheel not in self.files})
        sources = {source: members for source, members in self.sources.items() if source not in self.files}
        parts = {"metadata": _by_project(self.metadata), "says": _by_project(says), "sources": _by_project(sources)}
        files_of = _by_project(self.files)
        projects = {*self.pages, *files_of, *(project for part in parts.values() for project in part)}
        for project in projects:
            more = {name: part.get(project, {}) for name, part in parts.items()}
            files = files_of.get(project, {})
            pages = {project: self.pages[project]} if project in self.pages else {}
            packed = pack(pages, files, (*more["metadata"], *more["says"], *files), more)
            path = folder / f"{project}.xz"
            if not path.exists() or path.read_bytes() != packed:
                path.write_bytes(packed)
        for path in folder.glob("*.xz"):
            if path.stem not in projects:
                path.unlink()

    @staticmethod
    def load(folder: Path = RECORDING) -> Recording:
        """Read a recording."""
        recording, pages = Recording(), dict[str, Pages]()
        for path in sorted(folder.glob("*.xz")):
            own, files, more = unpack(path.read_bytes())
            pages.update(dict.fromkeys(own, own))
            recording.files.update(files)
            recording.metadata.update(more["metadata"])
            recording.says.update(more["says"])
            recording.sources.update(more["sources"])
        recording.pages = ChainMap({}, cast("Any", _PagesOfProjects(pages)))
        return recording


class _PagesOfProjects(Mapping[str, list[Row]]):
    """The pages of all projects; the rows of one are made when it is asked for."""

    def __init__(self, packed: Mapping[str, Pages]) -> None:
        self._packed = packed

    def __getitem__(self, project: str) -> list[Row]:
        return self._packed[project][project]

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


def _by_project(files: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    projects: dict[str, dict[str, Any]] = {}
    for file, value in files.items():
        projects.setdefault(release(file)[0], {})[file] = value
    return projects


@dataclass
class RecordedPyPI(Index):
    """A recording on loopback. `unknown` lists what was asked for and isn't in it."""

    recording: Recording = field(default_factory=Recording)
    unknown: list[str] = field(default_factory=list)

    def answer(self, path: str) -> Answer:
        parts = [unquote(part) for part in path.split("?")[0].strip("/").split("/")]
        if len(parts) == 2 and parts[0] == "simple":
            rows = self.page(parts[1])
            return _page(parts[1], rows) if rows else Answer(404, b"no such project", "text/plain")
        if parts[0] == "files" and parts[-1].endswith(".whl.metadata"):
            text = self.text(parts[-1].removesuffix(".metadata"))
            if text is not None:
                return Answer(200, text.encode())
        elif parts[0] == "files" and (content := self.content(parts[-1], self._whole(path))) is not None:
            return Answer(200, content)
        elif parts[0] == "files" and (said := self.said(parts[-1])) is not None:
            return Answer(200, _stub(parts[-1], said))
        self.unknown.append(path)
        return Answer(404, b"not recorded", "text/plain")

    def page(self, project: str) -> list[Row]:
        """Give a project's files."""
        if project not in self.recording.pages:
            self.unknown.append(project)
        rows = self.recording.pages.get(project, [])
        return [[row[0], self._shown(row), *row[2:]] for row in rows] if rows else []

    def _shown(self, row: Row) -> str:
        """Give the SHA-256 that a page shows of a file: its own, but for what stands for a source."""
        standing = self._standing(row[0])
        return str(row[1]) if standing is None else hashlib.sha256(standing).hexdigest()

    def _standing(self, file: str) -> bytes | None:
        """Give what stands for a source that is only read, None for any other file."""
        members = None if file in self.recording.files else self.recording.sources.get(file)
        return None if members is None else archive_of(file, members)

    def text(self, wheel: str) -> str | None:
        """Give a wheel's METADATA, None without."""
        return self.recording.metadata.get(wheel)

    def said(self, wheel: str) -> list[Any] | None:
        """Give what a wheel says, None without. One that was resolved and says nothing has no path of another's."""
        return self.recording.says.get(wheel, [None, None, [], {}] if wheel in self.recording.metadata else None)

    def _whole(self, path: str) -> bool:
        """Whether the request is for the whole file, as one to build with, and not for a range of it."""
        return next((asked.range is None for asked in reversed(self.asked) if asked.path == path), True)

    def content(self, file: str, whole: bool) -> bytes | None:
        """Give a file whole, None without. `whole`: it is asked for whole, not in ranges."""
        standing = self._standing(file)
        return self.recording.files.get(file) if standing is None else standing


@dataclass
class Recorder(RecordedPyPI):
    """A recording, with the real index behind it for what it lacks, which goes into it. `upstream` is the index's
    address, `cache` a folder.

    builds        the packages that the spec allows to build: sources of others are only read
    passes_files  but for files, which uv asks for to build sources with, and a replay doesn't need
    """

    upstream: str = ""
    cache: Path = Path()
    builds: frozenset[str] = frozenset()
    passes_files: bool = False
    _files: dict[str, FoundFile] = field(default_factory=dict)
    _heard: set[str] = field(default_factory=set)
    _paged: set[str] = field(default_factory=set)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fetcher  # noqa: B018  with the network of who records: a machine of the tests, which asks, has none

    @cached_property
    def fetcher(self) -> Fetcher:
        return Fetcher(credentials={}, env=dict(os.environ))

    @cached_property
    def reader(self) -> MetadataReader:
        """A reader of METADATA, also of wheels beside which there is none."""
        return MetadataReader(MetadataCache(self.cache), self.fetcher)

    def page(self, project: str) -> list[Row]:
        with self._locks.setdefault(project, threading.Lock()):
            # a recorded page has no sizes of what was never looked into, which then is read whole
            if project not in self._paged:
                self.recording.pages[project] = self._fetched(project)
                self._paged.add(project)
        return super().page(project)

    def _found(self, file: str) -> FoundFile | None:
        """Find a file on the real index; its page is recorded anew, with the hashes of what is looked into now."""
        project = release(file)[0]
        with self._locks.setdefault(project, threading.Lock()):
            if file not in self._files:
                self.recording.pages[project] = self._fetched(project)
        return self._files.get(file)

    def _fetched(self, project: str) -> list[Row]:
        try:
            listed = json.loads(_get(f"{self.upstream.rstrip('/')}/{project}/", JSON))["files"]
        except HTTPError as error:
            if error.code == 404:
                return []
            raise
        rows = []
        for one in listed:
            uploaded, sha256 = str(one.get("upload-time") or ""), one.get("hashes", {}).get("sha256")
            if uploaded < DATE and sha256:
                name, size = one["filename"], one.get("size")
                self._files[name] = FoundFile(one["url"], name, sha256, size)
                rows.append([name, sha256, size, uploaded, one.get("requires-python"), one.get("yanked") or None])
        return rows

    def said(self, wheel: str) -> list[Any] | None:
        """Ask each wheel anew: the recording keeps only paths that other recorded wheels had too."""
        if wheel not in self._heard and wheel.endswith(".whl") and (found := self._found(wheel)) is not None:
            reader = WheelReader(WheelStore(self.cache), FileStore(self.cache / "artifacts", self.fetcher))
            says = reader.ask(found, self.upstream, frozenset({"numpy", "pkg_resources", "paths"}))
            assert isinstance(says, WheelSays) and says.numpy and says.pkg_resources and says.paths is not None, says
            row = [says.numpy.built_for, says.numpy.member, list(says.pkg_resources.modules), dict(says.paths)]
            self.recording.says[wheel] = row
            self._heard.add(wheel)
        return self.recording.says.get(wheel)

    def text(self, wheel: str) -> str | None:
        known = self.recording.metadata
        if wheel not in known and (found := self._found(wheel)) is not None:
            known[wheel] = _read_part(self.reader.read(found))
        return known.get(wheel)

    def content(self, file: str, whole: bool) -> bytes | None:
        known = super().content(file, whole)
        if known is not None or not (whole or self.passes_files) or (found := self._found(file)) is None:
            return known
        content = _get(found.url, "*/*")
        if not self.passes_files:
            self._keep(file, content)
        return content

    def _keep(self, file: str, content: bytes) -> None:
        if not file.endswith(".whl") and release(file)[0] not in self.builds:
            with suppress(DamagedFile):
                self.recording.sources[file] = speaking_members(file, content)
                return
        self.recording.files[file] = content


@contextmanager
def machine_of(project: Project, folder: Path, index: str | None) -> Iterator[Machine]:
    """Give a machine of its own with the spec of a stack. What changes no pin isn't asked for, as it isn't recorded."""
    machine = Machine(folder, index)
    machine.spec(project.spec_path.read_text(encoding="utf-8"), project.name)
    with flat_page(project) as page:
        machine.configure(page.mirror if page else "")
        yield machine


def lock(project: Project, folder: Path, index: str | None) -> tuple[Lock, bytes]:
    """Lock a stack; gives the lock, and its text."""
    with machine_of(project, folder, index) as machine:
        locked = machine.locked(name=project.name, seconds=SECONDS)
        return locked, machine.lock_path(project.name).read_bytes()


def _stub(file: str, said: list[Any]) -> bytes:
    """Make a wheel that says the same, and nothing else."""
    built_for, member, modules, *paths = said
    files: dict[str, bytes] = {member: _NUMPYS[built_for]} if member else {}
    for path, content in (paths[0] if paths else {}).items():
        # what tells the content is no Python: the imports behind it would never be read
        files.setdefault(path, f"# {content}\n".encode())
    for module in modules:
        top, below = module.partition(".")[::2]
        first = f"{top}/__init__.py"
        files[first] = files.get(first, b"") + (f"import {module}\n" if below else "import pkg_resources\n").encode()
        if below:
            files[f"{module.replace('.', '/')}.py"] = b"import pkg_resources\n"
    return wheel(file.split("-")[0], "0", files=files).content


def _shared_paths(says: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Leave of the wheels' paths those that wheels of several projects have: the others lie alone in any lock."""
    owners: dict[str, set[str]] = {}
    for file, said in says.items():
        for path in said[3] if len(said) > 3 else ():
            owners.setdefault(path, set()).add(release(file)[0])
    shared = {path for path, projects in owners.items() if len(projects) > 1}
    return {
        file: [*said[:3], *({path: one for path, one in paths.items() if path in shared} for paths in said[3:])]
        for file, said in says.items()
    }


def _read_part(metadata: Metadata) -> str:
    """Write what a resolver and a lock read of METADATA; the licence as it was read, which it then is again."""
    text = metadata_text(metadata).decode()
    head, body = text.rstrip("\n"), "\n\n"
    return f"{head}\nLicense-Expression: {metadata.licence}{body}" if metadata.licence else head + body


def _page(project: str, rows: list[Row]) -> Answer:
    files = []
    for name, sha256, size, uploaded, python, yanked in rows:
        row = {"filename": name, "url": f"../../files/{quote(name)}", "hashes": {"sha256": sha256}}
        row |= {"size": size} if size else {}
        row |= {"upload-time": uploaded} if uploaded else {}
        row |= {"requires-python": python} if python else {}
        row |= {"yanked": yanked} if yanked else {}
        files.append(row | ({"core-metadata": True} if name.endswith(".whl") else {}))
    return Answer(200, json.dumps({"meta": {"api-version": "1.1"}, "name": project, "files": files}).encode(), JSON)


def _get(url: str, accept: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=120) as reply:
        content: bytes = reply.read()
    return content
