"""METADATA for the index proxy: of wheels, of sources that may be built, and of those that may not.

METADATA is read once, and kept for that file of that index: the lock's edges and licences come from it too.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from pathlib import Path

from envspec.base.errors import IndexFailure, about
from envspec.base.redact import redact
from envspec.base.texts import printable
from envspec.net.index_proxy.address import ALLOWED, VARIANT, WHEEL, FileAddress
from envspec.net.remote_file import DamagedFile, FileHashes
from envspec.packages.requirement import canonical_name
from envspec.packages.stated import StatedMetadata, find_metadata
from envspec.resolve.pip.metadata import Metadata, MetadataReader, metadata_of, metadata_text, of_variant
from envspec.resolve.pip.reading import Counting
from envspec.resolve.pip.source import SourceReader
from envspec.resolve.uv.answer import Found, FoundFile

_NO_METADATA = b"Metadata-Version: 2.1\n\n"
"""METADATA that says nothing: uv skips such a release, and reports it if there is no other."""


@dataclass
class Describer:
    """The source of METADATA for the proxy. `scratch` is an empty folder for builds, `hashes` has those of files whose
    page says none."""

    wheels: MetadataReader
    sources: SourceReader
    scratch: Path
    counting: Counting
    hashes: FileHashes | None = None
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __call__(self, address: FileAddress, stated: tuple[StatedMetadata, ...] = ()) -> bytes:
        """Give the METADATA of the file behind a URL of the proxy. `stated` is what the spec says of sources, which
        needs no build. Raises IndexFailure or ToolError."""
        file = found_file(address)
        if file.sha256 is None and self.hashes is not None:
            with self.counting.one(f"hashing {file.file}"):
                file = with_hash(file, self.hashes)
        if address.fault is not None:
            raise IndexFailure(
                f"{redact(address.url)} is a variant's wheel, and nothing is known of its variant: {address.fault}",
                hint="report this to whoever runs the index; or bound the package to a release without variants",
            )
        if address.kind in (WHEEL, VARIANT):
            try:
                known = self.wheels.recall(file) or self._of_wheel(file, address.sidecar)
                return metadata_text(of_variant(known, address.variant))
            except DamagedFile:
                return _NO_METADATA
        stem, version = str(address.stand_in).split("-")[:2]
        name = canonical_name(stem)
        said = find_metadata(stated, name, version)
        if said is not None:
            return metadata_text(metadata_of(said, version))
        if address.kind == ALLOWED:
            return metadata_text(self._of_build(file, name, version))
        with self.counting.progress.doing(f"reading {printable(file.file)}"):
            return metadata_text(self.sources.static.read(file, name, version).metadata)

    def _of_wheel(self, file: FoundFile, sidecar: bool) -> Metadata:
        with self.counting.one(f"reading {file.file}"):
            return self.wheels.read(file, sidecar=sidecar)

    def _of_build(self, file: FoundFile, name: str, version: str) -> Metadata:
        folder = self.scratch / f"build-{next(self._numbers)}"
        folder.mkdir(parents=True)
        with self.counting.one(f"reading {file.file}, and building its metadata where it must be"), about(name):
            return self.sources.read_sdist(file, name, version, folder)


def found_file(address: FileAddress) -> FoundFile:
    """Give the file itself, at its index's address."""
    return FoundFile(
        address.url,
        address.file,
        address.sha256 or None,
        address.size,
        address.metadata_sha256,
        provenance=address.provenance,
        variant=address.variant,
        yanked=address.yanked,
        requires_python=address.requires_python,
    )


def with_hash(file: FoundFile, hashes: FileHashes) -> FoundFile:
    """Add the sha256 that the file's page doesn't say. Raises IndexFailure."""
    sha256, size = hashes.of(file.url)
    return replace(file, sha256=sha256, size=size)


def is_source(package: Found, file: FoundFile | None) -> bool:
    """Say whether a target installs a package of an index from source."""
    return file is not None and package.archive is None and not file.file.endswith(".whl")
