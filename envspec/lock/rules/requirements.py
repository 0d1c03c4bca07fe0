"""The rules for requirements: each is met, and each package is there because a requirement leads to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache

from msgspec.structs import replace
from packaging.version import Version

from envspec.base.finding import Finding
from envspec.facts.corrections import corrections
from envspec.facts.torch_builds import variant_of
from envspec.facts.wheel_bounds import WHEEL_BOUNDS, WheelBound
from envspec.facts.wheels import family
from envspec.lock.conda_files import channel_of
from envspec.lock.graph import Edge, Node, packages_of_name
from envspec.lock.inputs import implied_match_specs
from envspec.lock.model import Lock, LockedCorrection, LockedTarget, Pin
from envspec.lock.rules.case import LockedCase, asker
from envspec.packages.address import Address, parse_address
from envspec.packages.conda import admits, is_file_of, place_of
from envspec.packages.edges import Markers
from envspec.packages.names import PUBLIC, channel_name, conda_name, requirement_name
from envspec.packages.python_range import releases_of
from envspec.packages.requirement import TEXTS, canonical_name, published_requirement
from envspec.packages.stated import find_metadata
from envspec.packages.tags import takes_python

REFUSED_PYTHON = "requires-python"


def unmet(case: LockedCase) -> Iterator[Finding]:
    """Yield the requirements that hold in the target, by markers and requested extras, and that no pin satisfies."""
    for missing in case.graph.missing:
        message = f"{asker(missing.source)} requires {missing.requirement}, but nothing provides it"
        yield replace(case.flaw("requirement-missing", None, message), bound=missing.requirement)
    for edge in case.edges:
        pin = case.graph.pins[edge.target]
        met = _conda_satisfies if edge.kind == "conda" else _satisfies
        if not met(pin, edge.requirement):
            built = f" {pin.build} of {pin.index}" if edge.kind == "conda" else ""
            yield case.flaw(
                "requirement-unmet", pin.name, f"{asker(edge.source)} requires {edge.text}, but {_what(pin)}{built}"
            )
    for requirement in _implied_specs(case):
        own = case.graph.pins.get(Node("conda", conda_name(requirement)))
        if own is not None and not _conda_satisfies(own, requirement):
            yield case.flaw("requirement-unmet", own.name, f"the spec requires {requirement}, but {_what(own)}")


def refused_pythons(case: LockedCase) -> Iterator[Finding]:
    """Yield the pins whose Requires-Python refuses the target's Python, or one that the machine may bring."""
    inputs = case.target.inputs
    exact, newest = inputs.python_version is not None, inputs.newest_python is not None
    versions = (inputs.full_python,) if exact else releases_of(inputs.python, inputs.python_range)
    for pin in case.pins("pip"):
        requires_python = pin.requires_python
        # where uv fetches the newest, a later release meets a floor
        first = (
            next((at for at, version in enumerate(versions) if takes_python(requires_python, version)), 0)
            if newest and requires_python
            else 0
        )
        refused = (
            next((version for version in versions[first:] if not takes_python(requires_python, version)), None)
            if requires_python
            else None
        )
        if refused is not None and not inputs.accepts(REFUSED_PYTHON, pin.name):
            what = f"{pin.name} {pin.version} doesn't take Python {refused} (Requires-Python {requires_python})"
            origin = "" if exact else ", which the machine may bring"
            yield case.flaw(REFUSED_PYTHON, pin.name, f"{what}{origin}")


def broken_constraints(case: LockedCase) -> Iterator[Finding]:
    """Yield the constraints of the spec that a package of pip's requirements breaks."""
    inputs = case.target.inputs
    if not inputs.constraints:
        return
    markers = Markers(inputs.platform, inputs.full_python)
    asked_for = {edge.target for edge in case.edges if edge.kind == "pip"}
    for text in inputs.constraints:
        for node in packages_of_name(case.target.pins, requirement_name(text)) if markers.hold(text) else ():
            pin = case.graph.pins[node]
            if (node.kind == "pip" or node in asked_for) and not _satisfies(pin, text):
                yield case.flaw("constraint-unmet", pin.name, f"the spec's constraint is {text}, but {_what(pin)}")


def stray_pins(case: LockedCase) -> Iterator[Finding]:
    """Yield the pins that no requirement leads to. The target itself requires conda's Python and pip."""
    reached = set(case.graph.outgoing)
    waiting = [Node("conda", conda_name(requirement)) for requirement in _implied_specs(case)]
    while waiting:
        node = waiting.pop()
        if node not in reached and node in case.graph.pins:
            reached.add(node)
            waiting += [Node("conda", conda_name(text)) for text in case.graph.pins[node].dependencies]
    for node in case.graph.pins:
        if node not in reached and node.kind != "base":
            yield case.flaw("nothing-asks", node.name, f"{node.name} is pinned, but nothing requires it")


def conda_duplicates(case: LockedCase) -> Iterator[Finding]:
    """Yield the pip pins of packages that conda installs already or the base has: pip counts them as installed."""
    base_versions = dict(case.target.provided)
    for pin in case.pins("pip"):
        if pin.name in base_versions:
            yield case.flaw("installed-twice", pin.name, f"{pin.name} is pinned for pip, but the base has it already")
    provided = {name: pin for pin in case.pins("conda") for name in pin.provides}
    for pin in case.pins("pip"):
        if pin.name in provided:
            message = f"{pin.name} is pinned for pip, but conda's {provided[pin.name].name} already installs it"
            yield case.flaw("installed-twice", pin.name, message)


def _implied_specs(case: LockedCase) -> tuple[str, ...]:
    inputs = case.target.inputs
    if not inputs.conda_requirements:
        return ()
    return implied_match_specs(inputs.python, with_pip=bool(inputs.requirements), bound=inputs.python_range)


def _what(pin: Pin) -> str:
    if pin.kind == "base":
        return f"the base's {pin.name} is {pin.version}"
    if pin.git:
        return f"{pin.name} is {pin.git.address}"
    if pin.url:
        return f"{pin.name} is {pin.url}"
    return f"{pin.name} is {pin.version}"


def _conda_satisfies(pin: Pin, requirement: str) -> bool:
    channel, subdir = place_of(requirement)
    own_channel, own_subdir = channel_of(pin)
    is_right_channel = channel in ("", own_channel) or channel_name(channel) == own_channel
    file = pin.artifact
    return (
        is_right_channel
        and subdir in ("", own_subdir)
        and admits(requirement, pin.version, pin.build or "")
        and (file is None or is_file_of(requirement, file.sha256, file.md5))
    )


def _satisfies(pin: Pin, text: str) -> bool:
    requirement = published_requirement(text)
    if requirement.url:
        return names_source(requirement.url, pin)
    try:
        return not requirement.specifier or _contains(text, pin.version)
    except ValueError:
        # conda's versions needn't be PEP 440's, and then there is nothing to compare.
        return pin.kind == "conda"


@lru_cache(maxsize=TEXTS)
def _contains(text: str, version: str) -> bool:
    """Return whether a requirement admits a version. Remembered, since the targets of a lock share most packages."""
    # A pinned pre-release was asked for or allowed: that was the resolver's to decide.
    return published_requirement(text).specifier.contains(version_of(version), prereleases=True)


@lru_cache(maxsize=TEXTS)
def version_of(text: str) -> Version:
    """Parse a PEP 440 version. Raises ValueError, also for a number that is too long for Python."""
    return Version(text)


def names_source(url: str, pin: Pin) -> bool:
    """Return whether a requirement's URL names the pinned source: the same repository, folder and commit (as far as the
    URL says it), or the same file (and hash, where the URL has one)."""
    pinned = pinned_address(pin)
    try:
        return pinned is not None and parse_address(url).names(pinned)
    except ValueError:
        return False


def pinned_address(pin: Pin) -> Address | None:
    """Return the address of a pin from git or a URL; None for a pin from an index, and for an address that can't be
    parsed."""
    try:
        if pin.git:
            address = parse_address(f"git+{pin.git.address}")
            return address if address.revision == pin.git.commit else None
        if pin.url is None or pin.artifact is None:
            return None
        return replace(parse_address(pin.url), sha256=pin.artifact.sha256)
    except ValueError:
        return None


# The rules for origins of packages: the index that the spec gives them; source only where it is allowed, git and URLs
# only where a requirement names them.


def unnamed_sources(case: LockedCase) -> Iterator[Finding]:
    """Yield the packages from git or a URL whose source nothing permits. The spec may name any source. A package from a
    repository of the spec may name others in that repository, at the spec's commit if the spec names one."""
    naming: dict[Node, list[tuple[Edge, str]]] = {}
    for edge in case.edges:
        if edge.kind == "pip" and "@" in edge.requirement and (url := published_requirement(edge.requirement).url):
            naming.setdefault(edge.target, []).append((edge, url))
    repositories = []
    for url in (url for edges in naming.values() for edge, url in edges if _is_of_spec(edge)):
        with suppress(ValueError):
            repositories.append(parse_address(url))
    for pin in case.pins("pip"):
        source = f"git+{pin.git.address}" if pin.git else pin.url
        if source is None:
            continue
        edges = [edge for edge, url in naming.get(Node("pip", pin.name), ()) if names_source(url, pin)]
        if not edges:
            yield case.flaw("unasked-source", pin.name, f"{pin.name} is from {source}, which no requirement names")
        elif not any(_is_of_spec(edge) or _is_beside(edge, case, repositories) for edge in edges):
            sentence = f"{asker(edges[0].source)} requires {edges[0].requirement}"
            yield case.flaw("unasked-source", pin.name, f"{sentence}, but only the spec may name this source")


def _is_of_spec(edge: Edge) -> bool:
    return edge.source is None or edge.overridden is not None


def _is_beside(edge: Edge, case: LockedCase, repositories: Sequence[Address]) -> bool:
    """Return whether an edge leads from one folder of a repository of the spec to another."""
    pinned = pinned_address(case.graph.pins[edge.target])
    own = pinned_address(case.graph.pins[edge.source]) if edge.source else None
    if pinned is None or own is None or not replace(own, revision=None).has_beside(pinned):
        return False
    return any(repository.has_beside(pinned) for repository in repositories)


def built_sources(case: LockedCase) -> Iterator[Finding]:
    """Yield the sources that allow-source doesn't name, except an index's inert sources, whose build runs no code of
    their own; and the packages that the lock calls inert though they aren't such sources."""
    for pin in case.target.pins:
        needs_none = pin.kind == "conda" or pin.is_wheel or pin.name in case.shared.allow_source
        if pin.is_inert and (needs_none or pin.url):
            yield case.flaw(
                "wrong-inert", pin.name, f"{pin.name} is called inert, and isn't a source of an index alone"
            )
        if needs_none or pin.is_inert:
            continue
        if pin.git or pin.artifact:
            what = pin.artifact.file if pin.artifact else "a git checkout"
            yield case.flaw("source-not-allowed", pin.name, f"{pin.name} is {what}, but allow-source doesn't name it")


def wrong_indexes(case: LockedCase) -> Iterator[Finding]:
    """Yield the packages that come from the wrong index. A package of `sources` comes from that index alone, the torch
    family from PyPI or the PyTorch index of the target's CUDA, every other one from PyPI, conda's from the spec's
    channels."""
    for pin in case.pins("pip"):
        allowed = _indexes(case, pin)
        if pin.index not in allowed:
            message = f"{pin.name} is from {pin.index}, but must come from {' or '.join(allowed)}"
            yield case.flaw("wrong-index", pin.name, message)
    channels = [channel_name(channel) for channel in case.shared.channels]
    for pin in case.pins("conda"):
        channel, subdir = channel_of(pin)
        if channel not in channels:
            message = f"{pin.name} is from the channel {channel or pin.index}, which the spec doesn't name"
            yield case.flaw("wrong-index", pin.name, message)
        elif subdir not in ("noarch", case.target.inputs.platform):
            message = f"{pin.name} is from {pin.index}, but the target is {case.target.inputs.platform}"
            yield case.flaw("wrong-platform", pin.name, message)


def _indexes(case: LockedCase, pin: Pin) -> tuple[str, ...]:
    if pin.git:
        return ("git",)
    if pin.url:
        return ("url",)
    index = case.shared.sources.get(pin.name, PUBLIC)
    if index != PUBLIC:
        return (index,)
    inputs = case.target.inputs
    if pin.name in family(inputs.platform, inputs.cuda):
        return ("pypi", f"pytorch/{variant_of(inputs.cuda)}")
    return ("pypi",)


# The rule for corrections from wheels: a reading can give each of a wheel that the lock pins, and it holds beside
# that. And the edges of sources whose dependencies the spec states: its word, and nothing else.


def flaws(lock: Lock) -> Iterator[Finding]:
    """Yield the corrections that no reading of a wheel of the lock gives, and the pins that one of them rules out.

    A wheel that isn't pinned and a package that is missing are errors. A reading that today's facts rule out, and a
    version that the requirements themselves admit, are warnings.
    """
    every = tuple(target.name for target in lock)
    by_name = [(target, {pin.name: pin for pin in target.pins if pin.kind == "pip"}) for target in lock]
    for correction in lock.corrections:
        bound = WHEEL_BOUNDS.get(correction.constraint)
        pins = [
            (target, pin) for target, own in by_name if (pin := own.get(correction.package)) and correction.is_of(pin)
        ]
        if not pins:
            sentence = f"a correction ({correction.constraint}) is of {correction.file}, which isn't pinned"
            yield Finding("error", "correction-unfounded", sentence, targets=every)
        for target, pin in pins:
            if bound is not None and bound.could_say(pin.name, correction.file, pin.dependencies):
                yield from _breaks(correction, bound, target)
                continue
            sentence = (
                f"by today's facts {correction.file} can't need {correction.constraint} (the lock says that it does)"
            )
            yield Finding(
                "warning", "correction-unfounded", sentence, targets=(target.name,), package=correction.package
            )


def _breaks(correction: LockedCorrection, bound: WheelBound, target: LockedTarget) -> Iterator[Finding]:
    constraint = published_requirement(correction.constraint)
    name = canonical_name(constraint.name)
    needs = f"{correction.package} {correction.version} needs {correction.constraint} ({correction.reason}), but"
    pins = [pin for pin in target.pins if name in ((pin.name,) if pin.kind == "pip" else pin.provides)]
    if not pins and bound.kind == "requirement":
        yield Finding(
            "error",
            "correction-broken",
            f"{needs} {name} isn't pinned",
            targets=(target.name,),
            package=correction.package,
        )
    for pin in pins:
        if not constraint.specifier.contains(pin.version, prereleases=True):
            message = f"{needs} {pin.name} {pin.version} is pinned"
            yield Finding("warning", "correction-broken", message, targets=(target.name,), package=name)


def wrong_edges(case: LockedCase) -> Iterator[Finding]:
    """Yield the sources whose dependencies aren't those that the spec states."""
    metadata = case.target.inputs.metadata
    if not metadata:
        return
    markers = Markers(case.target.inputs.platform, case.target.inputs.full_python)
    for pin in case.pins("pip"):
        stated = None if pin.is_wheel else find_metadata(metadata, pin.name, pin.version)
        if stated is None:
            continue
        extras = case.graph.extras.get(Node("pip", pin.name), frozenset())
        required = {str(published_requirement(line)) for line in stated.dependencies if markers.hold(line, extras)}
        added = set(corrections().missing_requirements(pin.name, pin.version, stated.dependencies))
        edges = set(pin.dependencies)
        if not required <= edges <= required | added:
            expected = ", ".join(sorted(required)) or "nothing"
            locked = ", ".join(pin.dependencies) or "nothing"
            yield case.flaw(
                "wrong-dependencies", pin.name, f"the spec states that {pin.name} requires {expected}, not {locked}"
            )
