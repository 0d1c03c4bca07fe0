"""Older releases that are an answer: those that name the target's own Python, CUDA or torch. Pure: pages come in
through a function.

uv answers a release that can't be had by an older one, and takes no notice of an upper bound in Requires-Python
(https://docs.astral.sh/uv/reference/internals/resolver/#requires-python). Where the target is older than a release
wants, the newest that fits is right. Where the target's Python is newer than a release allows, an older release says
nothing of that Python either, unless it has a wheel for exactly this Python, or a bound of its own at this minor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import Infeasible
from envspec.facts.cuda_stack import extras_for
from envspec.facts.python_builds import versions_of
from envspec.net.index_proxy.releases import Release, version_of
from envspec.packages.edges import markers_of
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name, head_of, published_requirement, with_extras
from envspec.packages.tags import takes_python
from envspec.packages.version_numbers import numbers
from envspec.resolve.pip.answer import Resolution
from envspec.resolve.pip.newest import (
    Asks,
    Releases,
    is_skipped,
    needed_glibc,
    newer_than,
    own_asks,
    suits_target,
    wheels_fit,
)
from envspec.resolve.pip.problem import CODE, Bound, Problem, Retreat, refusal
from envspec.resolve.pip.request import Request
from envspec.resolve.uv.answer import Found, FoundFile
from envspec.spec.way import Way

_OLDEST_MINOR = 8
"""The oldest Python that a spec may ask for."""
NEWEST_MINOR = 14
"""The newest Python 3 that is offered as a way."""


def names_python(release: Release, request: Request) -> bool:
    """Return whether a release names a target's Python ("3.13"): by a wheel for exactly that, or by a bound in
    Requires-Python that admits it and refuses the next one."""
    tag = f"cp{request.python.replace('.', '')}"
    for file in release.wheels:
        interpreter, abi, _ = file.removesuffix(".whl").rsplit("-", 3)[1:]
        if tag in interpreter.split(".") and any(name.startswith(tag) for name in abi.split(".")):
            return True
    requires = release.requires_python or ""
    return takes_python(requires, request.full_python) and not takes_python(requires, _next(request.python))


def retreats(
    packages: Iterable[Found], request: Request, asks: Mapping[str, Asks], releases: Releases
) -> tuple[Retreat, ...]:
    """Find the packages of a solution of which it has a release that refuses the target's Python, or one that is older
    than a release with wheels for older Pythons alone, which all requirements admit. What the spec accepts is left out.
    """
    return tuple(retreat for package in packages for retreat in _of(package, request, asks, releases))


def newest_releases(request: Request, releases: Releases) -> tuple[Found, ...]:
    """Give the newest releases of the spec's packages that uv may take, each alone, as the pages have them. uv takes no
    notice of an upper bound in Requires-Python."""
    asks, provided = own_asks(request), dict(request.provided)
    holds = markers_of(request.platform, request.full_python).hold
    names = {requirement_name(line) for line in request.effective if " @ " not in line and holds(line, frozenset())}
    packages = []
    for name in sorted(names - {*provided}):
        for release in releases(name):
            if not _is_capped(release.requires_python or "", request):
                if suits_target(release, request, name, asks.get(name)) and (
                    release.source or not is_skipped(release, request, name)
                ):
                    break
            elif suits_target(replace(release, requires_python=None), request, name, asks.get(name)):
                packages.append(Found(name, release.version, (FoundFile("", release.version, None),)))
                break
    return tuple(packages)


def _is_capped(requires: str, request: Request) -> bool:
    """Return whether a Requires-Python refuses a target's Python for being too new."""
    return not takes_python(requires, request.full_python) and any(
        takes_python(requires, older.full_python) for older in _older(request)
    )


def _of(package: Found, request: Request, asks: Mapping[str, Asks], releases: Releases) -> Iterator[Retreat]:
    if not package.files or not package.version or request.accepts(CODE, package.name):
        return
    page = releases(package.name)
    own = next((candidate for candidate in page if candidate.version == package.version), None)
    if own is None:
        return
    if not takes_python(own.requires_python or "", request.full_python):
        release: Release | None = own
    elif names_python(own, request):
        return
    else:
        release = _for_older_pythons(package, page, request, asks.get(package.name))
    if release is not None:
        retreat = _retreat(package, release, page, request, asks.get(package.name))
        if not request.accepts(retreat.code, package.name):
            yield retreat


def _for_older_pythons(package: Found, page: Sequence[Release], request: Request, asks: Asks | None) -> Release | None:
    """Find the newest release after that of a solution whose wheels would fit the target, were its Python older."""
    for release in newer_than(page, version_of(package.version or "")):
        if (
            not release.unsuited
            and suits_target(release, request, package.name, asks)
            and is_skipped(release, request, package.name)
            and any(wheels_fit(release.wheels, older) for older in _older(request))
        ):
            return release
    return None


def _retreat(package: Found, release: Release, page: Sequence[Release], request: Request, asks: Asks | None) -> Retreat:
    newest = version_of(release.version)
    assert newest is not None
    older = [
        candidate
        for candidate in page
        if (version := version_of(candidate.version)) is not None
        and version < newest
        and suits_target(candidate, request, package.name, asks)
        and not is_skipped(candidate, request, package.name)
    ]
    named = next((candidate.version for candidate in older if names_python(candidate, request)), None)
    return Retreat(package.name, str(package.version), release, named, older[0].version if older else None)


def newest_python(retreat: Retreat, request: Request) -> str | None:
    """Name the newest Python before the target's for which a release can be installed; None where there is none."""
    release = retreat.release
    for older in _older(request):
        if takes_python(release.requires_python or "", older.full_python) and (
            release.source or wheels_fit(release.wheels, older)
        ):
            return older.python
    return None


def bounds_of(
    retreated: Iterable[Retreat], request: Request, above: Mapping[str, str] = MappingProxyType({})
) -> tuple[Bound, ...]:
    """Give the bounds that replace these releases by older ones that name the target's Python, or by the newest one's
    source. `above` has the versions of the packages that lead to them."""
    return tuple(
        Bound(retreat.name, "source")
        if retreat.may_be_built
        else Bound(
            f"{retreat.name}<={retreat.named}",
            why=retreat.why(request) if retreat.refuses else "",
            retreat=retreat,
            above=tuple(sorted(above.items())),
        )
        for retreat in retreated
    )


def caps(problem: Problem, releases: Releases) -> tuple[Bound, ...]:
    """Give bounds on the spec's packages whose newest release is too old for the target's Python: uv takes no notice of
    that. Raises Retreated where no release names the Python."""
    request = problem.question
    capped = retreats(newest_releases(request, releases), request, own_asks(request), releases)
    if lost := [retreat for retreat in capped if retreat.named is None]:
        refuse_retreats(lost, request, problem.label, releases)
    return bounds_of(capped, problem.request)


def review_python(
    problem: Problem, packages: tuple[Found, ...], resolution: Callable[[], Resolution], releases: Releases
) -> tuple[Bound, ...]:
    """Bound the packages of an answer that stand at a release which the target's Python is too new for. Raises
    Retreated where no answer is left."""
    request, before = problem.question, [bound for bound in problem.bounds if bound.retreat]
    above = {name: version for bound in before for name, version in bound.above}
    if went_back(above, packages, request, releases):
        refuse_bounds_of_python(problem, releases)
    # METADATA is read only where pages, whatever is required of a package, leave a doubt
    if not retreats(packages, request, {}, releases):
        return ()
    answer = resolution()
    # of one whose source uv has seen already something else stands in the release's way
    unnamed = [
        retreat
        for retreat in retreats(packages, request, answer.asks, releases)
        if not (retreat.may_be_built and retreat.name in request.unfit)
    ]
    if lost := [capped for capped in unnamed if not capped.may_be_built and capped.named is None]:
        refuse_retreats(lost, request, problem.label, releases)
    names = [bound.package for bound in before] + [capped.name for capped in unnamed if not capped.may_be_built]
    return bounds_of(unnamed, problem.request, versions_above(names, packages, answer.edges))


def refuse_bounds_of_python(problem: Problem, releases: Releases) -> None:
    """Raise Retreated for a problem without an answer that has bounds for the target's Python."""
    if before := [bound.retreat for bound in problem.bounds if bound.retreat]:
        refuse_retreats(before, problem.request, problem.label, releases)


def versions_above(
    names: Iterable[str], packages: Iterable[Found], edges: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Give the versions of the packages that lead to packages of a solution."""
    required = {name: {requirement_name(line) for line in lines} for name, lines in edges.items()}
    leading, waiting = set[str](), [*names]
    while waiting:
        name = waiting.pop()
        more = {asker for asker, asks in required.items() if name in asks} - leading
        leading |= more
        waiting += more
    return {package.name: package.version for package in packages if package.name in leading and package.version}


def went_back(before: Mapping[str, str], packages: Iterable[Found], request: Request, releases: Releases) -> bool:
    """Return whether a package on the way to a bounded one went back to a release that doesn't name the Python."""
    for package in packages:
        version, former = version_of(package.version or ""), version_of(before.get(package.name, ""))
        if version is not None and former is not None and version < former:
            release = next((each for each in releases(package.name) if each.version == package.version), None)
            if release is not None and not names_python(release, request):
                return True
    return False


class Retreated(Infeasible):
    """The only answers are older releases that name none of the target's Python, CUDA and torch. `ways` may lead to a
    better answer; the spec may also accept this one."""

    def __init__(self, message: str, ways: Iterable[Way], codes: Mapping[str, str], by: tuple[str, ...] = ()) -> None:
        """`codes` has the code under which each package can be accepted; `by` are those that sent them back."""
        super().__init__(message)
        self._by = by
        self.ways = (*ways, Way(accept=tuple((code, name) for name, code in codes.items())))
        self.code = min(codes.values(), default="retreat")
        self.with_subjects(*codes)

    @property
    def subjects(self) -> tuple[str, ...]:
        return (*self.about, *self._by)


def refuse_retreats(lost: Sequence[Retreat], request: Request, label: str, releases: Releases) -> NoReturn:
    """Raise Retreated for packages that have no answer on a target's Python. `label` names the targets."""
    reasons = dict.fromkeys(retreat.message(request) for retreat in lost)
    ways = [way for retreat in lost for way in _ways(retreat, request, releases)]
    if len(lost) > 1:
        # what is to be done about each belongs together
        pythons = [way for way in ways if way.python and not way.python_range]
        ways = sorted(pythons, key=lambda way: numbers(str(way.python)))[:1]
        ways += (
            [Way(bounds=tuple(f"{retreat.name}<={retreat.older}" for retreat in lost))]
            if all(retreat.older for retreat in lost)
            else []
        )
    raise Retreated(
        f"{label}: {'; '.join(reasons)}", dict.fromkeys(ways), {retreat.name: retreat.code for retreat in lost}
    )


class LostExtra(Struct, frozen=True):
    """An extra that the spec asks for and that the solution's release doesn't have.

    line     the spec's requirement
    release  the newest release after it that the spec admits and the target can't have
    wants    that release's demand on the target, where uv takes it without envspec's bounds
    glibc    the glibc that all of that answer goes with; None where glibc doesn't stand in its way
    offers   the extras of that release
    """

    line: str
    name: str
    taken: str
    extra: str
    release: Release
    wants: str = ""
    glibc: str | None = None
    offers: frozenset[str] = frozenset()

    def message(self, request: Request) -> str:
        """Write the message: the lost extra, and the reason why the release that may have it isn't the answer."""
        version = self.release.version
        if not takes_python(self.release.requires_python or "", request.full_python):
            why = refusal(self.release, request).removeprefix(f"{version} ")
        elif is_skipped(self.release, request, self.name):
            why = "has no wheel for the target"
        else:
            why = f"doesn't go with what the target has: {self.wants}"
        has = f"{self.name} {self.taken} has no extra {self.extra}, which the spec asks for"
        return f"{has}, and {version}, which has it, {why}"

    def ways(self, request: Request) -> Iterator[Way]:
        for python in (request.python, *newer_pythons(request.python)):
            moved = replace(request, python=python)
            if takes_python(self.release.requires_python or "", moved.full_python) and (
                not self.release.wheels or wheels_fit(self.release.wheels, moved)
            ):
                if python != request.python:
                    yield Way(python=python)
                break
        if glibc := needed_glibc(self.release.wheels, request) or self.glibc:
            yield Way(glibc=glibc)
        extras = {extra for extra in published_requirement(self.line).extras if canonical_name(extra) != self.extra}
        major = (request.cuda or "").partition(".")[0]
        own = extras_for(major, {self.extra}, self.offers) if major else None
        if own and not own <= extras:
            line = with_extras(self.line, {*extras, *own})
            yield Way(line=line)
        yield Way(line=with_extras(self.line, extras), note=f"without the extra {self.extra}")


def lost_extras(
    solution: Iterable[Found],
    request: Request,
    offered: Callable[[Found], frozenset[str]],
    ahead: Mapping[str, tuple[str, str, str | None]],
    offers: Callable[[str, str], frozenset[str]],
    releases: Releases,
) -> Iterator[LostExtra]:
    """Find the extras that the spec asks for, that a solution doesn't have and that a newer release `offers`: one that
    the target refuses, or the one `ahead`, which uv takes without envspec's bounds, with its demand on the target and
    its glibc. Extras that the spec accepts to lose are left out, and those of releases that can't be read: there the
    warning of an extra that isn't there stands alone."""
    packages, alone = {package.name: package for package in solution}, own_asks(request)
    holds = markers_of(request.platform, request.full_python).hold
    for line in request.effective:
        head = head_of(line)
        package = packages.get(head.name)
        if not head.extras or package is None or not package.files or not holds(line, frozenset()):
            continue
        lost = head.extras - offered(package)
        if not lost or {"retreat", f"retreat:{head.name}"} & {*request.accepted}:
            continue
        for release in newer_than(releases(head.name), version_of(package.version or "")):
            if not suits_target(replace(release, requires_python=None), request, head.name, alone.get(head.name)):
                continue
            refused = not takes_python(release.requires_python or "", request.full_python)
            version, wants, glibc = ahead.get(head.name, ("", "", None))
            if refused or is_skipped(release, request, head.name) or version == release.version:
                newer = offers(head.name, release.version)
                for extra in sorted(lost & newer):
                    yield LostExtra(line, head.name, str(package.version), extra, release, wants, glibc, newer)
                break


def refuse_lost_extras(lost: Sequence[LostExtra], request: Request, label: str) -> None:
    """Raise Retreated for extras that are given up for the target's sake. `label` names the targets."""
    if lost:
        reasons = "; ".join(lost_extra.message(request) for lost_extra in lost)
        ways = dict.fromkeys(way for lost_extra in lost for way in lost_extra.ways(request))
        raise Retreated(f"{label}: {reasons}", ways, {lost_extra.name: "retreat" for lost_extra in lost})


def _ways(retreat: Retreat, request: Request, releases: Releases) -> Iterator[Way]:
    page = releases(retreat.name)
    lifting = [
        release
        for release in newer_than(page, version_of(retreat.release.version))
        if suits_target(release, request, retreat.name, None) and not is_skipped(release, request, retreat.name)
    ]
    is_required = retreat.name in {requirement_name(line) for line in request.requirements}
    if lifting and is_required:
        yield Way(line=f"{retreat.name}=={lifting[-1].version}", note="the bounds leave it out")
    elif lifting:
        # what leads to it can be had beside another release too
        yield Way(bounds=(f"{retreat.name}>={lifting[-1].version}",))
    builds = versions_of(request.python, request.platform) if retreat.refuses else ()
    for build in reversed(builds):
        if takes_python(retreat.release.requires_python or "", build):
            yield Way(python=request.python, python_range=f"=={build}")
            break
    if (python := newest_python(retreat, request)) is not None:
        yield Way(python=python)
    if retreat.older is not None:
        yield Way(line=f"{retreat.name}<={retreat.older}")


def _older(request: Request) -> Iterator[Request]:
    """Give the request for each older Python, the newest first."""
    major, minor = request.python.split(".")[:2]
    return (replace(request, python=f"{major}.{number}") for number in range(int(minor) - 1, _OLDEST_MINOR - 1, -1))


def newer_pythons(python: str) -> tuple[str, ...]:
    """List the Pythons after a target's, up to the newest that envspec knows: newer releases may support these
    alone."""
    major, minor = python.split(".")[:2]
    return tuple(f"{major}.{number}" for number in range(int(minor) + 1, NEWEST_MINOR + 1))


def _next(python: str) -> str:
    major, minor = python.split(".")[:2]
    return f"{major}.{int(minor) + 1}"
