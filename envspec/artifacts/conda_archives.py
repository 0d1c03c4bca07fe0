"""The paths that conda packages install, read where their archives lie: of a `.conda` by one range of its end."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from envspec.base.documents import decode
from envspec.base.errors import IndexFailure
from envspec.base.redact import redact, without_credentials
from envspec.base.threads import run_async
from envspec.binaries.wheel import PREFIX, command_content
from envspec.lock.conda_files import artifact_of, channel_of, url_in_channel
from envspec.lock.model import Pin
from envspec.net.limits import LIMITS
from envspec.packages.names import conda_name

if TYPE_CHECKING:
    from rattler.networking import Client
    from rattler.package_streaming import PackageArchive

CONDA_CACHE = Path("conda") / "packages"
"""The conda cache's folder below envspec's. The cache that rattler's tools share may hold files unchecked by hash."""
_PATHS, _LINK = "info/paths.json", "info/link.json"
_SITE = re.compile(r"(?:lib/python\d+\.\d+t?/|Lib/)?site-packages/")
"""The folder of Python's packages: of one Python, on Windows, and in a package for any Python (`noarch: python`)."""
_SECONDS = 30
"""The most that the reading of one archive takes."""


class _Entry(Struct):
    path: str = field(name="_path")
    sha256: str | None = None


class _Listed(Struct):
    paths: list[_Entry]


class _Commands(Struct):
    entry_points: list[str] | None = None


class _Link(Struct):
    noarch: _Commands = field(default_factory=_Commands)


class CondaArchives(Struct, frozen=True):
    """The archives of a solution's conda packages. `channels` has the address of each channel by its name, `unpacked`
    is the folder of those that were unpacked on this machine."""

    client: Client
    channels: Mapping[str, str]
    unpacked: Path
    offline: bool

    def address(self, pin: Pin) -> str:
        """Give the address of a package's archive, without credentials."""
        return without_credentials(self._url(pin))

    def obstacle(self, pin: Pin) -> str:
        """Give the reason why a package's paths can't be read; empty where they can."""
        if self._url(pin).startswith("file:") or self._folder(pin):
            return ""
        if not artifact_of(pin).file.endswith(".conda"):
            return "an archive of conda's older format would have to be fetched whole"
        return "envspec is offline" if self.offline else ""

    def paths(self, pin: Pin) -> dict[str, str]:
        """List the paths that a package installs, as `envspec.binaries.wheel.installed_paths` does for a wheel: from
        site-packages, each with the hash of its content, or the function that a command runs. A path without a hash is
        left out.

        Raises IndexFailure.
        """
        try:
            if folder := self._folder(pin):
                texts = {name: (folder / name).read_bytes() for name in (_PATHS, _LINK) if (folder / name).is_file()}
            else:
                texts = run_async(asyncio.wait_for(self._info(pin), _SECONDS))
            listed, link = decode(texts.get(_PATHS, b""), _Listed), decode(texts.get(_LINK, b"{}"), _Link)
            contents = {_place(row.path): _content(row.sha256) for row in listed.paths if row.sha256}
        except asyncio.TimeoutError:
            raise IndexFailure(f"{self.address(pin)} didn't come within {_SECONDS} s") from None
        except BaseException as error:
            if not isinstance(error, (OSError, RuntimeError, ValueError)) and not is_panic(error):
                raise
            message = redact(f"{artifact_of(pin).file} can't be read: {' '.join(str(error).split())}")
            raise IndexFailure(message) from None
        for point in link.noarch.entry_points or ():
            command, _, runs = point.partition("=")
            contents[f"{PREFIX}/bin/{command.strip()}"] = command_content(runs)
        return contents

    def _url(self, pin: Pin) -> str:
        return pin.url or url_in_channel(self.channels[channel_of(pin)[0]], pin)

    def _folder(self, pin: Pin) -> Path | None:
        folder = self.unpacked / f"{pin.name}-{pin.version}-{pin.build}"
        with suppress(OSError):
            return folder if is_whole(folder, bytes.fromhex(artifact_of(pin).sha256)) else None
        return None

    async def _info(self, pin: Pin) -> dict[str, bytes]:
        """Read the members of an archive that say what it installs. Raises OSError, ValueError, RuntimeError."""
        members = {}
        async for entry in (await open_archive(self._url(pin), self.client)).stream("info"):
            if entry.is_file and entry.name in (_PATHS, _LINK):
                if entry.size > LIMITS.directory_bytes:
                    raise ValueError(f"{entry.name} has {entry.size} bytes")
                members[entry.name] = await entry.read()
        return members


async def open_archive(url: str, client: Client | None = None) -> PackageArchive:
    """Open an archive on disk, or by the ranges of its server. Raises OSError."""
    from rattler.package_streaming import PackageArchive

    if client is None or url.startswith("file:"):
        return await PackageArchive.from_path(unquote(urlsplit(url).path))
    return await PackageArchive.from_url(client, url, sparse="require")


def installs_modules(pin: Pin) -> bool:
    """Return whether a pin is a conda package that may install Python modules: it depends on python."""
    return pin.kind == "conda" and pin.artifact is not None and "python" in map(conda_name, pin.dependencies)


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic: rattler met a state that its makers held to be impossible. PyO3's types for
    it can't be imported, and one of them is no Exception."""
    return type(error).__name__ in ("PanicException", "RustPanic")


def mark_of(folder: Path) -> Path:
    """Give the file beside an unpacked package that has a revision and the archive's sha256."""
    return folder.with_name(f"{folder.name}.lock")


def is_whole(folder: Path, sha256: bytes | None) -> bool:
    """Return whether a folder has the whole of the package whose archive has this sha256. Raises OSError."""
    mark = mark_of(folder)
    return folder.is_dir() and mark.is_file() and mark.read_bytes()[8:] == sha256


def _place(path: str) -> str:
    if site := _SITE.match(path):
        return path[site.end() :]
    return f"{PREFIX}/{path.replace('python-scripts/', 'bin/', 1) if path.startswith('python-scripts/') else path}"


def _content(sha256: str) -> str:
    """Write a hash as a wheel's RECORD has it. Raises ValueError."""
    return f"sha256={base64.urlsafe_b64encode(bytes.fromhex(sha256)).decode().rstrip('=')}"
