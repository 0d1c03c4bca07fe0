"""Newer releases of a lock's packages, the bounds that hold each back, and the last torch that a target gets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version

from envspec.base.errors import EnvspecError
from envspec.base.finding import Finding
from envspec.facts import released, torch_builds, wheels
from envspec.facts.corrections import admits
from envspec.lock.graph import Edge, Graph, Node
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.lock.variant_build import machine_of, versions_of
from envspec.net.index_proxy.pages import Upstream
from envspec.net.index_proxy.releases import Release, version_of
from envspec.packages.names import requirement_name
from envspec.packages.tags import takes_python, wheel_fits
from envspec.packages.variant_choice import TargetMachine
from envspec.resolve.pip.solve import PipResolver
from envspec.resolve.workflow.prepare import NotAfter
from envspec.rules.case import Case
from envspec.rules.horizon import Horizon, horizon
from envspec.rules.judge import case_of
from envspec.rules.wanted import torch_of
from envspec.spec.model import Spec


class BetterVariant(Struct, frozen=True):
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
    """Find the pins with a better variant. `offered` gives the label of a pin's release that a machine would get today,
    None where that isn't known. Raises what `offered` raises."""
    targets_by_variant: dict[BetterVariant, list[str]] = {}
    for target in targets:
        for pin in target.pins:
            variant = pin.artifact.variant if pin.artifact else None
            if variant is None or pin.url or pin.git:
                continue
            today = offered(pin, machine_of(target.inputs, versions_of(target.pins)))
            if today not in (None, variant.label):
                better = BetterVariant(pin.name, pin.index, pin.version, variant.label, str(today))
                targets_by_variant.setdefault(better, []).append(target.name)
    return tuple(
        replace(better, targets=tuple(names))
        for better, names in sorted(targets_by_variant.items(), key=lambda i: i[0].name)
    )


ReleasesOf = Callable[[Pin], Sequence[Release]]
"""A pin's releases on the index that it comes from, newest first; none where that index isn't asked."""

Kind = Literal["bound", "policy", "cap", "requirement", "target", "unknown"]


class Hold(Struct, frozen=True):
    """The reason why a newer release isn't locked.

    `kind` names it: the spec's `exclude-newer`, the site's policy, a constraint or override of the spec, a requirement
    of the spec or of a package, or the target's Python, platform or CUDA. `by` is the package that asks, None for the
    spec; `requirement` is its requirement. `path` names the packages that lead from the spec to it.
    """

    kind: Kind
    reason: str
    by: str | None = None
    requirement: str | None = None
    path: tuple[str, ...] = ()


_COMPANIONS = (*(name for name in wheels.FAMILY if name != "torch"), "triton")
"""Packages that are made for one release of torch."""

_UNKNOWN = Hold("unknown", "what it requires itself doesn't go with the rest")


class Newer(Struct, frozen=True):
    """A pin with a newer final release, in the targets where it is held back by the same.

    within    the newest release that the spec's `exclude-newer`, and the site's policy, admit
    newest    the newest of all, and the day of its first file (`uploaded`)
    upgrade   the version that an upgrade of all packages takes
    holds     the single bound that keeps an upgrade from `within`, or `within` from `newest`; empty without one
    """

    name: str
    index: str
    direct: bool
    locked: str
    within: str
    newest: str
    uploaded: str | None
    upgrade: str
    holds: tuple[Hold, ...]
    targets: tuple[str, ...] = ()


class VersionOf(Struct, frozen=True):
    """A release that some targets have, and the bound that keeps these from the newest one of the lock; None for the
    newest itself."""

    version: str
    targets: tuple[str, ...]
    reason: str | None


class Differing(Struct, frozen=True):
    """A package of which targets have different releases, the newest first."""

    name: str
    versions: tuple[VersionOf, ...]


class Sides(Struct, frozen=True):
    """A lock, and the lock after an upgrade of all its packages: a bound that holds a release back there isn't a
    consequence of the old pins. `bounds` are the packages that are exempt from `exclude-newer`, `site` is the site's
    bound."""

    lock: Lock
    upgraded: Lock
    bounds: Mapping[str, str | None]
    site: NotAfter | None = None

    def bound(self, name: str) -> tuple[Kind, str | None]:
        """Give the bound in time on a package's releases: its kind (whose it is), and its moment, None without one."""
        own = self.bounds.get(name, self.upgraded.inputs.exclude_newer)
        if self.site is None or name in self.site.exempt or (own is not None and own <= self.site.moment):
            return "bound", own
        return "policy", self.site.moment


def find_newer(sides: Sides, targets: Iterable[LockedTarget], releases: ReleasesOf) -> tuple[Newer, ...]:
    """Find every pip pin with a newer final release that isn't yanked, by name. Pins by URL or git have none."""
    targets_by_release: dict[Newer, list[str]] = {}
    for target in targets:
        then = sides.upgraded.target(target.name) or target
        graph = Graph.of(then)
        for pin in target.pins:
            if pin.kind == "pip" and pin.url is None and pin.git is None:
                for newer in _newer(sides, then, graph, pin, releases(pin)):
                    targets_by_release.setdefault(newer, []).append(target.name)
    in_order = sorted(targets_by_release.items(), key=lambda pair: (pair[0].name, pair[1]))
    return tuple(replace(newer, targets=tuple(names)) for newer, names in in_order)


def find_differing(sides: Sides, targets: Sequence[LockedTarget], releases: ReleasesOf) -> tuple[Differing, ...]:
    """Find the packages that the spec asks for by name and of which targets have different releases, with the
    reasons."""
    groups_by_name: dict[str, dict[Version, list[LockedTarget]]] = {}
    for target in targets:
        for pin in target.pins:
            version = version_of(pin.version) if pin.kind == "pip" and pin.direct else None
            if version is not None:
                groups_by_name.setdefault(pin.name, {}).setdefault(Version(version.public), []).append(target)
    differing = []
    for name, groups in sorted(groups_by_name.items()):
        if len(groups) > 1:
            best = max(groups)
            rows = (
                VersionOf(
                    str(version),
                    tuple(target.name for target in of),
                    None if version == best else _reason(sides, of[0], name, best, releases),
                )
                for version, of in sorted(groups.items(), reverse=True)
            )
            differing.append(Differing(name, tuple(rows)))
    return tuple(differing)


def _reason(sides: Sides, target: LockedTarget, name: str, version: Version, releases: ReleasesOf) -> str:
    """Return the reason that keeps a target from a release of another target."""
    then = sides.upgraded.target(target.name) or target
    pin, after = target.pin(name, "pip"), then.pin(name, "pip")
    if pin is None or after is None:
        return _UNKNOWN.reason
    taken = version_of(after.version)
    if taken is not None and Version(taken.public) >= version:
        return "nothing: an upgrade takes it"
    release = next((candidate for candidate in releases(pin) if version_of(candidate.version) == version), None)
    if release is None:
        return f"{pin.index} has no {name} {version}"
    return _hold(sides, then, Graph.of(then), after, release).reason


def facts_releases(pin: Pin) -> tuple[Release, ...]:
    """List the releases of a PyTorch index's package in the shipped facts, newest first, as far as they have the files;
    none for an index that the facts don't have."""
    variant = pin.index.partition("/")[2]
    if variant not in wheels.variants():
        return ()
    rows: dict[Version, list[wheels.WheelFile]] = {}
    for file in wheels.load(variant).files(pin.name):
        if version := version_of(file.version):
            rows.setdefault(Version(version.public), []).append(file)
    return tuple(
        Release(
            str(version),
            tuple(file.file for file in files),
            source=False,
            yanked=False,
            requires_python=files[0].requires_python,
            uploaded=min((file.upload_time for file in files if file.upload_time), default=None)
            or released.date(pin.name, str(version)),
        )
        for version, files in sorted(rows.items(), reverse=True)
    )


def _newer(sides: Sides, then: LockedTarget, graph: Graph, pin: Pin, releases: Sequence[Release]) -> Iterator[Newer]:
    locked = version_of(pin.version)
    after = then.pin(pin.name, "pip") or pin
    final = [
        (version, candidate)
        for candidate in releases
        if (version := version_of(candidate.version)) and not candidate.yanked
    ]
    final = [(version, candidate) for version, candidate in final if not version.is_prerelease]
    if locked is None or not final or not _above(final[0][0], locked):
        return
    (newest, release), (kind, bound) = final[0], sides.bound(pin.name)
    own = (locked, None)
    within, admitted = next(((version, candidate) for version, candidate in final if candidate.is_before(bound)), own)
    taken = version_of(after.version) or locked
    hold: tuple[Hold, ...] = ()
    if admitted is not None and _above(within, taken):
        hold = (_hold(sides, then, graph, after, admitted),)
    elif _above(newest, max(within, taken)):
        whose = "exclude-newer" if kind == "bound" else "the site's policy"
        hold = (Hold(kind, f"{whose}, {bound}: {_day(release)}"),)
    shown = (
        str(max(within, locked)).partition("+")[0],
        newest.public,
        release.uploaded,
        after.version.partition("+")[0],
    )
    yield Newer(pin.name, pin.index, pin.direct, pin.version, *shown, hold)


def _above(version: Version, locked: Version) -> bool:
    """Return whether a release is newer; the build (`+cu128`) of the same release isn't."""
    return Version(version.public) > Version(locked.public)


def _day(release: Release) -> str:
    return f"it is of {release.uploaded[:10]}" if release.uploaded else "its index has no date of it"


def _hold(sides: Sides, target: LockedTarget, graph: Graph, pin: Pin, release: Release) -> Hold:
    """Find the one thing that keeps a release out of an upgraded target: the target itself, the spec's caps and
    requirements, then a package's that isn't there for this very package."""
    inputs = target.inputs
    here = release.on((inputs.platform, inputs.python, inputs.glibc))
    version = version_of(release.version)
    if version is None:
        return _UNKNOWN
    return next(_holds(sides.upgraded, target, graph, pin, here, version), _UNKNOWN)


def _holds(
    lock: Lock, target: LockedTarget, graph: Graph, pin: Pin, release: Release, version: Version
) -> Iterator[Hold]:
    yield from (Hold("target", reason) for reason in _unfit(lock, target, pin, release))
    for kind, lines in (
        ("constraint", target.inputs.constraints),
        ("override", [line for line, _ in target.inputs.overrides]),
    ):
        for line in lines:
            if requirement_name(line) == pin.name and not admits(line, str(version)):
                yield Hold("cap", f"the spec's {kind} {line}", requirement=line)
    node = Node(pin.kind, pin.name)
    edges = [edge for edge in graph.roots if edge.target == node]
    edges += [edge for edge in graph.incoming.get(node, ()) if edge.source and not _leads(graph, node, edge.source)]
    for edge in edges:
        if edge.kind == "pip" and not admits(edge.requirement, str(version)):
            yield _by_requirement(graph, edge)
    torch = target.pin("torch", "pip")
    if pin.name in _COMPANIONS and torch is not None:
        yield Hold("requirement", f"it goes with torch {torch.version}", by="torch")


def _leads(graph: Graph, start: Node, end: Node) -> bool:
    """Return whether a package requires another one, also by way of others."""
    seen, left = {start}, [start]
    while left:
        for edge in graph.outgoing.get(left.pop(), ()):
            if edge.target == end:
                return True
            if edge.target not in seen:
                seen.add(edge.target)
                left.append(edge.target)
    return False


def _by_requirement(graph: Graph, edge: Edge) -> Hold:
    if edge.source is None:
        return Hold("requirement", f"the spec asks for {edge.text}", requirement=edge.requirement)
    steps = next(iter(graph.paths_to(edge.source.name, limit=1)), ())
    name = edge.source.name
    return Hold(
        "requirement",
        f"{name} {graph.pins[edge.source].version} asks for {edge.text}",
        by=name,
        requirement=edge.requirement,
        path=tuple(step.target.name for step in steps),
    )


def _unfit(lock: Lock, target: LockedTarget, pin: Pin, release: Release) -> Iterator[str]:
    """Return the obstacle between a release and a target, apart from requirements."""
    inputs = target.inputs
    if not takes_python(release.requires_python or "", inputs.full_python):
        yield f"it needs Python {release.requires_python}"
    if pin.name == "torch" and pin.index == "pypi":
        variant = torch_builds.pypi_variant(release.version, inputs.platform)
        if variant not in (None, torch_builds.variant_of(inputs.cuda)):
            yield f"its build on PyPI is {variant}, not {torch_builds.variant_of(inputs.cuda)}"
    here = inputs.platform, inputs.python, inputs.glibc
    if release.wheels and not any(wheel_fits(file, *here) for file in release.wheels):
        yield "none of its wheels fits the platform, the Python or the glibc"
    elif not release.wheels and pin.name not in lock.inputs.allow_source:
        yield "it has no wheel, and the spec doesn't allow its source"


def held_findings(spec: Spec, newer: Iterable[Newer], names: Collection[str]) -> Iterator[Finding]:
    """Report the bounds that hold packages of these names back, with the newest release and the change that admits it;
    and the packages that are locked in their newest release."""
    held = set()
    for package in newer:
        held.add(package.name)
        day = f" of {package.uploaded[:10]}" if package.uploaded else ""
        why = "; ".join(hold.reason for hold in package.holds)
        message = f"{package.name} stays at {package.locked}, and the newest is {package.newest}{day}: {why}"
        yield Finding("info", "upgrade-held", message, remedy=_suggestion(spec, package))
    for name in sorted({*names} - held):
        yield Finding("info", "upgrade-held", f"{name} is locked in its newest release")


def _suggestion(spec: Spec, newer: Newer) -> str | None:
    """Return the line for the spec where only the spec holds a release back."""
    if not newer.holds:
        return None
    hold = newer.holds[0]
    if hold.kind == "bound" and newer.uploaded:
        day = date.fromisoformat(newer.uploaded[:10]) + timedelta(days=1)
        line = f'{newer.name} = {{ exclude-newer = "{day}", reason = "why it can\'t wait" }}'
        exempt = [exception.name for exception in spec.newer_for if not exception.of_index]
        if newer.name in exempt:
            return f"change in [env.exclude-newer-package]: {line}"
        return (
            f"add to [env.exclude-newer-package]: {line}" if exempt else f"add to [env]: exclude-newer-package.{line}"
        )
    if hold.by is None and hold.requirement:
        return f"change the spec's {hold.requirement}, so that it admits {newer.within}"
    return None


def list_releases(resolver: PipResolver, pin: Pin) -> Sequence[Release]:
    """List a pin's releases on its own index: those of PyTorch's by the shipped facts. None for a flat index."""
    if pin.index.startswith("pytorch/"):
        return facts_releases(pin)
    url = resolver.default_index if pin.index == "pypi" else resolver.indexes.get(pin.index)
    if url is None or pin.url or pin.git:
        return ()
    return resolver.pages.current(Upstream(url), pin.name)


def offered_variant(resolver: PipResolver, failed: dict[str, str], pin: Pin, machine: TargetMachine) -> str | None:
    """Find the variant of a pin's release that a machine would get today; of a flat index's pages the first counts that
    has one."""
    url = resolver.default_index if pin.index == "pypi" else resolver.indexes.get(pin.index)
    pages = [page for (index, _), page in resolver.flat.items() if index == pin.index]
    upstreams = [(page, True) for page in pages] if url is None else [(url, False)]
    try:
        for place, flat in upstreams:
            upstream = Upstream(place, flat=flat, variants=frozenset({pin.name}), machine=machine)
            variant = resolver.pages.variant(upstream, pin.name, pin.version)
            if variant is not None:
                return variant.label
    except EnvspecError as error:
        failed[pin.name] = str(error)
    return None


class TargetHorizon(Struct, frozen=True):
    """The last torch that a target gets, and the changes that lead further. `channel` is "pip" or "conda"."""

    target: str
    locked: str
    channel: str
    case: Case
    horizon: Horizon


def horizon_of(spec: Spec, target: LockedTarget) -> TargetHorizon | None:
    """Find the horizon of a target; None without a torch of the tables."""
    of_spec = spec.target(target.name)
    requirement = torch_of(spec, of_spec) if of_spec else None
    pin = next((pin for pin in target.pins if pin.name in ("torch", "pytorch")), None)
    if of_spec is None or requirement is None or pin is None:
        return None
    case = case_of(spec, of_spec)
    return TargetHorizon(target.name, pin.version, requirement.channel, case, horizon(case, requirement.channel))
