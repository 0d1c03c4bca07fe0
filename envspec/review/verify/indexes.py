"""The indexes of a lock as this machine reaches them: their pages, and their files' own metadata."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.artifacts.metadata import MetadataCache, MetadataReader
from envspec.artifacts.sdist.static_source import StaticReader
from envspec.artifacts.urls import index_address
from envspec.base.errors import IndexFailure, OutsideError
from envspec.base.progress import Progress
from envspec.base.redact import redact
from envspec.configuration.settings import Settings, load_settings, split_credentials
from envspec.facts import released, wheels
from envspec.lock.model import Pin
from envspec.net.connections import index_fetcher
from envspec.net.fetch import Fetcher, origin_of
from envspec.net.provenance import Provenance, fetch_provenance
from envspec.net.remote_file import FileHashes
from envspec.net.simple_page import ACCEPT, FlatPages, is_dated, read_page, refuse_foreign_page
from envspec.net.variant_reader import VariantReader
from envspec.packages.metadata import Metadata, metadata_of, of_variant, parse_metadata
from envspec.packages.stated import find_metadata
from envspec.packages.variants import InvalidVariants, Variants, variants_file
from envspec.resolve.conda.setup import as_pin, conda_resolver, records_of, upload_time
from envspec.resolve.uv.answer import FoundFile
from envspec.review.verify import compare
from envspec.review.verify.attest import Refusal, attestor
from envspec.review.verify.model import IndexedFile, Outcome, PinClaim
from envspec.spec.model import Spec

if TYPE_CHECKING:
    from rattler import RepoDataRecord

NO_OTHERS: Mapping[str, str] = MappingProxyType({})
_PYTORCH = "pytorch/"
_BESIDE = "the requirements: by the METADATA beside the file, since its server gives no parts of files"

Rows = Mapping[str, Mapping[str, Any]]
"""The files of a project on an index, as PEP 691 rows, by name."""


class Described(Struct, frozen=True):
    """A file's own metadata. `unproved` names the parts that can't be read there, `builds` has the build requirements
    that a source declares, `beside` the index's copy where that differs; `inert`: its build runs no code of its own."""

    metadata: Metadata | None
    unproved: tuple[str, ...] = ()
    builds: tuple[str, ...] = ()
    beside: Metadata | None = None
    inert: bool = True


class Indexes(Struct, frozen=True):
    """The reader of a spec's indexes, through the caches that `lock` uses. Safe to use from several threads.

    refused  proves attestations; None without the extra that does
    facts    envspec's own facts about PyTorch's indexes answer in their place
    """

    settings: Settings
    env: Mapping[str, str]
    named: Mapping[str, str]
    flat: Mapping[str, tuple[str, ...]]
    fetcher: Fetcher
    wheels: MetadataReader
    sources: StaticReader
    hashes: FileHashes
    flat_pages: FlatPages
    about_variants: VariantReader
    refused: Refusal | None = None
    facts: bool = True
    _addresses: dict[str, str] = field(default_factory=dict)
    _looking: threading.Lock = field(default_factory=threading.Lock)

    @staticmethod
    def of(
        spec: Spec, env: Mapping[str, str], second_addresses: Mapping[str, str] = NO_OTHERS, *, facts: bool = True
    ) -> Indexes:
        """Set up the indexes. `second_addresses` are those of a second source, by the index's name: `elsewhere` asks
        there. Raises InputError for a broken configuration."""
        settings = load_settings(env)
        known = {
            **settings.index_urls(spec.index_addresses),
            **{f"{name} again": url for name, url in second_addresses.items()},
        }
        fetcher = index_fetcher(settings, known, env)
        cache = settings.cache()
        return Indexes(
            settings=settings,
            env=env,
            named=settings.index_urls(spec.indexes),
            flat={name: tuple(settings.flat_url(name, url) for url in urls) for name, urls in spec.flat_pages.items()},
            fetcher=fetcher,
            wheels=MetadataReader(MetadataCache(cache), fetcher),
            sources=StaticReader(cache, fetcher),
            hashes=FileHashes(cache, fetcher),
            flat_pages=FlatPages(fetcher),
            about_variants=VariantReader(fetcher),
            refused=attestor(),
            facts=facts,
        )

    def elsewhere(self, addresses: Mapping[str, str]) -> Indexes:
        """Return the same indexes at other addresses. Only these are asked, and no facts."""
        flat = {name: urls for name, urls in self.flat.items() if name not in addresses}
        return replace(self, flat=flat, facts=False, _addresses=dict(addresses), _looking=threading.Lock())

    def address(self, index: str) -> str:
        """Return an index's address, of a flat one its first page. Raises OutsideError without one."""
        return next(iter(self.flat.get(index, ())), None) or self._address(index)

    def source(self, index: str) -> str:
        """Name the source that answers for an index: its address without credentials. Raises OutsideError without
        one."""
        addresses = self.flat.get(index) or (self._address(index),)
        return ", ".join(redact(split_credentials(url)[0]) for url in addresses)

    def rows(self, index: str, project: str) -> Rows | None:
        """List a project's files; None where the index has no page of it. Raises OutsideError."""
        if index in self.flat:
            pages = (self.flat_pages.rows(url) for url in self.flat[index])
            return {str(row["filename"]): row for page in pages for row in page}
        url = f"{self._address(index).rstrip('/')}/{project}/"
        reply = self.fetcher.get(url, headers={"Accept": ACCEPT, "Accept-Encoding": "gzip"})
        if reply.status == 404:
            return None
        if reply.status != 200:
            raise IndexFailure(f"{redact(split_credentials(url)[0])} answered HTTP {reply.status}")
        rows = read_page(reply.body, reply.url, self.fetcher)
        if not rows:
            refuse_foreign_page(url, reply.body)
        return {str(row["filename"]): row for row in rows}

    def read_row(self, row: Mapping[str, Any]) -> IndexedFile:
        """Read a row. A file without a hash there is hashed itself. Raises IndexFailure."""
        sha256, size = row["hashes"].get("sha256"), row.get("size")
        if sha256 is None:
            sha256, size = self.hashes.of(str(row["url"]))
        uploaded, yanked = row.get("upload-time"), row.get("yanked")
        return IndexedFile(
            str(row["filename"]),
            sha256,
            size if type(size) is int else None,
            str(uploaded) if uploaded and is_dated(dict(row)) else None,
            None if not yanked else yanked if isinstance(yanked, str) else "",
            row.get("provenance"),
        )

    def provenance(self, index: str, listed: IndexedFile) -> Provenance | None:
        """Fetch a file's attestations from the index that lists it; None where it has none itself: a mirror's page may
        name another server. Raises IndexFailure."""
        if listed.provenance is None or origin_of(listed.provenance) != origin_of(self.address(index)):
            return None
        return fetch_provenance(listed.provenance, self.fetcher)

    def variants(self, file: str, rows: Rows) -> Variants:
        """Read the index's data on the variants of a file's release, once a run. Raises IndexFailure."""
        about = variants_file(file)
        wheels = [row for name, row in rows.items() if name.endswith(".whl") and variants_file(name) == about]
        try:
            return self.about_variants.of_release(wheels, rows)
        except InvalidVariants as error:
            raise IndexFailure(f"{about}: {error}") from None

    def at_url(self, pin: Pin) -> tuple[IndexedFile, FoundFile]:
        """Read the file that a requirement names by its URL, whole unless its server calls it unchanged. Raises
        IndexFailure."""
        url = str(pin.url).partition("#")[0]
        sha256, size = self.hashes.of(url)
        file = unquote(urlsplit(url).path).rpartition("/")[2]
        return IndexedFile(file, sha256, size), FoundFile(url, file, sha256, size)

    def describe(self, claim: PinClaim, file: FoundFile) -> Described:
        """Read a file's own metadata; runs no code of a source. Raises IndexFailure."""
        pin = claim.pin
        if pin.is_wheel:
            own = self.wheels.read_own(file)
            if own is not None:
                beside = own.beside and of_variant(own.beside, file.variant)
                return Described(of_variant(own.metadata, file.variant), beside=beside)
            known = self.wheels.recall(file) or self.wheels.read(file, sidecar=file.metadata_sha256 is not None)
            return Described(of_variant(known, file.variant), (_BESIDE,))
        stated = find_metadata(claim.stated, pin.name, pin.version)
        if stated is not None:
            metadata = replace(metadata_of(stated, pin.version), licence=pin.licence)
            inert = not pin.is_inert or bool(self.sources.read(file, pin.name, pin.version).inert)
            return Described(metadata, inert=inert)
        facts = self.sources.read(file, pin.name, pin.version)
        if facts.trust == "static":
            # what a build is free to choose is the licence's wording alone
            metadata = replace(facts.metadata, licence=facts.metadata.licence or pin.licence)
            return Described(metadata, builds=facts.builds, inert=bool(facts.inert))
        open_points = (f"the requirements of {file.file}: only building it tells them",)
        return Described(None, open_points, facts.builds, inert=False)

    def _address(self, index: str) -> str:
        # one thread at a time: it may look for uv, and Python's sysconfig bears no two
        with self._looking:
            if index not in self._addresses:
                self._addresses[index] = index_address(index, self.named, self.settings, self.env)
            return self._addresses[index]


def found_file(row: Mapping[str, Any], listed: IndexedFile) -> FoundFile:
    """Give a row's file to the readers of METADATA."""
    beside = row.get("core-metadata")
    return FoundFile(
        str(row["url"]), listed.file, listed.sha256, listed.size, beside if isinstance(beside, str) else None
    )


def shipped_file(pin: Pin) -> tuple[IndexedFile, Metadata] | None:
    """Find a file of a PyTorch index in the facts that ship with envspec; None where they don't have it."""
    variant = pin.index.removeprefix(_PYTORCH)
    if pin.artifact is None or not pin.index.startswith(_PYTORCH) or variant not in wheels.variants():
        return None
    wheel = wheels.load(variant).file(pin.artifact.file)
    if wheel is None:
        return None
    metadata = parse_metadata(wheels.metadata_text(wheel).decode())
    return IndexedFile(wheel.file, wheel.sha256, wheel.size, released.date(wheel.project, wheel.version)), metadata


def ask_channels(claims: Sequence[PinClaim], spec: Spec, env: Mapping[str, str]) -> Mapping[PinClaim, Outcome]:
    """Compare conda packages with their channels' repodata."""
    try:
        resolver = conda_resolver(spec, env, offline=False, progress=Progress())
        pins = [claim.pin for claim in claims]
        subdirs = {pin.index.rpartition("/")[2] for pin in pins}
        records = records_of(resolver, pins, subdirs, "what conda's channels have")
    except OutsideError as error:
        return {claim: Outcome(unasked=error.message) for claim in claims}
    sources = {channel.name: redact(split_credentials(channel.address)[0]) for channel in resolver.channels}
    return {claim: _outcome(claim, sources[claim.pin.index.rpartition("/")[0]], records) for claim in claims}


def _outcome(claim: PinClaim, source: str, records: Mapping[tuple[str, str], RepoDataRecord]) -> Outcome:
    pin = claim.pin
    assert pin.artifact is not None
    record = records.get((pin.index, pin.artifact.file))
    if record is None:
        return Outcome(source, tuple(compare.of_file(pin.artifact, None)))
    try:
        published = as_pin(record)
    except OutsideError as error:
        return Outcome(source, unasked=error.message)
    return Outcome(
        source,
        (*compare.of_record(claim, published, record.build_number), *compare.of_time(claim, upload_time(record))),
    )
