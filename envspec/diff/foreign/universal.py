"""Files that hold for any platform: what they mean in one environment, by markers and wheel tags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from envspec.diff.foreign.shape import Malformed
from envspec.errors import InputError, InternalError
from envspec.lock.environment import marker_environment
from envspec.lock.model import Artifact, GitSource, Lock, LockedTarget, Pin, SpecInputs, TargetInputs

if TYPE_CHECKING:
    from packaging.tags import Tag

DEFAULT_PLATFORMS = ("linux-64", "osx-arm64", "win-64")
"""Where a universal file is looked at when the other file is universal, too."""

DEFAULT_PYTHON = "3.12"
"""For which Python, when neither file says one."""


@dataclass(frozen=True)
class Environment:
    """Where a universal file is looked at; `name` is the target's."""

    name: str
    platform: str
    python: str
    glibc: str | None = None


@dataclass(frozen=True)
class Entry:
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
            best_file(self.files, environment),
            self.requires,
            self.direct,
            git=self.git,
            url=self.url,
        )


@dataclass(frozen=True)
class Universal:
    """A whole universal file. `roots` are what was asked for, PEP 508; with none, every package counts as a root.

    `prune` drops what the roots don't lead to in an environment: for formats whose packages carry no markers.
    """

    entries: tuple[Entry, ...]
    roots: tuple[str, ...] = ()
    prune: bool = False
    python: str | None = None

    def lock(self, environments: Iterable[Environment]) -> Lock:
        """What is installed in each environment. Raises Malformed for two versions of a package in one of them."""
        targets = sorted((self._target(environment) for environment in environments), key=lambda t: t.name)
        return Lock("", SpecInputs(), tuple(targets))

    def _target(self, environment: Environment) -> LockedTarget:
        variables = marker_environment(environment.platform, environment.python)
        pins: dict[str, Pin] = {}
        for entry in self.entries:
            if not entry.markers or any(holds(marker, variables) for marker in entry.markers):
                # where a format leaves two versions of a package open, the newer one stands last
                pins[entry.name] = entry.pin(environment)
        inputs = TargetInputs(
            environment.platform, environment.python, environment.glibc, requirements=self.roots or tuple(sorted(pins))
        )
        in_order = tuple(pins[name] for name in sorted(pins))
        target = LockedTarget(environment.name, inputs, in_order)
        return _pruned(target) if self.prune else target


def _pruned(target: LockedTarget) -> LockedTarget:
    from envspec.lock.graph import Graph, Node

    try:
        reached = Graph.of(target).outgoing
    except InternalError:
        return target
    pins = tuple(pin for pin in target.pins if Node(pin.kind, pin.name) in reached)
    return LockedTarget(target.name, target.inputs, pins)


def holds(marker: str, variables: Mapping[str, str]) -> bool:
    """Whether a PEP 508 marker holds, no extra asked for. Raises Malformed for what is no marker."""
    from packaging.markers import InvalidMarker, Marker, UndefinedEnvironmentName

    try:
        # pylock.toml adds `extras` and `dependency_groups` to PEP 508: nothing is asked for of either
        return Marker(marker).evaluate({**variables, "extra": ""})
    except InvalidMarker as error:
        raise Malformed(f"{marker!r} is no marker: {str(error).splitlines()[0]}") from None
    except (UndefinedEnvironmentName, KeyError):
        return False


def best_file(files: Iterable[Artifact], environment: Environment) -> Artifact | None:
    """The file that an installer takes: the wheel with the best tag, else the source."""
    ranks = _ranks(environment.platform, environment.python, environment.glibc)
    best: tuple[int, Artifact] | None = None
    source: Artifact | None = None
    for one in files:
        if not one.file.endswith(".whl"):
            source = source or one
            continue
        rank = min((ranks[tag] for tag in _tags(one.file) if tag in ranks), default=None)
        if rank is not None and (best is None or rank < best[0]):
            best = (rank, one)
    return best[1] if best else source


@lru_cache(maxsize=16)
def _ranks(platform: str, python: str, glibc: str | None) -> dict[Tag, int]:
    from envspec.lock.tags import ranked_tags

    try:
        return {tag: rank for rank, tag in enumerate(ranked_tags(platform, python, glibc))}
    except InputError:
        return {}


@lru_cache(maxsize=8192)
def _tags(file: str) -> frozenset[Tag]:
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        return parse_wheel_filename(file)[3]
    except InvalidWheelFilename:
        return frozenset()
