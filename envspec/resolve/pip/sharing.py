"""The versions that requests prefer, so that a package has one version across targets and the old lock's where it still
fits, and the torch index of an old pin. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace
from packaging.version import Version

from envspec.facts.cuda_stack import is_toolkit
from envspec.facts.wheels import FAMILY
from envspec.net.index_proxy.releases import is_older
from envspec.packages.names import requirement_name
from envspec.resolve.pip.newest import own_asks
from envspec.resolve.pip.notes import PipAnswer
from envspec.resolve.pip.request import Preferences, Request
from envspec.resolve.torch_index.choice import TorchIndex
from envspec.resolve.uv.answer import Found


def versions_of(packages: Sequence[Found]) -> dict[str, str]:
    """Give a target's versions for others to prefer. torch's local part names one CUDA: others prefer the release."""
    return {p.name: p.version.partition("+")[0] for p in packages if p.version and not p.git and not p.archive}


def commits_of(packages: Sequence[Found], request: Request) -> dict[str, str]:
    """Give the commits of a request's git requirements: a branch that moves must not move between targets."""
    commits = {p.name: p.git[1] for p in packages if p.git}
    return {text: commits[name] for text in request.addressed if (name := requirement_name(text)) in commits}


def after(
    begun: PipAnswer, own: Callable[[TorchIndex], Preferences], *, localised: bool
) -> Callable[[TorchIndex], Preferences]:
    """Give the preferences of a target that is solved after another one, by index of torch's: its own, else the other
    target's. With `localised`, the torch family's versions have the index's local parts: uv then takes a release at
    once, and doesn't go back to it from the newest, one by one."""
    begun_pins = Preferences(versions_of(begun.packages), commits_of(begun.packages, begun.request))

    def prefer(index: TorchIndex) -> Preferences:
        shared = own(index).over(begun_pins)
        return localise(shared, index) if localised else shared

    return prefer


def to_share(answers: Mapping[str, PipAnswer], apart: Collection[str] = ()) -> dict[str, Preferences]:
    """Find the targets worth a second solve, so that packages which differ between targets may agree on the lowest
    version that any of them has; those `apart` have a reason to differ.

    Returns for each such target its own versions with the shared ones in their place; empty if all agree already.
    """
    versions: dict[str, set[str]] = {}
    for answer in answers.values():
        for name, version in versions_of(answer.packages).items():
            versions.setdefault(name, set()).add(version)
    # NVIDIA's packages differ between CUDA versions by their nature: no other solution would make them meet
    shared = {
        name: min(locked, key=Version)
        for name, locked in versions.items()
        if len(locked) > 1 and name not in apart and not is_toolkit(name)
    }
    again = {}
    for target, answer in answers.items():
        own = versions_of(answer.packages)
        moved = {name: version for name, version in shared.items() if own.get(name, version) != version}
        if moved:
            again[target] = Preferences({**own, **moved}, commits_of(answer.packages, answer.request))
    return again


def public(preferences: Preferences) -> Preferences:
    """Drop local parts (`+cu126`), which name one CUDA."""
    versions = {name: version.partition("+")[0] for name, version in preferences.versions.items()}
    return Preferences(versions, preferences.commits)


def with_torch(release: str | None, index: TorchIndex) -> Preferences:
    """Give torch's release under its name on the index of a request."""
    local = f"+{index.variant}" if index.variant else ""
    return Preferences({"torch": f"{release}{local}"} if release else {})


def localise(preferences: Preferences, index: TorchIndex) -> Preferences:
    """Name the torch family's versions as the index of a request does: those to keep may be of another CUDA, or of
    another tool's lock."""
    local = f"+{index.variant}" if index.variant else ""
    own = {name: f"{_release(version)}{local}" for name, version in preferences.versions.items() if name in FAMILY}
    return replace(preferences, versions={**preferences.versions, **own})


def _newest(locks: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Merge versions; of one release the first counts, whatever its local part."""
    newest: dict[str, str] = {}
    for lock in locks:
        newest |= {
            n: version
            for n, version in lock.items()
            if n not in newest or is_older(_release(newest[n]), _release(version))
        }
    return newest


def _release(version: str) -> str:
    return version.partition("+")[0]


def merge_pins(keep: Mapping[str, Preferences], names: Sequence[str]) -> Preferences:
    """Merge what a request's targets keep of the old lock, and the versions that they had there, of a package the
    newest; none of new targets."""
    own = [keep[name] for name in names if name in keep]
    commits = next((pins.commits for pins in own if pins.versions), {})
    return Preferences(_newest(pins.versions for pins in own), commits, last=_newest(pins.last for pins in own))


def first_of(keep: Mapping[str, Preferences], names: Sequence[str]) -> Preferences:
    """Give the old pins of a request's targets; a new target takes those of another, to share their versions."""
    own = merge_pins(keep, names)
    return own if own.versions else next((public(pins) for pins in keep.values() if pins.versions), own)


def last_versions(last: Mapping[str, str], request: Request) -> dict[str, str]:
    """Give the versions of the last lock that the spec still asks for and admits: the releases alone, as a local part
    names a build, and no bound may name it."""
    alone = own_asks(replace(request, constraints=()))
    releases = {name: _release(version) for name, version in last.items() if name in alone}
    return {n: release for n, release in releases.items() if alone[n].specifier.contains(release, prereleases=True)}
