"""Every requirement is met, and every package is there because a requirement leads to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from packaging.version import Version

from envspec.base.finding import Finding
from envspec.lock.conda_files import channel_of
from envspec.lock.graph import Node, packages_of_name
from envspec.lock.inputs import implied_match_specs
from envspec.lock.model import Pin
from envspec.lock.rules.case import LockedCase, asker
from envspec.packages.address import Address, parse_address
from envspec.packages.conda import admits, is_file_of, place_of
from envspec.packages.edges import Markers
from envspec.packages.names import channel_name, conda_name, requirement_name
from envspec.packages.python_range import releases_of
from envspec.packages.requirement import TEXTS, published_requirement
from envspec.packages.tags import takes_python

REFUSED_PYTHON = "requires-python"


def unmet(case: LockedCase) -> Iterator[Finding]:
    """Yield the requirements that hold in the target, by markers and requested extras, and that no pin satisfies."""
    for missing in case.graph.missing:
        yield case.flaw(
            "requirement-missing",
            None,
            f"{asker(missing.source)} requires {missing.requirement}, but nothing provides it",
        )
    for edge in case.edges:
        pin = case.graph.pins[edge.target]
        met = _conda_satisfies if edge.kind == "conda" else _satisfies
        if not met(pin, edge.requirement):
            built = f" {pin.build} of {pin.index}" if edge.kind == "conda" else ""
            yield case.flaw(
                "requirement-unmet", pin.name, f"{asker(edge.source)} requires {edge.told}, but {_what(pin)}{built}"
            )
    for requirement in _implied_specs(case):
        own = case.graph.pins.get(Node("conda", conda_name(requirement)))
        if own is not None and not _conda_satisfies(own, requirement):
            yield case.flaw("requirement-unmet", own.name, f"the spec requires {requirement}, but {_what(own)}")


def refused_pythons(case: LockedCase) -> Iterator[Finding]:
    """Yield the pins whose Requires-Python refuses the target's Python, or one that the machine may bring."""
    inputs = case.target.inputs
    exact = inputs.python_version is not None
    versions = (inputs.full_python,) if exact else releases_of(inputs.python, inputs.python_range)
    for pin in case.pins("pip"):
        said = pin.requires_python
        refused = next((one for one in versions if not takes_python(said, one)), None) if said else None
        if refused is not None and not inputs.accepts(REFUSED_PYTHON, pin.name):
            what = f"{pin.name} {pin.version} doesn't take Python {refused} (Requires-Python {said})"
            some = "" if exact else ", which the machine may bring"
            yield case.flaw(REFUSED_PYTHON, pin.name, f"{what}{some}")


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
        if node not in reached:
            yield case.flaw("nothing-asks", node.name, f"{node.name} is pinned, but nothing requires it")


def conda_duplicates(case: LockedCase) -> Iterator[Finding]:
    """Yield the pip pins of what conda installs already: pip counts it as installed."""
    provided = {name: pin for pin in case.pins("conda") for name in pin.provides}
    for pin in case.pins("pip"):
        if pin.name in provided:
            said = f"{pin.name} is pinned for pip, but conda's {provided[pin.name].name} already installs it"
            yield case.flaw("installed-twice", pin.name, said)


def _implied_specs(case: LockedCase) -> tuple[str, ...]:
    inputs = case.target.inputs
    if not inputs.conda_requirements:
        return ()
    return implied_match_specs(inputs.python, with_pip=bool(inputs.requirements), bound=inputs.python_range)


def _what(pin: Pin) -> str:
    if pin.git:
        return f"{pin.name} is {pin.git.address}"
    if pin.url:
        return f"{pin.name} is {pin.url}"
    return f"{pin.name} is {pin.version}"


def _conda_satisfies(pin: Pin, requirement: str) -> bool:
    channel, subdir = place_of(requirement)
    there, own = channel_of(pin)
    right = channel in ("", there) or channel_name(channel) == there
    file = pin.artifact
    return (
        right
        and subdir in ("", own)
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
    """Say whether a requirement admits a version. Remembered, since the targets of a lock share most packages."""
    # A pinned pre-release was asked for or allowed: that was the resolver's to decide.
    return published_requirement(text).specifier.contains(version_of(version), prereleases=True)


@lru_cache(maxsize=TEXTS)
def version_of(text: str) -> Version:
    """Parse a PEP 440 version. Raises ValueError, also for a number that is too long for Python."""
    return Version(text)


def names_source(url: str, pin: Pin) -> bool:
    """Return whether a requirement's URL names what is pinned: the same repository, folder and commit (as far as the
    URL says it), or the same file (and hash, where the URL has one)."""
    pinned = pinned_address(pin)
    try:
        return pinned is not None and parse_address(url).names(pinned)
    except ValueError:
        return False


def pinned_address(pin: Pin) -> Address | None:
    """Return where a pin of git or a URL comes from; None for one of an index, and for an address that can't be told
    from others."""
    try:
        if pin.git:
            address = parse_address(f"git+{pin.git.address}")
            return address if address.revision == pin.git.commit else None
        if pin.url is None or pin.artifact is None:
            return None
        return replace(parse_address(pin.url), sha256=pin.artifact.sha256)
    except ValueError:
        return None
