"""Metadata read in the background, from the first known package on, while uv still solves for other targets."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.artifacts.metadata import MetadataReader
from envspec.artifacts.sdist.source import SourceReader
from envspec.base.errors import InternalError, OutsideError, SpecError, about
from envspec.base.progress import Counting
from envspec.base.redact import redact
from envspec.base.scratch import new_folder
from envspec.base.threads import Pool
from envspec.facts import wheels
from envspec.lock.model import Artifact, WheelVariant
from envspec.net.index_proxy.address import variant_text
from envspec.net.index_proxy.server import IndexProxy
from envspec.packages.address import Address, parse_address
from envspec.packages.metadata import Metadata, metadata_of, of_variant, parse_metadata
from envspec.packages.requirement import canonical_name, parse_requirement
from envspec.packages.stated import StatedMetadata, find_metadata
from envspec.resolve.pip.request import Request
from envspec.resolve.uv.answer import Found, FoundFile
from envspec.resolve.uv.errors import UnmetImport

_WORKERS = 8
"""Readers at a time. More gain nothing on a fast network, and small DNS resolvers drop some of a burst of look-ups:
measured, each costs 5 s."""

Description = tuple[Metadata, Artifact | None]
"""A package's metadata, and the file that a target installs (None for git)."""
Stated = tuple[StatedMetadata, ...]


class Reading(Struct):
    """A background reader that reads each artifact once, however many targets install it.

    `allowed` names the packages that may be built. Of any other source, it reads only what needs no code to run.
    `addresses` are those that the spec names.
    `counting` counts artifacts that weren't cached.
    """

    wheels: MetadataReader
    sources: SourceReader
    proxy: IndexProxy
    allowed: frozenset[str]
    addresses: tuple[Address, ...]
    scratch: Path
    counting: Counting
    _jobs: dict[str, Future[Description]] = field(default_factory=dict)
    _pool: Pool = field(default_factory=lambda: Pool(_WORKERS))
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, package: Found, file: FoundFile | None, stated: Stated = ()) -> Future[Description]:
        """Start reading a package, if that hasn't begun. `file` is the one of its files that the target installs,
        `stated` what the spec says of sources there, which spares a build."""
        own = tuple(entry for entry in stated if entry.name == package.name)
        key = f"{package.git!r} {own!r}" if file is None else _key(file, own)
        with self._starting:
            if key not in self._jobs:
                self._jobs[key] = self._pool.submit(self._read_with_progress, package, file, own)
            return self._jobs[key]

    def know(self, file: FoundFile, metadata: Metadata, stated: Stated = ()) -> None:
        """Take a file's metadata as read. `stated` as in `begin`."""
        known: Future[Description] = Future()
        known.set_result(_describe(file, metadata))
        own = tuple(entry for entry in stated if entry.name == canonical_name(metadata.name))
        with self._starting:
            self._jobs.setdefault(_key(file, own), known)

    def result(self, package: Found, file: FoundFile | None, stated: Stated = ()) -> Description:
        """Wait for a package's metadata. Raises IndexFailure, ToolError, SpecError or InternalError."""
        return self.begin(package, file, stated).result()

    def close(self) -> None:
        """Drop readings that haven't begun, without waiting for the others."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _read_with_progress(self, package: Found, file: FoundFile | None, stated: Stated) -> Description:
        if (known := self._recall(file)) is not None:
            return known
        with self.counting.step(f"reading {file.file if file else package.name}"):
            return self._read(package, file, stated)

    def _recall(self, file: FoundFile | None) -> Description | None:
        if file is None or file.sha256 is None:
            return None
        if self.proxy.owns(file.url):
            wheel = wheels.load(self.proxy.variant_of(file.url)).file(file.file)
            if wheel is None:
                raise InternalError(f"{file.file} came from the index proxy, which doesn't hold it")
            return parse_metadata(wheels.metadata_text(wheel).decode()), Artifact(file.file, file.sha256, wheel.size)
        metadata = self.wheels.recall(file) if _is_wheel(file) else None
        return None if metadata is None else _describe(file, metadata)

    def _read(self, package: Found, file: FoundFile | None, stated: Stated) -> Description:
        self._refuse_addresses(package)
        entry = _find_metadata(package, stated)
        if package.git:
            if entry is not None:
                return metadata_of(entry, str(entry.exact)), None
            with about(package.name):
                return self.sources.read_git(*package.git, new_folder(self.scratch)), None
        if file is None or file.sha256 is None:
            lacks = "neither a file nor a git source" if file is None else "no file with a sha256"
            raise InternalError(f"{package.name} {package.version} has {lacks}")
        if _is_wheel(file):
            return _describe(file, self.wheels.read(file))
        version, may_run = package.version or (str(entry.exact) if entry else ""), package.name in self.allowed
        if entry is None and may_run:
            with about(package.name):
                return _describe(file, self.sources.read_sdist(file, package.name, version, new_folder(self.scratch)))
        facts = self.sources.static.read(file, package.name, version)
        metadata = facts.metadata
        if entry is not None:
            metadata = replace(metadata_of(entry, version), licence=metadata.licence, size=metadata.size)
        return _describe(file, metadata, inert=bool(facts.inert) and not may_run)

    def _refuse_addresses(self, package: Found) -> None:
        """What the spec itself asks for by an address was judged before; what a package asks for isn't its word."""
        if package.archive:
            raise git_only_url_error(package.name, package.archive.url)
        if package.git is None:
            return
        url, commit, folder = package.git
        pinned = _address_of(_in_requirement(url, commit, folder))
        if not any(address.has_beside(pinned) for address in self.addresses):
            required = _in_requirement(url, package.revision, folder)
            if any(replace(address, revision=None).has_beside(pinned) and address.commit for address in self.addresses):
                raise SpecError(
                    f"{redact(required)} is at {pinned.revision}, and the spec names another commit",
                    hint="where the spec means a branch or a tag, name it in full behind the `@`: refs/heads/<branch> "
                    "or refs/tags/<tag>",
                ).with_subjects(package.name)
            raise _repository_refusal(package.name, required)
        if package.name not in self.allowed:
            raise _source_refusal(package.name, url)


def stray_repository(name: str, url: str, named: Sequence[Address]) -> SpecError:
    """The message about a repository that uv met and the spec doesn't name, or about a neighbour that may not be
    built."""
    address = _address_of(url)
    if any(replace(own, revision=None).has_beside(address) for own in named):
        return _source_refusal(name, url)
    return _repository_refusal(name, url)


def with_metadata_line(failed: UnmetImport, request: Request, sources: SourceReader, folder: Path) -> UnmetImport:
    """Give an error with the `metadata` line as the files of the project have it, whose repository the spec names."""
    for requirement in map(parse_requirement, request.addressed):
        name, url = canonical_name(requirement.name), requirement.url or ""
        if url.startswith("git+") and name in failed.about:
            with suppress(OutsideError, ValueError):
                failed.hint = sources.git_hint(name, url, folder) or failed.hint
    return failed


def _source_refusal(name: str, url: str) -> SpecError:
    return SpecError(
        f"{redact(url)} is built from source, which runs its code, and only another package requires it",
        hint=f'if you trust it, add to [pip]: allow-source = ["{name}"]',
    ).with_subjects(name)


def _repository_refusal(name: str, url: str) -> SpecError:
    return _address_refusal(
        name, url, f"{redact(url)} is required by another package alone, and only the spec may name a repository"
    )


def _address_of(url: str) -> Address:
    """Read a git address of uv's. Raises SpecError for one that can't be told from others."""
    try:
        return parse_address(url)
    except ValueError as reason:
        raise SpecError(f"a package requires {redact(url)}, which tools read in more than one way: {reason}") from None


def _in_requirement(url: str, revision: str | None, folder: str | None) -> str:
    return f"git+{url}{f'@{revision}' if revision else ''}{f'#subdirectory={folder}' if folder else ''}"


def git_only_url_error(name: str, url: str) -> SpecError:
    """Make the error for a file by its URL that only a git checkout requires: envspec hasn't looked through it."""
    return _address_refusal(name, url, f"{redact(url)} is required by its URL, and by a package from git alone")


def _address_refusal(name: str, url: str, message: str) -> SpecError:
    hint = f'if you trust it, add to [pip] dependencies: "{name} @ {redact(url)}"'
    return SpecError(message, hint=hint).with_subjects(name)


def _is_wheel(file: FoundFile) -> bool:
    return file.file.endswith(".whl")


def _find_metadata(package: Found, stated: Stated) -> StatedMetadata | None:
    """Find what the spec states of a source; of one with an address, whose version no index says, the only entry that
    has a version."""
    if package.version is not None:
        return find_metadata(stated, package.name, package.version)
    return next((entry for entry in stated if entry.exact), None)


def _key(file: FoundFile, stated: Stated) -> str:
    # which requirements of a variant hold depends on the target
    variant = f" {variant_text(file.variant)}" if file.variant else ""
    return f"{file.sha256} {file.url} {stated!r}{variant}"


def _describe(file: FoundFile, metadata: Metadata, *, inert: bool = False) -> Description:
    """Where the index leaves sizes out, what was once seen for this hash stays true."""
    size, own = file.size if file.size is not None else metadata.size, file.variant
    variant = WheelVariant(own.label, tuple(map(str, own.properties)), own.priorities) if own else None
    return of_variant(metadata, own), Artifact(file.file, str(file.sha256), size, variant=variant, inert=inert)
