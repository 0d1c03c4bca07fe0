"""The PyTorch indexes as data: what each CUDA variant of the torch family offers, without asking the index.

Released wheels never change, so file names, hashes and dependencies ship with envspec, one file a variant under
`data/wheels/`. A hash belongs to its variant: some file names stand in several variants with different contents.

Every metadata group says how far to trust it:

    verified    the wheel's own METADATA: rebuilt byte for byte, or read from the equal wheel on PyPI
    copied      from a public `uv.lock` or the like that copies the METADATA
    derived     put together from another build of the same release; `basis` says which

Left out: files without a recorded hash or with unknown dependencies, and torchvision 0.15.0, whose published METADATA
asks for `torch==2.0.0+cu117` in every build (0.15.1 replaced it).
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct, field

from envspec.base.records import RecordWithNotes
from envspec.facts import edition

FAMILY = ("torch", "torchvision", "torchaudio")
"""The names that come from a PyTorch index. nvidia-* wheels always come from PyPI."""


def family(platform: str, cuda: str | None) -> tuple[str, ...]:
    """Name the packages that come from a PyTorch index in a target: also triton where PyPI doesn't have it.

    PyPI has every x86-64 release of it that torch 2.0 and later pin (compared 2026-11), so there all targets share
    PyPI's; its aarch64 wheels begin with 3.5.0 (torch 2.9), older ones are on the PyTorch index alone.
    """
    return (*FAMILY, "triton") if platform == "linux-aarch64" and cuda is not None else FAMILY


class WheelFile(Struct, frozen=True):
    """One wheel of a PyTorch index.

    `version` holds the local part (`2.9.1+cu126`). `size` is in bytes and `upload_time` RFC 3339 in UTC, both None
    if unknown. `requires_dist` holds the METADATA's own lines.
    """

    project: str
    file: str
    version: str
    sha256: str
    size: int | None
    upload_time: str | None
    requires_python: str | None
    requires_dist: tuple[str, ...]
    provides_extra: tuple[str, ...]
    trust: str
    basis: str


class WheelIndex(RecordWithNotes, frozen=True, eq=False):
    """The torch family's files on the PyTorch index of one variant."""

    notes: ClassVar = frozenset({"sources", "_releases", "_files"})

    variant: str
    projects: tuple[str, ...]
    sources: dict[str, str]
    """Sources of the files and hashes: short key -> full name. `file_sources` names keys."""
    _releases: dict[str, dict[str, Any]]
    _files: dict[str, tuple[WheelFile, ...]] = field(default_factory=dict)

    def files(self, project: str) -> tuple[WheelFile, ...]:
        """List the wheels of a project (normalised name), by version and file name; empty for an unknown project."""
        if project not in self._files:
            self._files[project] = tuple(_wheels(project, self._releases.get(project, {})))
        return self._files[project]

    def file(self, name: str) -> WheelFile | None:
        """Find the wheel of this file name, or None."""
        project = name.split("-", 1)[0].replace("_", "-").lower()
        return next((wheel for wheel in self.files(project) if wheel.file == name), None)

    def file_sources(self, project: str, version: str) -> tuple[str, ...]:
        """List the keys into `sources` for the files of one version; empty for an unknown version."""
        return tuple(self._releases.get(project, {}).get(version, {}).get("sources", ()))


@cache
def variants() -> tuple[str, ...]:
    """List the variants that ship: `("cpu", "cu118", … "cu130")`."""
    return tuple(sorted(path.stem for path in Path(edition.folder(), "wheels").glob("*.json")))


@cache
def load(variant: str) -> WheelIndex:
    """Read the index of a variant. Raises KeyError for one that `variants()` doesn't list."""
    if variant not in variants():
        raise KeyError(variant)
    data = json.loads(Path(edition.folder(), "wheels", f"{variant}.json").read_bytes())
    return WheelIndex(variant, tuple(data["projects"]), data["sources"], data["projects"])


_FILE_PLATFORMS = {
    "linux-64": re.compile(r"(many)?linux\w*_x86_64"),
    "linux-aarch64": re.compile(r"(many)?linux\w*_aarch64"),
    "osx-arm64": re.compile(r"macosx_\w+_arm64"),
    "win-64": re.compile(r"win_amd64"),
}


def platform_of(file: str) -> str | None:
    """Name the platform that a wheel is for, None for one of none of envspec's."""
    tag = file.removesuffix(".whl").rpartition("-")[2].split(".")[0]
    return next((platform for platform, fitting in _FILE_PLATFORMS.items() if fitting.fullmatch(tag)), None)


def size_of(index: str, file: str, sha256: str) -> int | None:
    """Give the bytes of a file on a PyTorch index ("pytorch/cu126"), None where the tables don't know."""
    variant = index.removeprefix("pytorch/")
    known = load(variant).file(file) if index.startswith("pytorch/") and variant in variants() else None
    return known.size if known is not None and known.sha256 == sha256 else None


@cache
def pythons(variant: str, project: str, release: str, platform: str) -> tuple[str, ...]:
    """List the Pythons ("3.12") for which the facts have a wheel of a release (without its local part) in a variant."""
    local = "" if platform == "osx-arm64" else f"+{variant}"
    minors = set()
    for wheel in load(variant).files(project) if variant in variants() else ():
        tags = wheel.file.removesuffix(".whl").split("-")
        if wheel.version == f"{release}{local}" and platform_of(wheel.file) == platform:
            minors |= {
                f"3.{tag[3:]}"
                for tag in tags[-3].split(".")
                if re.fullmatch(r"cp3\d+", tag) and tags[-2] in (tag, tag + "m")
            }
    return tuple(sorted(minors, key=lambda python: int(python[2:])))


# As the METADATA of recent releases on PyPI has it (read 2026-11). All builds of a release have the same licence texts.
_LICENCES = {"torch": "BSD-3-Clause", "torchaudio": "BSD License", "torchvision": "BSD", "triton": "MIT License"}


def metadata_text(wheel: WheelFile) -> bytes:
    """Write the part of the wheel's METADATA that a resolver reads (core metadata 2.1), in UTF-8."""
    lines = ["Metadata-Version: 2.1", f"Name: {wheel.project}", f"Version: {wheel.version}"]
    if wheel.requires_python:
        lines.append(f"Requires-Python: {wheel.requires_python}")
    if wheel.project in _LICENCES:
        lines.append(f"License: {_LICENCES[wheel.project]}")
    lines += [f"Requires-Dist: {requirement}" for requirement in wheel.requires_dist]
    lines += [f"Provides-Extra: {extra}" for extra in wheel.provides_extra]
    return ("\n".join(lines) + "\n\n").encode()


def _wheels(project: str, releases: dict[str, Any]) -> list[WheelFile]:
    wheels = []
    for version, release in releases.items():
        groups = [
            (g["requires_python"], tuple(g["requires_dist"]), tuple(g["provides_extra"]), g["trust"], g["from"])
            for g in release["metadata"]
        ]
        for row in release["files"]:
            size, uploaded = row.get("size"), row.get("upload_time")
            group = groups[row["metadata"]]
            wheels.append(WheelFile(project, row["file"], version, row["sha256"], size, uploaded, *group))
    return wheels
