"""Reviews of uv's answers, conflicts and ends: a function each, in one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from envspec.base.errors import EnvspecError
from envspec.packages.address import Address, parse_address
from envspec.packages.conflict import Unsatisfiable
from envspec.packages.names import requirement_name
from envspec.packages.requirement import parse_requirement
from envspec.resolve.pip.answer import dated_sources, older_sources
from envspec.resolve.pip.indexes import UvIndexes
from envspec.resolve.pip.loop import Answer, Reviews
from envspec.resolve.pip.newest import has_pre_release, possible_sources, stray_pre_releases
from envspec.resolve.pip.problem import Bound, Problem
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.retreat import refuse_bounds_of_python, review_python


def reviews_of(indexes: UvIndexes) -> Reviews:
    """Give all reviews in their order."""
    return Reviews(
        (partial(_sources, indexes), _python, _pre_releases),
        (partial(_unseen_sources, indexes), _neighbour, partial(_refused_python, indexes)),
    )


def _sources(indexes: UvIndexes, answer: Answer) -> Iterator[Bound]:
    """Show the sources of packages that uv takes from an older release's source, or before their wheels came."""
    request = answer.problem.question
    releases = indexes.releases(request)
    older = older_sources(answer.uv_packages, request, releases)
    names = {*older, *dated_sources(answer.uv_packages, request, answer.problem.pinned, releases)}
    return (Bound(name, "source") for name in sorted(names))


def _python(answer: Answer) -> tuple[Bound, ...]:
    return review_python(answer.problem, answer.packages, lambda: answer.resolution, answer.releases)


def _pre_releases(answer: Answer) -> Iterator[Bound]:
    """Leave out pre-releases that nothing asks for."""
    problem, packages = answer.problem, answer.packages
    if has_pre_release(packages, problem.pinned):
        asks, versions = answer.resolution.asks, {package.name: package.version for package in packages}
        for name in stray_pre_releases(packages, problem.request, asks, problem.pinned, answer.releases):
            yield Bound(name, "final", why=f"{versions[name]} is a pre-release, which nothing asks for")


def _unseen_sources(indexes: UvIndexes, problem: Problem, error: EnvspecError) -> Iterator[Bound]:
    """Show the sources of packages without a wheel for the target: they may do, and what they are needed for is told
    then. Nothing is built for it, and no leader brings sources into view."""
    if isinstance(error, Unsatisfiable) and not problem.is_led:
        proof, request = error.conflict, problem.question
        unfit = sorted({*proof.packages_of("no-wheel")} - {*request.allow_source, *request.unfit})
        names = unfit or possible_sources(indexes.packages_in(proof, request), request, indexes.releases(request))
        yield from (Bound(name, "source") for name in names)


def _neighbour(problem: Problem, error: EnvspecError) -> Iterator[Bound]:
    """Require a package out of a repository of the spec: uv builds of git what it is asked for alone."""
    stray, request = getattr(error, "stray", None), problem.question
    if stray is None or not stray.barred or stray.name not in request.allow_source:
        return
    if stray.name in map(requirement_name, request.addressed):
        return
    with suppress(ValueError):
        address = parse_address(stray.url)
        if any(replace(repository, revision=None).has_beside(address) for repository in addresses_of((request,))):
            yield Bound(f"{stray.name} @ {stray.url}", "requirement")


def _refused_python(indexes: UvIndexes, problem: Problem, error: EnvspecError) -> tuple[Bound, ...]:
    """Refuse releases that name the target's Python and can't stand beside the rest."""
    if isinstance(error, Unsatisfiable):
        refuse_bounds_of_python(problem, indexes.releases(problem.request))
    return ()


def addresses_of(requests: Iterable[Request]) -> tuple[Address, ...]:
    """List the addresses that the spec itself names, for some target."""
    urls = (parse_requirement(text).url for request in requests for text in request.addressed if "@" in text)
    return tuple(parse_address(url) for url in dict.fromkeys(urls) if url)
