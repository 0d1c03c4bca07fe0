"""Source only where there is no wheel: what `allow-source` means.

uv has no such mode: `--no-binary NAME` makes it pass over every wheel of a package, and without it uv takes the newest
wheel, were it ten years older than the newest source. So each package that may be built is first looked up by itself as
a wheel, which is quick; where that is as new as the newest source on the index's page, it's solved as a wheel. Nothing
is built meanwhile: a build runs code, may take minutes, and fails where its compiler isn't.

The same trap waits where nothing may be built: of a package that is published as source, uv takes what stray wheel
there is, such as a development build of years ago. A pre-release that nobody asked for is the sign of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from envspec.errors import EnvspecError, IndexFailure, Unsatisfiable
from envspec.lock.inputs import requirement_name
from envspec.resolve.request import Request
from envspec.resolve.uv import Found

Ask = Callable[[Request, bool], tuple[Found, ...]]
"""Solves a request; with True its requirements alone, without what they depend on."""

NewestSource = Callable[[str, str], "str | None"]
"""(package, specifiers) → the newest version that the index has as source and the specifiers admit; None for none.

Raises IndexFailure where the page can't be read."""


def prefer_wheels(request: Request, ask: Ask, newest_source: NewestSource) -> tuple[Found, ...]:
    """The solution of a request that may build packages from source. Raises what `ask` raises."""
    names = [name for name in request.allow_source if not any("@" in line for line in _own(request, name))]
    if not names:
        return ask(request, False)
    pool = ThreadPoolExecutor(len(names))
    try:
        answers = pool.map(lambda name: _wheel_will_do(request, name, ask, newest_source), names)
        wheeled = {name for name, yes in zip(names, answers, strict=True) if yes}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    if not wheeled:
        return ask(request, False)
    try:
        return ask(replace(request, allow_source=tuple(n for n in request.allow_source if n not in wheeled)), False)
    except Unsatisfiable as conflict:
        # a wheel, but not of a version that goes with the rest
        try:
            return ask(request, False)
        except Unsatisfiable:
            raise conflict from None


def _wheel_will_do(request: Request, name: str, ask: Ask, newest_source: NewestSource) -> bool:
    from packaging.version import Version

    own = _own(request, name)
    try:
        found = ask(replace(request, requirements=own or (name,), allow_source=()), True)
    except EnvspecError:
        # an index that fails here fails the whole solution too, and is told there
        return False
    wheel = next((Version(package.version) for package in found if package.name == name and package.version), None)
    if wheel is None:
        return False
    try:
        source = newest_source(name, _specifiers(own))
    except IndexFailure:
        # without a network: a wheel that was fetched once is good enough, unless it's one that nobody asks for
        return not wheel.is_prerelease
    return source is None or wheel >= Version(source)


def refuse_strays(
    found: Iterable[Found], request: Request, kept: Mapping[str, str], newest_source: NewestSource, label: str
) -> None:
    """Raise Unsatisfiable for a wheel that is a pre-release nobody asked for and older than the newest source.

    Only where a solution has such a wheel are pages read, and not for versions in `kept`, which were judged when they
    were chosen. Raises IndexFailure where a page can't be read.
    """
    for package in found:
        stray = package.version if package.files and package.name not in request.allow_source else None
        if stray is None or kept.get(package.name) == stray or not _is_unasked(package.name, stray, request):
            continue
        from packaging.version import Version

        name_it = f'to have the pre-release all the same, name it in the spec: "{package.name}>={stray}"'
        try:
            source = newest_source(package.name, _specifiers(_own(request, package.name)))
        except IndexFailure as failure:
            raise IndexFailure(
                f"{label}: {package.name} {stray} is a pre-release that nothing asks for, and whether there is newer "
                f"source can't be told: {failure.message}",
                hint=f"{failure.hint}; {name_it}",
            ) from None
        if source is not None and Version(source) > Version(stray):
            raise Unsatisfiable(
                f"{label}: {package.name} {source} is on offer as source only; the newest wheel is {stray}, a "
                "pre-release that nothing asks for",
                hint=f'building source runs its code; if you trust it: allow-source = ["{package.name}"] in [pip]; '
                + name_it,
            )


def _is_unasked(name: str, version: str, request: Request) -> bool:
    """Whether a version is a pre-release that no requirement or constraint names as such."""
    from packaging.requirements import Requirement
    from packaging.version import Version

    if not Version(version).is_prerelease:
        return False
    lines = (*request.requirements, *request.constraints)
    return not any(Requirement(line).specifier.prereleases for line in lines if requirement_name(line) == name)


def _specifiers(lines: Iterable[str]) -> str:
    from packaging.requirements import Requirement

    return ",".join(str(Requirement(text).specifier) for text in lines).strip(",")


def _own(request: Request, name: str) -> tuple[str, ...]:
    """What the spec itself asks of a package."""
    return tuple(text for text in request.requirements if requirement_name(text) == name)
