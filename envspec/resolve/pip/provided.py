"""Packages of conda for pip: the index proxy shows uv one version of each such package, so that uv can't take another.

A page has one wheel, which is never downloaded. Its METADATA names no dependencies: conda has solved those.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from packaging.version import Version

from envspec.base.errors import Unsatisfiable
from envspec.base.redact import redact
from envspec.lock.model import Pin
from envspec.net.index_proxy.server import Provided
from envspec.packages.edges import Markers
from envspec.packages.names import requirement_name
from envspec.packages.requirement import parse_requirement
from envspec.resolve.pip.request import Request


def provided_packages(pins: Iterable[Pin]) -> Provided:
    """List the packages that a target's conda pins provide. One whose version isn't PEP 440 provides nothing."""
    found = {}
    for pin in pins:
        version = _pep440(pin.version)
        if pin.kind == "conda" and version is not None:
            found.update(dict.fromkeys(pin.provides, version))
    return tuple(sorted(found.items()))


def refuse_conflicts(label: str, request: Request) -> None:
    """Raise Unsatisfiable, naming both sides, if the spec's own pip requirement excludes conda's version."""
    provided = dict(request.provided)
    markers = Markers(request.platform, request.full_python)
    for text in request.effective:
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


def explain_conflict(conflict: Unsatisfiable, request: Request) -> Unsatisfiable:
    """Add conda's side to a conflict that uv found."""
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
    try:
        return str(Version(version.replace("_", ".")))
    except ValueError:
        return None


def requests_of(requests: Iterable[Request]) -> Sequence[Provided]:
    """List the distinct sets of provided packages, for the index proxy to serve."""
    return tuple(dict.fromkeys(request.provided for request in requests if request.provided))
