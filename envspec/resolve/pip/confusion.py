"""Dependency confusion: packages that a named index has, that its packages require, and for which the spec names no
index. A private package's requirements are mostly private too. All that an attack needs is a public release of the same
name with a very high version.

uv asks a named index only for the names in `[pip] sources`. So once uv has answered, and before any of the answer may
be built, this module asks the index for each name that its packages lead to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import AnswerNo, EnvspecError
from envspec.base.threads import Pool
from envspec.packages.edges import shortest_paths
from envspec.packages.names import PUBLIC
from envspec.resolve.pip.answer import Resolution
from envspec.resolve.pip.request import Request
from envspec.spec.way import Way

_WORKERS = 8
_PYTORCH = re.compile(r".*/whl(?:/nightly|/test)?/(?:cpu|cu\d+|rocm[\d.]+|xpu)[\w.-]*/?")

Has = Callable[[str, str], bool]
"""(index name, package) → whether the spec's index of this name has releases of it. Raises IndexFailure."""


class Unsaid(Struct, frozen=True, order=True):
    """A package that a named index has and for which the spec names no index.

    path   from a package of that index to this one, both included; the name alone if the path isn't known
    taken  the version taken from PyPI, None if none was
    """

    name: str
    index: str
    path: tuple[str, ...]
    taken: str | None


class SourcesUnsaid(AnswerNo):
    """The solution has packages for which the spec must name an index."""

    def __init__(self, unsaid: Mapping[Unsaid, Sequence[str]], sources: Mapping[str, str]) -> None:
        """`unsaid` has the targets of each, `sources` the spec's sources."""
        first: dict[str, Unsaid] = {}
        for package in sorted(unsaid):
            first.setdefault(package.name, package)
        names = [f'"{index}"' for index in sorted({package.index for package in first.values()})]
        has = f"the index {names[0]} has" if len(names) == 1 else f"the indexes {', '.join(names)} have"
        targets = sorted({target for group in unsaid.values() for target in group})
        lines = {**sources, **{package.name: package.index for package in first.values()}}
        # which index is trusted is the user's word: nothing of one is asked for before
        change = Way(sources=tuple(sorted(lines.items())))
        super().__init__(
            f"{', '.join(targets)}: {has} packages that the solution needs, and [pip] sources doesn't say which index "
            f"to use: {'; '.join(map(_line, first.values()))}",
            hint=f'if these indexes are where the packages are to come from, {change.text}; write "pypi" to take a '
            "package from PyPI instead; if an index mirrors all of PyPI, set it as the default index, not in the spec",
        )
        self.about = tuple(dict.fromkeys(name for package in first.values() for name in (*package.path, package.name)))
        self.targets = tuple(targets)


def _line(package: Unsaid) -> str:
    notes = [" → ".join(package.path)] if len(package.path) > 1 else []
    if package.taken:
        notes.append(f"PyPI has {package.taken}")
    return f"{package.name} ({'; '.join(notes)})" if notes else package.name


def refuse_unsaid(
    answers: Mapping[Request, Resolution],
    groups: Mapping[Request, tuple[str, ...]],
    has: Has,
    again: Callable[[Request, Request], Resolution],
) -> None:
    """Raise SourcesUnsaid for all names of all targets at once.

    `again` solves a request anew, with more sources: the private packages' own requirements are then asked for in the
    same run, too. Raises IndexFailure where an index doesn't answer.
    """
    unsaid: dict[Unsaid, list[str]] = {}
    for request, answer in answers.items():
        wider = request
        more = _unsaid(wider, answer, has)
        while more:
            for hit in more:
                unsaid.setdefault(hit, []).extend(groups[request])
            wider = replace(
                wider, sources=tuple(sorted({**dict(wider.sources), **{hit.name: hit.index for hit in more}}.items()))
            )
            try:
                more = _unsaid(wider, again(request, wider), has)
            except EnvspecError:
                # what is known so far is refused all the same
                break
    _refuse(unsaid, answers)


def refuse_unsaid_builds(groups: Mapping[Request, tuple[str, ...]], has: Has) -> None:
    """Raise SourcesUnsaid for names that may be built, that a named index in use has and that have no source: uv's
    first question about such a name runs its code, before any answer shows the path to it. Raises IndexFailure."""
    unsaid: dict[Unsaid, list[str]] = {}
    for request, targets in groups.items():
        sources = dict(request.sources)
        names = [name for name in request.allow_source if name not in sources and name not in request.public]
        for hit in _those_had({(name, index): (name,) for name in names for index in set(sources.values())}, {}, has):
            unsaid.setdefault(hit, []).extend(targets)
    _refuse(unsaid, groups)


def _refuse(unsaid: Mapping[Unsaid, Sequence[str]], requests: Iterable[Request]) -> None:
    if unsaid:
        sources = {name: index for request in requests for name, index in request.sources}
        public = {name: PUBLIC for request in requests for name in request.public}
        raise SourcesUnsaid(unsaid, {**sources, **public})


def _unsaid(request: Request, answer: Resolution, has: Has) -> list[Unsaid]:
    taken = {package.name: package.version for package in answer.packages if package.files}
    silent = taken.keys() - dict(request.sources).keys() - set(request.public)
    ways = {}
    for index in sorted({index for _, index in request.sources}):
        roots = (name for name, source in request.sources if source == index and name in answer.edges)
        paths = shortest_paths(roots, answer.list_dependencies)
        ways.update({(name, index): path for name, path in paths.items() if name in silent})
    return _those_had(ways, taken, has)


def _those_had(
    ways: Mapping[tuple[str, str], tuple[str, ...]], taken: Mapping[str, str | None], has: Has
) -> list[Unsaid]:
    with Pool(_WORKERS) as pool:
        answers = list(pool.map(lambda way: has(way[1], way[0]), ways))
    return [
        Unsaid(name, index, path, taken.get(name))
        for ((name, index), path), held in zip(ways.items(), answers, strict=True)
        if held
    ]


def is_pytorch(url: str) -> bool:
    """Return whether a named index is one of PyTorch's, or a mirror with its paths. These have copies of their
    packages' requirements, all of them public."""
    return _PYTORCH.fullmatch(url) is not None
