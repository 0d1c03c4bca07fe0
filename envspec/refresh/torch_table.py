"""The update of `data/torch.toml` to what an index publishes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from envspec.facts.corrections import corrections
from envspec.facts.torch_builds import variant_of
from envspec.packages.version_numbers import numbers
from envspec.refresh.published import Contents, Index, Wheel, contents, requirements, span, wheels
from envspec.refresh.rows import Row, rows_of, with_rows, with_source
from envspec.rules.specifier import Specifier, parse

COMPANIONS = ("torchvision", "torchaudio")

SOURCES = {
    "pypi-metadata": "file names and METADATA of the wheels on PyPI, read by envspec.refresh",
    "carried": "architectures of the build before; this one hasn't been read yet",
}

_PLATFORMS = ("linux-64", "linux-aarch64", "osx-arm64", "win-64")

Release = Mapping[str, Sequence[Wheel]]
"""The wheels of a release by platform."""


@dataclass(frozen=True)
class Refreshed:
    """The new text, and notes for the maintainer."""

    text: str
    notes: tuple[str, ...]


def refreshed(text: str, index: Index) -> Refreshed:
    """Add to the table's text what the index publishes and the table lacks. Raises IndexFailure.

    A published wheel never changes, so only new releases have their METADATA read; of known ones, new files (another
    Python) and new companions count. Linux wheels say their CUDA in METADATA; Windows and macOS wheels don't, and
    count as those of the release before.
    """
    notes: list[str] = []
    published = _by_release(wheels(index.files("torch")))
    releases = rows_of(text, "releases")
    newest = max(numbers(row["version"]) for row in releases)
    builds = [_with_pythons(row, releases, published) for row in rows_of(text, "builds")]
    for version in sorted(published, key=numbers):
        if numbers(version) > newest:
            read = _read(published[version], index)
            releases.append(_release(version, published[version], read, releases[-1]))
            builds += _new_builds(releases[-1], published[version], read, builds, notes)
        elif numbers(version) >= (2, 0) and all(row["version"] != version for row in releases):
            notes.append(f"torch {version} is on PyPI, and missing between known releases: add it by hand")
    for companion in COMPANIONS:
        releases = _with_companion(releases, companion, wheels(index.files(companion)), index)
    text = with_rows(with_rows(text, "releases", releases), "builds", builds)
    for name, meaning in SOURCES.items():
        text = with_source(text, name, meaning)
    return Refreshed(text, tuple(notes))


def _by_release(found: Iterable[Wheel]) -> dict[str, dict[str, list[Wheel]]]:
    releases: dict[str, dict[str, list[Wheel]]] = {}
    for wheel in found:
        releases.setdefault(wheel.version, {}).setdefault(wheel.platform, []).append(wheel)
    return releases


def _read(release: Release, index: Index) -> dict[str, Contents]:
    """Read the Linux wheels of a release, by platform: those of the oldest Python, whose dependencies are complete."""
    read = {}
    for platform, found in release.items():
        if platform.startswith("linux"):
            oldest = min(found, key=lambda wheel: numbers(wheel.python or "3.0"))
            read[platform] = contents(index.requires_dist("torch", oldest.file), platform, oldest.python or "3.12")
    return read


def _release(version: str, release: Release, read: Mapping[str, Contents], before: Row) -> Row:
    first = next(iter(release.values()))[0]
    triton = next((said.triton for said in read.values() if said.triton), before["triton"])
    variants = {
        p: variant_of(read[p].cuda) if p in read else before["pypi"].get(p, "cpu") for p in _PLATFORMS if p in release
    }
    return {
        "version": version,
        "python": first.requires_python or before["python"],
        "torchvision": [],
        "triton": triton,
        "pypi": variants,
        "source": "pypi-metadata",
    }


def _new_builds(
    release: Row, files: Release, read: Mapping[str, Contents], known: Sequence[Row], notes: list[str]
) -> list[Row]:
    """Make the rows of a new release's builds on PyPI. A build of a new variant has no predecessor's architectures, and
    is left to the maintainer.
    """
    rows: list[Row] = []
    for platform, variant in release["pypi"].items():
        before = next((r for r in reversed(known) if (r["variant"], r["platform"]) == (variant, platform)), None)
        if before is None:
            notes.append(
                f"torch {release['version']} for {platform} is the first build of {variant}: read its architectures"
                " (envspec inspect) and add it by hand"
            )
            continue
        said = read.get(platform, Contents(None, None, None, None))
        floors = [wheel.glibc for wheel in files[platform] if wheel.glibc] + [before.get("glibc", "0")]
        facts = {
            "torch": release["version"],
            "variant": variant,
            "platform": platform,
            "pythons": span(wheel.python for wheel in files[platform] if wheel.python),
            "sm": before.get("sm"),
            "ptx": before.get("ptx"),
            "cudnn": said.cudnn,
            "nccl": said.nccl,
            "triton": said.triton if variant != "cpu" else None,
            "glibc": max(floors, key=numbers) if platform.startswith("linux") else None,
            "trust": "low" if variant != "cpu" else "high",
            "source": "pypi-metadata carried" if variant != "cpu" else "pypi-metadata",
        }
        rows.append({key: value for key, value in facts.items() if value is not None})
    return rows


def _with_pythons(row: Row, releases: Sequence[Row], published: Mapping[str, Release]) -> Row:
    """Update PyPI's own build with the Pythons that PyPI has wheels for, where the table has fewer."""
    release = next(release for release in releases if release["version"] == row["torch"])
    if release["pypi"].get(row["platform"]) != row["variant"]:
        return row
    here = {wheel.python for wheel in published.get(row["torch"], {}).get(row["platform"], ()) if wheel.python}
    return {**row, "pythons": span({*here, *row["pythons"].split("-")})}


def _with_companion(releases: Sequence[Row], name: str, found: Sequence[Wheel], index: Index) -> list[Row]:
    """Add the companions of each release. Those of the newest known torch are read again, as their range may admit a
    new torch. Corrections supply the torch of a companion whose METADATA names none.
    """
    listed = {version for row in releases for version in row.get(name, ())}
    last = next((set(row[name]) for row in reversed(releases) if row.get(name)), set())
    files = {wheel.version: wheel for wheel in found}
    oldest = min(listed, key=numbers)
    wanted = [v for v in files if v in last or (v not in listed and numbers(v) > numbers(oldest))]
    made_for: dict[str, Specifier] = {}
    known = corrections()
    for version in sorted(wanted, key=numbers):
        wheel = files[version]
        published = tuple(index.requires_dist(name, wheel.file))
        lines = (*published, *known.left_out(name, version, published))
        asked = dict(requirements(lines, wheel.platform, wheel.python or "3.12"))
        if asked.get("torch"):
            made_for[version] = parse(asked["torch"])
    changed = []
    for row in releases:
        fitting = {*row.get(name, ()), *(v for v, specifier in made_for.items() if specifier.admits(row["version"]))}
        changed.append({**row, name: sorted(fitting, key=numbers)} if fitting else row)
    return [_ordered(row) for row in changed]


def _ordered(row: Row) -> Row:
    keys = ("version", "python", *COMPANIONS, "triton", "pypi", "source")
    return {key: row[key] for key in keys if key in row}
