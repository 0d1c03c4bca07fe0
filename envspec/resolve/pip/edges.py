"""The requirements of METADATA that hold in a target. An unreadable one is a failure of the index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby

from msgspec.structs import replace
from packaging.requirements import Requirement

from envspec.base.errors import IndexFailure
from envspec.base.redact import without_credentials
from envspec.base.texts import UNSEEN, printable
from envspec.facts.cuda_stack import cuda_major_in, of_any_cuda
from envspec.packages.edges import ByExtra, Markers, Overrides, effective, markers_of, reach
from envspec.packages.metadata import Metadata
from envspec.packages.names import requirement_name
from envspec.packages.requirement import EXTRA_MARKER, TEXTS, canonical_name, head_of, published_requirement
from envspec.resolve.pip.request import Request

_NONE = Overrides(())
_PATCHES = re.compile(r"\b(?:python_full_version|implementation_version)\b")
"""What tells patch releases of Python apart."""
_OF_EXTRA = re.compile(r"""(?!.*\bor\b)[^@;'"]*;(?:[^'"]*['"][^'"]*['"][^'"]*\band )?\s*extra == ['"]([^'"]+)['"]""")
"""A requirement that holds for an extra alone. Most are of extras that nothing asks for: these aren't parsed."""
_HINT = "name another release of that package in the spec"


def active_lines(request: Request, packages: Mapping[str, Metadata]) -> dict[str, tuple[str, ...]]:
    """Find the Requires-Dist lines of every package (by normalised name) that hold in the request's target.

    A line with an `extra` marker holds if something asks for that extra of the package. A line of an overridden
    package also counts where its override holds in its place: an override drops the line's own marker. Lines are
    normalised and sorted. Raises IndexFailure for a line that isn't a requirement.
    """
    edges = _follow(request, packages, ((name, frozenset()) for name in packages))
    return {name: edges[name] for name in packages}


def reachable_packages(request: Request, packages: Mapping[str, Metadata]) -> frozenset[str]:
    """Find the packages that the request's own requirements lead to. Raises as `active_lines` does."""
    return frozenset(_follow(request, packages))


def _follow(
    request: Request, packages: Mapping[str, Metadata], more: Iterable[tuple[str, frozenset[str]]] = ()
) -> dict[str, tuple[str, ...]]:
    """Follow the lines that hold, from the request's requirements and `more` packages, to each package's edges."""
    markers = markers_of(request.platform, request.full_python)
    overrides = Overrides(request.overrides)
    edges: dict[str, tuple[str, ...]] = {}
    lines = {name: package.requires_dist for name, package in packages.items()}
    lines |= {name: tuple(of_base) for name, of_base in request.extras}

    def heads(texts: Iterable[str]) -> Iterator[tuple[str, frozenset[str]]]:
        return ((head.name, head.extras) for head in map(head_of, texts) if head.name in lines)

    grown: dict[str, ByExtra] = {}

    def following(name: str, added: frozenset[str], first: bool) -> Iterator[tuple[str, frozenset[str]]]:
        try:
            if first:
                target = request.platform, request.full_python, request.overrides
                edges[name], texts = _edges(lines[name], added, *target)
            else:
                if name not in grown:
                    grown[name] = ByExtra(lines[name])
                texts = edges_of(grown[name].lines(added), added, markers, overrides)[1]
        except IndexFailure as failure:
            failure.message = failure.message.replace("a package", f"{name} {packages[name].version}", 1)
            raise failure.with_subjects(name) from None
        return heads(texts)

    own = (text for line in request.requirements for text in _lines_that_hold(line, frozenset(), markers, overrides))
    reached = reach((*heads(own), *more), following)
    for name in grown:
        edges[name] = edges_of(lines[name], reached[name], markers, overrides)[0]
    return edges


def two_answers(
    request: Request, packages: Mapping[str, Metadata]
) -> tuple[str, str, tuple[tuple[str, str], ...]] | None:
    """Find a line of a package, or of the spec (""), that holds for some of a request's possible Pythons and not for
    others. Gives its package, the line, and the ranges of Pythons that have one answer, the oldest first: each by its
    first and last. None where all have the same. Raises as `active_lines` does."""
    lines = (line for package in packages.values() for line in package.requires_dist)
    if not any(_PATCHES.search(line) for line in (*request.requirements, *lines)):
        return None

    def edges_for(python: str) -> Mapping[str, tuple[str, ...]]:
        markers = markers_of(request.platform, python)
        own = tuple(filter(markers.hold, request.requirements))
        return {"": own, **active_lines(replace(request, python_version=python), packages)}

    known = [(python, edges_for(python)) for python in request.any_python]
    first, other = known[0][1], next((edges for _, edges in known if edges != known[0][1]), None)
    if other is None:
        return None
    name, line = next((name, line) for name in first for line in sorted({*first[name]} ^ {*other[name]}))
    ranges = [[python for python, _ in alike] for _, alike in groupby(known, key=lambda pair: pair[1])]
    return name, line, tuple((pythons[0], pythons[-1]) for pythons in ranges)


@lru_cache(maxsize=TEXTS)
def _edges(
    lines: tuple[str, ...], extras: frozenset[str], platform: str, python: str, overrides: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    # the targets of a spec share most packages, and mostly their platform and Python
    return edges_of(lines, extras, markers_of(platform, python), Overrides(overrides))


def edges_of(
    lines: Iterable[str], extras: frozenset[str], markers: Markers, overrides: Overrides
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Find the Requires-Dist lines of one package that hold as `active_lines` does, and the requirements that they come
    to. Raises as `active_lines` does."""
    effects = {line: _lines_that_hold(line, extras, markers, overrides) for line in lines}
    # most lines are of extras that nobody asks for: a whole parse is for those that hold
    held = {
        _normal(line)
        for line, instead in effects.items()
        if instead or (overrides and _lines_that_hold(line, extras, markers, _NONE))
    }
    return tuple(map(_visible, sorted(held))), tuple(text for instead in effects.values() for text in instead)


def for_other_cuda(
    held: Iterable[str], lines: Iterable[str], markers: Markers, major: str | None = None
) -> tuple[str, ...]:
    """Find the Requires-Dist lines of a package that name a library which `held` lines require for another CUDA,
    whatever extra asks for them: they show how the package chooses its CUDA. `major` leaves out other majors."""
    libraries = {of_any_cuda(requirement_name(line)) for line in held} - {None}
    alike = [line for line in lines if libraries and of_any_cuda(requirement_name(line)) in libraries]
    selected = [line for line in alike if major in (None, cuda_major_in(requirement_name(line)))]
    extras = frozenset(canonical_name(extra) for line in selected for extra in EXTRA_MARKER.findall(line))
    return edges_of(selected, extras, markers, Overrides(()))[0]


def _lines_that_hold(line: str, extras: frozenset[str], markers: Markers, overrides: Overrides) -> tuple[str, ...]:
    if not overrides and (alone := _OF_EXTRA.fullmatch(line)) and canonical_name(alone[1]) not in extras:
        return ()
    try:
        if not overrides:
            return (line,) if markers.hold(line, extras) else ()
        return tuple(text for text, _ in effective(line, extras, markers, overrides))
    except ValueError:
        if (named := EXTRA_MARKER.findall(line)) and extras.isdisjoint(map(canonical_name, named)):
            return ()
        raise _unreadable(line) from None


def requirement_of(line: str) -> Requirement:
    """Parse a Requires-Dist line. Raises IndexFailure if it isn't a requirement."""
    try:
        return published_requirement(line)
    except ValueError:
        raise _unreadable(line) from None


@lru_cache(maxsize=TEXTS)
def _normal(line: str) -> str:
    requirement = requirement_of(line)
    # written as a pin's own address is, without a secret
    text, url = str(requirement), requirement.url
    return text.replace(url, without_credentials(url)) if url else text


def _unreadable(line: str) -> IndexFailure:
    return IndexFailure(f'a package requires "{line}", which isn\'t a valid requirement', hint=_HINT)


def _visible(line: str) -> str:
    if UNSEEN.search(line):
        raise IndexFailure(f"a package requires {printable(line)!r}, which a lock can't hold", hint=_HINT)
    return line
