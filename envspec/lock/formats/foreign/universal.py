"""Universal files, which hold for any platform: their packages in one environment, by markers and wheel tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct, field
from packaging.markers import InvalidMarker, Marker, UndefinedEnvironmentName
from packaging.pylock import Package

from envspec.base.errors import InputError
from envspec.base.redact import without_credentials
from envspec.lock.formats.foreign.selection import PLAIN, Offers, Selection
from envspec.lock.formats.foreign.shape import Malformed, artifact, index_name
from envspec.lock.model import Artifact, GitSource, Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.packages.pylock import File, file_name, parse_pylock
from envspec.packages.requirement import TEXTS, canonical_name, parse_marker
from envspec.packages.tags import ReleaseFile, choose_file, marker_environment

DEFAULT_PLATFORMS = ("linux-64", "osx-arm64", "win-64")
"""The platforms for universal files when both files are universal."""

DEFAULT_PYTHON = "3.12"
"""The Python version for universal files when neither file names one."""


class Environment(Struct, frozen=True):
    """The environment and the choices that a universal file is evaluated with; `name` is the target's."""

    name: str
    platform: str
    python: str
    glibc: str | None = None
    selection: Selection = PLAIN


class UniversalPackage(Struct, frozen=True):
    """One package of a universal file.

    files      every file that it may be installed from
    markers    one of them must hold, unless there are none (PEP 508)
    requires   PEP 508 lines
    """

    name: str
    version: str
    index: str
    files: tuple[Artifact, ...] = ()
    requires: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    direct: bool = False
    git: GitSource | None = None
    url: str | None = None

    def pin(self, environment: Environment) -> Pin:
        return Pin(
            "pip",
            self.name,
            self.version,
            self.index,
            self._file(environment),
            self.requires,
            self.direct,
            git=self.git,
            url=self.url,
        )

    def _file(self, environment: Environment) -> Artifact | None:
        """Find the file that an installer takes."""
        files = {artifact.file: artifact for artifact in self.files}
        try:
            file = choose_file(map(ReleaseFile, files), environment.platform, environment.python, environment.glibc)
        except InputError:
            file = next((file_name for file_name in files if not file_name.endswith(".whl")), None)
        return files[file] if file is not None else None


def lock_of_environments(
    environments: Iterable[Environment], solve: Callable[[Environment], tuple[tuple[str, ...], Mapping[str, Pin]]]
) -> Lock:
    """Make a lock of each environment's requirements and its pins by name."""
    targets = []
    for environment in environments:
        requirements, pins = solve(environment)
        inputs = TargetInputs(environment.platform, environment.python, environment.glibc, requirements=requirements)
        targets.append(LockedTarget(environment.name, inputs, tuple(pins[name] for name in sorted(pins))))
    return Lock("", SpecInputs(), tuple(sorted(targets, key=lambda target: target.name)))


class Universal(Struct, frozen=True):
    """A whole universal file whose packages carry markers. Every package in it counts as a root. One of the markers in
    `supported` must hold where the file counts, unless there are none."""

    entries: tuple[UniversalPackage, ...]
    python: str | None = None
    offers: Offers = field(default_factory=Offers)
    supported: tuple[str, ...] = ()

    def lock(self, environments: Iterable[Environment]) -> Lock:
        """Return the packages of each environment. Raises Malformed."""
        return lock_of_environments(environments, self._pins)

    def _pins(self, environment: Environment) -> tuple[tuple[str, ...], dict[str, Pin]]:
        variables = marker_environment(environment.platform, environment.python)
        selection = environment.selection
        pins: dict[str, Pin] = {}
        for entry in self.entries:
            markers = entry.markers
            if not markers or any(holds(marker, variables, selection.extras, selection.groups) for marker in markers):
                # where a format leaves two versions of a package open, the newer one stands last
                pins[entry.name] = entry.pin(environment)
        return tuple(sorted(pins)), pins


_EXTRA_IS = re.compile(r"""\bextra (==|!=) (?:'([^'"]*)'|"([^'"]*)")""")


_TEXT = re.compile(r"""'([^'"]*)'|"([^'"]*)\"""")


def holds(
    marker: str,
    variables: Mapping[str, str],
    extras: frozenset[str] = frozenset(),
    groups: frozenset[str] = frozenset(),
) -> bool:
    """Return whether a PEP 508 marker holds with the chosen extras and groups. Raises Malformed for a text that isn't a
    marker."""
    return _evaluate(marker, frozenset(variables.items()), _of_marker(marker, extras), groups)


@lru_cache(maxsize=TEXTS)
def _evaluate(
    marker: str, variables: frozenset[tuple[str, str]], extras: frozenset[str], groups: frozenset[str]
) -> bool:
    """Evaluate once: a lock of uv has long markers, on many edges, and `packaging` normalises every chosen extra for
    every comparison in them."""
    known: dict[str, str | frozenset[str]] = {
        **dict(variables),
        "extra": "",
        "extras": extras,
        "dependency_groups": groups,
    }
    try:
        return _marker(marker).evaluate(known, context="lock_file")
    except (UndefinedEnvironmentName, KeyError):
        return False


@lru_cache(maxsize=TEXTS)
def _of_marker(marker: str, extras: frozenset[str]) -> frozenset[str]:
    """Keep the extras that a marker compares: no other changes what it says."""
    return frozenset(extra for extra in extras if canonical_name(extra) in _compared_names(marker))


@lru_cache(maxsize=TEXTS)
def _compared_names(marker: str) -> frozenset[str]:
    return frozenset(canonical_name(quoted or other) for quoted, other in _TEXT.findall(marker))


@lru_cache(maxsize=TEXTS)
def _marker(text: str) -> Marker:
    """Rewrite a marker in the form of pylock.toml (PEP 751): `'x' in extras`. In PEP 508, `extra` has a single value,
    but uv and Poetry write markers that test several.
    """
    try:
        return parse_marker(_EXTRA_IS.sub(_in_extras, text))
    except InvalidMarker as error:
        raise Malformed(f"{text[:200]!r} isn't a marker: {str(error).splitlines()[0][:200]}") from None


def _in_extras(match: re.Match[str]) -> str:
    return f"{match[2] or match[3] or ''!r} {'in' if match[1] == '==' else 'not in'} extras"


# pylock.toml (PEP 751). Edges are optional in it, and the tools leave them out.


def read_pylock(data: Mapping[str, Any]) -> Universal:
    """Return the document's packages, without local folders. Raises Malformed."""
    try:
        lock = parse_pylock(data)
    except ValueError as error:
        raise Malformed(str(error)) from None
    # a tool may have groups of its own making among the default ones: these aren't for anyone to choose
    unasked = tuple(map(canonical_name, lock.default_groups or ()))
    groups = dict.fromkeys((*map(canonical_name, lock.dependency_groups or ()), *unasked))
    offers = Offers(tuple(lock.extras or ()), tuple(groups), default_groups=unasked)
    python = None if lock.requires_python is None else str(lock.requires_python)
    entries = tuple(_pylock_entry(package) for package in lock.packages if not package.directory)
    return Universal(entries, python, offers, tuple(map(str, lock.environments or ())))


def _pylock_entry(package: Package) -> UniversalPackage:
    git = url = None
    if vcs := package.vcs:
        git = GitSource(without_credentials(vcs.url or vcs.path or ""), vcs.commit_id, vcs.subdirectory)
    if package.archive:
        url = without_credentials(package.archive.url or "")
    files: list[File] = [file for file in (*(package.wheels or ()), package.sdist, package.archive) if file]
    index = package.index or next((file.url for file in files), None)
    return UniversalPackage(
        package.name,
        "0" if package.version is None else str(package.version),
        "git" if git else "url" if url else index_name(index),
        tuple(artifact(file_name(file), file.hashes, file.size) for file in files),
        markers=(str(package.marker),) if package.marker else (),
        git=git,
        url=url,
    )
