"""What conda installs counts for pip: uv is shown one version of each such package, on a page of the index proxy, and
can't take another.

A page has one wheel that nobody downloads, whose METADATA names no dependencies: conda has solved those.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from envspec.errors import Unsatisfiable
from envspec.lock.model import Pin
from envspec.net.index_proxy.provided import Provided
from envspec.packages.names import requirement_name
from envspec.packages.requirement import parse_requirement
from envspec.redact import redact
from envspec.resolve.pip.request import Request


def provided_by(pins: Iterable[Pin]) -> Provided:
    """What a target's conda pins provide. One whose version PEP 440 can't say provides nothing."""
    found = {}
    for pin in pins:
        version = _pep440(pin.version)
        if pin.kind == "conda" and version is not None:
            found.update(dict.fromkeys(pin.provides, version))
    return tuple(sorted(found.items()))


def refuse_conflicts(label: str, request: Request) -> None:
    """Raises Unsatisfiable, naming both sides, where the spec's own pip requirement rules out what conda installs."""
    from envspec.packages.edges import Markers

    provided = dict(request.provided)
    markers = Markers(request.platform, request.python)
    for text in request.requirements:
        version = provided.get(requirement_name(text))
        if version is None:
            continue
        if not markers.hold(text):
            continue
        requirement = parse_requirement(text)
        if requirement.url or not requirement.specifier.contains(version, prereleases=True):
            raise Unsatisfiable(
                f"{label}: [pip] asks for {redact(text)}, but conda installs {requirement.name} {version}",
                hint=_hint(requirement.name, str(requirement.specifier)),
            )


def explained(conflict: Unsatisfiable, request: Request) -> Unsatisfiable:
    """A conflict that uv found, with conda's side of it in words."""
    named = [
        f"{name} {version}"
        for name, version in request.provided
        if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", conflict.message)
    ]
    if not named:
        return conflict
    message = f"{conflict.message.rstrip('.')} (conda installs {', '.join(named)})."
    return Unsatisfiable(message, hint=_hint(named[0].split()[0], ""))


def _hint(name: str, specifier: str) -> str:
    bound = f'"{name} {specifier}"' if specifier else f"the {name} that the pip packages need"
    return f"add {bound} to [conda] dependencies, or loosen the requirements of the pip packages"


def _pep440(version: str) -> str | None:
    from packaging.version import InvalidVersion, Version

    try:
        return str(Version(version.replace("_", ".")))
    except InvalidVersion:
        return None


def requests_of(requests: Iterable[Request]) -> Sequence[Provided]:
    """The distinct sets of provided packages, for the index proxy to serve."""
    return tuple(dict.fromkeys(request.provided for request in requests if request.provided))
