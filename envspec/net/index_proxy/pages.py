"""Upstream pages, fetched and rewritten for uv, each once a run: `envspec.net.index_proxy.shown` says how."""

from __future__ import annotations

import base64
import hashlib
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from msgspec import Struct
from packaging.version import Version

from envspec.base.errors import IndexFailure
from envspec.base.redact import redact
from envspec.configuration.settings import split_credentials
from envspec.facts import edition, released, wheels
from envspec.facts.corrections import NO_CORRECTIONS, Corrections
from envspec.net.fetch import Fetcher, local_path
from envspec.net.file_store import FileStore
from envspec.net.index_proxy.address import FileAddress
from envspec.net.index_proxy.releases import (
    Machine,
    Release,
    ReleaseStore,
    Row,
    VersionFiles,
    by_version,
    releases_of,
    version_of,
)
from envspec.net.index_proxy.shown import Glibc, ShownFiles, Wheels, body_of, choose_wheels, has_variants, of_releases
from envspec.net.simple_page import ACCEPT, NO_DATE, FlatPages, Page, project_of, read_page, refuse_foreign_page
from envspec.net.variant_reader import VariantReader, about_variants
from envspec.packages.stated import StatedMetadata
from envspec.packages.variant_choice import TargetMachine
from envspec.packages.variants import WheelOfVariant

_FORMAT = "11"
"""Version of the pages that uv keeps. A new one makes uv fetch them again."""


class Upstream(Struct, frozen=True, dict=True):
    """An index behind the proxy, or several behind one root.

    url           its address, with the user's credentials if they are in it; empty for an index without a page
    allowed       names that may be built from source
    unfit         names whose sources are shown beside wheels, of which none fits, but may not be built
    stated        what the user states of sources in place of their METADATA
    corrections   what METADATA behind it lacks
    only          serve only the pages of these names, an empty one where the index has none; None for all. uv asks such
                  a root before others, so that all other pages stay the same, and in uv's cache
    without       serve no page of these names
    flat          the address is that of a single page with the files of all projects (pip's `--find-links`)
    variants      names whose releases are shown as the variant that `machine` installs; of others any variant stands
                  for all
    glibc         of the target, where uv has no name for it
    named         an index of the spec's own: where its page has no upload times, none of its files counts as new
    parts         the indexes behind one root, each with packages of its own: uv asks each root for each package
    """

    url: str
    allowed: frozenset[str] = frozenset()
    unfit: frozenset[str] = frozenset()
    stated: tuple[StatedMetadata, ...] = ()
    corrections: Corrections = NO_CORRECTIONS
    only: frozenset[str] | None = None
    without: frozenset[str] = frozenset()
    flat: bool = False
    variants: frozenset[str] = frozenset()
    machine: TargetMachine | None = None
    glibc: Glibc | None = None
    named: bool = False
    parts: tuple[Upstream, ...] = ()

    @cached_property
    def root(self) -> str:
        """The first part of the pages' paths. It differs for all that changes the pages."""
        # what a build says of its requirements may depend on the Python that it ran on
        python = "{}.{}".format(*sys.version_info) if self.allowed else ""
        served = f"all but {sorted(self.without)}" if self.only is None else ",".join(sorted(self.only))
        parts = (_FORMAT, split_credentials(self.url)[0], python, served, str(self.flat), self.corrections.digest)
        names = (*parts, *sorted(self.allowed), "", *sorted(self.unfit))
        if self.stated:
            # METADATA has no ETag: uv keeps it for as long as the root is the same
            names = (*names, repr(self.stated))
        if self.variants:
            names = (*names, *sorted(self.variants), repr(self.machine))
        if self.glibc:
            names = (*names, repr(self.glibc))
        if self.named:
            names = (*names, "named")
        names = (*names, *(part.root for part in self.parts))
        return "i-" + hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]

    @property
    def local(self) -> bool:
        """Return whether it is a folder of this machine, which is read as it is now, offline too."""
        return local_path(self.url) is not None or any(part.local for part in self.parts)

    @cached_property
    def _by_package(self) -> Mapping[str, Upstream]:
        return {name: part for part in self.parts for name in part.only or ()}

    def of(self, project: str) -> Upstream:
        """Give the index that a project comes from; itself if it is none of several."""
        return self._by_package.get(project, self)

    def serves(self, project: str) -> bool:
        return project not in self.without and (self.only is None or project in self.only)

    def sources(self, project: str) -> ShownFiles:
        """Return the form in which uv is shown a project's files."""
        return ShownFiles(project in self.allowed, project in self.allowed or project in self.unfit, self.glibc)

    def page(self, project: str) -> str:
        return self.url if self.flat else f"{self.url.rstrip('/')}/{project}/"


class ServedPage(Struct, frozen=True):
    """A page for uv. `status` is 200, 304 or 404; `holds`: it has some release, `faulty`: some part can't be read."""

    status: int
    body: bytes = b""
    etag: str | None = None
    holds: bool = False
    faulty: bool = False

    @property
    def lasts(self) -> bool:
        """Return whether uv may keep it for a while."""
        return self.status != 404 and not self.faulty


@dataclass
class Pages:
    """Pages of upstream indexes, each read once a run for all uv processes.

    fetcher  with the user's logins, limits and proxies
    store    keeps releases on disk
    files    fetches files before the proxy answers: uv gets none from anywhere else
    offline  use the cache alone
    """

    fetcher: Fetcher
    store: ReleaseStore
    files: FileStore
    offline: bool = False
    _flat: FlatPages = field(init=False)
    _variants: VariantReader = field(init=False)
    _jobs: dict[tuple[str, str], Future[ServedPage]] = field(default_factory=dict)
    _wheels: dict[tuple[str, str], Mapping[str, Sequence[Row]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._flat = FlatPages(self.fetcher)
        self._variants = VariantReader(self.fetcher)

    def is_flat(self, url: str) -> bool:
        """Return whether an address serves a flat page: links to files of packages. No if it can't be read."""
        try:
            return bool(self._flat.rows(url))
        except IndexFailure:
            return False

    def show(self, upstream: Upstream, project: str, known: str | None = None) -> ServedPage:
        """Serve a project's page. `known` is the ETag of the page that uv has. Raises IndexFailure."""
        if not upstream.serves(project):
            return ServedPage(404)
        key = (upstream.root, project)
        with self._lock:
            job = self._jobs.get(key)
            mine = job is None
            if job is None:
                job = self._jobs[key] = Future()
        if mine:
            try:
                shown = self._read(upstream, project, known)
                job.set_result(shown)
            except BaseException as error:
                job.set_exception(error)
                raise
            finally:
                failed = not job.done() or job.exception() is not None
                if failed or job.result().status == 304:
                    # what was unchanged for one uv may be new to the next
                    with self._lock:
                        self._jobs.pop(key, None)
        shown = job.result()
        if shown.status == 304 and not known:
            return self.show(upstream, project, known)
        return ServedPage(304, etag=shown.etag) if known and known == shown.etag else shown

    def releases(
        self, upstream: Upstream, project: str, target: Machine | None = None, before: str | None = None
    ) -> Sequence[Release]:
        """List the page's releases, newest first, from the last reading if there was one: as a `target` sees them, and
        as they were `before` a moment. Raises IndexFailure."""
        releases = self.store.get(upstream.root, project, target, before)
        if releases is None and not self._is_offline(upstream):
            self._read(upstream, project, None)
            releases = self.store.get(upstream.root, project, target, before)
        return releases or ()

    def current(self, upstream: Upstream, project: str) -> Sequence[Release]:
        """List the page's releases as the index has them now; offline, as they were read last. Raises IndexFailure."""
        if not self._is_offline(upstream):
            self.show(upstream, project)
        return self.releases(upstream, project)

    def variant(self, upstream: Upstream, project: str, version: str) -> WheelOfVariant | None:
        """Find the variant of a release that the upstream's machine installs, as the index has it now. None for a
        release that has none for it. Raises IndexFailure."""
        requested = version_of(version)
        if self._is_offline(upstream) or upstream.machine is None:
            return None
        rows = self.list_files(upstream, project)
        about = about_variants(rows)
        wheels = [
            row
            for candidate, files in by_version(rows, project).items()
            if candidate == requested
            for row in files.rows
        ]
        _, shown = choose_wheels(
            wheels, lambda release_wheels: self._variants.of_release(release_wheels, about), upstream.machine
        )
        for wheel in shown:
            if wheel.fault is not None:
                raise IndexFailure(wheel.fault)
        return next((wheel.variant for wheel in shown), None)

    def list_files(self, upstream: Upstream, project: str) -> Page:
        """List the files of a project as its index has them now, none where it has no page. Raises IndexFailure."""
        url = upstream.page(project)
        if upstream.flat:
            return [row for row in self._flat.rows(url) if project_of(str(row["filename"])) == project]
        reply = self.fetcher.get(url, headers={"Accept": ACCEPT, "Accept-Encoding": "gzip"})
        return read_page(reply.body, reply.url, self.fetcher) if reply.status == 200 else []

    def wheels(self, upstream: Upstream, project: str) -> Mapping[str, Sequence[Row]]:
        """Give the wheels of each release of a project, by its version without a local part, as the index has them; the
        page is read once. Raises IndexFailure."""
        key = (upstream.root, project)
        if key not in self._wheels:
            files = by_version(self.list_files(upstream, project), project)
            self._wheels[key] = {
                version.public: version_files.wheels for version, version_files in files.items() if version_files.wheels
            }
        return self._wheels[key]

    def has(self, upstream: Upstream, project: str) -> bool:
        """Return whether an index has releases of a project: asks it now, or offline uses its last answer. Raises
        IndexFailure, also offline without such an answer."""
        if not self._is_offline(upstream):
            # without what the store says: it may not be writable
            return self.show(upstream, project).holds
        releases = self.store.get(upstream.root, project)
        if releases is None:
            raise self._missing_page(project)
        return bool(releases)

    def _is_offline(self, upstream: Upstream) -> bool:
        """Return whether the cache alone answers for an index."""
        return self.offline and not upstream.local

    def _missing_page(self, project: str) -> IndexFailure:
        return IndexFailure(f"not in the cache: {project}", hint="run without --offline once")

    def _read(self, upstream: Upstream, project: str, known: str | None) -> ServedPage:
        url = upstream.page(project)
        if not upstream.url:
            return self._make(upstream, project, [], None)
        if self._is_offline(upstream):
            raise self._missing_page(project)
        if upstream.flat:
            return self._make(upstream, project, self.list_files(upstream, project), None)
        headers = {"Accept": ACCEPT, "Accept-Encoding": "gzip"}
        theirs = _upstream_etag(known)
        if theirs:
            headers["If-None-Match"] = theirs
        reply = self.fetcher.get(url, headers=headers)
        if reply.status == 304:
            return ServedPage(304, etag=known)
        if reply.status == 404:
            _refuse_absent_folder(upstream.url)
            self.store.put(upstream.root, project, ())
            # uv looks on other indexes for what has no page, and this name must come from here
            return ServedPage(404) if upstream.only is None else self._make(upstream, project, [], None)
        if reply.status != 200:
            raise IndexFailure(f"{redact(url)} answered HTTP {reply.status}", hint="check the index's address")
        rows = read_page(reply.body, reply.url, self.fetcher)
        if not rows:
            refuse_foreign_page(url, reply.body)
        if upstream.named and not any(row.get("upload-time") for row in rows):
            rows = [{**row, "upload-time": NO_DATE} for row in rows]
        return self._make(upstream, project, rows, reply.etag)

    def _make(self, upstream: Upstream, project: str, rows: Page, etag: str | None) -> ServedPage:
        files = by_version(rows, project)
        shown = self._with_variants(upstream, project, files, rows)
        unsuited = {version for version, (wheels, variants) in shown.items() if not wheels and not variants}
        self.store.put(upstream.root, project, releases_of(files, unsuited))
        body = body_of(project, files, upstream.sources(project), shown)
        faulty = any(variant.fault for _, variants in shown.values() for variant in variants)
        return ServedPage(200, body, self._etag(upstream, project, etag, body), bool(files), faulty)

    def _etag(self, upstream: Upstream, project: str, theirs: str | None, body: bytes) -> str:
        # what is said of variants may change while the index's page stays
        return _etag(None if upstream.machine and project in upstream.variants else theirs, body)

    def _with_variants(
        self, upstream: Upstream, project: str, files: Mapping[Version, VersionFiles], rows: Page
    ) -> dict[Version, Wheels]:
        """Choose the wheels of those releases that have variants."""
        if not has_variants([row["filename"] for row in rows]):
            return {}
        wheels = {version: version_files.wheels for version, version_files in files.items()}
        about = about_variants(rows)
        machine = upstream.machine if project in upstream.variants else None
        return of_releases(
            wheels, lambda release_wheels: self._variants.of_release(release_wheels, about), project, machine
        )


def _refuse_absent_folder(url: str) -> None:
    folder = local_path(url)
    if folder is not None and not folder.is_dir():
        raise IndexFailure(f"the index {redact(url)} isn't a folder", hint="correct its address in [pip] indexes")


def _etag(theirs: str | None, body: bytes) -> str:
    """Make the page's ETag. It contains that of the upstream page, so that asking for changes needs no memory."""
    if theirs:
        return f'"u{base64.urlsafe_b64encode(theirs.encode()).decode()}"'
    return f'"h{hashlib.sha256(body).hexdigest()[:32]}"'


def _upstream_etag(known: str | None) -> str | None:
    if known is None or not known.startswith('"u'):
        return None
    try:
        return base64.urlsafe_b64decode(known[2:].rstrip('"')).decode()
    except ValueError:
        return None


Describe = Callable[[FileAddress, tuple[StatedMetadata, ...]], bytes]
"""Gives the METADATA of the file at an address of the proxy, in UTF-8: of sources what the user states, where they do.
Raises EnvspecError."""


# The torch family's pages, made from the facts that ship with envspec (`envspec.facts.wheels`).
#
# These pages are uv's first index. They have only the torch family, so that no other package of the PyTorch index
# (old copies of idna, packaging, …) can shadow PyPI's. With uv's `first-index` strategy, uv takes a name of these
# pages from nowhere else, whether the spec or a package requires it. Where the user configured a mirror and the facts
# are not enough, the server joins them with the mirror's pages.

_FACTS_FORMAT = "1"
"""Version of the pages and METADATA that uv keeps. A new one makes uv ask for them again."""


@cache
def facts_digest(variant: str) -> str:
    """Make a digest of all inputs of a variant's pages and METADATA: uv keeps these for as long as the digest stays."""
    digest = hashlib.sha256(_FACTS_FORMAT.encode())
    for file in (f"wheels/{variant}.json", "released.toml"):
        digest.update(Path(edition.folder(), file).read_bytes())
    return digest.hexdigest()[:16]


def facts_page(variant: str, project: str, accept: Callable[[wheels.WheelFile], bool]) -> Page:
    """List a project's files in the shipped facts of a variant, as PEP 691 rows with links relative to its page."""
    rows: Page = []
    for wheel in wheels.load(variant).files(project) if variant in wheels.variants() else ():
        if not accept(wheel):
            continue
        row: dict[str, object] = {
            "filename": wheel.file,
            # of what a wheel's name may have, a URL has this alone in another form
            "url": f"../files/{wheel.file.replace('+', '%2B')}",
            "hashes": {"sha256": wheel.sha256},
            "core-metadata": True,
        }
        if wheel.requires_python:
            row["requires-python"] = wheel.requires_python
        if wheel.size is not None:
            row["size"] = wheel.size
        date = released.date(project, wheel.version)
        if date:
            # uv takes nothing without a date when the spec has `exclude-newer`
            row["upload-time"] = date
        rows.append(row)
    return rows


def belongs(variant: str) -> Callable[[wheels.WheelFile], bool]:
    """Select the files of a variant's page that really are of that variant.

    The pages also hold CPU wheels without a local version (macOS and aarch64, in every cuNNN folder up to torch 2.0):
    a CUDA target must not take those. triton has no local version and belongs to all; so does the `cpu` page to macOS.
    """

    def accept(wheel: wheels.WheelFile) -> bool:
        return variant == "cpu" or wheel.project == "triton" or wheel.version.endswith(f"+{variant}")

    return accept
