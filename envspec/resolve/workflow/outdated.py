"""Newer releases of a lock's packages, and the bounds that hold each back. Pure: releases come in through a
function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from packaging.version import Version, Version as Parsed

from envspec.facts import torch_builds, wheels
from envspec.lock.graph import Edge, Graph, Node
from envspec.lock.machine import machine_of, versions_of
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.net.index_proxy.releases import Release, version_of
from envspec.packages.names import requirement_name
from envspec.packages.requirement import published_requirement
from envspec.packages.tags import takes_python, wheel_fits
from envspec.packages.variant_choice import TargetMachine


@dataclass(frozen=True)
class BetterVariant:
    """A pin of which the index has a variant that its targets would get today.

    locked, better  labels
    """

    name: str
    index: str
    version: str
    locked: str
    better: str
    targets: tuple[str, ...] = ()


def better_variants(
    targets: Iterable[LockedTarget], offered: Callable[[Pin, TargetMachine], str | None]
) -> tuple[BetterVariant, ...]:
    """Find the pins with a better variant. `offered` gives the label that a machine would get of a pin's release today,
    None where that isn't known. Raises what it raises."""
    found: dict[BetterVariant, list[str]] = {}
    for target in targets:
        for pin in target.pins:
            variant = pin.artifact.variant if pin.artifact else None
            if variant is None or pin.url or pin.git:
                continue
            today = offered(pin, machine_of(target.inputs, versions_of(target.pins)))
            if today not in (None, variant.label):
                one = BetterVariant(pin.name, pin.index, pin.version, variant.label, str(today))
                found.setdefault(one, []).append(target.name)
    return tuple(replace(one, targets=tuple(names)) for one, names in sorted(found.items(), key=lambda i: i[0].name))


ReleasesOf = Callable[[Pin], Sequence[Release]]
"""A pin's releases on the index that it comes from, newest first; none where that index isn't asked."""


@dataclass(frozen=True)
class Hold:
    """A reason why a newer release isn't locked.

    `by` is the package that asks, None for the spec; `requirement` is what it asks for. `path` names the packages that
    lead from the spec to it. Where no requirement holds, `reason` says what does: the Python, the platform, the date
    (`is_bound`).
    """

    reason: str
    by: str | None = None
    requirement: str | None = None
    path: tuple[str, ...] = ()

    @property
    def is_bound(self) -> bool:
        """Whether it is the spec's `exclude-newer`."""
        return self.reason.startswith(_BOUND)


_BOUND = "it isn't known to be from before exclude-newer "
_COMPANIONS = (*(name for name in wheels.FAMILY if name != "torch"), "triton")
"""Packages that are made for one release of torch."""


@dataclass(frozen=True)
class Newer:
    """A pin with a newer final release, in the targets where it is held back by the same. Without holds,
    `lock --upgrade-package` takes it, unless packages that it requires stand in its way."""

    name: str
    index: str
    locked: str
    newest: str
    uploaded: str | None
    holds: tuple[Hold, ...]
    targets: tuple[str, ...] = ()

    @property
    def goes_with(self) -> str | None:
        """The one package that pins it exactly, or that it is made for, where nothing else holds it back."""
        by = {hold.by for hold in self.holds}
        exact = all(hold.requirement is None or "==" in hold.requirement for hold in self.holds)
        return by.pop() if len(by) == 1 and exact else None


def find_newer(
    lock: Lock,
    targets: Iterable[LockedTarget],
    releases: ReleasesOf,
    bounds: Mapping[str, str | None] = MappingProxyType({}),
) -> tuple[Newer, ...]:
    """Find every pip pin with a newer final release that isn't yanked, by name. Pins by URL or git have none. `bounds`
    are the packages that the spec's `exclude-newer` doesn't hold for."""
    found: dict[Newer, list[str]] = {}
    for target in targets:
        graph = Graph.of(target)
        for pin in target.pins:
            if pin.kind == "pip" and pin.url is None and pin.git is None:
                bound = bounds.get(pin.name, lock.inputs.exclude_newer)
                for newer in _newer(lock, target, graph, pin, releases(pin), bound):
                    found.setdefault(newer, []).append(target.name)
    return tuple(
        Newer(one.name, one.index, one.locked, one.newest, one.uploaded, one.holds, tuple(names))
        for one, names in sorted(found.items(), key=lambda item: (item[0].name, item[1]))
    )


def facts_releases(pin: Pin) -> tuple[Release, ...]:
    """List the releases of a PyTorch index's package in the shipped facts, newest first; none for an index that the
    facts don't have."""
    variant = pin.index.partition("/")[2]
    if variant not in wheels.variants():
        return ()
    rows: dict[Version, list[wheels.WheelFile]] = {}
    for file in wheels.load(variant).files(pin.name):
        if version := version_of(file.version):
            rows.setdefault(version, []).append(file)
    return tuple(
        Release(
            str(version),
            tuple(file.file for file in files),
            source=False,
            yanked=False,
            requires_python=files[0].requires_python,
            uploaded=min((file.upload_time for file in files if file.upload_time), default=None),
        )
        for version, files in sorted(rows.items(), reverse=True)
    )


def _newer(
    lock: Lock, target: LockedTarget, graph: Graph, pin: Pin, releases: Sequence[Release], bound: str | None
) -> Iterator[Newer]:
    locked = version_of(pin.version)
    if locked is None:
        return
    for release in releases:
        version = version_of(release.version)
        if version is None or version.is_prerelease or release.yanked:
            continue
        if _above(version, locked):
            inputs = target.inputs
            here = release.on((inputs.platform, inputs.python, inputs.glibc))
            holds = tuple(_holds(lock, target, graph, pin, here, version, bound))
            yield Newer(pin.name, pin.index, pin.version, str(version), release.uploaded, holds)
        return


def _above(version: Version, locked: Version) -> bool:
    """Say whether a release is newer; the build (`+cu128`) of the same release isn't."""
    return Parsed(version.public) > Parsed(locked.public)


def _holds(
    lock: Lock, target: LockedTarget, graph: Graph, pin: Pin, release: Release, version: Version, bound: str | None
) -> Iterator[Hold]:
    node = Node(pin.kind, pin.name)
    for edge in (*graph.roots, *graph.incoming.get(node, ())):
        if edge.target == node and edge.kind == "pip" and not _admits(edge.requirement, version):
            yield _hold(graph, edge)
    for kind, lines in (
        ("constraint", target.inputs.constraints),
        ("override", [line for line, _ in target.inputs.overrides]),
    ):
        for line in lines:
            if requirement_name(line) == pin.name and not _admits(line, version):
                yield Hold(f"the spec's {kind} {line}", requirement=line)
    torch = target.pin("torch", "pip")
    if pin.name in _COMPANIONS and torch is not None:
        yield Hold(f"it goes with torch {torch.version}", by="torch")
    yield from map(Hold, _unfit(lock, target, pin, release, bound))


def _hold(graph: Graph, edge: Edge) -> Hold:
    if edge.source is None:
        return Hold(f"the spec asks for {edge.told}", requirement=edge.requirement)
    way = next(iter(graph.paths_to(edge.source.name, limit=1)), ())
    name = edge.source.name
    return Hold(
        f"{name} {graph.pins[edge.source].version} asks for {edge.told}",
        by=name,
        requirement=edge.requirement,
        path=tuple(step.target.name for step in way),
    )


def _unfit(lock: Lock, target: LockedTarget, pin: Pin, release: Release, bound: str | None) -> Iterator[str]:
    """The obstacle between a release and a target, whatever the requirements say."""
    inputs = target.inputs
    if not takes_python(release.requires_python or "", inputs.full_python):
        yield f"it needs Python {release.requires_python}"
    if bound and not "" < (release.uploaded or "")[:19] < bound[:19]:
        yield f"{_BOUND}{bound}"
    if pin.name == "torch" and pin.index == "pypi":
        variant = torch_builds.pypi_variant(release.version, inputs.platform)
        if variant not in (None, torch_builds.variant_of(inputs.cuda)):
            yield f"its build on PyPI is {variant}, not {torch_builds.variant_of(inputs.cuda)}"
    here = inputs.platform, inputs.python, inputs.glibc
    if release.wheels and not any(wheel_fits(file, *here) for file in release.wheels):
        yield "none of its wheels fits the platform, the Python or the glibc"
    elif not release.wheels and pin.name not in lock.inputs.allow_source:
        yield "it has no wheel, and the spec doesn't allow its source"


def _admits(line: str, version: Version) -> bool:
    return published_requirement(line).specifier.contains(version, prereleases=True)
