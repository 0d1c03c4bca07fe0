"""The update of `data/torch.toml` to what an index publishes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from envspec.binaries.build_notes import build_notes
from envspec.binaries.device_code import CompiledLibrary, device_code
from envspec.facts.corrections import corrections
from envspec.facts.torch_builds import variant_of
from envspec.packages.version_numbers import numbers
from envspec.rules.wanted import Specifier, parse
from tools.refresh.published import (
    Contents,
    ReadableIndex,
    Row,
    UpstreamChanged,
    Wheel,
    contents,
    refuse_unread,
    requirements,
    rows_of,
    span,
    wheels,
    with_rows,
    with_source,
)

# The sizes of `data/wheels/*.json`: the PyTorch indexes' pages say none, but whoever serves a file says its length.


_UNSIZED = re.compile(r'\{"file": "([^"]+)", "sha256": "([0-9a-f]{64})", "metadata": \d+(?=[,}])(?!, "size")')

File = tuple[str, str]
"""A file's name and its sha256: one name may be of several files."""


def files_without_size(text: str) -> tuple[File, ...]:
    """Return the files of a variant's table that have no size."""
    return tuple((match[1], match[2]) for match in _UNSIZED.finditer(text))


def with_sizes(text: str, sizes: Mapping[File, int]) -> str:
    """Return the table's text with the sizes in bytes that it lacks."""

    def with_size(match: re.Match[str]) -> str:
        size = sizes.get((match[1], match[2]))
        return match[0] if size is None else f'{match[0]}, "size": {size}'

    return _UNSIZED.sub(with_size, text)


COMPANIONS = ("torchvision", "torchaudio")

SOURCES = {
    "pypi-metadata": "file names and METADATA of the wheels on PyPI, read by tools.refresh",
    "flags": "torch/version.py and the architecture flags in libtorch_python.so of PyPI's wheels, read by"
    " tools.refresh",
}

_PLATFORMS = ("linux-64", "linux-aarch64", "osx-arm64", "win-64")

Release = Mapping[str, Sequence[Wheel]]
"""The wheels of a release by platform."""


@dataclass(frozen=True)
class Refreshed:
    """The new text, and notes for the maintainer."""

    text: str
    notes: tuple[str, ...]


def refresh(text: str, index: ReadableIndex) -> Refreshed:
    """Add to the table's text what the index publishes and the table lacks. Raises IndexFailure, and UpstreamChanged
    where that would make a wrong row.

    A published wheel never changes, so only new releases are read; of known ones, new files (another Python) and new
    companions count. Linux wheels say their CUDA in METADATA, and must hold what they say; Windows' say it in
    themselves.
    """
    notes: list[str] = []
    files = index.files("torch")
    releases = rows_of(text, "releases")
    newest = max(numbers(row["version"]) for row in releases)
    refuse_unread("torch", files, releases[-1]["version"])
    published = _by_release(wheels(files))
    builds = [_with_pythons(row, releases, published) for row in rows_of(text, "builds")]
    for version in sorted(published, key=numbers):
        if numbers(version) > newest:
            read = _read(published[version], index)
            releases.append(_release(version, published[version], read, releases[-1]))
            builds += _new_builds(releases[-1], published[version], read, builds)
        elif numbers(version) >= (2, 0) and all(row["version"] != version for row in releases):
            notes.append(f"torch {version} is on PyPI, and missing between known releases: add it by hand")
    for companion in COMPANIONS:
        files = index.files(companion)
        refuse_unread(companion, files, _newest(releases, companion))
        releases = _with_companion(releases, companion, wheels(files), index)
    text = with_rows(with_rows(text, "releases", releases), "builds", builds)
    for name, meaning in SOURCES.items():
        text = with_source(text, name, meaning)
    return Refreshed(text, tuple(notes))


def _by_release(wheels: Iterable[Wheel]) -> dict[str, dict[str, list[Wheel]]]:
    releases: dict[str, dict[str, list[Wheel]]] = {}
    for wheel in wheels:
        releases.setdefault(wheel.version, {}).setdefault(wheel.platform, []).append(wheel)
    return releases


@dataclass(frozen=True)
class WheelRead:
    """The contents of a release's wheel for a platform: dependencies, CUDA (None: the CPU) and architectures."""

    declared: Contents
    cuda: str | None
    flags: CompiledLibrary | None


def _read(release: Release, index: ReadableIndex) -> dict[str, WheelRead]:
    """Read a wheel of a release for each platform with CUDA: that of the oldest Python, whose dependencies are
    complete."""
    read = {}
    for platform, built in release.items():
        if platform.startswith(("linux", "win")):
            oldest = min(built, key=lambda wheel: numbers(wheel.python or "3.0"))
            read[platform] = read_wheel(oldest, index)
    return read


def read_wheel(wheel: Wheel, index: ReadableIndex) -> WheelRead:
    """Read a wheel of torch by ranges. Raises IndexFailure, and UpstreamChanged where its METADATA says something else
    than what is in it."""
    declared = contents(index.requires_dist("torch", wheel.file), wheel.platform, wheel.python or "3.12")
    with index.open(wheel.file) as opened:
        cuda, code = build_notes(opened).cuda, device_code(opened)
    flags = next(iter(code.libraries), None)
    own = f"CUDA {cuda}" if cuda else "no CUDA"
    if wheel.platform.startswith("linux") and declared.cuda != cuda:
        named = f"CUDA {declared.cuda}" if declared.cuda else "no CUDA package that tools.refresh knows"
        raise UpstreamChanged(f"{wheel.file}: its METADATA names {named}, and torch/version.py in it {own}")
    if (flags is not None) != (cuda is not None) or not code.complete:
        has = "has no architecture flags" if flags is None else f"has the flags {' '.join(flags.sm)}"
        raise UpstreamChanged(f"{wheel.file}: torch/version.py names {own}, and its library {has}")
    return WheelRead(declared, cuda, flags)


def _release(version: str, release: Release, read: Mapping[str, WheelRead], before: Row) -> Row:
    first = next(iter(release.values()))[0]
    triton = next((reading.declared.triton for reading in read.values() if reading.declared.triton), before["triton"])
    # macOS has no CUDA
    variants = {p: variant_of(read[p].cuda) if p in read else "cpu" for p in _PLATFORMS if p in release}
    return {
        "version": version,
        "python": first.requires_python or before["python"],
        "torchvision": [],
        "triton": triton,
        "pypi": variants,
        "source": "pypi-metadata",
    }


def _new_builds(release: Row, files: Release, read: Mapping[str, WheelRead], known: Sequence[Row]) -> list[Row]:
    """Make the rows of a new release's builds on PyPI."""
    rows: list[Row] = []
    for platform, variant in release["pypi"].items():
        before = next((r for r in reversed(known) if (r["variant"], r["platform"]) == (variant, platform)), {})
        reading = read.get(platform, WheelRead(Contents(None, None, None, None), None, None))
        # what was made for an older glibc than the build before may be tagged wrongly
        lower_bounds = [wheel.glibc for wheel in files[platform] if wheel.glibc] + [before.get("glibc", "0")]
        facts = {
            "torch": release["version"],
            "variant": variant,
            "platform": platform,
            "pythons": span(wheel.python for wheel in files[platform] if wheel.python),
            "sm": " ".join(reading.flags.sm) if reading.flags else None,
            "ptx": " ".join(reading.flags.ptx) or None if reading.flags else None,
            "cudnn": reading.declared.cudnn,
            "nccl": reading.declared.nccl,
            "triton": reading.declared.triton if variant != "cpu" else None,
            "glibc": max(lower_bounds, key=numbers) if platform.startswith("linux") else None,
            "trust": "binary" if variant != "cpu" else "high",
            "source": "pypi-metadata flags" if variant != "cpu" else "pypi-metadata",
        }
        rows.append({key: value for key, value in facts.items() if value is not None})
    return rows


def _newest(releases: Sequence[Row], companion: str) -> str:
    listed = {str(version) for row in releases for version in row.get(companion, ())}
    return max(listed, key=numbers)


def _with_pythons(row: Row, releases: Sequence[Row], published: Mapping[str, Release]) -> Row:
    """Update PyPI's own build with the Pythons that PyPI has wheels for, where the table has fewer."""
    release = next(release for release in releases if release["version"] == row["torch"])
    if release["pypi"].get(row["platform"]) != row["variant"]:
        return row
    here = {wheel.python for wheel in published.get(row["torch"], {}).get(row["platform"], ()) if wheel.python}
    return {**row, "pythons": span({*here, *row["pythons"].split("-")})}


def _with_companion(releases: Sequence[Row], name: str, wheels: Sequence[Wheel], index: ReadableIndex) -> list[Row]:
    """Add the companions of each release. Those of the newest known torch are read again, as their range may admit a
    new torch. Corrections supply the torch of a companion whose METADATA names none.
    """
    listed = {version for row in releases for version in row.get(name, ())}
    last = next((set(row[name]) for row in reversed(releases) if row.get(name)), set())
    files = {wheel.version: wheel for wheel in wheels}
    oldest = min(listed, key=numbers)
    to_read = [v for v in files if v in last or (v not in listed and numbers(v) > numbers(oldest))]
    made_for: dict[str, Specifier] = {}
    known = corrections()
    for version in sorted(to_read, key=numbers):
        wheel = files[version]
        published = tuple(index.requires_dist(name, wheel.file))
        lines = (*published, *known.missing_requirements(name, version, published))
        required = dict(requirements(lines, wheel.platform, wheel.python or "3.12"))
        if required.get("torch"):
            made_for[version] = parse(required["torch"])
    changed = []
    for row in releases:
        fitting = {*row.get(name, ()), *(v for v, specifier in made_for.items() if specifier.admits(row["version"]))}
        changed.append({**row, name: sorted(fitting, key=numbers)} if fitting else row)
    return [_in_order(row) for row in changed]


def _in_order(row: Row) -> Row:
    keys = ("version", "python", *COMPANIONS, "triton", "pypi", "source")
    return {key: row[key] for key in keys if key in row}
