"""Is a target's set of pins right? Judged with `packaging`, from the pins alone, apart from what chose them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from envspec.lock.graph import Graph, Node, parsed
from envspec.lock.inputs import canonical_name, without_credentials
from envspec.lock.model import LockedTarget, Pin
from envspec.lock.tags import wheel_tags

if TYPE_CHECKING:
    from packaging.tags import Tag
    from packaging.version import Version


def violations(target: LockedTarget, roots: Iterable[str] | None = None) -> tuple[str, ...]:
    """What is wrong with a target, one line each; empty when nothing is.

    `roots` are the pip requirements (PEP 508) that the pins must answer; the target's own by default.

    - Every requirement of the roots and of every pin that holds in the target (markers; extras as asked for on the
      way) is answered by a pin whose version, or whose git or direct URL, satisfies it.
    - Every pip pin is reached from the roots. conda's solver adds packages of its own accord, so conda's needn't be.
    - Every wheel runs on the target, and every file's name says the pin's name and version.
    """
    graph = Graph.of(target, roots)
    return (
        *(f"{_asker(m.source)} needs {m.requirement}, and nothing in {target.name} provides it" for m in graph.missing),
        *_unsatisfied(graph),
        *(f"{node.name} is pinned, and nothing asks for it" for node in graph.unreached() if node.kind == "pip"),
        *_wrong_files(target),
    )


def _asker(source: Node | None) -> str:
    return "the spec" if source is None else source.name


def _unsatisfied(graph: Graph) -> Iterator[str]:
    edges = [*graph.roots, *(edge for edges in graph.outgoing.values() for edge in edges)]
    for edge in edges:
        pin = graph.pins[edge.target]
        # A match spec is for conda's solver to judge.
        if edge.kind == "pip" and not _satisfies(pin, edge.requirement):
            yield f"{_asker(edge.source)} needs {edge.requirement}, and {pin.name} is {_what(pin)}"


def _what(pin: Pin) -> str:
    if pin.git:
        return f"{pin.git.url} at {pin.git.commit}"
    return pin.url or pin.version


def _satisfies(pin: Pin, text: str) -> bool:
    from packaging.version import InvalidVersion

    requirement = parsed(text)
    if requirement.url:
        if pin.git:
            return _repository(requirement.url) == _repository(pin.git.url)
        return pin.url is not None and _plain_url(requirement.url) == _plain_url(pin.url)
    try:
        # A pinned pre-release was asked for or allowed: that was the resolver's to decide.
        return not requirement.specifier or requirement.specifier.contains(_version(pin.version), prereleases=True)
    except InvalidVersion:
        # conda's versions needn't be PEP 440's, and then there is nothing to compare.
        return pin.kind == "conda"


@lru_cache(maxsize=4096)
def _version(text: str) -> Version:
    from packaging.version import Version

    return Version(text)


def _plain_url(url: str) -> str:
    return without_credentials(url).partition("#")[0]


def _repository(url: str) -> str:
    """Host and path of a git URL: the same for https and ssh, with or without `.git`, whatever the revision."""
    rest = _plain_url(url.removeprefix("git+")).partition("://")[2]
    without_user = re.sub(r"^[^/@]*@", "", rest)
    path = re.sub(r"@[^@]*$", "", without_user)
    return path.rstrip("/").removesuffix(".git").lower()


def _wrong_files(target: LockedTarget) -> Iterator[str]:
    from packaging.utils import InvalidSdistFilename, InvalidWheelFilename
    from packaging.version import InvalidVersion

    inputs = target.inputs
    allowed = wheel_tags(inputs.platform, inputs.python, inputs.glibc)
    for pin in target.pins:
        if pin.kind != "pip" or pin.artifact is None:
            continue
        file = pin.artifact.file
        try:
            name, version, tags = _file_name(file)
            same = name == canonical_name(pin.name) and version == _version(pin.version)
        except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
            yield f"{file} is no wheel's and no sdist's name"
            continue
        if not same:
            yield f"{file} is not {pin.name} {pin.version}"
        if tags is not None and allowed.isdisjoint(tags):
            glibc = f", glibc {inputs.glibc}" if inputs.glibc else ""
            yield f"{file} doesn't run on {target.name} ({inputs.platform}, Python {inputs.python}{glibc})"


@lru_cache(maxsize=4096)
def _file_name(file: str) -> tuple[str, Version, frozenset[Tag] | None]:
    """Name, version and, for a wheel, tags, as the file's name says them."""
    from packaging.utils import parse_sdist_filename, parse_wheel_filename

    if file.endswith(".whl"):
        name, version, _, tags = parse_wheel_filename(file)
        return name, version, tags
    name, version = parse_sdist_filename(file)
    return name, version, None
