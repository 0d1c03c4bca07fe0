"""The final releases of a project, and the Pythons and platforms that their wheels are for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from envspec.packages.tags import wheel_file_tags, wheel_tags
from envspec.packages.version_numbers import numbers
from tools.refresh.published import PLATFORMS, Index, PublishedFile, Row, UpstreamChanged, rows_of, with_rows

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
"""The Pythons that are asked. The last is the next that comes: what has wheels for it has them for all later ones."""

Place = tuple[str, str]
"""A platform and a Python: `("linux-64", "3.12")`."""


@dataclass(frozen=True)
class DatedRelease:
    """A final release that isn't yanked.

    uploaded    when its first file came, None if the page doesn't say
    wheel       the file whose METADATA speaks for it, None if it's a source alone
    places      where one of its wheels installs
    pure        whether all wheels are Python code alone
    extension   whether a wheel holds a module compiled for CPython, and not only a library
    """

    version: Version
    uploaded: datetime | None
    wheel: str | None
    places: frozenset[Place]
    pure: bool
    extension: bool


def releases(project: str, files: Iterable[PublishedFile]) -> tuple[DatedRelease, ...]:
    """List a project's releases, oldest first. Files whose names aren't those of wheels or sdists count for nothing."""
    from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename

    by_version: dict[Version, list[PublishedFile]] = {}
    for file in files:
        wheel = file.file.endswith(".whl")
        try:
            version = parse_wheel_filename(file.file)[1] if wheel else parse_sdist_filename(file.file)[1]
        except (InvalidSdistFilename, InvalidWheelFilename):
            continue
        if not file.yanked and not version.is_prerelease:
            by_version.setdefault(version, []).append(file)
    return tuple(_release(version, listed) for version, listed in sorted(by_version.items()))


def _release(version: Version, files: Sequence[PublishedFile]) -> DatedRelease:
    wheels = sorted((file for file in files if file.file.endswith(".whl")), key=_preference)
    times = [datetime.fromisoformat(file.uploaded.replace("Z", "+00:00")) for file in files if file.uploaded]
    return DatedRelease(
        version=version,
        uploaded=min(times, default=None),
        wheel=wheels[0].file if wheels else None,
        places=frozenset(place for file in wheels for place in _places(file)),
        pure=all(file.file.endswith("-none-any.whl") for file in wheels),
        extension=any(file.file.split("-")[-2] != "none" for file in wheels),
    )


def _preference(file: PublishedFile) -> tuple[bool, str]:
    return "linux" not in file.file and "-any" not in file.file, file.file


def _places(file: PublishedFile) -> Iterable[Place]:
    admitted = _specifier(file.requires_python or "")
    for platform, python in _places_of_tags("-".join(file.file.removesuffix(".whl").split("-")[-3:])):
        if admitted.contains(f"{python}.15"):
            yield platform, python


@lru_cache(maxsize=16384)
def _places_of_tags(tags: str) -> tuple[Place, ...]:
    expected = wheel_file_tags(f"x-1-{tags}.whl")
    return tuple(
        (platform, python)
        for platform in PLATFORMS
        for python in PYTHONS
        if not expected.isdisjoint(wheel_tags(platform, python, None))
    )


@lru_cache(maxsize=4096)
def _specifier(text: str) -> SpecifierSet:
    """Return a page's Requires-Python; one that isn't a specifier excludes nothing, as installers have it."""
    from packaging.specifiers import SpecifierSet

    try:
        return SpecifierSet(text)
    except ValueError:
        return SpecifierSet()


def refreshed_dates(text: str, index: Index) -> str:
    """Add to the table's text the final releases that are newer than its own, and the day of the newest to how far it
    reaches. Raises IndexFailure, and UpstreamChanged for a release without a date."""
    rows: list[Row] = []
    for project, known in groupby(rows_of(text, "releases"), key=lambda row: str(row["project"])):
        of_project = list(known)
        rows += of_project
        newest = max(numbers(row["version"]) for row in of_project)
        for release in releases(project, index.files(project)):
            version = str(release.version)
            if release.version.release > newest and not release.version.is_postrelease:
                if release.uploaded is None:
                    raise UpstreamChanged(f"{project} {version}: the page doesn't say when it came")
                date = release.uploaded.strftime("%Y-%m-%dT%H:%M:%SZ")
                rows.append({"project": project, "version": version, "date": date, "source": "pypi"})
    day = max(str(row["date"])[:10] for row in rows)
    text = with_rows(text, "releases", rows)
    return re.sub(r'(?m)^as-of = "([\d-]+)"$', lambda line: f'as-of = "{max(line[1], day)}"', text)
