"""The rules for origins of packages: the index that the spec gives them; source only where it is allowed, git and URLs
only where a requirement names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from envspec.base.finding import Finding
from envspec.facts.torch_builds import variant_of
from envspec.facts.wheels import family
from envspec.lock.conda_files import channel_of
from envspec.lock.graph import Edge, Node
from envspec.lock.model import Pin
from envspec.lock.rules.case import LockedCase, asker
from envspec.lock.rules.requirements import names_source, pinned_address
from envspec.packages.address import Address, parse_address
from envspec.packages.names import PUBLIC, channel_name
from envspec.packages.requirement import published_requirement


def unnamed_sources(case: LockedCase) -> Iterator[Finding]:
    """Yield the packages from git or a URL that neither the spec names nor a package out of a repository that the spec
    names, which may name others beside it, at the spec's commit if it names one."""
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
            said = f"{asker(edges[0].source)} requires {edges[0].requirement}"
            yield case.flaw("unasked-source", pin.name, f"{said}, but only the spec may name this source")


def _is_of_spec(edge: Edge) -> bool:
    return edge.source is None or edge.overridden is not None


def _is_beside(edge: Edge, case: LockedCase, repositories: Sequence[Address]) -> bool:
    """Whether an edge leads from one folder of a repository of the spec to another."""
    pinned = pinned_address(case.graph.pins[edge.target])
    own = pinned_address(case.graph.pins[edge.source]) if edge.source else None
    if pinned is None or own is None or not replace(own, revision=None).has_beside(pinned):
        return False
    return any(one.has_beside(pinned) for one in repositories)


def built_sources(case: LockedCase) -> Iterator[Finding]:
    """Yield the sources that allow-source doesn't name: building a package runs its code."""
    for pin in case.pins("pip"):
        if pin.is_wheel or pin.name in case.shared.allow_source:
            continue
        if pin.git or pin.artifact:
            what = pin.artifact.file if pin.artifact else "a git checkout"
            yield case.flaw("source-not-allowed", pin.name, f"{pin.name} is {what}, but allow-source doesn't name it")


def wrong_indexes(case: LockedCase) -> Iterator[Finding]:
    """Yield the packages that come from the wrong index. A package of `sources` comes from that index alone, the torch
    family from PyPI or the PyTorch index of the target's CUDA, every other one from PyPI, conda's from the spec's
    channels."""
    for pin in case.pins("pip"):
        right = _indexes(case, pin)
        if pin.index not in right:
            said = f"{pin.name} is from {pin.index}, but must come from {' or '.join(right)}"
            yield case.flaw("wrong-index", pin.name, said)
    channels = [channel_name(channel) for channel in case.shared.channels]
    for pin in case.pins("conda"):
        channel, subdir = channel_of(pin)
        if channel not in channels:
            said = f"{pin.name} is from the channel {channel or pin.index}, which the spec doesn't name"
            yield case.flaw("wrong-index", pin.name, said)
        elif subdir not in ("noarch", case.target.inputs.platform):
            said = f"{pin.name} is from {pin.index}, but the target is {case.target.inputs.platform}"
            yield case.flaw("wrong-platform", pin.name, said)


def _indexes(case: LockedCase, pin: Pin) -> tuple[str, ...]:
    if pin.git:
        return ("git",)
    if pin.url:
        return ("url",)
    said = case.shared.sources.get(pin.name, PUBLIC)
    if said != PUBLIC:
        return (said,)
    inputs = case.target.inputs
    if pin.name in family(inputs.platform, inputs.cuda):
        return ("pypi", f"pytorch/{variant_of(inputs.cuda)}")
    return ("pypi",)
