"""The published files of torch and its companions, and the METADATA of some of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from envspec.base.errors import OutsideError
from envspec.binaries.wheel import OpenWheel
from envspec.packages.edges import Markers
from envspec.packages.requirement import canonical_name, published_requirement
from envspec.packages.version_numbers import numbers

# The text of a fact table, edited row by row: comments and other lines stay unchanged.


Row = Mapping[str, Any]


def rows_of(text: str, table: str) -> list[Row]:
    """Read the rows of one of a file's tables (`releases = [`), in their order."""
    import tomli

    rows: list[Row] = tomli.loads(text)[table]
    return rows


def with_rows(text: str, table: str, rows: Sequence[Row]) -> str:
    """Put these rows into the table. An existing row keeps its line."""
    lines = text.splitlines()
    start = lines.index(f"{table} = [") + 1
    end = lines.index("]", start)
    known = {row_text(row): line for row, line in zip(rows_of(text, table), lines[start:end], strict=True)}
    changed = [known.get(row_text(row), row_text(row)) for row in rows]
    return "\n".join([*lines[:start], *changed, *lines[end:]]) + "\n"


def with_source(text: str, name: str, meaning: str) -> str:
    """Add a line for a source after the other sources, if a row names it and the line is missing."""
    lines = text.splitlines()
    used = any(
        re.search(rf'source = "([^"]* )?{re.escape(name)}[ "]', line) for line in lines if line.startswith("  {")
    )
    if not used or any(line.startswith(f"sources.{name} ") for line in lines):
        return text
    last = max(index for index, line in enumerate(lines) if line.startswith("sources."))
    return "\n".join([*lines[: last + 1], f"sources.{name} = {_value(meaning)}", *lines[last + 1 :]]) + "\n"


def row_text(row: Row) -> str:
    """Write a row as the tables do: one line, its keys in their order."""
    return f"  {_value(row)},"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(part)}" for key, part in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if not isinstance(value, str):
        return str(value)
    if not value.isprintable() or '"' in value or "\\" in value:
        raise ValueError(f"{value!r} can't stand in a fact table")
    return f'"{value}"'


PLATFORMS: Mapping[str, str] = {
    "linux-64": r"(many)?linux.*_x86_64",
    "linux-aarch64": r"(many)?linux.*_aarch64",
    "osx-arm64": r"macosx_.*_arm64",
    "win-64": r"win_amd64",
}


@dataclass(frozen=True)
class PublishedFile:
    """A file of a project's page. `requires_python`, `uploaded` (RFC 3339) and `sha256` are the page's values or
    None."""

    file: str
    requires_python: str | None = None
    yanked: bool = False
    uploaded: str | None = None
    sha256: str | None = None


class Index(Protocol):
    """PyPI, or the index that the user has configured in its place."""

    def files(self, project: str) -> tuple[PublishedFile, ...]:
        """Return the files of a project. Raises IndexFailure."""

    def requires_dist(self, project: str, file: str) -> tuple[str, ...]:
        """Return the Requires-Dist lines of a wheel. Raises IndexFailure."""


class ReadableIndex(Index, Protocol):
    """An index whose wheels are read as well."""

    def open(self, file: str) -> AbstractContextManager[OpenWheel]:
        """Return a wheel on a page that was read, to be read in part. Raises IndexFailure and UnreadableWheel."""


class UpstreamChanged(OutsideError):
    """The failure where a published file has a form that would make a wrong row."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="write the rows by hand, or teach tools.refresh the new form; no table changed")


@dataclass(frozen=True)
class Wheel:
    """A wheel as its file name describes it. `python` is "3.12", None for a wheel of all Pythons."""

    file: str
    version: str
    platform: str
    python: str | None
    glibc: str | None
    requires_python: str | None


@dataclass(frozen=True)
class Contents:
    """The METADATA of a torch wheel on a platform. `cuda` is None for a CPU build."""

    cuda: str | None
    cudnn: str | None
    nccl: str | None
    triton: str | None


def wheels(files: Iterable[PublishedFile]) -> tuple[Wheel, ...]:
    """List the wheels of final releases for the tables' platforms and Pythons, without free-threaded ones."""
    parsed = (_wheel(file) for file in files if not file.yanked)
    return tuple(wheel for wheel in parsed if wheel is not None)


def _wheel(published: PublishedFile) -> Wheel | None:
    match = re.fullmatch(r"[\w.]+?-([\d.]+)-(cp3(\d+)|py3)-(\w+)-([\w.]+)\.whl", published.file)
    # abi3 names the first of several Pythons, and the tables need all
    if match is None or match[4].endswith("t") or match[4] == "abi3":
        return None
    platform = next((name for name, tag in PLATFORMS.items() if re.fullmatch(tag, match[5].split(".")[0])), None)
    if platform is None:
        return None
    python = f"3.{match[3]}" if match[3] else None
    return Wheel(published.file, match[1], platform, python, _glibc(match[5]), published.requires_python)


def refuse_unread(project: str, files: Iterable[PublishedFile], newest: str) -> None:
    """Refuse names of wheels that `wheels` passes over and that could be of a release from `newest` on: one with a
    suffix, for several Pythons, built anew. Raises UpstreamChanged."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename
    from packaging.version import Version

    for file in files:
        if file.yanked or not file.file.endswith(".whl") or _wheel(file) is not None:
            continue
        try:
            _, version, _, tags = parse_wheel_filename(file.file)
        except InvalidWheelFilename:
            raise UpstreamChanged(f"{project}: `{file.file}` isn't the name of a wheel") from None
        ours = [tag for tag in tags if any(re.fullmatch(pattern, tag.platform) for pattern in PLATFORMS.values())]
        with_gil = any(not re.fullmatch(r"cp\d+t", tag.abi) for tag in ours)
        if with_gil and not version.is_prerelease and version >= Version(newest):
            raise UpstreamChanged(
                f"{project}: `{file.file}` is a wheel of {version} whose name says what the tables have no words for"
            )


def _glibc(tag: str) -> str | None:
    match = re.search(r"manylinux_(\d+)_(\d+)", tag)
    if match:
        return f"{match[1]}.{match[2]}"
    return "2.17" if "linux" in tag else None


def contents(requires_dist: Iterable[str], platform: str, python: str) -> Contents:
    """Read the lines of a torch wheel for one platform and Python (PEP 508 markers decide)."""
    pins = {}
    for name, specifier in requirements(requires_dist, platform, python):
        pins[re.sub(r"-cu\d+$", "", name)] = specifier
    cuda = next((pins[name] for name in ("cuda-toolkit", "nvidia-cuda-runtime") if name in pins), None)
    return Contents(
        cuda=".".join(cuda.removeprefix("==").split(".")[:2]) if cuda else None,
        cudnn=_exact(pins.get("nvidia-cudnn")),
        nccl=_exact(pins.get("nvidia-nccl")),
        triton=_exact(pins.get("triton")),
    )


def requirements(requires_dist: Iterable[str], platform: str, python: str) -> Iterable[tuple[str, str]]:
    """Give the name and specifier of each line that holds without extras."""
    markers = Markers(platform, python)
    for line in filter(markers.hold, requires_dist):
        requirement = published_requirement(line)
        yield canonical_name(requirement.name), str(requirement.specifier)


def _exact(specifier: str | None) -> str | None:
    """`2.27.5` of `==2.27.5`; anything else as it is."""
    return specifier.removeprefix("==") if specifier else None


def span(pythons: Iterable[str]) -> str:
    """Write Pythons as the table does: `3.10-3.14`."""
    ordered = sorted(pythons, key=numbers)
    return f"{ordered[0]}-{ordered[-1]}"
