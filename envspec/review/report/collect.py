"""From a lock and its spec to what the page shows. No network, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from envspec.facts import wheels
from envspec.lock.graph import Graph, Node
from envspec.lock.model import LockedPython, LockedTarget, Pin
from envspec.packages.licences import is_acceptable
from envspec.prove.proof.model import Standing
from envspec.prove.rungs import RUNGS, said
from envspec.review.diff.rows import Review
from envspec.review.report.coverage import coverage
from envspec.review.report.model import (
    AuditSummary,
    KnownRelease,
    Licence,
    Link,
    PackageRow,
    Page,
    PythonRow,
    TargetRow,
    Variant,
)
from envspec.spec.model import Audit as Rules
from envspec.spec.model import Spec

_LONGEST = 120
"""The longest licence shown, in characters. Some packages put the whole text there."""


def page_of(
    spec: Spec,
    targets: Sequence[LockedTarget],
    *,
    lock: str,
    digest: str,
    audit: AuditSummary | None,
    review: Review | None,
    uncompared: str = "",
    standings: Iterable[Standing] = (),
    pythons: Iterable[LockedPython] = (),
) -> Page:
    """Make the page of these targets of a lock. `lock` is its path for people, `digest` the digest that it records,
    `standings` how far its targets are proved, and `pythons` the builds of Python that it names."""
    proved = {one.target: one.line for one in standings}
    numbers = numbers_of(targets)
    names = _licence_names(targets, spec.audit)
    packages = tuple(_packages(targets, numbers, names, spec.audit, audit.releases if audit else ()))
    return Page(
        name=spec.name,
        description=spec.description,
        spec=spec.path,
        lock=lock,
        digest=digest,
        exclude_newer=spec.exclude_newer,
        targets=tuple(_target(target, numbers, proved.get(target.name, said(RUNGS[0]))) for target in targets),
        pythons=tuple(_pythons(pythons, targets)),
        base_python=spec.image.python == "base",
        packages=packages,
        links=tuple(_links(targets, numbers)),
        licences=tuple(_licences(packages, names, spec.audit)),
        coverage=coverage(targets),
        audit=audit,
        review=review,
        uncompared=uncompared,
    )


def numbers_of(targets: Iterable[LockedTarget]) -> dict[Node, int]:
    """Return the place of each package in `Page.packages`: by name, pip before conda where both have one."""
    nodes = {Node(pin.kind, pin.name) for target in targets for pin in target.pins}
    ordered = sorted(nodes, key=lambda node: (node.name, node.kind == "conda"))
    return {node: number for number, node in enumerate(ordered)}


def _target(target: LockedTarget, numbers: Mapping[Node, int], proved: str) -> TargetRow:
    sizes = {numbers[Node(pin.kind, pin.name)]: _size(pin) for pin in target.pins}
    inputs = target.inputs
    return TargetRow(
        name=target.name,
        platform=inputs.platform,
        python=inputs.python,
        glibc=inputs.glibc,
        cuda=inputs.cuda,
        gpus=inputs.gpus,
        driver_floor=target.driver_floor,
        packages=len(sizes),
        download=sum(size for size in sizes.values() if size is not None),
        unsized=tuple(sorted(number for number, size in sizes.items() if size is None)),
        proved=proved,
    )


def _pythons(builds: Iterable[LockedPython], targets: Sequence[LockedTarget]) -> Iterable[PythonRow]:
    for one in builds:
        places = tuple(
            place
            for place, target in enumerate(targets)
            if target.inputs.platform == one.platform and not target.pin("python", "conda")
        )
        if places:
            yield PythonRow(one.platform, one.version, one.build, one.file, one.sha256, places)


def _packages(
    targets: Sequence[LockedTarget],
    numbers: Mapping[Node, int],
    names: Sequence[str | None],
    rules: Rules,
    releases: Iterable[KnownRelease],
) -> Iterable[PackageRow]:
    pins: dict[Node, dict[int, Pin]] = {node: {} for node in numbers}
    for place, target in enumerate(targets):
        for pin in target.pins:
            pins[Node(pin.kind, pin.name)][place] = pin
    licences = {name: number for number, name in enumerate(names)}
    known = {(one.kind, one.name, one.version, one.index): one for one in releases}
    for node, found in pins.items():
        groups: dict[tuple[object, ...], list[int]] = {}
        for place, pin in found.items():
            groups.setdefault(_alike(pin), []).append(place)
        variants = []
        for places in groups.values():
            pin = found[places[0]]
            artifact, licence = pin.artifact, licences[_licence(pin, rules)]
            file, size = artifact.file if artifact else None, _size(pin)
            where = tuple(places)
            source, origin = _source(pin), pin.git.url if pin.git else pin.url
            told = known.get((pin.kind, pin.name, pin.version, pin.index))
            asked = (told.published, told.page) if told else (None, None)
            variants.append(
                Variant(pin.version, pin.build, pin.index, source, licence, file, size, where, origin, *asked)
            )
        direct = tuple(place for place, pin in found.items() if pin.direct)
        yield PackageRow(node.kind, node.name, direct, tuple(variants))


def _size(pin: Pin) -> int | None:
    """Return the bytes of a pin's file. A lock has none of what a PyTorch index serves, unless the tables had them."""
    if pin.artifact is None or pin.artifact.size is not None:
        return pin.artifact.size if pin.artifact else None
    return wheels.size_of(pin.index, pin.artifact.file, pin.artifact.sha256)


def _alike(pin: Pin) -> tuple[object, ...]:
    """Return what must be equal for two targets to install the same."""
    return (pin.version, pin.build, pin.index, pin.artifact, pin.git, pin.url, pin.licence)


def _source(pin: Pin) -> str:
    if pin.kind == "conda" or pin.git:
        return "git" if pin.git else "conda"
    if pin.is_wheel:
        return "wheel"
    return "url" if pin.url else "sdist"


def _links(targets: Sequence[LockedTarget], numbers: Mapping[Node, int]) -> Iterable[Link]:
    found: dict[tuple[int, int, str], list[int]] = {}
    for place, target in enumerate(targets):
        graph = Graph.of(target)
        for edge in (*graph.roots, *(edge for edges in graph.outgoing.values() for edge in edges)):
            source = -1 if edge.source is None else numbers[edge.source]
            places = found.setdefault((source, numbers[edge.target], edge.told), [])
            if place not in places:
                places.append(place)
    for (source, target_number, requirement), places in sorted(found.items()):
        yield Link(None if source < 0 else source, target_number, requirement, tuple(places))


def _licence(pin: Pin, rules: Rules) -> str | None:
    """Return the licence by the spec, else by the metadata, cut where that is a whole text."""
    told = rules.licence_of(pin.name, pin.licence)
    text = " ".join(told.split()) if told else ""
    return (text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…") or None


def _licence_names(targets: Iterable[LockedTarget], rules: Rules) -> tuple[str | None, ...]:
    found = {_licence(pin, rules) for target in targets for pin in target.pins}
    return (*sorted((name for name in found if name), key=lambda name: (name.lower(), name)), None)


def _licences(packages: Sequence[PackageRow], names: Sequence[str | None], rules: Rules) -> Iterable[Licence]:
    holders: dict[int, list[int]] = {}
    for number, package in enumerate(packages):
        for licence in dict.fromkeys(variant.licence for variant in package.variants):
            holders.setdefault(licence, []).append(number)
    for licence, name in enumerate(names):
        yield Licence(name, verdict(name, rules), tuple(holders.get(licence, ())))


def verdict(licence: str | None, rules: Rules) -> str:
    """Return what the spec's `[audit]` says of a licence, as `Licence.verdict`. An unknown licence is on no list."""
    allow, deny = rules.allow_licences, rules.deny_licences
    if not allow and (not deny or licence is None):
        return "none"
    if licence is None:
        return "unlisted"
    if is_acceptable(licence, allow, deny):
        return "accepted"
    return "unlisted" if is_acceptable(licence, (), deny) else "denied"
