"""The rules for files: a file's name has the pinned package and version, and fits the target's machines; the torch
family's hashes are those in envspec's facts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from packaging.tags import Tag
from packaging.utils import parse_sdist_filename
from packaging.version import Version

from envspec.base.errors import InputError
from envspec.base.finding import Finding
from envspec.facts import wheels
from envspec.lock.model import Artifact, BuildPin, Pin
from envspec.lock.rules.case import LockedCase
from envspec.lock.rules.requirements import version_of
from envspec.packages.requirement import TEXTS, canonical_name
from envspec.packages.tags import wheel_file_tags, wheel_parts, wheel_tags
from envspec.packages.variants import read_name

_CONDA_ENDS = (".conda", ".tar.bz2")
_PROJECT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._]*[A-Za-z0-9])?")
"""A project in a wheel's name, normalised or not."""


def wrong_files(case: LockedCase) -> Iterator[Finding]:
    """Yield the packages, except those from git, without a file of their name and version that the target runs."""
    for pin in case.target.pins:
        if pin.artifact is None:
            if not pin.git:
                yield case.flaw("no-file", pin.name, f"{pin.name} {pin.version} has no file")
        elif pin.git:
            yield case.flaw("wrong-file", pin.name, f"{pin.name} is from git but has the file {pin.artifact.file}")
        elif pin.kind == "conda":
            yield from _of_conda(case, pin, pin.artifact)
        else:
            yield from _of_pip(case, pin, pin.artifact)


def _of_conda(case: LockedCase, pin: Pin, artifact: Artifact) -> Iterator[Finding]:
    if artifact.variant is not None:
        message = f"{artifact.file} is of the variant {artifact.variant.label}, which conda doesn't have"
        yield case.flaw("wrong-file", pin.name, message)
    stem = next((artifact.file.removesuffix(end) for end in _CONDA_ENDS if artifact.file.endswith(end)), None)
    if stem != f"{pin.name}-{pin.version}-{pin.build}":
        message = f"{artifact.file} is not {pin.name} {pin.version} {pin.build or 'without a build'}"
        yield case.flaw("wrong-file", pin.name, message)


def is_wheel_for(case: LockedCase, wheel: BuildPin) -> bool:
    """Return whether a wheel of a build has the name of its package and version, and fits the target."""
    inputs = case.target.inputs
    try:
        name, version, tags = _file_name(wheel.file)
        allowed = wheel_tags(inputs.platform, inputs.python, inputs.glibc)
        return (
            name == canonical_name(wheel.name)
            and version == version_of(wheel.version)
            and not allowed.isdisjoint(tags or ())
        )
    except (ValueError, InputError):
        return False


def _of_pip(case: LockedCase, pin: Pin, artifact: Artifact) -> Iterator[Finding]:
    inputs, file = case.target.inputs, artifact.file
    if pin.url is not None and unquote(urlsplit(pin.url).path).rpartition("/")[2] != file:
        yield case.flaw("wrong-file", pin.name, f"{file} isn't the file of {pin.url}")
    if artifact.md5 is not None:
        yield case.flaw("wrong-hash", pin.name, f"{file} has an MD5, which only conda's channels give")
    label = artifact.variant.label if artifact.variant else None
    flaw = _flaw_of(pin.name, pin.version, file, label, inputs.platform, inputs.python, inputs.glibc)
    if flaw is not None:
        yield case.flaw(*flaw)


@lru_cache(maxsize=TEXTS)
def _flaw_of(
    name: str, version: str, file: str, label: str | None, platform: str, python: str, glibc: str | None
) -> tuple[str, str | None, str] | None:
    """Return the faults of a pip package's file: code, package and sentence. Targets share most of them."""
    try:
        named, numbered, tags = _file_name(file, label)
        same = named == canonical_name(name) and numbered == version_of(version)
        allowed = wheel_tags(platform, python, glibc)
    except ValueError:
        # what `packaging` raises for names and versions, and Python for numbers of thousands of digits
        return "wrong-file", name, f"{file} isn't the name of a wheel or an sdist"
    except InputError as error:
        return "wrong-platform", None, error.message
    if not same:
        return "wrong-file", name, f"{file} is not {name} {version}"
    if tags is not None and allowed.isdisjoint(tags):
        machine = f"{platform}, Python {python}{f', glibc {glibc}' if glibc else ''}"
        return "wrong-platform", name, f"{file} doesn't run on {machine}"
    return None


@lru_cache(maxsize=TEXTS)
def _file_name(file: str, variant: str | None = None) -> tuple[str, Version, frozenset[Tag] | None]:
    """Return name, version and, for a wheel, tags, from the file's name. A variant's label ends a wheel's name.

    Raises ValueError for any other name.
    """
    if variant is not None:
        stem = file.removesuffix(f"-{variant}.whl")
        if stem == file:
            raise ValueError(f"{file} isn't of the variant {variant}")
        file = f"{stem}.whl"
    if file.endswith(".whl"):
        parts = wheel_parts(file)
        if not parts or read_name(file).label is not None or not _PROJECT.fullmatch(parts[0]):
            raise ValueError(f"{file} isn't the name of a wheel")
        return canonical_name(parts[0]), Version(parts[1]), wheel_file_tags(file)
    name, version = parse_sdist_filename(file)
    return name, version, None


def wrong_hashes(case: LockedCase) -> Iterator[Finding]:
    """Yield the releases of a PyTorch index whose file or hash differs from envspec's facts about that index."""
    inputs = case.target.inputs
    for pin in case.pins("pip"):
        variant = pin.index.removeprefix("pytorch/")
        if variant == pin.index or variant not in wheels.variants() or pin.artifact is None:
            continue
        known = [wheel for wheel in wheels.load(variant).files(pin.name) if wheel.version == pin.version]
        same = next((wheel for wheel in known if wheel.file == pin.artifact.file), None)
        if same is not None:
            if (same.sha256, same.size or pin.artifact.size) != (pin.artifact.sha256, pin.artifact.size):
                message = f"{same.file} of {pin.index} has sha256 {same.sha256}, not {pin.artifact.sha256}"
                yield case.flaw("wrong-hash", pin.name, message)
            continue
        allowed = wheel_tags(inputs.platform, inputs.python, inputs.glibc)
        fits = sorted(wheel.file for wheel in known if not allowed.isdisjoint(_file_name(wheel.file)[2] or ()))
        if fits:
            message = f"{pin.index} has {' and '.join(fits)} of {pin.name} {pin.version}, not {pin.artifact.file}"
            yield case.flaw("wrong-file", pin.name, message)
