"""Metadata read in the background: it begins with the first package that's found, while uv still solves for
other targets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from envspec.errors import IndexFailure, InternalError, SpecError
from envspec.gpu import wheels
from envspec.lock.model import Artifact
from envspec.redact import redact
from envspec.resolve.gate import Gate
from envspec.resolve.metadata import Metadata, MetadataReader, parse_metadata
from envspec.resolve.source import SourceReader
from envspec.resolve.uv import Found, FoundFile

_WORKERS = 8
"""More would gain nothing on a fast network, and a burst of name look-ups makes small resolvers drop some:
measured, each costs 5 s."""

Description = tuple[Metadata, Artifact | None]
"""What a package says of itself, and the file that a target installs (None for git)."""


@dataclass
class Reading:
    """Reads each artifact once, however many targets install it.

    `on_read(done, total)` is called as artifacts that weren't cached come in, from several threads.
    """

    wheels: MetadataReader
    sources: SourceReader
    gate: Gate
    scratch: Path
    on_read: Callable[[int, int], None]
    _jobs: dict[str, Future[Description]] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_WORKERS))
    _counting: threading.Lock = field(default_factory=threading.Lock)
    _done: int = 0
    _total: int = 0

    def begin(self, package: Found, file: FoundFile | None) -> None:
        """Start reading a package, if that hasn't begun. `file` is the one of its files that the target installs."""
        key = _key(package, file)
        with self._counting:
            if key in self._jobs:
                return
            self._jobs[key] = self._pool.submit(
                self._counted, package, file, self.scratch / f"source-{len(self._jobs)}"
            )

    def result(self, package: Found, file: FoundFile | None) -> Description:
        """What was read of a package. Raises IndexFailure, ToolError, SpecError or InternalError."""
        self.begin(package, file)
        return self._jobs[_key(package, file)].result()

    def close(self) -> None:
        """Drop what hasn't begun; what is on its way isn't waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _counted(self, package: Found, file: FoundFile | None, folder: Path) -> Description:
        cached = self._cached(package, file)
        if cached is not None:
            return cached
        self._count(0, 1)
        description = self._read(package, file, folder)
        self._count(1, 0)
        return description

    def _count(self, done: int, total: int) -> None:
        with self._counting:
            self._done += done
            self._total += total
        self.on_read(self._done, self._total)

    def _cached(self, package: Found, file: FoundFile | None) -> Description | None:
        if file is None or file.sha256 is None:
            return None
        if self.gate.owns(file.url):
            wheel = wheels.load(self.gate.variant_of(file.url)).file(file.file)
            if wheel is None:
                raise InternalError(f"{file.file} came from the gate, which doesn't hold it")
            return parse_metadata(wheels.metadata_text(wheel).decode()), Artifact(file.file, file.sha256, wheel.size)
        metadata = self.wheels.cache.get(file.sha256) if file.file.endswith(".whl") else None
        return None if metadata is None else _described(file, metadata)

    def _read(self, package: Found, file: FoundFile | None, folder: Path) -> Description:
        if package.git:
            folder.mkdir()
            return self.sources.read_git(*package.git, folder), None
        if file is None:
            raise InternalError(f"{package.name} {package.version} has neither a file nor a git source")
        if file.sha256 is None:
            if package.archive:
                raise SpecError(
                    f"{redact(file.url)} has no hash that a lock could hold", hint="add #sha256=<digest> to the URL"
                )
            raise InternalError(f"{package.name} {package.version} has no file with a sha256")
        if package.archive:
            self._verify(file)
        if file.file.endswith(".whl"):
            return _described(file, self.wheels.read(file))
        folder.mkdir()
        return _described(file, self.sources.read_sdist(file, folder))

    def _verify(self, file: FoundFile) -> None:
        """A direct URL's hash may be the spec's own word (`#sha256=…`), which nobody has compared with the file."""
        digest, _ = self.wheels.fetcher.digest(file.url)
        if digest != file.sha256:
            raise IndexFailure(
                f"{redact(file.url)}: the content has sha256 {digest}, the requirement says {file.sha256}",
                hint="find out which of both is right before anybody installs it",
            )


def _key(package: Found, file: FoundFile | None) -> str:
    return repr(package.git) if file is None else f"{file.sha256} {file.url}"


def _described(file: FoundFile, metadata: Metadata) -> Description:
    """Where the index leaves sizes out, what was once seen for this hash stays true."""
    return metadata, Artifact(file.file, str(file.sha256), file.size if file.size is not None else metadata.size)
