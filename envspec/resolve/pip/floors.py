"""The newest release that each of a spec's own requirements gets alone, as a floor for all of them together. Pure.

uv gives what it reads first its newest release, and sends others back for it: a solution in which a package of the spec
goes back years, for a newer release of something that it only leads to, isn't the newest that the requirements allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from envspec.facts.wheels import FAMILY
from envspec.net.index_proxy.releases import version_of
from envspec.packages.names import requirement_name
from envspec.resolve.pip.newest import Releases, asks_of, is_skipped, newer_than, suits_target
from envspec.resolve.pip.request import Request
from envspec.resolve.uv.answer import Found


def floors(found: Iterable[Found], request: Request, kept: Mapping[str, str], releases: Releases) -> dict[str, str]:
    """Give the floors of a solution's packages that the spec asks for: what each gets alone, or what it has where that
    is the newest. Nothing where all are at their floors.

    The torch family follows the target's CUDA, and what is named by its URL has one release. Versions `kept` from the
    old lock stay as they are. Floors have no local part: a bound with one is no requirement.
    """
    direct = {requirement_name(line) for line in request.requirements if " @ " not in line}
    alone = asks_of(request, {})
    higher, same = {}, {}
    for package in found:
        name, version = package.name, version_of(package.version or "")
        if name not in direct or name in FAMILY or not package.files or version is None:
            continue
        same[name] = version.public
        if kept.get(name) == package.version:
            continue
        for release in newer_than(releases(name), version):
            if suits_target(release, request, name, alone.get(name)) and not is_skipped(release, request, name):
                higher[name] = release.version.partition("+")[0]
                break
    return {**same, **higher} if higher else {}


def as_bounds(wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Write floors as requirements."""
    return tuple(f"{name}>={version}" for name, version in sorted(wanted.items()))


def is_older(version: str, than: str | None) -> bool:
    """Say whether a version is older than another one, if there is that."""
    own, other = version_of(version), version_of(than or "")
    return own is not None and other is not None and own < other
