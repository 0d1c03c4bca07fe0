"""The update of `data/wheels/<variant>.json`: the files of the torch family on the PyTorch index of a variant."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envspec.base.documents import read_json
from envspec.facts.wheels import FAMILY
from tools.refresh.published import PLATFORMS, PublishedFile, UpstreamChanged

if TYPE_CHECKING:
    from packaging.version import Version

PROJECTS = (*sorted(FAMILY), "triton")

SOURCE = "index"

MEANING = "the PyTorch index's own page of the project, read by tools.refresh"

FROM = "the wheel's own METADATA on the PyTorch index, read by tools.refresh"

Group = Mapping[str, Any]
"""What a release's wheels say of their dependencies: `requires_python`, `requires_dist`, `provides_extra`."""


@dataclass(frozen=True)
class Source:
    """The questions of an update.

    files     a project's files on the index of the variant
    metadata  the dependencies of one of them: a Group's three keys
    has       whether the table of torch builds has one of a release for a platform in the variant
    oldest    the release of a project from which on a variant without a table has its files
    """

    files: Callable[[str], Sequence[PublishedFile]]
    metadata: Callable[[str], Group]
    has: Callable[[str, str], bool]
    oldest: Mapping[str, str]


def refreshed_wheels(text: str | None, variant: str, source: Source) -> str:
    """Add to a variant's table what its index has and the table lacks; `text` is None where there is no table yet.

    A published file never changes. Raises IndexFailure, and UpstreamChanged for a file that did, for a name that says
    what envspec has no words for, and for a build of torch that `torch.toml` doesn't have.
    """
    from packaging.version import Version

    empty = {"schema": 1, "variant": variant, "sources": {}, "projects": {name: {} for name in PROJECTS}}
    data: Any = read_json(text) if text is not None else empty
    for project, releases in data["projects"].items():
        files = source.files(project)
        oldest = min(map(Version, releases), default=Version(source.oldest[project]))
        for version, fresh in _fresh(project, variant, releases, files, oldest, source).items():
            _add(releases.setdefault(version, {"sources": [], "metadata": [], "files": []}), fresh, source)
            data["sources"][SOURCE] = MEANING
        data["projects"][project] = {version: releases[version] for version in sorted(releases, key=Version)}
    return table_text(data)


def _fresh(
    project: str,
    variant: str,
    releases: Mapping[str, Any],
    files: Sequence[PublishedFile],
    oldest: Version,
    source: Source,
) -> dict[str, list[PublishedFile]]:
    """Give the files that a table lacks, by version."""
    known = {row["file"]: row["sha256"] for release in releases.values() for row in release["files"]}
    fresh: dict[str, list[PublishedFile]] = {}
    for file in files:
        if file.file in known:
            if file.sha256 != known[file.file]:
                raise UpstreamChanged(
                    f"{variant}: `{file.file}` has the SHA-256 {file.sha256} there, and {known[file.file]} in the table"
                )
        elif not file.yanked and (version := _version(project, variant, file.file, oldest, source)):
            fresh.setdefault(version, []).append(file)
    return fresh


def _version(project: str, variant: str, file: str, oldest: Version, source: Source) -> str | None:
    """Read the version of a wheel that the table should have; None for one that it leaves out: of a pre-release, of
    another platform, older than all of it."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    if not file.endswith(".whl"):
        return None
    try:
        _, version, _, tags = parse_wheel_filename(file)
    except InvalidWheelFilename:
        raise UpstreamChanged(f"{variant}: `{file}` isn't the name of a wheel") from None
    platforms = {name for name, tag in PLATFORMS.items() for wheel_tag in tags if re.fullmatch(tag, wheel_tag.platform)}
    if version.is_prerelease or not platforms or version < oldest:
        return None
    if project in FAMILY and any(not re.fullmatch(r"cp3\d+t?|none", tag.abi) for tag in tags):
        raise UpstreamChanged(f"{variant}: `{file}` is for several Pythons, which the table has no words for")
    # wheels of every variant's page without a local part are the CPU's (aarch64, macOS)
    if project in FAMILY and version.local and version.local.partition(".")[0] != variant:
        raise UpstreamChanged(f"{variant}: `{file}` has another local version than its index")
    if project == "torch" and version.local == variant:
        for platform in platforms:
            if not source.has(version.public, platform):
                raise UpstreamChanged(
                    f"torch.toml has no build of torch {version.public} for {variant} on {platform}, and the index has"
                )
    return str(version)


def _add(release: dict[str, Any], files: Sequence[PublishedFile], source: Source) -> None:
    from packaging.utils import parse_wheel_filename

    if SOURCE not in release["sources"]:
        release["sources"].append(SOURCE)
    for file in files:
        group = {"trust": "verified", "from": FROM, **source.metadata(file.file)}
        if group not in release["metadata"]:
            release["metadata"].append(group)
        row = {"file": file.file, "sha256": file.sha256, "metadata": release["metadata"].index(group)}
        release["files"].append({**row, "upload_time": file.uploaded} if file.uploaded else row)
    release["files"].sort(key=lambda row: (parse_wheel_filename(row["file"])[1], row["file"]))


def table_text(data: Mapping[str, Any]) -> str:
    """Write a table: one source, one group and one file a line."""
    return "\n".join(_lines(data, 0)) + "\n"


_DEEP = 5
"""The depth from which on a value stands on its line: groups, files. Lists of names stand there as well."""


def _lines(value: Any, depth: int) -> Iterator[str]:
    plain = not isinstance(value, (dict, list)) or depth == _DEEP
    if plain or not value or (isinstance(value, list) and isinstance(value[0], str)):
        yield json.dumps(value)
        return
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    yield opening
    items = list(value.items()) if isinstance(value, dict) else [(None, part) for part in value]
    for number, (key, part) in enumerate(items):
        name = "" if key is None else f"{json.dumps(key)}: "
        first, *rest = _lines(part, depth + 1)
        comma = "," if number < len(items) - 1 else ""
        indented = [f" {name}{first}", *(f" {line}" for line in rest)]
        yield from (*indented[:-1], f"{indented[-1]}{comma}")
    yield closing
