"""Which older release is an answer: one that names what the target has. Pure: pages come in through a function.

uv answers a release that can't be had by an older one, and takes no notice of an upper bound in Requires-Python
(https://docs.astral.sh/uv/reference/internals/resolver/#requires-python). Where the target is older than a release
wants, the newest that fits is right. Where the target's Python is newer than a release allows, an older release says
nothing of that Python either, unless it has a wheel for exactly this Python, or a bound of its own at this minor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NoReturn

from envspec.errors import EnvspecError, Infeasible, InfeasibleTargets
from envspec.net.index_proxy.releases import Release, version_of
from envspec.packages.names import requirement_name
from envspec.packages.tags import takes_python
from envspec.record import dataclass, replace
from envspec.resolve.pip.newest import Asks, Releases, admitted, is_skipped, newer_than, wheels_fit
from envspec.resolve.pip.request import Request, with_constraints
from envspec.uv.answer import Found

CODE = "requires-python"
"""The finding of a release that refuses the target's Python. A spec can accept it, by package."""
_OLDEST_MINOR = 8
"""The oldest Python that a spec may ask for."""


@dataclass(frozen=True)
class Retreat:
    """A package of a solution, and a release of it that the target's Python is too new for.

    release  that release: the one of the solution, if its Requires-Python refuses the target's, else a newer one with
             wheels for older Pythons alone
    named    the newest older release that names the target's Python, or none
    older    the newest older release that doesn't refuse it, or none
    """

    name: str
    taken: str
    release: Release
    named: str | None
    older: str | None

    @property
    def refuses(self) -> bool:
        """Whether the release's Requires-Python refuses the target's Python."""
        return self.taken == self.release.version

    @property
    def may_be_built(self) -> bool:
        """Whether the answer is the release's source: it says nothing against this Python."""
        return not self.refuses and self.release.source

    def is_asked(self, request: Request) -> bool:
        """Whether uv has seen its source already: then something else stands in that release's way."""
        return self.may_be_built and self.name in request.unfit

    def message(self, python: str) -> str:
        """Say why the release isn't an answer, and what an older one would be."""
        if self.refuses:
            why = f"doesn't take Python {python} (Requires-Python {self.release.requires_python})"
        else:
            why = f"has no wheel for Python {python}, only for older ones"
        older = self.older if self.refuses else self.taken
        said = f", and {older} says nothing of it" if older else ""
        return f"{self.name} {self.release.version} {why}{said}"


def names_python(release: Release, python: str) -> bool:
    """Say whether a release names a Python ("3.13"): by a wheel for exactly that, or by a bound in Requires-Python
    that admits it and refuses the next one."""
    tag = f"cp{python.replace('.', '')}"
    for file in release.wheels:
        interpreter, abi, _ = file.removesuffix(".whl").rsplit("-", 3)[1:]
        if tag in interpreter.split(".") and any(one.startswith(tag) for one in abi.split(".")):
            return True
    said = release.requires_python or ""
    return takes_python(said, python) and not takes_python(said, _next(python))


def suspects(found: Iterable[Found], request: Request, releases: Releases) -> tuple[Found, ...]:
    """Pick the packages of a solution that `retreats` has to look at, whatever is required of them."""
    return tuple(one for one in found if next(_of(one, request, {}, releases), None) is not None)


def retreats(
    found: Iterable[Found], request: Request, asks: Mapping[str, Asks], releases: Releases
) -> tuple[Retreat, ...]:
    """Find the packages of a solution of which it has a release that refuses the target's Python, or one that is older
    than a release with wheels for older Pythons alone, which all requirements admit. What the spec accepts is left out.
    """
    return tuple(one for package in found for one in _of(package, request, asks, releases))


def _of(package: Found, request: Request, asks: Mapping[str, Asks], releases: Releases) -> Iterator[Retreat]:
    if not package.files or not package.version or {CODE, f"{CODE}:{package.name}"} & {*request.accepted}:
        return
    page = releases(package.name)
    own = next((one for one in page if one.version == package.version), None)
    if own is None:
        return
    if not takes_python(own.requires_python or "", request.full_python):
        release: Release | None = own
    elif names_python(own, request.python):
        return
    else:
        release = _for_older_pythons(package, page, request, asks.get(package.name))
    if release is not None:
        yield _retreat(package, release, page, request, asks.get(package.name))


def _for_older_pythons(package: Found, page: Sequence[Release], request: Request, asks: Asks | None) -> Release | None:
    """Find the newest release after that of a solution whose wheels would fit the target, were its Python older."""
    for release in newer_than(page, version_of(package.version or "")):
        if (
            not release.unsuited
            and admitted(release, request, package.name, asks)
            and is_skipped(release, request, package.name)
            and any(wheels_fit(release.wheels, replace(request, python=one)) for one in _older(request.python))
        ):
            return release
    return None


def _retreat(package: Found, release: Release, page: Sequence[Release], request: Request, asks: Asks | None) -> Retreat:
    newest = version_of(release.version)
    assert newest is not None
    older = [
        one
        for one in page
        if (version := version_of(one.version)) is not None
        and version < newest
        and admitted(one, request, package.name, asks)
        and not is_skipped(one, request, package.name)
    ]
    named = next((one.version for one in older if names_python(one, request.python)), None)
    return Retreat(package.name, str(package.version), release, named, older[0].version if older else None)


def newest_taken(retreat: Retreat, request: Request) -> str | None:
    """Name the newest Python before the target's for which a release can be installed; None where there is none."""
    release = retreat.release
    for python in _older(request.python):
        if takes_python(release.requires_python or "", python) and (
            release.source or wheels_fit(release.wheels, replace(request, python=python))
        ):
            return python
    return None


def in_place_of(back: Sequence[Retreat], request: Request) -> Request:
    """Give the request whose answer has releases that name the target's Python, or the newest one's source, in the
    place of these."""
    unfit = tuple(one.name for one in back if one.may_be_built)
    bounds = tuple(f"{one.name}<={one.named}" for one in back if not one.may_be_built)
    return with_constraints(replace(request, unfit=(*request.unfit, *unfit)), bounds)


Ask = Callable[[Request], object]
"""Has uv solve a request. Raises Unsatisfiable, or another EnvspecError, where that has no answer."""


def refuse_retreats(lost: Sequence[Retreat], request: Request, label: str, ask: Ask, releases: Releases) -> NoReturn:
    """Raise Infeasible for packages that have no answer on a target's Python, with ways that have one: each was asked.
    `label` names the targets."""
    refused = [
        Infeasible(f"{label}: {one.message(request.python)}", hint=_ways(one, request, ask, releases)).concerning(
            one.name
        )
        for one in lost
    ]
    raise refused[0] if len(refused) == 1 else InfeasibleTargets(refused)


def _ways(one: Retreat, request: Request, ask: Ask, releases: Releases) -> str:
    ways = [text for text, asked in _tries(one, request, releases) if _has_an_answer(asked, ask)]
    if one.refuses:
        ways.append(f'if it works for you, add to [pip]: accept = {{ {CODE} = {{ {one.name} = "why" }} }}')
    return "; or ".join(ways) or f"leave {one.name} out"


def _tries(one: Retreat, request: Request, releases: Releases) -> Iterator[tuple[str, Request]]:
    """List what may be written instead, and the request that it would make."""
    lifting = [
        release
        for release in newer_than(releases(one.name), version_of(one.release.version))
        if admitted(release, request, one.name, None) and not is_skipped(release, request, one.name)
    ]
    lines = tuple(line for line in request.requirements if requirement_name(line) != one.name)
    if lifting:
        exact = f"{one.name}=={lifting[-1].version}"
        yield f"take {exact}, which the bounds leave out", replace(request, requirements=(*lines, exact))
    if (python := newest_taken(one, request)) is not None:
        yield f'python = "{python}"', replace(request, python=python)
    if one.older is not None:
        bound = f"{one.name}<={one.older}"
        yield f'to take {one.older} knowingly, write "{bound}"', with_constraints(request, (bound,))


def _has_an_answer(request: Request, ask: Ask) -> bool:
    try:
        ask(request)
    except EnvspecError:
        return False
    return True


@lru_cache(maxsize=16)
def _older(python: str) -> tuple[str, ...]:
    major, minor = python.split(".")[:2]
    return tuple(f"{major}.{one}" for one in range(int(minor) - 1, _OLDEST_MINOR - 1, -1))


def _next(python: str) -> str:
    major, minor = python.split(".")[:2]
    return f"{major}.{int(minor) + 1}"
