"""The refusals of the rules for a solution, turned into bounds for the next one, and the releases given up for them.
Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.finding import Finding
from envspec.facts.cuda_stack import VERSIONED_BY_CUDA, extras_for
from envspec.lock.model import Pin
from envspec.net.index_proxy.releases import version_of
from envspec.packages.edges import shortest_paths
from envspec.packages.requirement import head_of, published_requirement, with_extras
from envspec.resolve.pip.notes import moved_beside
from envspec.resolve.pip.outgrown import names_torch
from envspec.resolve.pip.retreat import newer_pythons
from envspec.rules.case import hint_to_keep
from envspec.spec.way import Way


class GivenUp(Struct, frozen=True):
    """A pin that can't work on a target, and how the spec led to it.

    finding  of the rules, with its bound
    path     names of packages, from what the spec asks for to the pin
    pins     the versions of that solution
    """

    finding: Finding
    path: tuple[str, ...]
    pins: Mapping[str, str]

    @property
    def final(self) -> str | None:
        """The package that was given up, if that was a final release: then no pre-release stands in for it."""
        name = head_of(str(self.finding.bound)).name
        version = version_of(self.pins.get(name, ""))
        return name if version is not None and not version.is_prerelease else None

    def first_move(self, now: Mapping[str, str]) -> str:
        """Find the first package of the path that has another version `now`, or none."""
        return next((name for name in self.path if now.get(name) != self.pins[name]), self.path[-1])


def describe_moves(given_up: Iterable[GivenUp], now: Mapping[str, str]) -> tuple[Finding, ...]:
    """Report each package that had to move: the version locked instead, the first reason, and the way to keep the pin,
    where that may be safe."""
    lines: dict[str, tuple[str, str | None]] = {}
    given_up = tuple(given_up)
    for lost in given_up:
        moved = lost.first_move(now)
        instead = f"{moved} {now[moved]} is locked, not {lost.pins[moved]}" if moved in now else f"{moved} isn't locked"
        behind = " → ".join(lost.path[lost.path.index(moved) + 1 :])
        leads = f", which leads to {behind}" if behind else ""
        lines.setdefault(moved, (f"{instead}{leads}: {lost.finding.message}", hint_to_keep(lost.finding)))
    if lines:
        # against the first solution, which is uv's answer to the spec
        first, (text, how) = next(iter(lines.items()))
        lines[first] = (f"{text}{moved_beside(given_up[0].pins, now, lines)}", how)
    return tuple(Finding("info", "given-up", text, remedy=how, package=moved) for moved, (text, how) in lines.items())


def retreats(given_up: Iterable[GivenUp], pins: Sequence[Pin], python: str | None = None) -> tuple[Finding, ...]:
    """Refuse the older releases that a solution has in place of releases made for an older target. An older release is
    an answer only if it names the target's own torch, by a pin or a bound that refuses the next minor. A newer Python
    than the target's `python` may bring the release that does.
    """
    now = {pin.name: pin for pin in pins}
    newer = [Way(python=version) for version in (newer_pythons(python) if python else ())]
    findings: dict[str, Finding] = {}
    for release in given_up:
        moved = release.first_move({name: pin.version for name, pin in now.items()})
        pin = now.get(moved)
        torch = now["torch"].version if "torch" in now else None
        lost = torch is None and "torch" in release.pins
        bounded = head_of(str(release.finding.bound)).name
        # what has CUDA's own version names the target's by it
        own = bounded in VERSIONED_BY_CUDA and bounded in now
        if pin is None or own or not (release.finding.outgrown or lost) or names_torch(pin.dependencies, torch):
            continue
        name = f"{moved} {release.pins[moved]}"
        leads = (
            f" leads to {' → '.join(release.path[release.path.index(moved) + 1 :])}"
            if moved != release.path[-1]
            else ""
        )
        message = f"{name}{leads}: {release.finding.message}; {moved} {pin.version} doesn't, and names nothing newer"
        bound = f"{moved}<={pin.version}"
        older = Way(bounds=(bound,))
        findings.setdefault(
            moved,
            Finding(
                "error",
                "retreat",
                message,
                release.finding.place,
                release.finding.remedy,
                package=moved,
                bound=bound,
                ways=(*newer, *release.finding.ways, older),
            ),
        )
    return tuple(findings.values())


def sacrifices(
    findings: Iterable[Finding], pins: Sequence[Pin], requirements: Sequence[str], cuda: str | None = None
) -> tuple[GivenUp, ...]:
    """List the pins of a refused solution that bounds may change; none if a part of the refusal has no bound. `cuda` is
    the target's."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if not all(finding.bound for finding in errors):
        return ()
    versions = {pin.name: pin.version for pin in pins}
    paths = _paths(pins, requirements)
    named = ((finding, head_of(str(finding.bound)).name) for finding in errors)
    ways = ((finding, paths.get(name, (name,))) for finding, name in named if name in versions)
    return tuple(
        GivenUp(_with_own_extra(finding, path, pins, requirements, cuda), path, versions) for finding, path in ways
    )


def _with_own_extra(
    finding: Finding, path: Sequence[str], pins: Sequence[Pin], lines: Iterable[str], cuda: str | None
) -> Finding:
    """Add to a refusal of another CUDA's package the extra for the target's, where an extra of the spec led there:
    numba-cuda[cu13] in place of numba-cuda[cu12]."""
    offered = {
        extra
        for pin in pins
        if pin.name == path[0]
        for extra in (pin.solver.metadata.extras if pin.solver.metadata else ())
    }
    for line in lines:
        head = head_of(line)
        extras = extras_for(cuda.partition(".")[0], head.extras, offered) if cuda and head.name == path[0] else None
        if extras and finding.code == "cuda-major-mixed":
            written = with_extras(line, extras)
            return replace(finding, ways=(Way(line=written), *finding.ways))
    return finding


def explain_refusals(
    findings: Iterable[Finding],
    pins: Sequence[Pin],
    requirements: Iterable[str],
    cuda: str | None = None,
) -> tuple[Finding, ...]:
    """Add to the refusals of a last solution the path from the spec to each, and the changes of the spec that avoid it.
    `cuda` is the target's."""
    lines = tuple(requirements)
    bounded = {head_of(line).name for line in lines if _without_bounds(line) != line}
    paths = _paths(pins, lines)
    explained = []
    for finding in findings:
        path = paths.get(head_of(finding.bound).name, ()) if finding.bound and finding.severity == "error" else ()
        extra = _with_own_extra(finding, path, pins, lines, cuda) if path else finding
        explained.append(_explain(extra, path, bounded) if path else finding)
    return tuple(explained)


def _explain(finding: Finding, path: Sequence[str], bounded: Collection[str]) -> Finding:
    first = path[0]
    way = f" ({' → '.join(path)})" if len(path) > 1 else ""
    loose = (Way(line=first, note="without its bounds"),) if first in bounded else ()
    ways = (*loose, *finding.ways, Way(without=(first,)))
    return replace(finding, message=f"{finding.message}{way}", ways=ways)


def _without_bounds(line: str) -> str:
    requirement = published_requirement(line)
    if requirement.url:
        return line
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    marker = f" ; {requirement.marker}" if requirement.marker else ""
    return f"{requirement.name}{extras}{marker}"


def of_one_cause(findings: Sequence[Finding], pins: Sequence[Pin], requirements: Iterable[str]) -> tuple[Finding, ...]:
    """Make one error of those about packages of another CUDA major, with the ways that lead to them; all else stays."""
    mixed = [
        finding
        for finding in findings
        if finding.code == "cuda-major-mixed" and finding.severity == "error" and finding.bound
    ]
    if len(mixed) < 2:
        return tuple(findings)
    paths = _paths(pins, requirements)
    names = [head_of(str(finding.bound)).name for finding in mixed]
    ways = dict.fromkeys(
        " → ".join(path[: next(at for at, step in enumerate(path) if step in names) + 1])
        for path in (paths.get(name, (name,)) for name in names)
    )
    rest = f"{', '.join(names[1:4])}{f' and {len(names) - 4} more' if names[4:] else ''}"
    first = mixed[0].message.partition(" (")[0]
    same = {finding.remedy for finding in mixed}
    roots = tuple(dict.fromkeys(way.partition(" → ")[0] for way in ways))
    changes = dict.fromkeys(change for finding in mixed for change in finding.ways if not change.without)
    whole = replace(
        mixed[0],
        message=f"{first}, as {'do' if names[2:] else 'does'} {rest}; the spec leads there by {'; '.join(ways)}",
        remedy=same.pop() if len(same) == 1 else None,
        ways=(*changes, Way(without=roots)),
    )
    return tuple(
        whole if finding is mixed[0] else finding for finding in findings if finding is mixed[0] or finding not in mixed
    )


def _paths(pins: Sequence[Pin], requirements: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Find a shortest path to every pin."""
    names = {pin.name: [head_of(line).name for line in pin.dependencies] for pin in pins}
    roots = (head_of(line).name for line in requirements)
    return shortest_paths(filter(names.__contains__, roots), lambda name: filter(names.__contains__, names[name]))
