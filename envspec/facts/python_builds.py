"""Builds of CPython that stand alone, by python-build-standalone: of each minor version and platform the releases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from msgspec import Struct

from envspec.facts.tables import read
from envspec.packages.tags import takes_python
from envspec.packages.version_numbers import numbers

TRIPLES = {
    "linux-64": "x86_64-unknown-linux-gnu",
    "linux-aarch64": "aarch64-unknown-linux-gnu",
    "osx-arm64": "aarch64-apple-darwin",
    "win-64": "x86_64-pc-windows-msvc",
}
"""python-build-standalone's names of the platforms."""

_ENDED = {"3.8": "3.8.20"}
"""The last release of minor versions that the table has no builds of. Source: uv 0.13.8's own list of builds."""


class PythonBuild(Struct, frozen=True):
    """A build of CPython `version` for a platform, of the release `build`: its day, as "20260814"."""

    platform: str
    version: str
    build: str
    sha256: str

    @property
    def file(self) -> str:
        return f"cpython-{self.version}+{self.build}-{TRIPLES[self.platform]}-install_only_stripped.tar.gz"

    @property
    def python(self) -> str:
        """The minor version: "3.12"."""
        return self.version.rpartition(".")[0]


def builds_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[PythonBuild]:
    """Yield the builds of the table's rows, each of which has those of all platforms."""
    for row in rows:
        for platform in TRIPLES:
            if platform in row:
                yield PythonBuild(platform, row["version"], row["build"], row[platform])


@cache
def python_builds() -> tuple[PythonBuild, ...]:
    """List the builds of the table."""
    return tuple(builds_of(read("python_builds")["builds"]))


def newest_build(python: str, platform: str, before: str | None = None, bound: str = "") -> PythonBuild | None:
    """Find the newest build of a minor version ("3.12") for a platform ("linux-64") that a bound (PEP 440) admits,
    released on a day before that of a moment (RFC 3339)."""
    return _newest(
        build for build in _candidates(bound, before) if (build.python, build.platform) == (python, platform)
    )


def newest_minor(bound: str, before: str | None = None) -> str | None:
    """Find the minor version of the newest build that a bound admits, for whatever platform; None without one."""
    newest = _newest(_candidates(bound, before))
    return newest.python if newest else None


def newest_release(python: str) -> str | None:
    """Find the newest release of a minor version ("3.12") that is known, for whatever platform; None without one."""
    newest = _newest(build for build in python_builds() if build.python == python)
    return newest.version if newest else _ENDED.get(python)


def versions_of(python: str, platform: str) -> tuple[str, ...]:
    """List the versions of a minor version that have builds for a platform, the oldest first."""
    versions = {build.version for build in python_builds() if (build.python, build.platform) == (python, platform)}
    return tuple(sorted(versions, key=numbers))


def _candidates(bound: str, before: str | None) -> Iterator[PythonBuild]:
    for build in python_builds():
        if is_released(build.build, before) and (not bound or takes_python(bound, build.version)):
            yield build


def _newest(builds: Iterable[PythonBuild]) -> PythonBuild | None:
    return max(builds, key=lambda build: (numbers(build.version), build.build), default=None)


def is_released(build: str, before: str | None) -> bool:
    """Return whether a release of the builds ("20260814") is of a day before that of a moment; None is no bound. What
    is of the same day may have come later than the moment."""
    return before is None or f"{build[:4]}-{build[4:6]}-{build[6:8]}" < before[:10]


def sha256_of(platform: str, version: str, build: str) -> str | None:
    """Give the hash of a build; None where the table doesn't have it."""
    key = (platform, version, build)
    return next((row.sha256 for row in python_builds() if (row.platform, row.version, row.build) == key), None)


def reaches(build: str) -> bool:
    """Return whether the table would have a release of the builds, if there were such a one: the table is as new."""
    return build <= str(read("python_builds")["as-of"]).replace("-", "")
