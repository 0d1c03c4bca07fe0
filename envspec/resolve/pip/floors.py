"""The newest release that each of a spec's own requirements gets alone, as a floor for all of them together. Pure.

uv gives what it reads first its newest release, and sends others back for it: a solution in which a package of the spec
goes back years, for a newer release of something that it only leads to, isn't the newest that the requirements allow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envspec.base.errors import AnswerNo
from envspec.base.finding import Finding
from envspec.facts.cuda_stack import is_toolkit
from envspec.facts.wheels import FAMILY
from envspec.net.index_proxy.releases import is_older, version_of
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name, published_requirement
from envspec.resolve.pip.newest import Releases, asks_of, is_skipped, newer_than, suits_target
from envspec.resolve.pip.request import Preferences, Request
from envspec.resolve.pip.unbounded import FAR, Requires, distance, is_far
from envspec.resolve.torch_index.choice import TorchIndex, choose_for_pin, index_of_older
from envspec.resolve.uv.answer import Found

# One version of a package across targets: preferences from solved requests for the others, and the requests worth a
# second solve.


_TORCH = re.compile(r"\btorch\b")


def versions_of(found: Sequence[Found]) -> dict[str, str]:
    """Give versions for others to prefer. torch's local part names one CUDA: others prefer the release."""
    return {p.name: p.version.partition("+")[0] for p in found if p.version and not p.git and not p.archive}


def commits_of(found: Sequence[Found], request: Request) -> dict[str, str]:
    """Give the commits of a request's git requirements: a branch that moves must not move between targets."""
    commits = {p.name: p.git[1] for p in found if p.git}
    return {text: commits[name] for text in request.addressed if (name := requirement_name(text)) in commits}


def after(found: Sequence[Found], solved: Request, own: Preferences, index: TorchIndex | None) -> Preferences:
    """Give the preferences of a request that is solved after another one: its own, else what that one found. With the
    request's index, the torch family's have the names that it has: uv then takes a release at once, and doesn't go back
    to it from the newest, one by one."""
    shared = own.over(Preferences(versions_of(found), commits_of(found, solved)))
    return localise(shared, index) if index else shared


def to_share(found: Mapping[Request, Sequence[Found]], apart: Collection[str] = ()) -> dict[Request, Preferences]:
    """Find the requests worth a second solve, so that packages which differ between requests may agree on the lowest
    version that any of them has; those `apart` have a reason to differ.

    Returns for each such request its own versions with the shared ones in their place; empty if all agree already.
    """
    versions: dict[str, set[str]] = {}
    for packages in found.values():
        for name, version in versions_of(packages).items():
            versions.setdefault(name, set()).add(version)
    # NVIDIA's packages differ between CUDA versions by their nature: no other solution would make them meet
    shared = {
        name: min(several, key=Version)
        for name, several in versions.items()
        if len(several) > 1 and name not in apart and not is_toolkit(name)
    }
    again = {}
    for request, packages in found.items():
        own = versions_of(packages)
        moved = {name: version for name, version in shared.items() if own.get(name, version) != version}
        if moved:
            again[request] = Preferences({**own, **moved}, commits_of(packages, request))
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
    own = {name: f"{_release(had)}{local}" for name, had in preferences.versions.items() if name in FAMILY}
    return replace(preferences, versions={**preferences.versions, **own})


def last_of(keep: Mapping[str, Preferences], names: Sequence[str]) -> Mapping[str, str]:
    """Give the versions that a request's targets had in the old lock, the newest of each package; none of new
    targets."""
    return _newest([keep[name].last for name in names if name in keep])


def _newest(several: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Merge versions; of one release the first counts, whatever its local part."""
    found: dict[str, str] = {}
    for one in several:
        found |= {n: had for n, had in one.items() if n not in found or is_older(_release(found[n]), _release(had))}
    return found


def _release(version: str) -> str:
    return version.partition("+")[0]


def solve_in_indexes_of_pins(
    groups: Mapping[Request, Sequence[str]],
    choose: Callable[[Request], TorchIndex],
    keep: Mapping[str, Preferences],
    solve: Callable[[Mapping[Request, TorchIndex]], Mapping[Request, Sequence[Found]]],
) -> dict[Request, TorchIndex]:
    """Solve requests, each with the index of the torch that its targets are to keep. Where that torch can't stay, solve
    again with the index that `choose` gives; and where a refusal names torch, with the one that has older releases of
    it. Returns the indexes of the solution; raises what `solve` raises first."""
    first: AnswerNo | None = None
    chosen = {request: choose(request) for request in groups}
    pinned = {request: _own_pins(keep, names).get("torch") for request, names in groups.items()}
    indexes = {request: choose_for_pin(request, chosen[request], pinned[request]) for request in groups}
    while True:
        try:
            found = solve(indexes)
        except AnswerNo as refusal:
            moved = [request for request, names in groups.items() if {*names} & {*refusal.targets}]
            if all(indexes[request] == chosen[request] for request in moved):
                about = moved if first is None and _TORCH.search(refusal.message) else ()
                older = {one: index for one in about if (index := index_of_older(one, chosen[one])) is not None}
                if not older:
                    raise first or refusal from None
                first = refusal
                chosen |= older
        else:
            moved = [request for request in groups if _version_of("torch", found[request]) != pinned[request]]
            if all(indexes[request] == chosen[request] for request in moved):
                return indexes
        indexes |= {request: chosen[request] for request in moved}


def _own_pins(keep: Mapping[str, Preferences], names: Sequence[str]) -> dict[str, str]:
    return _newest([keep[name].versions for name in names if name in keep])


def _version_of(name: str, found: Sequence[Found]) -> str | None:
    return next((package.version for package in found if package.name == name), None)


def first_of(keep: Mapping[str, Preferences], names: Sequence[str]) -> Preferences:
    """Give the old pins of a request's targets, of a package the newest; a new target takes those of another, to share
    their versions."""
    own = [keep[name] for name in names if name in keep and keep[name].versions]
    others = (public(one) for one in keep.values() if one.versions)
    if not own:
        return next(others, Preferences())
    return replace(own[0], versions=_own_pins(keep, names), last=last_of(keep, names))


_WORD = re.compile(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?")
"""What may be a package's name."""
_ASKED = re.compile(r"(the spec asks for |and )([\w-]+)>=([^\s,;:]+)(?! depends)")
_LISTED = 8
"""Packages that a note about others names."""


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


def last_versions(last: Mapping[str, str], request: Request) -> dict[str, str]:
    """Give the versions of the last lock that the spec still asks for and admits: the releases alone, as a local part
    names a build, and no bound may name it."""
    alone = asks_of(replace(request, constraints=()), {})
    releases = {name: _release(version) for name, version in last.items() if name in alone}
    return {n: one for n, one in releases.items() if alone[n].specifier.contains(one, prereleases=True)}


class Raised(Struct, frozen=True):
    """The outcome of floors: uv's answer before them, those that are higher, the last thing against these, and how
    often uv was asked."""

    before: Mapping[str, str] = {}
    higher: Mapping[str, str] = {}
    conflict: str = ""
    asked: int = 0

    def findings(
        self, after: Mapping[str, str], last: Mapping[str, str], told: Collection[str], releases: Releases
    ) -> Iterator[Finding]:
        """Tell what goes back from the `last` lock, what was raised over uv's answer, and which floors were given up
        far below, but of packages that are `told`."""
        for one in downgrades(after, last, self.conflict):
            yield Finding("warning", "downgrade", one)
        up = raised_finding(self.before, after, self.higher, far_back(self.before, after, releases))
        left = {
            name: version
            for name, version in self.higher.items()
            if name not in told and is_older(after[name], version) and is_far(after[name], version, name, releases)
        }
        yield from filter(None, (up, unraised_finding(after, left, self.conflict)))


class Setback(Struct, frozen=True):
    """A package that floors take further back than they bring what they are for forward.

    floors  the packages of the spec that its METADATA refuses at their floors; all that are raised where it is another
            package's that does
    """

    name: str
    had: str
    now: str
    floors: tuple[str, ...]

    def sentence(self, after: Mapping[str, str]) -> str:
        raised = " and ".join(f"{name} {after[name]}" for name in self.floors)
        return f"beside {raised} {self.name} goes back from {self.had} to {self.now}"


def setbacks(
    before: Mapping[str, str],
    after: Mapping[str, str],
    higher: Iterable[str],
    edges: Mapping[str, Iterable[str]],
    releases: Releases,
) -> Iterator[Setback]:
    """Find what a solution with floors that are `higher` has far older than uv's answer `before`, and by more days than
    it has newer what that is for. `edges` gives the requirements of that answer's packages."""
    up = {
        name: distance(before[name], after[name], name, releases)
        for name in sorted(higher)
        if is_older(before[name], after.get(name))
    }
    for name in far_back(before, after, releases) if up else ():
        lines = [(requirement_name(line), line) for line in edges.get(name, ())]
        refused = {
            one
            for one, line in lines
            if one in up and not published_requirement(line).specifier.contains(after[one], prereleases=True)
        }
        blamed = tuple(one for one in up if one in refused or not refused)
        if distance(after[name], before[name], name, releases) > max(up[one] for one in blamed):
            yield Setback(name, before[name], after[name], blamed)


def far_back(before: Mapping[str, str], after: Mapping[str, str], releases: Releases) -> list[str]:
    """List what is far older in a solution than in uv's answer `before`."""
    return [
        name
        for name in sorted(before.keys() & after.keys())
        if is_older(after[name], before[name]) and is_far(after[name], before[name], name, releases)
    ]


def raise_to_floors(
    found: tuple[Found, ...],
    higher: Mapping[str, str],
    last: Mapping[str, str],
    settle: Callable[[tuple[str, ...]], tuple[Found, ...]],
    edges: Mapping[str, Iterable[str]],
    releases: Releases,
    refused: Mapping[str, str],
    again: Callable[[tuple[Found, ...]], bool],
) -> tuple[tuple[Found, ...], Raised]:
    """Give a solution in which the packages of the spec are at their floors: what the `last` lock had, and the newest
    that each gets alone, where they can stand together and set nothing further back. The one that was `found` where
    there is none. What METADATA has `refused` is no question. Asks for one more, and a second one where `again` says so
    of the best; `edges` are the requirements of what was found. Gives too what last stood against it."""
    taken = versions_of(found)
    newest = {**higher, **{name: last.get(name, taken[name]) for name in refused}}
    held = {name: had for name, had in last.items() if name in higher and not is_older(higher[name], had)}
    # an upgrade goes back in nothing that the spec asks for, whatever else can be had
    back = any(is_older(taken[name], had) for name, had in held.items())
    wanted, best, now, said, asked = held if back else newest, found, taken, "", 0
    while asked < 2 and any(is_older(now[n], one) for n, one in wanted.items()) and (not asked or again(best)):
        asked += 1
        try:
            raised = settle(tuple(f"{name}>={version}" for name, version in sorted(wanted.items())))
        except AnswerNo as no:
            # Unsatisfiable, or the newest releases together aren't an answer for another reason
            said = _ASKED.sub(partial(_own_words, wanted), no.message).partition(": ")[2]
            blamed = {canonical_name(word) for word in _WORD.findall(said)}
        else:
            after = versions_of(raised)
            several = () if wanted is held else tuple(setbacks(now, after, higher, edges, releases))
            said = "; ".join(one.sentence(after) for one in several)
            blamed = {name for one in several for name in one.floors}
            if not several:
                best, now = raised, after
        wanted = newest if wanted is held else {n: taken[n] if n in blamed else one for n, one in wanted.items()}
    return best, Raised(taken, higher, "; ".join(filter(None, [*dict.fromkeys(refused.values()), said])), asked)


def refused_floors(
    wanted: Mapping[str, str],
    taken: Mapping[str, str],
    sole: Iterable[str],
    edges: Mapping[str, Iterable[str]],
    requires: Requires,
    releases: Releases,
) -> Iterator[tuple[str, str]]:
    """Find the floors that can't be held, as METADATA has them refuse, or be refused by, what can be no other release
    (what is at its own floor, or is the `sole` one that the spec admits), and both of two that refuse each other. Each
    comes with a sentence of that."""
    firm = {*sole, *(name for name, version in wanted.items() if version == taken[name])}
    fixed = [
        one
        for name in sorted(firm)
        for one in _claims(name, taken[name], "is the newest that the spec admits", edges.get(name, ()))
    ]
    others: dict[str, list[_Claim]] = {}
    for name, version in wanted.items():
        if name not in firm:
            own = [*_claims(name, version, "is the newest that it gets alone", requires(name, version))]
            if against := next(_against(own, fixed, releases), None):
                yield name, against
            else:
                others[name] = own
    for name, own in others.items():
        beside = [one for other, several in others.items() if other != name for one in several]
        if against := next(_against(own, beside, releases), None):
            yield name, against


_Claim = tuple[str, str, SpecifierSet]
"""A package, a sentence, and the bounds that it puts on that package."""


def _claims(name: str, version: str, what: str, lines: Iterable[str]) -> Iterator[_Claim]:
    yield name, f"{name} {version} {what}", SpecifierSet(f"=={version}")
    for line in lines:
        yield requirement_name(line), f"{name} {version} requires {line}", published_requirement(line).specifier


def _against(own: Iterable[_Claim], others: Sequence[_Claim], releases: Releases) -> Iterator[str]:
    for name, said, specifier in own:
        for _, other, bounds in (one for one in others if one[0] == name):
            page = [release.version for release in releases(name)]
            if page and not any(map((specifier & bounds).contains, page)):
                yield f"{said}, and {other}"


def _own_words(wanted: Mapping[str, str], said: re.Match[str]) -> str:
    """Put what uv says of a floor as what it is: the spec doesn't ask for it."""
    _, name, version = said.groups()
    return f"{'and ' * (said[1] == 'and ')}{name} alone gets {version}" if wanted.get(name) == version else said[0]


def raised_finding(
    before: Mapping[str, str], after: Mapping[str, str], asked: Iterable[str], far: Sequence[str] = ()
) -> Finding | None:
    """Tell what a solution raised to its floors has otherwise than uv's answer `before`: the packages that are
    `asked` for and newer, and what others are instead, of which some are `far` older. None where nothing is newer."""
    up = sorted(name for name in {*asked} & before.keys() & after.keys() if is_older(before[name], after[name]))
    if not up:
        return None
    raised = ", ".join(f"{name} {after[name]} is locked, not uv's {before[name]}" for name in up)
    message = f"{raised}: packages that the spec itself asks for don't go back for others"
    beside = moved_beside(before, after, (*up, *far))
    if not far:
        return Finding("info", "passed-over", f"{message}{beside}")
    lost = " and ".join(f"{name} {after[name]} is locked, not {before[name]}" for name in far)
    return Finding("warning", FAR, f"{lost}: {message}{beside}")


def unraised_finding(now: Mapping[str, str], left: Mapping[str, str], conflict: str) -> Finding | None:
    """Tell the packages of the spec that stay far below their floors, which are `left`. `conflict` is what stood last
    against the floors. None where nothing is left."""
    if not left:
        return None
    listed = ", ".join(f"{name} {now[name]} ({version})" for name, version in sorted(left.items()))
    why = f"all at their newest don't go together: {conflict}" if conflict else "what the last lock had was asked for"
    message = f"far below the newest that each gets alone: {listed}; {why}"
    return Finding("info", "passed-over", message)


def moved_beside(before: Mapping[str, str], after: Mapping[str, str], told: Collection[str]) -> str:
    """List for the end of a sentence what else differs between two solutions than packages that are `told`."""
    others = [
        f"{name} {after[name]} for {before[name]}"
        for name in sorted(before.keys() & after.keys() - {*told})
        if after[name] != before[name]
    ]
    others += [f"{name} {after[name]} besides" for name in sorted(after.keys() - before.keys() - {*told})]
    others += [f"no {name}" for name in sorted(before.keys() - after.keys() - {*told})]
    more = [f"{len(others) - _LISTED} more that differ"] if others[_LISTED:] else []
    return f"; with {', '.join((*others[:_LISTED], *more))}" if others else ""


def rejected_findings(
    rejected: Mapping[str, str], before: Mapping[str, str], now: Mapping[str, str], kept: Mapping[str, str]
) -> Iterator[Finding]:
    """Tell what is locked in place of releases that uv takes and envspec doesn't; `rejected` says of each package which
    and why. What else differs from uv's answer `before` is said with the first. What is `kept` from the old lock was
    told when it was chosen."""
    beside = moved_beside(before, now, rejected)
    for name, why in sorted(rejected.items()):
        if name not in kept or kept[name].partition("+")[0] != now.get(name):
            instead = f"{name} {now[name]} is locked" if name in now else f"{name} isn't locked"
            yield Finding("info", "passed-over", f"{instead}: {why}{beside}")
            beside = ""


def downgrades(now: Mapping[str, str], last: Mapping[str, str], conflict: str) -> Iterator[str]:
    """Describe each package that is older than in the `last` lock, local parts aside, which name a CUDA. `conflict` is
    what uv said against the newer ones."""
    named = {canonical_name(word) for word in _WORD.findall(conflict)}
    for name in sorted(last.keys() & now.keys()):
        had = last[name].partition("+")[0]
        if is_older(now[name], had):
            beside = [f"{one} {now[one]}" for one in sorted(named & now.keys() - {name})]
            why = f"newer ones don't go with {', '.join(beside) or 'the rest'}"
            yield f"{name} goes back from {had} to {now[name]}: {why}"
