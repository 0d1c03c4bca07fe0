"""Builds of CPython that stand alone, by python-build-standalone: one for each minor version and platform."""

from __future__ import annotations

from functools import cache

from envspec.facts.tables import read, words
from envspec.record import dataclass

TRIPLES = {
    "linux-64": "x86_64-unknown-linux-gnu",
    "linux-aarch64": "aarch64-unknown-linux-gnu",
    "osx-arm64": "aarch64-apple-darwin",
    "osx-64": "x86_64-apple-darwin",
    "win-64": "x86_64-pc-windows-msvc",
}
"""How python-build-standalone calls the platforms."""


@dataclass(frozen=True)
class PythonBuild:
    """A build of CPython `version` for a platform, of the release `build`."""

    python: str
    platform: str
    version: str
    build: str
    sha256: str
    sources: tuple[str, ...]

    @property
    def file(self) -> str:
        return f"cpython-{self.version}+{self.build}-{TRIPLES[self.platform]}-install_only_stripped.tar.gz"


@cache
def python_builds() -> tuple[PythonBuild, ...]:
    """List the builds of the table."""
    return tuple(
        PythonBuild(row["python"], row["platform"], row["version"], row["build"], row["sha256"], words(row["source"]))
        for row in read("python_builds")["builds"]
    )


def python_build(python: str, platform: str) -> PythonBuild | None:
    """Find the build of a minor version ("3.12") for a platform ("linux-64")."""
    return next((one for one in python_builds() if (one.python, one.platform) == (python, platform)), None)
