"""uv.lock (version 1): universal, with the edges and their markers; the project's own packages are its roots.

An edge names the version that it leads to where the file has several. So the packages of an environment are found as uv
finds them: from the roots with the chosen extras and groups along the edges whose markers hold. Where extras or groups
conflict, uv writes the active ones into markers, as extras that no package has: `extra == 'extra-7-project-cu12'`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.redact import without_credentials
from envspec.lock.formats.foreign.selection import Choice, Offers, Selection
from envspec.lock.formats.foreign.shape import (
    artifact,
    digest,
    file_name,
    index_name,
    optional,
    sequence,
    string,
    strings,
    table,
    tables,
)
from envspec.lock.formats.foreign.universal import Environment, UniversalPackage, holds, lock_of_environments
from envspec.lock.model import Artifact, GitSource, Lock, Pin
from envspec.packages.edges import reach
from envspec.packages.requirement import canonical_name
from envspec.packages.tags import marker_environment

_LOCAL = ("virtual", "editable", "directory", "path")


class _Edge(Struct, frozen=True):
    """A reference to a package. Version and source are set where the file has several packages of the name."""

    name: str
    extras: tuple[str, ...]
    marker: str | None
    version: str | None
    source: object


class _Package(Struct, frozen=True, eq=False):
    entry: UniversalPackage
    local: bool
    source: object
    edges: tuple[_Edge, ...]
    extras: Mapping[str, tuple[_Edge, ...]]
    groups: Mapping[str, tuple[_Edge, ...]]


def read(data: Mapping[str, Any]) -> UvLock:
    """Return the document's packages. Raises Malformed."""
    packages = tuple(_package(row) for row in tables(data.get("package"), "package"))
    manifest = table(data.get("manifest"), "manifest")
    members = {canonical_name(name) for name in strings(manifest.get("members"), "members")}
    roots = [package for package in packages if package.local and (not members or package.entry.name in members)]
    # what a script or a workspace asks for without being a package
    requirements = tuple(map(_edge, tables(manifest.get("requirements"), "requirements")))
    groups = _edges_by_name(manifest, "dependency-groups")
    if requirements or groups:
        roots.append(_Package(UniversalPackage("", "0", ""), True, None, requirements, {}, groups))
    return UvLock(
        packages,
        tuple(roots),
        _offers(roots, sequence(data.get("conflicts"), "conflicts")),
        optional(data.get("requires-python"), "requires-python"),
        strings(data.get("supported-markers"), "supported-markers"),
    )


def _offers(roots: Iterable[_Package], conflicts: list[Any]) -> Offers:
    named = {root.entry.name: root for root in roots}
    extras = tuple(dict.fromkeys(extra for root in named.values() for extra in root.extras))
    groups = tuple(dict.fromkeys(group for root in named.values() for group in root.groups))
    implied: dict[Choice, frozenset[Choice]] = {}
    for root in named.values():
        for kind, listed in (("extra", root.extras), ("group", root.groups)):
            for name, edges in listed.items():
                more = (Choice("extra", extra) for edge in edges if edge.name in named for extra in edge.extras)
                choice = Choice(kind, name)
                implied[choice] = implied.get(choice, frozenset()) | frozenset(more)
    return Offers(
        extras,
        groups,
        tuple(name for name in named if name),
        tuple(group for group in groups if group == "dev"),
        tuple(frozenset(map(_choice, tables(conflict, "conflicts"))) for conflict in conflicts),
        {choice: brought for choice, brought in implied.items() if brought},
    )


def _choice(entry: Mapping[str, Any]) -> Choice:
    """Return an entry of a set of conflicts. An extra or a group counts for each member of the workspace that has
    it."""
    for kind in ("extra", "group"):
        if kind in entry:
            return Choice(kind, canonical_name(string(entry[kind], kind)))
    return Choice("package", canonical_name(string(entry.get("package"), "package")))


class UvLock(Struct, frozen=True):
    """A whole file. `roots` are the packages of the project itself, or of its workspace; `supported` are the markers of
    its `tool.uv.environments`."""

    packages: tuple[_Package, ...]
    roots: tuple[_Package, ...]
    offers: Offers
    python: str | None
    supported: tuple[str, ...] = ()
    _by_name: dict[str, list[_Package]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for package in self.packages:
            self._by_name.setdefault(package.entry.name, []).append(package)

    def lock(self, environments: Iterable[Environment]) -> Lock:
        """Return the packages of each environment. Raises Malformed."""
        return lock_of_environments(environments, lambda environment: _Walk(self, environment).run())

    def candidates(self, edge: _Edge) -> list[_Package]:
        """Return the packages that an edge may lead to: one, except in files that were edited by hand."""
        packages = self._by_name.get(edge.name, [])
        if len(packages) > 1 and edge.version is not None:
            packages = [package for package in packages if package.entry.version == edge.version]
        if len(packages) > 1 and edge.source is not None:
            packages = [package for package in packages if package.source == edge.source] or packages
        return packages


class _Walk:
    """One environment's traversal of the file."""

    def __init__(self, lock: UvLock, environment: Environment) -> None:
        self.lock, self.environment = lock, environment
        self.variables = marker_environment(environment.platform, environment.python)
        self.active: frozenset[str] = frozenset()

    def run(self) -> tuple[tuple[str, ...], dict[str, Pin]]:
        """Return the requirements of the roots, and the pins by name."""
        selection = self.environment.selection
        roots = [root for root in self.lock.roots if _is_selected(root, selection)]
        self.active = frozenset(_active_choices(roots, selection))
        while True:
            reached, requirements = self._closure(roots)
            more = self.active.union(*(_extras_of(package.entry.name, extras) for package, extras in reached.items()))
            if more == self.active:
                break
            # a package's extra may switch markers elsewhere: until nothing new is asked for
            self.active = more
        direct = {edge.name for edge in requirements}
        pins = {
            package.entry.name: self._pin(package, extras, package.entry.name in direct)
            for package, extras in reached.items()
            if not package.local
        }
        lines = (_line(edge) for edge in requirements if edge.name in pins)
        return tuple(dict.fromkeys(lines)) or tuple(sorted(pins)), pins

    def _closure(self, roots: list[_Package]) -> tuple[dict[_Package, frozenset[str]], list[_Edge]]:
        """Return every package reached, with its requested extras, and what the local packages require."""
        selection = self.environment.selection
        starts = [(root, selection.extras & root.extras.keys()) for root in roots]
        if not self.lock.roots:
            starts = [(package, frozenset()) for package in self.lock.packages if self._is_in_fork(package)]
        own = frozenset(roots)
        requirements: list[_Edge] = []

        def following(
            package: _Package, added: frozenset[str], first: bool
        ) -> Iterator[tuple[_Package, frozenset[str]]]:
            edges = list(self._holding(package, added) if first else self._of_extras(package, added))
            if first and package in own:
                groups = (package.groups[name] for name in package.groups if name in selection.groups)
                edges += [edge for group in groups for edge in group if self._holds(edge)]
            if package.local:
                requirements.extend(edges)
            return ((candidate, frozenset(edge.extras)) for edge in edges for candidate in self._at(edge))

        return reach(starts, following), requirements

    def _at(self, edge: _Edge) -> list[_Package]:
        candidates = self.lock.candidates(edge)
        if len(candidates) > 1:
            # nothing says which: the last of those whose fork is this one's
            candidates = [package for package in candidates if self._is_in_fork(package)][-1:]
        return candidates

    def _is_in_fork(self, package: _Package) -> bool:
        markers = package.entry.markers
        return not markers or any(holds(marker, self.variables, self.active) for marker in markers)

    def _holding(self, package: _Package, extras: frozenset[str]) -> Iterator[_Edge]:
        yield from (edge for edge in package.edges if self._holds(edge))
        yield from self._of_extras(package, extras)

    def _of_extras(self, package: _Package, extras: frozenset[str]) -> Iterator[_Edge]:
        for extra in sorted(extras & package.extras.keys()):
            yield from (edge for edge in package.extras[extra] if self._holds(edge))

    def _holds(self, edge: _Edge) -> bool:
        if edge.marker is None:
            return True
        active = self.active.union(_extras_of(edge.name, edge.extras)) if edge.extras else self.active
        return holds(edge.marker, self.variables, active)

    def _pin(self, package: _Package, extras: frozenset[str], direct: bool) -> Pin:
        """Make a pin. Its requirements are those that hold here, so their only markers are the extras that bring
        them."""
        lines = [_line(edge) for edge in package.edges if self._holds(edge)]
        for extra in sorted(extras & package.extras.keys()):
            lines += [f"{_line(e)}; extra == '{extra}'" for e in package.extras[extra] if self._holds(e)]
        entry = replace(package.entry, requires=tuple(dict.fromkeys(lines)), direct=direct)
        return entry.pin(self.environment)


def _is_selected(root: _Package, selection: Selection) -> bool:
    return selection.packages is None or not root.entry.name or root.entry.name in selection.packages


def _active_choices(roots: Iterable[_Package], selection: Selection) -> Iterator[str]:
    """Return the active choices as uv writes them into markers."""
    for root in roots:
        name = root.entry.name
        yield f"project-{len(name)}-{name}"
        yield from _extras_of(name, selection.extras & root.extras.keys())
        yield from (f"group-{len(name)}-{name}-{group}" for group in selection.groups & root.groups.keys())


def _extras_of(name: str, extras: Iterable[str]) -> Iterator[str]:
    return (f"extra-{len(name)}-{name}-{extra}" for extra in extras)


def _line(edge: _Edge) -> str:
    return f"{edge.name}[{','.join(edge.extras)}]" if edge.extras else edge.name


def _package(document: Mapping[str, Any]) -> _Package:
    name = canonical_name(string(document.get("name"), "name"))
    source = table(document.get("source"), f"the source of {name}")
    return _Package(
        entry=_entry(document, name, source),
        local=any(key in source for key in _LOCAL),
        source=source,
        edges=tuple(map(_edge, tables(document.get("dependencies"), "dependencies"))),
        extras=_edges_by_name(document, "optional-dependencies"),
        # uv 0.4.27 to 0.5.0 called groups dev-dependencies, and later releases still read that name
        groups=_edges_by_name(document, "dev-dependencies" if "dev-dependencies" in document else "dependency-groups"),
    )


def _edges_by_name(document: Mapping[str, Any], key: str) -> dict[str, tuple[_Edge, ...]]:
    listed = table(document.get(key), key)
    return {canonical_name(name): tuple(map(_edge, tables(edges, name))) for name, edges in listed.items()}


def _edge(document: Mapping[str, Any]) -> _Edge:
    return _Edge(
        canonical_name(string(document.get("name"), "a dependency's name")),
        tuple(map(canonical_name, strings(document.get("extra", document.get("extras")), "extra"))),
        optional(document.get("marker"), "marker"),
        optional(document.get("version"), "version"),
        document.get("source"),
    )


def _entry(package: Mapping[str, Any], name: str, source: Mapping[str, Any]) -> UniversalPackage:
    git = _git(string(source["git"], "git")) if "git" in source else None
    url = without_credentials(string(source["url"], "url")) if "url" in source else None
    index = "git" if git else "url" if url else index_name(optional(source.get("registry"), "registry"))
    return UniversalPackage(
        name,
        string(package.get("version", "0"), f"the version of {name}"),
        index,
        () if git else tuple(_files(package)),
        (),
        strings(package.get("resolution-markers"), "resolution-markers"),
        git=git,
        url=url,
    )


def _files(package: Mapping[str, Any]) -> Iterator[Artifact]:
    listed = [
        *tables(package.get("wheels"), "wheels"),
        *([table(package["sdist"], "sdist")] if "sdist" in package else []),
    ]
    for file in listed:
        where = next((file[key] for key in ("url", "path", "filename") if key in file), "")
        yield artifact(file_name(string(where, "url")), digest(optional(file.get("hash"), "hash")), file.get("size"))


def _git(text: str) -> GitSource:
    """Parse `https://host/repo.git?subdirectory=x&rev=v1#commit`."""
    url, _, commit = text.partition("#")
    base, _, query = url.partition("?")
    folder = re.search(r"(?:^|&)subdirectory=([^&]+)", query)
    return GitSource(without_credentials(base), commit, folder[1] if folder else None)
